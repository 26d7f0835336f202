"""Writes chunks with h5py and hdf5plugin and keeps them next to the bytes the same libraries read back.

    python make_vectors.py DIR          the set kept with the tests
    python make_vectors.py DIR --large  the same cases and more, on larger chunks

Makes DIR/filters.json (the cases) and DIR/filters.bin.zz (their bytes, deflated as one).
"""

import hashlib
import json
import pathlib
import sys
import tempfile
import zlib

import h5py
import hdf5plugin
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z

DTYPES = ["<i1", "<u2", "<i4", "<i8", "<f4", "<f8", ">f4", ">i2", "S3", "S12"]


class Vectors:
    """The cases so far; equal bytes are kept once."""

    def __init__(self):
        self.cases, self.bytes, self.places = [], bytearray(), {}

    def place(self, blob):
        key = hashlib.sha256(blob).digest()
        if key not in self.places:
            self.places[key] = (len(self.bytes), len(blob))
            self.bytes += blob
        return self.places[key]

    def add(self, name, dataset):
        mask, raw = dataset.read_direct_chunk((0,) * len(dataset.shape))
        type_ = dataset.get_type()
        want = np.zeros(int(np.prod(dataset.shape)) * type_.get_size(), "u1")
        dataset.read(h5s.ALL, h5s.ALL, want, mtype=type_)
        self.keep(name, dataset, mask, raw, want.tobytes())

    def keep(self, name, dataset, mask, raw, want):
        plist = dataset.get_create_plist()
        filters = []
        for number in range(plist.get_nfilters()):
            id_, flags, params, label = plist.get_filter(number)
            filters.append({"id": id_, "name": label.decode(), "optional": bool(flags & 1), "params": list(params)})
        case = {"name": name, "filters": filters, "mask": mask, "raw": self.place(raw), "want": self.place(want)}
        self.cases.append(case)


def values(dtype, shape, kind):
    """Numbers of `dtype`: a slow wave, noise, or one value."""
    count = int(np.prod(shape))
    rng = np.random.default_rng(count)
    dtype = np.dtype(dtype)
    if dtype.kind == "S":
        noise = rng.integers(1, 5, (count, dtype.itemsize), dtype="u1")
        return np.ascontiguousarray(noise).view(dtype).reshape(shape)
    if kind == "same":
        return np.full(shape, 3, dtype)
    if kind == "noise" and dtype.kind == "f":
        return rng.normal(size=shape).astype(dtype)
    if kind == "noise":
        return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).reshape(shape)
    wave = np.round(np.sin(np.arange(count) / 40) * 100, 1)
    if dtype.kind == "u":
        wave = np.abs(wave)
    return wave.astype(dtype).reshape(shape)


