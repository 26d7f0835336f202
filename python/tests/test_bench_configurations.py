"""Configurations A to H that h5bench's extension was measured with, under 2 ranks; records are cut by 1024, and an eighth of the files.

All files are read under each. FOREBAY_SLOW=1 takes all files, and 1, 2 and 4 ranks; so does FOREBAY_LONG=1, which also reads the files of
B, C and D by MPI-IO. FOREBAY_BENCH_DIVISOR cuts records by another number: scripts/deep-bench.sh takes 64.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench_runs import bench, digest, epochs

IS_LONG = bool(os.environ.get("FOREBAY_LONG"))
RANKS, LESS = ([1, 2, 4], 1) if IS_LONG or os.environ.get("FOREBAY_SLOW") else ([2], 8)
DIVISOR = int(os.environ.get("FOREBAY_BENCH_DIVISOR", "1024"))
#: Bytes of a record, files for training and evaluation, samples of their batches.
A = (67_108_864 // DIVISOR, 128 // LESS, 32 // LESS, 7, 2)
B = (146_600_628 // DIVISOR, 168 // LESS, 0, 4, 1)
C = (67_108_864 // DIVISOR, 512 // LESS, 128 // LESS, 7, 2)
D = (67_108_864 // DIVISOR, 256 // LESS, 64 // LESS, 7, 2)


def expected(sizes: tuple[int, int, int, int, int], ranks: int) -> list[tuple[int, int]]:
    """Samples and bytes of an epoch: whole batches, equally many for each rank, of square samples."""
    record, *files_and_batches = sizes
    side = int(record**0.5)
    train, evaluation, batch, eval_batch = files_and_batches
    samples = 4 * train // batch // ranks * ranks * batch + 4 * evaluation // eval_batch // ranks * ranks * eval_batch
    return [(samples, samples * side * side)]


def run(name: str, sizes: tuple[int, int, int, int, int], data: Path, ranks: int, *more: object) -> tuple[str, str]:
    """Runs a configuration without computation; what it read with, and the checksum of it."""
    overrides = {
        "dataset.record_length_bytes": sizes[0],
        "dataset.num_files_train": sizes[1],
        "dataset.num_files_eval": sizes[2],
        "dataset.data_folder": data,
        "dataset.keep_files": True,
        "train.epochs": 1,
        "train.computation_time": 0,
        "evaluation.eval_time": 0,
    }
    words = [f"++workload.{key}={value}" for key, value in overrides.items()]
    output = data.parent / f"{name}-{ranks}"
    answer = bench(f"h5bench_{name}", *words, *more, "--digest", "--output", output, ranks=ranks)
    assert answer["runs"][0]["ranks"] == ranks
    assert epochs(answer) == expected(sizes, ranks)
    assert (output / "report.html").exists()
    return answer["runs"][0]["reads_with"], digest(answer)


@pytest.mark.long
@pytest.mark.parametrize("name, sizes", [("a", A), ("b", B), ("c", C)], ids=["A", "B", "C"])
def test_configurations_with_collective_operations_and_read_threads_run(
    name: str, sizes: tuple[int, int, int, int, int], tmp_path: Path
) -> None:
    for ranks in RANKS:
        with_threads, threads_digest = run(name, sizes, tmp_path / "data", ranks)
        # Workers are no ranks of the job: collective operations are those of ranks that read themselves.
        assert "MPI-IO" not in with_threads
        if name != "a" and not IS_LONG:
            continue
        without, rank_digest = run(name, sizes, tmp_path / "data", ranks, "++workload.reader.read_threads=0")
        assert "MPI-IO, all ranks together, collective reads, collective metadata" in without
        assert rank_digest == threads_digest


@pytest.mark.long
def test_configurations_of_the_scaling_tests_read_the_same_bytes_by_every_driver(tmp_path: Path) -> None:
    plain, chunked, zipped, spread = (tmp_path / name for name in ["plain", "chunked", "zipped", "spread"])
    for ranks in RANKS:
        _, independent = run("d", D, plain, ranks)
        collective_with, collective = run("e", D, plain, ranks)
        assert "collective reads, collective metadata" in collective_with
        _, chunks = run("f", D, chunked, ranks)
        _, gzip = run("g", D, zipped, ranks)
        subfiling_with, subfiled = run("h", D, spread, ranks)
        assert "subfiling, all ranks together" in subfiling_with
        assert {collective, chunks, gzip, subfiled} == {independent}
        if IS_LONG:
            with_driver, mpi_io = run("d", D, plain, ranks, "--mpi-io")
            assert "MPI-IO, all ranks together, independent reads" in with_driver and mpi_io == independent
    assert len(list((spread / "train").glob("*.h5"))) == D[1]
    assert len(list((spread / "train").glob("*.h5.subfile_*_of_*"))) >= D[1]


@pytest.mark.skipif(not IS_LONG, reason="3 GiB; FOREBAY_LONG=1 asks for it")
@pytest.mark.parametrize("name", list("abcdefgh"))
def test_one_file_of_full_size_is_generated_and_read(name: str, tmp_path: Path) -> None:
    overrides = {
        "dataset.num_files_train": 1,
        "dataset.num_files_eval": 0,
        "dataset.data_folder": tmp_path / "data",
        "workflow.evaluation": False,
        "reader.batch_size": 1,
        "train.epochs": 1,
        "train.computation_time": 0,
    }
    words = [f"++workload.{key}={value}" for key, value in overrides.items()]
    answer = bench(f"h5bench_{name}", *words, "--output", tmp_path / "out", ranks=2)
    record = 146_600_628 if name == "b" else 67_108_864
    assert epochs(answer) == [(4, 4 * int(record**0.5) ** 2)]
