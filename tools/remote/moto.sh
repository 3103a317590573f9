#!/usr/bin/env bash
# Verifies a built-in case from an S3 server, moto's, in a virtual environment, and says how much of it was fetched.
#
#   tools/remote/moto.sh target/release/parity     # built with --features remote
set -euo pipefail
parity=$(realpath "$1")
cd "$(dirname "$0")/../.."
source tools/remote/store.sh

golden=fixtures/golden/m2-gqa3-f32
find $golden -type f -printf '%p\tcase/%P\n' | upload

case=s3://bucket/case
"$parity" diff $case/expected.safetensors $case/expected.safetensors --limit 0
"$parity" show $case/model
for layers in 0..1 0..; do
    rm -rf "$PARITY_CACHE"
    "$parity" verify $case/model $case/expected.safetensors --layers "$layers" --lens local --tokens @$case/case.json
    du -sh "$PARITY_CACHE"
done
