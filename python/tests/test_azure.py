"""Sets on Azure: a server that answers as Blob Storage does, whose lists leave out the quotes of ETags."""

from __future__ import annotations

import hashlib
import http.server
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import numpy as np
import pytest
import zarr
from conftest import same

import forebay

pytestmark = pytest.mark.usefixtures("no_tiers")

WRITTEN = "Thu, 01 Jul 2021 10:44:59 GMT"

Put = Callable[[str, bytes], None]


def tag(body: bytes) -> str:
    return "0x8D" + hashlib.sha256(body).hexdigest()[:12].upper()


class Blobs(http.server.BaseHTTPRequestHandler):
    """List Blobs and Get Blob of one container."""

    blobs: dict[str, bytes] = {}
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def refuse(self, status: int, code: str) -> None:
        body = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code></Error>'.encode()
        self.answer(status, body, x_ms_error_code=code)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        _, account, container, *key = unquote(url.path).split("/", 3)
        assert account == "devstoreaccount1" and "Authorization" in self.headers
        if container != "container":
            self.refuse(404, "ContainerNotFound")
        elif not key:
            self.list(parse_qs(url.query))
        elif key[0] not in self.blobs:
            self.refuse(404, "BlobNotFound")
        else:
            self.get(self.blobs[key[0]])

    do_HEAD = do_GET

    def get(self, body: bytes) -> None:
        headers = {"ETag": f'"{tag(body)}"', "Last_Modified": WRITTEN}
        wanted = self.headers.get("If-Match")
        if wanted is not None and wanted != headers["ETag"]:
            self.refuse(412, "ConditionNotMet")
            return
        asked = self.headers.get("Range")
        if asked is None:
            self.answer(200, body, **headers)
            return
        first, last = map(int, asked.removeprefix("bytes=").split("-"))
        part = body[first : last + 1]
        self.answer(206, part, Content_Range=f"bytes {first}-{first + len(part) - 1}/{len(body)}", **headers)

    def list(self, query: dict[str, list[str]]) -> None:
        assert query["comp"] == ["list"]
        found = [
            f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{WRITTEN}</Last-Modified><Etag>{tag(body)}</Etag>"
            f"<Content-Length>{len(body)}</Content-Length><Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
            for name, body in sorted(self.blobs.items())
            if name.startswith(query.get("prefix", [""])[0])
        ]
        body = f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>{"".join(found)}</Blobs><NextMarker/></EnumerationResults>'
        self.answer(200, body.encode(), Content_Type="application/xml")

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Iterator[Put]:
    """Puts a blob into ``az://container``."""

    class Handler(Blobs):
        blobs: dict[str, bytes] = {}

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", f"http://127.0.0.1:{server.server_port}")
    yield Handler.blobs.__setitem__
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.filterwarnings("ignore")
def test_a_zarr_store_on_azure_is_read_though_lists_leave_out_the_quotes_of_tags(put: Put, tmp_path: Path) -> None:
    values = np.arange(13 * 6, dtype="<f4").reshape(13, 6)
    root = zarr.open_group(tmp_path / "set.zarr", mode="w")
    root.create_array("plain", shape=values.shape, chunks=(2, 6), dtype="<f4", compressors=None)[...] = values
    root.create_array("packed", shape=values.shape, chunks=(4, 4), dtype="<f4")[...] = values
    for file in (tmp_path / "set.zarr").rglob("*"):
        if file.is_file():
            put(f"sets/{file.relative_to(tmp_path)}", file.read_bytes())
    ds = forebay.open("az://container/sets/set.zarr", ["plain", "packed"])
    for name in ("plain", "packed"):
        same(ds[list(range(13))][name], values)
    seen = np.concatenate([batch["plain"] for batch in ds.loader(batch_size=4)])
    same(seen, values)


def test_a_folder_of_arrays_on_azure_is_read_as_one_on_this_machine(put: Put, tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((4, 50, 8))
    folder = tmp_path / "set"
    folder.mkdir()
    for number, part in enumerate(values):
        np.save(folder / f"{number}.npy", part)
        put(f"set/{number}.npy", (folder / f"{number}.npy").read_bytes())
    rows = forebay.open("az://container/set/*.npy", ["data"])
    same(rows[list(range(200))]["data"], values.reshape(200, 8))
    for at in ("az://container/set", folder):
        same(forebay.open(at, ["data"])[[3, 0]]["data"], values[[3, 0]])


def test_a_blob_that_was_listed_and_overwritten_since_is_an_error(put: Put, tmp_path: Path) -> None:
    # Longer than what is read by one request and held.
    values = np.random.default_rng(0).random((1024, 1024))
    for added in (0, 1):
        np.save(tmp_path / f"{added}.npy", values + added)
    put("set/a.npy", (tmp_path / "0.npy").read_bytes())
    ds = forebay.open("az://container/set/*.npy", ["data"])
    same(ds[0]["data"], values[0])
    put("set/a.npy", (tmp_path / "1.npy").read_bytes())
    with pytest.raises(forebay.UnavailableError, match="changed since it was opened"):
        ds[1023]
    same(forebay.open("az://container/set/*.npy", ["data"])[1023]["data"], values[1023] + 1)


def test_a_missing_container_is_no_missing_blob(put: Put) -> None:
    put("a.bin", b"bytes")
    with pytest.raises(forebay.NotFoundError, match="no such object"):
        forebay.open("az://container/b.npy", ["data"])
    with pytest.raises(forebay.NotFoundError, match="no such bucket"):
        forebay.open("az://missing/b.npy", ["data"])
