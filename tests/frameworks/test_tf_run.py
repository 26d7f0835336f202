"""Plain ``tf.data`` under ``forebay run``, and URLs, which only ``forebay.tensorflow.dataset`` reads."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import tensorflow as tf
from counting_server import serving
from run_programs import python, twice

import forebay.tensorflow

READ = """
    import hashlib, sys, tensorflow as tf
    files = sorted(tf.io.gfile.glob(sys.argv[1] + "/*.tfrecord"))
    data = tf.data.TFRecordDataset(files, num_parallel_reads=2).shuffle(100, seed=1).batch(32).prefetch(2)
    total = hashlib.sha256(b"".join(sorted(row for batch in data for row in batch.numpy())))
    print(total.hexdigest())
"""


def test_tf_data_over_tfrecords(tmp_path: Path) -> None:
    origin = tmp_path.resolve() / "origin"
    origin.mkdir()
    for number in range(4):
        with tf.io.TFRecordWriter(str(origin / f"{number}.tfrecord")) as writer:
            for row in range(500):
                writer.write(bytes([number, row % 256]) * 1000)
    # A tier copies no file that was modified less than two seconds ago.
    time.sleep(2.1)
    twice(origin, *python(READ, origin))


def example(number: int) -> bytes:
    label = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
    made: bytes = tf.train.Example(features=tf.train.Features(feature={"label": label})).SerializeToString()
    return made


def test_tfrecords_of_a_web_server_are_read_by_dataset_and_not_by_plain_tf_data(tmp_path: Path) -> None:
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for number in range(40):
            writer.write(example(number))
    with serving(tmp_path) as origin:
        url = f"{origin.url}/a.tfrecord"
        batches = forebay.tensorflow.dataset(url, fields=["label"], batch_size=8)
        assert [int(one) for batch in batches for one in batch["label"]] == list(range(40))
        given = origin.given
        with pytest.raises(tf.errors.UnimplementedError, match="http"):
            list(tf.data.TFRecordDataset(url))
        assert origin.given == given > 0
