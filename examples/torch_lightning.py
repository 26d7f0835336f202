"""Lightning: a data module over files as they are, fit, validate, and go on from a checkpoint in the middle of an epoch.

Usage: python torch_lightning.py [FILES...]   # files with "x" (n, 8) and "y" (n,)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn

import forebay
import forebay.torch


def make(folder: Path) -> list[str]:
    """Points of a plane, in two files."""
    import h5py
    import numpy as np

    random = np.random.default_rng(0)
    paths = []
    for number in range(2):
        x = random.normal(size=(500, 8)).astype("f4")
        path = folder / f"{number}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=x, chunks=(50, 8), compression="gzip")
            file["y"] = x @ np.arange(8, dtype="f4")
        paths.append(str(path))
    return paths


class Points(lightning.LightningDataModule):
    """Training and validation parts of the files."""

    def __init__(self, files: list[str]) -> None:
        super().__init__()
        self.files = files

    def setup(self, stage: str) -> None:
        ds = forebay.open(self.files, fields=["x"], label="y")
        self.train, self.valid = ds.split([0.8, 0.2], seed=1)

    def train_dataloader(self) -> forebay.torch.Loader:
        return forebay.torch.Loader(self.train, batch_size=20, shuffle="full", seed=2, tail="drop")

    def val_dataloader(self) -> forebay.torch.Loader:
        return forebay.torch.Loader(self.valid, batch_size=50, tail="drop")


class Model(lightning.LightningModule):
    """A plane, and what it was trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.plane = nn.Linear(8, 1)
        self.seen: list[int] = []

    def training_step(self, batch: forebay.torch.Batch, _: int) -> Any:
        self.seen += batch.indices.tolist()
        return (self.plane(batch["x"])[:, 0] - batch["y"]).square().mean()

    def validation_step(self, batch: forebay.torch.Batch, _: int) -> None:
        error = (self.plane(batch["x"])[:, 0] - batch["y"]).square().mean()
        self.log("error", error, batch_size=batch.size)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.03)


def trainer(folder: Path, **options: Any) -> lightning.Trainer:
    # A checkpoint every 30 steps: the first one lies within epoch 0, which has 40.
    every = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=30, save_top_k=-1)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return lightning.Trainer(accelerator="cpu", devices=1, callbacks=[every], num_sanity_val_steps=0, **quiet, **options)


def main(files: list[str], folder: Path) -> None:
    lightning.seed_everything(0, verbose=False)
    first = Model()
    trainer(folder, max_steps=30).fit(first, Points(files))
    resumed = Model()
    end = trainer(folder, max_epochs=2)
    end.fit(resumed, Points(files), ckpt_path=folder / "step=30.ckpt", weights_only=False)
    epoch = first.seen + resumed.seen[: 800 - len(first.seen)]
    print(f"{len(first.seen)} samples before the checkpoint, {len(set(epoch))} different ones in the epoch")
    print(f"error {float(end.callback_metrics['error']):.4f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or make(Path(folder)), Path(folder))
