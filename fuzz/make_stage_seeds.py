#!/usr/bin/env python3
"""Makes the first inputs for the fuzz target `stage_journals`: `make_stage_seeds.py [DIR]`, where the package `forebay` is installed.

They are the files of a staging area whose process was killed: journals of new files and of updates in place, facts of
destinations, and the beginnings of segments of redo logs, which are long and hold zeros behind their records.
`pack_corpus.sh stage_journals` packs them.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus" / "stage_journals")
#: As much of a file as is kept.
MOST = 4096

NEW_FILES = """
    import sys, os, pathlib, forebay.stage
    fast, slow = map(pathlib.Path, sys.argv[1:])
    area = forebay.stage.Area(fast, free_floor=0, paused=True)
    for number, size in enumerate([0, 300, 20_000_000]):
        with forebay.stage.open(slow / f"new{number}", area=area, latest="latest" if number else None) as file:
            file.write(b"0123456789" * (size // 10))
        file.staged.result(300)
    open_file = forebay.stage.open(slow / "never sealed", area=area)
    open_file.write(b"x" * 5000)
    os.kill(os.getpid(), 9)
"""

UPDATES = """
    import sys, os, h5py, numpy as np
    with h5py.File(sys.argv[2] + "/a.h5", "w") as file:
        file["small"] = np.arange(20)
        file.flush()
        for number in range(30):
            file[f"x{number}"] = np.full(7, number)
        file["large"] = np.zeros(700_000)
        del file["large"]
        file.flush()
        file["small"][3:] = 5
        os.kill(os.getpid(), 9)
"""


def leave(source, variables):
    """What the program `source` leaves in a staging area when it is killed."""
    with tempfile.TemporaryDirectory() as place:
        fast, slow = pathlib.Path(place, "fast"), pathlib.Path(place, "slow")
        fast.mkdir(mode=0o700)
        slow.mkdir()
        known = {"FAST": str(fast), "SLOW": str(slow)}
        environment = os.environ | {name: known.get(value, value) for name, value in variables.items()}
        subprocess.run([sys.executable, "-c", textwrap.dedent(source), fast, slow], env=environment, check=False)
        for path in sorted(fast.rglob("*")):
            if path.is_file() and path.stat().st_size and path.suffix != ".data" and path.name not in ("usage", "alive"):
                yield path.name, path.read_bytes()


def main():
    import forebay

    plugin = pathlib.Path(forebay.__file__).parent / "hdf5" / "vfd"
    driver = {"HDF5_PLUGIN_PATH": str(plugin), "HDF5_DRIVER": "forebay", "FOREBAY_HDF5_PATHS": "SLOW", "FOREBAY_STAGE": "FAST"}
    found = [*leave(NEW_FILES, {}), *leave(UPDATES, driver | {"FOREBAY_DELAY_CLOSE": "1", "FOREBAY_STAGE_BANDWIDTH": "1KiB"})]
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, content) in enumerate(found):
        short = content if len(content) <= MOST else content[:MOST].rstrip(b"\0") + b"\0" * 16
        (folder / f"{number}{pathlib.Path(name).suffix or '.' + name}").write_bytes(short)
        print(name, len(content), len(short))


main()
