"""Trains a small convolutional net in Flax from HDF5 files, stops in the middle of an epoch, and goes on from a checkpoint.

Usage: python flax_images.py [FILES...]  # files with "image" and "label"; made where none are given
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import serialization
from flax.training.train_state import TrainState
from jax_images import CLASSES, make

import forebay
import forebay.jax


class Net(nn.Module):
    """Scores of the classes for each image."""

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        x = images[..., None].astype(jnp.float32) / 255 - 0.3
        x = nn.relu(nn.Conv(8, (3, 3), strides=2)(x))
        x = nn.relu(nn.Dense(32)(x.reshape(len(x), -1)))
        return nn.Dense(CLASSES)(x)


NET, OPTIMIZER = Net(), optax.adam(1e-3)
"""Of all states: with others the step would be compiled again."""


def new_state(seed: int) -> TrainState:
    params = NET.init(jax.random.key(seed), jnp.zeros((1, 16, 16), jnp.uint8))["params"]
    state = TrainState.create(apply_fn=NET.apply, params=params, tx=OPTIMIZER)
    return on_device(state.replace(step=jnp.zeros((), int)))


def on_device(state: TrainState) -> TrainState:
    """The state committed to the device, as batches are: the step is compiled once, and not again when a result of it comes in."""
    committed: TrainState = jax.device_put(state, jax.devices()[0])
    return committed


def new_loader(files: list[str]) -> forebay.jax.Loader:
    ds = forebay.open(files, fields=["image"], label="label")
    return forebay.jax.Loader(ds, batch_size=32, shuffle="full", seed=7, tail="drop")


@jax.jit
def train_step(state: TrainState, batch: Any) -> tuple[TrainState, jax.Array]:
    """One step of Adam; a batch is a pytree and goes in as it is."""

    def loss_of(params: Any) -> jax.Array:
        logits = state.apply_fn({"params": params}, batch["image"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    loss, gradients = jax.value_and_grad(loss_of)(state.params)
    return state.apply_gradients(grads=gradients), loss


def train(state: TrainState, loader: forebay.jax.Loader, stop: int | None = None) -> tuple[TrainState, list[float]]:
    """Trains until the end of the epoch, or until ``stop`` steps of it; gives the loss of each step as well."""
    losses = []
    for batch in loader:
        state, loss = train_step(state, batch)
        losses.append(loss)
        if loader.step == stop:
            break
    return state, [float(loss) for loss in losses]


def save(path: Path, state: TrainState, loader: forebay.jax.Loader) -> None:
    """Writes one file, so that the net and its place in the data belong together; of batches, those that were received count."""
    path.write_bytes(serialization.to_bytes({"train": state, "loader": json.dumps(loader.state_dict())}))


def restore(path: Path, state: TrainState, loader: forebay.jax.Loader) -> TrainState:
    saved = serialization.from_bytes({"train": state, "loader": ""}, path.read_bytes())
    loader.load_state_dict(json.loads(saved["loader"]))
    return on_device(saved["train"])


def say(what: str, losses: list[float]) -> None:
    print(f"{what}, {len(losses)} steps, loss {sum(losses) / len(losses):.4f}")


def main(files: list[str], folder: Path) -> None:
    checkpoint = folder / "checkpoint.msgpack"
    state, loader = new_state(seed=0), new_loader(files)
    for epoch in range(2):
        state, losses = train(state, loader)
        say(f"epoch {epoch}", losses)
    state, losses = train(state, loader, stop=len(loader) // 2)
    say("half of epoch 2", losses)
    save(checkpoint, state, loader)
    loader.close()

    # As another process would go on: nothing is left but the checkpoint.
    loader = new_loader(files)
    state = restore(checkpoint, new_state(seed=1), loader)
    print(f"going on after step {int(state.step)}, with {loader.remaining} batches left of epoch {loader.epoch}")
    state, losses = train(state, loader)
    say("the rest of epoch 2", losses)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or make(Path(folder)), Path(folder))
