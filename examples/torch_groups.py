"""Molecules that are groups of one HDF5 file: each group a sample, atoms joined, one energy each.

Usage: python torch_groups.py [FILE]   # a file with groups "mol_*", each with "z", "coords" and "energy"
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import forebay
import forebay.torch


def make(folder: Path) -> str:
    """800 small molecules whose energy is a sum over their atoms."""
    import h5py
    import numpy as np

    random = np.random.default_rng(0)
    path = folder / "molecules.h5"
    with h5py.File(path, "w") as file:
        for number in range(800):
            z = random.integers(1, 9, random.integers(3, 12))
            group = file.create_group(f"mol_{number:04}")
            group["z"], group["coords"] = z, random.random((len(z), 3)).astype("f4")
            group["energy"] = -np.sqrt(z).sum()
    return str(path)


def main(path: str) -> None:
    torch.manual_seed(0)
    ds = forebay.open(path, fields=["z", "coords"], label="energy", samples=forebay.Groups("mol_*"))
    print(ds)
    loader = forebay.torch.Loader(ds, batch_size=32, shuffle="full", seed=1)
    model = nn.Embedding(10, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for epoch in range(4):
        total = 0.0
        for batch in loader:
            offsets = torch.as_tensor(batch.offsets["z"])
            molecule = torch.repeat_interleave(torch.arange(batch.size), offsets.diff())
            energy = torch.zeros(batch.size).index_add(0, molecule, model(batch["z"])[:, 0])
            error = (energy - batch["energy"].float()).square().mean()
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            total += error.item() * batch.size
        print(f"epoch {epoch}: error {total / len(ds):.4f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else make(Path(folder)))
