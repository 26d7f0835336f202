"""Test suites of HDF5 programs, natively and through the plug-ins: the outcome of every test must be the same.

    suites.py --plugins FOLDER --result RESULT.json [--api-test PROGRAM] [--netcdf4 SOURCES] [--only NAME]… [--modes MODE,MODE]

Staging and caching are on: every file that a suite makes lies under a folder that is managed. Exit code 1 where a test went
otherwise than natively, or a suite did not run. Suites that need a program or sources that are not given are left out.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from dataclasses import dataclass
from pathlib import Path

MODES = {"native": (), "vfd": ("vfd",), "vol": ("vol",), "both": ("vfd", "vol")}
#: A single test that takes longer hangs, in seconds.
TEST_TIMEOUT = 300
#: Where HDF5 looks for plug-ins unless told otherwise.
DEFAULT_PLUGINS = "/usr/local/hdf5/lib/plugin"
# PyTables' tests: whole modules, and of three that together take ten times as long one class for each way to use HDF5. Left out:
# - the other classes of test_tables and test_earray: the same tests again for other shapes, compressors and sizes of buffers. Those
#   of tables by Blosc2 take most of the time, in threads that wait for each other; direct chunks are in the classes that are here
# - most of test_expression, and test_queries, test_indexes, test_indexvalues, test_index_backcompat: they compute and sort, and read
#   and write tables and arrays as the others do
# - test_large_tables, test_suite, test_aux: gigabytes; the others by another name; no file
TABLES = (
    "test_vlarray test_enum test_nestedtypes test_timetype test_types test_tablesMD test_numpy test_create test_attributes "
    "test_hdf5compat test_backcompat test_links test_direct_chunk test_array test_carray test_basics test_tree test_do_undo "
    "test_lists test_timestamps test_garbage"
)
TABLES_CLASSES = {
    "test_earray": (
        "BasicWriteTestCase Basic2WriteTestCase EmptyEArrayTestCase SlicesEArrayTestCase Blosc2CrossChunkTestCase MD5WriteTestCase "
        "ZlibShuffleTestCase Fletcher32TestCase AllFiltersTestCase StringComprTestCase OffsetStrideTestCase CopyTestCase "
        "CloseCopyTestCase OpenCopyTestCase CopyIndex5TestCase TruncateOpenTestCase TruncateCloseTestCase ZeroSizedTestCase "
        "MDAtomReopen AccessClosedTestCase TestCreateEArrayArgs"
    ),
    "test_tables": (
        "BasicWriteTestCase RecArrayTwoWriteTestCase CompressZLIBShuffleTablesTestCase Fletcher32TablesTestCase "
        "TableReadByteorderTestCase IterRangeTestCase SetItemTestCase1 UpdateRowTestCase1 RecArrayIO1 OpenCopyTestCase "
        "CloseCopyTestCase AlignedOpenCopyTestCase CopyIndex5TestCase DefaultValues WhereAppendTestCase TruncateOpen1 "
        "TruncateClose2 PointSelectionTestCase MDLargeColReopen Issue262TestCase ZeroSizedTestCase ChunkshapeTestCase"
    ),
    "test_expression": "ExprEArray ExprColumn MixedContainers1 AppendModeTrue setOutputRange5",
}


def tables_tests() -> tuple[str, ...]:
    modules = [f"tables.tests.{name}" for name in TABLES.split()]
    return (*modules, *(f"tables.tests.{name}::{part}" for name, parts in TABLES_CLASSES.items() for part in parts.split()))


@dataclass(frozen=True)
class Suite:
    """A suite: what pytest is given, or nothing for the one that is a program; and after how many minutes it hangs. On two quiet
    processors PyTables' takes 2 minutes in each mode, h5py's and netCDF4's half a minute, HDF5's a second."""

    name: str
    tests: tuple[str, ...] = ()
    minutes: int = 10


SUITES = (
    Suite("tables", ("--pyargs", *tables_tests()), minutes=20),
    Suite("h5py", ("--pyargs", "h5py"), minutes=10),
    Suite("netcdf4", ("test",), minutes=10),
    Suite("api-test", minutes=5),
)


def environment(mode: str, folder: Path, plugins: Path) -> dict[str, str]:
    """The environment of a suite, with all that it makes in `folder`."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("FOREBAY_", "HDF5_"))}
    env |= {"TMPDIR": str(folder / "work"), "OMP_NUM_THREADS": "1"}
    wanted = MODES[mode]
    if not wanted:
        return env
    places = [str(plugins / name) for name in wanted]
    env |= {
        "HDF5_PLUGIN_PATH": os.pathsep.join([*places, *own_plugins(), DEFAULT_PLUGINS]),
        "FOREBAY_CONFIG": os.devnull,
        "FOREBAY_HDF5_PATHS": str(folder / "work"),
        "FOREBAY_STAGE": str(folder / "stage"),
        "FOREBAY_HDF5_CACHE": "memory",
    }
    if "vfd" in wanted:
        env["HDF5_DRIVER"] = "forebay"
    if "vol" in wanted:
        env["HDF5_VOL_CONNECTOR"] = "forebay"
    else:
        # As `forebay hdf5-env` says: else PyTables reads chunks of Blosc2 out of the file by itself, also those that are staged.
        env["BLOSC2_FILTER"] = "1"
    return env


