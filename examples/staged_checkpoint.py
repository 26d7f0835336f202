"""Checkpoints that leave the program at the speed of a fast tier, and reach their folder behind the training.

Usage: python staged_checkpoint.py [FAST FOLDER]   # a staging area, and where the checkpoints go in the end

The destination is held to 20 MB/s, as a busy file system would. The model trains on while checkpoints are on their way, and
"latest.pt" always leads to one that is whole and durable.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

import forebay.stage


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> float:
    """A few steps of a model that learns a fixed map."""
    loss = torch.zeros(())
    for _ in range(steps):
        x = torch.rand(32, 512)
        loss = nn.functional.mse_loss(model(x), x.flip(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main(fast: Path, folder: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    folder.mkdir(parents=True, exist_ok=True)
    in_save = 0.0
    with forebay.stage.Area(fast, bandwidth="20MB") as area:
        for epoch in range(3):
            error = train(model, optimizer, 60)
            began = time.monotonic()
            with forebay.stage.open(folder / f"epoch-{epoch}.pt", "wb", area=area, latest="latest.pt") as file:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, file)
            in_save += time.monotonic() - began
            print(f"epoch {epoch}: error {error:.4f}, {len(area.items())} checkpoints on their way")
        file.durable.add_done_callback(lambda done: print(f"durable: {Path(done.result()).name}"))
        began = time.monotonic()
        area.drain()
        print(f"{in_save:.2f} s in saving, {time.monotonic() - began:.2f} s to wait for at the end")
    loaded = torch.load(folder / "latest.pt", weights_only=True)
    print(f"latest.pt is of epoch {loaded['epoch']}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made, "fast"), Path(made, "slow"))
