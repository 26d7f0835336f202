"""How near a training step on a GPU comes to one that has its batch on the device already.

    python benches/gpu_feed.py --json out.json --markdown      # three nets, all contestants, within 8 minutes
    python benches/gpu_feed.py --check                         # bytes on the device against the file, 10,000 batches
    python benches/gpu_feed.py --cpu                           # a dry run without a GPU

The sets are made in a temporary folder, so nothing is needed but forebay, h5py and PyTorch. The ceiling is the same step of the
same net over one batch that stays on the device. Each contestant takes turns with it: a device changes its clock by a tenth
within a minute as it warms, so steps of different minutes cannot be compared. Exposed wait is the time between the end of a step
and the moment its successor's batch is there, as the device sees it, as a part of the whole.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

import forebay
import forebay.torch
from gpu_check import check_feed, check_own_stream, check_transforms, settle

WORKERS = (0, 4, 8, 14)
# Turns of each contestant, and of the ceiling between them.
TURNS = 4
CLASSES = 16


@dataclass(frozen=True)
class Case:
    """A set, its batches, and the net that is trained with them."""

    name: str
    what: str
    shape: tuple[int, ...]
    count: int
    batch: int
    chunk: int | None
    net: Callable[[], nn.Module]
    goal: float

    def smaller(self) -> Case:
        """The same for a dry run."""
        narrow: Callable[[], nn.Module] = lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(CLASSES))
        return Case(self.name, self.what, self.shape, 8 * 32, 32, self.chunk, narrow, self.goal)


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(2048, 8192), nn.ReLU(), nn.Linear(8192, 8192), nn.ReLU(), nn.Linear(8192, CLASSES)
    )


def conv_net(width: int) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        layers: list[nn.Module] = [nn.LazyConv2d(width, 3, stride=2, padding=1), nn.ReLU()]
        for scale in (1, 2, 4):
            layers += [nn.LazyConv2d(width * scale, 3, padding=1), nn.ReLU()]
            layers += [nn.LazyConv2d(width * scale * 2, 3, stride=2, padding=1), nn.ReLU()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LazyLinear(CLASSES))

    return make


CASES = [
    # Of smaller batches a step is bound by how fast the host queues its kernels, not by the device.
    Case("mlp", "8 KiB samples, MLP", (2048,), 65536, 1024, None, mlp, 0.98),
    Case("conv", "256 KiB samples, conv net", (4, 128, 128), 4096, 128, None, conv_net(64), 0.98),
    Case("gzip", "64 KiB samples in gzip chunks of 16, conv net", (1, 128, 128), 8192, 128, 16, conv_net(64), 0.95),
]


def make_set(case: Case, folder: Path) -> Path:
    """A file of samples whose values depend on their numbers; those of a compressed set compress about threefold."""
    path = folder / f"{case.name}-{case.count}.h5"
    random_numbers = np.random.default_rng(7)
    with h5py.File(path, "w") as file:
        kept = {"chunks": (case.chunk, *case.shape), "compression": "gzip", "compression_opts": 1} if case.chunk else {}
        x = file.create_dataset("x", (case.count, *case.shape), "f4", **kept)
        step = max(16, (64 << 20) // (4 * int(np.prod(case.shape))))
        for start in range(0, case.count, step):
            count = min(step, case.count - start)
            values = random_numbers.integers(0, 256, (count, *case.shape)) / 256
            values += np.arange(start, start + count).reshape(-1, *[1] * len(case.shape)) % 64
            x[start : start + count] = values
        file["label"] = np.arange(case.count) % CLASSES
        file["number"] = np.arange(case.count)
    return path


class Rows(Dataset[Any]):
    """Samples by number as most programs read them: one file handle in each worker."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, None
        with h5py.File(path) as file:
            self.count = len(file["x"])

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        if self.file is None:
            self.file = h5py.File(self.path)
        return {"x": self.file["x"][number], "label": self.file["label"][number]}


class Chunks(Rows):
    """The same by whole chunks: each is decoded once."""

    def __init__(self, path: Path, chunk: int) -> None:
        super().__init__(path)
        self.chunk = chunk

    def __getitems__(self, numbers: list[int]) -> list[Any]:
        if self.file is None:
            self.file = h5py.File(self.path)
        samples = []
        for start in numbers[:: self.chunk]:
            x, label = (self.file[name][start : start + self.chunk] for name in ("x", "label"))
            samples += [{"x": one, "label": other} for one, other in zip(x, label)]
        return samples


