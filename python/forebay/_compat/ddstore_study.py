"""``forebay store-bench --study ddstore``: DDStore's own comparison, at the size of this machine.

Graphs are read in a random order, once by each rank together: a pickle for each graph, one ADIOS file of all graphs, and a
store of several widths. The files lie behind an emulated parallel file system where one can be mounted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _comm
from .._forebay import ForebayError, RawComm
from .._store.store import Store

Graph = dict[str, npt.NDArray[Any]]
Read = Callable[[int], Graph]

FIELDS = {"x": np.float32, "edge_index": np.int64, "y": np.float32}


def main(arguments: list[str]) -> int:
    """Runs the study on every rank of the job; rank 0 prints what all of them measured."""
    args = _parser().parse_args(arguments)
    comm = _comm.of(None, args.data)
    folder = Path(tempfile.mkdtemp(prefix="forebay-study-", dir=args.folder)) if comm.rank == 0 else Path()
    folder = Path(comm.broadcast(0, str(folder).encode()).decode())
    try:
        if comm.rank == 0:
            _write(folder, args.graphs)
        comm.barrier()
        with _behind_slow_files(comm, folder, args) as (shown, how):
            rows = _rows(comm, shown, args)
        if comm.rank == 0:
            _print(rows, comm.size, how, args)
        comm.barrier()
    finally:
        if comm.rank == 0:
            _remove(folder)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("forebay store-bench --study ddstore", description=__doc__)
    parser.add_argument("--study", choices=["ddstore"], help=argparse.SUPPRESS)
    parser.add_argument("--graphs", type=int, default=2000, help="graphs of the set [default: %(default)s]")
    parser.add_argument("--batch", type=int, default=128, help="graphs of a rank's batch [default: %(default)s]")
    parser.add_argument("--global-batch", type=int, default=512, help="graphs of a batch of all ranks [default: %(default)s]")
    parser.add_argument("--widths", help="ranks of a replica group, as 2,4 [default: 1, 2, 4 and so on]")
    parser.add_argument("--latency", default="2ms", help="latency of the emulated file system; 0 for none [default: 2ms]")
    parser.add_argument("--bandwidth", default="200MiB/s", help="its bandwidth [default: 200MiB/s]")
    parser.add_argument("--folder", help="where the files are written [default: that of temporary files]")
    parser.add_argument("--data", default="auto", help="how bytes of other hosts travel: auto, mpi, tcp or shm")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _graph(number: int) -> Graph:
    """A graph of 20 to 84 nodes with a spectrum of 100 values, as large as one of AISD-Ex: about 6 KB."""
    random = np.random.default_rng(number)
    nodes = 20 + number * 7919 % 65
    return {
        "x": random.random((nodes, 4), np.float32),
        "edge_index": random.integers(0, nodes, (4 * nodes, 2)),
        "y": random.random((100,), np.float32),
    }


def _write(folder: Path, count: int) -> None:
    """The graphs, as a pickle each and as one ADIOS file of all, with where each begins."""
    try:
        import adios2  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise ForebayError("the study needs ADIOS\n  hint: pip install adios2") from None
    graphs = [_graph(number) for number in range(count)]
    for number, graph in enumerate(graphs):
        place = folder / "pickles" / f"{number // 1000:04d}"
        place.mkdir(parents=True, exist_ok=True)
        with open(place / f"{number}.pkl", "wb") as file:
            pickle.dump(graph, file)
    with adios2.Stream(str(folder / "all.bp"), "w") as stream:
        for field in FIELDS:
            parts = [graph[field] for graph in graphs]
            whole = np.concatenate(parts)
            starts = np.r_[0, np.cumsum([len(part) for part in parts])].astype(np.int64)
            stream.write(field, whole, list(whole.shape), [0] * whole.ndim, list(whole.shape))
            stream.write(f"{field}_starts", starts, [len(starts)], [0], [len(starts)])


@contextlib.contextmanager
def _behind_slow_files(comm: RawComm, folder: Path, args: argparse.Namespace) -> Iterator[tuple[Path, str]]:
    """The folder as a slow file system shows it, if it can be mounted; and what it is."""
    mounted = None
    shown, how = folder, "files of this machine"
    if comm.rank == 0 and args.latency != "0":
        place = folder.with_name(folder.name + "-slow")
        place.mkdir()
        command = [sys.executable, "-m", "forebay", "simulate", str(folder), str(place)]
        command += ["--latency", args.latency, "--bandwidth", args.bandwidth]
        mounted = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while mounted.poll() is None and not (place / "pickles").exists():
            time.sleep(0.02)
        if mounted.poll() is None:
            shown, how = place, f"files at {args.latency} a request and {args.bandwidth}"
        else:
            assert mounted.stderr is not None
            print(f"no slow file system: {mounted.stderr.read().strip()}", file=sys.stderr)
            place.rmdir()
    try:
        told = comm.broadcast(0, json.dumps([str(shown), how]).encode())
        shown, how = json.loads(told)
        yield Path(shown), how
        comm.barrier()
    finally:
        if mounted is not None and mounted.poll() is None:
            mounted.terminate()
            mounted.wait(30)
            with contextlib.suppress(OSError):
                Path(shown).rmdir()


def _rows(comm: RawComm, folder: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each way to read, with a batch that is fixed for each rank and one that is fixed for all of them."""
    widths = [int(width) for width in args.widths.split(",")] if args.widths else _doubled(comm.size)
    batches = {"local": args.batch, "global": max(1, args.global_batch // comm.size)}
    rows = []

    def measure(way: str, width: int | None, read: Read, read_batch: Callable[[list[int]], object] | None = None) -> None:
        for kind, batch in batches.items():
            rows.append(_measure(comm, args.graphs, batch, read, read_batch) | {"way": way, "width": width, "batch": kind})

    measure("pickles", None, lambda number: _of_pickle(folder, number))
    with _adios(folder / "all.bp") as read:
        measure("adios", None, read)
    for width in widths:
        with Store(comm=comm, width=width) as store:
            # Each group reads the set once.
            store.fill(reader=lambda number: _of_pickle(folder, number), count=args.graphs, progress=False)
            measure("store", width, store.get, store.get_batch)
    return rows


def _doubled(ranks: int) -> list[int]:
    widths = [1]
    while widths[-1] * 2 < ranks:
        widths.append(widths[-1] * 2)
    return [*widths, ranks] if ranks > 1 else widths


def _of_pickle(folder: Path, number: int) -> Graph:
    with open(folder / "pickles" / f"{number // 1000:04d}" / f"{number}.pkl", "rb") as file:
        graph: Graph = pickle.load(file)
        return graph


@contextlib.contextmanager
def _adios(path: Path) -> Iterator[Read]:
    """Reads of a graph by a selection of each variable."""
    import adios2

    with adios2.FileReader(str(path)) as file:
        starts = {field: np.asarray(file.read(f"{field}_starts")) for field in FIELDS}
        widths = {field: [int(n) for n in file.inquire_variable(field).shape()[1:]] for field in FIELDS}

        def read(number: int) -> Graph:
            graph = {}
            for field in FIELDS:
                start, end = int(starts[field][number]), int(starts[field][number + 1])
                shape = [end - start, *widths[field]]
                graph[field] = np.asarray(file.read(field, start=[start] + [0] * len(widths[field]), count=shape))
            return graph

        yield read


def _measure(
    comm: RawComm, count: int, batch: int, read: Read, read_batch: Callable[[list[int]], object] | None
) -> dict[str, Any]:
    """One epoch over this rank's share, in batches: how long loading took, and joining what was loaded. Collective."""
    order = np.random.default_rng(1).permutation(count)[comm.rank :: comm.size]
    latencies, joining, by_batch = [], 0.0, 0.0
    comm.barrier()
    for first in range(0, len(order), batch):
        numbers = [int(number) for number in order[first : first + batch]]
        graphs = []
        for number in numbers:
            began = time.perf_counter()
            graphs.append(read(number))
            latencies.append(time.perf_counter() - began)
        began = time.perf_counter()
        joined = {field: np.concatenate([graph[field] for graph in graphs]) for field in FIELDS}
        joining += time.perf_counter() - began
        expected = _graph(numbers[0])["y"]
        if not np.array_equal(joined["y"][: len(expected)], expected):
            raise ForebayError(f"graph {numbers[0]} is not what was written")
    if read_batch is not None:
        # What DDStore has no word for: all of a batch at once, joined on the way. In another epoch, whose order is its own: what
        # was just read is in the processor's cache.
        comm.barrier()
        order = np.random.default_rng(2).permutation(count)[comm.rank :: comm.size]
        for first in range(0, len(order), batch):
            began = time.perf_counter()
            read_batch([int(number) for number in order[first : first + batch]])
            by_batch += time.perf_counter() - began
    mine = json.dumps([latencies, joining, by_batch]).encode()
    told = [json.loads(one) for one in comm.all_gather(mine)]
    all_latencies = np.concatenate([np.asarray(one[0]) for one in told])
    p50, p95, p99 = np.percentile(all_latencies, [50, 95, 99]) if len(all_latencies) else (0.0, 0.0, 0.0)
    loading = [float(np.sum(one[0])) for one in told]
    slowest = max(load + one[1] for load, one in zip(loading, told, strict=True))
    return {
        "p50_ms": p50 * 1e3,
        "p95_ms": p95 * 1e3,
        "p99_ms": p99 * 1e3,
        "cdf_ms": [float(one) * 1e3 for one in np.percentile(all_latencies, range(0, 101, 5))] if count else [],
        "loading_s": float(np.mean(loading)),
        "batching_s": float(np.mean([one[1] for one in told])),
        "graphs_per_s": count / slowest,
        "by_batch_graphs_per_s": count / max(one[2] for one in told) if read_batch is not None else None,
    }


def _print(rows: list[dict[str, Any]], ranks: int, how: str, args: argparse.Namespace) -> None:
    if args.json:
        print(json.dumps({"ranks": ranks, "graphs": args.graphs, "files": how, "rows": rows}, indent=2))
        return
    print(f"{ranks} ranks, {args.graphs} graphs; {how}")
    print(f"{'way':<10}{'width':>6}{'batch':>8}{'p50':>10}{'p95':>10}{'p99':>10}{'loading':>10}{'batching':>10}{'graphs/s':>10}{'by batch':>10}")
    for row in rows:
        by_batch = f"{row['by_batch_graphs_per_s']:.0f}" if row["by_batch_graphs_per_s"] else "-"
        times = "".join(f"{row[name]:>7.3f} ms" for name in ("p50_ms", "p95_ms", "p99_ms"))
        spent = f"{row['loading_s']:>8.2f} s{row['batching_s']:>8.2f} s"
        print(f"{row['way']:<10}{row['width'] or '-':>6}{row['batch']:>8}{times}{spent}{row['graphs_per_s']:>10.0f}{by_batch:>10}")


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
