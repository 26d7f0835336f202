"""Two builds of forebay in turns: is the later one slower than the earlier one differs from itself?

    compare.py BEFORE AFTER --folder FOLDER --limits PROGRAM [--rounds 5] [--only W1,W3]

BEFORE and AFTER are folders with the package (`pip install --no-deps --target FOLDER WHEEL`). In every round each workload is
loaded by BEFORE, by BEFORE again and by AFTER, a process each, as `make bench-loader` does. The two runs of BEFORE say how much
figures differ where nothing changed.
"""

import argparse
import pathlib
import statistics
import sys

import run
from contestants import contestants, of_forebay, thread_counts
from workloads import workloads


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where the sets are kept")
    parser.add_argument("--limits", type=pathlib.Path, required=True, help="the program `limits`")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="W1,W3", help="these workloads")
    parser.set_defaults(threads="1,2")
    return parser.parse_args()


def turns(args, workload, contestant):
    """Samples per second of each round: of the earlier build, of the same again, of the later one."""
    speeds = {"before": [], "again": [], "after": []}
    for _ in range(args.rounds):
        for name, site in (("before", args.before), ("again", args.before), ("after", args.after)):
            runner = run.Runner(args)
            # Each build has indexes of its own: one must not answer for the other.
            runner.environment |= {"PYTHONPATH": str(site), "FOREBAY_CACHE": str(site / "index")}
            runs = runner.turn(workload, contestant)
            if "error" in runs[-1]:
                raise SystemExit(f"{workload.name}, {name}: {runs[-1]['error']}")
            speeds[name].append(run.sustained(runs))
    return speeds


def loaders(workload):
    """Which loaders are compared; a second thread is of interest where there is much to do."""
    return [of_forebay(order, threads) for order in ("full", "block") for threads in ((1, 2) if workload.samples_per_chunk else (1,))]


def row(workload, name, speeds):
    before, again, after = (statistics.median(speeds[kind]) for kind in ("before", "again", "after"))
    both = speeds["before"] + speeds["again"]
    spread = (max(both) - min(both)) / statistics.median(both)
    ratio = after / statistics.median(both)
    verdict = "slower" if ratio < 1 - spread else "as fast" if ratio <= 1 + spread else "faster"
    return (f"| {workload.name} | {name} | {before:,.0f} | {again:,.0f} | {after:,.0f} | {100 * spread:.0f} % | {ratio:.2f} | "
            f"{verdict} |")


def main():
    args = parse_args()
    print("| | loader | before | before, again | after | spread of before | after / before | |\n|---|---|--:|--:|--:|--:|--:|---|",
          flush=True)
    is_slower = False
    for workload in workloads(args.folder, args.scale):
        if args.only and workload.name not in args.only:
            continue
        run.prepare(workload)
        for contestant in contestants(workload, thread_counts(args.threads)):
            if contestant.name not in loaders(workload):
                continue
            line = row(workload, contestant.name.removeprefix("forebay, "), turns(args, workload, contestant))
            is_slower |= "slower" in line
            print(line, flush=True)
    return int(is_slower)


if __name__ == "__main__":
    sys.exit(main())
