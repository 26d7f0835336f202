"""The HDF5 VOL connector: programs read the same values with it as without, whatever they select, and from the cache."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from hdf5_programs import both, connector, h5py_outcomes, plain, run
from hdf5_reads import CHANGES, MAKE, OPERATIONS, READS

IS_LONG = bool(os.environ.get("FOREBAY_LONG"))


def kinds(folder: Path) -> dict[str, dict[str, str]]:
    """Environments in which the connector works differently."""
    files, fast = folder / "files", folder / "fast"
    return {
        "unmanaged": connector(),
        "no cache": connector(files),
        "disk": connector(files, fast),
        "memory": connector(files, "memory"),
        "large units": connector(files, "memory", FOREBAY_HDF5_UNIT="4MiB"),
        "prestaged": connector(files, fast, FOREBAY_PRESTAGE=1),
        "prestaged behind": connector(files, "memory", FOREBAY_PRESTAGE="background"),
        "nearly no room": connector(files, "memory", FOREBAY_HDF5_CACHE_QUOTA="256KiB"),
        "over another": connector(files, "memory", "under_vol=1;under_info={under_vol=0;under_info={}}"),
        "off by its text": connector(files, "memory", "cache=off;under_vol=0;under_info={}"),
        "without the driver": connector(files, fast, FOREBAY_HDF5_PLUGINS="vol"),
        "over byte tiers": connector(files, "memory", FOREBAY_TIERS="memory:64MiB"),
    }


KINDS = list(kinds(Path()))
SHORT = ["disk", "memory", "prestaged", "nearly no room", "over another"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@pytest.mark.parametrize("kind", KINDS)
def test_every_selection_of_every_type_gives_the_values_of_plain_hdf5(files: Path, kind: str) -> None:
    path = files / "all.h5"
    run(MAKE + "\n    make(sys.argv[1])", plain(), path)
    source = READS + "\n    print(json.dumps(read_all(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))"
    rounds = 60 if IS_LONG else 8
    expected, found = both(source, plain(), kinds(files.parent)[kind], path, 5, rounds)
    assert len(expected) > 100
    assert found == expected


DRAWN = OPERATIONS + (
    "\n    print(json.dumps([run(f'{sys.argv[1]}.{n}', n, int(sys.argv[2])) for n in range(int(sys.argv[3]))]))"
)
STEPS, SEEDS = (60, 24) if IS_LONG else (25, 4)


@functools.cache
def native_operations() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return run(DRAWN, plain(), Path(folder, "plain"), STEPS, SEEDS)[0]


@pytest.mark.parametrize("kind", KINDS if IS_LONG else SHORT)
def test_operations_drawn_by_chance_leave_and_read_the_same(files: Path, kind: str) -> None:
    found, _ = run(DRAWN, kinds(files.parent)[kind], files / "ours", STEPS, SEEDS)
    assert [len(told) for told in native_operations()] == [len(told) for told in found]
    assert found == native_operations()


def test_the_second_reading_comes_from_the_cache(files: Path) -> None:
    path = files / "a.h5"
    run(MAKE + "\n    make(sys.argv[1])", plain(), path)
    source = READS + """
    import forebay.hdf5
    def sums():
        with h5py.File(sys.argv[1]) as file:
            return {name: float(file[name][...].astype("f8").sum()) for name in ["rows", "chunks", "line", "thin"]}
    first = sums()
    assert forebay.hdf5.is_loaded() and forebay.hdf5.wait(300)
    before = forebay.hdf5.stats()
    assert sums() == first
    after = forebay.hdf5.stats()
    print(json.dumps([before, after]))
    """
    for cache in [files.parent / "fast", "memory"]:
        before, after = run(source, connector(files, cache), path)[0]
        read = 3 * 700 * 12 * 10 * 4 + 8 * 100_000
        assert after["hit"] - before["hit"] == read
        assert after["passed"] == before["passed"] and after["filled"] == before["filled"]
        assert after["used"] <= after["quota"]


def test_a_write_from_outside_is_seen_at_the_next_open(files: Path) -> None:
    source = READS + CHANGES + """
    make(sys.argv[1])
    seen = []
    for number in range(4):
        for _ in range(3):
            with h5py.File(sys.argv[1]) as file:
                seen.append([float(file["rows"][5, 5, 5]), float(file["chunks"][:40].sum()), float(file["line"][:].sum())])
        outside(f"f['rows'][5, 5, 5] = {number}; f['chunks'][3] = {number}; f['line'][77] = {number}.5")
        age(sys.argv[1])  # The same time of modification and the same length as before.
    print(json.dumps(seen))
    """
    expected, found = both(source, plain(), connector(files, files.parent / "fast"), files / "a.h5")
    assert found == expected and len({tuple(seen) for seen in found}) == 4


def test_what_a_program_writes_it_reads_back(files: Path) -> None:
    source = READS + """
    make(sys.argv[1])
    told = []
    with h5py.File(sys.argv[1], "r+") as file:
        rows, grown, other = file["rows"], file["grown"], file["rows"]
        for name in ["rows", "grown", "chunks", "line"]:
            told.append(digest(file[name][...]))
            told.append(digest(file[name][...]))
        rows[3, :, ::2] = 9
        told += [digest(rows[...]), digest(other[...]), digest(file["rows"][2:5])]
        grown.resize((900, 12, 10))
        told.append(digest(grown[...]))
        grown[650:] = np.arange(250)[:, None, None]
        told += [digest(grown[...]), digest(file["chunks"][...])]
        file["chunks"].id.write_direct_chunk((0, 0, 0), file["chunks"].id.read_direct_chunk((9, 0, 0))[1])
        told += [digest(file["chunks"][...]), digest(file["line"][...])]
        del file["line"]
        file["line"] = np.arange(100_000.0)
        told += [digest(file["line"][...]), digest(file["line"][...])]
        file.copy("rows", "copy")
        told.append(digest(file["copy"][...]))
        with h5py.File(sys.argv[1], "r+") as again:
            again["swapped"][...] = 1
        told.append(digest(file["swapped"][...]))
    with h5py.File(sys.argv[1]) as file:
        told += [digest(file[name][...]) for name in sorted(file) if file[name].shape]
    print(json.dumps(told))
    """
    for kind in ["disk", "memory", "over another"]:
        expected, found = both(source, plain(), kinds(files.parent)[kind], files / "a.h5")
        assert found == expected, kind


def test_what_peers_get_wrong_is_right(files: Path) -> None:
    # Blocks one after the other, partial samples, strides, f4 as f8, mixed types on one data set, files not written through us.
    source = READS + """
    make(sys.argv[1])
    told = []
    with h5py.File(sys.argv[1]) as file:
        rows = file["rows"]
        for _ in range(2):
            told += [digest(rows[a:a + 64]) for a in [0, 64, 0, 128, 640]]
            told += [digest(rows[::9]), digest(rows[3:50, 2:7, 1]), digest(rows[:, 5]), digest(rows[-1, -1])]
            told += [digest(rows.astype(t)[10:90]) for t in ["f8", "i2", "f4", "f8"]]
            out = np.full((80, 24, 10), -1, "f4")
            rows.read_direct(out, np.s_[:40], np.s_[::2, 3:15])
            told.append(digest(out))
    print(json.dumps(told))
    """
    for kind in ["disk", "memory"]:
        expected, found = both(source, plain(), kinds(files.parent)[kind], files / "a.h5")
        assert found == expected, kind


def test_files_reached_by_links_and_virtual_data_sets_are_never_stale(files: Path) -> None:
    source = READS + CHANGES + """
    path, main = sys.argv[1], sys.argv[1] + ".main"
    make(path)
    with h5py.File(main, "w") as file:
        file["far"] = h5py.ExternalLink(path, "/rows")
        layout = h5py.VirtualLayout((700, 12, 10), "f4")
        layout[...] = h5py.VirtualSource(path, "rows", (700, 12, 10))
        file.create_virtual_dataset("virtual", layout)
    age(main)
    told = []
    for number in range(3):
        with h5py.File(main) as file:
            told += [digest(file["far"][...]), digest(file["far"][...]), digest(file["virtual"][...])]
        outside(f"f['rows'][7] = {number}")
        age(path)
    print(json.dumps(told))
    """
    expected, found = both(source, plain(), connector(files, "memory"), files / "a.h5")
    assert found == expected and len(set(found)) == 3


def test_errors_are_those_of_plain_hdf5(files: Path) -> None:
    source = READS + """
    make(sys.argv[1])
    def name_of(call):
        try:
            call()
        except Exception as error:
            return [type(error).__name__, re.sub("0x[0-9a-f]+", "", str(error))]
    import re
    with h5py.File(sys.argv[1]) as file:
        chunks = file["chunks"]
        place = chunks.id.get_chunk_info(8)
        rows, small = file["rows"], np.zeros(3, "f4")
        wrong = [
            lambda: rows.id.read(h5py.h5s.ALL, rows.id.get_space(), small.astype("S3")),
            lambda: rows.id.read(h5py.h5s.create_simple((3,)), rows.id.get_space(), small),
            lambda: rows[900],
            lambda: file["absent"],
            lambda: rows.read_direct(small),
        ]
        told = [name_of(call) for call in wrong * 2]
        told += [digest(rows[:5])]
    with open(sys.argv[1], "r+b") as raw:
        raw.seek(place.byte_offset)
        raw.write(b"\\xff" * place.size)
    age(sys.argv[1])
    with h5py.File(sys.argv[1]) as file:
        told += [name_of(lambda: file["chunks"][...]), digest(file["chunks"][100:]), name_of(lambda: file["chunks"][...])]
        told += [digest(file["rows"][...])]
    print(json.dumps(told))
    """
    expected, found = both(source, plain(), connector(files, "memory"), files / "a.h5")
    assert found == expected


def test_each_policy_stays_within_its_quota_and_gives_the_same_values(files: Path) -> None:
    source = READS + """
    import forebay.hdf5
    make(sys.argv[1])
    told = read_all(sys.argv[1], 3, 4) + read_all(sys.argv[1], 3, 4)
    forebay.hdf5.wait(300)
    print(json.dumps([told, forebay.hdf5.stats()]))
    """
    expected = run(source, plain(), files / "a.h5")[0][0]
    for policy in ["first-fit", "lru", "lfu", "fifo", "lifo"]:
        for cache in ["memory", files.parent / policy]:
            more = {"FOREBAY_HDF5_CACHE_POLICY": policy, "FOREBAY_HDF5_CACHE_QUOTA": "600KiB"}
            told, stats = run(source, connector(files, cache, **more), files / "a.h5")[0]
            assert told == expected, policy
            assert stats["used"] <= stats["quota"] <= 600 << 10 and stats["kept"] > 0, policy


def test_processes_of_a_node_share_what_one_has_read(files: Path) -> None:
    source = READS + """
    import forebay.hdf5, subprocess
    path = sys.argv[1]
    if len(sys.argv) == 2:
        make(path)
    with h5py.File(path) as file:
        told = [digest(file[name][...]) for name in ["rows", "chunks", "line"]]
    assert forebay.hdf5.wait(300)
    stats = forebay.hdf5.stats()
    if len(sys.argv) == 2:
        # While this process is there: the last one takes the folder of the job with it.
        other = subprocess.run([*sys.orig_argv, "second"], stdout=subprocess.PIPE, check=True).stdout
        second, second_stats = json.loads(other)
        assert second == told
        stats = [stats, second_stats]
    print(json.dumps([told, stats]))
    """
    _, (first, second) = run(source, connector(files, files.parent / "fast"), files / "a.h5")[0]
    assert first["kept"] > 0 and first["hit"] == 0
    assert second["filled"] == second["passed"] == 0 and second["hit"] > 0
    assert not list((files.parent / "fast").rglob("*.bytes")), "nothing is left behind"


def test_a_forked_child_reads_on_with_a_cache_of_its_own(files: Path) -> None:
    source = READS + """
    import os, forebay.hdf5
    make(sys.argv[1])
    file = h5py.File(sys.argv[1])
    expected = [digest(file[name][...]) for name in ["rows", "chunks"]]
    for _ in range(3):
        child = os.fork()
        if child == 0:
            right = all([digest(file[name][...]) for name in ["rows", "chunks"]] == expected for _ in range(3))
            os._exit(0 if right and forebay.hdf5.wait(300) else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert [digest(file[name][...]) for name in ["rows", "chunks"]] == expected
    """
    for cache in [files.parent / "fast", "memory"]:
        run(source, connector(files, cache), files / "a.h5")


def test_a_program_pauses_prestages_and_asks(files: Path) -> None:
    source = READS + """
    import forebay.hdf5 as control
    assert control.is_loaded() and control.stats()["quota"] == 0 and control.wait(1)
    make(sys.argv[1])
    with h5py.File(sys.argv[1]) as file:
        rows, chunks, line = file["rows"], file["chunks"], file["line"]
        control.pause()
        rows[...]
        assert control.stats()["kept"] == control.stats()["passed"] == 0
        control.start()
        assert control.prestage(rows) and control.wait(300)
        stats = control.stats()
        assert stats["filled"] == rows.nbytes and stats["kept"] >= rows.nbytes
        rows[...]
        assert control.stats()["hit"] == rows.nbytes
        # In the background: by bytes where they lie in one piece, step by step where HDF5 has to decode them.
        assert control.prestage(line, blocking=False) and control.wait(300)
        assert control.stats()["filled"] == rows.nbytes + line.nbytes
        assert control.prestage(chunks, blocking=False) and control.wait(300, dataset=chunks)
        before = control.stats()
        assert before["filled"] == rows.nbytes + line.nbytes + chunks.nbytes
        told = [digest(line[...]), digest(chunks[...])]
        assert control.stats()["hit"] == before["hit"] + line.nbytes + chunks.nbytes
        assert control.switch(file, False)
        told += [digest(line[...]), digest(chunks[...])]
        assert control.stats()["hit"] == before["hit"] + line.nbytes + chunks.nbytes
        assert told[:2] == told[2:]
        assert not control.prestage(5) and not control.prestage(file["words"].id.get_type())
        assert control.prestage(file["words"]), "left alone, and no error"
    """
    for cache in [files.parent / "fast", "memory"]:
        run(source, connector(files, cache, FOREBAY_HDF5_UNIT="100KiB"), files / "a.h5")



def test_data_sets_are_read_inside_a_visit_while_they_are_prestaged(files: Path) -> None:
    source = """
        import h5py, json, sys
        sums = []
        for epoch in range(4):
            with h5py.File(sys.argv[1]) as file:
                file.visititems(lambda name, data: sums.append(int(data[()].sum())))
        print(json.dumps(sums))
    """
    run("import sys, h5py, numpy; h5py.File(sys.argv[1], 'w')['x'] = numpy.arange(1_000_000)", plain(), files / "x.h5")
    right, _ = run(source, plain(), files / "x.h5")
    for mode in ["1", "background"]:
        settings = {"FOREBAY_PRESTAGE": mode, "FOREBAY_HDF5_CLOCK_GRAIN_MS": 1}
        assert run(source, connector(files, "memory", **settings), files / "x.h5") == (right, ""), mode


def test_prestaging_at_the_first_read_brings_all_of_a_data_set(files: Path) -> None:
    source = READS + """
    import forebay.hdf5
    make(sys.argv[1])
    with h5py.File(sys.argv[1]) as file:
        file["rows"][5], file["chunks"][5]
        assert forebay.hdf5.wait(300, dataset=file["chunks"])
        print(json.dumps([forebay.hdf5.stats()["filled"], file["rows"].nbytes + file["chunks"].nbytes]))
    """
    for mode in ["1", "background"]:
        filled, everything = run(source, connector(files, "memory", FOREBAY_PRESTAGE=mode), files / "a.h5")[0]
        assert filled == everything, mode


def test_a_cache_on_a_disk_outlives_its_processes_where_nodes_share_it(files: Path) -> None:
    source = READS + """
    import forebay.hdf5
    with h5py.File(sys.argv[1]) as file:
        file["rows"][...]
        assert forebay.hdf5.wait(300)
    """
    run(READS + "    make(sys.argv[1])", plain(), files / "a.h5")
    for scope, stays in [("local", False), ("global", True)]:
        cache = files.parent / scope
        cache.mkdir()
        settings = {"FOREBAY_HDF5_SCOPE": scope, "FOREBAY_HDF5_CLOCK_GRAIN_MS": 1}
        run(source, connector(files, cache, **settings), files / "a.h5")
        left = sum(found.stat().st_blocks * 512 for found in cache.rglob("*") if found.is_file())
        # The data set has 336,000 bytes.
        assert (left > 300_000) == stays, (scope, left)


def test_cache_vols_name_settings_file_and_properties_are_accepted(files: Path) -> None:
    config = files.parent / "cache.cfg"
    lines = ["HDF5_CACHE_STORAGE_SCOPE LOCAL", f"HDF5_CACHE_STORAGE_PATH {files.parent / 'fast'}"]
    lines += ["HDF5_CACHE_STORAGE_SIZE 67108864", "HDF5_CACHE_STORAGE_TYPE SSD", "HDF5_CACHE_REPLACEMENT_POLICY LRU"]
    config.write_text("\n".join(lines) + "\n")
    (files.parent / "fast").mkdir()
    source = READS + """
    import forebay.hdf5
    make(sys.argv[1])
    with h5py.File(sys.argv[1]) as file:
        told = [digest(file["rows"][...]), digest(file["rows"][...])]
    forebay.hdf5.wait(300)
    print(json.dumps([told, forebay.hdf5.stats()["kept"]]))
    """
    info = f"config={config};under_vol=512;under_info={{under_vol=0;under_info={{}}}}"
    environment = connector(files, HDF5_CACHE_RD="yes")
    environment["HDF5_VOL_CONNECTOR"] = f"cache_ext {info}"
    told, kept = run(source, environment, files / "a.h5")[0]
    assert told == run(source, plain(), files / "a.h5")[0][0] and kept > 0
    _, kept = run(source, environment | {"HDF5_CACHE_RD": "no"}, files / "a.h5")[0]
    assert kept == 0


def test_three_libraries_of_hdf5_in_one_process_read_through_the_connector(files: Path) -> None:
    source = READS + """
    import netCDF4, tables
    make(sys.argv[1])
    with netCDF4.Dataset(sys.argv[1] + ".nc", "w") as file:
        file.createDimension("x", 5000)
        file.createVariable("v", "f8", ("x",), zlib=True)[:] = np.arange(5000)
    with tables.open_file(sys.argv[1] + ".tab", "w") as file:
        file.create_carray("/", "v", obj=np.arange(7000))
    for ending in [".nc", ".tab"]:
        age(sys.argv[1] + ending)
    told = []
    for _ in range(3):
        with h5py.File(sys.argv[1]) as one, netCDF4.Dataset(sys.argv[1] + ".nc") as two:
            with tables.open_file(sys.argv[1] + ".tab") as three:
                told += [digest(one["rows"][...]), digest(two["v"][:].data), digest(three.root.v[:])]
    print(json.dumps(told))
    """
    expected, found = both(source, plain(), connector(files, "memory"), files / "a.h5")
    assert found == expected


# h5py's own tests: all of them where there is time.
SUITE = ["h5py"] if IS_LONG else ["h5py.tests.test_dataset", "h5py.tests.test_file"]


@functools.cache
def native_outcomes(below: str = "") -> set[str]:
    """Without this connector; ``below`` is what HDF5_VOL_CONNECTOR says instead."""
    with tempfile.TemporaryDirectory() as folder:
        return h5py_outcomes(plain() | ({"HDF5_VOL_CONNECTOR": below} if below else {}), Path(folder), *SUITE)


@pytest.mark.parametrize("kind", KINDS if IS_LONG else ["disk"])
def test_h5pys_own_tests_pass_and_fail_as_without_the_connector(tmp_path: Path, files: Path, kind: str) -> None:
    # HDF5's own pass-through connector, alone, fails five tests that pass without it.
    native = native_outcomes("pass_through under_vol=0;under_info={}" if kind == "over another" else "")
    assert len(native) > (800 if IS_LONG else 100)
    assert h5py_outcomes(kinds(tmp_path)[kind], files, *SUITE) == native
