"""The HDF5 file driver: programs see the same with it as without, and their writes are staged."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from hdf5_programs import LIMIT, driver, h5py_outcomes, plain, run, start

IS_LONG = bool(os.environ.get("FOREBAY_LONG"))

# Everything that h5py can do to a file, drawn by chance from a seed; what it writes has no times in it.
WRITES = """
    import sys, json, h5py, numpy as np

    def write(path, seed, steps):
        draw = np.random.default_rng(seed)
        libver = [None, "latest", ("v108", "v110")][seed % 3]
        file = h5py.File(path, "w", libver=libver, userblock_size=[0, 512, 4096][seed // 3 % 3])
        for step in range(steps):
            sets = [name for name in file if isinstance(file[name], h5py.Dataset)]
            chosen = sets and file[sets[draw.integers(len(sets))]]
            kind = draw.integers(12)
            if kind < 3 or not sets:
                shape = tuple(draw.integers(1, 40, size=draw.integers(1, 4)))
                options = [{}, {"chunks": True, "maxshape": (None,) * len(shape)}, {"compression": "gzip"}]
                data = draw.standard_normal(shape).astype("f4")
                file.create_dataset(f"d{step}", data=data, **options[draw.integers(3)])
            elif kind < 6:
                chosen[: draw.integers(1, chosen.shape[0] + 1)] = draw.random()
            elif kind == 6 and chosen.maxshape[0] is None:
                chosen.resize(int(draw.integers(1, 80)), axis=0)
            elif kind == 7:
                chosen.attrs[f"a{step}"] = draw.integers(0, 9, size=draw.integers(1, 50))
            elif kind == 8:
                file.flush()
            elif kind == 9:
                del file[chosen.name]
            elif kind == 10:
                file.close()
                file = h5py.File(path, "r+", libver=libver)
            else:
                file.create_group(f"g{step}/h")["text"] = ["x" * int(n) for n in draw.integers(0, 99, size=9)]
            if sets and sets[0] in file:
                yield float(np.sum(file[sets[0]][...]))
        file.close()

    path, steps, seeds = sys.argv[1], int(sys.argv[2]), map(int, sys.argv[3:])
    print(json.dumps([list(write(f"{path}.{seed}", seed, steps)) for seed in seeds]))
"""


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def scopes(folder: Path) -> dict[str, dict[str, str]]:
    """Environments in which the driver works differently."""
    files, stage = folder / "files", folder / "fast"
    return {
        "unmanaged": driver(),
        "no stage": driver(files),
        "staged": driver(files, stage),
        "delayed": driver(files, stage, FOREBAY_DELAY_CLOSE=1),
        "memory": driver(files, "memory"),
        "memory, delayed": driver(files, "memory", FOREBAY_DELAY_CLOSE=1),
        "full": driver(files, stage, FOREBAY_STAGE_QUOTA="64KiB"),
        "tiers": driver(files, stage, FOREBAY_TIERS="memory:16MiB"),
    }


def some(folder: Path) -> dict[str, dict[str, str]]:
    """Those that differ most; all of them in a long run."""
    return {name: value for name, value in scopes(folder).items() if IS_LONG or name in ("unmanaged", "staged", "delayed")}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


# Its long version takes five minutes of a processor.
@pytest.mark.timeout(1800)
def test_files_are_byte_for_byte_those_that_hdf5_writes_by_itself(tmp_path: Path, files: Path) -> None:
    steps, seeds = (400, range(27)) if IS_LONG else (80, (0, 4, 8))
    native, _ = run(WRITES, plain(), tmp_path / "native", steps, *seeds)
    for name, environment in scopes(tmp_path).items():
        assert run(WRITES, environment, files / name, steps, *seeds) == (native, ""), name
        for seed in seeds:
            assert digest(files / f"{name}.{seed}") == digest(tmp_path / f"native.{seed}"), name


EXCEPTIONS = """
    import os, sys, json, h5py, numpy as np
    os.chdir(sys.argv[1])
    said = []
    def attempt(call):
        try:
            said.append(str(type(call())))
        except Exception as error:
            said.append(f"{type(error).__name__} {getattr(error, 'errno', '')} {error}")
    with h5py.File("a.h5", "w") as a:
        a["x"] = np.arange(10)
        attempt(lambda: h5py.File("a.h5", "w"))
        attempt(lambda: h5py.File("a.h5", "w-"))
        attempt(lambda: h5py.File("a.h5", "r"))
        attempt(lambda: a["no"])
        attempt(lambda: a.create_dataset("x", data=1))
    with open("text.h5", "w") as text:
        text.write("no HDF5 file")
    open("empty.h5", "w").close()
    os.mkdir("folder.h5")
    with open("a.h5", "rb") as a, open("cut.h5", "wb") as cut:
        cut.write(a.read()[:1000])
    os.symlink("nowhere", "link.h5")
    for name in ["no.h5", "no/no.h5", "text.h5", "empty.h5", "folder.h5", "cut.h5", "link.h5", "", "x" * 300]:
        for mode in ["r", "r+", "w-", "w"]:
            if mode in ("r", "r+") or name in ("folder.h5", "", "x" * 300, "no/no.h5"):
                attempt(lambda: h5py.File(name, mode).close())
        attempt(lambda: h5py.is_hdf5(name))
        attempt(lambda: h5py.h5f.is_hdf5(name.encode()))
    read_only = h5py.File("a.h5")
    attempt(lambda: h5py.File("a.h5", "r+"))
    attempt(lambda: h5py.File("a.h5", "w"))
    attempt(lambda: read_only.create_group("g"))
    attempt(lambda: h5py.File("a.h5", "r", swmr=True))
    read_only.close()
    attempt(lambda: h5py.File("a.h5", "r", driver="core"))
    attempt(lambda: h5py.File("a.h5", "r", driver="nonsense"))
    attempt(lambda: h5py.File("b.h5", "w").swmr_mode)
    print(json.dumps(said))
"""


def test_exceptions_are_those_that_hdf5_raises_by_itself(tmp_path: Path, files: Path) -> None:
    def said(name: str, environment: dict[str, str]) -> list[str]:
        folder = files / name
        folder.mkdir()
        found, err = run(EXCEPTIONS, environment, folder)
        assert err == "", name
        # Numbers of descriptors, times and addresses differ from run to run.
        noise = r"time = [^,]*,|descriptor = \d+|buf = 0x[0-9a-f]+|0x[0-9a-f]+"
        return [re.sub(noise, "", text).replace(str(folder), "") for text in found]

    native = said("native", plain())
    assert any("FileNotFoundError 2" in text for text in native) and len(native) > 50
    for name, environment in some(tmp_path).items():
        assert said(name, environment) == native, name


FOOTPRINT = """
    import sys, os, json, h5py, numpy as np
    path = sys.argv[1]
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(100_000)
        file.flush()
        during = len(os.listdir("/proc/self/task"))
    with h5py.File(path) as file:
        assert file["x"][-1] == 99_999
    print(json.dumps([during, len(os.listdir("/proc/self/task"))]))
"""


def test_files_that_are_not_managed_cost_no_thread_and_no_folder(tmp_path: Path, files: Path) -> None:
    stage = tmp_path / "fast"
    native, _ = run(FOOTPRINT, plain(), tmp_path / "native.h5")
    assert run(FOOTPRINT, driver(files, stage), tmp_path / "out.h5") == (native, "")
    assert not stage.exists()


def test_trouble_with_settings_is_one_warning_and_files_pass_through(tmp_path: Path, files: Path) -> None:
    wrong = driver(files, tmp_path / "fast", FOREBAY_DELAY_CLOSE="perhaps")
    _, err = run(WRITES, wrong, files / "a", 30, 1)
    assert err.count("forebay:") == 1 and "FOREBAY_DELAY_CLOSE" in err
    # No folder can be made there.
    _, err = run(WRITES, driver(files, "/proc/self/fast"), files / "b", 30, 1)
    assert err.count("forebay:") == 1 and "not staged" in err
    run(WRITES, plain(), tmp_path / "native", 30, 1)
    assert digest(files / "a.1") == digest(files / "b.1") == digest(tmp_path / "native.1")


def test_what_is_flushed_or_closed_is_in_the_file(tmp_path: Path, files: Path) -> None:
    source = """
        import sys, h5py, numpy as np, hashlib, json
        path = sys.argv[1]
        image = lambda: hashlib.sha256(open(path, "rb").read()).hexdigest()
        seen = []
        with h5py.File(path, "w") as file:
            for step in range(3):
                file[f"d{step}"] = np.full(300_000, step)
                file.flush()
                seen.append(image())
        seen.append(image())
        print(json.dumps(seen))
    """
    native, _ = run(source, plain(), tmp_path / "native.h5")
    for stage in (tmp_path / "fast", "memory"):
        assert run(source, driver(files, stage), files / "a.h5") == (native, "")


def test_a_descriptor_that_is_handed_out_shows_all_that_was_written(tmp_path: Path, files: Path) -> None:
    source = """
        import sys, os, json, h5py, numpy as np
        with h5py.File(sys.argv[1], "w") as file:
            data = file.create_dataset("x", shape=1000, dtype="i8")
            data[:] = np.arange(1000)
            file.flush()
            number = file.id.get_vfd_handle()
            read = lambda: np.frombuffer(os.pread(number, 8000, data.id.get_offset()), "i8").tolist()
            assert read() == list(range(1000))
            data[:] = 7
            file.flush()
            assert read() == [7] * 1000
            print(json.dumps([os.fstat(number).st_size, os.stat(sys.argv[1]).st_ino == os.fstat(number).st_ino]))
    """
    native, _ = run(source, plain(), tmp_path / "native.h5")
    for environment in some(tmp_path).values():
        assert run(source, environment, files / "a.h5") == (native, "")


SWMR_WRITER = """
    import sys, h5py, numpy as np
    with h5py.File(sys.argv[1], "w", libver="latest") as file:
        data = file.create_dataset("x", shape=(0,), maxshape=(None,), chunks=(64,), dtype="i8")
        data.resize(1, axis=0)
        file.swmr_mode = True
        print("ready", flush=True)
        for line in sys.stdin:
            data.resize(len(data) + 100, axis=0)
            data[-100:] = int(line)
            data.flush()
            print(len(data), flush=True)
"""


@pytest.mark.parametrize("delayed", (False, True))
def test_readers_of_a_swmr_file_see_each_flush(tmp_path: Path, files: Path, delayed: bool) -> None:
    path = files / "a.h5"
    environment = driver(files, tmp_path / "fast", FOREBAY_DELAY_CLOSE=int(delayed), FOREBAY_TIERS="memory:16MiB")
    writer = start(SWMR_WRITER, environment, path)
    assert writer.stdin and writer.stdout
    assert writer.stdout.readline() == "ready\n"
    read = """
        import sys, json, h5py
        with h5py.File(sys.argv[1], "r", swmr=True) as file:
            print(json.dumps([len(file["x"]), int(file["x"][-1])]))
    """
    for step in (5, 6):
        writer.stdin.write(f"{step}\n")
        writer.stdin.flush()
        said = int(writer.stdout.readline())
        for reader in (plain(), environment):
            assert run(read, reader, path) == ([said, step], "")
    assert writer.communicate(timeout=LIMIT)[1] == ""


FORKS = """
    import sys, os, json, h5py, numpy as np
    path = sys.argv[1]
    file = h5py.File(path, "w")
    file["x"] = np.arange(500_000)
    file.flush()
    file["x"][:1000] = -1
    file["y"] = np.arange(7)
    child = os.fork()
    if child == 0:
        right = (file["x"][:1000] == -1).all() and file["x"][-1] == 499_999 and file["y"][6] == 6
        other = h5py.File(path + ".child", "w")
        other["z"] = np.arange(1000)
        other.close()
        with h5py.File(path + ".child") as other:
            right = right and other["z"][-1] == 999
        os._exit(0 if right else 1)
    code = os.waitpid(child, 0)[1]
    file["y"][:] = 3
    file["x"][-1] = 5
    file.close()
    with h5py.File(path) as file:
        print(json.dumps([code, file["x"][:].sum().item(), file["y"][:].tolist()]))
"""


def test_a_forked_child_reads_what_its_parent_wrote_and_writes_files_of_its_own(tmp_path: Path, files: Path) -> None:
    native, _ = run(FORKS, plain(), tmp_path / "native.h5")
    assert native[0] == 0
    for name, environment in some(tmp_path).items():
        assert run(FORKS, environment, files / f"{name}.h5") == (native, ""), name


def test_an_open_file_is_locked_as_ever(tmp_path: Path, files: Path) -> None:
    hold = """
        import sys, h5py
        file = h5py.File(sys.argv[1], "a")
        file.require_dataset("x", shape=10, dtype="i8")[:] = 4
        print("ready", flush=True)
        sys.stdin.read()
        file.close()
    """
    attempt = """
        import sys, json, h5py
        try:
            h5py.File(sys.argv[1], "r").close()
            print('"opened"')
        except OSError as error:
            print(json.dumps(f"{type(error).__name__} {error.errno} {error}"))
    """
    said = {}
    for name, environment in {"native": plain(), **some(tmp_path)}.items():
        path = files / "a.h5"
        path.unlink(missing_ok=True)
        holder = start(hold, environment, path)
        assert holder.stdout and holder.stdout.readline() == "ready\n"
        locked, _ = run(attempt, environment, path)
        ignored, _ = run(attempt, environment | {"HDF5_USE_FILE_LOCKING": "FALSE"}, path)
        assert holder.communicate(timeout=LIMIT)[1] == ""
        said[name] = (locked, re.sub("truncated file.*", "", ignored), run(attempt, environment, path)[0])
    assert "BlockingIOError 11" in said["native"][0] and said["native"][2] == "opened"
    assert {name: answer[::2] for name, answer in said.items()} == dict.fromkeys(said, said["native"][::2])


# The C interface of the virtual file layer, by ctypes: what h5py never calls.
VIRTUAL_FILE_LAYER = """
    import sys, json, ctypes, h5py, numpy as np
    hdf5 = ctypes.CDLL([line.split()[-1] for line in open("/proc/self/maps") if "/libhdf5-" in line][0])
    long, place, size = ctypes.c_int64, ctypes.c_uint64, ctypes.c_size_t
    def function(name, answer, *kinds):
        found = getattr(hdf5, name)
        found.restype, found.argtypes = answer, kinds
        return found
    pointer = ctypes.c_void_p
    opened = function("H5FDopen", pointer, ctypes.c_char_p, ctypes.c_uint, long, place)
    close = function("H5FDclose", ctypes.c_int, pointer)
    set_eoa = function("H5FDset_eoa", ctypes.c_int, pointer, ctypes.c_int, place)
    eoa = function("H5FDget_eoa", place, pointer, ctypes.c_int)
    eof = function("H5FDget_eof", place, pointer, ctypes.c_int)
    write = function("H5FDwrite", ctypes.c_int, pointer, ctypes.c_int, long, place, size, pointer)
    read = function("H5FDread", ctypes.c_int, pointer, ctypes.c_int, long, place, size, pointer)
    cmp = function("H5FDcmp", ctypes.c_int, pointer, pointer)
    query = function("H5FDquery", ctypes.c_int, pointer, ctypes.POINTER(ctypes.c_ulong))
    truncate = function("H5FDtruncate", ctypes.c_int, pointer, long, ctypes.c_bool)
    flush = function("H5FDflush", ctypes.c_int, pointer, long, ctypes.c_bool)
    lock = function("H5FDlock", ctypes.c_int, pointer, ctypes.c_bool)
    unlock = function("H5FDunlock", ctypes.c_int, pointer)
    ctl = function("H5FDctl", ctypes.c_int, pointer, place, place, pointer, pointer)
    several = [ctypes.c_int, pointer, long, ctypes.c_uint32, pointer, pointer, pointer, pointer]
    write_vector, read_vector = (function(f"H5FD{way}_vector", *several) for way in ("write", "read"))
    selected = [ctypes.c_int, pointer, ctypes.c_int, long, ctypes.c_uint32, *[pointer] * 5]
    write_selection, read_selection = (function(f"H5FD{way}_selection", *selected) for way in ("write", "read"))
    said = []
    path = sys.argv[1].encode()
    file = opened(path, 0x1 | 0x2 | 0x10, 0, 2**64 - 1)
    other = opened(path, 0x1, 0, 2**64 - 1)
    flags = ctypes.c_ulong()
    said += [query(file, flags), flags.value, cmp(file, other), set_eoa(file, 0, 5000), eoa(file, 0), eof(file, 0)]
    data = np.arange(1000, dtype="u1").tobytes()
    said += [write(file, 3, 0, 100, 1000, data), eof(file, 0)]
    into = ctypes.create_string_buffer(2000)
    # Past the end of the file there are zeros; past the end of what was given out there is an error.
    said += [read(file, 3, 0, 600, 2000, into), into.raw[:500] == data[500:], set(into.raw[500:]) == {0}]
    said += [read(file, 3, 0, 4500, 2000, into), write(file, 3, 0, 2**64 - 1, 8, data), read(file, 3, 0, 2**63, 8, into)]
    kinds = (ctypes.c_int * 3)(3, 3, 3)
    places, sizes = (place * 3)(2000, 50, 1500), (size * 3)(10, 20, 30)
    texts = [ctypes.create_string_buffer(bytes([65 + k]) * sizes[k], sizes[k]) for k in range(3)]
    texts_at = (pointer * 3)(*[ctypes.addressof(text) for text in texts])
    said += [write_vector(file, 0, 3, kinds, places, sizes, texts_at), eof(file, 0)]
    backs = [ctypes.create_string_buffer(sizes[k]) for k in range(3)]
    backs_at = (pointer * 3)(*[ctypes.addressof(back) for back in backs])
    said += [read_vector(file, 0, 3, kinds, places, sizes, backs_at), [back.raw == text.raw for back, text in zip(backs, texts)]]
    space, memory = h5py.h5s.create_simple((100,)), h5py.h5s.create_simple((20,))
    space.select_hyperslab((5,), (20,), (4,), (1,))
    spaces, memories, offset, element = (long * 1)(space.id), (long * 1)(memory.id), (place * 1)(3000), (size * 1)(4)
    values = np.arange(20, dtype="i4")
    at = (pointer * 1)(values.ctypes.data)
    said += [write_selection(file, 3, 0, 1, memories, spaces, offset, element, at)]
    back = np.zeros(20, "i4")
    at = (pointer * 1)(back.ctypes.data)
    said += [read_selection(file, 3, 0, 1, memories, spaces, offset, element, at), back.tolist(), eof(file, 0)]
    said += [ctl(file, 9999, 0, None, None), ctl(file, 9999, 1, None, None)]
    said += [lock(file, True), lock(other, True), unlock(file), lock(other, True), unlock(other)]
    said += [truncate(file, 0, False), flush(file, 0, False), eof(file, 0), set_eoa(file, 0, 2500)]
    said += [truncate(file, 0, False), eof(file, 0), flush(file, 0, True), close(file), close(other)]
    print(json.dumps(said))
"""


def test_calls_of_the_virtual_file_layer_answer_as_those_of_the_own_driver(tmp_path: Path, files: Path) -> None:
    native, _ = run(VIRTUAL_FILE_LAYER, plain(), tmp_path / "native.bin")
    assert len(native) == 38 and native[:2] == [0, 0x909F]
    for name, environment in some(tmp_path).items():
        said, _ = run(VIRTUAL_FILE_LAYER, environment, files / f"{name}.bin")
        assert said == native, name
        assert digest(files / f"{name}.bin") == digest(tmp_path / "native.bin"), name


def test_far_bytes_that_were_read_once_come_from_the_tiers(tmp_path: Path, files: Path) -> None:
    path = files / "a.h5"
    values = np.random.default_rng(3).random(1_000_000)
    with h5py.File(path, "w") as file:
        file["x"] = values
    # A file that has changed within two seconds is not copied: the clock of a file system is no finer.
    time.sleep(2.5)
    source = """
        import sys, json, h5py, hashlib
        def rchar():
            return int(open("/proc/self/io").readline().split()[1])
        said = []
        for epoch in range(2):
            before = rchar()
            with h5py.File(sys.argv[1]) as file:
                said.append(hashlib.sha256(file["x"][:].tobytes()).hexdigest())
            said.append(rchar() - before)
        print(json.dumps(said))
    """
    said, err = run(source, driver(files, "", FOREBAY_TIERS="memory:64MiB"), path)
    right = hashlib.sha256(values.tobytes()).hexdigest()
    assert (said[0], said[2], err) == (right, right, "")
    assert said[1] > values.nbytes > 10 * said[3], said


NETCDF = """
    import sys, json, netCDF4, numpy as np
    path = sys.argv[1]
    with netCDF4.Dataset(path, "w") as data:
        data.createDimension("t", None)
        data.createDimension("x", 500)
        v = data.createVariable("v", "f4", ("t", "x"), zlib=True)
        for t in range(20):
            v[t] = np.arange(500) * t
            data.sync()
        data.title = "a title"
    with netCDF4.Dataset(path, "a") as data:
        data["v"][3] = 1
    with netCDF4.Dataset(path) as data:
        print(json.dumps([float(data["v"][:].sum()), data.title]))
"""

TABLES = """
    import sys, json, tables, numpy as np
    path = sys.argv[1]
    with tables.open_file(path, "w") as data:
        table = data.create_table("/", "t", {"a": tables.Int32Col(), "b": tables.Float64Col()})
        table.append([(k, k / 2) for k in range(5000)])
        table.cols.a.create_index()
        data.create_earray("/", "e", obj=np.arange(100)).append(np.arange(50))
        data.flush()
    with tables.open_file(path, "a") as data:
        data.root.e[0] = 77
    with tables.open_file(path) as data:
        print(json.dumps([data.root.t.read_where("a > 4990")["b"].tolist(), int(data.root.e[:].sum())]))
"""


@pytest.mark.parametrize("source", (NETCDF, TABLES), ids=("netCDF4", "PyTables"))
def test_other_libraries_write_and_read_through_the_driver(tmp_path: Path, files: Path, source: str) -> None:
    native, _ = run(source, plain(), tmp_path / "native.h5")
    for name, environment in some(tmp_path).items():
        assert run(source, environment, files / f"{name}.h5") == (native, ""), name
        # Without the driver the file is the same.
        with h5py.File(files / f"{name}.h5") as file, h5py.File(tmp_path / "native.h5") as right:
            assert set(file) == set(right)


def test_three_libhdf5_of_one_process_have_the_driver_each(tmp_path: Path, files: Path) -> None:
    source = """
        import sys, json, os, warnings
        import h5py, netCDF4, tables, numpy as np
        warnings.simplefilter("ignore", tables.DataTypeWarning)
        folder = sys.argv[1]
        path = os.path.join(folder, "a.nc")
        said = []
        with netCDF4.Dataset(path, "w") as data:
            data.createDimension("x", 1000)
            data.createVariable("v", "i8", ("x",))[:] = np.arange(1000)
        with h5py.File(path, "r+") as file:
            said.append(int(file["v"][:].sum()))
            file["v"][:10] = 5
            file["w"] = np.arange(300_000)
        with tables.open_file(path) as data:
            said.append([int(data.root.v[:].sum()), int(data.root.w[-1])])
        with tables.open_file(os.path.join(folder, "b.h5"), "w") as data:
            data.create_array("/", "z", np.arange(9))
            with h5py.File(os.path.join(folder, "c.h5"), "w") as file:
                file["z"] = data.root.z[:]
        with netCDF4.Dataset(os.path.join(folder, "c.h5")) as data:
            said.append(data["z"][:].tolist())
        libraries = {line.split()[-1] for line in open("/proc/self/maps") if "/libhdf5-" in line}
        print(json.dumps([said, len(libraries)]))
    """
    native, _ = run(source, plain(), tmp_path)
    assert native[1] == 3
    for name, environment in some(tmp_path).items():
        folder = files / name
        folder.mkdir()
        assert run(source, environment, folder) == (native, ""), name


def test_a_file_is_the_same_by_all_of_its_names(tmp_path: Path, files: Path) -> None:
    source = """
        import sys, json, os
        import h5py, netCDF4, numpy as np
        folder, said = sys.argv[1], []
        path, other, later = (os.path.join(folder, name) for name in ("a.h5", "b.h5", "c.h5"))
        with h5py.File(path, "w") as file:
            file["x"] = np.zeros(1_000_000)
        os.link(path, other)
        with h5py.File(path, "r+") as file:
            file["x"][:] = 7
            # Another libhdf5, which knows nothing of this one's open file.
            with netCDF4.Dataset(other) as data:
                said.append(float(data["x"][:].sum()))
            os.rename(path, later)
            file["x"][:10] = 8
            with netCDF4.Dataset(later) as data:
                said.append(float(data["x"][:].sum()))
            # The same one: HDF5 finds that it has the file.
            with h5py.File(other, "r+") as again:
                again["x"][-1] = 9
                said.append([float(file["x"][-1]), file.id == again.id])
        with h5py.File(later) as file:
            said.append(float(file["x"][:].sum()))
        print(json.dumps(said))
    """
    unlocked = {"HDF5_USE_FILE_LOCKING": "FALSE"}
    native, _ = run(source, plain() | unlocked, tmp_path)
    assert native[0] == 7e6
    for name, environment in some(tmp_path).items():
        folder = files / name
        folder.mkdir()
        assert run(source, environment | unlocked, folder) == (native, ""), name


def test_h5py_does_not_know_the_driver_by_name(tmp_path: Path, files: Path) -> None:
    source = """
        import sys, json, h5py
        with h5py.File(sys.argv[1], "w") as file:
            print(json.dumps(file.driver))
    """
    assert run(source, plain(), files / "native.h5")[0] == "sec2"
    for name, environment in some(tmp_path).items():
        assert run(source, environment, files / f"{name}.h5")[0] == "unknown", name


MODULES = ["test_file", "test_h5f", "test_dataset_swmr", "test_file_image"]
SUITE = ["h5py"] if IS_LONG else [f"h5py.tests.{name}" for name in MODULES]


@functools.cache
def native_outcomes() -> set[str]:
    with tempfile.TemporaryDirectory() as folder:
        return h5py_outcomes(plain(), Path(folder), *SUITE)


@pytest.mark.parametrize("name", scopes(Path()) if IS_LONG else ["delayed"])
def test_h5pys_own_tests_have_the_same_outcomes(tmp_path: Path, files: Path, name: str) -> None:
    assert len(native_outcomes()) > (800 if IS_LONG else 80)
    assert h5py_outcomes(scopes(tmp_path)[name], files, *SUITE) == native_outcomes()
