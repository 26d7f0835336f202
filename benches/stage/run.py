"""Staged writes and cached reads of HDF5 programs on an emulated parallel file system, against what they must reach. See --help.

Every run is a process of its own, over a mount of its own; staging areas and caches begin empty. Every file is read back
without forebay, and every value compared.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import sys

from setup import Bench, Report, write_between

#: The same file system, but for what only counts operations.
QUICK = ("--latency", "200us", "--bandwidth", "0", "--request-size", "1MiB")


def checkpoints(bench, report, part, env, what, words, *, slow=True):
    """The median of some runs of the checkpoint program; each file is compared."""
    runs = []
    for _ in range(bench.args.repeat):
        bench.clear()
        folder = bench.mount if slow else bench.fast
        command = bench.python("checkpoint.py", folder / "c.h5", *words)
        said = bench.on_slow(command, env() if callable(env) else env)[0] if slow else bench.directly(command)
        file = (bench.below if slow else bench.fast) / "c.h5"
        said["wrong"] = bench.directly(bench.python("checkpoint.py", file, "--check", *words))["wrong"]
        runs.append(said)
    report.same_values(part, what, sum(run["wrong"] for run in runs))
    return {key: statistics.median(run[key] for run in runs) for key in runs[0] if key != "writes_s"}


def original_setting(bench, report):
    """A: what the original was measured on: 128 MiB in 4 rounds with 1 s of compute between them."""
    words = ("--mib", 128, "--rounds", 4, "--compute-s", 1)
    native = checkpoints(bench, report, "A", bench.plain(), "native", words)
    report.add("A", "native: H5Dwrite; time to durable without compute", f"{native['write_s']:.3f} s; {native['durable_s']:.2f} s")
    for place, times in (("memory", 52), ("disk", 13)):
        for plugins in (("vfd",), ("vfd", "vol")):
            name = f"{place}, {'+'.join(plugins)}"
            staged = checkpoints(bench, report, "A", lambda: bench.stage(place, plugins), name, words)
            report.compare("A", f"{name}: H5Dwrite shorter than native ({staged['write_s'] * 1e3:.1f} ms)",
                           native["write_s"] / staged["write_s"], times, unit="x", digits=1)
            report.compare("A", f"{name}: time to durable without compute", staged["durable_s"], 0.86, most=True, unit=" s")


def large_checkpoints(bench, report):
    """B: 1 GiB of checkpoints in 8 rounds with compute between them."""
    words = ("--mib", 1024, "--rounds", 8, "--compute-s", 2)
    native = checkpoints(bench, report, "B", bench.plain(), "native", words)
    report.add("B", "native: H5Dwrite; open to close", f"{native['write_s']:.2f} s; {native['total_s']:.2f} s")
    direct = checkpoints(bench, report, "B", None, "to the fast tier directly", words, slow=False)
    report.add("B", "to the fast tier directly: H5Dwrite", f"{direct['write_s']:.3f} s")
    for place in ("memory", "disk"):
        staged = checkpoints(bench, report, "B", lambda: bench.stage(place), place, words)
        report.compare("B", f"{place}: H5Dwrite shorter than native ({staged['write_s']:.3f} s)",
                       native["write_s"] / staged["write_s"], 10, unit="x", digits=1)
        report.compare("B", f"{place}: H5Dwrite against the fast tier directly", staged["write_s"] / direct["write_s"], 1.2, most=True,
                       unit="x")
        report.compare("B", f"{place}: open to close against native ({staged['total_s']:.2f} s)", staged["total_s"] / native["total_s"],
                       1, most=True, unit="x")


def small_writes(bench, report):
    """C: 10,000 writes of 4 KiB, merged on their way."""
    words, operations = ("--rows", 10_000), {}
    for name, env in (("native", bench.plain), ("memory", lambda: bench.stage("memory")), ("disk", lambda: bench.stage("disk"))):
        bench.clear()
        said, counters = bench.on_slow(bench.python("checkpoint.py", bench.mount / "c.h5", *words), env(), QUICK)
        wrong = bench.directly(bench.python("checkpoint.py", bench.below / "c.h5", "--check", *words))["wrong"]
        report.same_values("C", name, wrong)
        operations[name] = counters["writes"]
        figure = f"{counters['writes']:,} writes, {said['durable_s']:.2f} s to durable"
        if name == "native":
            report.add("C", "10,000 x 4 KiB, native: what arrives at the slow side", figure)
            continue
        report.compare("C", f"10,000 x 4 KiB, {name}: fewer operations on the slow side ({figure})",
                       operations["native"] / operations[name], 5, unit="x", digits=0)


def cached_epochs(bench, report, part, name, place, local, command, native, size):
    """Epochs through the cache beside native ones and those of a local file, turn by turn: a machine has good and bad minutes."""
    here, first, later, arrived, wrong = [], [], [], 0, 0
    for _ in range(bench.args.repeat):
        here += bench.directly(local)["epochs_s"][1:]
        shutil.rmtree(bench.fast, ignore_errors=True)
        (bench.fast / "cache").mkdir(parents=True)
        where = "memory" if place == "memory" else bench.fast / "cache"
        said, counters = bench.on_slow(command, bench.managed(("vol",), hdf5_cache=where, hdf5_cache_quota="1GiB"))
        first.append(said["epochs_s"][0])
        later += said["epochs_s"][1:]
        arrived, wrong = max(arrived, counters["bytes"]), wrong + said["wrong"]
    name = f"{name}, cache {'in memory' if place == 'memory' else 'on disk'}"
    report.same_values(part, name, wrong)
    report.compare(part, f"{name}: first epoch against native", statistics.median(first) / native, 1.07, most=True, unit="x")
    report.compare(part, f"{name}: bytes of the origin against the file", arrived / size, 1.05, most=True, unit="x", digits=3)
    here, later = statistics.median(here), statistics.median(later)
    report.compare(part, f"{name}: later epochs, of local speed ({later:.3f} s, {here:.3f} s)", here / later, 0.9)


def reads(bench, report):
    """D: epochs of reads, in shuffled blocks of 1 MiB."""
    for kind in ("contiguous", "gzip"):
        bench.clear()
        made = bench.directly(bench.python("epochs.py", bench.below / "x.h5", "--make", "--kind", kind, "--mib", 128))
        shutil.copyfile(bench.below / "x.h5", bench.work / "local.h5")
        local = bench.python("epochs.py", bench.work / "local.h5", "--epochs", 10)
        command = bench.python("epochs.py", bench.mount / "x.h5", "--epochs", 10)
        native, _ = bench.on_slow(bench.python("epochs.py", bench.mount / "x.h5", "--epochs", 4), bench.plain())
        native = statistics.median(native["epochs_s"])
        report.add("D", f"{kind}, native: epochs", f"{native:.2f} s")
        for place in ("memory", "disk"):
            cached_epochs(bench, report, "D", kind, place, local, command, native, made["bytes"])


def ranks(bench, report):
    """E: four ranks of an MPI job, with a parallel HDF5 that is not thread safe."""
    if not bench.args.parallel:
        report.add("E", "4 ranks: left out", "no --parallel")
        return
    _, launcher, program = bench.args.parallel
    options = ["--rounds", 4, "--mib", 8, "--compute-ms", 1000]
    for layout in ("contiguous", "chunked"):
        for collective in (0, 1):
            name = f"4 ranks, {layout}, {'collective' if collective else 'independent'}"
            command = [launcher, "-n", 4, program, bench.mount / "p.h5", *options, "--layout", layout, "--collective", collective]
            bench.clear()
            native, _ = bench.on_slow(command, bench.plain())
            bench.clear()
            staged, _ = bench.on_slow(command, bench.stage("memory", ("vol",), hdf5_cache="memory"))
            report.same_values("E", name, native["wrong"] + staged["wrong"])
            report.compare("E", f"{name}: H5Dwrite, native over staged ({native['write_s']:.3f} s, {staged['write_s']:.3f} s)",
                           native["write_s"] / staged["write_s"], 1, unit="x", digits=1)
            report.compare("E", f"{name}: time to durable against native ({staged['durable_s']:.2f} s)",
                           staged["durable_s"] / native["durable_s"], 1, most=True, unit="x")
    rank_reads(bench, report)


def rank_reads(bench, report):
    """E, reads: each rank a quarter of the set in the first epoch, shuffled blocks of 1 MiB of all of it in later ones."""
    prefix, launcher, _ = bench.args.parallel
    program, mib = bench.work / "parallel_epochs", 128
    flags = [f"-I{prefix}/include", f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-lhdf5", "-ldl"]
    source = pathlib.Path(__file__).parents[2] / "tests/hdf5/parallel_epochs.c"
    bench.run([pathlib.Path(launcher).parent / "mpicc", "-O2", "-o", program, source, *flags], bench.plain())
    bench.clear()
    made = bench.directly(bench.python("rank_set.py", bench.below / "x.h5", "--mib", mib))
    shutil.copyfile(bench.below / "x.h5", bench.work / "local.h5")
    for collective in (0, 1):
        words = ["--epochs", 10, "--collective", collective]
        name = f"4 ranks read, {'collective' if collective else 'independent'}"
        # What ROMIO makes of collective reads without a cache takes seconds, on a local file too.
        local = [launcher, "-n", 4, program, bench.work / "local.h5", "--epochs", 3 if collective else 10, *words[2:]]
        native, _ = bench.on_slow([launcher, "-n", 4, program, bench.mount / "x.h5", "--epochs", 2, *words[2:]], bench.plain())
        first, later = native["epochs_s"]
        report.add("E", f"{name}, native: first epoch, later one", f"{first:.2f} s, {later:.2f} s")
        command = [launcher, "-n", 4, program, bench.mount / "x.h5", *words]
        for place in ("memory", "disk"):
            cached_epochs(bench, report, "E", name, place, local, command, first, made["bytes"])


PARTS = {"A": original_setting, "B": large_checkpoints, "C": small_writes, "D": reads, "E": ranks}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forebay", required=True, help="the command")
    parser.add_argument("--plugins", required=True, type=pathlib.Path, help="the folder with vfd/ and vol/")
    parser.add_argument("--parallel", nargs=3, metavar=("PREFIX", "LAUNCHER", "PROGRAM"), help="what scripts/hdf5-parallel.sh prints")
    parser.add_argument("--disk", default="/var/tmp", help="where the fast tier lies [/var/tmp]")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each checkpoint, of which the median counts [3]")
    parser.add_argument("--only", help="parts to run, with commas: " + ", ".join(f"{name} ({part.__doc__[3:].split(':')[0].split(',')[0]})"
                                                                                     for name, part in PARTS.items()))
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table to this file, between its marks")
    args = parser.parse_args()
    bench, report = Bench(args), Report()
    try:
        for name in args.only.split(",") if args.only else PARTS:
            PARTS[name](bench, report)
    finally:
        bench.close()
    if args.markdown:
        write_between(args.markdown, "stage", report.markdown())
    print(json.dumps(report.rows, indent=1) if args.json else report.markdown())
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
