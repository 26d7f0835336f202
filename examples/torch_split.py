"""Training and validation parts of one set, normalised by the statistics of the training part; the best model is kept.

Usage: python torch_split.py [FILES...]   # files with "image" (n, 16, 16) and "label" (n,)
"""

from __future__ import annotations

import copy
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import forebay
import forebay.torch


def make(folder: Path) -> list[str]:
    """Noise with a bright row, whose number is the label, in three files."""
    import h5py
    import numpy as np

    random = np.random.default_rng(0)
    paths = []
    for number in range(3):
        label = random.integers(0, 4, 400)
        image = random.normal(90, 30, (400, 16, 16))
        image[np.arange(400), 4 * label] += 60
        path = folder / f"{number}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("image", data=image.clip(0, 255).astype("u1"), chunks=(50, 16, 16), compression="gzip")
            file["label"] = label
        paths.append(str(path))
    return paths


def main(files: list[str]) -> None:
    torch.manual_seed(0)
    ds = forebay.open(files, fields=["image"], label="label")
    train, valid = ds.split([0.8, 0.2], seed=1)
    assert not set(train.indices) & set(valid.indices)
    # What is known of the images is known of those that are trained on.
    statistics = train.statistics(["image"])
    loader = forebay.torch.Loader(train, batch_size=32, shuffle="block", seed=2, normalize=statistics)
    validation = forebay.torch.Loader(valid, batch_size=64, normalize=statistics)
    print(f"{len(train)} samples to learn from, {len(valid)} to validate")

    model = nn.Sequential(nn.Flatten(), nn.Linear(256, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    best, kept = 0.0, copy.deepcopy(model.state_dict())
    for epoch in range(4):
        model.train()
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum(int((model(batch["image"]).argmax(1) == batch["label"]).sum()) for batch in validation)
        if right / len(valid) > best:
            best, kept = right / len(valid), copy.deepcopy(model.state_dict())
        print(f"epoch {epoch}: {right / len(valid):.0%} right")
    model.load_state_dict(kept)
    print(f"the best was {best:.0%} right")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or make(Path(folder)))
