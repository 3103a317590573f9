#!/usr/bin/env bash
# Measures how long `diff` takes of two dumps in object storage that is as fast as this machine, over how long they take to
# read from there into a file each, as the cache keeps what was read.
#
#   tools/remote/measure.sh target/release/parity [GB]     # built with --features remote; GB of each dump, 10 if not given
set -euo pipefail
parity=$(realpath "$1")
size=${2:-10}
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
mkdir -p "$folder/objects/bucket"
export AWS_ACCESS_KEY_ID=testing AWS_SECRET_ACCESS_KEY=testing AWS_REGION=us-east-1
export AWS_ENDPOINT=http://127.0.0.1:5056 PARITY_CACHE="$folder/cache"

# Tensors of 256 MB in bf16, in [1, 2), which differ in the last one.
python3 - "$size" "$folder/objects/bucket" << 'PYTHON'
import json, random, sys
from array import array

size, folder = float(sys.argv[1]), sys.argv[2]
width, rows = 4096, 32768
count = max(1, round(size * 1e9 / (2 * width * rows)))
names = [f"model.layers.{layer}.self_attn" for layer in range(count)]
each = 2 * width * rows
header = {
    name: {"dtype": "BF16", "shape": [rows, width], "data_offsets": [i * each, (i + 1) * each]}
    for i, name in enumerate(names)
}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
draw = random.Random(0)
block = array("H", (0x3F80 | draw.getrandbits(7) for _ in range(1 << 20))).tobytes()
for dump in "ab":
    with open(f"{folder}/{dump}.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for i in range(count * each // len(block)):
            file.write(block)
        if dump == "b":
            file.seek(-2, 2)
            file.write(bytes(2))
PYTHON
du -csh "$folder"/objects/bucket/*.safetensors | tail -1
python3 tools/remote/ranges.py "$folder/objects" 5056 &
server=$!
until curl --silent --fail --head --output /dev/null "$AWS_ENDPOINT/bucket/a.safetensors"; do sleep 0.1; done

# Milliseconds that a command takes.
milliseconds() {
    local from=${EPOCHREALTIME/[.,]/}
    "$@" > "$folder/said"
    echo $(((${EPOCHREALTIME/[.,]/} - from) / 1000))
}
read_both() {
    curl --silent --fail --output "$folder/a" "$AWS_ENDPOINT/bucket/a.safetensors" &
    curl --silent --fail --output "$folder/b" "$AWS_ENDPOINT/bucket/b.safetensors"
    wait $!
}

for run in 1 2 3; do
    rm -rf "$PARITY_CACHE"
    reading=$(milliseconds read_both)
    rm "$folder"/[ab]
    diff=$(milliseconds "$parity" diff s3://bucket/a.safetensors s3://bucket/b.safetensors)
    echo "reading $reading ms, diff $diff ms: $((100 * diff / reading)) % of that"
done
