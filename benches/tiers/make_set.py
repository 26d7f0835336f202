"""Makes a set of HDF5 files with samples that lie side by side, unless it is there. See --help."""

import argparse
import os
import pathlib
import time

import h5py
import numpy as np

# Raised when a set is made in another way: older ones are made again.
VERSION = "1"
SEED = 7


def cache():
    """The folder outside the clone for what is made, as scripts/env.sh has it."""
    own = os.environ.get("FOREBAY_CACHE_DIR")
    if own:
        return pathlib.Path(own)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "forebay-dev"


def default_folder(files, samples, sample_kib):
    return cache() / "bench" / f"tiers-{files}x{samples}x{sample_kib}k"


def add_arguments(parser):
    parser.add_argument("--files", type=int, default=64, help="files [64]")
    parser.add_argument("--samples", type=int, default=256, help="samples in each file [256]")
    parser.add_argument("--sample-kib", type=int, default=64, help="KiB in each sample [64]")
    parser.add_argument("--folder", type=pathlib.Path, help="where the set is kept [the cache folder]")


def paths(folder, files):
    return [folder / f"part_{number:04}.h5" for number in range(files)]


def make(args):
    """Makes the set and gives its folder; each file is whole or absent."""
    folder = args.folder or default_folder(args.files, args.samples, args.sample_kib)
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / "version"
    told = f"{VERSION} {args.files} {args.samples} {args.sample_kib}"
    if mark.exists() and mark.read_text() == told:
        return folder
    mark.unlink(missing_ok=True)
    shape = (args.samples, args.sample_kib * 256)
    for number, path in enumerate(paths(folder, args.files)):
        part = path.with_suffix(".part")
        with h5py.File(part, "w") as file:
            file["x"] = np.random.default_rng([SEED, number]).random(shape, "<f4")
        part.replace(path)
    mark.write_text(told)
    # Files that changed a moment ago are not copied.
    time.sleep(3)
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    print(make(parser.parse_args()))
