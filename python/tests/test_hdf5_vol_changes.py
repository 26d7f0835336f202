"""Values through the HDF5 VOL connector when files change by ways that it sees only in part, and calls that h5py seldom makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdf5_programs import both, connector, plain, run
from hdf5_reads import CHANGES, READS


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def test_a_file_opened_for_writing_while_its_writes_are_on_their_way_gives_those(files: Path) -> None:
    source = READS + """
    import forebay.hdf5
    path = sys.argv[1]
    with h5py.File(path, "w", driver="stdio") as file:
        file["x"] = np.zeros(1 << 19, "i4")
    age(path)
    for _ in range(2):
        with h5py.File(path) as file:
            file["x"][:]
    forebay.hdf5.wait(300)
    with h5py.File(path + ".other", "w") as file:
        file["y"] = np.ones(1 << 20, "i4")  # keeps the drainers busy
    with h5py.File(path, "r+") as file:
        file["x"][:] = 7
    with h5py.File(path, "r+") as file:
        print(json.dumps(np.unique(file["x"][:]).tolist()))
    """
    slow = {"FOREBAY_STAGE": files.parent / "stage", "FOREBAY_DELAY_CLOSE": 1, "FOREBAY_STAGE_BANDWIDTH": "4MB"}
    assert run(source, connector(files, "memory", **slow), files / "a.h5")[0] == [7]


def test_writes_through_ways_that_are_not_seen_here_are_read_back(files: Path) -> None:
    # A data set that is reached by an external link, and one that outlives its file's handle: both keep a file open.
    source = READS + """
    path, main, told = sys.argv[1], sys.argv[1] + ".main", []
    for name in [path, path + ".weak"]:
        with h5py.File(name, "w") as file:
            file.create_dataset("x", data=np.zeros(1 << 16, "i4"), chunks=(1 << 13,))
        age(name)
    with h5py.File(main, "w") as file:
        file["far"] = h5py.ExternalLink(path, "/x")
    def weak():
        return h5py.h5f.open((path + ".weak").encode(), h5py.h5f.ACC_RDWR, h5py.h5p.create(h5py.h5p.FILE_ACCESS))
    with h5py.File(main, "r+") as file:
        far = file["far"]
        for value in range(3):
            far[5:20] = value
            with h5py.File(path, "r+") as again:
                told.append(np.unique(again["x"][:]).tolist())
        del far
    file = weak()
    kept = h5py.Dataset(h5py.h5d.open(file, b"x"))
    file.close()
    for value in range(3):
        kept[5:20] = value
        file = weak()
        told.append(np.unique(h5py.Dataset(h5py.h5d.open(file, b"x"))[:]).tolist())
        file.close()
    print(json.dumps(told))
    """
    expected, found = both(source, plain(), connector(files, "memory"), files / "a.h5")
    assert found == expected == [[0], [0, 1], [0, 2]] * 2


def test_a_refresh_shows_what_others_have_written(files: Path) -> None:
    source = READS + CHANGES + """
    import os
    path = sys.argv[1]
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.zeros(1 << 16, "i4"), chunks=(1 << 13,))
        file["c"] = np.zeros(1 << 16, "i4")
    age(path)
    told = []
    with h5py.File(path) as file:
        told += [int(file[name][:].sum()) for name in "xcxc"]
        outside("f['x'][:] = 9; f['c'][:] = 9")
        for name in "xc":
            kept = file[name]
            kept.id.refresh()
            told.append(np.unique(kept[:]).tolist())
    print(json.dumps(told))
    """
    unlocked = {"HDF5_USE_FILE_LOCKING": "FALSE"}
    expected, found = both(source, plain() | unlocked, connector(files, "memory", **unlocked), files / "a.h5")
    assert found == expected == [0, 0, 0, 0, [9], [9]]


C_LEVEL = """
    import ctypes, glob, os
    hid = ctypes.c_int64
    hdf5 = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(os.path.dirname(h5py.__file__)), "h5py.libs", "libhdf5-*.so*"))[0])
