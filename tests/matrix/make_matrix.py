#!/usr/bin/env python3
"""Makes a matrix of HDF5 files and the values libhdf5 reads from them.

    make_matrix.py OUT_DIR [SUBJECT ...]

OUT_DIR then holds the files and two tables (UTF-8, comma separated, quoted where needed):

- manifest.csv: `file,variable,kind,dtype,shape,sha256,note`, one row per data set and per name of it.
  `sha256` is of the canonical bytes that matrix/canonical.py defines. `kind` is `value`, or `refuse:<reason>`
  where a right reader answers with an error; the sha256 is then empty. `note` holds words parted by `;`:
  `by-name` marks a path that a listing of the file need not show but that must open.
- attributes.csv: `file,object,attribute,kind,dtype,shape,sha256`, by the same rules.

Values are those libhdf5 gives after the file was closed and opened again, never those that were meant to be written.
The same versions of h5py, hdf5plugin, netCDF4 and PyTables give the same tables; the same bytes too, but for the time
of making in committed types, virtual data sets, superblock extensions and netCDF, and for LZF, whose output varies.
Paths of external and virtual sources are relative to OUT_DIR.
"""

import os
import sys
import time

import hdf5plugin  # noqa: F401  (registers its filters)

from matrix import filters, indexes, layouts, others, plugins, scan, structure, types, virtual
from matrix.make import Matrix

MODULES = [types, layouts, indexes, filters, plugins, virtual, structure, others]


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    out, wanted = arguments[0], set(arguments[1:])
    os.makedirs(out, exist_ok=True)
    os.chdir(out)
    matrix = Matrix()
    for module in MODULES:
        for subject in module.SUBJECTS:
            if wanted and subject.__name__ not in wanted:
                continue
            started, count = time.monotonic(), len(matrix.files)
            subject(matrix)
            print(f"{subject.__name__}: {len(matrix.files) - count} files, {time.monotonic() - started:.1f} s", flush=True)
    started = time.monotonic()
    rows = scan.scan(matrix)
    refused = sum(row[2] != "value" for row in rows)
    print(f"{len(rows)} data sets ({refused} to refuse) in {len(set(matrix.files))} files,"
          f" read again in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
