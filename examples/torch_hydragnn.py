"""Graphs in the memory of all ranks, for programs that are written as HydraGNN is: a data set with `len` and `get`, PyTorch Geometric's
`DataLoader`, a `DistributedSampler`.

Usage: torchrun --nproc-per-node 2 torch_hydragnn.py [FILES...]   # see `make` of torch_molecules.py for the variables
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed
import torch_molecules
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_graphs import Network

import forebay
import forebay.torch


def as_hydragnn(graph: Data) -> Data:
    """Features in `x`, targets in `y`, as HydraGNN names them."""
    return Data(x=graph.charge, edge_index=graph.edge_index, y=graph.energy)


def main(files: list[str]) -> None:
    torch.manual_seed(0)
    samples = forebay.Ragged(offsets={"charge": "node_ptr", "edge_index": "edge_ptr"}, axis={"edge_index": 1})
    with forebay.Store() as store:
        # Each rank reads its share of the files once.
        store.fill(store.open(files, fields=["charge", "edge_index"], label="energy", samples=samples))
        dataset = forebay.torch.GraphDataset(store, nodes="charge", transform=as_hydragnn)
        sampler = DistributedSampler(dataset, seed=1)
        loader = DataLoader(dataset, batch_size=25, sampler=sampler)
        train(loader, sampler, dataset)
        torch.distributed.barrier()  # Others may still read what this rank holds.


def train(loader: DataLoader, sampler: DistributedSampler, dataset: forebay.torch.GraphDataset) -> None:
    model = DistributedDataParallel(Network())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(8):
        sampler.set_epoch(epoch)
        total, count = torch.zeros(()), torch.zeros(())
        for graphs in loader:
            loss = (model(graphs.x, graphs.edge_index, graphs.batch) - graphs.y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * graphs.num_graphs
            count += graphs.num_graphs
        for sum_of_ranks in (total, count):
            torch.distributed.all_reduce(sum_of_ranks)
        if torch.distributed.get_rank() == 0:
            print(f"epoch {epoch}: {int(count)} graphs of {dataset.len()}, error {total.item() / count.item():.4f}")


if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as folder:
        named = sys.argv[1:]
        if not named:
            # Rank 0 makes the files, and the others wait for their names.
            paths = [torch_molecules.make(Path(folder)) if torch.distributed.get_rank() == 0 else None]
            torch.distributed.broadcast_object_list(paths)
            named = paths[0] or []
        main(named)
    torch.distributed.destroy_process_group()
