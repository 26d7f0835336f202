#!/usr/bin/env python3
"""Makes damaged files from small files of the matrix: cut short, with bits flipped, with bytes replaced.

    make_hostile.py OUT_DIR [--matrix MATRIX_DIR]

MATRIX_DIR defaults to OUT_DIR/../matrix; make_matrix.py must have filled it. Nothing is expected of the values:
a reader answers with some value or an error in bounded time and memory, and never panics. The same matrix gives the
same files. OUT_DIR/hostile.csv names them: `file,from,damage`.
"""

import argparse
import csv
import os
import random
import zlib

SOURCES = [
    "superblock_earliest_0.h5", "superblock_latest_0.h5", "superblock_v108_0.h5", "superblock_v110_512.h5",
    "superblock_wide_0.h5", "sizes_4_4_earliest.h5", "sizes_2_2_latest.h5", "sizes_8_4_latest.h5",
    "group_rank_1_1.h5", "links_earliest.h5", "links_latest.h5", "committed_earliest.h5", "committed_latest.h5",
    "shared_earliest_1_50.h5", "shared_latest_1_0.h5", "space_page_kept_latest.h5", "space_fsm_kept_v110.h5",
    "groups_latest_ordered.h5", "groups_earliest_named.h5", "names_latest.h5", "external_latest.h5",
    "virtual_unlimited.h5", "virtual_special.h5", "virtual_mappings.h5", "virtual_numbered_0.h5",
    "masks_latest.h5", "masks_earliest.h5", "unfiltered_edges_latest.h5", "unknown_filter_latest.h5",
    "refused_latest.h5", "netcdf_types.nc", "netcdf_netcdf4.nc", "netcdf_filters.nc", "spaces_earliest.h5",
    "spaces_latest.h5", "nbit_latest.h5", "nbit_earliest.h5", "zfp_latest.h5", "complex_native_latest.h5",
    "edges_v110.h5", "virtual_source_0.h5", "indexes_v110.h5", "resized_latest.h5",
    "resized_earliest.h5", "sequences_latest.h5", "pytables_blosc2.h5",
]
LARGEST = 350_000
TOTAL = 19_000_000


def cuts(length):
    """Lengths to keep: the first structures one by one, then ever larger parts, then all but a little."""
    parts = {0, 1, 8, 24, 48, 95, 96, 200, length // 4, length // 2, length * 9 // 10, length - 8, length - 1}
    return sorted(n for n in parts if 0 <= n < length)


def structures(raw):
    """Where things worth breaking begin: signatures of the format, and the superblock."""
    found = [0]
    for mark in (b"OHDR", b"OCHK", b"TREE", b"HEAP", b"SNOD", b"GCOL", b"FRHP", b"FHDB", b"FHIB", b"BTHD", b"BTIN", b"BTLF",
                 b"EAHD", b"EAIB", b"EASB", b"EADB", b"FAHD", b"FADB", b"SMTB", b"SMLI", b"FSHD", b"FSSE"):
        at = raw.find(mark)
        while at >= 0 and len(found) < 400:
            found.append(at)
            at = raw.find(mark, at + 1)
    return sorted(found)


def flipped(raw, rng, places):
    """A few bits turned over, mostly soon after the start of a structure."""
    out = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.choice(places) + rng.randrange(4, 90) if rng.random() < 0.8 else rng.randrange(len(raw))
        out[at % len(raw)] ^= 1 << rng.randrange(8)
    return bytes(out)


def replaced(raw, rng, places):
    """A run of bytes replaced by noise, by all ones, by zeros, or by bytes from elsewhere in the file."""
    out = bytearray(raw)
    at = (rng.choice(places) + rng.randrange(4, 120)) % len(raw)
    size = min(rng.choice([1, 2, 4, 8, 8, 32, 200]), len(raw) - at)
    other = rng.randrange(len(raw) - size + 1)
    out[at:at + size] = rng.choice([rng.randbytes(size), b"\xff" * size, bytes(size), raw[other:other + size]])
    return bytes(out)


def damages(name, raw):
    rng = random.Random(zlib.crc32(name.encode()))
    places = structures(raw)
    small = len(raw) < 40_000
    for length in cuts(len(raw)) if small else cuts(len(raw))[::3]:
        yield f"cut_{length}", raw[:length]
    for index in range(6 if small else 2):
        yield f"flip_{index}", flipped(raw, rng, places)
    for index in range(6 if small else 2):
        yield f"replace_{index}", replaced(raw, rng, places)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--matrix")
    arguments = parser.parse_args()
    matrix = arguments.matrix or os.path.join(arguments.out, "..", "matrix")
    os.makedirs(arguments.out, exist_ok=True)
    rows, total = [], 0
    for name in SOURCES:
        with open(os.path.join(matrix, name), "rb") as source:
            raw = source.read()
        if len(raw) > LARGEST:
            print(f"{name}: {len(raw)} bytes, left out")
            continue
        for damage, changed in damages(name, raw):
            if total + len(changed) > TOTAL:
                continue
            total += len(changed)
            stem, ending = os.path.splitext(name)
            rows.append([f"{stem}__{damage}{ending}", name, damage])
            with open(os.path.join(arguments.out, rows[-1][0]), "wb") as out:
                out.write(changed)
    with open(os.path.join(arguments.out, "hostile.csv"), "w", newline="") as table:
        csv.writer(table, lineterminator="\n").writerows([["file", "from", "damage"], *rows])
    print(f"{len(rows)} files of {len({row[1] for row in rows})}, {total} bytes")


if __name__ == "__main__":
    main()
