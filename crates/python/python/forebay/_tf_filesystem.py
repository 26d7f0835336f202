"""Paths under ``forebay://`` for TensorFlow: the file-system plug-in, registered with tiers of one's choice, and what it has read."""

from __future__ import annotations

import ctypes
import json
import os
import threading
from pathlib import Path
from typing import Any

from ._forebay import ForebayError
from ._tf_fields import tf
from ._tiers import Tiers, TierOptions

__all__ = ["filesystem_library", "filesystem_stats", "register_filesystem"]

_NAME = "libforebay_tensorflow.so"
_lock = threading.Lock()
_is_registered = False


def filesystem_library() -> Path:
    """The plug-in, for programs that register it by themselves, by ``tf.experimental.register_filesystem_plugin``.

    Its tiers are then those of the environment: ``forebay.toml``, ``FOREBAY_CONFIG``, ``FOREBAY_TIERS``.
    """
    folder = os.environ.get("FOREBAY_PLUGINS") or Path(__file__).parent / "hdf5"
    path = Path(folder) / "tensorflow" / _NAME
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: it is built for Linux, with the package or by scripts/plugins.sh")
    return path


def register_filesystem(
    tiers: Tiers | None = None,
    *,
    policy: str | None = None,
    config: str | os.PathLike[str] | None = None,
    placement_threads: int | None = None,
    tier_block: int | str | None = None,
    whole_file: bool | None = None,
    tier_ahead: int | str | None = None,
) -> None:
    """Has TensorFlow read ``forebay:///a/path`` as ``/a/path``, through tiers.

    All that opens files by TensorFlow's own names takes such paths: ``tf.io.gfile``, ``tf.io.read_file``, ``tf.data.TFRecordDataset``,
    ``tf.data.Dataset.list_files``. Only files of this machine have one; they are read and never written.

    Args:
        tiers: where copies are kept, the fastest first, such as ``"memory:4GiB"`` or ``["memory:4GiB", "disk:/nvme/me:100GiB"]``; by
            default those of the environment and ``forebay.toml``. Without any, files are read directly.
        policy: the name of the policy of the tiers.
        config: a ``forebay.toml``, or ``"none"``.
        placement_threads, tier_block, whole_file, tier_ahead: as :func:`forebay.open` takes them.

    A process registers once. A second call with the same tiers does nothing, and one with others raises.
    """
    if policy is not None and not isinstance(policy, str):
        raise TypeError("policy: TensorFlow's files take a policy by its name, as they are read without Python")
    through = TierOptions(tiers, policy, config, placement_threads, tier_block, whole_file, tier_ahead)
    if any(tier["kind"] == "peers" for tier in through.tiers):
        raise ValueError("a tier 'peers' is for data sets and loaders: TensorFlow's files have tiers of one process or node")
    path = filesystem_library()
    global _is_registered
    with _lock:
        library = _library(path)
        message = ctypes.create_string_buffer(2000)
        if library.forebay_tensorflow_open(through.config.encode(), message, len(message)) != 0:
            raise ForebayError(message.value.decode(errors="replace"))
        if not _is_registered:
            tf.experimental.register_filesystem_plugin(str(path))
            _is_registered = True


def filesystem_stats() -> dict[str, Any] | None:
    """What this process has read under ``forebay://``, and from where, as :meth:`forebay.Loader.stats` has it of tiers.

    ``None`` without tiers, and before the file system is registered.
    """
    library = _library(filesystem_library())
    length = 1 << 12
    while True:
        buffer = ctypes.create_string_buffer(length)
        needed = library.forebay_tensorflow_stats(buffer, length)
        if needed == 0:
            return None
        if needed <= length:
            stats: dict[str, Any] | None = json.loads(buffer.value)
            return stats
        length = needed + 64  # Counters grow meanwhile.


def _library(path: Path) -> ctypes.CDLL:
    """The plug-in, which is the same library that TensorFlow loads: a process has it once."""
    library = ctypes.CDLL(str(path))
    library.forebay_tensorflow_open.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    library.forebay_tensorflow_open.restype = ctypes.c_int
    library.forebay_tensorflow_stats.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.forebay_tensorflow_stats.restype = ctypes.c_size_t
    return library
