"""PyTorch Geometric: batches of graphs from an HDF5 file of joined nodes and edges.

Usage: python torch_graphs.py [FILES...]   # see `make` of torch_molecules.py for the variables
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

import torch
import torch_molecules
from torch import nn
from torch_geometric.nn import EdgeConv, global_add_pool

import forebay
import forebay.torch


class Network(nn.Module):
    """An energy of each bond, made of the charges at both ends, and their sum over each molecule."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        layers = nn.Sequential(nn.Linear(2, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))
        self.bonds = EdgeConv(layers, aggr="add")

    def forward(self, charge: torch.Tensor, edges: torch.Tensor, molecule: torch.Tensor) -> torch.Tensor:
        return global_add_pool(self.bonds(charge, edges), molecule)[:, 0]


def main(files: list[str]) -> None:
    torch.manual_seed(0)
    samples = forebay.Ragged(offsets={"charge": "node_ptr", "edge_index": "edge_ptr"}, axis={"edge_index": 1})
    ds = forebay.open(files, fields=["charge", "edge_index"], label="energy", samples=samples)
    # Made ahead, on a thread of the loader.
    loader = forebay.torch.Loader(ds, batch_size=50, shuffle="full", seed=1, map=partial(forebay.torch.graphs, nodes="charge"))
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(8):
        total = 0.0
        for graphs in loader:
            energy = model(graphs.charge, graphs.edge_index, graphs.batch)
            loss = (energy - graphs.energy).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * graphs.num_graphs
        print(f"epoch {epoch}: {graphs.num_nodes} atoms in the last batch, error {total / len(ds):.4f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or torch_molecules.make(Path(folder)))
