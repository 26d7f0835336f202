"""Rows for Ray Data by forebay, next to maps over h5py, on a cluster of two nodes of this machine."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import h5py
import ray
from ray.cluster_utils import Cluster

import forebay.ray

OURS = "forebay.ray.read"
MAP = "ray.data.range(n).map over h5py"
BATCHES = "ray.data.range(n).map_batches over h5py"
WANTED = ("W3",)
"""Workloads: W1 would fill the memory of Ray's store."""

_files: dict[str, Any] = {}
"""Files that a worker has open."""


def start() -> None:
    """Two nodes, which have half of the processors each."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = os.environ["RAY_memory_monitor_refresh_ms"] = "0"
    cores = max(len(os.sched_getaffinity(0)) // 2, 1)
    os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="ray-")
    atexit.register(shutil.rmtree, os.environ["RAY_TMPDIR"], ignore_errors=True)
    node = {"num_cpus": cores, "object_store_memory": 1 << 30}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    atexit.register(cluster.shutdown)
    cluster.add_node(**node)
    ray.init(address=cluster.address, log_to_driver=False)
    atexit.register(ray.shutdown)
    ray.data.DataContext.get_current().enable_progress_bars = False


class Feed:
    """Epochs of a dataset of Ray Data. What starts with the first rows, workers and their imports, is not in the first epoch."""

    def __init__(self, dataset: Any, batch: int, warm: Any) -> None:
        self.dataset, self.batch = dataset, batch
        for _ in warm.iter_batches(batch_size=batch):
            pass

    def epoch(self, number: int) -> Iterator[int]:
        """Samples of each batch."""
        for batch in self.dataset.iter_batches(batch_size=self.batch, prefetch_batches=4):
            yield len(batch["x"])


def by_forebay(workload: Any) -> Feed:
    start()
    paths = [str(path) for path in workload.paths]
    ds = forebay.open(paths, fields=[*workload.fields])
    few = forebay.ray.read(ds.take(slice(0, 4 * workload.batch)), override_num_blocks=4)
    return Feed(forebay.ray.read(paths, [*workload.fields]), workload.batch, few)


def _x(path: str) -> Any:
    if path not in _files:
        _files[path] = h5py.File(path)
    return _files[path]["x"]


def by_map(workload: Any) -> Feed:
    start()
    path = str(workload.paths[0])

    def read(row: dict[str, Any]) -> dict[str, Any]:
        return {"x": _x(path)[row["id"]]}

    few = ray.data.range(4 * workload.batch, override_num_blocks=4).map(read)
    return Feed(ray.data.range(workload.sample_count).map(read), workload.batch, few)


def by_batches(workload: Any) -> Feed:
    start()
    path = str(workload.paths[0])

    def read(batch: dict[str, Any]) -> dict[str, Any]:
        return {"x": _x(path)[batch["id"][0] : batch["id"][-1] + 1]}

    few = ray.data.range(4 * workload.batch, override_num_blocks=4).map_batches(read)
    return Feed(ray.data.range(workload.sample_count).map_batches(read, batch_size=workload.batch), workload.batch, few)


def prepare(workload: Any) -> None:
    """There is nothing to do."""


CONTESTANTS = {OURS: by_forebay, MAP: by_map, BATCHES: by_batches}
GOALS = [(OURS, MAP, 5.0), (OURS, BATCHES, 1.0)]
