"""The examples run as they are, and say something sensible."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_store_ranks import succeed

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str) -> str:
    # They make their files a moment before they read them, which no tier copies yet.
    wanted = ["-W", "error", "-W", "ignore:nothing is copied to tiers:UserWarning"]
    done = subprocess.run([sys.executable, *wanted, EXAMPLES / name], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_is_tested() -> None:
    names = sorted(path.name for path in EXAMPLES.glob("*.py"))
    learning = [f"torch_{name}.py" for name in ("blocks", "climate", "groups", "images", "molecules", "reanalysis", "simulation", "weather")]
    assert names == ["mpi_molecules.py", "numpy_minimal.py", "staged_checkpoint.py", *learning]


def test_numpy_minimal_loads_every_sample_of_two_epochs() -> None:
    said = run("numpy_minimal.py")
    assert "600 samples in 3 files" in said and "1200 samples, 39 chunks decoded" in said


def test_staged_checkpoints_are_on_their_way_while_the_model_learns_and_the_latest_is_durable() -> None:
    said = run("staged_checkpoint.py")
    errors = [float(error) for error in re.findall(r"error ([\d.]+)", said)]
    assert len(errors) == 3 and errors[-1] < errors[0] and "latest.pt is of epoch 2" in said, said


def test_torch_images_learns() -> None:
    right = [int(share) for share in re.findall(r"(\d+)% right", run("torch_images.py"))]
    assert len(right) == 3 and right[-1] > 90


LEARNING = ["molecules", "climate", "weather", "groups"]
LEARNING += [pytest.param(name, marks=pytest.mark.slow) for name in ["simulation", "blocks", "reanalysis"]]


@pytest.mark.parametrize("name", LEARNING)
def test_the_error_of_what_learns_falls(name: str) -> None:
    errors = [float(error) for error in re.findall(r"error ([\d.]+)", run(f"torch_{name}.py"))]
    assert errors[-1] < errors[0] / 4, errors


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
