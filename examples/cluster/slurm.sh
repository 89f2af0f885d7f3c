#!/bin/sh
# One shard of a run for each task of an array job: sbatch --array=1-8 slurm.sh -s claude -g grader.py
#SBATCH --job-name=agenteval
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --output=slurm-%A_%a.log
#SBATCH --signal=B:TERM@60
# A minute before the time limit: the tool ends its agents, and the same sbatch command continues where it stopped.
set -eu
mkdir -p shards
exec ae-capture prompts.jsonl --shard slurm -j "${SLURM_CPUS_PER_TASK:-1}" --workspace-dir ws \
    -o "shards/$SLURM_ARRAY_TASK_ID.jsonl" --resume "$@"
