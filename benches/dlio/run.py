"""DLIO as the package index gives it and forebay's engines on the same workloads, in one run. See --help.

Files are generated once, and everybody reads the same ones from a warm page cache. Every run is a process of its own; contestants
take turns, and of several rounds the best counts; of the comparison with the C loop, the median of pairs.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "stage"))

from contestants import Bench, Workload  # noqa: E402
from setup import Report, write_between  # noqa: E402  of the benchmark of staging

#: Table 6.1 of the thesis that extended h5bench: 128 + 32 files of 4 samples, 511 steps, one epoch.
TABLE_6_1 = Workload("table_6_1", files=128, eval_files=32, samples=4, steps=511)


#: More than is asked for: its tracer, which is on unless it is switched off, would else be a part of what is compared.
LEANEST = "DLIO without the debug line and its tracer"


def best(rounds, key):
    return min(key(one) for one in rounds)


def speed(bench, report):
    """A: whole process and training phase, against DLIO as it is and without its quadratic debug line."""
    data = bench.work / "table_6_1"
    bench.run_forebay(TABLE_6_1, data, generate=True, train=False)
    for threads in bench.args.threads:
        workload = dataclasses.replace(TABLE_6_1, threads=threads)
        runs = {"DLIO": [], "DLIO without the debug line": [], LEANEST: [], "hdf5": [], "forebay": []}
        for _ in range(bench.args.rounds):
            runs["DLIO"].append(bench.run_dlio(workload, data))
            runs["DLIO without the debug line"].append(bench.run_dlio(workload, data, patched=True))
            runs[LEANEST].append(bench.run_dlio(workload, data, patched=True, traced=False))
            for engine in ("hdf5", "forebay"):
                # The short ones more often: a single start of a process says little.
                runs[engine] += [bench.run_forebay(workload, data, engine) for _ in range(5)]
        for name, rounds in runs.items():
            wall_s, train_s = best(rounds, lambda one: one.wall_s), best(rounds, lambda one: one.train_s)
            report.add("A", f"{threads} read threads, {name}: whole process; training",
                       f"{wall_s:.3f} s; {train_s * 1e3:.1f} ms")
        whole = best(runs["DLIO"], lambda one: one.wall_s)
        lean, leanest = (best(runs[name], lambda one: one.train_s) for name in ("DLIO without the debug line", LEANEST))
        for engine in ("hdf5", "forebay"):
            report.compare("A", f"{threads} read threads, engine {engine}: whole process, faster than DLIO",
                           whole / best(runs[engine], lambda one: one.wall_s), 20, unit="x", digits=1)
            report.compare("A", f"{threads} read threads, engine {engine}: training, faster than DLIO without the debug line",
                           lean / best(runs[engine], lambda one: one.train_s), 5, unit="x", digits=1)
            report.add("A", f"{threads} read threads, engine {engine}: training, faster than {LEANEST}",
                       f"{leanest / best(runs[engine], lambda one: one.train_s):.1f}x")


def cpu(bench, report):
    """B: CPU seconds of engine hdf5 against a bare loop in C of the same calls; whole processes, start and reports included."""
    data = bench.work / "table_6_1"
    workload = dataclasses.replace(TABLE_6_1, epochs=bench.args.epochs)
    if not data.exists():
        bench.run_forebay(TABLE_6_1, data, generate=True, train=False)
    bare, ours = [], []
    # Pairs, whose ratios count: processor time of the same loop varies by 15 % from minute to minute on a virtual machine, and the
    # shortest of ten runs of each came to anything between 0.99 and 1.14.
    for _ in range(max(bench.args.rounds, 20)):
        bare.append(bench.run_c(workload, data)["process_cpu_s"])
        ours.append(bench.run_forebay(workload, data, "hdf5").cpu_s)
    samples = workload.epochs * (workload.steps + workload.eval_files * workload.samples)
    usual = statistics.median(bare)
    report.add("B", f"{samples:,} samples, bare C loop: CPU time, median of {len(bare)} runs",
               f"{usual:.3f} s, {usual / samples * 1e6:.1f} us each")
    report.compare("B", f"{samples:,} samples, engine hdf5: CPU time against the C loop, median of {len(bare)} pairs",
                   statistics.median(mine / other for mine, other in zip(ours, bare)), 1.1, most=True, unit="x", digits=3)


def engines(bench, report):
    """C: engine forebay against engine hdf5 on 64 files of 16 samples of 64 KiB."""
    for threads in (0, 1, 2):
        workload = Workload("engines", files=64, samples=16, batch=16, epochs=8, threads=threads)
        data = bench.work / "engines"
        if not data.exists():
            bench.run_forebay(workload, data, generate=True, train=False)
        times = {"hdf5": [], "forebay": []}
        for _ in range(bench.args.rounds):
            for engine, taken in times.items():
                taken.append(bench.run_forebay(workload, data, engine).train_s)
        per_epoch = {engine: min(taken) / workload.epochs for engine, taken in times.items()}
        figure = ", ".join(f"{engine} {value * 1e3:.1f} ms" for engine, value in per_epoch.items())
        report.compare("C", f"64 x 16 x 64 KiB, {threads} read threads: forebay faster than hdf5 (an epoch: {figure})",
                       per_epoch["hdf5"] / per_epoch["forebay"], 3, unit="x", digits=1)


def formulas(bench, report):
    """D: AU and throughput, ours and by DLIO's own function, from the same timestamps."""
    workload = Workload("formulas", files=16, samples=4, batch=4, epochs=2, compute_s=0.02)
    data = bench.work / "formulas"
    bench.run_forebay(workload, data, generate=True, train=False)
    for name, ran in (("forebay", bench.run_forebay(workload, data, "hdf5")), ("DLIO", bench.run_dlio(workload, data))):
        output = ran.output / "0_output.json"
        stats = ran.output / ("0_per_epoch_stats.json" if name == "forebay" else "per_epoch_stats.json")
        said = bench.ask("formula", output, stats, workload.batch)
        reported = json.loads(output.read_text())
        worst = {}
        for where, theirs in said.items():
            epoch, block = where.split(".")
            for key, value in theirs.items():
                differs = abs(reported[epoch][key][block] / value - 1)
                worst[key] = max(worst.get(key, 0.0), differs)
        for key, differs in worst.items():
            report.compare("D", f"{key} that {name} reports, against DLIO's function on the same timestamps: differs by",
                           100 * differs, 0.1, most=True, unit=" %", digits=4)