class ChunkOrder(Sampler[list[int]]):
    """Batches of whole chunks in a random order."""

    def __init__(self, count: int, chunk: int, batch: int) -> None:
        self.count, self.chunk, self.batch = count, chunk, batch

    def __len__(self) -> int:
        return self.count // self.batch

    def __iter__(self) -> Iterator[list[int]]:
        starts = [range(start, start + self.chunk) for start in range(0, self.count, self.chunk)]
        random.shuffle(starts)
        each = self.batch // self.chunk
        for at in range(0, len(starts) - each + 1, each):
            yield [number for chunk in starts[at : at + each] for number in chunk]


def endless(epochs: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    while True:
        yield from epochs()


def by_data_loader(case: Case, path: Path, device: torch.device, workers: int) -> Iterator[Any]:
    options: dict[str, Any] = {"num_workers": workers, "pin_memory": device.type == "cuda"}
    if workers > 0:
        options |= {"persistent_workers": True, "multiprocessing_context": "fork", "prefetch_factor": 4}
    if case.chunk:
        order = ChunkOrder(case.count, case.chunk, case.batch)
        loader: DataLoader[Any] = DataLoader(Chunks(path, case.chunk), batch_sampler=order, **options)
    else:
        loader = DataLoader(Rows(path), batch_size=case.batch, shuffle=True, drop_last=True, **options)
    for batch in endless(lambda: loader):
        yield batch["x"].to(device, non_blocking=True), batch["label"].to(device, non_blocking=True)


def by_forebay(case: Case, path: Path, device: torch.device, feeds: bool) -> Iterator[Any]:
    ds = forebay.open(path, ["x", "label"])
    order = "block" if case.chunk else "full"
    where = {"device": device} if feeds else {}
    loader = forebay.torch.Loader(ds, batch_size=case.batch, shuffle=order, tail="drop", epochs=None, **where)
    try:
        for batch in loader:
            yield (batch["x"], batch["label"]) if feeds else (batch["x"].to(device), batch["label"].to(device))
    finally:
        loader.close()


def resident(case: Case, path: Path, device: torch.device) -> Iterator[Any]:
    with h5py.File(path) as file:
        batch = [torch.from_numpy(file[name][: case.batch]).to(device) for name in ("x", "label")]
    return itertools.repeat(tuple(batch))


class Clock:
    """Points in time as the device sees them; of the host where there is none."""

    def __init__(self, device: torch.device) -> None:
        self.on_device = device.type == "cuda"
        self.pairs: list[tuple[Any, Any]] = []

    def now(self) -> Any:
        if not self.on_device:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def waited(self) -> float:
        """Seconds between the points of all pairs."""
        if self.on_device:
            torch.cuda.synchronize()
            return sum(start.elapsed_time(end) for start, end in self.pairs) / 1000
        return float(sum(end - start for start, end in self.pairs))


class Training:
    """One net whose steps all contestants take."""

    def __init__(self, case: Case, device: torch.device, first: Any) -> None:
        torch.manual_seed(0)
        self.device = device
        self.net = case.net().to(device)
        self.net(first[0])
        if len(case.shape) == 3:
            self.net.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-4, foreach=True)
        self.loss_of = nn.CrossEntropyLoss()

    def step(self, batch: Any) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.loss_of(self.net(batch[0]), batch[1]).backward()
        self.optimizer.step()

    def turn(self, batches: Iterator[Any], seconds: float) -> Turn:
        """Steps over ``batches`` for a while, after some that count for nothing: what was made ahead meanwhile is used up."""
        for _, batch in zip(range(40 if self.device.type == "cuda" else 1), batches):
            self.step(batch)
        clock = Clock(self.device)
        settle(self.device)
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            ended = clock.now()
            batch = next(batches)
            clock.pairs.append((ended, clock.now()))
            self.step(batch)
            steps += 1
        settle(self.device)
        return Turn(steps, time.perf_counter() - began, clock.waited())


@dataclass
class Turn:
    """What was done in one turn, or in several."""

    steps: int = 0
    seconds: float = 0.0
    waited: float = 0.0

    def add(self, other: Turn) -> None:
        self.steps += other.steps
        self.seconds += other.seconds
        self.waited += other.waited

    @property
    def rate(self) -> float:
        return self.steps / self.seconds


def contestants(case: Case, path: Path, device: torch.device, workers: Iterable[int]) -> Iterator[tuple[str, Any]]:
    yield "the ceiling itself", resident(case, path, device)
    yield f'forebay, device="{device.type}"', by_forebay(case, path, device, True)
    yield "forebay, .to(device)", by_forebay(case, path, device, False)
    for count in workers:
        yield f"h5py + DataLoader, {count} workers", by_data_loader(case, path, device, count)


