"""Whether what reaches a device is what the file has, for `gpu_feed.py --check`."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import h5py
import torch

import forebay
import forebay.torch
from forebay import transforms as T


def settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def check_feed(path: Path, device: torch.device, count: int) -> dict[str, Any]:
    """Bytes on the device against those of the file, while the consumer and the device are late at random."""
    known = values_on(device, path)
    loader = forebay.torch.Loader(
        forebay.open(path, ["x", "number"]), batch_size=64, shuffle="full", tail="drop", device=device, epochs=None
    )
    late, wrong = random.Random(5), torch.zeros((), dtype=torch.int64, device=device)
    for seen, batch in zip(range(count), loader):
        be_late(late, device)
        wrong += (batch["x"] != known[batch["number"]]).any()
        if seen % 16 == 0:
            wrong += (batch["number"] != batch.indices).any()
        if seen % 5 == 0:
            del batch
    settle(device)
    stats = loader.stats().get("pinned", {})
    loader.close()
    return {"check": f'device="{device.type}"', "batches": count, "wrong": int(wrong), **stats}


def check_own_stream(path: Path, device: torch.device, count: int) -> dict[str, Any]:
    """The same by the user's own copies in a stream of his own, of batches that are dropped at once."""
    known = values_on(device, path)
    is_cuda = device.type == "cuda"
    ds = forebay.open(path, ["x", "number"])
    loader = forebay.torch.Loader(ds, batch_size=64, shuffle="full", tail="drop", pin_memory=is_cuda, epochs=None)
    late, wrong = random.Random(6), torch.zeros((), dtype=torch.int64, device=device)
    stream = torch.cuda.Stream() if is_cuda else None
    settle(device)
    with torch.cuda.stream(stream):
        for seen, batch in zip(range(count), loader):
            be_late(late, device)
            moved = {name: batch[name].to(device, non_blocking=True) for name in ("x", "number")}
            del batch
            wrong += (moved["x"] != known[moved["number"]]).any()
            if stream is not None and seen % 32 == 0:
                stream.synchronize()
    settle(device)
    loader.close()
    return {"check": "pin_memory=True, own stream", "batches": count, "wrong": int(wrong)}


def check_transforms(path: Path, device: torch.device, count: int) -> dict[str, Any]:
    """Transformed batches on the device against those that the same loader gives in memory, with a ``map`` and without."""
    ds = forebay.open(path, ["x", "number"])
    steps = {"x": [T.RandomRoll(), T.RandomFlip(), T.Normalize(30, 20), T.Cast("float16")]}
    options: dict[str, Any] = {"batch_size": 64, "shuffle": "full", "seed": 11, "transforms": steps, "tail": "drop", "epochs": None}
    wrong = torch.zeros((), dtype=torch.int64, device=device)
    for mapped in ({}, {"map": twice, "map_threads": 2}):
        fed = forebay.torch.Loader(ds, device=device, **options, **mapped)
        plain = forebay.torch.Loader(ds, **options, **mapped)
        for _, one, other in zip(range(count // 2), fed, plain):
            for name in ("x", "number"):
                wrong += (one[name] != other[name].to(device)).any()
        fed.close()
        plain.close()
    settle(device)
    return {"check": "transforms and map", "batches": count, "wrong": int(wrong)}


def twice(batch: Any) -> Any:
    return {"x": batch["x"] * 2, "number": batch["number"]}


def values_on(device: torch.device, path: Path) -> torch.Tensor:
    with h5py.File(path) as file:
        return torch.from_numpy(file["x"][:]).to(device)


def be_late(late: random.Random, device: torch.device) -> None:
    if late.random() < 0.05:
        time.sleep(late.random() * 0.004)
    if device.type == "cuda" and late.random() < 0.2:
        torch.cuda._sleep(int(late.random() * 2_000_000))