def own_plugins() -> list[str]:
    """The folder of filters that netCDF4 brings, which a path of our own would hide."""
    import importlib.util

    found = importlib.util.find_spec("netCDF4")
    place = Path(found.origin).parent / "plugins" if found and found.origin else None
    return [str(place)] if place and place.is_dir() else []


def run(suite: Suite, mode: str, args: argparse.Namespace) -> dict:
    """Runs a suite in one mode; gives the outcome of each of its tests."""
    folder = Path(tempfile.mkdtemp(prefix=f"forebay-suite-{suite.name}-", dir=args.disk))
    began = time.monotonic()
    try:
        (folder / "stage").mkdir(mode=0o700)
        work = folder / "work"
        if suite.name == "netcdf4":
            shutil.copytree(args.netcdf4, work)
        else:
            work.mkdir()
        report = folder / "report.xml"
        status, output = attend(command(suite, args, report), work, environment(mode, folder, args.plugins), suite.minutes)
        outcomes = api_outcomes(output) if suite.name == "api-test" else pytest_outcomes(report)
        # Closes wait for their drains: nothing but the lock of the area may be left.
        left = sorted(str(path.relative_to(folder)) for path in (folder / "stage").rglob("*") if path.is_file() and path.name != "lock")
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    args.result.with_name(f"{args.result.stem}-{suite.name}-{mode}.log").write_text(output)
    counts = collections.Counter(outcomes.values())
    warnings = [line for line in output.splitlines() if line.startswith("forebay:")][:5]
    return {"status": status, "counts": dict(counts), "outcomes": outcomes, "seconds": round(time.monotonic() - began),
            "left in the staging area": left[:5], "warnings": warnings}


def command(suite: Suite, args: argparse.Namespace, report: Path) -> list[str]:
    if suite.name == "api-test":
        return [str(args.api_test)]
    words = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-o", "addopts=",
             "-W", "ignore", f"--timeout={TEST_TIMEOUT}", f"--junitxml={report}", *suite.tests]
    return [*words, "-k", args.select] if args.select else words


def attend(words: list[str], work: Path, env: dict[str, str], minutes: int) -> tuple[int, str]:
    """Runs a program for so many minutes at most."""
    with subprocess.Popen(words, cwd=work, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=60 * minutes)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
    return process.returncode, output.decode("utf-8", "replace")


def pytest_outcomes(report: Path) -> dict[str, str]:
    """passed, failed, error or skipped, by test."""
    outcomes = {}
    if not report.exists():
        return outcomes
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = next((name for tag, name in (("failure", "failed"), ("error", "error"), ("skipped", "skipped")) if tag in kinds), "passed")
        outcomes[f"{case.get('classname')}.{case.get('name')}"] = outcome
    return outcomes


