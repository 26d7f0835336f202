"""What the library for LD_PRELOAD costs: nanoseconds of a processor for each pread of 4 KiB and each open and close, without what they wait,
next to the same calls without it; and milliseconds that pass from the start to the end of a program. See --help.

Cases of a kind run in turns, as the machine is not always as fast; the least and the median of their rounds are told. Tiers lie on another device than
the file, so there are two bases: the file itself, and the same bytes where the tier lies.
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
import time

HERE = pathlib.Path(__file__).parent


class Cost:
    """A file under a prefix, a tier on another device, and a program in C that takes the time of its calls."""

    def __init__(self, library, disk, tier, mib):
        self.library = pathlib.Path(library).resolve()
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="forebay-cost-", dir=disk))
        self.fast = pathlib.Path(tempfile.mkdtemp(prefix="forebay-cost-", dir=tier))
        if self.work.stat().st_dev == self.fast.stat().st_dev:
            raise SystemExit("--disk and --tier lie on one device: nothing is copied there")
        (self.work / "set").mkdir()
        (self.fast / "tier").mkdir()
        self.file = self.work / "set" / "file"
        self.file.write_bytes(os.urandom(1 << 20) * mib)
        self.same = shutil.copy(self.file, self.fast / "same")
        self.program = self.work / "cost"
        subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", self.program, HERE / "cost.c"], check=True)

    def environment(self, tier="disk"):
        """Variables of a run with the library: without it for no tier, and with another prefix for "outside"."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_") and name != "LD_PRELOAD"}
        if tier is None:
            return plain
        tiers = "memory:4GiB" if tier == "memory" else f"disk:{self.fast}/tier:16GiB:keep"
        prefix = self.fast if tier == "outside" else self.file.parent
        return plain | {"LD_PRELOAD": str(self.library), "FOREBAY_ORIGIN": str(prefix), "FOREBAY_CONFIG": "none", "FOREBAY_TIERS": tiers}

    def place(self):
        """Reads the file until it is open on its copy."""
        time.sleep(3)
        shows = f"exec 3< {self.file}; readlink /proc/$$/fd/3"
        for _ in range(100):
            subprocess.run(["cat", self.file], env=self.environment(), stdout=subprocess.DEVNULL, check=True)
            shown = subprocess.run(["bash", "-c", shows], env=self.environment(), capture_output=True, text=True)
            if str(self.fast) in shown.stdout:
                return
            time.sleep(0.1)
        raise SystemExit("the file was never placed")

    def calls(self, what, path, calls, tier):
        """Nanoseconds of each call in each of some rounds."""
        done = subprocess.run([self.program, what, path, str(calls), "5"], env=self.environment(tier), capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        return [float(line) for line in done.stdout.split()]

    def start(self, command, tier):
        """Milliseconds from the start to the end of a program."""
        environment, began = self.environment(tier), time.perf_counter()
        subprocess.run(command, env=environment, check=True)
        return [1e3 * (time.perf_counter() - began)]

    def close(self):
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.rmtree(self.fast, ignore_errors=True)


def in_turns(cases, rounds):
    """The values of each case, which all run once in each round."""
    values = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            values[name] += case()
    return values


def rows(kind, unit, values):
    """A row for each case: the least, the median, and both against those of the first."""
    base = next(iter(values.values()))
    for name, found in values.items():
        least, median = min(found), statistics.median(found)
        yield {"kind": kind, "case": name, "unit": unit, "least": round(least, 2), "median": round(median, 2),
               "ratio_of_least": round(least / min(base), 3), "ratio_of_medians": round(median / statistics.median(base), 3)}


def measure(cost, args):
    """All rows."""
    file, calls, opens = cost.file, args.calls, args.calls // 20
    python = [sys.executable, "-c", "pass"]
    cost.place()
    reads = {
        "bytes where the tier lies, without the library": lambda: cost.calls("read", cost.same, calls, None),
        "the file itself, without the library": lambda: cost.calls("read", file, calls, None),
        "the file itself, outside the prefix": lambda: cost.calls("read", file, calls, "outside"),
        "a copy of the file": lambda: cost.calls("read", file, calls, "disk"),
        "the copy after a lock, block-wise": lambda: cost.calls("lock", file, calls, "disk"),
        "a tier in memory, block-wise": lambda: cost.calls("read", file, calls, "memory"),
    }
    opened = {
        "the file itself, without the library": lambda: cost.calls("open", file, opens, None),
        "the file itself, outside the prefix": lambda: cost.calls("open", file, opens, "outside"),
        "a copy of the file": lambda: cost.calls("open", file, opens, "disk"),
    }
    yield from rows("pread of 4 KiB", "ns", in_turns(reads, args.rounds))
    yield from rows("open and close", "ns", in_turns(opened, args.rounds))
    for name, command in {"true": ["true"], "python -c pass": python}.items():
        starts = {
            "without the library": lambda command=command: cost.start(command, None),
            "with the library": lambda command=command: cost.start(command, "disk"),
        }
        yield from rows(f"start and end of {name}", "ms", in_turns(starts, args.starts))


def markdown(found):
    """The rows as a table."""
    lines = ["| what | case | least | median | against the first (least, median) |", "|---|---|---|---|---|"]
    for row in found:
        lines.append(f"| {row['kind']} | {row['case']} | {row['least']:g} {row['unit']} | {row['median']:g} {row['unit']} | "
                     f"{row['ratio_of_least']:.2f}, {row['ratio_of_medians']:.2f} |")
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, help="libforebay_preload.so")
    parser.add_argument("--disk", default=None, help="where the file lies [TMPDIR]")
    parser.add_argument("--tier", default="/dev/shm", help="where the tier lies [/dev/shm]")
    parser.add_argument("--mib", type=int, default=64, help="length of the file [64]")
    parser.add_argument("--calls", type=int, default=40000, help="reads in a round [40000]")
    parser.add_argument("--rounds", type=int, default=7, help="processes of each case, of five rounds each [7]")
    parser.add_argument("--starts", type=int, default=60, help="starts of each program [60]")
    parser.add_argument("--json", action="store_true", help="one object for each row")
    args = parser.parse_args(arguments)
    cost = Cost(args.library, args.disk, args.tier, args.mib)
    try:
        found = list(measure(cost, args))
    finally:
        cost.close()
    print("\n".join(json.dumps(row) for row in found) if args.json else markdown(found))


if __name__ == "__main__":
    main()
