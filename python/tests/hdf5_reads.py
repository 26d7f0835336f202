"""Reads that the programs of test_hdf5_vol.py make: source that is run with and without the connector."""

# Files of every kind of data set, made by plain h5py.
MAKE = """
    import os, sys, time, h5py, numpy as np

    def make(path, seed=0):
        draw = np.random.default_rng(seed)
        pair = np.dtype([("a", "<i2"), ("b", ">f8"), ("c", "S5"), ("d", "f4", (3,))])
        pairs = np.zeros((300, 7), pair)
        pairs["a"], pairs["b"] = draw.integers(0, 99, (300, 7)), draw.random((300, 7))
        pairs["c"], pairs["d"] = b"abc", draw.random((300, 7, 3))
        with h5py.File(path, "w") as file:
            rows = draw.standard_normal((700, 12, 10)).astype("f4")
            file["rows"] = rows
            file["swapped"] = rows.astype(">i4")
            file["line"] = draw.standard_normal(100_000)
            file["pairs"] = pairs
            file["flags"] = rows > 0
            file["half"] = rows.astype("f2")
            file["complex"] = (rows + 1j).astype("c8")
            file["text"] = np.array([f"t{n}".encode() for n in range(5000)], "S9")
            file.create_dataset("chunks", data=rows, chunks=(9, 5, 4), compression="gzip", shuffle=True)
            file.create_dataset("thin", data=rows, chunks=(700, 1, 3))
            file.create_dataset("grown", data=rows, chunks=(64, 12, 10), maxshape=(None, None, None))
            file.create_dataset("sparse", (5000, 40), "i8", chunks=(100, 40), fillvalue=7)[130:170] = 3
            kind = h5py.enum_dtype({"RED": 0, "BLUE": 1}, basetype="u1")
            file.create_dataset("colours", data=draw.integers(0, 2, (4000, 3)), dtype=kind)
            array = np.dtype(("i4", (4, 2)))
            file.create_dataset("arrays", (900,), array)[...] = draw.integers(0, 9, (900, 4, 2))
            file.create_dataset("words", data=[f"w{n}" * (n % 5) for n in range(2000)], dtype=h5py.string_dtype())
            lists = file.create_dataset("lists", (200,), h5py.vlen_dtype("i4"))
            for at in range(200):
                lists[at] = np.arange(at % 11)
            mixed = np.dtype([("n", "i4"), ("s", h5py.string_dtype())])
            file.create_dataset("mixed", data=np.array([(n, f"s{n}") for n in range(500)], mixed), dtype=mixed)
            file.create_dataset("links", data=np.array([file["rows"].ref] * 300, h5py.ref_dtype))
            file["none"], file["scalar"] = h5py.Empty("f4"), 5.0
            file.create_dataset("nothing", (0, 5), "f4", maxshape=(None, 5), chunks=(10, 5))
            layout = h5py.VirtualLayout((700, 12, 10), "f4")
            layout[...] = h5py.VirtualSource(file["rows"])
            file.create_virtual_dataset("virtual", layout)
        age(path)

    def age(path, step=0):
        # A file that was written a moment ago is not cached: another write could leave the same times.
        os.utime(path, (1_600_000_000 + step,) * 2)
        time.sleep(0.05)
"""

# The digest of what a selection gives, whatever it is.
DIGEST = """
    import hashlib

    def digest(value):
        value = np.asarray(value)
        if value.dtype.hasobject:
            plain = repr([x.tolist() if isinstance(x, np.ndarray) else str(x) for x in value.ravel().tolist()])
            return hashlib.sha256(plain.encode()).hexdigest()[:16]
        return hashlib.sha256(value.tobytes() + str((value.dtype, value.shape)).encode()).hexdigest()[:16]
"""

