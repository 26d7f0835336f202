#!/usr/bin/env bash
# A node that is lost without a word, as by a cable that is pulled: the ranks of others get an error that names its rank.
#
#   benches/store/lost_node.sh        (root and iproute2)
#
# Three hosts are network namespaces behind one switch; the cable of host 1 is cut while rank 0 reads, and then while all ranks
# gather much. Fails where that takes longer than 5 s and what a loaded machine adds.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=${TCP_READS:-}
if [ -z "$program" ]; then
    cargo build --release --quiet -p forebay-tcp --example tcp_reads
    program=${CARGO_TARGET_DIR:-target}/release/examples/tcp_reads
fi
prefix=fbl$$
folder=$(mktemp -d)
pids=()

finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for host in 0 1 2 sw; do ip netns del "$prefix-$host" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap finish EXIT

ip netns add "$prefix-sw"
ip -n "$prefix-sw" link add br0 type bridge
ip -n "$prefix-sw" link set br0 up
for host in 0 1 2; do
    ip netns add "$prefix-$host"
    ip -n "$prefix-$host" link set lo up
    ip -n "$prefix-$host" link add eth0 type veth peer name "port$host" netns "$prefix-sw"
    ip -n "$prefix-$host" addr add "10.98.0.$((host + 1))/24" dev eth0
    ip -n "$prefix-$host" link set eth0 up
    ip -n "$prefix-sw" link set "port$host" master br0 up
done
lose() { # NAME WORK: what the ranks do while host 1 is lost
    mkdir "$folder/$1"
    pids=()
    for rank in 0 1 2; do
        ip netns exec "$prefix-$rank" "$program" "$rank" 3 "$folder/$1" 10.98.0.1 "$2" >"$folder/$1/output-$rank" 2>&1 &
        pids+=($!)
    done
    received() { ip netns exec "$prefix-0" cat /sys/class/net/eth0/statistics/rx_bytes; }
    local before bytes cut took
    before=$(received)
    # Until bytes flow.
    for _ in $(seq 300); do
        bytes=$(($(received) - before))
        [ "$bytes" -gt 50000000 ] && break
        sleep 0.1
    done
    [ "$bytes" -gt 50000000 ] || { cat "$folder/$1"/output-*; exit 1; }
    cut=$(date +%s%N)
    ip -n "$prefix-sw" link set port1 down
    wait "${pids[0]}" || true
    took=$((($(date +%s%N) - cut) / 1000000))
    grep -h "^rank 1" "$folder/$1/output-0" || { cat "$folder/$1/output-0"; exit 1; }
    echo "$1: noticed after $took ms"
    [ "$took" -lt 6000 ]
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait "${pids[@]}" 2>/dev/null || true
    ip -n "$prefix-sw" link set port1 up
}
lose reads 60
lose gathers gather
