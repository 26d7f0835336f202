"""Files written by other libraries: netCDF4, PyTables."""

import netCDF4
import numpy as np
import tables

from .make import label, plain, values


OPTIONS = {
    "plain": {},
    "zlib": {"zlib": True, "shuffle": True},
    "fletcher": {"fletcher32": True},
    "contiguous": {"contiguous": True},
    "chunks": {"chunksizes": (4, 3), "complevel": 9, "zlib": True},
    "big": {"endian": "big"},
    "filled": {"fill_value": 9},
    "digits": {"zlib": True, "least_significant_digit": 1},
}


def netcdf(matrix):
    for form in ("NETCDF4", "NETCDF4_CLASSIC"):
        name = f"netcdf_{form.lower()}.nc"
        matrix.files.append(name)
        with netCDF4.Dataset(name, "w", format=form) as file:
            _dimensions(file)
            _variables(file)
            file.title = "a small file"
            file.numbers = np.arange(3, dtype="i4")


def _dimensions(file):
    for name, size in (("time", None), ("y", 6), ("x", 5), ("letters", 8)):
        file.createDimension(name, size)


def _variables(file):
    time = file.createVariable("time", "f8", ("time",))
    time.units = "hours since 2000-01-01"
    time[:] = np.arange(7) * 6
    for dtype in ("i1", "i2", "i4", "f4", "f8"):
        for word, options in OPTIONS.items():
            if word == "digits" and dtype[0] != "f":
                continue
            stored = f">{dtype}" if word == "big" else dtype
            variable = file.createVariable(f"{dtype}_{word}", stored, ("y", "x"), **options)
            variable[:4] = plain(dtype, (4, 5), word)
    for dtype in ("i2", "f4"):
        growing = file.createVariable(f"growing_{dtype}", dtype, ("time", "y", "x"), zlib=True)
        growing.scale_factor = 0.5
        growing.set_auto_maskandscale(False)
        growing[:7] = plain(dtype, (7, 6, 5), dtype)
    # Along `time` it would be empty to h5py, and to NetCDF as long as its dimension.
    file.createVariable("unwritten", "f4", ("y", "x"))
    file.createVariable("x", "f4", ("x",))[:] = np.arange(5)
    file.createVariable("y", "i4", ("y", "x"))[:] = np.arange(30).reshape(6, 5)
    file.createVariable("scalar", "f8", ())[...] = 4.5
    letters = file.createVariable("letters", "S1", ("y", "letters"))
    letters[:] = netCDF4.stringtochar(np.array(["abc", "", "defghijk", "x", "yy", "z"], "S8"))


def netcdf_types(matrix):
    """Groups, user types, several unlimited dimensions, strings."""
    name = "netcdf_types.nc"
    matrix.files.append(name)
    with netCDF4.Dataset(name, "w") as file:
        _dimensions(file)
        file.createDimension("also_open", None)
        both = file.createVariable("both_open", "i4", ("time", "also_open"), chunksizes=(3, 4))
        both[:4, :6] = np.arange(24).reshape(4, 6)
        last = file.createVariable("open_last", "f4", ("x", "also_open"), zlib=True, chunksizes=(2, 5))
        last[:, :6] = plain("f4", (5, 6), "o")
        for dtype in ("u1", "u2", "u4", "i8", "u8"):
            file.createVariable(label(dtype), dtype, ("x",))[:] = values(dtype, (5,), dtype)
        pair = np.dtype([("a", "i2"), ("b", "f8"), ("c", "f4", (2,))])
        file.createCompoundType(pair, "pair")
        file.createVariable("records", file.cmptypes["pair"], ("x",))[:] = np.zeros(5, pair)
        color = file.createEnumType(np.uint8, "color", {"red": 0, "blue": 3})
        file.createVariable("colors", color, ("x",), fill_value=0)[:] = [0, 3, 0, 3, 3]
        many = file.createVLType(np.int32, "many")
        lists = file.createVariable("lists", many, ("x",))
        for index in range(5):
            lists[index] = np.arange(index + 1, dtype="i4")
        file.createVariable("texts", str, ("x",))[:] = np.array(["a", "", "ccc", "ü", "e"], object)
        inner = file.createGroup("group/inner")
        inner.createDimension("x", 3)
        inner.createVariable("x", "i2", ("x",))[:] = [1, 2, 3]
        inner.createVariable("grid", "f4", ("y", "x"))[:] = plain("f4", (6, 3), "g")
        inner.units = "m"


