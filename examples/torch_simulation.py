"""Steps of a simulation in an ADIOS2 file: one step a sample, read in place, through a tier of memory.

Usage: python torch_simulation.py [FILES...]   # BP files with "T" (rows, columns) and "time", at every step

``T`` alone is the field at the last step; ``T@steps`` has all steps along an axis of their own, which is what a model
trains on. This one learns how long the heat has been spreading.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import forebay
import forebay.torch


def make(folder: Path) -> list[str]:
    """Heat that spreads from hot spots: four runs of 100 steps."""
    import adios2
    import numpy as np

    random = np.random.default_rng(0)
    paths = []
    for run in range(4):
        field = np.zeros((32, 32))
        field[tuple(random.integers(0, 32, (2, 12)))] = 50
        path = folder / f"heat_{run}.bp"
        io = adios2.Adios().declare_io("heat")
        io.set_engine("BP4")
        with adios2.Stream(io, str(path), "w") as stream:
            for step in stream.steps(100):
                step.write("T", field, field.shape, (0, 0), field.shape)
                step.write("time", np.float64(0.01 * step.current_step()))
                around = sum(np.roll(field, shift, axis) for shift in (-1, 1) for axis in (0, 1))
                field = field + 0.2 * (around - 4 * field)
        paths.append(str(path))
    return paths


def main(files: list[str]) -> None:
    torch.manual_seed(0)
    heat = forebay.Field("T@steps", name="heat", dtype="float32")
    time = forebay.Field("time@steps", name="time", dtype="float32")
    ds = forebay.open(files, fields=[heat, time], tiers=["memory:64MiB"])
    print(ds)
    loader = forebay.torch.Loader(ds, batch_size=20, shuffle="full", seed=1)
    # Where the heat is does not matter, only how even it has become.
    model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(8):
        total = 0.0
        for batch in loader:
            evenness = batch["heat"].flatten(1).sort(1).values[:, ::32].log1p()
            error = (model(evenness)[:, 0] - batch["time"]).square().mean()
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            total += error.item() * len(evenness)
        print(f"epoch {epoch}: error {total / len(ds):.4f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or make(Path(folder)))
