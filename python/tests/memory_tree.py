"""A process tree that reads at the limit of its budget, and who watches its memory.

``python memory_tree.py FOLDER`` makes a compressed set there, runs 4 forked workers of a ``DataLoader`` and 2 loaders over it,
and adds up what all processes take (PSS, every 20 ms), less what they took before they read. ``--cgroup`` runs the same
inside a memory cgroup whose limit the budget is taken from, where one can be made.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MIB = 1 << 20
SAMPLE_BYTES = 256 << 10


def make_set(path: Path, total: int, chunk: int) -> None:
    """``total`` bytes of samples in shuffled gzip chunks of ``chunk`` bytes; each sample begins with its number."""
    import h5py
    import numpy as np

    count, rows, width = total // SAMPLE_BYTES, chunk // SAMPLE_BYTES, SAMPLE_BYTES // 4
    noise = np.random.default_rng(0).integers(0, 64, (rows, width), dtype="<i4")
    part = path.with_suffix(".part")
    with h5py.File(part, "w") as file:
        made = file.create_dataset("x", (count, width), "<i4", chunks=(rows, width), shuffle=True, compression="gzip")
        for start in range(0, count, rows):
            noise[:, 0] = np.arange(start, start + rows)
            shuffled = noise.view(np.uint8).reshape(-1, 4).T.tobytes()
            made.id.write_direct_chunk((start, 0), zlib.compress(shuffled, 1))
    part.rename(path)


def work(path: str, epochs: int, first: str) -> None:
    """Reads ``path`` by 4 forked workers and 2 loaders at once, as often as ``epochs`` says."""
    import torch.utils.data

    import forebay.torch

    # PyTorch and Python grow a little when they are first used, whoever uses them.
    for _ in torch.utils.data.DataLoader(list(range(64)), batch_size=16, num_workers=0):
        pass
    print("ready", flush=True)
    sys.stdin.readline()
    ds = forebay.torch.Dataset(forebay.open(path, ["x"]))

    def pool() -> Any:
        return torch.utils.data.DataLoader(
            ds, 16, shuffle=True, num_workers=4, collate_fn=forebay.torch.collate, multiprocessing_context="fork"
        )

    workers = iter(pool()) if first == "workers" else None
    # The workers have taken their memory once the first batch is there.
    early = 0 if workers is None else len(next(workers)["x"])
    loaders = [
        forebay.torch.Loader(ds, batch_size=16, shuffle="full", seed=1),
        forebay.torch.Loader(ds, batch_size=16, shuffle="block", lanes=2, seed=2),
    ]
    told = {"loaders": [loader.describe() for loader in loaders], "samples": early}
    for _ in range(epochs):
        workers = workers or iter(pool())
        running: list[Any] = [workers, *map(iter, loaders)]
        sums, workers = [0, 0, 0], None
        while any(running):
            for number, one in enumerate(running):
                batch = next(one, None) if one else None
                if batch is None:
                    running[number] = None
                    continue
                told["samples"] += len(batch["x"])
                sums[number] += int(batch["x"][:, 0].sum())
                told["process"] = loaders[0].describe()["process"]
                del batch
        assert sums[1:] == [sum(range(len(ds)))] * 2, "every sample once"
    print(json.dumps(told), flush=True)


def tree(root: int) -> Iterator[int]:
    """The process ``root`` and those below it."""
    yield root
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{root}/task"):
            with open(f"/proc/{root}/task/{task}/children") as children:
                for child in children.read().split():
                    yield from tree(int(child))


def memory_of(root: int) -> dict[str, int]:
    """The bytes of the tree by kind, each page counted once (PSS); nothing where a process came or went meanwhile.

    A page that two share counts half in each: were one read before a fork and the other after it, it would count more.
    """
    kinds = dict.fromkeys(("Pss", "Pss_Anon", "Pss_File", "Pss_Shmem"), 0)
    processes = list(tree(root))
    for process in processes:
        with contextlib.suppress(OSError), open(f"/proc/{process}/smaps_rollup") as rollup:
            for kind, _, size in (line.partition(":") for line in rollup):
                if kind in kinds:
                    kinds[kind] += int(size.split()[0]) << 10
    return kinds if list(tree(root)) == processes else {}


def watch(path: Path, epochs: int, first: str, environment: dict[str, str], join: Path | None = None) -> dict[str, Any]:
    """Runs :func:`work` in a process of its own, in the cgroup ``join``; gives what it said and the most it took above
    what it took after import."""
    command = [sys.executable, __file__, "--work", str(path), "--epochs", str(epochs), "--first", first]
    # Into the cgroup first, so that the budget is taken from it.
    enter = ["sh", "-c", f'echo $$ > {join}/cgroup.procs && exec "$@"', "sh"] if join else []
    run = subprocess.Popen(
        enter + command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    assert run.stdin is not None and run.stdout is not None
    try:
        assert run.stdout.readline().strip() == "ready", "it ended before it began"
        baseline = peak = memory_of(run.pid)
        run.stdin.write("go\n")
        run.stdin.flush()
        looks = 0
        while run.poll() is None:
            if now := memory_of(run.pid):
                peak, looks = max(peak, now, key=lambda kinds: kinds["Pss"]), looks + 1
            time.sleep(0.02)
        said = run.stdout.read()
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 0, f"ended by {run.returncode}"
    told: dict[str, Any] = json.loads(said.splitlines()[-1])
    above = {kind: size - baseline[kind] for kind, size in peak.items()}
    return {**told, "baseline": baseline["Pss"], "above": above["Pss"], "kinds": above, "looks": looks}


@contextlib.contextmanager
def memory_cgroup(limit: int) -> Iterator[Path]:
    """A cgroup below this process's own, of either version, that allows ``limit`` bytes."""
    with open("/proc/self/cgroup") as groups:
        fields = [line.strip().split(":", 2) for line in groups]
    old = [path for _, controllers, path in fields if "memory" in controllers.split(",")]
    root, name = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes") if old else ("/sys/fs/cgroup", "memory.max")
    own = old[0] if old else next(path for _, controllers, path in fields if controllers == "")
    group = Path(root + own) / f"forebay-{os.getpid()}"
    group.mkdir()
    try:
        (group / name).write_text(str(limit))
        yield group
    finally:
        # It empties when its last process is gone.
        for _ in range(100):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.05)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--first", choices=["workers", "loaders"], default="workers", help=argparse.SUPPRESS)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--budget", type=int, default=1024, help="in MiB")
    parser.add_argument("--total", type=int, default=512, help="of the set, in MiB")
    parser.add_argument("--chunk", type=int, default=16, help="in MiB")
    parser.add_argument("--cgroup", action="store_true", help="also inside a memory cgroup")
    options = parser.parse_args()
    if options.work:
        work(options.work, options.epochs, options.first)
        return 0
    path = options.folder / f"tree-{options.total}-{options.chunk}.h5"
    if not path.exists():
        make_set(path, options.total * MIB, options.chunk * MIB)
    budget, failed = options.budget * MIB, False

    def judge(name: str, told: dict[str, Any]) -> bool:
        above = told["above"] / MIB
        print(f"{name}: {above:.0f} MiB of {options.budget} MiB above a baseline of {told['baseline'] / MIB:.0f} MiB, ", end="")
        print(f"{told['samples']} samples, {told['looks']} looks; ", end="")
        print(", ".join(f"{kind} {size / MIB:.0f}" for kind, size in told["kinds"].items()), flush=True)
        return bool(told["above"] > budget)

    for first in ("workers", "loaders"):
        told = watch(path, options.epochs, first, {"FOREBAY_MEMORY": str(budget)})
        failed |= judge(f"{first} first", told)
    if options.cgroup:
        # Three quarters of what a cgroup allows are forebay's.
        try:
            with memory_cgroup(budget // 3 * 4) as group:
                failed |= judge("in a memory cgroup", watch(path, options.epochs, "workers", {}, group))
        except OSError as error:
            print(f"no memory cgroup could be made here, so none was tried: {error}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
