"""Whether forebay gives each sample of a workload once, in a random order, with h5py's values.

    check_forebay.py FOLDER SCALE WORKLOAD SHUFFLE
"""

import sys

import h5py
import numpy as np

import by_forebay
from workloads import workloads

BATCHES_COMPARED = 8


def values(workload, name, sample):
    """A field of a sample, as h5py reads it: a line, or for ragged samples an array."""
    number, row = divmod(int(sample), workload.samples_per_file)
    with h5py.File(workload.paths[number]) as file:
        if workload.whole:
            return file[name][...].ravel()
        if workload.ragged:
            start, end = file[workload.offsets[name]][row:row + 2]
            return file[name][(slice(None),) * workload.axes.get(name, 0) + (slice(start, end),)]
        return np.ravel(file[name][row])


def compare(workload, batch):
    for name in [*workload.fields] + ([workload.label] if workload.label else []):
        axis = workload.axes.get(name, 0)
        expected = np.concatenate([values(workload, name, sample) for sample in batch.indices], axis)
        got = np.asarray(batch[name])
        if not np.array_equal(got if workload.ragged else got.ravel(), expected):
            raise SystemExit(f"'{name}' of samples {list(batch.indices)[:4]}... differs from h5py's")


def main(folder, scale, name, shuffle):
    workload = next(one for one in workloads(folder, float(scale)) if one.name == name)
    contestant = by_forebay.Contestant(workload, shuffle, threads=2)
    contestant.loader.set_epoch(0)
    step = max(workload.sample_count // workload.batch // BATCHES_COMPARED, 1)
    seen = []
    for number, batch in enumerate(contestant.loader):
        seen.append(np.array(batch.indices))
        if number % step == 0:
            compare(workload, batch)
    seen = np.concatenate(seen)
    in_order = np.arange(workload.sample_count)
    if not np.array_equal(np.sort(seen), in_order):
        raise SystemExit("an epoch does not hold each sample once")
    # Of a random order every second step goes back; within blocks of few samples, somewhat fewer.
    if np.mean(np.diff(seen) < 0) < 0.25 and workload.sample_count > 100:
        raise SystemExit(f"order '{shuffle}' is not random")


if __name__ == "__main__":
    main(*sys.argv[1:])
