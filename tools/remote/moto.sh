#!/usr/bin/env bash
# Verifies a built-in case from an S3 server, moto's, in a virtual environment, and says how much of it was fetched.
#
#   tools/remote/moto.sh target/release/parity     # built with --features remote
set -euo pipefail
parity=$(realpath "$1")
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT

python3 -m venv "$folder/environment"
"$folder/environment/bin/pip" install --quiet 'moto[server]==5.*' boto3
"$folder/environment/bin/moto_server" --host 127.0.0.1 --port 5055 > "$folder/log" 2>&1 &
server=$!

export AWS_ACCESS_KEY_ID=testing AWS_SECRET_ACCESS_KEY=testing AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
export AWS_ENDPOINT=http://127.0.0.1:5055 PARITY_CACHE="$folder/cache"
"$folder/environment/bin/python" - << 'PYTHON'
import os, pathlib, time
import boto3

store = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT"])
for attempt in range(50):
    try:
        store.create_bucket(Bucket="bucket")
        break
    except Exception:
        time.sleep(0.2)
case = pathlib.Path("fixtures/golden/m2-gqa3-f32")
for file in case.rglob("*"):
    if file.is_file():
        store.upload_file(str(file), "bucket", f"case/{file.relative_to(case)}")
PYTHON

case=s3://bucket/case
"$parity" diff $case/expected.safetensors $case/expected.safetensors --limit 0
"$parity" show $case/model
for layers in 0..1 0..; do
    rm -rf "$PARITY_CACHE"
    "$parity" verify $case/model $case/expected.safetensors --layers "$layers" --lens local --tokens @$case/case.json
    du -sh "$PARITY_CACHE"
done
