"""The loader benchmark: forebay, the limits of the machine, and what else loads such files. See --help."""

import argparse
import dataclasses
import importlib.util
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

import machine
import make_sets
import measure
import report
import tables
from contestants import contestants, thread_counts
from targets import verdicts
from workloads import workloads

HERE = pathlib.Path(__file__).parent
LONGEST_S = 1800
# More than this, and others disturb the figures.
QUIET_CORES = 0.1
# A kernel that gives idle memory back to its host does so two seconds after memory was freed: that shall not befall the
# next contestant, which warms what it needs (see measure.py).
REST_SECONDS = 2.5


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def _names(text):
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_args():
    parser = argparse.ArgumentParser(prog="bench-loader.sh", description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where the sets are kept")
    parser.add_argument("--limits", type=pathlib.Path, required=True, help="the program `limits`")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the sets; 1.0 is what the docs report")
    parser.add_argument("--rounds", type=int, default=3, help="the best round of each contestant counts")
    parser.add_argument("--only", type=_names, metavar="W1,W3", help="these workloads")
    parser.add_argument("--contestants", type=_names, metavar="forebay,limit",
                        help="these groups of forebay, limit, h5py, memmap, tensorstore")
    parser.add_argument("--threads", default="1,2", metavar="1,4,8,16", help="threads of forebay and of the limits")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything measured")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="write the tables between two marks")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where forebay misses what it must reach")
    args = parser.parse_args()
    if args.rounds < 1 or args.scale <= 0:
        parser.error("--rounds and --scale must be positive")
    return args


class Runner:
    """Starts contestants, one process each, and keeps the best of each."""

    def __init__(self, args):
        self.args = args
        self.environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

    def command(self, workload, contestant):
        if contestant.group != "limit":
            return [sys.executable, HERE / "contestants.py", self.args.folder, str(self.args.scale), self.args.threads,
                    workload.name, contestant.name]
        how = contestant.how
        table = workload.folder / f"{how['shuffle']}.table"
        tail = [f"--{flag}" for flag in ("fresh", "keep") if how.get(flag)]
        if workload.epochs > 1:
            tail += ["--seconds", str(measure.SUSTAINED_SECONDS)]
        return [self.args.limits, table, "--mode", how["mode"], "--threads", str(how["threads"]), "--pages",
                how["pages"], "--batch", str(workload.batch), "--epochs", str(workload.epochs), *tail]

    def ask(self, command):
        """What a process printed, and what went wrong."""
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=self.environment, timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            return "", f"not done after {LONGEST_S} s"
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            return "", said[-1]
        return done.stdout, None

    def check(self, workload, shuffle):
        """What is wrong with the samples that forebay gives; this also saves its index for the rounds."""
        _, error = self.ask([sys.executable, HERE / "check_forebay.py", self.args.folder, str(self.args.scale),
                             workload.name, shuffle])
        say(f"{workload.name}: samples of forebay, {shuffle}: {error or 'as h5py reads them'}")
        return error

    def once(self, workload, contestant):
        if workload.takes_fresh_memory:
            time.sleep(REST_SECONDS)
        printed, error = self.ask(self.command(workload, contestant))
        return {"error": error} if error else json.loads(printed.splitlines()[-1])

    def turn(self, workload, contestant):
        """Runs of one turn. Where a process has one epoch, there are as many as take the time that others repeat epochs for."""
        runs = [self.once(workload, contestant)]
        while workload.epochs == 1 and "error" not in runs[-1]:
            if sum(run["total_s"] for run in runs) >= measure.SUSTAINED_SECONDS:
                break
            runs.append(self.once(workload, contestant))
        return runs

    def run(self, workload, chosen):
        """Rounds in which all take turns; the runs of each turn, by name."""
        measured = {contestant.name: [] for contestant in chosen}
        orders = {one.how["shuffle"] for one in chosen if one.group == "forebay"}
        wrong = {order: error for order in sorted(orders) if (error := self.check(workload, order))}
        for contestant in chosen:
            if contestant.group == "forebay" and contestant.how["shuffle"] in wrong:
                # The speed of wrong samples is of no interest.
                measured[contestant.name].append([{"error": wrong[contestant.how["shuffle"]]}])
        for number in range(self.args.rounds):
            for contestant in chosen:
                turns = measured[contestant.name]
                if turns and "error" in turns[-1][-1]:
                    continue
                turns.append(self.turn(workload, contestant))
                said = turns[-1][-1].get("error") or f"{sustained(turns[-1]):,.1f} samples/s"
                say(f"{workload.name} round {number + 1}: {contestant.name}: {said}")
        return measured


