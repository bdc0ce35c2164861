#!/usr/bin/env bash
# A run whose data are many times its memory, from making the data to a report that shows the memory it used.
#
#   workflows/out_of_core.sh small    340,000 rows, 0.3 GB, in 80 MB: minutes
#   workflows/out_of_core.sh full     3,500,000 rows, 3.2 GB, in 300 MB: about an hour on two cores, most of it for the
#                                     reference optimum, which is computed once per dataset
#
# What follows is handed to dtoken, as in: workflows/out_of_core.sh small engine.read_ahead=false
# Interrupted, it continues when it is started again. Leaves runs/out-of-core-SIZE with its report.
set -euo pipefail
size="${1:?give small or full}"
shift

case "$size" in
    small) rows=340000 memory=80MB ;;
    full) rows=3500000 memory=300MB ;;
    *) echo "$size is not known; give small or full" >&2; exit 2 ;;
esac
run="runs/out-of-core-$size"
dtoken data=rcv1_like "data.rows=$rows" nodes=20 problem.sigma=1e-4 algorithm=tvr algorithm.tokens=4 \
    algorithm.block_rows=64 "engine.memory=$memory" stop.passes=30 record.every_passes=2 "hydra.run.dir=$run" "$@"
dtoken-report "$run"