"""


def test_lists_of_data_sets_of_a_file_that_is_open_twice_are_written_and_read(files: Path) -> None:
    source = READS + C_LEVEL + """
    opened = [h5py.File(sys.argv[1], "w"), h5py.File(sys.argv[1], "r+")]
    sets = [file.create_dataset(None, (4,), "i4") for file in opened]
    values = [np.arange(4, dtype="i4") + 10 * number for number in range(2)]
    many = lambda handles: (hid * 2)(*handles)
    kind, zeros = many([h5py.h5t.NATIVE_INT32.id] * 2), many([0, 0])
    def call(function, arrays):
        addresses = (ctypes.c_void_p * 2)(*[array.ctypes.data for array in arrays])
        return function(ctypes.c_size_t(2), many([one.id.id for one in sets]), kind, zeros, zeros, hid(0), addresses)
    back = [np.zeros(4, "i4") for _ in range(2)]
    print(json.dumps([call(hdf5.H5Dwrite_multi, values), call(hdf5.H5Dread_multi, back), [array.tolist() for array in back]]))
    """
    expected, found = both(source, plain(), connector(files, "memory"), files / "a.h5")
    assert found == expected == [0, 0, [[0, 1, 2, 3], [10, 11, 12, 13]]]


def test_an_error_handler_of_older_programs_is_called_for_their_errors_alone(files: Path) -> None:
    source = READS + C_LEVEL + """
    make(sys.argv[1])
    calls = []
    handler = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: calls.append(1) or 0)
    file = h5py.File(sys.argv[1])
    rows, into = file["rows"].id, np.empty((700, 12, 10), "f4")
    assert hdf5.H5Eset_auto1(handler, None) == 0
    told = []
    for _ in range(2):
        hdf5.H5Dclose(hid(-5))
        answer = hdf5.H5Dread(hid(rows.id), hid(h5py.h5t.NATIVE_FLOAT.id), hid(0), hid(0), hid(0), ctypes.c_void_p(into.ctypes.data))
        told.append([len(calls), answer, digest(into)])
    print(json.dumps(told), flush=True)
    os._exit(0)
    """
    expected, found = both(source, plain(), connector(files, "memory"), files / "a.h5")
    assert found == expected and [calls for calls, *_ in found] == [1, 2]


def test_a_data_set_larger_than_the_cache_is_prestaged_as_far_as_it_fits(files: Path) -> None:
    source = READS + """
    import forebay.hdf5
    with h5py.File(sys.argv[1], "w") as file:
        file.create_dataset("x", data=np.arange(8 << 18, dtype="i4"), chunks=(1 << 16,))
    age(sys.argv[1])
    with h5py.File(sys.argv[1]) as file:
        value = int(file["x"][5])
        assert forebay.hdf5.wait(300, dataset=file["x"])
    print(json.dumps([value, forebay.hdf5.stats()]))
    """
    for mode in ["1", "background"]:
        quota = {"FOREBAY_HDF5_CACHE_QUOTA": "2MiB", "FOREBAY_PRESTAGE": mode}
        value, stats = run(source, connector(files, "memory", **quota), files / "a.h5")[0]
        assert value == 5 and 1 << 20 < stats["filled"] <= 3 << 20, (mode, stats)


def test_a_file_that_is_on_its_way_is_known_as_one_of_hdf5(files: Path) -> None:
    source = READS + """
    path = sys.argv[1]
    with h5py.File(path + ".other", "w") as file:
        file["y"] = np.ones(1 << 20, "i4")
    with h5py.File(path, "w") as file:
        file["x"] = np.ones(1 << 19, "i4")
    print(json.dumps([bool(h5py.is_hdf5(path))]))
    """
    slow = {"FOREBAY_STAGE": files.parent / "stage", "FOREBAY_DELAY_CLOSE": 1, "FOREBAY_STAGE_BANDWIDTH": "4MB"}
    assert run(source, connector(files, "memory", **slow), files / "a.h5")[0] == [True]
