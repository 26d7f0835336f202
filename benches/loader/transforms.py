"""What transforms cost on forebay's threads and in Python: ``python benches/loader/transforms.py [--quick]``.

Crop, normalise and cast are measured in processor time of one thread: of an epoch with transforms, less that of one without, against
the same by torchvision where it is installed, and by NumPy. A callable (``map``) of about 1 ms runs beside a consumer that sleeps 3 ms a
batch, as for a step of a GPU, and beside one that computes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

# One thread computes: processor time is compared, of which threads that wait by turning take more.
os.environ["OMP_NUM_THREADS"] = "1"

import h5py
import numpy as np

import forebay
from forebay import transforms as T

MEAN, STD = np.array([123.7, 116.3, 103.5]), np.array([58.4, 57.1, 57.4])
BATCH = 32


def make_set(folder: Path, count: int, dtype: str) -> forebay.Dataset:
    """Pictures of 3 x 256 x 256, contiguous, in the page cache."""
    path = folder / f"{dtype}.h5"
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file["x"] = rng.integers(0, 256, (count, 3, 256, 256)).astype(dtype)
    return forebay.open(path, ["x"])


def epoch_cpu(ds: forebay.Dataset, **options: Any) -> float:
    """Processor time of an epoch, in seconds."""
    loader = ds.loader(batch_size=BATCH, read_threads=1, shuffle="full", **options)
    list(zip(range(4), loader))
    loader.set_epoch(1)
    began = time.process_time()
    for _ in loader:
        pass
    return time.process_time() - began


def by_numpy(batch: Any, starts: Any, to: str) -> Any:
    mean, std = MEAN.astype(np.float32)[:, None, None], STD.astype(np.float32)[:, None, None]
    made = np.empty((len(batch), 3, 224, 224), to)
    for slot, (row, column) in enumerate(starts):
        part = batch[slot, :, row : row + 224, column : column + 224]
        made[slot] = ((part.astype(np.float32) - mean) / std).astype(to)
    return made


def by_torchvision(batch: Any, starts: Any, to: str) -> Any:
    import torch
    from torchvision.transforms.v2 import functional

    made = []
    for picture, (row, column) in zip(torch.from_numpy(batch), starts.tolist()):
        part = functional.crop(picture, row, column, 224, 224).to(torch.float32)
        made.append(functional.normalize(part, MEAN.tolist(), STD.tolist()).to(getattr(torch, to)))
    return torch.stack(made)


def python_cpu(ds: forebay.Dataset, function: Any, to: str, rounds: int) -> float:
    """Processor time of ``function`` for one sample, in seconds."""
    crop = T.RandomCrop(224, 224)
    batch = next(iter(ds.loader(batch_size=BATCH)))
    x, starts = batch["x"], crop.starts(batch.seeds, (3, 256, 256))
    function(x, starts, to)
    began = time.process_time()
    for _ in range(rounds):
        function(x, starts, to)
    return (time.process_time() - began) / rounds / BATCH


def crop_normalize_cast(folder: Path, count: int, rounds: int) -> None:
    print("| from | to | forebay, us/sample | NumPy | torchvision | times NumPy | times torchvision |")
    print("|---|---|---|---|---|---|---|")
    has_torchvision = True
    try:
        import torchvision  # noqa: F401
    except ImportError:
        has_torchvision = False
    for stored in ("uint8", "float32"):
        ds = make_set(folder, count, stored)
        for to in ("float32", "float16"):
            steps = {"x": [T.RandomCrop(224, 224), T.Normalize(MEAN, STD, axis=0), T.Cast(to)]}
            pairs = [(epoch_cpu(ds, transforms=steps), epoch_cpu(ds)) for _ in range(3)]
            ours = statistics.median(with_ - without for with_, without in pairs) / count
            numpy = python_cpu(ds, by_numpy, to, rounds)
            vision = python_cpu(ds, by_torchvision, to, rounds) if has_torchvision else None
            shown = "-" if vision is None else f"{vision * 1e6:.0f}"
            ratio = "-" if vision is None else f"{vision / ours:.1f}"
            print(f"| {stored} | {to} | {ours * 1e6:.0f} | {numpy * 1e6:.0f} | {shown} | {numpy / ours:.1f} | {ratio} |")


def one_millisecond() -> Any:
    """A callable that computes about 1 ms by NumPy, which lets go of the interpreter's lock meanwhile."""
    values = np.random.default_rng(0).normal(size=(256, 256)).astype(np.float32)

    def work(times: int) -> None:
        for _ in range(times):
            np.sqrt(np.abs(values))

    began = time.perf_counter()
    work(200)
    times = max(1, round(0.001 / ((time.perf_counter() - began) / 200)))

    def function(batch: Any) -> Any:
        work(times)
        return batch

    return function


def rate(ds: forebay.Dataset, consume: Any, batches: int, **options: Any) -> float:
    """Batches a second."""
    loader = ds.loader(batch_size=BATCH, shuffle="full", **options)
    run = iter(loader)
    next(run)
    began = time.perf_counter()
    for _ in range(batches):
        next(run)
        consume()
    return batches / (time.perf_counter() - began)


def two_threads(function: Any, batches: int) -> float:
    """Calls a second of ``function`` by each of two threads of Python at once: what a consumer and a callable that computes as long
    can come to, with the interpreter's lock between them."""
    other = threading.Thread(target=lambda: [function(None) for _ in range(batches)])
    began = time.perf_counter()
    other.start()
    for _ in range(batches):
        function(None)
    other.join()
    return batches / (time.perf_counter() - began)


def map_beside_a_consumer(folder: Path, batches: int) -> None:
    path = folder / "rows.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.zeros((BATCH * (batches + 2), 64), np.float32)
    ds = forebay.open(path, ["x"])
    function = one_millisecond()
    print("\n| consumer | batches/s without map | with map | part | two plain threads | part |")
    print("|---|---|---|---|---|---|")

    def busy() -> None:
        function(None)

    for name, consume in (("sleeps 3 ms", lambda: time.sleep(0.003)), ("computes 1 ms", busy)):
        pairs = [(rate(ds, consume, batches), rate(ds, consume, batches, map=function)) for _ in range(3)]
        without, with_ = (statistics.median(column) for column in zip(*pairs))
        # A consumer that sleeps leaves the processors to the callable.
        limit = statistics.median(two_threads(function, batches) for _ in range(3)) if consume is busy else without
        print(f"| {name} | {without:.0f} | {with_:.0f} | {with_ / without:.3f} | {limit:.0f} | {with_ / min(limit, without):.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    is_quick = parser.parse_args().quick
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}, NumPy {np.__version__}\n")
    with tempfile.TemporaryDirectory() as folder:
        crop_normalize_cast(Path(folder), 320 if is_quick else 1600, 3 if is_quick else 20)
        map_beside_a_consumer(Path(folder), 100 if is_quick else 600)


if __name__ == "__main__":
    main()
