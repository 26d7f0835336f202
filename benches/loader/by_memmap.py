"""NumPy's memmap over variables that are stored as they are."""

import h5py
import numpy as np

import tables


def _map(path, name):
    with h5py.File(path) as file:
        variable = file[name]
        return np.memmap(path, variable.dtype, "r", variable.id.get_offset(), variable.shape)


class Contestant:
    def __init__(self, workload):
        self.workload = workload
        names = [*workload.fields] + ([workload.label] if workload.label else [])
        self.files = [[_map(path, name) for name in names] for path in workload.paths]
        self.make = self.indexed
        if workload.ragged:
            with h5py.File(workload.paths[0]) as file:
                self.ends = [file[offsets][...].tolist() for offsets in workload.offsets.values()]
            self.axes = [workload.axes.get(name, 0) for name in workload.offsets]
            self.make = self.ragged
        elif workload.file_count > 1:
            self.make = self.of_many_files

    def indexed(self, samples):
        return [variable[samples] for variable in self.files[0]]

    def of_many_files(self, samples):
        batch = np.empty((len(samples), *self.workload.sample_shape), "<f4")
        for slot, sample in enumerate(samples.tolist()):
            number, row = divmod(sample, self.workload.samples_per_file)
            batch[slot] = self.files[number][0][row]
        return [batch]

    def ragged(self, samples):
        batch = []
        for variable, ends, axis in zip(self.files[0], self.ends, self.axes):
            places = [slice(ends[sample], ends[sample + 1]) for sample in samples.tolist()]
            batch.append(np.concatenate([variable[(slice(None),) * axis + (place,)] for place in places], axis))
        return batch

    def epoch(self, number):
        order = tables.full_order(self.workload.sample_count)
        for start in range(0, len(order), self.workload.batch):
            samples = order[start:start + self.workload.batch]
            yield len(samples), self.make(samples)

    def close(self):
        pass
