#!/usr/bin/env bash
# Tests of ranks under one MPI: test-mpi.sh NAME RANKS… [-- CHECK…], as `test-mpi.sh mpich5 1 2 4`; scripts/mpi.sh has the names.
# Checks are those of crates/mpi/examples/mpi_ranks.rs; without any, those that every change has to pass.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

usage="usage: test-mpi.sh NAME RANKS… [-- CHECK…]"
name=${1:-}
[[ -n $name ]] || die "$usage"
shift
declare -a counts=() checks=(contract handle dropped)
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
profile=${FOREBAY_MPI_PROFILE:-dev}
(cd "$ROOT" && cargo build --quiet --profile "$profile" -p forebay-mpi --features baseline --example mpi_ranks)
program=$CARGO_TARGET_DIR/${profile/dev/debug}/examples/mpi_ranks

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
openmpi5) spare=(--runtime-options recoverable,notifyerrors) ;;
mpich5*) spare=(-disable-auto-cleanup) ;;
esac
export FOREBAY_MPI_LIBRARY=$library
for count in "${counts[@]}"; do
    for check in "${checks[@]}"; do
        declare -a flags=()
        expected=0
        if [[ $check == kill* ]]; then
            if [[ $count -lt 2 ]]; then continue; fi
            flags=("${spare[@]}")
            expected=any
        fi
        say "$name, $count ranks: $check"
        status=0
        output=$(timeout --kill-after=10 300 "${run[@]}" "${flags[@]}" -n "$count" "$program" "$check" 2>&1) || status=$?
        printf '%s\n' "$output"
        if [[ $expected == any ]]; then
            # The launcher counts the killed rank as a failure: what the others said decides.
            survivors=$(grep -c 'after .* s: rank' <<<"$output" || true)
            [[ $survivors -eq $((count - 1)) && $status -ne 124 && $status -ne 137 ]] ||
                die "$name, $count ranks: $check: $survivors survivors ended in time, status $status"
        else
            [[ $status -eq $expected ]] || die "$name, $count ranks: $check ended with status $status"
        fi
    done
done
