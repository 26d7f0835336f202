"""The network of torch_molecules.py, trained by several ranks that hold the molecules in their memory (DDP over gloo).

Usage: mpirun -n 4 python mpi_molecules.py [FILES...]

Each rank reads its share of the files once. From then on every epoch is shuffled over all of them, and a batch is fetched from
whichever ranks hold its molecules. `torchrun --nproc-per-node 4 mpi_molecules.py` does the same without MPI.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_molecules import Network, collate, make

import forebay
import forebay.torch


def join() -> None:
    """Makes torch's process group of the ranks of MPI; those of torchrun have their variables already."""
    if "RANK" not in os.environ:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        os.environ["RANK"], os.environ["WORLD_SIZE"] = str(world.rank), str(world.size)
        address = world.bcast((MPI.Get_processor_name(), _free_port()) if world.rank == 0 else None)
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = address[0], str(address[1])
    torch.distributed.init_process_group("gloo")


def _free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("", 0))
        port: int = listener.getsockname()[1]
        return port


def main(files: list[str]) -> None:
    torch.manual_seed(0)
    rank = torch.distributed.get_rank()
    samples = forebay.Ragged(offsets={"charge": "node_ptr", "edge_index": "edge_ptr"}, axis={"edge_index": 1})
    ds = forebay.open(files, fields=["charge", "edge_index"], label="energy", samples=samples)
    model = DistributedDataParallel(Network())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    with forebay.Store() as store:
        store.fill(ds)
        loader = forebay.torch.Loader(store, batch_size=15, shuffle="full", seed=1, tail="wrap")
        for epoch in range(10):
            total = torch.zeros(())
            for batch in loader:
                x, edge_index, molecule = collate(batch)
                loss = nn.functional.mse_loss(model(x, edge_index, molecule, batch.size), batch["energy"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.detach()
            torch.distributed.all_reduce(total)
            if rank == 0 and epoch % 3 == 0:
                mean = total.item() / len(loader) / torch.distributed.get_world_size()
                print(f"epoch {epoch}: {len(store)} molecules in {store.width} ranks, mean squared error {mean:.3f}")
        if rank == 0:
            stats = store.stats()
            print(f"rank 0 read {stats['own']['samples']} molecules of its own, {stats['same_host']['samples']} of its host and "
                  f"{stats['remote']['samples']} of others; {stats['transport']}")  # fmt: skip


if __name__ == "__main__":
    join()
    with tempfile.TemporaryDirectory() as folder:
        named = sys.argv[1:]
        if not named:
            # Rank 0 makes the files, and the others wait for their names.
            paths = [make(Path(folder)) if torch.distributed.get_rank() == 0 else None]
            torch.distributed.broadcast_object_list(paths)
            named = paths[0] or []
        main(named)
        torch.distributed.barrier()  # All ranks have read the files before rank 0 removes them.
    torch.distributed.destroy_process_group()
