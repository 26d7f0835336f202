#!/usr/bin/env bash
# Tests of ranks under one MPI: test-mpi.sh NAME RANKS… [-- CHECK…], as `test-mpi.sh mpich5 1 2 4`; scripts/mpi.sh has the names.
# Checks are those of crates/ranks/mpi/examples/mpi_ranks.rs; without any, those that every change has to pass.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

usage="usage: test-mpi.sh NAME RANKS… [-- CHECK…]"
name=${1:-}
[[ -n $name ]] || die "$usage"
shift
declare -a counts=() checks=(contract handle dropped fork closing stopped threads-below-multiple)
while [[ $# -gt 0 && $1 != -- ]]; do
    [[ $1 =~ ^[0-9]+$ ]] || die "$usage"
    counts+=("$1")
    shift
done
[[ ${#counts[@]} -gt 0 ]] || die "$usage"
if [[ ${1:-} == -- ]]; then
    shift
    checks=("$@")
fi

use_cache
found=$("$ROOT/scripts/mpi.sh" "$name")
IFS=$'\t' read -r _ launcher library <<<"$found"
# FOREBAY_MPI_PROGRAM names a program that is built already.
program=${FOREBAY_MPI_PROGRAM:-}
if [[ -z $program ]]; then
    profile=${FOREBAY_MPI_PROFILE:-dev}
    (cd "$ROOT" && cargo build --quiet --profile "$profile" -p forebay-mpi --features baseline --example mpi_ranks)
    program=$CARGO_TARGET_DIR/${profile/dev/debug}/examples/mpi_ranks
fi

# Ranks poll while they wait. With more of them than processors, each has to let the others run.
case $name in
openmpi4) run=("$launcher" --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1) ;;
openmpi5) run=("$launcher" --allow-run-as-root --map-by :OVERSUBSCRIBE --mca mpi_yield_when_idle 1) ;;
mpich5*) run=("$launcher") ;;
*) die "$usage" ;;
esac
# Those that check what becomes of the others when one is killed: the launcher must not end them.
case $name in
openmpi4) spare=(--enable-recovery) ;;
openmpi5) spare=(--runtime-options "recoverable,notifyerrors") ;;
mpich5*) spare=(-disable-auto-cleanup) ;;
esac
# Hydra tells the others of it by SIGUSR1, which ends those that do not expect it, and ends them itself when a rank fails.
forgive() {
    trap '' USR1
    "$@" || true
}
export -f forgive
export FOREBAY_MPI_LIBRARY=$library
# Whether a rank of the same host that computes is read by gets: Open MPI 4.1 copies its memory by a system call.
case $name in
openmpi4) export MPI_RANKS_PROGRESS=yes ;;
*) export MPI_RANKS_PROGRESS=no ;;
esac
for count in "${counts[@]}"; do
    for check in "${checks[@]}"; do
        declare -a flags=() command=("$program" "$check")
        # How many ranks report what they waited for; the launcher's status then says nothing.
        reports=0
        case $check in
        deadline) reports=1 ;;
        kill*)
            reports=$((count - 1))
            flags=("${spare[@]}")
            if [[ $name == mpich5* ]]; then command=(bash -c 'forgive "$@"' _ "${command[@]}"); fi
            ;;
        esac
        if [[ $count -eq 1 && $check =~ ^(deadline|kill.*)$ ]]; then continue; fi
        say "$name, $count ranks: $check"
        status=0 started=$SECONDS
        output=$(timeout --kill-after=10 300 "${run[@]}" "${flags[@]}" -n "$count" "${command[@]}" 2>&1 </dev/null) || status=$?
        printf '%s\n' "$output"
        if [[ $reports -gt 0 ]]; then
            reported=$(grep -cE 'after .* s: |does not return: rank' <<<"$output" || true)
            [[ $reported -eq $reports && $((SECONDS - started)) -lt 60 ]] ||
                die "$name, $count ranks: $check: $reported of $reports ranks ended in time, after $((SECONDS - started)) s"
        else
            [[ $status -eq 0 ]] || die "$name, $count ranks: $check ended with status $status"
        fi
    done
done