def api_outcomes(output: str) -> dict[str, str]:
    """The same of h5_api_test, which prints a line for each test or part of one; its own counts come as well."""
    outcomes: dict[str, str] = {}
    for match in re.finditer(r"^ *Testing (.*?) +(PASSED|\*FAILED\*|-SKIP-)$", output, re.MULTILINE):
        outcome = {"PASSED": "passed", "*FAILED*": "failed", "-SKIP-": "skipped"}[match[2]]
        name, number = match[1], 2
        while name in outcomes:
            name, number = f"{match[1]} ({number})", number + 1
        outcomes[name] = outcome
    for what, count in api_counts(output).items():
        outcomes[f"its own count: {what}"] = count
    return outcomes


def api_counts(output: str) -> dict[str, str]:
    said = re.findall(r"^(\d+/\d+) \([\d.]+%\) API tests (passed|did not pass|were skipped)", output, re.MULTILINE)
    return {what: count for count, what in said}


def differences(native: dict, other: dict) -> list[str]:
    names = sorted(native["outcomes"].keys() | other["outcomes"].keys())
    pairs = [(name, native["outcomes"].get(name, "missing"), other["outcomes"].get(name, "missing")) for name in names]
    return [f"{name}: natively {before}, {after}" for name, before, after in pairs if before != after]


def show(suite: Suite, results: dict[str, dict]) -> bool:
    """Prints a row for each mode; true when all are alike."""
    same = True
    for mode, result in results.items():
        counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(result["counts"].items()) if "/" not in outcome)
        own = ", ".join(f"{what} {count}" for what, count in result["outcomes"].items() if what.startswith("its own"))
        differing = differences(results["native"], result)
        ended = "" if result["status"] in (0, 1) else f", ended with {result['status']}"
        print(f"{suite.name:10}{mode:8}{counts}{'; ' + own if own else ''}{ended}; {result['seconds']} s; {len(differing)} differ")
        for line in differing[:20]:
            print(f"    {line}")
        for line in (*(f"left in the area: {name}" for name in result["left in the staging area"]), *result["warnings"]):
            print(f"    {line}")
        same = same and not differing and not result["left in the staging area"] and bool(result["counts"]) and not ended
    return same


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugins", type=Path, required=True, help="the folder with vfd/ and vol/, as scripts/plugins.sh prints it")
    parser.add_argument("--result", type=Path, default=Path(tempfile.gettempdir()) / "hdf5-suites.json")
    parser.add_argument("--api-test", type=Path, help="h5_api_test, as scripts/hdf5-api-test.sh --build prints it")
    parser.add_argument("--netcdf4", type=Path, help="the unpacked source archive of netCDF4, which has its tests")
    parser.add_argument("--only", action="append", choices=[suite.name for suite in SUITES])
    parser.add_argument("--modes", default="native,vfd,vol,both")
    parser.add_argument("--select", help="what pytest's -k selects")
    parser.add_argument("--disk", default="/var/tmp", help="where the suites run [/var/tmp]")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="leave the folders of the suites")
    args = parser.parse_args()
    args.result = args.result.resolve()
    # Natively first: the others are compared with it.
    modes = ["native", *(mode for mode in args.modes.split(",") if mode != "native")]
    given = {"api-test": args.api_test, "netcdf4": args.netcdf4}
    suites = [suite for suite in SUITES if (not args.only or suite.name in args.only) and given.get(suite.name, True)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        jobs = {suite.name: {mode: pool.submit(run, suite, mode, args) for mode in modes} for suite in suites}
        results = {name: {mode: job.result() for mode, job in of.items()} for name, of in jobs.items()}
    args.result.write_text(json.dumps(results, indent=1) + "\n")
    alike = [show(suite, results[suite.name]) for suite in suites]
    print(f"all of it: {args.result}")
    return 0 if alike and all(alike) else 1


if __name__ == "__main__":
    sys.exit(main())