def netcdf_filters(matrix):
    name = "netcdf_filters.nc"
    matrix.files.append(name)
    with netCDF4.Dataset(name, "w") as file:
        file.createDimension("y", 60)
        file.createDimension("x", 50)
        # netCDF's blosc gives up on chunks that do not get smaller.
        smooth = np.arange(3000).reshape(60, 50) // 40
        for word in ("zlib", "szip", "zstd", "bzip2", "blosc_lz", "blosc_lz4", "blosc_lz4hc", "blosc_zlib", "blosc_zstd"):
            for dtype in ("i2", "f4", "f8"):
                try:
                    variable = file.createVariable(f"{word}_{dtype}", dtype, ("y", "x"), compression=word)
                except RuntimeError:
                    continue
                variable[:] = smooth
        for mode in ("BitGroom", "GranularBitRound", "BitRound"):
            variable = file.createVariable(f"quantized_{mode}", "f4", ("y", "x"), zlib=True, significant_digits=3,
                                           quantize_mode=mode)
            variable[:] = plain("f4", (60, 50), mode)


class Row(tables.IsDescription):
    """A table's columns, out of order and nested."""

    name = tables.StringCol(9, pos=2)
    count = tables.Int64Col(pos=1)
    weights = tables.Float32Col(shape=(2, 3), pos=4)
    flag = tables.BoolCol(pos=3)
    wave = tables.ComplexCol(16, pos=5)

    class place(tables.IsDescription):
        x = tables.Float64Col(pos=1)
        y = tables.UInt16Col(pos=2)


def pytables(matrix):
    for library in ("none", "zlib", "bzip2", "blosc", "blosc:zstd", "blosc:lz4", "blosc2", "blosc2:zstd"):
        name = f"pytables_{library.replace(':', '_')}.h5"
        filters = tables.Filters(complevel=0 if library == "none" else 5, complib="zlib" if library == "none" else library,
                                 shuffle=True, fletcher32=library == "zlib")
        matrix.files.append(name)
        with tables.open_file(name, "w", filters=filters, track_times=False) as file:
            file.create_array("/", "array", plain("f8", (6, 5), "a"), track_times=False)
            file.create_array("/", "strings", np.array([b"one", b"two", b""]), track_times=False)
            for dtype in ("|i1", "<i4", "<f4", ">f8", "|u1"):
                data = plain(dtype, (37, 20), dtype)
                file.create_carray("/", f"carray_{label(dtype)}", obj=data, chunkshape=(8, 8), track_times=False)
            file.create_carray("/", "bools", obj=values("?", (50,), "b"), chunkshape=(16,), track_times=False)
            growing = file.create_earray("/", "earray", tables.Int32Atom(), (0, 4), chunkshape=(8, 2), track_times=False)
            for start in range(5):
                growing.append(np.arange(12).reshape(3, 4) + start)
            lists = file.create_vlarray("/", "vlarray", tables.Int32Atom(), filters=tables.Filters(), track_times=False)
            for count in (3, 0, 7):
                lists.append(np.arange(count))
            table = file.create_table("/group", "table", Row, createparents=True, chunkshape=(16,), track_times=False)
            for index in range(40):
                table.row["name"], table.row["count"], table.row["flag"] = f"n{index}", index, index % 3 == 0
                table.row["place/x"] = index / 2
                table.row.append()
            table.flush()


SUBJECTS = [netcdf, netcdf_types, netcdf_filters, pytables]
