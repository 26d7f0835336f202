"""File structure: superblocks, user blocks, groups, links, names, shared messages, small addresses, paged space."""

import h5py
import numpy as np
from h5py import h5f, h5p, h5t

from . import native
from .make import BOUNDS, LIBVERS, create, dcpl, label, size_label, values, write


def few(group, seed=""):
    """A handful of data sets that use every layout."""
    group.create_dataset("contiguous", data=values("<f4", (13, 11), f"{seed}a"))
    group.create_dataset("chunked", data=values(">i2", (13, 11), f"{seed}b"), chunks=(4, 5), compression="gzip")
    group.create_dataset("growing", data=values("<i8", (9, 4), f"{seed}c"), maxshape=(None, 4), chunks=(2, 3))
    group.create_dataset("free", data=values("<u2", (9, 4), f"{seed}d"), maxshape=(None, None), chunks=(2, 3))
    plist = dcpl()
    plist.set_layout(h5py.h5d.COMPACT)
    write(create(group, "compact", "<i4", (7,), plist), values("<i4", (7,), f"{seed}e"))
    group.create_dataset("text", data=["one", "zwei", "", "四"], dtype=h5py.string_dtype())
    lists = group.create_dataset("lists", (3,), h5py.vlen_dtype("<i2"))
    lists[1] = np.arange(5, dtype="<i2")
    group.attrs["units"] = "K"
    group.attrs["scale"] = np.float32(0.5)


def superblocks(matrix):
    for libver in BOUNDS:
        for block in (0, 512, 4096):
            with matrix.file(f"superblock_{libver}_{block}.h5", libver, userblock_size=block) as file:
                few(file, libver)
                few(file.create_group("group/inside"), libver)
            if block:
                with open(matrix.files[-1], "r+b") as raw:
                    raw.write((b"\x89HDF but not here " * block)[:block])


def sizes(matrix):
    """Addresses and lengths of 2, 4 and 8 bytes, B-trees of other ranks."""
    for offset, length in ((4, 4), (8, 4), (4, 8), (2, 2), (2, 4), (8, 8)):
        for libver in ("earliest", "latest"):
            fcpl = h5p.create(h5p.FILE_CREATE)
            fcpl.set_sizes(offset, length)
            with matrix.file_from(f"sizes_{offset}_{length}_{libver}.h5", fcpl, libver) as file:
                few(file)
                if offset > 2:
                    few(file.create_group("inside"))
                    for number in range(30):
                        file.create_dataset(f"many/{number}", data=np.arange(number, dtype="<i2"))
    for leaf, node in ((1, 1), (2, 8), (60, 3)):
        fcpl = h5p.create(h5p.FILE_CREATE)
        native.call("H5Pset_sym_k", fcpl.id, node, leaf)
        with matrix.file_from(f"group_rank_{node}_{leaf}.h5", fcpl) as file:
            few(file)
            for number in range(100):
                file.create_dataset(f"many/v{number * 37 % 101}", data=np.int32(number))


def groups(matrix):
    """Groups of many links, old and new, by name and by order of creation; deep ones; empty ones."""
    for libver in LIBVERS:
        for ordered in (False, True):
            word = "ordered" if ordered else "named"
            with matrix.file(f"groups_{libver}_{word}.h5", libver, track_order=ordered) as file:
                for count in (1, 8, 9) if ordered else (3, 60):
                    group = file.create_group(f"links{count}", track_order=ordered)
                    for number in range(count):
                        group.create_dataset(f"v{number * 7919 % 1000:03}", data=np.int16(number))
                deep = file.create_group("d/" + "/".join(f"level{number}" for number in range(40)))
                deep.create_dataset("bottom", data=values("<f4", (5,), libver))
                file.create_group("empty")
                long_named = file.create_group("n" * 300)
                long_named.create_dataset("v" * 1500, data=np.arange(3))
    for libver in ("earliest", "latest"):
        with matrix.file(f"many_links_{libver}.h5", libver) as file:
            for number in range(1500):
                plist = dcpl()
                plist.set_layout(h5py.h5d.COMPACT)
                write(create(file, f"variable_{number * 7919 % 100000}", "<u2", (1,), plist), np.array([number], "<u2"))


