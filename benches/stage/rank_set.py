"""Makes the file that tests/hdf5/parallel_epochs.c reads: rank_set.py FILE --mib N. Prints one line of JSON: its bytes."""

import argparse
import json
import os
import time

import h5py
import numpy as np

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("file")
parser.add_argument("--mib", type=int, default=128)
args = parser.parse_args()
index = np.arange((args.mib << 20) // 4, dtype=np.uint64)
with h5py.File(args.file, "w") as file:
    file["x"] = ((index * 2654435761) & 0x7FFFFFFF).astype(np.int32)
# A file that has just changed is not cached.
time.sleep(2.5)
print(json.dumps({"bytes": os.path.getsize(args.file)}))
