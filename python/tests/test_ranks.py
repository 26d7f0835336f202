"""Ranks of ``torch.distributed``: who they are, and whether they read the same samples in the same order."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Make

COUNT = 48

# Runs `rank(number, dist, *arguments)`, defined by each test, as two ranks.
PROGRAM = """
import sys, warnings
import numpy as np
import torch.distributed as dist
import torch.multiprocessing as mp
import forebay, forebay.torch
from forebay._loader import ranks as _ranks

def init(number, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=number, world_size=2)

def end():
    # Rank 0 has the store: it goes last.
    dist.barrier()
    dist.destroy_process_group()

def samples(loader):
    return [n for batch in loader for n in batch["x"].tolist()]

def told(number, **facts):
    print(f"{number}: {facts}\\n", end="", flush=True)

#BODY#

if __name__ == "__main__":
    # Forked: spawned ranks would import PyTorch once more, each.
    mp.start_processes(rank, tuple(sys.argv[1:]), 2, start_method="fork")
"""


@pytest.fixture
def ranks(program: Any, make: Make) -> Any:
    """Runs a function ``rank`` in two processes; gives what each told."""
    path = make(x=np.arange(COUNT))

    def ranks(body: str) -> list[dict[str, Any]]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        done = program(PROGRAM.replace("#BODY#", body), path, port)
        lines = dict(line.split(": ", 1) for line in done.stdout.strip().splitlines() if line[:3] in ("0: ", "1: "))
        return [eval(lines[number]) for number in "01"]

    return ranks


def test_a_loader_made_before_the_process_group_takes_its_rank_from_it(ranks: Any) -> None:
    first, second = ranks(
        """
def rank(number, path, port):
    ds = forebay.open(path, ["x"])
    loader = forebay.torch.Loader(ds, batch_size=4, shuffle="full", seed=1)
    data = forebay.torch.IterableDataset(ds, batch_size=4)
    alone = len(loader)
    init(number, port)
    told(number, alone=alone, length=len(loader), remaining=loader.remaining, seen=samples(loader),
         data=[n for batch in data for n in batch["x"].tolist()], again=samples(loader))
    end()
"""
    )
    assert first["alone"] == 12 and first["length"] == first["remaining"] == second["length"] == 6
    for name in ("seen", "data", "again"):
        assert sorted(first[name] + second[name]) == list(range(COUNT)), name
    assert first["seen"] != first["again"]


def test_ranks_with_different_orders_are_told_what_differs(ranks: Any) -> None:
    first, second = ranks(
        """
def rank(number, path, port):
    init(number, port)
    ds = forebay.open(path, ["x"])
    found = {}
    for name, options in {
        "seed": {"seed": number}, "batch_size": {"batch_size": 4 - number}, "shuffle": {"shuffle": ["full", "none"][number]},
        "tail": {"tail": ["pad", "wrap"][number]}, "lanes": {"shuffle": "block", "lanes": 2 + 2 * number},
    }.items():
        options = {"batch_size": 4, "tail": "pad", **options}
        for check in (True, False):
            loader = forebay.torch.Loader(ds, check_ranks=check, **options)
            try: samples(loader)
            except forebay.InvalidError as error: found[name, check] = str(error)
    other = forebay.open(path, {"x": "x", **({"y": "x"} if number else {})})
    try: samples(forebay.Loader(other, batch_size=4, rank=number, world=2))
    except forebay.InvalidError as error: found["files", True] = str(error)
    told(number, found=found)
    end()
"""
    )
    assert first["found"] == {}
    found = second["found"]
    assert set(found) == {(name, True) for name in ("seed", "batch_size", "shuffle", "tail", "lanes", "files")}
    assert "seed 1 (rank 0: 0)" in found["seed", True] and "batch_size 3 (rank 0: 4)" in found["batch_size", True]
    assert "files or fields" in found["files", True] and "check_ranks=False" in found["files", True]
    assert "shuffle" in found["lanes", True] and "tail" in found["tail", True]


def test_ranks_that_go_on_from_different_places_are_told_so(ranks: Any) -> None:
    first, second = ranks(
        """
def rank(number, path, port):
    init(number, port)
    ds = forebay.open(path, ["x"])
    found, seen = {}, {}
    start = forebay.torch.Loader(ds, batch_size=4, shuffle="full").state_dict()
    cases = {
        "position": [start, {**start, "position": 16}], "later": [{**start, "position": 24}, {**start, "position": 8}],
        "epoch": [start, {**start, "epoch": 3}], "same": [{**start, "epoch": 2, "position": 8}] * 2,
    }
    for name, states in cases.items():
        for check in (True, False):
            loader = forebay.torch.Loader(ds, batch_size=4, shuffle="full", check_ranks=check)
            loader.load_state_dict(states[number])
            try: seen[name, check] = samples(loader)
            except forebay.InvalidError as error: found[name, check] = str(error)
    loader = forebay.torch.Loader(ds, batch_size=4)
    loader.set_epoch(5)
    told(number, found=found, seen=seen, set=samples(loader))
    end()
"""
    )
    found = second["found"]
    assert first["found"] == {} and set(found) == {(name, True) for name in ("position", "later", "epoch")}
    assert "position in the epoch 16 (rank 0: 0)" in found["position", True]
    assert "position in the epoch 8 (rank 0: 24)" in found["later", True] and "epoch 3 (rank 0: 0)" in found["epoch", True]
    assert all("load the same state on every rank" in text for text in found.values())
    both = first["seen"]["same", True] + second["seen"]["same", True]
    assert len(both) == len(set(both)) == COUNT - 8
    assert sorted(first["set"] + second["set"]) == list(range(COUNT))


def test_a_loader_of_one_rank_alone_works_and_does_not_stand_for_another(ranks: Any) -> None:
    first, second = ranks(
        """
def loader(path, seed):
    return forebay.torch.Loader(forebay.open(path, ["x"]), batch_size=4, shuffle="full", seed=seed)

def rank(number, path, port):
    init(number, port)
    alone = []
    if number == 0:
        # Before and between loaders that both ranks have, by the same function.
        alone = samples(loader(path, 9))
    seen = samples(loader(path, 1))
    if number == 0:
        alone = samples(loader(path, 8))
    both = loader(path, 2)
    for _ in range(2):
        seen += samples(both)
    _ranks.DEADLINE_SECONDS = 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if number == 1:
            alone = samples(loader(path, 7))
    told(number, seen=seen, alone=len(alone), warned=[str(one.message) for one in caught])
    end()
"""
    )
    assert sorted(first["seen"] + second["seen"]) == sorted(list(range(COUNT)) * 3)
    assert first["alone"] == second["alone"] == COUNT // 2
    assert first["warned"] == [] and len(second["warned"]) == 1
    assert "rank 0 did not begin this loader within 1 s" in second["warned"][0]


def test_ranks_with_copies_of_the_files_agree(ranks: Any, tmp_path: Path) -> None:
    (tmp_path / "node1").mkdir()
    first, second = ranks(
        """
def rank(number, path, port):
    init(number, port)
    import os, shutil
    if number == 1:
        path = shutil.copy(path, os.path.join(os.path.dirname(path), "node1"))
    ds = forebay.open(path, ["x"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told(number, seen=samples(forebay.torch.Loader(ds, batch_size=4, shuffle="block", seed=1)))
    end()
"""
    )
    assert sorted(first["seen"] + second["seen"]) == list(range(COUNT))