class Maker:
    """Makes datasets of one chunk; of families with many cases it makes one in `thin`, picked by name."""

    def __init__(self, file, vectors):
        self.file, self.vectors, self.count, self.thin = file, vectors, 0, 1

    def high(self, name, array, **options):
        name = f"{name} {array.dtype.str} {array.shape}"
        if zlib.crc32(name.encode()) % self.thin:
            return
        self.count += 1
        dataset = self.file.create_dataset(f"d{self.count}", data=array, chunks=array.shape, **options)
        self.vectors.add(name, dataset.id)

    def low(self, name, type_, raw, setup, shape=None):
        """A dataset of a type numpy does not know, written from raw bytes of that type."""
        self.count += 1
        shape = shape or (len(raw) // type_.get_size(),)
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_chunk(shape)
        setup(plist)
        dataset = h5d.create(self.file.id, f"d{self.count}".encode(), type_, h5s.create_simple(shape), plist)
        dataset.write(h5s.ALL, h5s.ALL, np.frombuffer(raw, "u1"), mtype=type_)
        self.file.flush()
        self.vectors.add(f"{name} {shape}", dataset)


def basics(maker, sizes):
    for dtype in DTYPES:
        for size in sizes:
            wave = values(dtype, (size,), "wave")
            maker.high("gzip", wave, compression="gzip", compression_opts=4)
            maker.high("shuffle gzip fletcher32", wave, compression="gzip", shuffle=True, fletcher32=True)
            maker.high("fletcher32", wave, fletcher32=True)
            maker.high("shuffle lzf", wave, compression="lzf", shuffle=True)
            maker.high("lzf noise", values(dtype, (size,), "noise"), compression="lzf")
            maker.high("zstd", wave, **hdf5plugin.Zstd(clevel=3))
            maker.high("bzip2", wave, **hdf5plugin.BZip2())
            maker.high("lz4", wave, **hdf5plugin.LZ4())
            maker.high("lz4 noise", values(dtype, (size,), "noise"), **hdf5plugin.LZ4(nbytes=256))
            maker.high("lz4 blocks of 100", wave, **hdf5plugin.LZ4(nbytes=100))
            for cname in ["none", "lz4", "zstd"]:
                maker.high(f"bitshuffle {cname}", wave, **hdf5plugin.Bitshuffle(cname=cname))
                maker.high(f"bitshuffle {cname} of 64", wave, **hdf5plugin.Bitshuffle(nelems=64, cname=cname))
    for level in [-5, 1, 19, 22]:
        maker.high(f"zstd {level}", values("<f4", (sizes[-1],), "wave"), **hdf5plugin.Zstd(clevel=level))


def szips(maker, sizes):
    for dtype in ["<i1", "<u2", ">i2", "<i4", "<i8", "<f4", ">f4", "<f8"]:
        for size in sizes:
            if size < 32:
                continue
            for method in ["nn", "ec"]:
                for pixels in [8, 16, 32]:
                    for kind in ["wave", "noise", "same"]:
                        maker.high(f"szip {method} {pixels} {kind}", values(dtype, (size,), kind), compression="szip",
                                   compression_opts=(method, pixels))
    maker.high("szip nn 2-d", values("<u2", (20, 50), "wave"), compression="szip", compression_opts=("nn", 16))
    maker.high("szip nn 2-d long", values("<f4", (3, 331), "wave"), compression="szip", compression_opts=("nn", 8))
    for bits in [3, 7, 12, 17, 20, 24]:
        type_ = h5t.STD_U32LE.copy() if bits > 16 else h5t.STD_U16LE.copy() if bits > 8 else h5t.STD_U8LE.copy()
        type_.set_precision(bits)
        size = type_.get_size()
        raw = (np.abs(np.sin(np.arange(500) / 20)) * (2**bits - 1)).astype(f"<u{size}").tobytes()
        maker.low(f"szip {bits} bits", type_, raw, lambda plist: plist.set_szip(h5z.SZIP_NN_OPTION_MASK, 8))


def packs(maker, sizes):
    nbit = lambda plist: plist.set_filter(h5z.FILTER_NBIT, 0, ())
    rng = np.random.default_rng(1)
    for base, precision, offset in [
        (h5t.STD_I32LE, 17, 5), (h5t.STD_I32BE, 17, 5), (h5t.STD_U16LE, 12, 0), (h5t.STD_U16BE, 12, 4), (h5t.STD_I8LE, 5, 1),
        (h5t.STD_U64LE, 33, 3), (h5t.STD_I64BE, 61, 2), (h5t.STD_I32LE, 32, 0), (h5t.STD_U32LE, 1, 31), (h5t.STD_U32LE, 8, 8),
    ]:
        type_ = base.copy()
        type_.set_precision(precision)
        type_.set_offset(offset)
        mask = ((1 << precision) - 1) << offset
        numbers = rng.integers(0, 2**63, 201, dtype="u8") & np.uint64(mask & (2**64 - 1))
        order = ">" if base.get_order() == h5t.ORDER_BE else "<"
        raw = numbers.astype(f"{order}u{type_.get_size()}").tobytes()
        maker.low(f"nbit {precision} from {offset} {order}", type_, raw, nbit)
    small, wide = h5t.STD_U16LE.copy(), h5t.STD_I32BE.copy()
    small.set_precision(10)
    wide.set_precision(20)
    pair = h5t.create(h5t.COMPOUND, 16)
    pair.insert(b"small", 0, small)
    pair.insert(b"wide", 4, wide)
    pair.insert(b"string", 8, h5t.py_create(np.dtype("S3")))
    pair.insert(b"list", 12, h5t.array_create(small, (2,)))
    record = np.zeros(77, np.dtype({"names": "abcd", "formats": ["<u2", ">u4", "S3", ("<u2", 2)], "offsets": [0, 4, 8, 12], "itemsize": 16}))
    record["a"], record["b"] = np.arange(77) * 13, np.arange(77) * 1001
    record["c"], record["d"] = b"xyz", np.arange(154).reshape(77, 2)
    maker.low("nbit compound", pair, record.tobytes(), nbit)
    array = h5t.array_create(wide, (3,))
    maker.low("nbit array", array, np.arange(300).astype(">u4").tobytes(), nbit)
    floats = h5t.IEEE_F32LE.copy()
    maker.low("nbit float", floats, values("<f4", (100,), "wave").tobytes(), nbit)

    for dtype in ["<i1", "<u2", ">i2", "<i4", ">i4", "<i8", "<u8", ">u8"]:
        for size in sizes:
            for kind in ["wave", "noise", "same"]:
                maker.high(f"scaleoffset {kind}", values(dtype, (size,), kind), scaleoffset=0)
                maker.high(f"scaleoffset 5 {kind}", values(dtype, (size,), kind), scaleoffset=5)
                maker.high(f"scaleoffset fill {kind}", values(dtype, (size,), kind), scaleoffset=0, fillvalue=3)
    for dtype in ["<f4", ">f4", "<f8", ">f8"]:
        for size in sizes:
            for digits in [0, 2, 5]:
                for kind in ["wave", "noise", "same"]:
                    maker.high(f"scaleoffset {digits} {kind}", values(dtype, (size,), kind), scaleoffset=digits)
                    maker.high(f"scaleoffset {digits} fill {kind}", values(dtype, (size,), kind), scaleoffset=digits, fillvalue=3)


def bloscs(maker, sizes):
    plugins = hdf5plugin
    for size in sizes:
        for dtype in DTYPES:
            for shuffle in [0, 1, 2]:
                for cname in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]:
                    wave = values(dtype, (size,), "wave")
                    maker.high(f"blosc {cname} {shuffle}", wave, **plugins.Blosc(cname=cname, shuffle=shuffle))
                    maker.high(f"blosc2 {cname} {shuffle}", wave, **plugins.Blosc2(cname=cname, filters=shuffle))
            maker.high("blosc noise", values(dtype, (size,), "noise"), **plugins.Blosc(cname="lz4"))
            maker.high("blosc2 noise", values(dtype, (size,), "noise"), **plugins.Blosc2(cname="zstd"))
            maker.high("blosc stored", values(dtype, (size,), "wave"), **plugins.Blosc(clevel=0))
            maker.high("blosc2 stored", values(dtype, (size,), "wave"), **plugins.Blosc2(clevel=0))
            maker.high("blosc2 delta", values(dtype, (size,), "wave"), **plugins.Blosc2(filters=3))
            maker.high("blosc2 zeros", np.zeros((size,), dtype), **plugins.Blosc2())
            maker.high("blosc2 same", values(dtype, (size,), "same"), **plugins.Blosc2())
        maker.high("blosc2 cut", values("<f4", (size,), "noise"), **plugins.Blosc2(filters=4))
    for shape in [(7, 9), (1, 50), (50, 1), (33, 65), (5, 6, 7), (17, 1, 33), (2, 3, 4, 5)]:
        for dtype in ["<f4", "<u2", "<f8", "S3"]:
            for shuffle in [0, 1, 2, 3]:
                for cname in ["blosclz", "zstd"]:
                    wave = values(dtype, shape, "wave")
                    maker.high(f"blosc2 box {cname} {shuffle}", wave, **plugins.Blosc2(cname=cname, filters=shuffle))
            maker.high("blosc2 box zeros", np.zeros(shape, dtype), **plugins.Blosc2())


