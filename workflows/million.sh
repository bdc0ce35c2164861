#!/usr/bin/env bash
# A million nodes: how a method converges there, what it costs against n at equal data in all, and against K.
#
#   workflows/million.sh small    up to 10^4 nodes, 10^5 rows, K up to 100: minutes
#   workflows/million.sh full     up to 10^6 nodes, 10^7 rows, K up to 1,000: about an hour on two cores
#
# Costs are told until F - F* stays below 1, 10, 100, ...: F is a sum over nodes, so that 0.01 n is the same for every n.
# What follows is handed to dtoken, as in: workflows/million.sh small algorithm=dvr
# Interrupted, it continues when it is started again. Leaves runs/million-SIZE/{run,nodes,tokens} and the report of all.
set -euo pipefail
size="${1:?give small or full}"
shift

case "$size" in
    small) most=10000 counts=100,1000,10000 tokens=1,10,100 many=100 accuracies=1,10,100,1000 ;;
    full) most=1000000 counts=100,1000,10000,100000,1000000 tokens=1,10,100,1000 many=1000
        accuracies=1,10,100,1000,10000,100000 ;;
    *) echo "$size is not known; give small or full" >&2; exit 2 ;;
esac
runs="runs/million-$size"
common=(data=synthetic "data.rows=$((10 * most))" data.features=50 data.density=0.1 problem.sigma=1e-2
    graph=random_regular graph.degree=10 algorithm=tvr algorithm.smoothness=theory stop.passes=20 record.every_passes=1
    record.sample=20000 record.tokens=50 "record.accuracies=[$accuracies]")
sweep=(hydra.launcher.workers=1)
dtoken "${common[@]}" "nodes=$most" "algorithm.tokens=$many" "hydra.run.dir=$runs/run" "$@"
dtoken -m "${common[@]}" "nodes=$counts" algorithm.tokens=10 "${sweep[@]}" "hydra.sweep.dir=$runs/nodes" "$@"
dtoken -m "${common[@]}" "nodes=$most" "algorithm.tokens=$tokens" "${sweep[@]}" "hydra.sweep.dir=$runs/tokens" "$@"
dtoken-report "$runs/run" "$runs/nodes" "$runs/tokens" --output "$runs/report"
