#!/usr/bin/env bash
# Ranks on emulated hosts: mpi_namespaces.sh RANKS CHECK…, one rank in each of RANKS network namespaces joined by a switch, under MPICH
# over TCP. The bytes that the interfaces counted are compared with those that ranks read: nothing goes past the wire. Needs root.
# Checks are those of crates/ranks/mpi/examples/mpi_ranks.rs.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/env.sh"
use_tree "$@"

[[ $# -ge 2 && $1 =~ ^[0-9]+$ ]] || die "usage: mpi_namespaces.sh RANKS CHECK…"
count=$1
shift
[[ $EUID -eq 0 ]] || die "network namespaces need root"
command -v ip >/dev/null || install_packages iproute2

use_cache
found=$("$ROOT/scripts/mpi.sh" mpich5)
IFS=$'\t' read -r _ launcher library <<<"$found"
# FOREBAY_MPI_PROGRAM names a program that is built already.
program=${FOREBAY_MPI_PROGRAM:-}
if [[ -z $program ]]; then
    profile=${FOREBAY_MPI_PROFILE:-release}
    (cd "$ROOT" && cargo build --quiet --profile "$profile" -p forebay-mpi --features baseline --example mpi_ranks)
    program=$CARGO_TARGET_DIR/${profile/dev/debug}/examples/mpi_ranks
fi

# Names of this run alone; nothing of them is left when it ends.
run=fb$$
work=$(mktemp -d)
declare -a hosts=()
clean_up() {
    local host
    for host in "${hosts[@]}" "$run-switch"; do ip netns delete "$host" 2>/dev/null || true; done
    rm -rf "$work"
}
trap clean_up EXIT

ip netns add "$run-switch"
ip -n "$run-switch" link add switch type bridge
ip -n "$run-switch" link set switch up
for ((host = 1; host <= count; host++)); do
    ip netns add "$run-$host"
    hosts+=("$run-$host")
    ip -n "$run-$host" link add eth0 type veth peer name "port$host" netns "$run-switch"
    ip -n "$run-switch" link set "port$host" master switch up
    ip -n "$run-$host" address add "10.77.0.$host/24" dev eth0
    ip -n "$run-$host" link set eth0 up
    ip -n "$run-$host" link set lo up
done

# What the launcher calls instead of ssh: options, a host, a command.
cat >"$work/enter" <<ENTER
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
host=\${1##*.}
shift
exec ip netns exec "$run-\$host" bash -c "\$*"
ENTER
# Ranks of one kernel are told apart by the folder that their sockets are made in. Those that survive another must not end by
# SIGUSR1, by which the launcher tells them, nor may their status have it end the rest.
cat >"$work/rank" <<RANK
#!/usr/bin/env bash
trap '' USR1
mkdir -p "$work/\$PMI_RANK"
export XDG_RUNTIME_DIR=$work/\$PMI_RANK
"\$@"
status=\$?
[[ \$2 == kill* ]] || exit "\$status"
RANK
chmod +x "$work"/{enter,rank}

# Bytes that all hosts have received.
received() {
    local host total=0
    for host in "${hosts[@]}"; do
        total=$((total + $(ip netns exec "$host" cat /sys/class/net/eth0/statistics/rx_bytes)))
    done
    printf '%s' "$total"
}

export FOREBAY_MPI_LIBRARY=$library MPI_RANKS_HOSTS=$count
# MPICH over TCP serves no rank that computes; batches are to be this many times as fast as lock, get, unlock for each sample.
export MPI_RANKS_PROGRESS=no MPI_RANKS_GAIN=2.4
export MPIR_CVAR_NOLOCAL=1 MPIR_CVAR_CH4_NETMOD=ofi FI_PROVIDER=tcp FI_TCP_IFACE=eth0
list=$(seq -f '10.77.0.%g:1' -s, 1 "$count")
for check in "$@"; do
    declare -a flags=()
    if [[ $check == kill* ]]; then flags=(-disable-auto-cleanup); fi
    # A rank that computes is read where MPI has a thread of its own.
    if [[ $check == computing ]]; then export MPIR_CVAR_ASYNC_PROGRESS=1 MPI_RANKS_P99_MS=50; else unset MPIR_CVAR_ASYNC_PROGRESS; fi
    say "$count emulated hosts: $check"
    before=$(received)
    status=0 started=$SECONDS
    output=$(ip netns exec "${hosts[0]}" timeout --kill-after=10 300 "$launcher" -launcher ssh -launcher-exec "$work/enter" \
        -iface eth0 -hosts "$list" "${flags[@]}" -n "$count" "$work/rank" "$program" "$check" 2>&1 </dev/null) || status=$?
    printf '%s\n' "$output"
    counted=$(($(received) - before))
    read_by_one=$(sed -n 's/.*bytes read \([0-9]*\).*/\1/p' <<<"$output")
    printf '  bytes on the wire: %s\n' "$counted"
    if [[ -n $read_by_one ]]; then
        wanted=$((read_by_one * count))
        printf '  bytes that ranks read: %s\n' "$wanted"
        [[ $counted -ge $wanted ]] || die "ranks read $wanted bytes, and only $counted went over the wire"
    fi
    if [[ $check == kill* ]]; then
        reported=$(grep -cE 'after .* s: |does not return: rank' <<<"$output" || true)
        [[ $reported -eq $((count - 1)) && $((SECONDS - started)) -lt 60 ]] || die "$check: $reported ranks ended in time"
    else
        [[ $status -eq 0 ]] || die "$check ended with status $status"
    fi
done