def files(bench, report):
    """E: DLIO and h5py read files that we generated, we read DLIO's; every value is compared."""
    workload = Workload("files", files=5, eval_files=2, samples=3, record_bytes=10_000, batch=3)
    ours, theirs = bench.work / "ours", bench.work / "theirs"
    bench.run_forebay(workload, ours, generate=True, train=False)
    bench.run_dlio(workload, theirs, generate=True, train=False)
    steps = json.loads((bench.run_dlio(workload, ours).output / "0_output.json").read_text())["1"]["load"]["block1"]
    report.add("E", "our files: steps that DLIO trained", f"{len(steps)} of 5", "5", len(steps) == 5)
    for name, folder in (("our", ours), ("DLIO's", theirs)):
        wrong, found = compare_values(bench, folder)
        report.add("E", f"{name} files: names and shapes as DLIO has them", f"{found['named']} of 7", "7", found["named"] == 7)
        report.same_values("E", f"{name} files by forebay, against h5py", wrong)
        for engine in ("hdf5", "forebay"):
            answer = json.loads(bench.run_forebay(workload, folder, engine).said.strip().splitlines()[-1])
            samples = answer["runs"][0]["epochs"][0]["train"]["samples"]
            report.add("E", f"{name} files: samples that engine {engine} read", f"{samples} of 15", "15", samples == 15)


