"""Programs that ask HDF5 where chunks lie, and read them out of the file by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdf5_programs import driver, plain, plugins, run

# Slow drains: what was not waited for is not in the file.
SLOW = {"FOREBAY_STAGE_BANDWIDTH": "1MiB"}


def connector(files: Path, stage: Path, **more: str) -> dict[str, str]:
    """The environment with the connector, which puts the driver below."""
    variables = {"HDF5_PLUGIN_PATH": plugins() / "vol", "HDF5_VOL_CONNECTOR": "forebay"}
    variables |= {"FOREBAY_HDF5_PATHS": files, "FOREBAY_STAGE": stage} | SLOW | more
    return plain() | {name: str(value) for name, value in variables.items()}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


BESIDE_HDF5 = """
    import json, os, sys, h5py, numpy as np

    def chunk(path, offset, size):
        with open(path, "rb") as file:
            return os.pread(file.fileno(), size, offset)

    found = []
    with h5py.File(sys.argv[1], "w") as file:
        parts = file.create_dataset("parts", (40_000,), "i4", chunks=(10_000,))
        whole = file.create_dataset("whole", data=np.full(50_000, 3, "i4"))
        for round in range(1, 4):
            parts[...] = np.arange(40_000) * round
            for number in range(4):
                info = parts.id.get_chunk_info(number)
                found.append(chunk(sys.argv[1], info.byte_offset, info.size) == parts[number * 10_000 :][:10_000].tobytes())
            whole[...] = round
            found.append(chunk(sys.argv[1], whole.id.get_offset(), 200_000) == whole[...].tobytes())
    print(json.dumps(found))
"""


@pytest.mark.parametrize("cache", [{}, {"FOREBAY_HDF5_CACHE": "memory"}, {"FOREBAY_DELAY_CLOSE": "1"}])
def test_chunks_lie_where_the_connector_says_when_it_says_so(tmp_path: Path, files: Path, cache: dict[str, str]) -> None:
    native, _ = run(BESIDE_HDF5, plain(), tmp_path / "a.h5")
    assert native == [True] * 15
    assert run(BESIDE_HDF5, connector(files, tmp_path / "fast", **cache), files / "a.h5") == (native, "")


SLICES = """
    import json, sys, numpy as np, tables

    found = []
    # They cannot be compressed, so chunks stay as long as they are, and where they are.
    values = np.random.default_rng(1).integers(0, 1 << 30, (200, 300), dtype="i4")
    with tables.open_file(sys.argv[1], "w") as file:
        filters = tables.Filters(complevel=1, complib="blosc2")
        array = file.create_carray("/", "v", obj=values, chunkshape=(50, 60), filters=filters)
        # The chunks are in the file, and older from here on than those that are staged.
        file.flush()
        for _ in range(4):
            found.append(int(array[3:150, 5:200].sum()))
            array[3:150, 5:200] = array[3:150, 5:200] ^ 0x15555555
    with tables.open_file(sys.argv[1]) as file:
        found.append(int(file.root.v[2:, 1:].sum()))
    print(json.dumps(found))
"""


@pytest.mark.parametrize("plugin", ["driver", "connector"])
def test_pytables_reads_slices_of_blosc2_that_it_wrote(tmp_path: Path, files: Path, plugin: str) -> None:
    native, _ = run(SLICES, plain(), tmp_path / "a.h5")
    fast = tmp_path / "fast"
    both = {"driver": driver(files, fast, BLOSC2_FILTER=1, **SLOW), "connector": connector(files, fast)}
    assert run(SLICES, both[plugin], files / "a.h5") == (native, "")
