"""h5py, with a torch DataLoader as a careful user writes it, and without one for whole files."""

import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import tables

torch.set_num_threads(1)


class Files:
    """Files that are opened where they are first needed: in the worker, not before it is forked."""

    def __init__(self, paths, **how):
        self.paths, self.how, self.opened = paths, how, {}

    def variables(self, number, names):
        if number not in self.opened:
            file = h5py.File(self.paths[number], **self.how)
            self.opened[number] = [file[name] for name in names]
        return self.opened[number]


class Samples(Dataset):
    def __init__(self, workload, **how):
        self.workload = workload
        self.names = [*workload.fields] + ([workload.label] if workload.label else [])
        self.files = Files(workload.paths, **how)
        with h5py.File(workload.paths[0]) as file:
            self.ends = {name: file[offsets][...] for name, offsets in workload.offsets.items()}

    def __len__(self):
        return self.workload.sample_count

    def __getitem__(self, index):
        number, row = divmod(index, self.workload.samples_per_file)
        variables = self.files.variables(number, self.names)
        if self.workload.whole:
            return [variable[...] for variable in variables]
        if self.workload.ragged:
            return [variable[self.cut(name, row)] for name, variable in zip(self.names, variables)]
        return [variable[row] for variable in variables]

    def cut(self, name, row):
        ends = self.ends[name]
        return (slice(None),) * self.workload.axes.get(name, 0) + (slice(ends[row], ends[row + 1]),)

    def join(self, samples):
        """Graphs end to end: torch's own way to make a batch needs equal shapes."""
        fields = zip(self.names, zip(*samples))
        return [torch.from_numpy(np.concatenate(field, self.workload.axes.get(name, 0))) for name, field in fields]


class Loaded:
    """One `__getitem__` per sample and torch's DataLoader."""

    def __init__(self, workload, workers, chunk_cache=None):
        self.workload = workload
        how = {"rdcc_nbytes": chunk_cache, "rdcc_nslots": 100_003} if chunk_cache else {}
        samples = Samples(workload, **how)
        self.loader = DataLoader(
            samples, batch_size=workload.batch, shuffle=True, num_workers=workers,
            persistent_workers=workers > 0, collate_fn=samples.join if workload.ragged else None,
            generator=torch.Generator().manual_seed(tables.SEED))

    def epoch(self, number):
        left = self.workload.sample_count
        for arrays in self.loader:
            count = min(self.workload.batch, left)
            left -= count
            yield count, arrays

    def close(self):
        iterator = self.loader._iterator  # the only way to end workers that persist
        if iterator is not None:
            iterator._shutdown_workers()


class Direct:
    """Whole files, one after another, into a new array or into the same one each time."""

    def __init__(self, workload, reuse):
        self.workload = workload
        self.files = Files(workload.paths)
        self.buffer = np.empty(workload.sample_shape, "<f4") if reuse else None

    def epoch(self, number):
        for index in tables.full_order(self.workload.sample_count):
            (variable,) = self.files.variables(index, self.workload.fields)
            if self.buffer is None:
                yield 1, [variable[...]]
            else:
                variable.read_direct(self.buffer)
                yield 1, [self.buffer]

    def close(self):
        pass
