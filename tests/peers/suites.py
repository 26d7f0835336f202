"""Which tests of which libraries write files for us."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Suite:
    """A library's tests: what of it runs, what is watched, and how long."""

    name: str
    watch: str
    """The libraries whose files are seen when they are closed; ``watch.py`` has a function for each."""
    tests: tuple[str, ...]
    """What pytest is given: modules of an installed package, or files of a source archive."""
    minutes: int
    """After so many no further test begins."""
    least: int
    """Fewer values that match mean that the hooks see nothing."""
    short: str = ""
    """What ``-k`` selects for a short run."""
    source: str | None = None
    """The source archive that has the tests, where the wheel has none."""
    cf: bool = False
    """Whether values are also unpacked, and compared with xarray's."""


def _modules(package: str, *names: str) -> tuple[str, ...]:
    return ("--pyargs", *(f"{package}.{name}" for name in names))


# The longest first: two run at a time.
SUITES = (
    Suite(
        "xarray",
        "h5py,netcdf4,scipy,zarr,xarray",
        _modules("xarray.tests", "test_backends", "test_backends_datatree"),
        minutes=25,
        least=5000,
        short="TestNetCDF4Data and roundtrip",
        cf=True,
    ),
    Suite(
        "tables",
        "tables",
        # Those of queries and of indexes' values read the same few tables sixty thousand times.
        _modules(
            "tables.tests",
            *("test_vlarray", "test_enum", "test_nestedtypes", "test_timetype", "test_types", "test_tablesMD", "test_numpy"),
            *("test_create", "test_attributes", "test_hdf5compat", "test_backcompat", "test_links", "test_direct_chunk"),
            *("test_array", "test_carray", "test_earray", "test_tables", "test_basics", "test_tree"),
        ),
        minutes=20,
        least=1500,
        short="test_enum or test_vlarray",
    ),
    Suite(
        "anndata",
        "h5py,zarr",
        (
            "--import-mode=importlib",
            "-ptesting.anndata._pytest",
            *("-o", "strict=false"),
            *("tests/test_readwrite.py", "tests/test_backed_hdf5.py", "tests/test_structured_arrays.py"),
            *("tests/test_awkward.py", "tests/test_io_elementwise.py"),
        ),
        minutes=15,
        least=5000,
        short="test_readwrite_h5ad",
        source="anndata",
    ),
    Suite(
        "zarr",
        "zarr",
        (
            *("-o", "filterwarnings=ignore"),
            # They look at documentation, or make thousands of stores of which the last is seen.
            *("--ignore=tests/test_api/test_synchronous.py", "--ignore=tests/test_examples.py"),
            *("--ignore=tests/benchmarks", "--ignore=tests/test_properties.py", "--ignore=tests/test_docs.py"),
            "tests",
        ),
        minutes=15,
        least=1500,
        short="test_v2 and memory",
        source="zarr",
    ),
    Suite("netcdf4", "netcdf4", ("test",), minutes=5, least=400, short="Masked", source="netcdf4", cf=True),
    Suite("h5py", "h5py", _modules("h5py", "tests"), minutes=5, least=4000, short="test_dataset"),
)
