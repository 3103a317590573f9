#!/bin/bash
# Verifies a dump in N shards, a task of a Slurm array each:
#
#   job=$(sbatch --parsable --array=1-16 tools/jobs/slurm.sh 16 MODEL DUMP --tokens @prompt.json)
#   sbatch --dependency=afterok:$job --wrap 'parity merge shards/*.json --json report.json --html report.html'
#
# The first argument is the number of shards, the others are those of `parity verify`. The folder `shards`, or PARITY_SHARDS,
# must be seen by all nodes. A task that is requeued, or submitted again (--array=3 with the same arguments), goes on where it
# was; the exit code of a shard is 0 whatever it finds, and what it found is told by `parity merge`.
#SBATCH --job-name=parity
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --requeue
set -euo pipefail

shards=$1
shift
folder=${PARITY_SHARDS:-shards}
mkdir -p "$folder"
exec parity verify "$@" --shard "$SLURM_ARRAY_TASK_ID/$shards" \
    --resume "$folder/kept" --json "$folder/$SLURM_ARRAY_TASK_ID.json"