def measure(case: Case, path: Path, device: torch.device, seconds: float, workers: Iterable[int]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    kept = resident(case, path, device)
    training = Training(case, device, next(kept))
    training.turn(kept, seconds / 2)
    for name, batches in contestants(case, path, device, workers):
        ceiling, seen = Turn(), Turn()
        for _ in range(TURNS):
            ceiling.add(training.turn(kept, seconds / TURNS / 3))
            seen.add(training.turn(batches, seconds / TURNS * 2 / 3))
        close = getattr(batches, "close", None)
        if close is not None:
            close()
        row = {"ratio": seen.rate / ceiling.rate, "exposed_wait": seen.waited / seen.seconds}
        goal = f"  goal {case.goal}" if name.startswith("forebay, device") else ""
        rates = {"steps_per_second": seen.rate, "ceiling_steps_per_second": ceiling.rate, "steps": seen.steps}
        rows.append({"case": case.name, "contestant": name, **row, **rates})
        print(f"{case.name:5} {name:32} {seen.rate:9.1f} of {ceiling.rate:9.1f} steps/s  {row['ratio']:5.3f} of the ceiling  "
              f"{100 * row['exposed_wait']:5.1f} % exposed wait{goal}", flush=True)  # fmt: skip
    return rows


def machine(device: torch.device) -> dict[str, str]:
    facts = {
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "forebay": forebay.__version__,
        "cores": str(len(os.sched_getaffinity(0))),
    }
    if device.type == "cuda":
        facts |= {"device": torch.cuda.get_device_name(), "CUDA runtime": str(torch.version.cuda)}
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            facts["driver"] = subprocess.run(asked, capture_output=True, text=True, timeout=20).stdout.strip()
        except OSError:
            pass
    return facts


def table(cases: list[Case], rows: list[dict[str, Any]]) -> str:
    lines = ["| " + " | ".join(["", *(case.what for case in cases)]) + " |", "|---" * (len(cases) + 1) + "|"]
    for name in dict.fromkeys(row["contestant"] for row in rows):
        cells = [next((row for row in rows if (row["case"], row["contestant"]) == (case.name, name)), None) for case in cases]
        text = [f"{cell['ratio']:.3f} ({100 * cell['exposed_wait']:.1f} %)" if cell else "" for cell in cells]
        lines.append("| " + " | ".join([name, *text]) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--markdown", action="store_true", help="print a table: part of the ceiling (exposed wait)")
    parser.add_argument("--check", action="store_true", help="compare bytes on the device with the file, and measure nothing")
    parser.add_argument("--cpu", action="store_true", help="a dry run with tiny sets")
    parser.add_argument("--batches", type=int, help="batches of each check; 10,000 by default")
    parser.add_argument("--cases", nargs="*", default=[case.name for case in CASES], help="which nets")
    parser.add_argument("--workers", nargs="*", type=int, help="workers of DataLoader; 0, 4, 8 and 14 by default")
    parser.add_argument("--seconds", type=float, default=9.0, help="how long each contestant is measured, the ceiling's turns included")
    parser.add_argument("--folder", type=Path, help="where the sets are made; by default a temporary folder")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", "Lazy modules|.*fork.*|This DataLoader will create")
    device = torch.device("cpu") if args.cpu else torch.device("cuda", torch.cuda.current_device())
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    facts = machine(device)
    print(", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    with tempfile.TemporaryDirectory(dir=args.folder) as made:
        results = run(args, device, Path(made))
    if args.json:
        args.json.write_text(json.dumps({"machine": facts, "command": sys.argv[1:], "results": results}, indent=1))
    return int(any(row.get("wrong", 0) > 0 for row in results))


def run(args: argparse.Namespace, device: torch.device, folder: Path) -> list[dict[str, Any]]:
    cases = [case.smaller() if args.cpu else case for case in CASES if case.name in args.cases]
    if args.check:
        path = make_set(cases[0], folder)
        count = args.batches or (40 if args.cpu else 10_000)
        checks = [(check_feed, count), (check_own_stream, count), (check_transforms, count // 10)]
        rows = [check(path, device, batches) for check, batches in checks]
        for row in rows:
            print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
        return rows
    rows = []
    seconds = min(args.seconds, 0.2) if args.cpu else args.seconds
    workers = args.workers if args.workers is not None else (0, 2) if args.cpu else WORKERS
    for case in cases:
        path = make_set(case, folder)
        rows += measure(case, path, device, seconds, workers)
        path.unlink()
    if args.markdown:
        print(table(cases, rows))
    return rows


if __name__ == "__main__":
    sys.exit(main())
