#!/usr/bin/env bash
# Batches of 128 samples of 8 KiB over TCP between hosts that are network namespaces, beside iperf3 in the same ones.
#
#   benches/store/tcp_namespaces.sh [HOSTS [SECONDS]]      (root, iproute2 and iperf3; 2 hosts and 5 s by default)
#
# Prints what iperf3 reaches before and after, what the store does, their ratio, and the bytes that the wire carried: a read
# that took another way would not be counted there.
set -euo pipefail
cd "$(dirname "$0")/../.."
hosts=${1:-2}
seconds=${2:-5}
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

on 1 iperf3 -s -1 >/dev/null & pids+=($!)
reach() {
    # From host 1 to host 0, as the bytes of reads go.
    on 0 iperf3 -c 10.99.0.2 -R -t "$seconds" -J | python3 -c 'import json, sys; print(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"] / 1e9)'
}
sleep 0.5
before=$(reach)
counted=$(received)
for rank in $(seq 1 $((hosts - 1))); do
    on "$rank" "$program" "$rank" "$hosts" "$folder" 10.99.0.1 "$seconds" & pids+=($!)
done
result=$(on 0 "$program" 0 "$hosts" "$folder" 10.99.0.1 "$seconds")
counted=$(($(received) - counted))
on 1 iperf3 -s -1 >/dev/null & pids+=($!)
sleep 0.5
after=$(reach)
python3 - "$result" "$before" "$after" "$counted" "$hosts" <<'PY'
import json, sys
result, before, after, counted, hosts = json.loads(sys.argv[1]), *map(float, sys.argv[2:6])
payload = (result["batches"] * 128 + 20_000) * 8192
result |= {"hosts": int(hosts), "iperf3_gbit_per_s": [round(before, 2), round(after, 2)],
           "share_of_iperf3": round(result["gbit_per_s"] / max(before, after), 3),
           "wire_bytes_per_payload_byte": round(counted / payload, 3)}
print(json.dumps(result))
assert counted >= payload, "some reads did not go over the wire"
PY
