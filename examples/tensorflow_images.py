"""Trains a small classifier in Keras from HDF5 files, stops in the middle of an epoch, and goes on from there.

Usage: python tensorflow_images.py [FILES...]  # files with "image" and "label"; made where none are given
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

import forebay.tensorflow  # noqa: E402
from forebay.tensorflow import State, StateCallback  # noqa: E402

CLASSES = 4


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


def batches(files: list[str], state: State) -> Any:
    ds = forebay.tensorflow.dataset(
        files, fields=["image"], label="label", batch_size=32, shuffle="full", seed=7, tail="drop", as_supervised=True, state=state
    )
    return ds.map(lambda image, label: (tf.cast(image, tf.float32) / 255, label)).prefetch(4)


class StopAt(keras.callbacks.Callback):
    """Ends the training at a batch of an epoch, as the end of a job would."""

    def __init__(self, epoch: int, batch: int) -> None:
        super().__init__()
        self.epoch, self.batch, self.now = epoch, batch, 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.now = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.model.stop_training = (self.now, batch) == (self.epoch, self.batch)


def main(files: list[str], folder: Path) -> None:
    layers = keras.layers
    model = keras.Sequential(
        [layers.Input((16, 16)), layers.Flatten(), layers.Dense(64, "relu"), layers.Dense(CLASSES)]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    kept = folder / "state.json"

    state = State()
    done = model.fit(batches(files, state), epochs=2, verbose=0, callbacks=[StateCallback(state, kept), StopAt(1, 9)])
    for epoch, loss in enumerate(done.history["loss"]):
        print(f"epoch {epoch}, loss {loss:.4f}")

    # Stopped in the middle: what was trained on counts, not what tf.data had read ahead.
    state = State(json.loads(kept.read_text()))
    print(f"going on in epoch {state.epoch} at sample {state.state_dict()['position']}")
    done = model.fit(batches(files, state), verbose=0, callbacks=[StateCallback(state, kept)])
    print(f"the rest of epoch 1, loss {done.history['loss'][0]:.4f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1:] or make(Path(folder)), Path(folder))
