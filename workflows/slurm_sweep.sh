#!/usr/bin/env bash
# A sweep on a SLURM cluster, from a login node to a report. Copy it, and change what is yours: the first lines.
#
#   ./slurm_sweep.sh            checks everything, then submits the sweep and returns; you may log out
#   ./slurm_sweep.sh status     how far it is (any time, from any login node)
#   ./slurm_sweep.sh resume     submits again what is missing or failed
#   ./slurm_sweep.sh report     one page about all runs that are there
#
# Needs dtoken in a virtual environment that all nodes see (docs/hpc.md).
set -euo pipefail

PARTITION=${PARTITION:-}             # empty: the default one
WORKERS=${WORKERS:-8}                # runs at a time
WALLTIME=${WALLTIME:-02:00:00}       # of one job of workers, not of the sweep
SWEEP=${SWEEP:-$PWD/tokens}          # all nodes must see it
export DTOKEN_STORE=${DTOKEN_STORE:-$PWD/stores}

cluster=(cluster=slurm "cluster.workers=$WORKERS" "cluster.walltime=$WALLTIME" cluster.memory=2GB)
[ -z "$PARTITION" ] || cluster+=("cluster.queue=$PARTITION")
# How the number of tokens changes the cost, for three seeds: 12 runs.
runs=(data=rcv1_like data.rows=20000 nodes=20 algorithm=token algorithm.tokens=1,4,8,16 seed=1,2,3
    stop.suboptimality=1e-6 stop.passes=300)

case ${1:-submit} in
    submit)
        dtoken-sweep dry-run "${cluster[@]}" "${runs[@]}"
        dtoken-sweep submit "${cluster[@]}" "${runs[@]}" "hydra.sweep.dir=$SWEEP"
        ;;
    resume) dtoken-sweep submit "${cluster[@]}" "${runs[@]}" "hydra.sweep.dir=$SWEEP" ;;
    status) dtoken-sweep status "$SWEEP" ;;
    report) dtoken-report "$SWEEP" ;;
    *) sed -n '2,8p' "$0"; exit 2 ;;
esac
