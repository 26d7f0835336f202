"""The benchmark by ranks of an MPI job: reads that all ranks take part in, subfiling, filters, connectors, kernels."""

from __future__ import annotations

import csv
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


def kernels(folder: Path, write: dict[str, Any], read: dict[str, Any] | None, **both: Any) -> Path:
    """A ``write`` and a ``read`` of the same particles."""
    words = {"TIMESTEPS": "3", "CSV_FILE": "output.csv"} | both
    entries = [{"benchmark": "write", "file": "test.h5", "configuration": words | write | {"CSV_FILE": "write.csv"}}]
    if read is not None:
        entries.append({"benchmark": "read", "file": "test.h5", "configuration": words | read | {"CSV_FILE": "read.csv"}})
    return suite(folder, entries)


def table(path: Path) -> dict[str, str]:
    return {row[0]: row[1].strip() for row in csv.reader(path.open()) if len(row) > 1}


@pytest.mark.parametrize("memory", ["CONTIG", "INTERLEAVED"])
@pytest.mark.parametrize("file", ["CONTIG", "INTERLEAVED"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_kernels_write_particles_in_every_pattern_and_read_them(ranks: int, file: str, memory: str, tmp_path: Path) -> None:
    both = {"NUM_DIMS": "2", "DIM_1": "16", "DIM_2": "8", "COLLECTIVE_DATA": "YES", "COLLECTIVE_METADATA": "YES",
            "FILE_PATTERN": file, "MEM_PATTERN": memory}  # fmt: skip
    path = kernels(tmp_path, {}, {"READ_OPTION": "FULL"}, **both)
    answer = bench(path, "--output", tmp_path / "out", ranks=ranks)
    assert [(kernel["kernel"], kernel["bytes"]) for kernel in answer["kernels"]] == [
        (name, 3 * ranks * 16 * 8 * 32) for name in ["write", "read"]
    ]
    numbers = np.tile(np.arange(16 * 8).reshape(16, 8), (ranks, 1))
    with h5py.File(tmp_path / "test.h5") as written:
        assert sorted(written) == ["Timestep_0", "Timestep_1", "Timestep_2"]
        for group in written.values():
            if file == "INTERLEAVED":
                values = group["particles"][...]
                ids, twice, x = values["id_1"], values["id_2"], values["x"]
            else:
                pick = (lambda name: group[name][...][name]) if memory == "INTERLEAVED" else (lambda name: group[name][...])
                ids, twice, x = pick("id_1"), pick("id_2"), pick("x")
            assert (ids == numbers).all() and (twice == 2.0 * numbers).all()
            assert 0 <= x.min() < x.max() < 64
    facts = table(tmp_path / "out/read.csv")
    assert (facts["operation"], facts["ranks"], facts["collective data"]) == ("read", str(ranks), "YES")
    assert table(tmp_path / "out/write.csv")["operation"] == "write"


@pytest.mark.parametrize(
    "option, more, count",
    [
        ("PARTIAL", {"TO_READ_NUM_PARTICLES": "32"}, 32),
        ("LDC", {}, 8),
        ("RDC", {}, 8),
        ("PRL", {}, 2 * 2 * 8 + 12 * 2 * 2),
        ("CS", {"STRIDE_SIZE": "4", "STRIDE_SIZE_2": "4"}, 4 * 2 * 4),
    ],
)
def test_read_kernels_read_the_part_that_is_asked_for(option: str, more: dict[str, str], count: int, tmp_path: Path) -> None:
    both = {"NUM_DIMS": "2", "DIM_1": "16", "DIM_2": "8"}
    read = {"READ_OPTION": option, "BLOCK_SIZE": "2", "BLOCK_SIZE_2": "2"} | more
    answer = bench(kernels(tmp_path, {}, read, **both), "--output", tmp_path / "out", ranks=2)
    assert answer["kernels"][1]["bytes"] == 2 * 3 * count * 32


def test_strided_and_chunked_kernels_and_a_file_for_each_rank(tmp_path: Path) -> None:
    strided = {"FILE_PATTERN": "STRIDED", "STRIDE_SIZE": "8", "BLOCK_SIZE": "2", "BLOCK_CNT": "6"}
    path = kernels(tmp_path, strided, None, NUM_DIMS="1", DIM_1="64", DELAYED_CLOSE_TIMESTEPS="2")
    assert bench(path, "--output", tmp_path / "out", ranks=2)["kernels"][0]["bytes"] == 2 * 3 * 12 * 32
    with h5py.File(tmp_path / "test.h5") as file:
        ids = file["Timestep_2/id_1"][...]
    assert ids.shape == (128,) and ids[64:].tolist() == ids[:64].tolist() and ids[8:10].tolist() == [2, 3]
    zipped = {"COMPRESS": "YES", "CHUNK_DIM_1": "16", "COLLECTIVE_DATA": "YES"}
    bench(kernels(tmp_path, zipped, {}, NUM_DIMS="1", DIM_1="64", COLLECTIVE_DATA="YES"), "--output", tmp_path / "out", ranks=2)
    with h5py.File(tmp_path / "test.h5") as file:
        assert (file["Timestep_0/x"].chunks, file["Timestep_0/x"].compression) == ((16,), "gzip")
    alone = kernels(tmp_path, {}, {}, NUM_DIMS="1", DIM_1="64", FILE_PER_PROC="YES")
    answer = bench(alone, "--ranks", 2, "--output", tmp_path / "out", library=parallel()[0])
    assert len(answer["kernels"]) == 2
    assert sorted(path.name for path in tmp_path.glob("rank_*.h5")) == ["rank_0_test.h5", "rank_1_test.h5"]
    (tmp_path / "sub").mkdir()
    subfiled = kernels(tmp_path / "sub", {}, {}, NUM_DIMS="1", DIM_1="64", SUBFILING="YES")
    answer = bench(subfiled, "--output", tmp_path / "out", ranks=2)
    assert [kernel["bytes"] for kernel in answer["kernels"]] == [2 * 3 * 64 * 32] * 2
    assert list((tmp_path / "sub").glob("test.h5.subfile_*"))


def test_kernels_that_cannot_be_run_say_why(tmp_path: Path) -> None:
    both = {"NUM_DIMS": "1", "DIM_1": "64"}
    for write, reason in [
        ({"MODE": "ASYNC"}, "MODE=SYNC"),
        ({"FILE_PATTERN": "STRIDED", "STRIDE_SIZE": "8", "BLOCK_SIZE": "2", "BLOCK_CNT": "7"}, "BLOCK_CNT"),
        ({"SUBFILING": "YES"}, "mpirun"),
    ]:
        done = process(kernels(tmp_path, write, None, **both), "--output", tmp_path / "out", library=parallel()[0])
        assert done.returncode != 0 and reason in done.stderr
    done = process(kernels(tmp_path, {}, None, **both), "--ranks", 2, "--output", tmp_path / "out", library=parallel()[0])
    assert done.returncode != 0 and "FILE_PER_PROC" in done.stderr
    bench(kernels(tmp_path, {}, None, **both), "--output", tmp_path / "out", library=parallel()[0])
    longer = kernels(tmp_path, {}, {"DIM_1": "128"}, **both)
    done = process(longer, "--output", tmp_path / "out", library=parallel()[0])
    assert done.returncode != 0 and "128" in done.stderr
