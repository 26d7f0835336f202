"""Training by several processes (DistributedDataParallel), stopped and resumed by another number of them.

Usage: torchrun --nproc-per-node 2 torch_ddp.py FOLDER 70   # ends after 70 steps, as a job whose time is over
       torchrun --nproc-per-node 3 torch_ddp.py FOLDER      # goes on from the checkpoint, to the end

Each sample comes once an epoch all the same. As all ranks have 48 samples a step between them, the model learns the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import forebay
import forebay.torch

EPOCHS, GLOBAL_BATCH = 3, 48


def make(path: Path) -> None:
    """2400 points of a plane, in chunks that are compressed."""
    import h5py
    import numpy as np

    random = np.random.default_rng(0)
    x = random.normal(size=(2400, 8)).astype("f4")
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=x, chunks=(100, 8), compression="gzip")
        file["y"] = x @ np.arange(8, dtype="f4")


def main(folder: Path, most_steps: int | None) -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0 and not (folder / "train.h5").exists():
        make(folder / "train.h5")
    dist.barrier()
    ds = forebay.open(folder / "train.h5", fields=["x"], label="y")
    # Rank and world are those of the process group.
    loader = forebay.torch.Loader(ds, batch_size=GLOBAL_BATCH // world, shuffle="full", seed=7, tail="drop")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    # How often each sample came in this epoch, and to show it the sum of all errors.
    seen, total, steps = torch.zeros(len(ds)), torch.zeros(1), 0

    checkpoint = folder / "checkpoint.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        steps = saved["steps"]
        if rank == 0:
            seen, total = saved["seen"], saved["total"]
            print(f"goes on after step {steps} with {world} ranks, {loader.remaining} steps of the epoch are left")

    while loader.epoch < EPOCHS:
        for batch in loader:
            loss = (model(batch["x"])[:, 0] - batch["y"]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen[batch.indices] += 1
            total += loss.detach() * batch.size
            steps += 1
            if steps == most_steps:
                break
        dist.reduce(seen, 0)
        dist.reduce(total, 0)
        if steps == most_steps:
            break
        if rank == 0:
            once = int((seen == 1).sum())
            print(f"epoch {batch.epoch}: {once} of {len(ds)} samples came once, error {total.item() / len(ds):.6f}")
        seen.zero_()
        total.zero_()

    if rank == 0:
        # One state for all ranks: it says how far the epoch is, whatever their number.
        states = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict()}
        torch.save({**states, "seen": seen, "total": total, "steps": steps}, checkpoint)
        print(f"checkpoint of step {steps} by {world} ranks")
    # All leave together: a rank that went while another still writes would take its connections along. After a plain `barrier` Gloo's threads may
    # have the last hold of tensors while Python ends, which aborts the process; this one has no part in them.
    dist.monitored_barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
