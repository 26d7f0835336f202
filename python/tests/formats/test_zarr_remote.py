"""Zarr stores in a bucket and on a web server."""

from __future__ import annotations

import contextlib
import http.server
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import botocore.config
import numpy as np
import pytest
import zarr

# What the fixture `forebay_command` gives.
Command = Any

VALUES = np.arange(13 * 6, dtype="<f4").reshape(13, 6)


def store(path: Path, **options: Any) -> Path:
    """A group with a plain, a compressed and a sharded array, the last of which lacks chunks."""
    root = zarr.open_group(path, mode="w")
    root.create_array("plain", shape=VALUES.shape, chunks=(2, 6), dtype="<f4", compressors=None)[...] = VALUES
    root.create_array("deep/packed", shape=VALUES.shape, chunks=(4, 4), dtype="<f4")[...] = VALUES
    root.create_array("shards", shape=VALUES.shape, chunks=(2, 3), shards=(4, 6), dtype="<f4", fill_value=9)[:5] = VALUES[:5]
    return path


def same(forebay_command: Command, at: str, path: Path) -> None:
    for name in ("plain", "deep/packed", "shards"):
        forebay_command.same(at, name, zarr.open_array(path / name, mode="r")[...])


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of an S3 server of its own, and an environment that leads to it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=5).close()
            break
        assert process.poll() is None, "the server does not start"
        time.sleep(0.1)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    keys = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    for name, value in {**keys, "AWS_ENDPOINT_URL": url}.items():
        monkeypatch.setenv(name, value)
    config = botocore.config.Config(s3={"addressing_style": "path"})
    client = boto3.client("s3", endpoint_url=url, config=config, region_name="us-east-1")
    client.create_bucket(Bucket="bucket")
    yield client
    process.kill()
    process.wait()


@pytest.mark.filterwarnings("ignore")
def test_a_store_in_a_bucket(forebay_command: Command, bucket: Any, tmp_path: Path) -> None:
    path = store(tmp_path / "set.zarr")
    for file in path.rglob("*"):
        if file.is_file():
            bucket.put_object(Bucket="bucket", Key=f"sets/{file.relative_to(tmp_path)}", Body=file.read_bytes())
    # A neighbour whose name begins alike is another store.
    bucket.put_object(Bucket="bucket", Key="sets/set.zarr2/plain/c/6/0", Body=b"x")
    same(forebay_command, "s3://bucket/sets/set.zarr", path)
    forebay_command.same("s3://bucket/sets/set.zarr/plain", ".", VALUES)
    loaded = forebay_command("load", "s3://bucket/sets/set.zarr", "--field", "plain", "--batch", "4", "--json")
    assert b'"samples":13' in loaded.stdout


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves a folder by ranges, and does not say what is in it."""

    def list_directory(self, path: Any) -> None:
        self.send_error(404)

    def do_GET(self) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if asked is None or not path.is_file():
            return super().do_GET()
        whole, first, last = path.read_bytes(), int(asked[1]), int(asked[2])
        body = whole[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(whole)}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", self.date_time_string(int(path.stat().st_mtime)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.mark.filterwarnings("ignore")
def test_a_store_on_a_web_server_needs_its_metadata_in_one_place(forebay_command: Command, tmp_path: Path) -> None:
    path = store(tmp_path / "set.zarr")

    def handler(*arguments: Any) -> Files:
        return Files(*arguments, directory=str(tmp_path))

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/set.zarr"
        assert "consolidate the metadata" in forebay_command.refuses(url, "plain")
        forebay_command.same(f"{url}/plain", ".", VALUES)
        zarr.consolidate_metadata(path)
        same(forebay_command, url, path)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
