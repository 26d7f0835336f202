"""Accelerate: the loader takes rank and device from it, and is part of its checkpoints.

Usage: python torch_accelerate.py [FILE]              # or: accelerate launch torch_accelerate.py FILE
       the file has "x" (n, 8) and "y" (n,)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn

import forebay
import forebay.torch


def make(folder: Path) -> str:
    """Points of a plane."""
    import h5py
    import numpy as np

    x = np.random.default_rng(0).normal(size=(1000, 8)).astype("f4")
    with h5py.File(folder / "points.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(50, 8), compression="gzip")
        file["y"] = x @ np.arange(8, dtype="f4")
    return str(folder / "points.h5")


def train(path: str, folder: Path, resume: bool, most_steps: int) -> list[int]:
    """Learns for so many steps, saves, and gives the samples it was given."""
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    ds = forebay.open(path, fields=["x"], label="y")
    # Not given to `prepare`: it needs no wrapper for its ranks and its device.
    loader = forebay.torch.Loader(ds, batch_size=20, shuffle="full", seed=3, tail="drop", device=accelerator.device)
    model = nn.Linear(8, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05))
    accelerator.register_for_checkpointing(loader)
    if resume:
        accelerator.load_state(folder / "state")
    seen: list[int] = []
    for batch in loader.steps(most_steps):
        loss = (model(batch["x"])[:, 0] - batch["y"]).square().mean()
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        seen += batch.indices.tolist()
    accelerator.save_state(folder / "state")
    accelerator.print(f"{len(seen)} samples, error {loss.item():.4f}")
    return seen


def main(path: str, folder: Path) -> None:
    first = train(path, folder, resume=False, most_steps=17)
    second = train(path, folder, resume=True, most_steps=33 + 50)
    epoch = first + second[: 1000 - len(first)]
    print(f"{len(set(epoch))} different samples in the epoch that was interrupted")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else make(Path(folder)), Path(folder))