def sustained(runs):
    """Samples per second over all of a turn, from the opening of the files to the end of the last epoch."""
    return sum(run["samples"] * len(run["epoch_s"]) for run in runs) / sum(run["total_s"] for run in runs)


def best(turns, contestant):
    """One figure of each kind, out of all rounds."""
    if "error" in turns[-1][-1]:
        return {"group": contestant.group, "limit": contestant.limit, "error": turns[-1][-1]["error"]}
    runs = [run for turn in turns for run in turn]
    return {
        "group": contestant.group,
        "limit": contestant.limit,
        "samples_per_s": max(sustained(turn) for turn in turns),
        "rounds_samples_per_s": [sustained(turn) for turn in turns],
        "fastest_epoch_samples_per_s": max(run["samples"] / min(run["epoch_s"]) for run in runs),
        "first_epoch_samples_per_s": max(run["samples"] / run["epoch_s"][0] for run in runs),
        "first_batch_s": min(run["first_batch_s"] for run in runs),
        "cpu_s_per_epoch": min(run["cpu_s"] / len(run["epoch_s"]) for run in runs),
        "rss_above_start": max(run["rss_peak"] - run["rss_start"] + run.get("workers_private", 0) for run in runs),
        "anon_above_start": max(run.get("anon_peak", 0) - run.get("anon_start", 0) for run in runs),
        "runs": runs,
    }


def choose(workload, args, has_forebay):
    all_of_them = contestants(workload, thread_counts(args.threads))
    chosen = [one for one in all_of_them if not args.contestants or one.group in args.contestants]
    return [one for one in chosen if has_forebay or one.group != "forebay"]


def prepare(workload):
    make_sets.make(workload, say)
    for shuffle in ("full", "block") if workload.samples_per_chunk else ("full",):
        tables.write(workload, shuffle, workload.folder / f"{shuffle}.table")
    make_sets.warm(workload)


def main():
    args = parse_args()
    has_forebay = importlib.util.find_spec("forebay") is not None
    if not has_forebay:
        say("NOT MEASURED: forebay, whose Python package is not installed here")
    made = {"machine": machine.describe(), "rounds": args.rounds, "scale": args.scale, "workloads": [],
            "command": os.environ.get("FOREBAY_BENCH_COMMAND") or shlex.join(sys.argv)}
    runner = Runner(args)
    print(machine.in_words(made["machine"]), flush=True)
    for workload in workloads(args.folder, args.scale):
        if args.only and workload.name not in args.only:
            continue
        prepare(workload)
        chosen = choose(workload, args, has_forebay)
        busy = machine.busy_cores()
        if busy > QUIET_CORES:
            say(f"NOT QUIET: others keep {busy:.1f} cores busy, and the figures of {workload.name} suffer")
        measured = runner.run(workload, chosen)
        results = {one.name: best(measured[one.name], one) for one in chosen}
        good = {name: result for name, result in results.items() if "error" not in result}
        made["workloads"].append({
            "name": workload.name, "title": workload.title, "sample_count": workload.sample_count,
            "batch": workload.batch, "epochs": workload.epochs, "busy_cores": busy,
            "results": results,
            "verdicts": [dataclasses.asdict(verdict) for verdict in verdicts(workload, good)],
        })
        print(report.terminal(made["workloads"][-1]), flush=True)
        # After each workload: an hour's figures are not lost with the last one.
        if args.json:
            args.json.write_text(json.dumps(made, indent=1) + "\n")
        if args.markdown:
            report.put_markdown(made, args.markdown)
    return finish(made, args.strict)


def finish(made, strict):
    broken = [f"{one['name']} '{name}'" for one in made["workloads"] for name, result in one["results"].items()
              if "error" in result]
    all_verdicts = [verdict for one in made["workloads"] for verdict in one["verdicts"]]
    missed = [verdict for verdict in all_verdicts if not verdict["passed"]]
    if all_verdicts:
        say(f"{len(all_verdicts) - len(missed)} of {len(all_verdicts)} bounds reached")
    if broken:
        say(f"did not run: {', '.join(broken)}")
    return 1 if broken or (strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
