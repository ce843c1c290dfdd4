#!/bin/bash
# Reduces the traces of a job on the nodes of a Slurm cluster, then makes one report of them.
#
#   TRACES=/shared/run-17 OUT=/shared/run-17-report TASKS=16 ./slurm.sh
#
# TRACES  folder of traces and logs, seen by all nodes
# OUT     where the report goes; the digests go to $OUT/digests
# TASKS   how many tasks share the traces; each takes every TASKS-th file (default 8)
# Further arguments are passed to sbatch: partition, account, time. GPUREPORT names the program if it is not in PATH.
set -euo pipefail
: "${TRACES:?folder of traces and logs}" "${OUT:?folder for the report}"
export TRACES OUT TASKS="${TASKS:-8}" GPUREPORT="${GPUREPORT:-gpureport}"
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$OUT/digests" "$OUT/logs"

digests=$(sbatch --parsable --export=ALL --array="1-$TASKS" --output="$OUT/logs/digest-%a.log" "$@" "$here/digest.sbatch")
report=$(sbatch --parsable --export=ALL --dependency="afterok:${digests%%;*}" --kill-on-invalid-dep=yes --output="$OUT/logs/analyze.log" "$@" "$here/analyze.sbatch")
echo "digests: job ${digests%%;*}, report: job ${report%%;*}, then $OUT/report.html"
