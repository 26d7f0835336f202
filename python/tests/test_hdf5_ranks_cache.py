"""Ranks with parallel HDF5 that read what the others have cached."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import pytest

from emulated_hosts import emulated_hosts
from hdf5_programs import plain
from hdf5_ranks import compiled, connector, make_set, ranks, ranks_on_hosts, told

MIB = 8
IS_LONG = bool(os.environ.get("FOREBAY_LONG"))
MPIS = ["mpich5", "openmpi5"] if IS_LONG else ["mpich5"]


@pytest.fixture(scope="module", params=MPIS)
def mpi(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def program(mpi: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("parallel_epochs", tmp_path_factory.mktemp("epochs"), mpi)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def cached(folder: Path, **more: object) -> dict[str, str]:
    return connector(folder, **({"FOREBAY_HDF5_UNIT": "256KiB"} | more))


CASES = [
    ["--how", "parts"],
    ["--how", "everything"],
    ["--how", "uneven"],
    ["--how", "parts", "--collective", "1"],
    ["--how", "parts", "--reopen", "1"],
    ["--how", "parts", "--kib", "12"],
]


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_each_unit_is_read_from_the_file_by_one_rank_and_by_the_others_from_it(
    words: list[str], mpi: str, program: Path, files: Path
) -> None:
    whole = make_set(files / "set.h5", MIB)
    said = told(ranks(2, cached(files), program, files / "set.h5", "--kib", "256", *words, mpi=mpi))
    assert said["wrong"] == 0 and said["remote_bytes"] == 0
    assert 0 < said["host_bytes"]
    # Units that both want at once are read by one of them.
    assert said["shared_bytes"] <= whole
    if "uneven" not in words:
        assert said["shared_bytes"] == whole


def test_chunks_with_filters_are_shared_as_they_are_decoded(mpi: str, program: Path, files: Path) -> None:
    whole = make_set(files / "set.h5", MIB, chunks=(1 << 16,), compression="gzip", compression_opts=1)
    said = told(ranks(2, cached(files), program, files / "set.h5", "--kib", "256", mpi=mpi))
    assert said["wrong"] == 0 and said["shared_bytes"] == whole and said["host_bytes"] > 0


def test_a_cache_on_disk_serves_the_ranks_of_a_node(mpi: str, program: Path, files: Path, tmp_path: Path) -> None:
    whole = make_set(files / "set.h5", MIB)
    (tmp_path / "disk").mkdir(mode=0o700)
    environment = cached(files, FOREBAY_HDF5_CACHE=tmp_path / "disk", FOREBAY_HDF5_CACHE_QUOTA="64MiB")
    said = told(ranks(2, environment, program, files / "set.h5", "--kib", "256", mpi=mpi))
    assert said["wrong"] == 0 and said["shared_bytes"] == whole and said["host_bytes"] > 0
    assert not [file for file in (tmp_path / "disk").rglob("*") if file.is_file()]


def test_a_cache_on_disk_that_began_with_a_small_file_has_room_for_a_large_one(
    mpi: str, program: Path, files: Path, tmp_path: Path
) -> None:
    whole = make_set(files / "set.h5", MIB)
    with h5py.File(files / "small.h5", "w") as file:
        file["x"] = [1, 2, 3]
    os.utime(files / "small.h5", (1, 1))
    (tmp_path / "disk").mkdir(mode=0o700)
    environment = cached(files, FOREBAY_HDF5_CACHE=tmp_path / "disk", FOREBAY_HDF5_CACHE_QUOTA="64MiB")
    words = [files / "set.h5", "--kib", "256", "--first", files / "small.h5"]
    said = told(ranks(2, environment, program, *words, mpi=mpi))
    assert said["wrong"] == 0 and said["shared_bytes"] == whole and said["host_bytes"] > 0


@pytest.mark.parametrize("more", [{"FOREBAY_HDF5_PEERS": "off"}, {"FOREBAY_HDF5_CACHE_QUOTA": "1MiB"}], ids=["off", "full"])
def test_values_are_right_where_ranks_do_not_share_or_have_no_room(
    more: dict[str, str], mpi: str, program: Path, files: Path
) -> None:
    make_set(files / "set.h5", MIB)
    said = told(ranks(2, cached(files, **more), program, files / "set.h5", "--kib", "256", mpi=mpi))
    assert said["wrong"] == 0
    assert (said["host_bytes"] == 0) == ("FOREBAY_HDF5_PEERS" in more)


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_ranks_of_other_hosts_are_read_one_sided_while_they_compute(
    place: str, mpi: str, program: Path, files: Path, tmp_path: Path
) -> None:
    whole = make_set(files / "set.h5", MIB)
    (tmp_path / "disk").mkdir(mode=0o700)
    where = {"FOREBAY_HDF5_CACHE": tmp_path / "disk" if place == "disk" else "memory", "FOREBAY_HDF5_CACHE_QUOTA": "64MiB"}
    with emulated_hosts(2, tmp_path) as hosts:
        words = [files / "set.h5", "--kib", "256", "--epochs", "3", "--compute-ms", "1000"]
        said = told(ranks_on_hosts(hosts, 2, cached(files, **where), program, *words, mpi=mpi))
    assert said["wrong"] == 0
    assert said["shared_bytes"] == whole and said["host_bytes"] > 0 and said["remote_bytes"] > whole / 2
    assert said["remote_faults"] == 0


def test_the_program_says_the_same_without_the_connector(mpi: str, program: Path, files: Path) -> None:
    make_set(files / "set.h5", MIB)
    said = told(ranks(2, plain(), program, files / "set.h5", mpi=mpi))
    assert said["wrong"] == 0 and said["shared_bytes"] == said["host_bytes"] == 0
