"""Files copied to tiers before anybody reads them."""

from __future__ import annotations

import http.server
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import COUNT, FILES, PROMPT, image_of, in_fork, plain

import forebay

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def test_warming_copies_all_and_then_nothing_is_read_from_the_origin(origin: Path, disk: dict[str, Any]) -> None:
    ds = plain(origin, tiers=disk)
    told: list[dict[str, Any]] = []
    warmed = ds.warm(progress=told.append, threads=2)
    size = sum(path.stat().st_size for path in origin.glob("plain*.h5"))
    assert warmed["sources"] == FILES and warmed["bytes"] == size and warmed["refused_bytes"] == 0
    assert warmed["placed_bytes"] + warmed["present_bytes"] == size and told[-1] == warmed
    assert warmed["passed_over"] == 0
    before = ds.stats()["tiers"]["origin"]["reads"]
    assert (ds[:]["x"] == image_of(np.arange(FILES * COUNT))).all()
    assert ds.stats()["tiers"]["origin"]["reads"] == before
    again = ds.warm()
    assert again["present_bytes"] == size and again["placed_bytes"] == 0


def test_warming_without_tiers_says_how_to_give_some(origin: Path) -> None:
    with pytest.raises(forebay.InvalidError, match=r"no tiers.*tiers=\[.*forebay\.toml"):
        plain(origin, tiers=[]).warm()
    with pytest.raises(ValueError, match="at least 1"):
        plain(origin, tiers="memory:1MiB").warm(threads=0)


def test_what_found_no_room_is_warned_about(origin: Path) -> None:
    ds = plain(origin, tiers="memory:1MiB", policy="first-fit", tier_block="64KiB")
    with pytest.warns(RuntimeWarning, match="found no room in the tiers") as seen:
        warmed = ds.warm()
    assert [warned.category for warned in seen if issubclass(warned.category, forebay.ForebayWarning)]
    assert 0 < warmed["refused_bytes"] < warmed["bytes"]


class SlowServer(http.server.BaseHTTPRequestHandler):
    """A web server that takes its time."""

    protocol_version = "HTTP/1.1"
    body = b""
    pause = 0.0

    def do_HEAD(self) -> None:
        self.answer(200, b"", len(self.body))

    def do_GET(self) -> None:
        asked = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked is None:
            return self.answer(200, self.body, len(self.body))
        time.sleep(self.pause)
        start, end = int(asked[1]), min(int(asked[2]) + 1, len(self.body))
        self.answer(206, self.body[start:end], end - start, f"bytes {start}-{end - 1}/{len(self.body)}")

    def answer(self, status: int, body: bytes, length: int, part: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.send_header("ETag", '"one"')
        self.send_header("Last-Modified", "Mon, 06 Jan 2020 00:00:00 GMT")
        if part is not None:
            self.send_header("Content-Range", part)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """The address of a file of 24 MiB that takes 50 ms a request, and its length."""
    path = tmp_path / "slow.h5"
    with h5py.File(path, "w") as file:
        file["x"] = image_of(np.arange(6144))
    SlowServer.body, SlowServer.pause = path.read_bytes(), 0.05
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), SlowServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/slow.h5", len(SlowServer.body)
        server.shutdown()


def test_warming_in_the_background_is_cancelled_and_resumed(slow: tuple[str, int], disk: dict[str, Any]) -> None:
    address, size = slow
    ds = forebay.open(address, ["x"], tiers=disk, whole_file=False)
    warming = ds.warm(background=True, threads=1)
    assert warming.wait(0.3)["bytes"] == size and not warming.done and "done" not in repr(warming)
    warming.cancel()
    part = warming.wait()
    assert warming.done and 0 < part["placed_bytes"] < size and part == warming.stats()
    SlowServer.pause = 0
    rest = ds.warm(background=True).wait()
    assert rest["present_bytes"] >= part["placed_bytes"]
    assert rest["present_bytes"] + rest["placed_bytes"] == rest["bytes"] == size
    reads = ds.stats()["tiers"]["origin"]["reads"]
    assert (ds[::100]["x"] == image_of(np.arange(0, 6144, 100))).all()
    assert ds.stats()["tiers"]["origin"]["reads"] == reads


def test_an_error_ends_warming_and_is_raised(origin: Path, tmp_path: Path, disk: dict[str, Any]) -> None:
    folder = Path(tempfile.mkdtemp(dir=origin))
    shutil.copy2(origin / "plain0.h5", folder / "gone.h5")
    ds = forebay.open(folder / "gone.h5", ["x"], tiers=disk)
    (folder / "gone.h5").unlink()
    with pytest.raises(forebay.ForebayError, match=r"gone\.h5"):
        ds.warm()


def test_ctrl_c_ends_warming_within_a_second_and_keeps_what_was_done(
    slow: tuple[str, int], tmp_path: Path, disk: dict[str, Any]
) -> None:
    address, size = slow
    source = """
import signal, sys, forebay
signal.signal(signal.SIGINT, signal.default_int_handler)
ds = forebay.open(sys.argv[1], ["x"], tiers={"path": sys.argv[2], "keep": True, "free": 0}, whole_file=False)
print("ready", flush=True)
try: ds.warm(threads=1)
except KeyboardInterrupt: print("interrupted", flush=True)
"""
    script = tmp_path / "warm.py"
    script.write_text(source)
    child = subprocess.Popen([sys.executable, str(script), address, disk["path"]], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n" and time.monotonic() - began < PROMPT
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.wait()
    SlowServer.pause = 0
    warmed = forebay.open(address, ["x"], tiers={**disk, "keep": True}, whole_file=False).warm()
    assert 0 < warmed["present_bytes"] < size and warmed["placed_bytes"] > 0


def test_a_child_may_be_forked_while_files_are_warmed(slow: tuple[str, int], disk: dict[str, Any]) -> None:
    ds = forebay.open(slow[0], ["x"], tiers=disk)
    warming = ds.warm(background=True, threads=1)
    for seed in range(3):
        in_fork(lambda: ds[seed] and None)
    warming.cancel()
    warming.wait()
