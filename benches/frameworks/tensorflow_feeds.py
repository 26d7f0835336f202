"""Batches for TensorFlow: by forebay, by a generator over h5py, and from TFRecord files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
import tensorflow as tf

import forebay.tensorflow

OURS = "forebay.tensorflow.dataset"
GENERATOR = "from_generator over h5py"
BY_BATCH = "from_generator over h5py, a batch each"
RECORDS = "TFRecord"
PACKED = "TFRecord, gzip"
BUFFER = 4096
"""Records that are shuffled at a time."""


def names(workload: Any) -> list[str]:
    return [*workload.fields] + ([workload.label] if workload.label else [])


class Feed:
    """Epochs of a dataset."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def epoch(self, number: int) -> Iterator[int]:
        """Samples of each batch."""
        for batch in self.dataset:
            yield int(batch[0].shape[0])


def by_forebay(workload: Any) -> Feed:
    made = forebay.tensorflow.dataset(
        [str(path) for path in workload.paths], fields=names(workload), batch_size=workload.batch, shuffle="full", seed=7, as_tuple=True
    )
    return Feed(made.prefetch(2))


def signature(workload: Any, *before: Any) -> tuple[Any, ...]:
    data = tf.TensorSpec((*before, *workload.sample_shape), tf.float32)
    return (data, tf.TensorSpec(before, tf.int64)) if workload.label else (data,)


def by_generator(workload: Any) -> Feed:
    file = h5py.File(workload.paths[0])
    variables = [file[name] for name in names(workload)]

    def samples() -> Iterator[Any]:
        for number in np.random.default_rng(7).permutation(workload.sample_count):
            yield tuple(variable[number] for variable in variables)

    made = tf.data.Dataset.from_generator(samples, output_signature=signature(workload))
    return Feed(made.batch(workload.batch).prefetch(tf.data.AUTOTUNE))


def by_batches(workload: Any) -> Feed:
    file = h5py.File(workload.paths[0])
    variables = [file[name] for name in names(workload)]

    def batches() -> Iterator[Any]:
        order = np.random.default_rng(7).permutation(workload.sample_count)
        for start in range(0, len(order), workload.batch):
            chosen = np.sort(order[start : start + workload.batch])
            yield tuple(variable[chosen] for variable in variables)

    made = tf.data.Dataset.from_generator(batches, output_signature=signature(workload, None))
    return Feed(made.prefetch(tf.data.AUTOTUNE))


def record_path(workload: Any, is_packed: bool) -> Any:
    return workload.folder / ("samples.tfrecord.gz" if is_packed else "samples.tfrecord")


def prepare(workload: Any) -> None:
    """Writes the samples as TFRecord files, as TensorFlow's own guide does it."""
    for is_packed in (False, True):
        path = record_path(workload, is_packed)
        if path.exists() or is_packed and not workload.samples_per_chunk:
            continue
        part = path.with_suffix(".part")
        options = tf.io.TFRecordOptions(compression_type="GZIP" if is_packed else "", compression_level=4 if is_packed else None)
        with h5py.File(workload.paths[0]) as file, tf.io.TFRecordWriter(str(part), options) as writer:
            for start in range(0, workload.sample_count, 1024):
                columns = [file[name][start : start + 1024] for name in names(workload)]
                for row in zip(*columns):
                    features = {"x": tf.train.Feature(bytes_list=tf.train.BytesList(value=[row[0].tobytes()]))}
                    if workload.label:
                        features["y"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[int(row[1])]))
                    writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
        part.rename(path)


def by_records(workload: Any, is_packed: bool = False) -> Feed:
    wanted = {"x": tf.io.FixedLenFeature((), tf.string)}
    if workload.label:
        wanted["y"] = tf.io.FixedLenFeature((), tf.int64)

    def parse(records: Any) -> Any:
        parsed = tf.io.parse_example(records, wanted)
        x = tf.reshape(tf.io.decode_raw(parsed["x"], tf.float32), (-1, *workload.sample_shape))
        return (x, parsed["y"]) if workload.label else (x,)

    made = tf.data.TFRecordDataset(str(record_path(workload, is_packed)), "GZIP" if is_packed else "").shuffle(BUFFER)
    return Feed(made.batch(workload.batch).map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE))


def by_packed_records(workload: Any) -> Feed:
    # Of samples that are not compressed in HDF5 either there is one such file.
    return by_records(workload, bool(workload.samples_per_chunk))


CONTESTANTS = {
    OURS: by_forebay,
    GENERATOR: by_generator,
    BY_BATCH: by_batches,
    RECORDS: by_records,
    PACKED: by_packed_records,
}
GOALS = [(OURS, GENERATOR, 5.0), (OURS, RECORDS, 1.0), (OURS, PACKED, 1.0)]
