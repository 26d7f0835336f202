"""What a loader says of itself."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from .. import _html
from .._forebay import BatchLoader, InvalidError, memory_report


class LoaderFacts:
    """What a :class:`Loader` says of itself: where it is, what is in force, what it did."""

    dataset: Any
    batch_size: int
    _options: str

    @property
    def _loader(self) -> BatchLoader:
        raise NotImplementedError

    def __len__(self) -> int:
        """Batches of a whole epoch, wherever in it the consumer is."""
        return len(self._loader)

    @property
    def rank(self) -> int:
        """Which of the ranks this is."""
        return self._shard_now()[0]

    @property
    def world(self) -> int:
        """How many ranks there are."""
        return self._shard_now()[1]

    @property
    def epoch(self) -> int:
        """The epoch that the consumer is in; after its last batch, the next."""
        epoch: int = json.loads(self._loader.state())["epoch"]
        return epoch

    @property
    def step(self) -> int:
        """Batches of its epoch that the consumer has received, also before a state that was loaded."""
        return len(self) - self.remaining

    @property
    def threads(self) -> int:
        """Threads that make batches."""
        threads: int = json.loads(self._loader.in_force())["threads"]
        return threads

    @property
    def memory(self) -> int:
        """Bytes that it may take."""
        memory: int = json.loads(self._loader.in_force())["memory_bytes"]
        return memory

    def _shard_now(self) -> tuple[int, int]:
        # Where ranks are known late, this has them looked up.
        _ = self._loader
        shard = json.loads(self._options)["shard"]
        return shard["rank"], shard["world"]

    @property
    def remaining(self) -> int:
        """Batches that the consumer has yet to receive of its epoch; of the next one after the last batch."""
        return self._loader.remaining()

    def stats(self) -> dict[str, Any]:
        """What was read, decoded and waited for so far, and which stage limits (``verdict``).

        ``tiers`` is what was read from where, in all and in each epoch; ``None`` without tiers. ``in_force`` is what
        :meth:`describe` says of threads and memory. ``origin_latency`` is how long reads from behind a network took,
        for all loaders of the data set: ``count``, ``mean_ns``, ``p50_ns``, ``p90_ns``, ``p99_ns`` and ``max_ns``.
        """
        stats: dict[str, Any] = json.loads(self._loader.stats())
        return stats

    def describe(self) -> dict[str, Any]:
        """What is in force: ``threads``, ``batches_ahead``, ``memory_bytes`` in all and ``cache_bytes`` of them for decoded
        chunks, the folder of the ``spill`` and ``spill_quota_bytes``. ``fields`` are those of the batches, after ``transforms`` and
        before ``map``.

        ``process`` is what this process may take, and who in it has taken how much.
        """
        loader = self._loader
        in_force: dict[str, Any] = json.loads(loader.in_force())
        # All of it can be written as JSON.
        fields = {
            name: {"dtype": stored, "numpy": str(np.dtype(code)), "shape": shape} for name, code, shape, stored in loader.fields()
        }
        return {"batch_size": self.batch_size, "fields": fields, **in_force, "process": json.loads(memory_report())}

    def __repr__(self) -> str:
        name = f"{type(self).__module__}.{type(self).__name__}"
        # One whose making ended by an error has neither.
        text = f"{name} of {getattr(self, 'dataset', None)!r}, batches of {getattr(self, 'batch_size', None)}"
        try:
            return f"<{text}, epoch {self.epoch}, step {self.step} of {len(self)}>"
        except (InvalidError, AttributeError):
            return f"<{text}>"

    def _repr_html_(self) -> str:
        facts = {"samples": repr(self.dataset), "batch_size": self.batch_size}
        try:
            options, in_force = json.loads(self._options), json.loads(self._loader.in_force())
            facts |= {
                "shuffle": json.dumps(options["shuffle"]),
                "seed": options["seed"],
                "rank": f"{self.rank} of {self.world}",
                "epoch": self.epoch,
                "step": f"{self.step} of {len(self)}",
                "threads": in_force["threads"],
                "memory": f"{in_force['memory_bytes'] / 2**20:.0f} MiB",
            }
        except InvalidError:
            facts["state"] = "closed"
        return _html.facts(f"{type(self).__module__}.{type(self).__name__}", facts)
