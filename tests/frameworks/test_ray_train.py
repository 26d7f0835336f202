"""Ray Train fed by Ray Data over forebay: a model that learns, on two workers."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import ray

import forebay.ray

pytestmark = [
    pytest.mark.skipif(
        not (os.environ.get("FOREBAY_LONG") or os.environ.get("FOREBAY_SLOW")),
        reason="three processes import PyTorch; FOREBAY_LONG=1 asks for it, as make deep-compat and make deep-tests do",
    ),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no PyTorch in this environment"),
]


@pytest.fixture(autouse=True)
def cluster() -> Iterator[None]:
    # Workers have no module of this name.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_memory_monitor_refresh_ms"] = "0"
    os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="ray-")
    ray.init(num_cpus=4, object_store_memory=200 << 20, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()
    shutil.rmtree(os.environ.pop("RAY_TMPDIR"), ignore_errors=True)


def learn(config: dict[str, Any]) -> None:
    """Trains a line; says what came, and the error of each epoch."""
    import torch
    from ray import train
    from ray.train.torch import prepare_model

    model = prepare_model(torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    shard = train.get_dataset_shard("train")
    means: list[float] = []
    for _ in range(4):
        numbers, errors = [], []
        for batch in shard.iter_torch_batches(batch_size=32):
            error = torch.nn.functional.mse_loss(model(batch["x"])[:, 0], batch["y"])
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            numbers += batch["number"].tolist()
            errors.append(error.item())
        means.append(float(np.mean(errors)))
        said = json.dumps({"numbers": numbers, "errors": means})
        Path(config["folder"], f"{train.get_context().get_world_rank()}.json").write_text(said)
        train.report({"error": means[-1]})


def test_a_torch_trainer_learns_and_its_workers_share_the_rows(tmp_path: Path) -> None:
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    x = np.random.default_rng(0).normal(size=(2048, 8)).astype("f4")
    with h5py.File(tmp_path / "train.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(64, 8))
        file["y"], file["number"] = x @ np.arange(8, dtype="f4"), np.arange(2048)
    rows = forebay.ray.read(tmp_path / "train.h5", ["x", "number"], label="y", override_num_blocks=8)
    (tmp_path / "seen").mkdir()
    trainer = TorchTrainer(
        learn,
        train_loop_config={"folder": str(tmp_path / "seen")},
        datasets={"train": rows},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=str(tmp_path / "results")),
    )
    trainer.fit()
    seen = [json.loads((tmp_path / "seen" / f"{rank}.json").read_text()) for rank in range(2)]
    # Of the last epoch.
    assert sorted(seen[0]["numbers"] + seen[1]["numbers"]) == list(range(2048))
    assert all(len(one["errors"]) == 4 and one["errors"][-1] < one["errors"][0] / 2 for one in seen), seen
