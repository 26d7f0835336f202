"""Fetches source archives that have tests which wheels do not: fetch.py LIST FOLDER.

Each line of LIST is ``NAME VERSION SHA256``. pip would build an archive before it hands it out, so the index is asked here.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

TRIES = 5


def index() -> str:
    """The package index that pip uses."""
    if os.environ.get("PIP_INDEX_URL"):
        return os.environ["PIP_INDEX_URL"]
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return found or "https://pypi.org/simple"


def get(url: str) -> bytes:
    for number in range(1, TRIES + 1):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return bytes(answer.read())
        except OSError:
            if number == TRIES:
                raise
            time.sleep(number)
    raise AssertionError("unreachable")


def fetch(name: str, version: str, digest: str, folder: Path) -> None:
    """Unpacks the archive ``name-version.tar.gz`` to ``folder/name``."""
    page = f"{index().rstrip('/')}/{name}/"
    links = re.findall(r'href="([^"#]+)', get(page).decode())
    wanted = f"{name}-{version}.tar.gz"
    found = [link for link in links if link.rpartition("/")[2].lower() == wanted]
    if not found:
        sys.exit(f"{page} has no {wanted}")
    archive = get(urllib.parse.urljoin(page, found[0]))
    if hashlib.sha256(archive).hexdigest() != digest:
        sys.exit(f"{wanted} is not the archive whose SHA-256 is {digest}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        opened.extractall(folder, filter="data")
    (folder / f"{name}-{version}").rename(folder / name)


if __name__ == "__main__":
    for line in Path(sys.argv[1]).read_text().splitlines():
        if line and not line.startswith("#"):
            fetch(*line.split(), Path(sys.argv[2]))
