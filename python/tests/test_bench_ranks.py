"""The benchmark by ranks of an MPI job: reads that all ranks take part in, subfiling, filters, connectors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import pytest

from bench_runs import bench, command, digest, epochs, parallel, process, suite
from hdf5_programs import LIMIT, SMALL, plugins

#: Seven files of four samples in batches of two: 14 steps of all ranks.
SMALL_SET = {
    "generate-data": True, "train": True, "record-length": 4096, "num-files-train": 7, "num-files-eval": 3,
    "num-samples-per-file": 4, "batch-size": 2, "batch-size-eval": 2, "epochs": 2, "computation-time": 0.0,
    "eval-time": 0.0, "read-threads": 0, "keep-files": True,
}  # fmt: skip


def small(folder: Path, **changes: Any) -> Path:
    return suite(folder, SMALL_SET | {name.replace("_", "-"): value for name, value in changes.items()})


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_all_drivers_read_the_same_samples(ranks: int, tmp_path: Path) -> None:
    output = ["--output", tmp_path / "out", "--digest"]
    plain = bench(small(tmp_path, evaluation=True, shuffle=True), *output, ranks=ranks)
    ways = [
        (small(tmp_path, evaluation=True, shuffle=True), ["--mpi-io"]),
        (small(tmp_path, evaluation=True, shuffle=True), ["--mpi-io=own"]),
        (small(tmp_path, evaluation=True, shuffle=True), ["--engine", "forebay"]),
    ]
    for path, more in ways:
        answer = bench(path, *more, *output, ranks=ranks)
        assert (digest(answer), epochs(answer)) == (digest(plain), epochs(plain)), more
    for flags in [{"collective-data": True}, {"collective-meta": True}, {"collective-data": True, "collective-meta": True}]:
        path = suite(tmp_path, SMALL_SET | {"evaluation": True, "shuffle": True} | flags)
        answer = bench(path, *output, ranks=ranks)
        assert (digest(answer), epochs(answer)) == (digest(plain), epochs(plain)), flags
        assert "all ranks together" in answer["runs"][0]["reads_with"]


@pytest.mark.parametrize("flags", [[], ["--mpi-io"], ["collective"]], ids=["alone", "together", "collective"])
def test_a_rank_that_has_fewer_steps_takes_part_in_those_of_others(flags: list[str], tmp_path: Path) -> None:
    collective = {"collective-data": True, "collective-meta": True} if flags == ["collective"] else {}
    path = suite(tmp_path, SMALL_SET | {"total-training-steps": 5} | collective)
    more = [flag for flag in flags if flag.startswith("--")]
    answer = bench(path, *more, "--output", tmp_path / "out", ranks=3)
    assert epochs(answer) == [(10, 10 * 4096)] * 2
    report = json.loads((tmp_path / "out/report.json").read_text())["timings"]
    steps = [len(rank["epochs"][0]["blocks"][0]["steps"]) for rank in report["ranks"]]
    assert steps == [2, 2, 1]


def test_ranks_without_mpi_may_have_different_numbers_of_steps(tmp_path: Path) -> None:
    answer = bench(suite(tmp_path, SMALL_SET | {"total-training-steps": 5}), "--ranks", 3, "--output", tmp_path / "out")
    assert epochs(answer) == [(10, 10 * 4096)] * 2


def test_what_one_rank_cannot_read_ends_all_of_them(tmp_path: Path) -> None:
    bench(small(tmp_path, train=False), "--output", tmp_path / "out")
    path = suite(tmp_path, SMALL_SET | {"generate-data": False, "collective-data": True, "collective-meta": True})
    with h5py.File(tmp_path / "data/train/img_6_of_7.h5", "w") as file:
        file["records"] = np.zeros((2, 64, 64), np.uint8)
    done = process(path, "--output", tmp_path / "out", ranks=2)
    # Rank 1 has it; the launcher ends rank 0, which waits for it.
    assert done.returncode != 0 and "img_6_of_7.h5" in done.stderr and "2 records" in done.stderr


def ranks_of(folder: Path) -> dict[int, int]:
    """The processes of the ranks of a run whose words name ``folder``, by rank."""
    found = {}
    for process_folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (process_folder / "cmdline").read_bytes().split(b"\0")
            variables = (process_folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        ranks = [variable[9:] for variable in variables if variable.startswith(b"PMI_RANK=")]
        if ranks and os.fsencode(folder / "out") in words and words[0] == os.environ["FOREBAY_BIN"].encode():
            found[int(ranks[0])] = int(process_folder.name)
    return found


@pytest.mark.parametrize("interrupted", ["all", "one rank"])
def test_an_interrupt_of_ranks_that_read_together_ends_all_and_leaves_a_partial_report(interrupted: str, tmp_path: Path) -> None:
    endless = {"epochs": 100_000, "evaluation": True, "collective-data": True, "collective-meta": True}
    arguments = (suite(tmp_path, SMALL_SET | endless), "--output", tmp_path / "out", "--trace", tmp_path / "trace.pfw.gz")
    words, environment = command(*arguments, ranks=3)
    # A group of its own, as a shell gives it.
    run = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        until = time.monotonic() + LIMIT
        # All files are there and all ranks have begun to read.
        while not (tmp_path / "data/valid/img_3_of_3.h5").exists() or len(list(tmp_path.glob("trace*"))) < 3:
            assert run.poll() is None and time.monotonic() < until, run.communicate()
            time.sleep(0.02)
        time.sleep(0.5)
        if interrupted == "all":
            os.killpg(run.pid, signal.SIGINT)
        else:
            os.kill(ranks_of(tmp_path)[1], signal.SIGINT)
        out, err = run.communicate(timeout=LIMIT)
    finally:
        # Its launcher ends the ranks of a job that hangs.
        run.terminate()
    assert run.returncode == 130, err
    (answer,) = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert not answer["complete"] and answer["runs"][0]["ranks"] == 3
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert not report["complete"] and [rank["rank"] for rank in report["timings"]["ranks"]] == [0, 1, 2]
    assert sorted(path.name for path in tmp_path.glob("out/.*")) == []


def test_subfiled_files_are_written_once_and_removed_whole(tmp_path: Path) -> None:
    path = small(tmp_path, subfiling=True)
    first = bench(path, "--output", tmp_path / "out", "--digest", ranks=2)
    folder = tmp_path / "data/train"
    subfiles = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert sum(".subfile_" in name and name.endswith("of_1") for name in subfiles) == 7
    # As a run leaves it that was ended while it wrote.
    (folder / ".img_2_of_7.h5.part").touch()
    again = bench(path, "--output", tmp_path / "out", "--digest", ranks=3)
    assert digest(again) and epochs(again)[0][1] == 24 * 4096
    changed = [name for name, time in subfiles.items() if not (folder / name).exists() or (folder / name).stat().st_mtime_ns != time]
    assert changed and all(name.startswith("img_2_of_7.h5") for name in changed)
    assert epochs(first) == [(28, 28 * 4096)] * 2
    # Chunks and read threads cannot be had with it, which is told.
    told = bench(small(tmp_path, subfiling=True, read_threads=4, chunking=True), "--output", tmp_path / "out", "--digest", ranks=2)
    assert digest(told) == digest(first) and "read threads" in told["stderr"] and "chunks" in told["stderr"]
    bench(small(tmp_path, subfiling=True, keep_files=False), "--output", tmp_path / "out", ranks=2)
    assert list(folder.iterdir()) == []


def test_subfiling_and_mpi_io_need_an_mpi_job_and_a_parallel_library(tmp_path: Path) -> None:
    library, _ = parallel()
    done = process(small(tmp_path, subfiling=True), "--output", tmp_path / "out", library=library)
    assert done.returncode == 2 and "mpirun" in done.stderr
    own = next((Path(h5py.__file__).parent.parent / "h5py.libs").glob("libhdf5-*"))
    done = process(small(tmp_path), "--mpi-io", "--output", tmp_path / "out", ranks=2, library=own)
    assert done.returncode != 0 and "built with MPI" in done.stderr


@pytest.mark.parametrize("compression", ["lz4", "bz2", "zstd"])
def test_filters_of_hdf5plugin_are_found_and_read(compression: str, tmp_path: Path) -> None:
    plain = bench(small(tmp_path), "--output", tmp_path / "out", "--digest", library=parallel()[0])
    path = small(tmp_path, compression=compression, data_folder="zipped", compression_level=3)
    for ranks in [0, 2]:
        answer = bench(path, "--output", tmp_path / "out", "--digest", library=parallel()[0], ranks=ranks)
        assert digest(answer) == digest(plain)
    with h5py.File(tmp_path / "zipped/train/img_1_of_7.h5") as zipped, h5py.File(tmp_path / "data/train/img_1_of_7.h5") as file:
        assert zipped["records"].id.get_create_plist().get_nfilters() == 1
        assert (zipped["records"][...] == file["records"][...]).all()


def test_lzo_is_refused_with_the_reason(tmp_path: Path) -> None:
    done = process(small(tmp_path, compression="lzo"), "--output", tmp_path / "out")
    assert done.returncode == 2 and "GPL" in done.stderr and "lz4" in done.stderr


def draws(folder: Path) -> Counter[str]:
    """How often each record of the Log VFD stands in the files of all workers."""
    found: Counter[str] = Counter()
    for path in folder.glob("log*"):
        found.update(" ".join(line.split()) for line in path.read_text().splitlines() if "H5FD_MEM_" in line)
    return found


@pytest.mark.parametrize("threads", [0, 2])
def test_the_log_vfd_has_the_records_of_all_ranks(threads: int, tmp_path: Path) -> None:
    table = {"record-length": 65536, "num-files-train": 16, "num-files-eval": 4, "batch-size": 1, "batch-size-eval": 1,
             "epochs": 1, "total-training-steps": 63, "evaluation": True, "read-threads": threads}  # fmt: skip
    bench(suite(tmp_path, SMALL_SET | table | {"train": False}), "--output", tmp_path / "out", library=parallel()[0])
    path = suite(tmp_path, SMALL_SET | table | {"generate-data": False})
    bench(path, "--output", tmp_path / "out", "--log-vfd", tmp_path / "log", ranks=2)
    found = draws(tmp_path)
    data = {record: count for record, count in found.items() if "DRAW" in record}
    assert sorted(data.values()) == [19, 20, 20, 20]
    assert {count for record, count in found.items() if record not in data} == {79}
    assert len(list(tmp_path.glob("log*"))) == 2 * max(threads, 1)


def test_the_log_vfd_is_refused_where_mpi_io_is_asked_for(tmp_path: Path) -> None:
    done = process(small(tmp_path), "--mpi-io", "--log-vfd", tmp_path / "log", "--output", tmp_path / "out", ranks=1)
    assert done.returncode == 2 and "log driver" in done.stderr


@pytest.mark.parametrize("ranks", [0, 2])
def test_reads_go_through_the_connector_that_the_configuration_names(ranks: int, tmp_path: Path) -> None:
    configuration = SMALL_SET | {"collective-data": ranks > 0, "collective-meta": ranks > 0}
    plain = bench(suite(tmp_path, configuration), "--output", tmp_path / "out", "--digest", ranks=ranks, library=parallel()[0])
    assert "VOL" not in plain["runs"][0]["reads_with"]
    path = suite(
        tmp_path,
        configuration | {"generate-data": False},
        vol={"library": "", "path": str(plugins() / "vol"), "connector": "forebay"},
    )
    variables = SMALL | {"FOREBAY_HDF5_PATHS": tmp_path / "data", "FOREBAY_HDF5_CACHE": "memory"}
    answer = bench(path, "--output", tmp_path / "out", "--digest", ranks=ranks, library=parallel()[0], **variables)
    assert "VOL connector forebay" in answer["runs"][0]["reads_with"]
    assert digest(answer) == digest(plain)


def test_a_connector_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = suite(tmp_path, SMALL_SET, vol={"library": "", "path": str(tmp_path), "connector": "async under_vol=0;under_info={}"})
    done = process(path, "--output", tmp_path / "out", library=parallel()[0])
    assert done.returncode != 0 and "HDF5_VOL_CONNECTOR" in done.stderr and "async" in done.stderr


def test_entries_that_are_not_dlio_are_reported_once_by_an_mpi_job(tmp_path: Path) -> None:
    entries = [
        {"benchmark": "write", "file": "test.h5", "configuration": {"TIMESTEPS": "1"}},
        {"benchmark": "dlio", "configuration": SMALL_SET | {"epochs": 1}},
    ]
    done = process(suite(tmp_path, entries), "--output", tmp_path / "out", ranks=2)
    assert done.returncode == 5 and done.stderr.count('entry 1: expected "dlio", got "write"') == 1, done.stderr
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["complete"] and [rank["rank"] for rank in report["timings"]["ranks"]] == [0, 1]
