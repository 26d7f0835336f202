"""How fast TensorFlow, JAX and Ray are fed, next to what their users have otherwise: run.py tensorflow|jax|ray --folder DIR.

Each contestant is a process of its own, epochs follow each other for some seconds with opening and the turn from one to the next
included, and contestants take turns; the best round of each counts. The sets are those of the loader benchmark.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "loader")]

import make_sets  # noqa: E402
from workloads import workloads  # noqa: E402

WANTED = ("W1", "W3")
LONGEST_S = 900


def contestants(framework: str) -> Any:
    """Name and opener of each contestant; openers take a workload and give an object with `epoch(number)`."""
    return importlib.import_module(f"{framework}_feeds")


def measure(framework: str, workload: Any, name: str, seconds: float) -> dict[str, Any]:
    """Samples per second of one contestant, in this process, and how its arrays were handed over, where it counts that.

    A workload of one epoch is one whose decoded samples must not come from the epoch before; what frameworks compile is not in it.
    """
    open_feed = contestants(framework).CONTESTANTS[name]
    began, samples, number = time.perf_counter(), 0, 0
    feed = open_feed(workload)
    if workload.epochs == 1:
        began, seconds = time.perf_counter(), 0.0
    while True:
        seen = sum(feed.epoch(number))
        if seen != workload.sample_count:
            raise SystemExit(f"{name}: {seen} samples came in an epoch, and there are {workload.sample_count}")
        samples, number = samples + seen, number + 1
        took = time.perf_counter() - began
        if took >= seconds:
            hand_over = feed.hand_over() if hasattr(feed, "hand_over") else None
            return {"samples_per_second": samples / took, "hand_over": hand_over}


def measure_apart(args: argparse.Namespace, workload: Any, name: str) -> dict[str, Any]:
    """What :func:`measure` gives, in a process of its own."""
    words = [args.framework, "--folder", args.folder, "--scale", args.scale, "--seconds", args.seconds]
    words += ["--batch", args.batch] if args.batch else []
    one = [sys.executable, __file__, *map(str, words), "--one", workload.name, name]
    done = subprocess.run(one, capture_output=True, text=True, timeout=LONGEST_S)
    if done.returncode != 0:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def rounds(args: argparse.Namespace, workload: Any, names: list[str]) -> dict[str, dict[str, Any]]:
    """The best of some rounds, in which contestants take turns."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(args.rounds):
        for name in names:
            measured = measure_apart(args, workload, name)
            best[name] = max(best.get(name, measured), measured, key=lambda one: one["samples_per_second"])
    return best


def verdicts(workload: str, goals: list[Any], best: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for ours, theirs, goal in goals:
        if theirs in best:
            ratio = best[ours]["samples_per_second"] / best[theirs]["samples_per_second"]
            yield {"workload": workload, "of": ours, "against": theirs, "ratio": ratio, "goal": goal, "met": ratio >= goal}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=["tensorflow", "jax", "ray"])
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where the sets are kept")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the sets")
    parser.add_argument("--batch", type=int, help="samples of a batch; by default those of the workload")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each contestant runs in a round, at least")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    parser.add_argument("--only", nargs="*", help="workloads")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sets = {one.name: one for one in workloads(args.folder, args.scale)}
    if args.batch:
        sets = {name: dataclasses.replace(one, batch=args.batch) for name, one in sets.items()}
    if args.one:
        print(json.dumps(measure(args.framework, sets[args.one[0]], args.one[1], args.seconds)))
        return 0
    feeds, results, ok = contestants(args.framework), [], True
    for name in args.only or getattr(feeds, "WANTED", WANTED):
        workload = sets[name]
        make_sets.make(workload, lambda text: print(f"== {text}", file=sys.stderr))
        feeds.prepare(workload)
        make_sets.warm(workload)
        best = rounds(args, workload, list(feeds.CONTESTANTS))
        for contestant, measured in best.items():
            counts = measured["hand_over"] or {}
            said = ", ".join(f"{count:,} {how}" for how, count in counts.items() if isinstance(count, int))
            print(f"{name} {contestant:48} {measured['samples_per_second']:12,.0f} samples/s{said and '; arrays: ' + said}", flush=True)
        for row in verdicts(name, feeds.GOALS, best):
            ok = ok and row["met"]
            print(f"{name} {row['of']} / {row['against']}: {row['ratio']:.2f} (goal {row['goal']}){'' if row['met'] else '  MISSED'}")
            results.append(row)
        results += [{"workload": name, "contestant": key, **measured} for key, measured in best.items()]
    print(f"load {os.getloadavg()}, {len(os.sched_getaffinity(0))} cores")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    return int(not ok)


if __name__ == "__main__":
    sys.exit(main())
