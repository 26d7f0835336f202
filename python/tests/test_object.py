"""Sets behind URLs: an S3 server and a web server of their own, files made by h5py."""

from __future__ import annotations

import contextlib
import email.utils
import http.server
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import botocore.config
import h5py
import numpy as np
import pytest
from conftest import Make, images, same

import forebay

pytestmark = pytest.mark.usefixtures("no_tiers")

KEYS = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Server:
    """An S3 server in a process of its own, which forgets everything when it stops."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, **quiet)  # type: ignore[call-overload]
        for _ in range(300):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(self.url, timeout=5).close()
                break
            assert self.process.poll() is None, "the server does not start"
            time.sleep(0.1)
        config = botocore.config.Config(s3={"addressing_style": "path"})
        keys = {"aws_access_key_id": "writer", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
        self.client = boto3.client("s3", endpoint_url=self.url, config=config, **keys)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def put(self, bucket: str, key: str, body: bytes) -> None:
        with contextlib.suppress(self.client.exceptions.BucketAlreadyOwnedByYou):
            self.client.create_bucket(Bucket=bucket)
        self.client.put_object(Bucket=bucket, Key=key, Body=body)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def s3(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, and an environment that leads to it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": server.url}.items():
        monkeypatch.setenv(name, value)
    return server


def upload(server: Server, make: Make, bucket: str, count: int = 3, rows: int = 20) -> np.ndarray[Any, Any]:
    """Files ``set/0.h5`` and so on; gives the images of all of them."""
    parts = []
    for number in range(count):
        part = images(rows, number)
        chunked = (part, {"chunks": (4, 6, 5, 3), "compression": "gzip"})
        path = make(f"{number}.h5", image=chunked, label=np.arange(rows) + rows * number)
        server.put(bucket, f"set/{number}.h5", path.read_bytes())
        parts.append(part)
    return np.concatenate(parts)


def test_a_pattern_of_objects_is_read_bit_for_bit(s3: Server, make: Make) -> None:
    whole = upload(s3, make, "plain")
    s3.put("plain", "set/notes.txt", b"notes")
    s3.put("plain", "set/deeper/9.h5", make("9.h5", image=images(1)).read_bytes())
    ds = forebay.open("s3://plain/set/*.h5", ["image"], label="label")
    assert len(ds) == len(whole)
    same(ds[[59, 3, 3, 20]]["image"], whole[[59, 3, 3, 20]])
    seen = np.empty_like(whole)
    for batch in ds.loader(batch_size=7, shuffle="full", seed=3, read_threads=2):
        seen[batch.indices] = batch["image"]
    same(seen, whole)


def test_how_long_reads_of_objects_took_is_told(s3: Server, make: Make) -> None:
    upload(s3, make, "measured")
    ds = forebay.open("s3://measured/set/*.h5", ["image"])
    loader = ds.loader(batch_size=7, shuffle="full")
    list(loader)
    for latency in (ds.stats()["origin_latency"], loader.stats()["origin_latency"]):
        assert latency["count"] >= 3, "a read of each file at least"
        assert 0 < latency["p50_ns"] <= latency["p90_ns"] <= latency["p99_ns"] <= latency["max_ns"]
        assert latency["mean_ns"] <= latency["max_ns"]
    near = forebay.open(str(make("near.h5", image=images(5))), ["image"])
    near[0]
    assert near.stats()["origin_latency"]["count"] == 0


def test_patterns_stop_at_slashes_and_folders_take_all_that_can_be_read(s3: Server, make: Make) -> None:
    for key in ["a/1.h5", "a/2.h5", "a/b/3.h5", "a/b/c/4.h5"]:
        s3.put("tree", key, make("one.h5", x=np.full(1, int(key[-4]))).read_bytes())
    s3.put("tree", "a/notes.txt", b"notes")

    def found(pattern: str) -> list[int]:
        ds = forebay.open(pattern, ["x"])
        return [int(value) for value in ds[list(range(len(ds)))]["x"]]

    assert found("s3://tree/a/*.h5") == [1, 2]
    assert found("s3://tree/a/*/*.h5") == [3]
    assert found("s3://tree/a/**/*.h5") == [1, 2, 3, 4]
    assert found("s3://tree/a/[12].h5") == [1, 2]
    assert found("s3://tree/a/?.h5") == [1, 2]
    assert found("s3://tree/a/b/3.h5") == [3]
    assert found("s3://tree/a/") == [1, 2, 3, 4]
    assert found("s3://tree/") == [1, 2, 3, 4]
    with pytest.raises(forebay.NotFoundError, match="no object matches"):
        forebay.open("s3://tree/a/*.nc", ["x"])
    with pytest.raises(forebay.InvalidError, match="wildcard in the name of a bucket"):
        forebay.open("s3://tr*/a/1.h5", ["x"])


def test_large_objects_are_read_in_parts(s3: Server, make: Make) -> None:
    values = np.random.default_rng(0).random((64, 65536))
    s3.put("large", "a.h5", make(x=values).read_bytes())
    ds = forebay.open("s3://large/a.h5", ["x"])
    same(ds[list(range(64))]["x"], values)
    same(ds[[63, 0]]["x"], values[[63, 0]])


def test_threads_read_at_once(s3: Server, make: Make) -> None:
    whole = upload(s3, make, "threads")
    ds = forebay.open("s3://threads/set/*.h5", ["image"])

    def read(seed: int) -> None:
        for number in np.random.default_rng(seed).integers(0, len(whole), 50):
            same(ds[int(number)]["image"], whole[number])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(8)))


def test_a_forked_process_reads_on(s3: Server, make: Make) -> None:
    whole = upload(s3, make, "forked")
    ds = forebay.open("s3://forked/set/*.h5", ["image"])
    same(ds[0]["image"], whole[0])
    child = os.fork()
    if child == 0:
        try:
            right = all(ds[number]["image"].tobytes() == whole[number].tobytes() for number in range(len(whole)))
            os._exit(0 if right else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    same(ds[59]["image"], whole[59])


def test_an_object_overwritten_during_a_run_is_an_error(s3: Server, make: Make) -> None:
    values = np.random.default_rng(0).random((256, 8192))
    path = make(x=(values, {"chunks": (1, 8192)}))
    s3.put("changing", "a.h5", path.read_bytes())
    ds = forebay.open("s3://changing/a.h5", ["x"])
    seen = 0
    with pytest.raises(forebay.UnavailableError, match=r"s3://changing/a\.h5.*changed since it was opened"):
        for batch in ds.loader(batch_size=4, memory="16MiB", prefetch=1, read_threads=1):
            same(batch["x"], values[batch.indices])
            seen += 1
            if seen == 2:
                s3.put("changing", "a.h5", make("b.h5", x=(values + 1, {"chunks": (1, 8192)})).read_bytes())
    assert 2 <= seen < 64
    same(forebay.open("s3://changing/a.h5", ["x"])[0]["x"], values[0] + 1)


def test_what_is_missing_is_named(s3: Server) -> None:
    s3.put("there", "a.txt", b"text")
    with pytest.raises(forebay.NotFoundError, match=r"s3://there/b\.h5: no such object"):
        forebay.open("s3://there/b.h5", ["x"])
    for _ in range(2):
        with pytest.raises(forebay.NotFoundError, match=r"s3://nowhere/a\.h5: no such bucket"):
            forebay.open("s3://nowhere/a.h5", ["x"])
    with pytest.raises(forebay.NotFoundError, match="no such bucket"):
        forebay.open("s3://nowhere/*.h5", ["x"])
    with pytest.raises(forebay.UnsupportedError, match=r"s3://there/a\.txt"):
        forebay.open("s3://there/a.txt", ["x"])
    with pytest.raises(forebay.UnsupportedError, match="URLs of 'ftp' are not read"):
        forebay.open("ftp://host/a.h5", ["x"])


def test_a_server_that_is_not_there_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FOREBAY_REMOTE_WAIT", "1")
    began = time.monotonic()
    with pytest.raises(forebay.UnavailableError, match="cannot be reached.*AWS_ENDPOINT_URL"):
        forebay.open("s3://bucket/a.h5", ["x"])
    assert time.monotonic() - began < 15


class Refusing(http.server.BaseHTTPRequestHandler):
    """Lets nobody in."""

    def do_GET(self) -> None:
        self.send_error(403)

    do_HEAD = do_GET

    def log_message(self, *arguments: Any) -> None:
        pass


@contextlib.contextmanager
def serving(handler: Any) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_wrong_credentials_are_denied_and_the_variables_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Refusing) as url:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": url}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(forebay.DeniedError, match="AWS_ACCESS_KEY_ID"):
            forebay.open("s3://bucket/a.h5", ["x"])
        with pytest.raises(forebay.DeniedError, match="AWS_ACCESS_KEY_ID"):
            forebay.open("s3://bucket/*.h5", ["x"])
        with pytest.raises(forebay.DeniedError):
            forebay.open(f"{url}/a.h5", ["x"])


@pytest.mark.timeout(120)
def test_a_run_outlives_a_restart_of_the_server(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    try:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": server.url}.items():
            monkeypatch.setenv(name, value)
        values = np.random.default_rng(0).random((256, 8192))
        body = make(x=(values, {"chunks": (1, 8192)})).read_bytes()
        server.put("restarted", "a.h5", body)
        ds = forebay.open("s3://restarted/a.h5", ["x"])
        seen = []
        try:
            for batch in ds.loader(batch_size=4, memory="16MiB", prefetch=1, read_threads=1):
                same(batch["x"], values[batch.indices])
                seen.extend(batch.indices)
                if len(seen) == 8:
                    server.stop()
                    restart = threading.Timer(1, lambda: (server.start(), server.put("restarted", "a.h5", body)))
                    restart.start()
        except forebay.UnavailableError as error:
            # Asked between the start of the server and the upload.
            assert "s3://restarted/a.h5" in str(error)
        else:
            assert sorted(seen) == list(range(256))
        restart.join()
        same(forebay.open("s3://restarted/a.h5", ["x"])[255]["x"], values[255])
    finally:
        server.stop()


@pytest.mark.timeout(120)
def test_objects_are_read_through_tiers_which_outlive_the_server(make: Make, monkeypatch: pytest.MonkeyPatch,
                                                                 tmp_path: Path) -> None:
    server = Server()
    try:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": server.url, "FOREBAY_REMOTE_WAIT": "2"}.items():
            monkeypatch.setenv(name, value)
        whole = upload(server, make, "tiered")
        ds = forebay.open("s3://tiered/set/*.h5", ["image"], tiers=["memory:64KiB", f"disk:{tmp_path / 'tier'}:64MiB"])
        ds.warm()
        assert ds.stats()["tiers"]["origin"]["bytes"] == sum(
            item["Size"] for item in server.client.list_objects_v2(Bucket="tiered")["Contents"]
        ), "each byte was read once"
        server.stop()
        seen = np.empty_like(whole)
        for batch in ds.loader(batch_size=7, shuffle="full", seed=3):
            seen[batch.indices] = batch["image"]
        same(seen, whole)
    finally:
        server.stop()


def test_links_of_a_remote_file_stay_in_its_bucket(s3: Server, make: Make, tmp_path: Path) -> None:
    secret = make("secret.h5", x=np.arange(4))
    raw = tmp_path / "secret.bin"
    raw.write_bytes(b"secret--" * 8)
    s3.put("links", "near.h5", make("near.h5", x=np.arange(4) + 10).read_bytes())
    path = tmp_path / "links.h5"
    with h5py.File(path, "w") as file:
        file["near"] = h5py.ExternalLink("near.h5", "/x")
        file["absolute"] = h5py.ExternalLink(str(secret), "/x")
        file["url"] = h5py.ExternalLink(f"file://{secret}", "/x")
        file["climbing"] = h5py.ExternalLink("../" * 20 + str(secret).lstrip("/"), "/x")
        file.create_dataset("raw", (8,), "i8", external=[(str(raw), 0, 64)])
        layout = h5py.VirtualLayout((4,), "i8")
        layout[:] = h5py.VirtualSource(str(secret), "x", (4,))
        file.create_virtual_dataset("virtual", layout, fillvalue=-1)
    s3.put("links", "set/links.h5", path.read_bytes())
    s3.put("links", "set/near.h5", make("near.h5", x=np.arange(4) + 20).read_bytes())
    same(forebay.open("s3://links/set/links.h5", ["near"])[[0, 1]]["near"], np.array([20, 21]))
    for name in ["absolute", "url", "climbing", "raw"]:
        with pytest.raises(forebay.ForebayError):
            forebay.open("s3://links/set/links.h5", [name])[0]
    # As everywhere, a source that is not there leaves the fill value.
    same(forebay.open("s3://links/set/links.h5", ["virtual"])[[0, 1]]["virtual"], np.array([-1, -1]))
    # The same file here shows that the links themselves are right.
    same(forebay.open(path, ["absolute"])[[1]]["absolute"], np.array([1]))


def test_saved_indexes_serve_objects(s3: Server, make: Make, tmp_path: Path, program: Callable[..., Any]) -> None:
    values = np.arange(4096)
    s3.put("indexed", "a.h5", make(x=(values, {"chunks": (1,)})).read_bytes())
    cache = tmp_path / "cache"
    source = """
        import os, sys, forebay
        os.environ["FOREBAY_CACHE"] = sys.argv[1]
        print(int(forebay.open("s3://indexed/a.h5", ["x"])[4095]["x"]))
    """
    assert program(source, cache).stdout.split() == ["4095"]
    assert len(list((cache / "index").iterdir())) == 1
    assert program(source, cache).stdout.split() == ["4095"]
    s3.put("indexed", "a.h5", make(x=(values + 1, {"chunks": (1,)})).read_bytes())
    assert program(source, cache).stdout.split() == ["4096"]


class Ranges(http.server.BaseHTTPRequestHandler):
    """Serves ``bodies`` by ranges, with the headers in ``said``."""

    bodies: dict[str, bytes] = {}
    said: dict[str, str] = {}
    by_ranges = True
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.bodies.get(self.path)
        if body is None:
            self.send_error(404)
            return
        status, start, end = 200, 0, len(body)
        asked = self.headers.get("Range")
        if asked and self.by_ranges:
            first, last = asked.removeprefix("bytes=").split("-")
            status, start, end = 206, int(first), int(last) + 1
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(body)}")
        for name, value in self.said.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[start:end])

    do_HEAD = do_GET

    def log_message(self, *arguments: Any) -> None:
        pass


SAID = [{"ETag": '"1"'}, {"ETag": 'W/"1"'}, {"Last-Modified": "Sat, 14 Nov 2026 10:00:00 GMT"}, {}]


@pytest.mark.parametrize("said", SAID, ids=["tag", "weak tag", "date", "nothing"])
def test_files_of_a_web_server_are_read_by_ranges(make: Make, said: dict[str, str]) -> None:
    values = np.random.default_rng(0).random((64, 16384))
    body = make(x=values).read_bytes()

    class Handler(Ranges):
        bodies = {"/d/a%20b.h5": body}

    Handler.said = said
    with serving(Handler) as url:
        ds = forebay.open(f"{url}/d/a%20b.h5", ["x"])
        same(ds[[63, 5]]["x"], values[[63, 5]])
        same(ds[list(range(64))]["x"], values)
        with pytest.raises(forebay.NotFoundError):
            forebay.open(f"{url}/missing.h5", ["x"])
        with pytest.raises(forebay.UnsupportedError, match="which files it has"):
            forebay.open(f"{url}/d/*.h5", ["x"])


ONE, NEXT = (f"Sat, 14 Nov 2026 10:00:0{second} GMT" for second in (0, 1))
CHANGES = {
    "tag": ({"ETag": '"1"'}, {"ETag": '"2"'}),
    "weak tag": ({"ETag": 'W/"1"'}, {"ETag": 'W/"2"'}),
    "date": ({"Last-Modified": ONE}, {"Last-Modified": NEXT}),
    # A weak tag does not promise the same bytes.
    "date beside a weak tag": ({"ETag": 'W/"1"', "Last-Modified": ONE}, {"ETag": 'W/"1"', "Last-Modified": NEXT}),
}


@pytest.mark.parametrize(("before", "after"), list(CHANGES.values()), ids=list(CHANGES))
def test_a_web_server_that_ignores_conditions_is_caught(
    make: Make, before: dict[str, str], after: dict[str, str]
) -> None:
    values = np.random.default_rng(0).random((512, 16384))

    class Handler(Ranges):
        bodies = {"/a.h5": make(x=values).read_bytes()}

    Handler.said = before
    with serving(Handler) as url:
        ds = forebay.open(f"{url}/a.h5", ["x"])
        same(ds[0]["x"], values[0])
        Handler.bodies = {"/a.h5": make("b.h5", x=values + 1).read_bytes()}
        Handler.said = after
        with pytest.raises(forebay.UnavailableError, match="changed since it was opened"):
            ds[511]


def chunks_in_order(path: Path, order: Iterable[int]) -> bytes:
    """A file of 0, 1, 2 …, whose chunks lie in ``order``."""
    with h5py.File(path, "w", libver="latest") as file:
        x = file.create_dataset("x", (4096,), "<i8", chunks=(1,))
        for number in order:
            x.id.write_direct_chunk((number,), np.int64(number).tobytes())
    return path.read_bytes()


@pytest.mark.parametrize("tag", ['"6555-800"', 'W/"6555-800"'], ids=["tag", "weak tag"])
def test_nothing_is_kept_under_the_tag_of_a_web_server_while_a_second_write_could_have_it(
    tmp_path: Path, program: Callable[..., Any], tag: str
) -> None:
    first = chunks_in_order(tmp_path / "a.h5", range(4096))
    second = chunks_in_order(tmp_path / "b.h5", reversed(range(4096)))
    assert len(first) == len(second) and first != second

    class Handler(Ranges):
        pass

    source = """
        import os, sys, forebay
        os.environ["FOREBAY_CACHE"] = sys.argv[1]
        print(int(forebay.open(sys.argv[2], ["x"])[7]["x"]))
    """
    cache = tmp_path / "cache"
    with serving(Handler) as url:
        # Servers make tags of the second and the length. The second lies ahead, so that it lasts as long as this test.
        Handler.said = {"ETag": tag, "Last-Modified": email.utils.formatdate(time.time() + 3600, usegmt=True)}
        for body in (first, second):
            Handler.bodies = {"/a.h5": body}
            assert program(source, cache, f"{url}/a.h5").stdout.split() == ["7"]
        Handler.said = {"ETag": tag, "Last-Modified": "Tue, 14 Nov 2023 10:00:00 GMT"}
        assert program(source, cache, f"{url}/a.h5").stdout.split() == ["7"]
    assert len(list((cache / "index").iterdir())) == 1, "what has settled is kept"


def test_a_web_server_without_ranges_is_refused_by_name(make: Make) -> None:
    class Handler(Ranges):
        bodies = {"/a.h5": make(x=np.arange(100_000)).read_bytes()}
        by_ranges = False

    with serving(Handler) as url, pytest.raises(forebay.UnsupportedError, match="whole files only"):
        forebay.open(f"{url}/a.h5", ["x"])
