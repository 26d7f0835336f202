"""A web server that counts the bytes it gives: what all processes of a cluster read of an origin."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Origin:
    """A folder behind ``url``, and the bytes that were read of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self._lock = threading.Lock()
        self.given = 0
        """Bytes that were given so far."""

    def note(self, count: int) -> None:
        """Counts bytes."""
        with self._lock:
            self.given += count

    @property
    def stored(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.folder.iterdir())


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Origin]:
    """Serves ``folder`` by ranges, from this process."""
    origin = Origin(folder)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = origin.folder / self.path.lstrip("/")
            if not path.is_file():
                self.send_error(404)
                return
            status, start, end = 200, 0, path.stat().st_size
            length = end
            if asked := self.headers.get("Range"):
                first, last = asked.removeprefix("bytes=").split("-")
                status, start, end = 206, int(first), int(last) + 1
            self.send_response(status)
            if status == 206:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{length}")
            # A date in the past: what changed a moment ago is not copied to tiers.
            self.send_header("Last-Modified", "Sat, 14 Nov 2026 10:00:00 GMT")
            self.send_header("ETag", f'"{path.stat().st_mtime_ns}"')
            self.send_header("Content-Length", str(end - start))
            self.end_headers()
            if self.command == "GET":
                with path.open("rb") as file:
                    file.seek(start)
                    self.wfile.write(file.read(end - start))
                origin.note(end - start)

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    origin.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield origin
    finally:
        server.shutdown()
        server.server_close()
