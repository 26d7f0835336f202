"""How near a training step of JAX on a GPU comes to one that has its batch on the device already.

    python benches/jax_feed.py --json out.json --markdown      # three nets, all contestants, within 5 minutes
    python benches/jax_feed.py --check                         # bytes on the device against the file
    python benches/jax_feed.py --cpu                           # a dry run without a GPU

The sets are made in a temporary folder, so nothing is needed but forebay, h5py and JAX. The ceiling is the same step of the same net
over one batch that stays on the device. Each contestant takes turns with it, as the clock of a device changes while it warms.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import platform
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import jax
import jax.numpy as jnp
import numpy as np

import forebay
import forebay.jax

CLASSES = 16
TURNS = 4
QUEUED = 8
"""Steps that the host may be ahead of the device: batches that wait for theirs take memory of it."""


@dataclass(frozen=True)
class Case:
    """A set, its batches, and the net that is trained with them."""

    name: str
    what: str
    shape: tuple[int, ...]
    count: int
    batch: int
    chunk: int | None
    net: str
    goal: float = 0.95

    def smaller(self) -> Case:
        """The same for a dry run."""
        return replace(self, count=8 * 32, batch=32, net="linear")


CASES = [
    # Of smaller batches a step is bound by how fast the host queues its kernels, not by the device.
    Case("mlp", "8 KiB samples, MLP", (2048,), 65536, 1024, None, "mlp"),
    Case("conv", "256 KiB samples, conv net", (4, 128, 128), 4096, 128, None, "conv"),
    Case("gzip", "64 KiB samples in gzip chunks of 16, conv net", (1, 128, 128), 8192, 128, 16, "conv"),
]


def make_set(case: Case, folder: Path) -> Path:
    """A file of samples whose values depend on their numbers; those of a compressed set compress about threefold."""
    path = folder / f"{case.name}-{case.count}.h5"
    random = np.random.default_rng(7)
    with h5py.File(path, "w") as file:
        kept = {"chunks": (case.chunk, *case.shape), "compression": "gzip", "compression_opts": 1} if case.chunk else {}
        x = file.create_dataset("x", (case.count, *case.shape), "f4", **kept)
        step = max(16, (64 << 20) // (4 * int(np.prod(case.shape))))
        for start in range(0, case.count, step):
            count = min(step, case.count - start)
            values = random.integers(0, 256, (count, *case.shape)) / 256
            values += np.arange(start, start + count).reshape(-1, *[1] * len(case.shape)) % 64
            x[start : start + count] = values
        file["label"] = (np.arange(case.count) % CLASSES).astype("i4")
        file["number"] = np.arange(case.count, dtype="i4")
    return path


def dense(key: Any, before: int, after: int) -> Any:
    return {"w": jax.random.normal(key, (before, after)) * (2 / before) ** 0.5, "b": jnp.zeros(after)}


def conv(key: Any, before: int, after: int) -> Any:
    return {"w": jax.random.normal(key, (3, 3, before, after)) * (2 / (9 * before)) ** 0.5, "b": jnp.zeros(after)}


def convolve(layer: Any, x: Any, stride: int) -> Any:
    made = jax.lax.conv_general_dilated(x, layer["w"], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.nn.relu(made + layer["b"])


def new_net(case: Case) -> tuple[Any, Callable[[Any, Any], Any]]:
    """The parameters of the net of ``case``, and what makes logits by them."""
    keys = iter(jax.random.split(jax.random.key(0), 16))
    width = int(np.prod(case.shape))
    if case.net == "conv":
        channels = [case.shape[0], 64]
        for scale in (1, 2, 4):
            channels += [64 * scale, 128 * scale]
        layers = [conv(next(keys), before, after) for before, after in zip(channels, channels[1:])]
        strides = [2, *([1, 2] * 3)]
        params = {"layers": layers, "head": dense(next(keys), channels[-1], CLASSES)}

        def logits(params: Any, x: Any) -> Any:
            x = jnp.moveaxis(x, 1, -1)
            for layer, stride in zip(params["layers"], strides):
                x = convolve(layer, x, stride)
            x = x.mean((1, 2))
            return x @ params["head"]["w"] + params["head"]["b"]

        return params, logits
    widths = [width, CLASSES] if case.net == "linear" else [width, 8192, 8192, CLASSES]
    stack = [dense(next(keys), before, after) for before, after in zip(widths, widths[1:])]

    def stacked(params: Any, x: Any) -> Any:
        x = x.reshape(len(x), -1)
        for layer in params[:-1]:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        return x @ params[-1]["w"] + params[-1]["b"]

    return stack, stacked


class Training:
    """One net whose steps all contestants take."""

    def __init__(self, case: Case, device: Any) -> None:
        params, logits = new_net(case)
        self.params = jax.device_put(params, device)

        def loss_of(params: Any, x: Any, label: Any) -> Any:
            chances = jax.nn.log_softmax(logits(params, x))
            return -jnp.take_along_axis(chances, label[:, None], 1).mean()

        @functools.partial(jax.jit, donate_argnums=0)
        def step(params: Any, x: Any, label: Any) -> Any:
            loss, gradients = jax.value_and_grad(loss_of)(params, x, label)
            return jax.tree.map(lambda value, gradient: value - 1e-4 * gradient, params, gradients), loss

        self._step = step

    def turn(self, batches: Iterator[Any], seconds: float, warm: int) -> tuple[int, float]:
        """Steps over ``batches`` for a while, after some that count for nothing: steps, and seconds."""
        losses: deque[Any] = deque()
        for _ in range(warm):
            self.params, loss = self._step(self.params, *next(batches))
        jax.block_until_ready(self.params)
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            self.params, loss = self._step(self.params, *next(batches))
            losses.append(loss)
            if len(losses) > QUEUED:
                losses.popleft().block_until_ready()
            steps += 1
        jax.block_until_ready(self.params)
        return steps, time.perf_counter() - began


def resident(case: Case, path: Path, device: Any) -> Iterator[Any]:
    with h5py.File(path) as file:
        batch = tuple(jax.device_put(file[name][: case.batch], device) for name in ("x", "label"))
    return itertools.repeat(batch)


def options(case: Case) -> dict[str, Any]:
    return {"batch_size": case.batch, "shuffle": "block" if case.chunk else "full", "tail": "drop", "epochs": None}


def by_forebay(case: Case, path: Path, device: Any) -> Iterator[Any]:
    with forebay.jax.Loader(forebay.open(path, ["x", "label"]), device=device, as_tuple=True, **options(case)) as loader:
        yield from loader


def by_device_put(case: Case, path: Path, device: Any) -> Iterator[Any]:
    with forebay.open(path, ["x", "label"]).loader(as_tuple=True, **options(case)) as loader:
        for batch in loader:
            yield tuple(jax.device_put(one, device) for one in batch)


def by_h5py(case: Case, path: Path, device: Any) -> Iterator[Any]:
    """Batches of neighbours in a random order: rows at random would take h5py ten times as long."""
    random = np.random.default_rng(7)
    with h5py.File(path) as file:
        while True:
            for start in random.permutation(case.count // case.batch) * case.batch:
                yield tuple(jax.device_put(file[name][start : start + case.batch], device) for name in ("x", "label"))


CONTESTANTS: dict[str, Callable[[Case, Path, Any], Iterator[Any]]] = {
    "the ceiling itself": resident,
    "forebay.jax.Loader": by_forebay,
    "forebay.Loader, device_put": by_device_put,
    "h5py, device_put": by_h5py,
}


def measure(case: Case, path: Path, device: Any, seconds: float, warm: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    kept = resident(case, path, device)
    training = Training(case, device)
    training.turn(kept, seconds / 2, warm)
    for name, open_batches in CONTESTANTS.items():
        batches = open_batches(case, path, device)
        totals = np.zeros((2, 2))
        for _ in range(TURNS):
            totals[0] += training.turn(kept, seconds / TURNS / 3, warm)
            totals[1] += training.turn(batches, seconds / TURNS * 2 / 3, warm)
        if hasattr(batches, "close"):
            batches.close()
        ceiling, rate = (steps / took for steps, took in totals)
        goal = f"  goal {case.goal}" if name.startswith("forebay.jax") else ""
        rows.append({"case": case.name, "contestant": name, "ratio": rate / ceiling, "steps_per_second": rate,
                     "ceiling_steps_per_second": ceiling})  # fmt: skip
        print(f"{case.name:5} {name:28} {rate:9.1f} of {ceiling:9.1f} steps/s  {rate / ceiling:5.3f} of the ceiling{goal}", flush=True)
    return rows


def check(case: Case, path: Path, device: Any, count: int) -> dict[str, Any]:
    """Compares what arrives on the device with the file."""
    wrong = seen = 0
    with h5py.File(path) as file:
        x = file["x"][...]
    loader = forebay.jax.Loader(forebay.open(path, ["x", "number"]), device=device, **options(case))
    for batch in itertools.islice(loader, count):
        numbers = np.asarray(batch["number"])
        wrong += int((np.asarray(batch["x"]) != x[numbers]).any(axis=tuple(range(1, x.ndim))).sum())
        seen += len(numbers)
    loader.close()
    print(f"{case.name}: {seen} samples on {device}, {wrong} wrong; {loader.stats()['hand_over']}", flush=True)
    return {"case": case.name, "seen": seen, "wrong": wrong}


def table(cases: list[Case], rows: list[dict[str, Any]]) -> str:
    lines = ["| " + " | ".join(["", *(case.what for case in cases)]) + " |", "|---" * (len(cases) + 1) + "|"]
    for name in dict.fromkeys(row["contestant"] for row in rows):
        cells = [next((row for row in rows if (row["case"], row["contestant"]) == (case.name, name)), None) for case in cases]
        lines.append("| " + " | ".join([name, *(f"{cell['ratio']:.3f}" if cell else "" for cell in cells)]) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--markdown", action="store_true", help="print a table: part of the ceiling")
    parser.add_argument("--check", action="store_true", help="compare bytes on the device with the file, and measure nothing")
    parser.add_argument("--cpu", action="store_true", help="a dry run with tiny sets")
    parser.add_argument("--batches", type=int, default=2000, help="batches of each check")
    parser.add_argument("--cases", nargs="*", default=[case.name for case in CASES], help="which nets")
    parser.add_argument("--seconds", type=float, default=9.0, help="how long each contestant is measured, the ceiling's turns included")
    parser.add_argument("--folder", type=Path, help="where the sets are made; by default a temporary folder")
    args = parser.parse_args()
    device = jax.devices("cpu" if args.cpu else "gpu")[0]
    cases = [case.smaller() if args.cpu else case for case in CASES if case.name in args.cases]
    facts = {"device": f"{device.device_kind} ({device.platform})", "jax": jax.__version__, "forebay": forebay.__version__,
             "python": platform.python_version(), "kernel": platform.release(), "cores": str(len(os.sched_getaffinity(0)))}  # fmt: skip
    print(", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for case in cases:
            path = make_set(case, Path(folder))
            if args.check:
                rows.append(check(case, path, device, args.batches if not args.cpu else 40))
            else:
                rows += measure(case, path, device, args.seconds if not args.cpu else 0.5, 1 if args.cpu else 40)
            path.unlink()
    if args.markdown and not args.check:
        print(table(cases, rows))
    if args.json:
        args.json.write_text(json.dumps({"machine": facts, "command": sys.argv[1:], "results": rows}, indent=1))
    return int(any(row.get("wrong", 0) > 0 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