# Selections of every kind, drawn by chance: yields a digest for each.
SELECT = """
    def bounds(draw, extent):
        start = int(draw.integers(0, extent))
        return slice(start, int(draw.integers(start, extent + 1)), int(draw.choice([1, 1, 1, 2, 3, 7])))

    def low_level(set, draw):
        # Unions of boxes and lists of points, from and to arrays with gaps.
        space = set.id.get_space()
        if draw.integers(2):
            count = int(draw.integers(1, 60))
            points = np.stack([draw.integers(0, n, count) for n in set.shape], axis=1)
            space.select_elements(points)
        else:
            space.select_none()
            for _ in range(draw.integers(1, 4)):
                start = [int(draw.integers(0, n)) for n in set.shape]
                size = [int(draw.integers(1, min(n - at, 40) + 1)) for n, at in zip(set.shape, start)]
                space.select_hyperslab(tuple(start), tuple(size), op=h5py.h5s.SELECT_OR)
        count = space.get_select_npoints()
        out = np.zeros(3 * count + 5, set.dtype)
        memory = h5py.h5s.create_simple(out.shape)
        way = draw.integers(3)
        if way == 0:
            memory.select_hyperslab((2,), (count,), stride=(3,))
        elif way == 1:
            memory.select_hyperslab((1,), (count,))
        else:
            memory.select_elements(draw.permutation(out.size)[:count].reshape(-1, 1))
        set.id.read(memory, space, out)
        return out

    def select(set, draw):
        try:
            return select_any(set, draw)
        except OSError as error:
            return str(error)

    def select_any(set, draw):
        way = draw.integers(10)
        if set.shape is None or set.ndim == 0:
            return set[()]
        if 0 in set.shape or way == 0:
            return set[...]
        if way == 1:
            return set[int(draw.integers(set.shape[0]))]
        if way == 2:
            return set[np.unique(draw.integers(0, set.shape[0], draw.integers(1, 9)))]
        if way == 3 and set.dtype.kind in "fiu":
            return set.astype(draw.choice(["f8", "i4", "f4", ">i2", "u1"]))[bounds(draw, set.shape[0])]
        if way == 4 and set.dtype.names:
            names = list(set.dtype.names)
            return set[str(draw.choice(names))] if draw.integers(2) else set.fields(names[:2])[5:90]
        if way == 5 and not set.dtype.hasobject and set.dtype.subdtype is None and not h5py.check_enum_dtype(set.dtype):
            return low_level(set, draw)
        if way == 6 and not set.dtype.hasobject and set.dtype.subdtype is None:
            rows = min(set.shape[0], 20)
            out = np.zeros((40, *set.shape[1:]), set.dtype)
            start = int(draw.integers(0, set.shape[0] - rows + 1))
            set.read_direct(out, np.s_[start : start + rows], np.s_[7 : 7 + rows])
            return out
        return set[tuple(bounds(draw, extent) for extent in set.shape)]
"""

READS = (
    MAKE
    + DIGEST
    + SELECT
    + """
    import json

    def read_all(path, seed, rounds, mode="r"):
        draw, found = np.random.default_rng(seed), []
        with h5py.File(path, mode) as file:
            names = sorted(file)
            for _ in range(rounds):
                for name in names:
                    found.append(digest(select(file[name], draw)))
        return found
"""
)

