#!/usr/bin/env bash
# Builds the package with the crates that the tests are built from, in a virtual environment, holds its stubs to what was built and
# its types to each other, and runs its tests. FEATURES are those that the tests were given, such as lapack,remote: with others,
# all crates are compiled again.
set -euo pipefail
cd "$(dirname "$0")/../.."

environment=target/python
[ -x $environment/bin/pip ] || python3 -m venv $environment
$environment/bin/pip install --quiet 'maturin>=1.9.4,<2'
rm -rf $environment/wheels
# For this machine alone: a wheel for others would have to be built on an old system.
$environment/bin/maturin build --quiet --locked --profile dev --features "as-tests${FEATURES:+,$FEATURES}" --compatibility linux \
    --manifest-path tools/python/Cargo.toml --out $environment/wheels
wheel=$(echo $environment/wheels/*.whl)
$environment/bin/pip install --quiet "${wheel}[test]"
$environment/bin/pip install --quiet --no-deps --force-reinstall "$wheel"
export MYPY_CACHE_DIR=$environment/mypy
$environment/bin/stubtest parity._native --mypy-config-file tools/python/pyproject.toml
$environment/bin/mypy --config-file tools/python/pyproject.toml tools/python/package/parity
$environment/bin/pytest --quiet -p no:cacheprovider "$@" tools/python/tests