def links(matrix):
    for libver in ("earliest", "v108", "latest"):
        with matrix.file(f"link_target_{libver}.h5", libver) as file:
            few(file.create_group("deep/er"), libver)
        name = f"links_{libver}.h5"
        with matrix.file(name, libver) as file:
            data = file.create_dataset("data", data=values("<i4", (4, 5), libver))
            inner = file.create_group("inner")
            inner.create_dataset("value", data=values(">f8", (3,), libver))
            file["second_name"] = data
            inner["third_name"] = data
            file["same_group"] = inner
            inner["up"] = file["/"]
            inner["itself"] = inner
            file["soft"] = h5py.SoftLink("/inner/value")
            file["soft_relative"] = h5py.SoftLink("inner/value")
            file["soft_dots"] = h5py.SoftLink("./inner/./value")
            inner["soft_to_root"] = h5py.SoftLink("/data")
            file["soft_to_soft"] = h5py.SoftLink("soft")
            file["soft_to_group"] = h5py.SoftLink("inner")
            file["dangling"] = h5py.SoftLink("/nowhere")
            file["loop_a"] = h5py.SoftLink("loop_b")
            file["loop_b"] = h5py.SoftLink("loop_a")
            file["outside"] = h5py.ExternalLink(f"link_target_{libver}.h5", "/deep/er/chunked")
            file["outside_group"] = h5py.ExternalLink(f"link_target_{libver}.h5", "/deep")
            file["outside_missing"] = h5py.ExternalLink("no_such_file.h5", "/data")
            file["outside_nothing"] = h5py.ExternalLink(f"link_target_{libver}.h5", "/nothing")
        for path in ("/same_group/value", "/inner/up/data", "/inner/up/inner/up/inner/value", "/inner/itself/itself/value",
                     "/soft_to_group/value", "/soft_to_group/up/soft", "/outside_group/er/contiguous"):
            matrix.by_name(name, path, "through links")


STRANGE = ["with space", " lead", "trail ", "comma,quote\"", "semi;colon", "tab\there", "line\nbreak", "back\\slash",
           "é", "e\u0301", "漢字", "\u202eright to left", "🌊", "..", "...", "a.b", "percent%20", "quote'", "$dollar", "*",
           "[0]", "#1", "new\r\nline", "-dash", "--all", "0", "UPPER", "upper", "\x7f", "\x01"]


def strange_names(matrix):
    for libver in ("earliest", "latest"):
        with matrix.file(f"names_{libver}.h5", libver) as file:
            under = file.create_group("under")
            for number, name in enumerate(STRANGE):
                file.create_dataset(name, data=np.int32(number))
                under.create_dataset(name, data=np.int32(-number))
                file.attrs[name] = number
            # Not UTF-8: opens for those who ask with these bytes, must not trouble the others.
            h5py.h5d.create(file.id, b"latin\xe9", h5t.STD_I32LE, h5py.h5s.create_simple((2,)), dcpl())


def attributes(matrix):
    """Few, many and large attributes; of every kind of type; continued headers and dense storage."""
    for libver in LIBVERS:
        with matrix.file(f"attributes_{libver}.h5", libver) as file:
            for count in (1, 8, 9, 70, 300):
                owner = file.create_dataset(f"with_{count}", data=values("<i4", (6, 5), count), chunks=(4, 4))
                for number in range(count):
                    owner.attrs[f"a{number * 7 % 1000}"] = values("<f8", (number % 5,), number)
            typed = file.create_dataset("typed", data=np.arange(4))
            for dtype in ("|i1", ">i2", "<u8", "<f2", ">f4", "S7", "?", "<c16", "V4"):
                for shape in ((), (3,), (2, 3), (0,)):
                    typed.attrs.create(f"{label(dtype)}_{size_label(shape)}", values(dtype, shape, dtype), dtype=dtype)
            record = values([("a", ">i2"), ("b", "<f8", (2,))], (3,), "r")
            typed.attrs["record"] = record
            typed.attrs["text"] = "π and ü"
            typed.attrs["ascii"] = np.bytes_(b"plain")
            typed.attrs.create("texts", ["a", "", "ccc"], dtype=h5py.string_dtype())
            typed.attrs["nothing"] = h5py.Empty("<f4")
            typed.attrs["reference"] = typed.ref
            typed.attrs.create("enum", np.array([1, 0], "|i1"), dtype=h5py.enum_dtype({"N": 0, "Y": 1}, "|i1"))
            lists = np.empty(2, object)
            lists[:] = [np.arange(3, dtype="<i4"), np.arange(1, dtype="<i4")]
            typed.attrs.create("lists", lists, dtype=h5py.vlen_dtype("<i4"))
            if libver != "earliest":
                typed.attrs["large"] = values("<f8", (20000,), "large")
            ordered = file.create_group("ordered", track_order=True)
            for number in range(20):
                ordered.attrs[f"z{20 - number}"] = number


