#!/usr/bin/env bash
# Batches of 128 samples of 8 KiB over TCP between hosts that are network namespaces, beside iperf3 in the same ones.
#
#   benches/store/tcp_namespaces.sh [HOSTS [SECONDS [ROUNDS]]]     (root, iproute2 and iperf3; 2 hosts, 3 s, 5 rounds by default)
#
# In every round iperf3 runs, then the store: on a machine that does other things as well the best of each are compared, and the
# median of the rounds. The bytes that the wire carried are counted: a read that took another way would be missing there.
set -euo pipefail
cd "$(dirname "$0")/../.."
hosts=${1:-2}
seconds=${2:-3}
rounds=${3:-5}
program=${TCP_READS:-}
if [ -z "$program" ]; then
    cargo build --release --quiet -p forebay-tcp --example tcp_reads
    program=${CARGO_TARGET_DIR:-target}/release/examples/tcp_reads
fi
prefix=fbt$$
folder=$(mktemp -d)
pids=()

finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for host in $(seq 0 $((hosts - 1))); do ip netns del "$prefix-$host" 2>/dev/null || true; done
    ip netns del "$prefix-sw" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

# One switch, and a cable from it to every host.
ip netns add "$prefix-sw"
ip -n "$prefix-sw" link add br0 type bridge
ip -n "$prefix-sw" link set br0 up
for host in $(seq 0 $((hosts - 1))); do
    ip netns add "$prefix-$host"
    ip -n "$prefix-$host" link set lo up
    ip -n "$prefix-$host" link add eth0 type veth peer name "port$host" netns "$prefix-sw"
    ip -n "$prefix-$host" addr add "10.99.0.$((host + 1))/24" dev eth0
    ip -n "$prefix-$host" link set eth0 up
    ip -n "$prefix-sw" link set "port$host" master br0 up
done
on() {
    local host=$1
    shift
    ip netns exec "$prefix-$host" "$@"
}
received() { on 0 cat /sys/class/net/eth0/statistics/rx_bytes; }

# Not by `on`: a function in the background is a process of its own, and killing that leaves the program.
ip netns exec "$prefix-1" iperf3 -s >/dev/null & pids+=($!)
sleep 0.5
for round in $(seq "$rounds"); do
    # From host 1 to host 0, as the bytes of reads go.
    iperf=$(on 0 iperf3 -c 10.99.0.2 -R -t "$seconds" -J)
    counted=$(received)
    mkdir "$folder/$round"
    for rank in $(seq 1 $((hosts - 1))); do
        ip netns exec "$prefix-$rank" "$program" "$rank" "$hosts" "$folder/$round" 10.99.0.1 "$seconds" & pids+=($!)
    done
    reads=$(on 0 "$program" 0 "$hosts" "$folder/$round" 10.99.0.1 "$seconds")
    counted=$(($(received) - counted))
    echo "$iperf" >"$folder/iperf-$round"
    # shellcheck disable=SC2001  # braces
    echo "$reads" | sed "s/}/, \"wire_bytes\": $counted}/" >"$folder/reads-$round"
done
python3 - "$folder" "$hosts" "$rounds" <<'PY'
import json, statistics, sys
folder, hosts, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
load = lambda name: [json.load(open(f"{folder}/{name}-{number}")) for number in range(1, rounds + 1)]
iperf = [one["end"]["sum_received"]["bits_per_second"] / 1e9 for one in load("iperf")]
reads = load("reads")
for one in reads:
    payload = (one["batches"] * 128 + 20_000) * 8192
    assert one["wire_bytes"] >= payload, "some reads did not go over the wire"
speeds = [one["gbit_per_s"] for one in reads]
print(json.dumps({
    "hosts": hosts,
    "iperf3_gbit_per_s": [round(one, 2) for one in iperf],
    "gbit_per_s": [round(one, 2) for one in speeds],
    "samples_per_s": max(one["samples_per_s"] for one in reads),
    "share_of_best": round(max(speeds) / max(iperf), 3),
    "median_share": round(statistics.median(one / other for one, other in zip(speeds, iperf)), 3),
    "p50_us": min(one["p50_us"] for one in reads),
    "p99_us": min(one["p99_us"] for one in reads),
    "wire_bytes": sum(one["wire_bytes"] for one in reads),
}))
PY
