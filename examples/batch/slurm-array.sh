#!/bin/bash
# Workers as an array of Slurm jobs: JOEY_BATCH_STORE=postgresql://… sbatch examples/batch/slurm-array.sh
# Queue the list first: joey batch run items.jsonl -o out --store "$JOEY_BATCH_STORE" --no-wait
#SBATCH --job-name=joey
#SBATCH --array=1-8
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --time=12:00:00
#SBATCH --signal=B:TERM@60
#SBATCH --requeue
set -euo pipefail
: "${JOEY_BATCH_STORE:?set it to the address of the store}"
joey worker --store "$JOEY_BATCH_STORE" --width "${SLURM_CPUS_PER_TASK:-4}" --until-empty --may "${JOEY_MAY:-all}" &
worker=$!
trap 'kill -TERM "$worker"' TERM INT
status=0
wait "$worker" || status=$?
# After a signal the first wait ends early; the worker hands its items over.
wait "$worker" || status=$?
exit "$status"
