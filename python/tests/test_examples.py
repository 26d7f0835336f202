"""The examples run as they are, and say something sensible."""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from test_store_ranks import succeed

EXAMPLES = Path(__file__).parents[2] / "examples"

Run = Callable[..., str]


def run(name: str) -> str:
    # They make their files a moment before they read them, which no tier copies yet.
    wanted = ["-W", "error", "-W", "ignore:nothing is copied to tiers:UserWarning"]
    done = subprocess.run([sys.executable, *wanted, EXAMPLES / name], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs an example in this process, which has imported PyTorch already: that takes longer than most examples."""

    def run_here(name: str, *arguments: object, strict: bool = True) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        monkeypatch.syspath_prepend(EXAMPLES)
        with warnings.catch_warnings():
            warnings.simplefilter("error" if strict else "ignore")
            warnings.filterwarnings("ignore", "nothing is copied to tiers", UserWarning)
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run_here


def test_every_example_is_tested() -> None:
    names = sorted(path.name for path in EXAMPLES.glob("*.py"))
    learning = ["blocks", "climate", "groups", "images", "molecules", "reanalysis", "simulation", "weather"]
    learning += ["accelerate", "cells", "ddp", "graphs", "hydragnn", "lightning", "split"]
    # Those of other frameworks than PyTorch run in environments of their own: tests/frameworks.
    others = ["flax_images.py", "huggingface_datasets.py", "jax_images.py", "mpi_molecules.py", "numpy_minimal.py"]
    others += ["staged_checkpoint.py", "tensorflow_images.py"]
    assert names == [*others, *sorted(f"torch_{name}.py" for name in learning)]


def test_shards_of_the_hugging_face_example_have_every_sample_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What the package calls; the package itself: tests/frameworks/test_hf_datasets.py.
    names = ("Array2D", "Features", "IterableDataset", "Value")
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(**dict.fromkeys(names)))  # type: ignore[arg-type]
    example = runpy.run_path(str(EXAMPLES / "huggingface_datasets.py"))
    files = tuple(example["make"](tmp_path))
    shards = [[int(one["label"]) for one in example["samples"]([shard], files, 7)] for shard in range(example["WORLD"])]
    assert sorted(label for labels in shards for label in labels) == list(range(410))
    assert all(len(labels) > 100 and labels != sorted(labels) for labels in shards)


def test_numpy_minimal_loads_every_sample_of_two_epochs() -> None:
    said = run("numpy_minimal.py")
    assert "600 samples in 3 files" in said and "1200 samples, 39 chunks decoded" in said


def test_staged_checkpoints_are_on_their_way_while_the_model_learns_and_the_latest_is_durable(run_here: Run) -> None:
    said = run_here("staged_checkpoint.py")
    errors = [float(error) for error in re.findall(r"error ([\d.]+)", said)]
    assert len(errors) == 3 and errors[-1] < errors[0] and "latest.pt is of epoch 2" in said, said


def test_torch_images_learns(run_here: Run) -> None:
    right = [int(share) for share in re.findall(r"(\d+)% right", run_here("torch_images.py"))]
    assert len(right) == 3 and right[-1] > 90


LEARNING = ["molecules", "climate", "weather", "groups"]
LEARNING += [pytest.param(name, marks=pytest.mark.slow) for name in ["simulation", "blocks", "reanalysis"]]


@pytest.mark.parametrize("name", LEARNING)
def test_the_error_of_what_learns_falls(run_here: Run, name: str) -> None:
    errors = [float(error) for error in re.findall(r"error ([\d.]+)", run_here(f"torch_{name}.py"))]
    assert errors[-1] < errors[0] / 4, errors


def test_a_model_is_validated_on_the_part_that_it_did_not_learn_from(run_here: Run) -> None:
    said = run_here("torch_split.py")
    right = [int(share) for share in re.findall(r": (\d+)% right", said)]
    assert "960 samples to learn from, 240 to validate" in said and len(right) == 4 and right[-1] > 90, said
    assert f"the best was {max(right)}% right" in said, said


def test_lightning_goes_on_within_an_epoch(run_here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightning", exc_type=ImportError)
    monkeypatch.setenv("PL_GLOBAL_SEED", "0")
    said = run_here("torch_lightning.py", strict=False)
    assert "600 samples before the checkpoint, 800 different ones in the epoch" in said, said
    assert float(re.findall(r"error ([\d.]+)", said)[0]) < 1.0, said


def test_accelerate_goes_on_within_an_epoch(run_here: Run) -> None:
    pytest.importorskip("accelerate", exc_type=ImportError)
    said = run_here("torch_accelerate.py", strict=False)
    errors = [float(error) for error in re.findall(r"error ([\d.]+)", said)]
    assert "340 samples" in said and "1000 different samples in the epoch that was interrupted" in said, said
    assert errors[-1] < errors[0] / 4, said


def test_cells_are_told_apart_by_their_sparse_rows(run_here: Run) -> None:
    pytest.importorskip("anndata", exc_type=ImportError)
    said = run_here("torch_cells.py", strict=False)
    right = [int(share) for share in re.findall(r": (\d+)% right", said)]
    assert "800 samples in 2 files" in said and "{'B': 0, 'NK': 1, 'T': 2}" in said and right[-1] > 90, said
    stored, whole = map(int, re.findall(r"has (\d+) values of (\d+)", said)[0])
    assert 0 < stored < whole == 6000


def test_graphs_of_pytorch_geometric_learn(run_here: Run) -> None:
    pytest.importorskip("torch_geometric", exc_type=ImportError)
    errors = [float(error) for error in re.findall(r"error ([\d.]+)", run_here("torch_graphs.py", strict=False))]
    assert errors[-1] < errors[0] / 2, errors


def torchrun(ranks: int, *arguments: object) -> str:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command = [*launch, str(EXAMPLES / "torch_ddp.py"), *map(str, arguments)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        said, errors = started.communicate(timeout=300)
    finally:
        # Ranks outlive a launcher that is killed.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
    assert started.returncode == 0, said + errors
    return said


@pytest.fixture
def alone(run_here: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the example of ranks as the only one, in this process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name, value in (("RANK", 0), ("WORLD_SIZE", 1), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", port)):
        monkeypatch.setenv(name, str(value))
    return lambda *arguments: run_here("torch_ddp.py", *arguments, strict=False)


RESUMED = [(2, 1), pytest.param(2, 3, marks=pytest.mark.slow), pytest.param(3, 2, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("before", "after"), RESUMED)
def test_ranks_resumed_by_another_number_see_each_sample_once_and_learn_the_same(
    tmp_path: Path, alone: Run, before: int, after: int
) -> None:
    (tmp_path / "whole").mkdir()
    whole = re.findall(r"epoch (\d): (\d+) of 2400 samples came once, error ([\d.]+)", alone(tmp_path / "whole"))
    said = torchrun(before, tmp_path, 70)
    assert f"checkpoint of step 70 by {before} ranks" in said, said
    rest = alone(tmp_path) if after == 1 else torchrun(after, tmp_path)
    assert f"goes on after step 70 with {after} ranks, 30 steps of the epoch are left" in rest, rest
    epochs = re.findall(r"epoch (\d): (\d+) of 2400 samples came once, error ([\d.]+)", said + rest)
    assert [epoch[:2] for epoch in epochs] == [(str(number), "2400") for number in range(3)]
    for ours, theirs in zip(epochs, whole, strict=True):
        assert float(ours[2]) == pytest.approx(float(theirs[2]), rel=1e-3)


@pytest.mark.slow
def test_ranks_that_hold_the_molecules_between_them_learn() -> None:
    said, *_ = succeed(2, f"""
        sys.path.insert(0, {str(EXAMPLES)!r})
        sys.argv = ["mpi_molecules.py"]
        import runpy
        runpy.run_path({str(EXAMPLES / "mpi_molecules.py")!r}, run_name="__main__")
        """, timeout=150)
    errors = [float(error) for error in re.findall(r"error ([\d.]+)", said)]
    assert errors[-1] < errors[0] / 4, errors
    assert "600 molecules in 2 ranks" in said and "shared memory" in said, said


@pytest.mark.slow
def test_ranks_that_hold_graphs_between_them_learn_as_hydragnn_does() -> None:
    said, *_ = succeed(2, f"""
        sys.path.insert(0, {str(EXAMPLES)!r})
        sys.argv = ["torch_hydragnn.py"]
        import runpy
        runpy.run_path({str(EXAMPLES / "torch_hydragnn.py")!r}, run_name="__main__")
        """, timeout=150)
    errors = [float(error) for error in re.findall(r"error ([\d.]+)", said)]
    assert len(errors) == 8 and errors[-1] < errors[0] / 4, said
    assert "600 graphs of 600" in said, said


def test_the_graphs_of_a_batch_do_not_touch() -> None:
    sys.path.insert(0, str(EXAMPLES))
    try:
        molecules = pytest.importorskip("torch_molecules")
    finally:
        sys.path.remove(str(EXAMPLES))
    import torch

    import forebay.torch

    edges = torch.tensor([[0, 1, 0], [1, 0, 2]])
    batch = forebay.torch.Batch({"charge": torch.arange(5.0)[:, None], "edge_index": edges})
    batch.indices = torch.tensor([4, 2])
    batch.offsets = {"charge": torch.tensor([0, 2, 5]), "edge_index": torch.tensor([0, 2, 3])}
    _, edge_index, molecule = molecules.collate(batch)
    assert molecule.tolist() == [0, 0, 1, 1, 1] and edge_index.tolist() == [[0, 1, 2], [1, 0, 4]]
