"""PyTorch writes to staged files: torch.save, safetensors, torch.distributed.checkpoint."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import forebay.stage

torch = pytest.importorskip("torch")
checkpoint = pytest.importorskip("torch.distributed.checkpoint")

from forebay.stage import dcp  # noqa: E402

LONG = 300
# PyTorch says that it saves one process's state, and that it overwrites.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


@pytest.fixture
def area(tmp_path: Path) -> Iterator[forebay.stage.Area]:
    with forebay.stage.Area(tmp_path / "fast", free_floor=0) as area:
        yield area


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    folder = tmp_path / "slow"
    folder.mkdir()
    return folder


def state(step: int = 0) -> dict[str, Any]:
    """A model's and an optimizer's state after a step."""
    torch.manual_seed(step)
    model = torch.nn.Sequential(torch.nn.Linear(64, 300), torch.nn.Linear(300, 7))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.rand(5, 64)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "name": "run"}


def same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    if isinstance(ours, torch.Tensor):
        assert torch.equal(ours, theirs)
    elif isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for key in ours:
            same(ours[key], theirs[key])
    elif isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            same(one, other)
    else:
        assert ours == theirs


def test_torch_save_writes_what_torch_load_reads(area: forebay.stage.Area, slow: Path) -> None:
    saved = state()
    with forebay.stage.open(slow / "a.pt", "wb", area=area, latest="latest.pt") as file:
        torch.save(saved, file)
    file.durable.result(LONG)
    same(torch.load(slow / "latest.pt", weights_only=True), saved)
    # Byte for byte what a plain file has.
    torch.save(saved, slow / "plain.pt")
    with forebay.stage.open(slow / "b.pt", "w+b", area=area) as file:
        torch.save(saved["model"], file)
        file.seek(0)
        same(dict(torch.load(file, weights_only=True)), dict(saved["model"]))


def test_save_takes_state_dicts_tensors_and_modules(area: forebay.stage.Area, slow: Path) -> None:
    saved = state()
    forebay.stage.save(saved, slow / "a.pt", area=area)
    forebay.stage.save(saved["model"]["0.weight"], slow / "b.pt", area=area)
    forebay.stage.save({"only": "text"}, slow / "c.pt", area=area, format="torch")
    area.drain()
    same(torch.load(slow / "a.pt", weights_only=True), saved)
    same(torch.load(slow / "b.pt", weights_only=True), saved["model"]["0.weight"])
    assert torch.load(slow / "c.pt", weights_only=True) == {"only": "text"}


def test_safetensors_of_tensors(area: forebay.stage.Area, slow: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    model = dict(state()["model"])
    model["half"] = torch.arange(7, dtype=torch.bfloat16)
    forebay.stage.save(model, slow / "a.safetensors", area=area).durable.result(LONG)
    same(safetensors.load_file(slow / "a.safetensors"), model)


def test_the_examples_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("safetensors")
    guide = (Path(__file__).parents[2] / "docs" / "staging.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    assert len(blocks) >= 4
    (tmp_path / "pfs").mkdir()
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"torch": torch, "model": torch.nn.Linear(4, 3)}
    for block in blocks:
        exec(compile(block, "docs/staging.md", "exec"), names)
    names["area"].close()
    made = {"step-1.pt", "latest.pt", "mesh.npy", "fields.h5", "step-7.pt", "w.npz", "w.safetensors", "step-100", "latest"}
    assert set(os.listdir(tmp_path / "pfs")) == made


# Checkpoints of torch.distributed.


def load(folder: Path, wanted: dict[str, Any], reader: Any = None) -> dict[str, Any]:
    """What PyTorch's own reader finds, into zeros of the same shapes."""
    into = {name: torch.zeros_like(value) for name, value in wanted.items()}
    checkpoint.load(into, storage_reader=reader or checkpoint.FileSystemReader(folder), no_dist=True)
    return into


def tensors(step: int) -> dict[str, Any]:
    return {f"layer{n}": torch.full((100, 50), float(step * 10 + n)) for n in range(4)}


@pytest.mark.parametrize("options", [{}, {"thread_count": 2}, {"single_file_per_rank": False}])
def test_plain_torch_reads_a_checkpoint_that_is_durable(
    area: forebay.stage.Area, slow: Path, options: dict[str, Any]
) -> None:
    folder = slow / "step-1"
    writer = dcp.StagedWriter(folder, area=area, latest="latest", **options)
    with area.paused():
        checkpoint.save(tensors(1), storage_writer=writer, no_dist=True)
        assert not (folder / ".metadata").exists() and not writer.durable.done()
    assert writer.durable.result(LONG) == str(folder)
    same(load(folder, tensors(1)), tensors(1))
    same(load(slow / "latest", tensors(1)), tensors(1))
    assert area.items() == [] and not [name for name in os.listdir(folder) if name.endswith(".tmp")]