def committed(matrix):
    for libver in ("earliest", "v108", "latest"):
        with matrix.file(f"committed_{libver}.h5", libver) as file:
            file["types/number"] = np.dtype(">f4")
            file["types/record"] = np.dtype([("a", "<i2"), ("b", ">f8")])
            file["types/color"] = h5py.enum_dtype({"RED": 0, "BLUE": 1}, "|i1")
            file["types/text"] = h5py.string_dtype()
            file["types/number"].attrs["about"] = "a committed type"
            for name, shape in (("number", (5,)), ("record", (4,)), ("color", (6,)), ("text", (3,))):
                dataset = file.create_dataset(name, shape, file[f"types/{name}"], chunks=(2,))
                if name in ("number", "record"):
                    dataset[...] = values(dataset.dtype, shape, name)
                file[name].attrs.create("like", dataset[...], dtype=file[f"types/{name}"])


def shared_messages(matrix):
    """Types, spaces, fills, pipelines and attributes kept once for all objects; as list and as B-tree."""
    for libver in ("earliest", "latest"):
        for indexes, listed in ((1, 50), (1, 0), (3, 50)):
            fcpl = h5p.create(h5p.FILE_CREATE)
            native.call("H5Pset_shared_mesg_nindexes", fcpl.id, indexes)
            flags = [native.SHARE_ALL] if indexes == 1 else [0x1 | 0x2, 0x4 | 0x8, 0x10]
            for index, flag in enumerate(flags):
                native.call("H5Pset_shared_mesg_index", fcpl.id, index, flag, 10)
            native.call("H5Pset_shared_mesg_phase_change", fcpl.id, listed, max(listed - 10, 0))
            with matrix.file_from(f"shared_{libver}_{indexes}_{listed}.h5", fcpl, libver) as file:
                few(file)
                file.create_group("same")
                file.create_group("records")
                for number in range(12):
                    dataset = file.create_dataset(f"same/v{number}", data=values("<f8", (6, 5), number), chunks=(4, 4),
                                                  fillvalue=1.5, compression="gzip", shuffle=True)
                    dataset.attrs["same"] = np.arange(20)
                    dataset.attrs["own"] = f"a rather long text, number {number}"
                record = values([("a", ">i2"), ("b", "<f8", (2,))], (3,), "r")
                for number in range(5):
                    file.create_dataset(f"records/v{number}", data=record)


STRATEGIES = {"page": h5f.FSPACE_STRATEGY_PAGE, "fsm": h5f.FSPACE_STRATEGY_FSM_AGGR,
              "aggregate": h5f.FSPACE_STRATEGY_AGGR, "none": h5f.FSPACE_STRATEGY_NONE}


def file_space(matrix):
    for libver in ("v110", "latest"):
        for strategy in STRATEGIES:
            for persist in (False, True):
                if strategy in ("aggregate", "none") and persist:
                    continue
                name = f"space_{strategy}_{'kept' if persist else 'lost'}_{libver}.h5"
                fcpl = h5p.create(h5p.FILE_CREATE)
                fcpl.set_file_space_strategy(STRATEGIES[strategy], persist, 1)
                if strategy == "page":
                    fcpl.set_file_space_page_size(1024)
                with matrix.file_from(name, fcpl, libver) as file:
                    few(file)
                    file.create_dataset("gone", data=np.arange(5000))
                    del file["gone"]
                    file.create_dataset("after", data=values("<f8", (40, 30), name), chunks=(7, 7))


SUBJECTS = [superblocks, sizes, groups, links, strange_names, attributes, committed, shared_messages, file_space]
