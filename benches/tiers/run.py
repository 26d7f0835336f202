"""Epochs over an emulated parallel file system, with and without tiers, against what they must reach. See --help.

Every run is a process of its own, over a mount of its own; tiers begin empty, and lie on another device than the set.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import make_set

MIB = 1 << 20


class Bench:
    """Runs `forebay load` over a slow mount, and keeps what it said."""

    def __init__(self, args):
        self.args = args
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="forebay-tiers-", dir=args.disk))
        self.mount = self.work / "slow"
        self.tier = self.work / "tier"
        self.mount.mkdir()

    def load(self, folder, pace, options):
        """What one run said: the answer of `load`, and what arrived at the file system."""
        shutil.rmtree(self.tier, ignore_errors=True)
        self.tier.mkdir()
        told = [str(option).replace("TIER", str(self.tier)) for option in options]
        program = [self.args.forebay, "load", "--json", "--spill-quota", "0", "--seed", "7", "--shuffle", "full"]
        counters = {}
        if pace is None:
            command = [*program, f"{folder}/*.h5", *told]
        else:
            latency, bandwidth = pace
            command = [self.args.forebay, "simulate", "--json", folder, self.mount, "--latency", latency,
                       "--bandwidth", bandwidth, "--", *program, f"{self.mount}/*.h5", *told]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600,
                              env=os.environ | {"FOREBAY_CACHE": str(self.work / "index")})
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr}{done.stdout}")
        if pace is not None:
            counters = json.loads(done.stderr.strip().splitlines()[-1])
        return json.loads(done.stdout.strip().splitlines()[-1]), counters

    def close(self):
        shutil.rmtree(self.work, ignore_errors=True)


def origin_bytes(answer):
    """Bytes that each epoch read from the origin; what came before the first epoch counts for it."""
    epochs = [epoch["origin"]["bytes"] for epoch in answer["tiers"]["epochs"]]
    epochs[0] += answer["tiers"]["origin"]["bytes"] - sum(epochs)
    return epochs


def seconds(answer):
    return [epoch["seconds"] for epoch in answer["epochs"]]


class Report:
    """Figures, each beside what it must be."""

    def __init__(self):
        self.rows = []
        self.missed = 0

    def add(self, what, figure, bound=None, reached=None):
        mark = "" if reached is None else ("reached" if reached else "**missed**")
        self.missed += reached is False
        self.rows.append((what, figure, bound or "", mark))
        print(f"{what}: {figure} {bound or ''} {mark}", file=sys.stderr, flush=True)

    def markdown(self):
        lines = ["| what | measured | must be | |", "|---|--:|--:|---|"]
        return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in self.rows])


def shared_set(bench, report, args):
    """1 GiB in 64 files behind 2 ms and 200 MiB/s."""
    set_args = argparse.Namespace(files=args.files, samples=256, sample_kib=64, folder=None)
    folder = make_set.make(set_args)
    size = sum(path.stat().st_size for path in make_set.paths(folder, args.files))
    pace, batch = ("2ms", "200MiB/s"), ["--field", "x", "--batch", 64]
    floor = size / (200 * MIB)
    answer, counters = bench.load(folder, pace, [*batch, "--epochs", 3, "--tier", f"disk:TIER:{2 * size}"])
    # Opening is placement too: what the whole command took beyond its later epochs is the first.
    first = counters["seconds"] - sum(seconds(answer)[1:])
    report.add("first epoch, opening and placement included", f"{first:.2f} s",
               f"<= 1.2 x {floor:.2f} s = {1.2 * floor:.2f} s", first <= 1.2 * floor)
    report.add("reads of the origin", f"{counters['reads']}", "<= 1,300" if args.files == 64 else None,
               counters["reads"] <= 1300 if args.files == 64 else None)
    report.add("bytes of the origin per byte of the set", f"{counters['bytes'] / size:.3f}", "<= 1.0",
               counters["bytes"] <= 1.001 * size)
    near, later, second = [], [], []
    # In turns: the machine is not always as fast. The second epoch runs while copies are on their way to the disk.
    for _ in range(args.rounds):
        near += seconds(bench.load(folder, None, [*batch, "--epochs", 16])[0])[1:]
        epochs = seconds(bench.load(folder, pace, [*batch, "--epochs", 16, "--tier", f"disk:TIER:{2 * size}"])[0])
        second.append(epochs[1])
        later += epochs[2:]
    near, later = min(near), min(later)
    report.add("second epoch, while copies are brought to the disk", f"{min(second):.3f} s")
    report.add("later epochs against a set that was local all along", f"{near / later:.2f} ({later:.3f} s, {near:.3f} s)",
               ">= 0.95", near / later >= 0.95)
    answer, counters = bench.load(folder, pace, [*batch, "--epochs", 3])
    plain = seconds(answer)
    report.add("without tiers, epochs 1 to 3", ", ".join(f"{time:.2f} s" for time in plain) +
               f"; {counters['reads']:,} reads")
    # Nothing is kept from one epoch to the next: every epoch waits for the line.
    answer, counters = bench.load(folder, pace, [*batch, "--epochs", 2, "--memory", "64MiB"])
    slowest = max(counters["seconds"] - seconds(answer)[1], seconds(answer)[1])
    report.add("without tiers, 64 MiB of memory: the slower of two epochs, opening included", f"{slowest:.2f} s",
               f"<= 1.2 x {floor:.2f} s (h5py with 8 workers 7.2 s)", slowest <= 1.2 * floor)


def larger_than_the_quota(bench, report, args):
    """The set is 1.75 times the quota, at equal request size."""
    folder = make_set.make(argparse.Namespace(files=args.files, samples=64, sample_kib=256, folder=None))
    size = sum(path.stat().st_size for path in make_set.paths(folder, args.files))
    quota = int(size / 1.75)
    rest = size - quota
    for policy in ("first-fit", "clairvoyant"):
        options = ["--field", "x", "--batch", 16, "--epochs", 3, "--memory", "96MiB", "--block", "256KiB", "--policy", policy,
                   "--tier", f"disk:TIER:{quota}", "--compute-ms", args.compute_ms, "--ahead", "64MiB"]
        answer, counters = bench.load(folder, ("2ms", "200MiB/s"), options)
        later = origin_bytes(answer)[1:]
        most, three = max(later), counters["bytes"]
        report.add(f"S = 1.75 Q, {policy}: origin bytes of a later epoch against S - Q", f"{most / rest:.3f}", "<= 1.05",
                   most <= 1.05 * rest)
        report.add(f"S = 1.75 Q, {policy}: fewer than S", f"{100 * (1 - most / size):.1f} %", ">= 54 %", most <= 0.46 * size)
        report.add(f"S = 1.75 Q, {policy}: three epochs against 3S - 2Q", f"{three / (3 * size - 2 * quota):.3f}", "<= 1.05",
                   three <= 1.05 * (3 * size - 2 * quota))
        waited = sum(epoch["wait_ns"] for epoch in answer["epochs"][1:]) / 1e9 / sum(seconds(answer)[1:])
        report.add(f"S = 1.75 Q, {policy}: reads; the consumer waited in epochs 2 and 3, {args.compute_ms} ms of compute per step",
                   f"{counters['reads']:,}; {100 * waited:.1f} % of their time", "<= 5 %", waited <= 0.05)


def drawn_samples(bench, report, args):
    """Four ranks draw different samples in every epoch: one of them, on a node of its own."""
    folder = make_set.make(argparse.Namespace(files=256, samples=1, sample_kib=256, folder=None))
    size = sum(path.stat().st_size for path in make_set.paths(folder, 256))
    read = {}
    for policy in ("first-fit", "clairvoyant"):
        options = ["--field", "x", "--batch", 8, "--epochs", 8, "--rank", 0, "--world", 4, "--tail", "drop", "--policy", policy,
                   "--tier", f"memory:{size // 4}", "--block", "512KiB", "--memory", "64MiB"]
        answer, counters = bench.load(folder, ("2ms", "200MiB/s"), options)
        read[policy] = sum(epoch["origin"]["bytes"] for epoch in answer["tiers"]["epochs"])
        report.add(f"one of four ranks, 8 epochs, quota a quarter of the set, {policy}: bytes of the origin, opening apart",
                   f"{read[policy] / MIB:.1f} MiB of {size * 2 / MIB:.0f}; {counters['reads']:,} reads")
    report.add("clairvoyant reads, of what first-fit reads", f"{read['clairvoyant'] / read['first-fit']:.2f}", "< 1",
               read["clairvoyant"] < read["first-fit"])


def two_tiers(bench, report, args):
    """A little memory over a disk that has room for all: every policy reads the set once."""
    folder = make_set.make(argparse.Namespace(files=10, samples=1024, sample_kib=4, folder=None))
    size = sum(path.stat().st_size for path in make_set.paths(folder, 10))
    for policy in ("auto", "first-fit", "clairvoyant", "lru", "lfu", "fifo", "lifo"):
        options = ["--field", "x", "--batch", 64, "--epochs", 3, "--memory", "64MiB", "--policy", policy,
                   "--tier", f"memory:{size // 5}", "--tier", f"disk:TIER:{5 * size // 2}"]
        answer, _ = bench.load(folder, ("2ms", "200MiB/s"), options)
        first, *later = [read / size for read in origin_bytes(answer)]
        report.add(f"memory of S/5 over a disk of 2.5 S, {policy}: origin bytes per byte of the set, epochs 1 to 3",
                   ", ".join(f"{part:.3f}" for part in (first, *later)), "<= 1.0, then 0",
                   first <= 1.001 and max(later) == 0)
    for policy in ("auto", "first-fit", "clairvoyant", "lru", "lfu", "fifo", "lifo"):
        options = ["--field", "x", "--batch", 64, "--epochs", 3, "--memory", "64MiB", "--policy", policy,
                   "--block", "256KiB", "--tier", f"memory:{size // 5}", "--tier", f"disk:TIER:{2 * size // 5}"]
        answer, _ = bench.load(folder, ("2ms", "200MiB/s"), options)
        report.add(f"memory of S/5 over a disk of 2 S/5, {policy}: the same",
                   ", ".join(f"{read / size:.2f}" for read in origin_bytes(answer)))


def monarch(bench, report, _):
    """What MONARCH was measured on: 56 files of 4 MiB, requests of 256 KiB, 5 ms each, 100 MB/s."""
    folder = make_set.make(argparse.Namespace(files=56, samples=16, sample_kib=256, folder=None))
    size = sum(path.stat().st_size for path in make_set.paths(folder, 56))
    pace = ("5ms", "100MB/s")
    options = ["--field", "x", "--batch", 16, "--epochs", 3, "--block", "256KiB", "--read-threads", 2]
    answer, counters = bench.load(folder, pace, [*options, "--tier", f"disk:TIER:{2 * size}"])
    first = counters["seconds"] - sum(seconds(answer)[1:])
    report.add("MONARCH's set, fits: first epoch, opening included", f"{first:.2f} s", "<= 5.2 s", first <= 5.2)
    report.add("MONARCH's set, fits: later epochs", f"{max(seconds(answer)[1:]):.3f} s", "<= 0.07 s",
               max(seconds(answer)[1:]) <= 0.07)
    report.add("MONARCH's set, fits: bytes of the origin per byte of the set", f"{counters['bytes'] / size:.3f}",
               "1.0 (MONARCH 1.47)", counters["bytes"] <= 1.001 * size)
    quota = int(size / 1.75)
    answer, counters = bench.load(folder, pace, [*options, "--memory", "64MiB", "--tier", f"disk:TIER:{quota}"])
    report.add("MONARCH's set, 1.75 times the quota: later epochs", f"{max(seconds(answer)[1:]):.2f} s", "<= 3.15 s",
               max(seconds(answer)[1:]) <= 3.15)
    report.add("MONARCH's set, 1.75 times the quota: bytes of three epochs", f"{counters['bytes'] / 1e6:.0f} MB",
               "<= 458 MB (MONARCH 496, least 436)", counters["bytes"] <= 458e6)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forebay", required=True, help="the command")
    parser.add_argument("--disk", default="/var/tmp", help="where tiers lie [/var/tmp]")
    parser.add_argument("--files", type=int, default=64, help="files of the large sets [64]")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of which the best counts, where memory speed is compared")
    parser.add_argument("--compute-ms", type=float, default=12, help="what a step of the model takes in the comparison of waits")
    parser.add_argument("--only", help="parts to run, with commas: shared, larger, drawn, two, monarch")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table to this file, between its marks")
    args = parser.parse_args()
    parts = {"shared": shared_set, "larger": larger_than_the_quota, "drawn": drawn_samples, "two": two_tiers, "monarch": monarch}
    bench, report = Bench(args), Report()
    try:
        for name in args.only.split(",") if args.only else parts:
            parts[name](bench, report, args)
    finally:
        bench.close()
    print(report.markdown())
    if args.markdown:
        begin, end = "<!-- tiers -->", "<!-- /tiers -->"
        text = args.markdown.read_text()
        before, rest = text.split(begin)
        after = rest.split(end)[1]
        args.markdown.write_text(f"{before}{begin}\n{report.markdown()}\n{end}{after}")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
