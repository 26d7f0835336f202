"""The filters of hdf5plugin: those with one answer, zfp, and those a reader refuses."""

import hdf5plugin as hp

from .filters import GRIDS, LARGE, put
from .make import plain, runs

DTYPES = ["|u1", "<i2", ">i4", "<f4", ">f8", "<i8", "S5", "records"]
# Blosc and LZF leave alone what they cannot make smaller: these chunks they can.
WIDE = [((3000,), (1000,)), ((60, 70), (32, 40)), ((20, 20, 21), (10, 16, 20))]
BLOSC_CODECS = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]


def _lossless():
    for level in (1, 3, 22):
        yield f"zstd{level}", hp.Zstd(clevel=level)
    for size in (0, 16, 100, 4096):
        yield f"lz4_{size}", hp.LZ4(nbytes=size)
    for level in (1, 9):
        yield f"bzip2_{level}", hp.BZip2(blocksize=level)
    for codec in ("none", "lz4", "zstd"):
        for count in (0, 8, 64):
            yield f"bitshuffle_{codec}_{count}", hp.Bitshuffle(nelems=count, cname=codec)


def _blosc():
    for codec in BLOSC_CODECS + ["snappy"]:
        for shuffle in (hp.Blosc.NOSHUFFLE, hp.Blosc.SHUFFLE, hp.Blosc.BITSHUFFLE):
            for level in (1, 5, 9) if codec in ("blosclz", "lz4") else (5,):
                try:
                    yield f"blosc_{codec}_{shuffle}_{level}", hp.Blosc(cname=codec, clevel=level, shuffle=shuffle)
                except ValueError:
                    continue
    yield "blosc_lz4_1_0", hp.Blosc(cname="lz4", clevel=0, shuffle=1)


def _blosc2():
    shuffles = {"none": hp.Blosc2.NOFILTER, "shuffle": hp.Blosc2.SHUFFLE, "bitshuffle": hp.Blosc2.BITSHUFFLE,
                "delta": hp.Blosc2.DELTA}
    for codec in BLOSC_CODECS:
        for word, shuffle in shuffles.items():
            yield f"blosc2_{codec}_{word}", hp.Blosc2(cname=codec, clevel=5, filters=shuffle)
    yield "blosc2_lz4_level0", hp.Blosc2(cname="lz4", clevel=0)
    yield "blosc2_zstd_level9", hp.Blosc2(cname="zstd", clevel=9)


def _group(file, word, options, dtypes, grids):
    group = file.create_group(word)
    for dtype in dtypes:
        for shape, chunks in grids:
            put(group, dtype, shape, chunks, {"compression": options})
        for shape, chunks in WIDE:
            put(group, dtype, shape, chunks, {"compression": options}, make=runs)
    put(group, "<f4", LARGE, (30000,), {"compression": options}, make=runs)
    put(group, "<f8", (9000,), (6000,), {"compression": options}, make=plain)
    put(group, ">i2", (90, 110), (64, 64), {"compression": options})
    put(group, "<i4", (37,), (10,), {"compression": options, "shuffle": True, "fletcher32": True})


def lossless(matrix):
    for libver in ("earliest", "latest"):
        with matrix.file(f"plugins_{libver}.h5", libver) as file:
            for word, options in _lossless():
                _group(file, word, options, DTYPES, GRIDS)


def blosc(matrix):
    with matrix.file("blosc_earliest.h5", "earliest") as file:
        for word, options in _blosc():
            _group(file, word, options, DTYPES, GRIDS[:1])
    with matrix.file("blosc2_latest.h5", "latest") as file:
        for word, options in _blosc2():
            _group(file, word, options, DTYPES[:5] + ["S5"], GRIDS)


def zfp(matrix):
    modes = {"rate": hp.Zfp(rate=12), "precision": hp.Zfp(precision=17), "accuracy": hp.Zfp(accuracy=0.01),
             "reversible": hp.Zfp(reversible=True), "expert": hp.Zfp(minbits=1, maxbits=16657, maxprec=64, minexp=-20)}
    with matrix.file("zfp_latest.h5", "latest") as file:
        for word, options in modes.items():
            group = file.create_group(word)
            for dtype in ("<f4", "<f8", "<i4", "<i8", ">f4"):
                if word == "accuracy" and "i" in dtype:
                    continue
                for shape, chunks in GRIDS + [((3, 4, 5, 6), (2, 4, 3, 6))]:
                    try:
                        dataset = put(group, dtype, shape, chunks, {"compression": options}, make=plain)
                    except (ValueError, OSError):
                        continue
                    matrix.note(dataset, "zfp")


def lossy(matrix):
    """Filters without a native decoder: a reader says so."""
    cases = {"sz": hp.SZ(absolute=0.1), "sz3": hp.SZ3(absolute=0.1), "sperr": hp.Sperr(rate=10),
             "fcidecomp": hp.FciDecomp(), "htj2k": hp.Htj2k()}
    with matrix.file("lossy_latest.h5", "latest") as file:
        for word, options in cases.items():
            for dtype in ("<f4", "<f8", "|u1", "<u2"):
                if (dtype in ("|u1", "<u2")) != (word in ("fcidecomp", "htj2k")):
                    continue
                group = file.require_group(word)
                dataset = put(group, dtype, (36, 40), (36, 40), {"compression": options}, make=plain)
                matrix.refuse(dataset, "filter")


SUBJECTS = [lossless, blosc, zfp, lossy]