def blosc_blocks(maker, sizes, dtypes):
    """Chunks of several blocks."""
    plugins = hdf5plugin
    for size in sizes:
        for dtype in dtypes:
            wave = values(dtype, (size,), "wave")
            for cname in ["blosclz", "lz4", "zstd", "zlib"]:
                for shuffle in [0, 1, 2]:
                    maker.high(f"blosc blocks {cname} {shuffle}", wave, **plugins.Blosc(cname=cname, clevel=1, shuffle=shuffle))
                    maker.high(f"blosc2 blocks {cname} {shuffle}", wave, **plugins.Blosc2(cname=cname, clevel=1, filters=shuffle))
            maker.high("blosc2 blocks delta", wave, **plugins.Blosc2(clevel=1, filters=3))
    for shape in [(90, 101), (21, 23, 25)] + ([(601, 1201), (65, 129, 257)] if len(sizes) > 1 else []):
        for dtype in ["<u2", *dtypes[:1]]:
            for shuffle in [1, 2, 3]:
                maker.high(f"blosc2 box blocks {shuffle}", values(dtype, shape, "wave"), **plugins.Blosc2(clevel=1, filters=shuffle))


def zfps(maker, shapes):
    for shape in shapes:
        for dtype in ["<f4", "<f8", "<i4", "<i8"]:
            wave = values(dtype, shape, "wave")
            maker.high("zfp reversible", wave, **hdf5plugin.Zfp(reversible=True))
            maker.high("zfp rate", wave, **hdf5plugin.Zfp(rate=9))
            maker.high("zfp precision", wave, **hdf5plugin.Zfp(precision=12))
            if dtype[1] == "f":
                maker.high("zfp accuracy", wave, **hdf5plugin.Zfp(accuracy=0.01))


