"""Random samples from each format: forebay, the limit of the machine, and the format's own Python interface."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import sets  # first: it finds what is the loader's benchmark's
import machine
import report
import tables
from measure import SUSTAINED_SECONDS
from readers import contestants, order

HERE = pathlib.Path(__file__).parent
LIMIT = "limit, pread, 1 thread"
LEAST_OF_LIMIT, LEAST_OF_PEER = 0.9, 3.0
# Zarr: as fast as the best peer everywhere, and much faster where a chunk holds many samples of a full shuffle.
LEAST_OF_TENSORSTORE, LEAST_OF_TENSORSTORE_FULL = 1.0, 5.0
BEGIN, END = "<!-- bench-formats:begin -->", "<!-- bench-formats:end -->"


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def parse_args():
    parser = argparse.ArgumentParser(prog="bench-formats.sh", description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where the sets are kept")
    parser.add_argument("--limits", type=pathlib.Path, required=True, help="the program `limits`")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the sets; 1.0 is what the docs report")
    parser.add_argument("--rounds", type=int, default=3, help="the best round of each contestant counts")
    parser.add_argument("--only", help="these sets, as in netcdf,zarr-16")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything measured")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="write the tables between two marks")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where forebay misses what it must reach")
    return parser.parse_args()


def ask(command):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(
        [str(HERE.parent / "loader"), *filter(None, [os.environ.get("PYTHONPATH")])])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1800)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def limit_table(raw):
    """The rows of the raw file in random order, for the program `limits`."""
    path = raw.path.with_suffix(".table")
    row_len = 4 * sets.ROW
    pieces = np.zeros((raw.sample_count, 1), tables.ENTRY)
    pieces["len"] = row_len
    pieces["offset"][:, 0] = order(raw, "full") * row_len
    header = {"paths": [str(raw.path)], "kind": "pieces", "small": [False]}
    path.write_bytes(json.dumps(header).encode() + b"\n" + pieces.tobytes())
    return path


def commands(args, one, raw):
    if one is raw:
        table = limit_table(raw)
        return {LIMIT: [args.limits, table, "--mode", "pread", "--batch", "64", "--epochs", "2",
                        "--seconds", str(SUSTAINED_SECONDS)]}
    head = [sys.executable, HERE / "readers.py", args.folder, str(args.scale), one.name]
    return {name: [*head, name] for name in contestants(one)}


def measure(args, chosen):
    """Samples per second of the best round, and of the same with opening, by set and contestant."""
    raw = chosen[0]
    best, opened = {one.name: {} for one in chosen}, {one.name: {} for one in chosen}
    for number in range(args.rounds):
        for one in chosen:
            for name, command in commands(args, one, raw).items():
                said = ask(command)
                if "error" in said:
                    say(f"{one.name}: {name}: {said['error']}")
                    continue
                whole = one.sample_count * len(said["epoch_s"]) / said["total_s"]
                # A process has one epoch of images, so that none is decoded before: opening would be a third of that time.
                speed = one.sample_count / min(said["epoch_s"]) if one.samples_per_chunk else whole
                say(f"round {number + 1}: {one.name}: {name}: {speed:,.0f} samples/s, {whole:,.0f} with opening")
                best[one.name][name] = max(speed, best[one.name].get(name, 0))
                opened[one.name][name] = max(whole, opened[one.name].get(name, 0))
    return best, opened


def verdicts(chosen, best):
    """What must be reached, and whether it is: set, contestant, what, value, bound."""
    found = []
    limit = best.get("raw", {}).get(LIMIT)
    for one in chosen[1:]:
        speeds = best[one.name]
        if one.samples_per_chunk:
            for shuffle in ("full", "block"):
                peer = speeds.get(f"tensorstore, {shuffle}")
                ours = max((speed for name, speed in speeds.items() if name.startswith(f"forebay, {shuffle}")), default=0)
                is_large = shuffle == "full" and one.samples_per_chunk >= 16
                bound = LEAST_OF_TENSORSTORE_FULL if is_large else LEAST_OF_TENSORSTORE
                if peer:
                    found.append((one.name, shuffle, "of tensorstore", ours / peer, bound))
            continue
        ours = speeds.get("forebay, 1 thread", 0)
        peers = [speed for name, speed in speeds.items() if not name.startswith("forebay")]
        if limit:
            found.append((one.name, "full", "of the limit by pread", ours / limit, LEAST_OF_LIMIT))
        if peers:
            found.append((one.name, "full", "of the best Python interface", ours / max(peers), LEAST_OF_PEER))
    return found


def tables_of(best, opened, found):
    """The report, as Markdown."""
    lines = ["| set | contestant | samples/s | with opening |", "|---|---|--:|--:|"]
    for name, speeds in best.items():
        lines += [f"| {name} | {contestant} | {speed:,.0f} | {opened[name][contestant]:,.0f} |" for contestant, speed in speeds.items()]
    lines += ["", "| set | order | measured | must reach | |", "|---|---|--:|--:|---|"]
    for name, shuffle, what, value, bound in found:
        verdict = "pass" if value >= bound else "FAIL"
        lines.append(f"| {name} | {shuffle} | {value:.2f} {what} | {bound:g} | {verdict} |")
    return "\n".join(lines)


def main():
    args = parse_args()
    only = args.only.split(",") if args.only else None
    chosen = [one for one in sets.sets(args.folder, args.scale) if only is None or one.name in ("raw", *only)]
    for one in chosen:
        say(f"set {one.name}")
        sets.make(one)
    best, opened = measure(args, chosen)
    found = verdicts(chosen, best)
    text = tables_of(best, opened, found)
    print(text)
    if args.json:
        args.json.write_text(json.dumps({"samples_per_s": best, "with_opening": opened, "verdicts": found}, indent=1))
    if args.markdown:
        command = os.environ.get("FOREBAY_BENCH_COMMAND", "make bench-formats")
        made = [BEGIN, f"Machine: {machine.in_words(machine.describe())}", f"Command: `{command}`", text, END]
        report.put_between(BEGIN, END, "\n\n".join(made), args.markdown)
    return 1 if args.strict and any(value < bound for *_, value, bound in found) else 0


if __name__ == "__main__":
    sys.exit(main())
