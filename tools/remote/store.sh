# Sourced by the scripts beside it: moto's S3 server in a virtual environment, with a bucket; $folder is theirs, and goes with it.
folder=$(mktemp -d)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT

python3 -m venv "$folder/environment"
"$folder/environment/bin/pip" install --quiet 'moto[server]==5.*' boto3
"$folder/environment/bin/moto_server" --host 127.0.0.1 --port 5055 > "$folder/log" 2>&1 &
server=$!

export AWS_ACCESS_KEY_ID=testing AWS_SECRET_ACCESS_KEY=testing AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
export AWS_ENDPOINT=http://127.0.0.1:5055 PARITY_CACHE="$folder/cache"

# Puts files into the bucket: of each line of the input, what stands before the tab, under the name behind it.
upload() {
    "$folder/environment/bin/python" -c '
import os, sys, time
import boto3

store = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT"])
for attempt in range(50):
    try:
        store.create_bucket(Bucket="bucket")
        break
    except Exception:
        time.sleep(0.2)
for line in sys.stdin:
    file, name = line.rstrip("\n").split("\t")
    store.upload_file(file, "bucket", name)
'
}
