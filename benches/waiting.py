"""Data that have to be waited for: a disk whose page cache is empty, and a web server that takes 30 ms for each request.

Each is read by a loader with its default options, and by a bare loop that keeps so many requests in flight, in turns; the
figure is the loader's bytes a second over the loop's. See --help.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import multiprocessing
import os
import pathlib
import random
import re
import socket
import statistics
import threading
import time

import h5py
import numpy as np

import forebay

MIB = 1 << 20


def make_set(path: pathlib.Path, samples: int, sample_bytes: int) -> int:
    """Makes a set of samples that lie side by side, unless it is there; gives where the first one begins."""
    if not path.exists():
        part = path.with_suffix(".part")
        noise = np.random.default_rng(0).integers(0, 256, (64, sample_bytes), dtype="u1")
        with h5py.File(part, "w") as file:
            rows = file.create_dataset("x", (samples, sample_bytes), "u1")
            for start in range(0, samples, 64):
                rows[start : start + 64] = noise[: samples - start]
        part.rename(path)
    with h5py.File(path) as file:
        return int(file["x"].id.get_offset())


def forget(path: pathlib.Path) -> None:
    """Empties the page cache of ``path``."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def in_flight(count: int, order: list[int], read: object) -> float:
    """Seconds in which ``count`` threads read all of ``order``, each by a reader of its own that ``read()`` makes."""
    numbers = iter(order)
    lock = threading.Lock()

    def work() -> None:
        one = read()  # type: ignore[operator]
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            one(number)

    threads = [threading.Thread(target=work) for _ in range(count)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def load(place: str, options: dict[str, object]) -> tuple[float, dict[str, object]]:
    """Seconds of one epoch in random order, opening included, and what was in force."""
    began = time.perf_counter()
    loader = forebay.open(place, ["x"]).loader(shuffle="full", seed=1, **options)
    count = sum(len(batch["x"]) for batch in loader)
    taken = time.perf_counter() - began
    assert count == len(loader.dataset)
    return taken, loader.stats()["in_force"]


def cold_disk(args: argparse.Namespace) -> list[float]:
    sample = 64 << 10
    samples = args.disk_mib * MIB // sample
    path = args.folder / f"cold-{args.disk_mib}.h5"
    start = make_set(path, samples, sample)
    order = random.Random(1).sample(range(samples), samples)
    file = os.open(path, os.O_RDONLY)

    def reader() -> object:
        memory = bytearray(sample)
        return lambda number: os.preadv(file, [memory], start + number * sample)

    ratios = []
    for _ in range(args.rounds):
        forget(path)
        raw = in_flight(16, order, reader)
        forget(path)
        ours, told = load(str(path), {"batch_size": args.batch})
        rate = args.disk_mib / raw
        ratios.append(raw / ours)
        print(f"disk: 16 requests in flight {rate:.0f} MiB/s, a loader {args.disk_mib / ours:.0f} MiB/s: {raw / ours:.2f}, {told}", flush=True)
    return ratios


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, content: memoryview, delay: float) -> None:
    """Answers requests for ranges of ``content``, each after ``delay`` seconds."""
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        try:
            asked = (await reader.readuntil(b"\r\n\r\n")).decode()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            return
        await asyncio.sleep(delay)
        found = re.search(r"range: bytes=(\d+)-(\d*)", asked, re.IGNORECASE)
        head = 'ETag: "1"\r\nAccept-Ranges: bytes\r\nLast-Modified: Mon, 06 Jan 2020 10:00:00 GMT\r\n'
        if found:
            first, last = int(found[1]), min(int(found[2] or len(content) - 1), len(content) - 1)
            status = f"206 Partial Content\r\nContent-Range: bytes {first}-{last}/{len(content)}"
        else:
            first, last, status = 0, len(content) - 1, "200 OK"
        writer.write(f"HTTP/1.1 {status}\r\n{head}Content-Length: {last + 1 - first}\r\n\r\n".encode())
        if not asked.startswith("HEAD"):
            writer.write(content[first : last + 1])
        await writer.drain()


def serve(path: str, delay: float, port: "multiprocessing.Queue[int]") -> None:
    with open(path, "rb") as file:
        content = memoryview(file.read())

    async def run() -> None:
        server = await asyncio.start_server(lambda r, w: answer(r, w, content, delay), "127.0.0.1", 0, limit=1 << 16)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def web_server(args: argparse.Namespace) -> list[float]:
    sample = MIB
    samples = args.web_mib
    path = args.folder / f"web-{args.web_mib}.h5"
    start = make_set(path, samples, sample)
    told_port: "multiprocessing.Queue[int]" = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(str(path), 0.03, told_port), daemon=True)
    server.start()
    port = told_port.get(timeout=60)
    order = random.Random(1).sample(range(samples), samples)

    def reader() -> object:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        memory = bytearray(sample)

        def one(number: int) -> None:
            first = start + number * sample
            connection.request("GET", f"/{path.name}", headers={"Range": f"bytes={first}-{first + sample - 1}"})
            response, at = connection.getresponse(), 0
            while at < sample:
                at += response.readinto(memoryview(memory)[at:])

        return one

    ratios = []
    for _ in range(args.rounds):
        raw = in_flight(64, order, reader)
        ours, told = load(f"http://127.0.0.1:{port}/{path.name}", {"batch_size": args.web_batch, "memory": "512MiB", "spill_quota": 0})
        ratios.append(raw / ours)
        print(f"web server: 64 requests in flight {samples / raw:.0f} MiB/s, a loader {samples / ours:.0f} MiB/s: {raw / ours:.2f}, {told}", flush=True)
    server.kill()
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the sets are kept, on the disk that is measured")
    parser.add_argument("--disk-mib", type=int, default=8192)
    parser.add_argument("--web-mib", type=int, default=4096, help="2 s and more, so that opening counts as it does for a user [4096]")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--web-batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["disk", "web"])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    figures = {}
    if args.only != "web":
        figures["disk"] = cold_disk(args)
    if args.only != "disk":
        figures["web"] = web_server(args)
    for name, ratios in figures.items():
        print(f"{name}: {statistics.median(ratios):.2f} of the bare loop, {min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds")
    if args.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
