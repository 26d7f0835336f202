"""Plain ``tf.data`` under ``forebay run``: the same records, read from the tier."""

from __future__ import annotations

import time
from pathlib import Path

import tensorflow as tf
from run_programs import python, twice

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
