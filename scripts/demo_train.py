#!/usr/bin/env python3
"""Trains a small model for two epochs, fed by forebay and then the h5py way: demo_train.py FOLDER

The model is a logistic regression: in torch where it is installed, else in NumPy.
"""

import glob
import os
import sys
import time

import h5py
import numpy as np

import forebay

BATCH, EPOCHS, SEED, RATE = 64, 2, 7, 0.05

try:
    import torch
except ImportError:
    torch = None


class NumpyModel:
    """Logistic regression by plain gradient descent."""

    def __init__(self, inputs):
        self.weights, self.bias = np.zeros(inputs, "f4"), np.float32(0)

    def step(self, images, labels):
        flat = images.reshape(len(images), -1)
        chance = 1 / (1 + np.exp(-(flat @ self.weights + self.bias)))
        error = chance - labels
        self.weights -= RATE * (flat.T @ error) / len(labels)
        self.bias -= RATE * error.mean()
        return float(((chance > 0.5) == labels).mean())


class TorchModel:
    """The same in torch."""

    def __init__(self, inputs):
        torch.manual_seed(SEED)
        self.model = torch.nn.Linear(inputs, 1)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=RATE)

    def step(self, images, labels):
        images, labels = torch.as_tensor(images), torch.as_tensor(labels).float()
        score = self.model(images.reshape(len(images), -1))[:, 0]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(score, labels)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return float(((score > 0) == (labels > 0.5)).float().mean())


def by_forebay(files):
    """Batches of each epoch."""
    ds = forebay.open(files, fields=["image"], label="label")
    with ds.loader(batch_size=BATCH, shuffle="full", seed=SEED) as loader:
        for _ in range(EPOCHS):
            yield ((batch["image"], batch["label"]) for batch in loader)


def by_h5py(files):
    """The same, as it is usually written: one sample at a time, in random order."""
    opened = [h5py.File(path) for path in files]
    places = [(file, row) for file in opened for row in range(len(file["label"]))]
    rng = np.random.default_rng(SEED)

    def epoch():
        order = rng.permutation(len(places))
        for start in range(0, len(order), BATCH):
            samples = [places[index] for index in order[start : start + BATCH]]
            yield (
                np.stack([file["image"][row] for file, row in samples]),
                np.stack([file["label"][row] for file, row in samples]),
            )

    for _ in range(EPOCHS):
        yield epoch()


def train(name, epochs, inputs):
    """Trains a fresh model; gives the seconds that went by waiting for batches."""
    model = (TorchModel if torch else NumpyModel)(inputs)
    waited = 0.0
    for number, batches in enumerate(epochs):
        began, wait, right, count = time.perf_counter(), 0.0, 0.0, 0
        while True:
            asked = time.perf_counter()
            batch = next(batches, None)
            wait += time.perf_counter() - asked
            if batch is None:
                break
            images, labels = batch
            right += model.step(images, labels) * len(labels)
            count += len(labels)
        took = time.perf_counter() - began
        print(
            f"  {name}, epoch {number}: {count} samples in {took:.2f} s ({count / took:,.0f}/s), "
            f"{wait:.2f} s of it waiting for data; {100 * right / count:.0f} % right"
        )
        waited += wait
    return waited


def main(folder):
    files = sorted(glob.glob(os.path.join(folder, "train_*.h5")))
    with h5py.File(files[0]) as file:
        inputs = int(np.prod(file["image"].shape[1:]))
    print(f"A logistic regression ({'torch' if torch else 'NumPy'}), {EPOCHS} epochs, batches of {BATCH}, full shuffle:")
    ours = train("forebay", by_forebay(files), inputs)
    theirs = train("h5py   ", by_h5py(files), inputs)
    print(f"Waiting for data took {ours:.2f} s by forebay and {theirs:.2f} s by h5py: {theirs / max(ours, 1e-9):.0f} times as long.")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
