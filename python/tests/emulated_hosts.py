"""Hosts of a network of their own: namespaces of this kernel that a switch joins, each with a name, an address and a folder for sockets.

Made by root alone, with iproute2. All bytes between them cross an interface that counts them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# In a namespace of its own a process has its own network; by --uts it has its own host name too, and what it mounts is seen by nobody.
ENTER = """#!/usr/bin/env bash
# enter HOST COMMAND…: as a launcher calls ssh, options first.
while [[ $1 == -* ]]; do shift; done
host=${{1##*@}}
shift
exec ip netns exec "{run}-$host" unshare --uts --mount bash -c '
    mount --bind {folder}/hosts /etc/hosts && hostname "$0" || exit
    export XDG_RUNTIME_DIR={folder}/$0
    bash -c "$*"
' "$host" "$@"
"""


class EmulatedHosts:
    """Hosts called ``host1``, ``host2`` and so on."""

    def __init__(self, count: int, folder: Path) -> None:
        self.folder = folder
        self.names = [f"host{number + 1}" for number in range(count)]
        self.addresses = [f"10.77.0.{number + 1}" for number in range(count)]
        self.enter = folder / "enter"
        self._run = "fb" + uuid.uuid4().hex[:6]

    def start(self) -> None:
        """Makes the network."""
        self.folder.joinpath("hosts").write_text(
            "127.0.0.1 localhost\n"
            + "".join(f"{address} {name}\n" for name, address in zip(self.names, self.addresses, strict=True))
        )
        self.enter.write_text(ENTER.format(run=self._run, folder=self.folder))
        self.enter.chmod(0o755)
        switch = f"{self._run}-switch"
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", switch, "link", "set", "switch", "up")
        for name, address in zip(self.names, self.addresses, strict=True):
            space = f"{self._run}-{name}"
            self.folder.joinpath(name).mkdir(mode=0o700)
            _ip("netns", "add", space)
            _ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", name, "netns", switch)
            _ip("-n", switch, "link", "set", name, "master", "switch", "up")
            _ip("-n", space, "address", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")

    def stop(self) -> None:
        """Removes it."""
        for name in [*self.names, "switch"]:
            subprocess.run(["ip", "netns", "delete", f"{self._run}-{name}"], capture_output=True, check=False)

    def on(self, number: int, *command: str) -> list[str]:
        """The command that runs ``command`` on host ``number``."""
        return [str(self.enter), self.names[number], "exec", *map(_quoted, command)]

    def received(self) -> int:
        """How many bytes have come to all hosts."""
        statistics = "/sys/class/net/eth0/statistics/rx_bytes"
        counts = [_ip("netns", "exec", f"{self._run}-{name}", "cat", statistics) for name in self.names]
        return sum(map(int, counts))


@contextmanager
def emulated_hosts(count: int, folder: Path) -> Iterator[EmulatedHosts]:
    """``count`` hosts; the test is skipped where none can be made."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("emulated hosts need root and iproute2")
    hosts = EmulatedHosts(count, folder)
    try:
        try:
            hosts.start()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr}")
        yield hosts
    finally:
        hosts.stop()


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
