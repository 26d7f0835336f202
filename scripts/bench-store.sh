#!/usr/bin/env bash
# Speed of the distributed store beside what programs do without one, and beside the limits of the machine:
# bench-store.sh [MPI…], as `bench-store.sh mpich5`; scripts/mpi.sh has the names, and all are measured unless some are named.
# Root measures emulated hosts too.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_tree "$@"

names=("$@")
[[ ${#names[@]} -gt 0 ]] || names=(openmpi4 openmpi5 mpich5)
use_setup
need_packages tests/requirements-python.txt
cd "$ROOT"
cargo build --quiet --release -p forebay-mpi --features baseline --example store_peers --example mpi_ranks
cargo build --quiet --release -p forebay-tcp --example tcp_reads
examples=$CARGO_TARGET_DIR/release/examples

for name in "${names[@]}"; do
    found=$("$ROOT/scripts/mpi.sh" "$name")
    IFS=$'\t' read -r _ launcher library <<<"$found"
    say "$name, 2 ranks of one host"
    declare -a run=("$launcher")
    if [[ $name == openmpi* ]]; then run+=(--allow-run-as-root); fi
    FOREBAY_MPI_LIBRARY=$library "${run[@]}" -n 2 "$examples/store_peers"
done

say "2 ranks of one host, through Python"
wheels=$CARGO_TARGET_DIR/wheels-release
"$ROOT/scripts/wheel.sh" "$wheels"
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
"$FOREBAY_PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target "$site" "$wheels"/forebay-*.whl
PYTHONPATH=$site "$FOREBAY_PYTHON" benches/store/python_batches.py

if [[ $EUID -ne 0 ]]; then
    say "left out: emulated hosts need root"
    exit
fi
for program in ip iperf3; do
    command -v "$program" >/dev/null || install_packages iproute2 iperf3
done
for count in 2 4; do
    say "MPICH between $count emulated hosts"
    FOREBAY_MPI_PROGRAM=$examples/mpi_ranks benches/store/mpi_namespaces.sh "$count" gets
    say "TCP between $count emulated hosts"
    TCP_READS=$examples/tcp_reads benches/store/tcp_namespaces.sh "$count"
done
