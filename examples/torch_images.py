"""A small convolutional network that learns from images in several HDF5 files.

Usage: python torch_images.py [FILES...]   # files with "image" (n, height, width, 3) uint8 and "label"

Images lie in the files with channels last, as bytes; they arrive with channels first, as floats from 0 to 1.
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
    """Stripes that lie or stand, in noise: label 0 or 1."""
    import h5py
    import numpy as np

    random = np.random.default_rng(0)
    paths = []
    for number in range(4):
        label = random.integers(0, 2, 128)
        stripes = np.where(np.arange(24) // 3 % 2 == 0, 80, 0)
        lying = np.broadcast_to(stripes[:, None], (24, 24))
        noise = random.integers(0, 120, (128, 24, 24, 3))
        image = np.where(label[:, None, None] == 1, lying.T, lying)[..., None] + noise
        path = folder / f"stripes_{number}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("image", data=image.astype(np.uint8), chunks=(8, 24, 24, 3), compression="gzip")
            file.create_dataset("label", data=label)
        paths.append(str(path))
    return paths


def main(files: list[str]) -> None:
    torch.manual_seed(0)
    image = forebay.Field("image", dtype="float32", scale=1 / 255, axes=(2, 0, 1))
    ds = forebay.open(files, fields=[image], label="label")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = forebay.torch.Loader(ds, batch_size=32, shuffle="full", seed=1, drop_last=True, device=device)
    classes = 1 + int(forebay.open(files, ["label"])[:]["label"].max())
    model = nn.Sequential(
        nn.Conv2d(3, 8, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(3):
        right = seen = 0
        for batch in loader:
            answer = model(batch["image"])
            loss = nn.functional.cross_entropy(answer, batch["label"].long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += int((answer.argmax(1) == batch["label"]).sum())
            seen += len(answer)
        print(f"epoch {epoch}: loss {loss.item():.3f}, {right / seen:.0%} right")
    print(f"limited by: {loader.stats()['verdict']}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or make(Path(folder)))