def masks(maker):
    """Chunks whose writer left out filters; HDF5 2.0 cannot read back what it wrote this way."""
    wave = values("<f4", (100,), "wave").tobytes()
    dataset = maker.file.create_dataset("masked", (100,), "<f4", chunks=(100,), compression="gzip", shuffle=True).id
    shuffled = np.frombuffer(wave, "u1").reshape(100, 4).T.tobytes()
    maker.vectors.keep("gzip left out", dataset, 0b10, shuffled, wave)
    maker.vectors.keep("shuffle left out", dataset, 0b01, zlib.compress(wave), wave)
    maker.vectors.keep("both left out", dataset, 0b11, wave, wave)


def main():
    home = pathlib.Path(sys.argv[1])
    is_large = "--large" in sys.argv
    vectors = Vectors()
    with tempfile.TemporaryDirectory() as folder, h5py.File(f"{folder}/v.h5", "w") as file:
        maker = Maker(file, vectors)
        sizes = [1, 7, 64, 1003, 20011, 131072] if is_large else [7, 331]
        thin = lambda count: setattr(maker, "thin", 1 if is_large else count)
        thin(3)
        basics(maker, sizes)
        thin(4)
        szips(maker, sizes)
        packs(maker, sizes)
        thin(8)
        bloscs(maker, sizes)
        thin(4)
        blosc_blocks(maker, [70001, 500009] if is_large else [20001], ["<f4", "<i2", "<f8", "S3"] if is_large else ["<i2"])
        thin(3)
        zfps(maker, [(7,), (50,), (5, 9), (4, 5, 6), (2, 3, 4, 5), *([(20011,), (100, 103)] if is_large else [])])
        masks(maker)
    packed = zlib.compress(bytes(vectors.bytes), 9)
    (home / "filters.bin.zz").write_bytes(packed)
    rows = ",\n".join(json.dumps(case, separators=(",", ":")) for case in vectors.cases)
    (home / "filters.json").write_text(f'{{"len":{len(vectors.bytes)},"cases":[\n{rows}\n]}}\n')
    print(len(vectors.cases), "cases,", len(vectors.bytes), "bytes,", len(packed), "deflated")


if __name__ == "__main__":
    main()
