"""Who reads the sets, and one of them alone in a process: readers.py FOLDER SCALE SET NAME."""

from __future__ import annotations

import json
import sys

import sets  # first: it finds what is the loader's benchmark's
import tables


def order(one, shuffle):
    if shuffle == "block":
        return tables.block_order(one.sample_count, one.samples_per_chunk)
    return tables.full_order(one.sample_count)


class Peer:
    """Rows in random order, batch by batch, as `rows` of a subclass reads them."""

    def __init__(self, one, shuffle="full"):
        self.one, self.shuffle = one, shuffle
        self.open()

    def epoch(self, number):
        numbers = order(self.one, self.shuffle)
        for start in range(0, len(numbers), self.one.batch):
            samples = numbers[start:start + self.one.batch]
            yield len(samples), [self.rows(samples)]

    def close(self):
        pass


class NetCDF4(Peer):
    def open(self):
        import netCDF4

        self.x = netCDF4.Dataset(self.one.path)["x"]
        self.x.set_auto_maskandscale(False)

    def rows(self, samples):
        import numpy as np

        return np.stack([self.x[sample] for sample in samples])


class Adios2(Peer):
    def open(self):
        import adios2

        self.file = adios2.FileReader(str(self.one.path))

    def rows(self, samples):
        import numpy as np

        return np.stack([self.file.read("x", [int(sample), 0], [1, sets.ROW])[0] for sample in samples])


class Zarr(Peer):
    def open(self):
        import zarr

        self.x = zarr.open_group(self.one.path, mode="r")["x"]

    def rows(self, samples):
        return self.x.oindex[samples]


class TensorStore(Peer):
    def open(self):
        import tensorstore

        if self.one.samples_per_chunk:
            self.x = sets.open_images(self.one, open=True, read=True)
        else:
            spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{self.one.path}/x/"}}
            self.x = tensorstore.open(spec, open=True, read=True).result()

    def rows(self, samples):
        return self.x[samples].read().result()


class Forebay:
    def __init__(self, one, shuffle="full", threads=1):
        import forebay

        self.field = one.field
        ds = forebay.open(str(one.path), fields=[one.field])
        self.loader = ds.loader(batch_size=one.batch, shuffle=shuffle, seed=7, read_threads=threads)

    def epoch(self, number):
        self.loader.set_epoch(number)
        for batch in self.loader:
            yield len(batch.indices), [batch[self.field]]

    def close(self):
        self.loader.close()


# Silo has no Python interface on the package index, and to HDF5 its axes stand the wrong way round.
PEERS = {"netcdf": [NetCDF4], "bp4": [Adios2], "zarr": [Zarr, TensorStore]}


def contestants(one):
    """Names with what opens them; the limit is not among them."""
    if one.samples_per_chunk:
        found = {}
        for shuffle in ("full", "block"):
            found[f"tensorstore, {shuffle}"] = lambda shuffle=shuffle: TensorStore(one, shuffle)
            for threads in (1, 2):
                name = f"forebay, {shuffle}, {threads} thread{'s' * (threads > 1)}"
                found[name] = lambda shuffle=shuffle, threads=threads: Forebay(one, shuffle, threads)
        return found
    found = {peer.__name__: lambda peer=peer: peer(one) for peer in PEERS.get(one.name, [])}
    return found | {"forebay, 1 thread": lambda: Forebay(one)}


def main(folder, scale, set_name, name):
    import measure  # of the loader's benchmark

    one = next(one for one in sets.sets(folder, float(scale)) if one.name == set_name)
    print(json.dumps(measure.run(contestants(one)[name], one)))


if __name__ == "__main__":
    main(*sys.argv[1:])
