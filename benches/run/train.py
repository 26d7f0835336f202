"""A training script as people write it: h5py and torch's DataLoader. It knows nothing of forebay. See --help."""

import argparse
import json
import pathlib
import time

import h5py
import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    """Rows of many files, each opened in the worker that first needs it."""

    def __init__(self, paths, per_file):
        self.paths, self.per_file, self.opened = paths, per_file, {}

    def __len__(self):
        return len(self.paths) * self.per_file

    def __getitem__(self, index):
        number, row = divmod(index, self.per_file)
        if number not in self.opened:
            self.opened[number] = h5py.File(self.paths[number])["x"]
        return self.opened[number][row]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--counters", type=pathlib.Path, help="a file to read between epochs: what went through the mount")
    args = parser.parse_args()
    torch.set_num_threads(1)
    paths = sorted(args.folder.glob("*.h5"))
    with h5py.File(paths[0]) as file:
        per_file = len(file["x"])
    loader = DataLoader(Rows(paths, per_file), batch_size=args.batch, shuffle=True, num_workers=args.workers,
                        generator=torch.Generator().manual_seed(7))
    for epoch in range(args.epochs):
        began, total, count = time.perf_counter(), 0.0, 0
        for batch in loader:
            total += batch[:, 0].sum().item()
            count += len(batch)
        result = {"epoch": epoch, "seconds": time.perf_counter() - began, "samples": count, "total": round(total, 3)}
        if args.counters:
            result["mount"] = json.loads(args.counters.read_text())
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
