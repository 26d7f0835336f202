"""h5py and torch's DataLoader over a set on `forebay simulate`: seconds and reads of each epoch. See --help."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import make_set

torch.set_num_threads(1)


class Samples(Dataset):
    """Samples of many files, each opened in the worker that first needs it."""

    def __init__(self, paths, per_file):
        self.paths, self.per_file, self.opened = paths, per_file, {}

    def __len__(self):
        return len(self.paths) * self.per_file

    def __getitem__(self, index):
        number, row = divmod(index, self.per_file)
        if number not in self.opened:
            self.opened[number] = h5py.File(self.paths[number])["x"]
        return self.opened[number][row]


def counters(mount):
    """What was counted since the last call."""
    path = mount / ".forebay-slow" / "reset.json"
    return json.loads(path.read_text()) if path.exists() else {}


def epochs(args, mount, workers):
    paths = make_set.paths(mount, args.files)
    order = torch.Generator().manual_seed(make_set.SEED)
    loader = DataLoader(Samples(paths, args.samples), batch_size=args.batch, shuffle=True, generator=order,
                        num_workers=workers, persistent_workers=workers > 0)
    for epoch in range(args.epochs):
        counters(mount)
        began, count, total = time.perf_counter(), 0, 0.0
        for batch in loader:
            count += len(batch)
            total += batch[0, 0].item()
        took = time.perf_counter() - began
        assert count == args.files * args.samples, f"{count} samples came"
        told = counters(mount)
        yield {"workers": workers, "epoch": epoch, "seconds": round(took, 2), "reads": told.get("reads"),
               "opens": told.get("opens"), "bytes": told.get("bytes")}


def measure(args, mount):
    for workers in args.workers:
        for result in epochs(args, mount, workers):
            print(json.dumps(result), flush=True)


def check(folder, mount, args):
    """The mount shows the values of the set."""
    for one, other in zip(make_set.paths(folder, args.files)[:1], make_set.paths(mount, args.files)):
        with h5py.File(one) as below, h5py.File(other) as shown:
            assert np.array_equal(below["x"][:2], shown["x"][:2]), other


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    make_set.add_arguments(parser)
    parser.add_argument("--forebay", default="forebay", help="the command [forebay]")
    parser.add_argument("--latency", default="2ms")
    parser.add_argument("--bandwidth", default="200MiB/s")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--workers", type=lambda text: [int(one) for one in text.split(",")], default=[0, 2, 8],
                        metavar="0,2,8", help="numbers of worker processes")
    parser.add_argument("--local", action="store_true", help="read the set where it lies, not through a slow mount")
    parser.add_argument("--mounted", type=pathlib.Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse_args()
    folder = make_set.make(args)
    if args.local:
        return measure(args, folder)
    if args.mounted:
        check(folder, args.mounted, args)
        return measure(args, args.mounted)
    with tempfile.TemporaryDirectory() as mount:
        again = [sys.executable, __file__, *sys.argv[1:], "--mounted", mount]
        command = [args.forebay, "simulate", folder, mount, "--latency", args.latency, "--bandwidth", args.bandwidth]
        sys.exit(subprocess.run([*command, "--", *again]).returncode)


if __name__ == "__main__":
    main()
