"""The evaluation of Stimulus (CCGrid 2022): its figures 7, 8a, 8b and 9c."""

import shutil

import paper_sets

MIB = 1 << 20
#: A parallel file system with stripes of 1 MiB: each request waits 2 ms, then its bytes share a line of 200 MiB/s.
PACE = ("--latency", "2ms", "--bandwidth", "200MiB/s", "--request-size", "1MiB")
ROWS = 32768
THREADS = 4
#: Room of a memory tier for what it reads ahead.
AHEAD = 32 * MIB


def rows(bench):
    return max(round(ROWS * bench.args.scale / 4096), 1) * 4096


def reader(bench, folder, kind, *words, transfer="1MiB"):
    """What a reader of the folder said, and what arrived at the file system."""
    return bench.over(folder, PACE, "stimulus_reader.py", "--threads", THREADS, "--transfer", transfer, kind, *words)


def best(bench, run):
    """The fastest of some runs."""
    return min((run() for _ in range(bench.args.repeat)), key=lambda said: said["seconds"])


def rate(said):
    return said["bytes"] / MIB / said["seconds"]


def formats(bench, tables):
    """Figure 7: five formats to PyTorch, transfers of 1 MiB, samples of 128 KiB, against plain reads of the same length."""
    files = paper_sets.stimulus(rows(bench))
    folder = files["raw"].parent
    plain = best(bench, lambda: reader(bench, folder, "plain", bench.mount / files["raw"].name)[0])
    tables.begin("Stimulus, figure 7: five formats to PyTorch, 1 MiB transfers, 128 KiB samples", "format", "forebay, MiB/s",
                 "plain reader, MiB/s", "of the plain reader", "Stimulus: of IOR", "must be")
    for front, name in (("HDF5", "HDF5"), ("ADIOS2", "ADIOS2 (BP4)"), ("Silo", "Silo"), ("NetCDF", "PnetCDF (CDF-5)"),
                        ("GNCF", "GNCF (NetCDF-4, CF)")):
        said = best(bench, lambda front=front: reader(bench, folder, "forebay", front, bench.mount / files[front].name)[0])
        part = rate(said) / rate(plain)
        whole = said["bytes"] == rows(bench) * paper_sets.ROW_BYTES
        tables.row(name, f"{rate(said):.1f}", f"{rate(plain):.1f}", f"{part:.3f}", "0.95 (PyTorch)", ">= 0.95",
                   reached=part >= 0.95 and whole)


def transfer_sizes(bench, tables):
    """Figure 8a: 1000 steps of four samples of 8 KiB by transfers of 4 KiB to 16 MiB."""
    files = paper_sets.stimulus(rows(bench))
    folder, path = files["HDF5"].parent, bench.mount / files["HDF5"].name
    steps = max(round(1000 * bench.args.scale), 8)
    tables.begin(f"Stimulus, figure 8a: {steps} steps of 4 samples of 8 KiB (HDF5), by transfer size", "transfer size",
                 "forebay, MiB/s", "reads that arrive", "through a memory tier, MiB/s", "reads that arrive", "plain reader, MiB/s",
                 "Stimulus, GB/s a node")
    theirs = {"4KiB": "1.2", "1MiB": "2.7"}
    for size in ("4KiB", "16KiB", "64KiB", "256KiB", "1MiB", "4MiB", "16MiB"):
        cells = []
        for tier in (0, AHEAD):
            said, arrived = reader(bench, folder, "forebay", "HDF5", path, "--sample-bytes", paper_sets.ROW_BYTES, "--batch", 4,
                                   "--steps", steps, "--tier-bytes", tier, transfer=size)
            cells += [f"{rate(said):.1f}", f"{arrived['reads']:,}"]
        plain, _ = reader(bench, folder, "plain", bench.mount / files["raw"].name, "--bytes", said["bytes"], transfer=size)
        tables.row(size, *cells, f"{rate(plain):.1f}", theirs.get(size, ""))


def prefetched(bench, tables):
    """Figure 8b: a part of the data is in a memory tier before the epoch; the tier reads the rest ahead."""
    files = paper_sets.stimulus(rows(bench))
    folder, path = files["HDF5"].parent, bench.mount / files["HDF5"].name
    size = rows(bench) * paper_sets.ROW_BYTES
    tables.begin("Stimulus, figure 8b: a share of the data prefetched (32 K samples of 8 KiB, batches of 4)", "share", "epoch, s",
                 "faster than without", "least that the line allows, s", "Stimulus: faster")
    first = None
    for share in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0):
        # Blocks that are not all data take room too.
        quota = 1.02 if share == 1.0 else share
        words = ["--sample-bytes", paper_sets.ROW_BYTES, "--batch", 4, "--memory", "64MiB", "--share", quota, "--data-bytes", size,
                 "--tier-bytes", AHEAD]
        said = best(bench, lambda words=words: reader(bench, folder, "forebay", "HDF5", path, *words)[0])
        first = first or said["seconds"]
        tables.row(f"{share:.0%}", f"{said['seconds']:.2f}", f"{first / said['seconds']:.2f}x",
                   f"{(1 - share) * size / (200 * MIB):.2f}", "4.42x" if share == 0.7 else "")


def cosmoflow(bench, tables):
    """Figure 9c: conversion to TFRecords and training on these, against training on the HDF5 files in place."""
    files = max(round(32 * bench.args.scale), 2)
    source, epochs = paper_sets.cosmoflow(files), 4
    shutil.rmtree(bench.below, ignore_errors=True)
    (bench.below / "tfrecord").mkdir(parents=True)
    shutil.copytree(source, bench.below / "hdf5")
    places = [bench.mount / kind for kind in ("hdf5", "tfrecord")]
    converted, _ = bench.over(bench.below, PACE, "cosmoflow_trainer.py", "convert", *places, writable=True)
    runs = {}
    for kind in ("tfrecord", "hdf5"):
        words = ["train", bench.mount / kind, "--format", kind, "--epochs", epochs]
        runs[kind], _ = bench.over(bench.below, PACE, "cosmoflow_trainer.py", *words)
    tables.begin(f"Stimulus, figure 9c: CosmoFlow-like, {files} HDF5 files of 16 MiB, {epochs} epochs, the same loader", "",
                 "conversion, s", f"{epochs} epochs, s", "together, s", "faster", "Stimulus: faster")
    records, alone = (runs[kind]["seconds"] for kind in ("tfrecord", "hdf5"))
    both = converted["seconds"] + records
    tables.row("to TFRecord, then training", f"{converted['seconds']:.2f}", f"{records:.2f}", f"{both:.2f}", "1x", "1x")
    tables.row("HDF5 in place", "", f"{alone:.2f}", f"{alone:.2f}", f"{both / alone:.2f}x", "1.9x")
    shutil.rmtree(bench.below, ignore_errors=True)
    bench.below.mkdir()