def compare_values(bench, folder):
    """How many data sets differ between forebay and h5py, and how many files are what DLIO's generator makes."""
    import h5py

    wrong, named = 0, 0
    for split, count in (("train", 5), ("valid", 2)):
        for number in range(count):
            path = folder / split / f"img_{number}_of_{count}.hdf5"
            with h5py.File(path) as file:
                records, labels = file["records"][:], file["labels"][:]
            named += records.shape == (3, 100, 100) and records.dtype == "u1" and labels.shape == (3,) and labels.dtype == "i8"
            for name, values in (("records", records), ("labels", labels)):
                done = subprocess.run([bench.args.forebay, "dump", path, name, "--sha256"], capture_output=True, text=True)
                wrong += hashlib.sha256(values.tobytes()).hexdigest() not in done.stdout
    return wrong, {"named": named}


def checkpoints(bench, report):
    """F: bytes of the tensors of a checkpoint."""
    sizes = {"checkpoint_folder": None, "model_size": 1_000_003, "optimization_groups": [70_001, 900], "num_layers": 1,
             "layer_parameters": [17_371, 247_402]}
    payload = {}
    for name in ("DLIO", "forebay"):
        folder = bench.fresh() / "checkpoints"
        workload = Workload("checkpoints", files=2, samples=2, checkpoint=sizes | {"checkpoint_folder": str(folder)})
        data = bench.work / "checkpoints"
        if not data.exists():
            bench.run_forebay(Workload("checkpoints", files=2, samples=2), data, generate=True, train=False)
        if name == "DLIO":
            bench.run_dlio(workload, data)
            payload[name] = sorted(bench.ask("payload", folder).values())
            continue
        ran = bench.run_forebay(workload, data, "hdf5")
        timings = json.loads((ran.output / "report.json").read_text())
        payload[name] = find_bytes(timings)
    report.add("F", "bytes of the tensors of a checkpoint: DLIO, forebay", f"{sum(payload['DLIO']):,}, {payload['forebay']:,}",
               "equal", sum(payload["DLIO"]) == payload["forebay"])


def find_bytes(timings):
    """Bytes of all checkpoints of a report."""
    if isinstance(timings, list):
        return sum(find_bytes(part) for part in timings)
    if not isinstance(timings, dict):
        return 0
    own = sum(one["bytes"] for one in timings.get("checkpoints", []) if isinstance(one, dict))
    return own + sum(find_bytes(value) for key, value in timings.items() if key != "checkpoints")


PARTS = {"A": speed, "B": cpu, "C": engines, "D": formulas, "E": files, "F": checkpoints}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forebay", required=True, help="the command")
    parser.add_argument("--dlio", required=True, help="the Python of DLIO's environment (scripts/dlio.sh)")
    parser.add_argument("--disk", default="/var/tmp", help="where files are generated [/var/tmp]")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of which the best counts [3]")
    parser.add_argument("--epochs", type=int, default=20, help="epochs of the comparison with the C loop [20]")
    parser.add_argument("--threads", type=lambda text: [int(one) for one in text.split(",")], default=[0, 4], metavar="0,4",
                        help="read threads of the comparison with DLIO")
    parser.add_argument("--only", help="parts to run, with commas: A to F")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures to this file")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table to this file, between its marks")
    return parser.parse_args()


def main():
    args = parse_args()
    bench, report = Bench(args), Report()
    print(" ".join(f"{name} {version}" for name, version in bench.versions.items()), file=sys.stderr, flush=True)
    try:
        for name in args.only.split(",") if args.only else PARTS:
            PARTS[name](bench, report)
    finally:
        bench.close()
    names = " ".join(f"{name} {version}," for name, version in bench.versions.items())
    table = f"{names} libhdf5 {os.path.basename(bench.libhdf5)}\n\n{report.markdown()}"
    print(table)
    if args.json:
        args.json.write_text(json.dumps({"versions": bench.versions, "rows": report.rows}, indent=1))
    if args.markdown:
        write_between(args.markdown, "dlio", table)
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
