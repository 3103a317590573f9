#!/bin/bash
# Shards on Ray, of which one worker is killed while it works: the merged report is that of a single command, byte for byte.
#
#   pip install ray && tools/jobs/ray_test.sh [PARITY [PYTHON]]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
parity=$(realpath "$(command -v "${1:-parity}")")
python=${2:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# What the workers run: each shard says which process it is, and takes a second.
cat > slow <<END
#!/bin/bash
if [ "\$1" = verify ]; then echo "\$PPID" > "$folder/\$\$.worker"; sleep 2; rm "$folder/\$\$.worker"; echo >> "$folder/done"; fi
exec "$parity" "\$@"
END
chmod +x slow

"$parity" verify m3-gqa4-f32 --json single.json > /dev/null
"$python" "$here/ray_shards.py" --shards 4 --parity "$folder/slow" --json merged.json -- m3-gqa4-f32 > said &
ray=$!
# Four shards on two workers or more: the first that is seen dies with what it began.
until worker=$(cat ./*.worker 2> /dev/null | head -n 1) && [ -n "$worker" ]; do
    kill -0 "$ray" || { echo "no shard was begun"; exit 1; }
    sleep 0.05
done
kill -9 "$worker"
wait "$ray"
cmp single.json merged.json
tail -n 1 said
echo "worker $worker was killed, $(wc -l < done) shards ran to their end, and the report is the same"