# Operations on one file drawn by chance; what each step reads is told.
OPERATIONS = (
    MAKE
    + DIGEST
    + SELECT
    + """
    import json

    TYPES = ["f4", ">f8", "i2", "u8", "S7", "c8", "bool", [("x", "i4"), ("y", "f8")], "word", "list", "enum"]

    def kind(name):
        special = {"word": h5py.string_dtype(), "list": h5py.vlen_dtype("i2"), "enum": h5py.enum_dtype({"A": 1, "B": 2})}
        return special[name] if isinstance(name, str) and name in special else np.dtype(name)

    def values(draw, shape, dtype):
        if h5py.check_string_dtype(dtype) and dtype.hasobject:
            return np.array([f"v{n}" for n in draw.integers(0, 999, shape).ravel()], object).reshape(shape)
        if h5py.check_vlen_dtype(dtype):
            out = np.empty(shape, object)
            for at in np.ndindex(*shape):
                out[at] = draw.integers(0, 9, draw.integers(0, 5)).astype("i2")
            return out
        if dtype.names:
            out = np.zeros(shape, dtype)
            for name in dtype.names:
                out[name] = draw.integers(0, 99, shape)
            return out
        return draw.integers(1, 3, shape).astype(dtype) if h5py.check_enum_dtype(dtype) else (
            draw.integers(0, 99, shape).astype("S7" if dtype.kind == "S" else dtype))

    def create(file, name, draw):
        shape = tuple(int(n) for n in draw.integers(1, 40, draw.integers(1, 4)))
        dtype = kind(TYPES[draw.integers(len(TYPES))])
        options = [{}, {"chunks": True, "maxshape": (None,) * len(shape)}, {"compression": "gzip"},
                   {"chunks": tuple(max(1, n // 3) for n in shape), "maxshape": (None, *shape[1:]), "shuffle": True},
                   {"fillvalue": values(draw, (1,), dtype)[0] if dtype.kind in "fiu" else None}][draw.integers(5)]
        file.create_dataset(name, data=values(draw, shape, dtype), dtype=dtype, **options)

    def write(set, draw):
        if draw.integers(4) == 0 and not set.dtype.hasobject:
            # From memory with gaps.
            rows = min(set.shape[0], 5)
            source = values(draw, (3 * rows, *set.shape[1:]), set.dtype)
            return set.write_direct(source, np.s_[1 : 3 * rows : 3], np.s_[:rows])
        part = tuple(bounds(draw, extent) for extent in set.shape)
        shape = tuple(len(range(*cut.indices(extent))) for cut, extent in zip(part, set.shape))
        if 0 not in shape:
            set[part] = values(draw, shape, set.dtype)

    def step(file, path, number, draw):
        sets = []
        file.visititems(lambda name, thing: sets.append(name) if isinstance(thing, h5py.Dataset) else None)
        sets.sort()
        name = sets[draw.integers(len(sets))] if sets else None
        way = draw.integers(16)
        if way < 3 or not sets:
            create(file, f"g{draw.integers(3)}/d{number}", draw)
        elif way < 6:
            write(file[name], draw)
        elif way == 6 and file[name].maxshape[0] is None:
            file[name].resize(int(draw.integers(1, 60)), axis=0)
            write(file[name], draw)
        elif way == 7:
            file[name].attrs[f"a{draw.integers(4)}"] = draw.integers(0, 9, draw.integers(1, 30))
        elif way == 8:
            file.flush()
        elif way == 9:
            del file[name]
            create(file, name, draw)
        elif way == 10:
            file[f"l{number}"] = [h5py.SoftLink("/" + name), file[name], h5py.ExternalLink(path, "/" + name)][draw.integers(2)]
        elif way == 11:
            file.copy(name, f"c{number}")
        elif way == 12:
            file.move(name, f"m{number}")
        elif way > 12:
            file.close()
            age(path, number)
            file = h5py.File(path, "r+" if way < 15 else "a")
        return file

    def run(path, seed, steps):
        draw, told = np.random.default_rng(seed), []
        file = h5py.File(path, "w", libver=[None, "latest"][seed % 2])
        for number in range(steps):
            file = step(file, path, number, draw)
            sets = []
            file.visititems(lambda name, thing: sets.append(name) if isinstance(thing, h5py.Dataset) else None)
            for name in sorted(sets)[:6]:
                for _ in range(2):
                    told.append(digest(select(file[name], draw)))
                told += [digest(value) for _, value in sorted(file[name].attrs.items())]
        file.close()
        age(path, steps)
        for mode in ["r", "r"]:
            with h5py.File(path, mode) as file:
                sets = []
                file.visititems(lambda name, thing: sets.append(name) if isinstance(thing, h5py.Dataset) else None)
                for name in sorted(sets):
                    told += [digest(file[name][...]), digest(select(file[name], draw)), digest(select(file[name], draw))]
        return told
"""
)

# Changes of a file by another program, without the connector.
CHANGES = """
    import os, subprocess
    def outside(code):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("HDF5_", "FOREBAY_"))}
        subprocess.run([sys.executable, "-c", "import h5py, sys\\nf = h5py.File(sys.argv[1], 'r+')\\n" + code, sys.argv[1]],
                       env=clean, check=True)
"""
