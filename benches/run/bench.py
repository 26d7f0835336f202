"""An unchanged training script (h5py, torch's DataLoader, 2 workers) on an emulated parallel file system: without
forebay, under `forebay run`, and on local files; and what each call costs under the library (cost.py). See --help.

The set is 1 GiB in 64 files, behind 2 ms for each read and 200 MiB/s. Opens wait in one measurement, as they do in the
tiers' benchmark, and not in the other: a program opens its files at the origin with forebay as without. Every run is a
process of its own over a mount of its own. Tiers begin empty, on another device than the set: copies lie in /dev/shm, local
files in the page cache.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tiers"))
import cost  # noqa: E402
import make_set  # noqa: E402
from run import Report  # noqa: E402

TRAIN = pathlib.Path(__file__).parent / "train.py"
NO_WAIT = "0ms"
PARTS = ("fits", "exceeds", "cost")


class Bench:
    def __init__(self, args):
        self.args = args
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="forebay-run-", dir=args.disk))
        self.mount, self.tier = self.work / "slow", self.work / "tier"
        self.mount.mkdir()

    def train(self, folder, quota=None, is_local=False, epochs=3, open_latency=NO_WAIT):
        """The epochs of one run; through tiers of `quota` bytes, or plainly."""
        shutil.rmtree(self.tier, ignore_errors=True)
        self.tier.mkdir()
        place = folder if is_local else self.mount
        script = [sys.executable, TRAIN, place, "--epochs", epochs]
        if not is_local:
            script += ["--counters", self.mount / ".forebay-slow" / "reset.json"]
        if quota is not None:
            script = [self.args.forebay, "run", "--quiet", "--origin", place, "--block", self.args.block,
                      "--tier", f"{self.tier}:{quota}:free=0", "--", *script]
        if not is_local:
            script = [self.args.forebay, "simulate", folder, self.mount, "--latency", self.args.latency,
                      "--open-latency", open_latency, "--bandwidth", self.args.bandwidth, "--", *script]
        done = subprocess.run([str(word) for word in script], capture_output=True, text=True, timeout=900,
                              env=os.environ | {"OMP_NUM_THREADS": "1", "FOREBAY_CONFIG": "none"})
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, script))}\n{done.stderr}{done.stdout}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def close(self):
        shutil.rmtree(self.work, ignore_errors=True)


def later_seconds(runs):
    """Seconds of all epochs but the first."""
    return [epoch["seconds"] for run in runs for epoch in run[1:]]


def first_seconds(runs):
    return [run[0]["seconds"] for run in runs]


def fits(bench, report, folder, size, waits):
    """A set that fits into the tiers; all kinds of runs in turns, as the machine is not always as fast."""
    local, plain, managed = [], {wait: [] for wait in waits}, {wait: [] for wait in waits}
    for _ in range(bench.args.rounds):
        local.append(bench.train(folder, is_local=True))
        for wait in waits:
            plain[wait].append(bench.train(folder, epochs=1, open_latency=wait))
            managed[wait].append(bench.train(folder, quota=2 * size, open_latency=wait))
    for wait in waits:
        check_values(local + plain[wait] + managed[wait])
        opens = "opens do not wait" if wait == NO_WAIT else f"opens wait {wait}"
        report_later_epochs(report, opens, local, managed[wait])
        report_first_epoch(report, opens, plain[wait], managed[wait])
        read = [[epoch["mount"]["bytes"] / size for epoch in run] for run in managed[wait]]
        most = max(read, key=sum)
        report.add(f"{opens}: bytes of the origin per byte of the set in epochs 1 to 3, the worst round",
                   ", ".join(f"{part:.3f}" for part in most), "<= 1.05 in all", sum(most) <= 1.05)


def check_values(runs):
    """All runs draw the same samples in the same order: the sums of their first numbers are the same."""
    wanted = [(epoch["samples"], epoch["total"]) for epoch in runs[0]]
    for run in runs:
        found = [(epoch["samples"], epoch["total"]) for epoch in run]
        if found != wanted[:len(found)]:
            raise SystemExit(f"values differ: {found}, on local files {wanted}")


def report_later_epochs(report, opens, local, managed):
    ratio = statistics.median(later_seconds(local)) / statistics.median(later_seconds(managed))
    rounds = [sum(later_seconds([near])) / sum(later_seconds([run])) for near, run in zip(local, managed, strict=True)]
    report.add(f"{opens}: epochs 2 and 3 under forebay run, as a share of the speed on local files",
               f"{ratio:.3f} ({statistics.median(later_seconds(managed)):.2f} s, {statistics.median(later_seconds(local)):.2f} s; "
               f"rounds {min(rounds):.2f} to {max(rounds):.2f})",
               ">= 0.9", ratio >= 0.9)


def report_first_epoch(report, opens, plain, managed):
    usual = statistics.median(first_seconds(plain))
    slower = statistics.median(first_seconds(managed)) / usual - 1
    spread = (max(first_seconds(plain)) - min(first_seconds(plain))) / usual
    report.add(f"{opens}: first epoch under forebay run, against that without",
               f"{100 * slower:+.1f} % ({statistics.median(first_seconds(managed)):.2f} s, {usual:.2f} s)",
               f"<= 2 % and the spread of {100 * spread:.1f} %", slower <= 0.02 + spread)


def exceeds(bench, report, folder, size):
    quota = int(size / 1.75)
    epochs = bench.train(folder, quota=quota)
    check_values([bench.train(folder, is_local=True), epochs])
    most = max(epoch["mount"]["bytes"] for epoch in epochs[1:])
    took = ", ".join(f"{epoch['seconds']:.2f} s" for epoch in epochs)
    report.add("set 1.75 times the quota, opens do not wait: origin bytes of a later epoch against S - Q, the worse of two",
               f"{most / (size - quota):.3f} (epochs of {took})",
               "<= 1.05", most <= 1.05 * (size - quota))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forebay", required=True, help="the command")
    parser.add_argument("--disk", default="/dev/shm", help="where tiers lie [/dev/shm]")
    parser.add_argument("--files", type=int, default=64, help="files of the set [64]")
    parser.add_argument("--samples", type=int, default=256, help="samples in each file [256]")
    parser.add_argument("--sample-kib", type=int, default=64, help="KiB in each sample [64]")
    parser.add_argument("--latency", default="2ms", help="how long each read waits [2ms]")
    parser.add_argument("--open-latency", help="how long opens wait where they do [that of a read]")
    parser.add_argument("--bandwidth", default="200MiB/s", help="of the file system [200MiB/s]")
    parser.add_argument("--block", default="1MiB", help="of the tiers [1MiB]")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each kind [7]")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run, with commas [all: %(default)s]")
    parser.add_argument("--library", help="libforebay_preload.so [that of FOREBAY_PLUGINS]")
    parser.add_argument("--json", action="store_true", help="what calls cost as one object for each row")
    args = parser.parse_args()
    parts = set(args.only.split(","))
    if parts - set(PARTS):
        parser.error(f"--only takes {', '.join(PARTS)}")
    missed = epochs(args, parts) if {"fits", "exceeds"} & parts else 0
    if "cost" in parts:
        library = args.library or pathlib.Path(os.environ["FOREBAY_PLUGINS"]) / "preload" / "libforebay_preload.so"
        cost.main(["--library", str(library), "--tier", args.disk, "--rounds", str(args.rounds), *(["--json"] if args.json else [])])
    return 1 if missed else 0


def epochs(args, parts):
    """Runs the training script; how many figures missed their bounds."""
    folder = make_set.make(argparse.Namespace(files=args.files, samples=args.samples, sample_kib=args.sample_kib, folder=None))
    size = sum(path.stat().st_size for path in make_set.paths(folder, args.files))
    bench, report = Bench(args), Report()
    try:
        if "fits" in parts:
            # Once where both are the same.
            fits(bench, report, folder, size, list(dict.fromkeys([NO_WAIT, args.open_latency or args.latency])))
        if "exceeds" in parts:
            exceeds(bench, report, folder, size)
    finally:
        bench.close()
    print(report.markdown())
    return report.missed


if __name__ == "__main__":
    sys.exit(main())