def test_a_checkpoint_stays_whole_while_the_next_one_is_staged_over_it(area: forebay.stage.Area, slow: Path) -> None:
    folder = slow / "checkpoint"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoint.save(tensors(1), storage_writer=checkpoint.FileSystemWriter(folder), no_dist=True)
        for step in (2, 3):
            writer = dcp.StagedWriter(folder, area=area)
            with area.paused():
                checkpoint.save(tensors(step), storage_writer=writer, no_dist=True)
                same(load(folder, tensors(step - 1)), tensors(step - 1))
            writer.durable.result(LONG)
            same(load(folder, tensors(step)), tensors(step))
            # What only the one before had is gone.
            assert len([name for name in os.listdir(folder) if name.endswith(".distcp")]) == 1


def test_async_save_is_staged_too(area: forebay.stage.Area, slow: Path) -> None:
    writer = dcp.StagedWriter(slow / "a", area=area)
    saved = checkpoint.async_save(tensors(5), storage_writer=writer, no_dist=True)
    saved.result(LONG)
    writer.durable.result(LONG)
    same(load(slow / "a", tensors(5)), tensors(5))


def test_the_reader_waits_for_what_its_process_saved(area: forebay.stage.Area, slow: Path) -> None:
    folder = slow / "a"
    checkpoint.save(tensors(7), storage_writer=dcp.StagedWriter(folder, area=area), no_dist=True)
    same(load(folder, tensors(7), dcp.StagedReader(folder, area=area)), tensors(7))


def test_a_checkpoint_of_a_killed_process_is_recovered_and_published(program: Any, tmp_path: Path, slow: Path) -> None:
    folder = slow / "a"
    done = program(
        """
        import os, signal, sys, torch
        import torch.distributed.checkpoint as checkpoint
        import forebay.stage
        from forebay.stage import dcp
        area = forebay.stage.Area(sys.argv[1], free_floor=0, paused=True)
        saved = {f"layer{n}": torch.full((100, 50), float(10 + n)) for n in range(4)}
        writer = dcp.StagedWriter(sys.argv[2], area=area)
        checkpoint.save(saved, storage_writer=writer, no_dist=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        tmp_path / "fast",
        folder,
        check=False,
    )
    assert done.returncode == -9, done.stderr
    assert not dcp.publish(folder) and not (folder / ".metadata").exists()
    recovered = forebay.stage.recover(tmp_path / "fast")
    assert len(recovered["finished"]) == 3 and not recovered["refused"], recovered
    assert dcp.publish(folder, latest="latest") and not dcp.publish(folder)
    same(load(slow / "latest", tensors(1)), tensors(1))


RANK = """
import os, sys, torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import forebay.stage
from forebay.stage import dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

def rank(number, fast, slow):
    dist.init_process_group("gloo", init_method=f"file://{slow}/../meet", rank=number, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    whole = torch.arange(64.0).reshape(16, 4)
    state = {"sharded": distribute_tensor(whole, mesh, [Shard(0)]), "own": torch.full((3,), 1.5)}
    # Each rank has an area of its own, as on nodes of their own; that of rank 1 is late.
    with forebay.stage.Area(f"{fast}{number}", free_floor=0, paused=number == 1) as area:
        writer = dcp.StagedWriter(f"{slow}/a", area=area, latest="latest")
        checkpoint.save(state, storage_writer=writer)
        dist.barrier()
        if number == 0:
            assert not writer.durable.done() and not os.path.exists(f"{slow}/a/.metadata")
        dist.barrier()
        area.resume()
        writer.durable.result(300)
        dist.barrier()
        assert os.path.exists(f"{slow}/latest/.metadata")
        state["sharded"].zero_(); state["own"].zero_()
        checkpoint.load(state, storage_reader=checkpoint.FileSystemReader(f"{slow}/a"))
        assert torch.equal(state["sharded"].full_tensor(), whole) and (state["own"] == 1.5).all()
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.start_processes(rank, tuple(sys.argv[1:]), 2, start_method="fork")
"""


def test_a_checkpoint_of_two_ranks_appears_when_the_files_of_both_are_durable(
    program: Any, tmp_path: Path, slow: Path
) -> None:
    program(RANK, tmp_path / "fast", slow)
