#!/usr/bin/env bash
# Verifies a built-in case from an S3 server, moto's, in a virtual environment; then compares dumps of so many MB, by
# default 64, from there, next to the time that it takes to read them.
#
#   tools/remote/moto.sh target/release/parity 1000      # built with --features remote
set -euo pipefail
parity=$(realpath "$1")
size=${2:-64}
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT

python3 -m venv "$folder/environment"
"$folder/environment/bin/pip" install --quiet 'moto[server]==5.*' boto3
"$folder/environment/bin/moto_server" --host 127.0.0.1 --port 5055 > "$folder/log" 2>&1 &
server=$!

export AWS_ACCESS_KEY_ID=testing AWS_SECRET_ACCESS_KEY=testing AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
export AWS_ENDPOINT=http://127.0.0.1:5055 PARITY_CACHE="$folder/cache"
"$folder/environment/bin/python" - "$size" << 'PYTHON'
import json, os, pathlib, sys, time
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

# Two dumps of layers of 16 MiB in bf16, the second with other values.
layers, bytes_of_layer = max(1, int(sys.argv[1]) * 10**6 >> 24), 1 << 24
place = lambda layer: {"dtype": "BF16", "shape": [1 << 11, 1 << 12],
                       "data_offsets": [layer * bytes_of_layer, (layer + 1) * bytes_of_layer]}
header = json.dumps({f"model.layers.{layer}": place(layer) for layer in range(layers)}).encode()
for name, value in {"a": b"\x80\x3f", "b": b"\x81\x3f"}.items():
    body = len(header).to_bytes(8, "little") + header + value * (layers * bytes_of_layer // 2)
    store.put_object(Bucket="bucket", Key=f"{name}.safetensors", Body=body)

began = time.perf_counter()
for name in "ab":
    body = store.get_object(Bucket="bucket", Key=f"{name}.safetensors")["Body"]
    while body.read(1 << 23):
        pass
print(f"reading both dumps took {time.perf_counter() - began:.2f} s")
PYTHON

time "$parity" diff s3://bucket/a.safetensors s3://bucket/b.safetensors
case=s3://bucket/case
"$parity" show $case/model
for layers in 0..1 0..; do
    rm -rf "$PARITY_CACHE"
    "$parity" verify $case/model $case/expected.safetensors --layers "$layers" --lens local --tokens @$case/case.json
    du -sh "$PARITY_CACHE"
done
