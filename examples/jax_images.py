"""Trains a small classifier in plain JAX from HDF5 files, stops in the middle of an epoch, and goes on from there.

Usage: python jax_images.py [FILES...]  # files with "image" and "label"; made where none are given
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import forebay
import forebay.jax

CLASSES = 4
RATE = 0.1


def make(folder: Path) -> list[str]:
    """Files of noisy images, each class of which is bright in another quarter."""
    import h5py
    import numpy as np

    random = np.random.default_rng(0)
    paths = []
    for number in range(3):
        labels = random.integers(0, CLASSES, 400)
        images = random.integers(0, 120, (400, 16, 16), np.uint8)
        for image, label in zip(images, labels):
            row, column = divmod(int(label), 2)
            image[8 * row : 8 * row + 8, 8 * column : 8 * column + 8] += 100
        path = folder / f"train_{number}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("image", data=images, chunks=(16, 16, 16), compression="gzip", shuffle=True)
            file["label"] = labels
        paths.append(str(path))
    return paths


class TrainState(NamedTuple):
    """All that a step changes."""

    step: jax.Array
    layers: list[tuple[jax.Array, jax.Array]]


def new_state(seed: int, widths: list[int]) -> TrainState:
    keys = jax.random.split(jax.random.key(seed), len(widths))
    layers = [
        (jax.random.normal(key, (before, after)) * (2 / before) ** 0.5, jnp.zeros(after))
        for key, before, after in zip(keys, widths, widths[1:])
    ]
    return TrainState(jnp.zeros((), int), layers)


def logits_of(layers: list[tuple[jax.Array, jax.Array]], images: jax.Array) -> jax.Array:
    x = images.reshape(len(images), -1).astype(jnp.float32) / 255 - 0.3
    for weights, bias in layers[:-1]:
        x = jax.nn.relu(x @ weights + bias)
    weights, bias = layers[-1]
    return x @ weights + bias


def loss_of(layers: Any, batch: Any) -> jax.Array:
    log_chances = jax.nn.log_softmax(logits_of(layers, batch["image"]))
    return -jnp.take_along_axis(log_chances, batch["label"][:, None], 1).mean()


@partial(jax.jit, donate_argnums=0)
def train_step(state: TrainState, batch: Any) -> tuple[TrainState, jax.Array]:
    """One step of gradient descent; a batch is a pytree and goes in as it is."""
    loss, gradients = jax.value_and_grad(loss_of)(state.layers, batch)
    layers = jax.tree.map(lambda value, gradient: value - RATE * gradient, state.layers, gradients)
    return TrainState(state.step + 1, layers), loss


def main(files: list[str], folder: Path) -> None:
    ds = forebay.open(files, fields=["image"], label="label")
    options: Any = {"batch_size": 32, "shuffle": "full", "seed": 7, "tail": "drop"}
    state = new_state(0, [16 * 16, 64, CLASSES])
    loader = forebay.jax.Loader(ds, **options)
    for epoch in range(2):
        losses = []
        for batch in loader:
            state, loss = train_step(state, batch)
            losses.append(loss)
            if epoch == 1 and loader.step == len(loader) // 2:
                break
        print(f"epoch {epoch}, {len(losses)} steps, loss {float(jnp.stack(losses).mean()):.4f}")
    # Stopped in the middle: what was received counts, not what was made ahead.
    (folder / "state.json").write_text(json.dumps(loader.state_dict()))
    loader.close()

    resumed = forebay.jax.Loader(ds, **options)
    resumed.load_state_dict(json.loads((folder / "state.json").read_text()))
    losses = []
    for batch in resumed:
        state, loss = train_step(state, batch)
        losses.append(loss)
    print(f"the rest of epoch 1, {len(losses)} steps, loss {float(jnp.stack(losses).mean()):.4f}")
    counts = resumed.stats()["hand_over"]
    print(f"arrays: {counts['shared']} in forebay's own memory, {counts['narrowed']} made 32 bits, {counts['copied']} copied")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or make(Path(folder)), Path(folder))
