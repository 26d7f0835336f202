"""The recipes of docs/launchers.md, as far as they can run on one machine: each sample comes to one of the processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import yaml  # type: ignore[import-untyped, unused-ignore]

PAGE = (Path(__file__).parents[2] / "docs" / "launchers.md").read_text()
COUNT = 200
WORLD = 2


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the page speaks of: `train.py`, and files of images."""
    (tmp_path / "train").mkdir()
    for number in range(2):
        with h5py.File(tmp_path / "train" / f"{number}.h5", "w") as file:
            file["image"] = np.zeros((COUNT // 2, 4, 4), np.uint8)
            file["label"] = np.arange(COUNT // 2)
    (tmp_path / "train.py").write_text(blocks("python")[0])
    # What `python` means in the recipes.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    return tmp_path


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """The variables of a launcher, and none of another's."""
    kept = {name: value for name, value in os.environ.items() if not re.match(r"SLURM_|PMI|OMPI|RANK$|WORLD_SIZE$|LOCAL_|MASTER_", name)}
    return {**kept, "PATH": f"{folder / 'bin'}:{kept['PATH']}", **variables}


def side_by_side(folder: Path, command: list[str], ranks: list[dict[str, str]]) -> str:
    """What processes say that have the variables ``ranks``."""
    started = [
        subprocess.Popen(command, cwd=folder, env=environment(folder, **rank), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for rank in ranks
    ]
    said = [process.communicate(timeout=300)[0] for process in started]
    assert all(process.returncode == 0 for process in started), said
    return "".join(said)


def check(said: str) -> None:
    """Each rank has its half, and both have all samples."""
    found = re.findall(rf"rank (\d) of {WORLD}: (\d+) samples, sum of numbers (\d+)", said)
    assert sorted(rank for rank, _, _ in found) == ["0", "1"], said
    assert [int(count) for _, count, _ in found] == [COUNT // WORLD] * WORLD, said
    assert sum(int(total) for _, _, total in found) == sum(range(COUNT)), said


def test_torchrun_gives_each_process_its_rank(folder: Path) -> None:
    pytest.importorskip("torch")
    command = blocks("sh")[0].split()
    assert command[0] == "torchrun"
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", *command[1:]]
    done = subprocess.run(run, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    check(done.stdout)


def test_the_line_of_the_slurm_script_gives_each_task_its_rank(folder: Path) -> None:
    line = re.search(r"^srun bash -c '(.*)'$", blocks("sh")[1], re.MULTILINE)
    assert line is not None
    tasks = [
        {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "SLURM_LOCALID": str(rank), "SLURM_NTASKS_PER_NODE": "2", "SLURM_STEP_NUM_TASKS": "2"}
        for rank in range(WORLD)
    ]
    check(side_by_side(folder, ["bash", "-c", line[1]], tasks))


def test_pods_of_an_indexed_job_have_their_ranks(folder: Path) -> None:
    service, job = yaml.safe_load_all(blocks("yaml")[0])
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"] == WORLD
    pod = spec["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"] and service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}

    def variables(index: int) -> dict[str, str]:
        annotations = {"batch.kubernetes.io/job-completion-index": str(index)}
        found: dict[str, str] = {"JOB_COMPLETION_INDEX": str(index)}
        for one in container["env"]:
            found[one["name"]] = one["value"] if "value" in one else annotations[_annotation(one)]
        return found

    ranks = [variables(index) for index in range(WORLD)]
    assert ranks[0]["WORLD_SIZE"] == str(spec["completions"]) and ranks[0]["MASTER_ADDR"] == "train-0.train"
    check(side_by_side(folder, container["command"], ranks))


def _annotation(variable: dict[str, Any]) -> str:
    found = re.fullmatch(r"metadata\.annotations\['(.*)'\]", variable["valueFrom"]["fieldRef"]["fieldPath"])
    assert found is not None
    return found[1]


def test_a_process_alone_has_all_samples(folder: Path) -> None:
    said = side_by_side(folder, ["python", "train.py"], [{}])
    assert f"rank 0 of 1: {COUNT} samples" in said
