"""A small message-passing network that learns from molecules: graphs of different sizes, side by side in HDF5 files.

Usage: python torch_molecules.py [FILES...]  # see `make` for the variables

Nodes and edges of a batch arrive joined, with offsets. From these comes what graph libraries work on: one large graph,
the number of the molecule of each node, and edges that count the nodes of the whole batch.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import forebay
import forebay.torch


def make(folder: Path) -> list[str]:
    """Chains of 3 to 12 atoms; the target is the sum of the products of the charges of neighbours."""
    import h5py
    import numpy as np

    random = np.random.default_rng(0)
    paths = []
    for number in range(2):
        sizes = random.integers(3, 13, 300)
        charges = random.normal(size=(sizes.sum(), 1)).astype(np.float32)
        nodes = np.concatenate([[0], np.cumsum(sizes)])
        chains = [np.array([range(size - 1), range(1, size)]) for size in sizes]
        both_ways = [np.concatenate([chain, chain[::-1]], axis=1) for chain in chains]
        parts = [charges[begin:end, 0] for begin, end in zip(nodes[:-1], nodes[1:])]
        path = folder / f"molecules_{number}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("charge", data=charges, chunks=(256, 1), compression="gzip")
            file.create_dataset("edge_index", data=np.concatenate(both_ways, axis=1))
            file.create_dataset("node_ptr", data=nodes)
            file.create_dataset("edge_ptr", data=np.concatenate([[0], np.cumsum(2 * (sizes - 1))]))
            file.create_dataset("energy", data=[np.sum(part[1:] * part[:-1]) for part in parts], dtype="f4")
        paths.append(str(path))
    return paths


def collate(batch: forebay.torch.Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes, edges between them, and the molecule each node is of."""
    nodes, edges = batch.offsets["charge"], batch.offsets["edge_index"]
    molecules = torch.arange(batch.size)
    molecule = molecules.repeat_interleave(nodes.diff())
    # Edges count the nodes of their own molecule: its first node in the batch is added.
    first = nodes[:-1].repeat_interleave(edges.diff())
    return batch["charge"], batch["edge_index"] + first, molecule


class Network(nn.Module):
    """Two rounds of messages along edges, then a sum over each molecule."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.enter = nn.Linear(1, width)
        self.messages = nn.ModuleList(nn.Sequential(nn.Linear(2 * width, width), nn.SiLU()) for _ in range(2))
        self.leave = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, x: Tensor, edge_index: Tensor, molecule: Tensor, count: int) -> Tensor:
        x = self.enter(x)
        source, target = edge_index
        for message in self.messages:
            sent = message(torch.cat([x[source], x[target]], dim=1))
            x = x + torch.zeros_like(x).index_add(0, target, sent)
        return torch.zeros(count, 1).index_add(0, molecule, self.leave(x)).squeeze(1)


def main(files: list[str]) -> None:
    torch.manual_seed(0)
    samples = forebay.Ragged(offsets={"charge": "node_ptr", "edge_index": "edge_ptr"}, axis={"edge_index": 1})
    ds = forebay.open(files, fields=["charge", "edge_index"], label="energy", samples=samples)
    loader = forebay.torch.Loader(ds, batch_size=50, shuffle="full", seed=1)
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for epoch in range(10):
        total = 0.0
        for batch in loader:
            x, edge_index, molecule = collate(batch)
            loss = nn.functional.mse_loss(model(x, edge_index, molecule, batch.size), batch["energy"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * batch.size
        if epoch % 3 == 0:
            print(f"epoch {epoch}: {len(x)} atoms in the last batch, mean squared error {total / len(ds):.3f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or make(Path(folder)))
