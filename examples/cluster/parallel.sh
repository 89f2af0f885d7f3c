#!/bin/sh
# A run on the cores of this machine, or over ssh, with GNU parallel: SHARDS=8 ./parallel.sh -s claude -g grader.py
#
# Several machines that share this directory (NFS): PARALLEL='--sshlogin host1,host2 --workdir .' ./parallel.sh …
# If they do not share it, have parallel copy:
#   PARALLEL='--sshlogin host1,host2 --workdir ... --transferfile prompts.jsonl --return shards/SHARD.jsonl --cleanup'
#   and one more --transferfile for each grader and each other file that the command names
set -u
mkdir -p shards
# -I SHARD: {} is left to --simple, where it stands for the prompt.
seq "${SHARDS:=8}" | parallel -I SHARD --quote --jobs "${JOBS:-$SHARDS}" \
    ae-capture prompts.jsonl --shard "SHARD/$SHARDS" --workspace-dir ws -o "shards/SHARD.jsonl" --resume "$@"
status=$?
ae-merge shards/*.jsonl --prompts prompts.jsonl -o results.jsonl || status=1
exit "$status"
