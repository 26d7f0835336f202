"""Runs the suites, two at a time, and says what matched: run.py SOURCES RESULT.json [--only NAME]… [--short] [--jobs N].

Exit code 1 where a value was wrong, a suite did not run, or too little was compared.
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
from pathlib import Path
from typing import Any

from .suites import SUITES, Suite

TESTS = Path(__file__).resolve().parents[1]
# Beyond this a single test of theirs hangs, in seconds.
TEST_TIMEOUT = 120
COLUMNS = ("files", "matched", "refused", "by design", "not compared", "cf matched", "cf refused", "cf by design", "wrong")


def run(suite: Suite, arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs one suite in a folder of its own, which is removed; what is kept of wrong values lies beside the result."""
    out = arguments.result.with_name(f"{arguments.result.stem}-{suite.name}.jsonl")
    out.unlink(missing_ok=True)
    shutil.rmtree(out.with_suffix(".kept"), ignore_errors=True)
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="forebay-peers-"))
    try:
        status, output = run_pytest(suite, arguments, folder, out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    out.with_suffix(".log").write_text(output)
    result = gathered(out)
    result["seconds"] = round(time.monotonic() - begun)
    result["their tests"] = (re.findall(r"^=*\s*(\d+ .* in [\d.]+s.*?)\s*=*$", output, re.MULTILINE) or ["none"])[-1]
    result["cut short"] = "session-timeout" in output
    # 0 and 1 are pytest's own: all passed, or some of their tests did not, which is their affair.
    result["broken"] = f"pytest ended with {status}: {output[-500:]}" if status not in (0, 1) else None
    return result


def run_pytest(suite: Suite, arguments: argparse.Namespace, folder: Path, out: Path) -> tuple[int, str]:
    work = folder / "work"
    if suite.source is None:
        work.mkdir()
    else:
        shutil.copytree(arguments.sources / suite.source, work)
    (folder / "tmp").mkdir()
    environment = {
        **os.environ,
        "FOREBAY_PEERS_OUT": str(out),
        "FOREBAY_PEERS_WATCH": suite.watch,
        "FOREBAY_PEERS_CF": str(int(suite.cf)),
        # The native reader alone: libhdf5 must not be what gives the right answers.
        "FOREBAY_LIBHDF5": "off",
        "FOREBAY_CACHE": str(folder / "index"),
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
        "TMPDIR": str(folder / "tmp"),
    }
    limit = 60 * suite.minutes
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "peers.plugin"]
    command += ["-o", "addopts=", "-W", "ignore", f"--timeout={TEST_TIMEOUT}", f"--session-timeout={limit}"]
    command += [*suite.tests, *(("-k", suite.short) if arguments.short else ())]
    with subprocess.Popen(
        command, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit + 2 * TEST_TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
    return process.returncode, output.decode("utf-8", "replace")


def gathered(out: Path) -> dict[str, Any]:
    """The counts of all tests of a suite."""
    counts: collections.Counter[str] = collections.Counter()
    messages: collections.Counter[tuple[str, str]] = collections.Counter()
    examples: dict[tuple[str, str], str] = {}
    wrong: list[dict[str, Any]] = []
    for line in out.read_text().splitlines() if out.exists() else ():
        test = json.loads(line)
        counts.update(test["counts"])
        wrong += test["wrong"]
        for kind, message, count in test["messages"]:
            messages[kind, message] += count
            examples.setdefault((kind, message), test["test"])
    listed = [
        {"kind": kind, "message": message, "count": count, "example": examples[kind, message]}
        for (kind, message), count in messages.most_common()
    ]
    return {"counts": dict(counts), "messages": listed, "wrong": wrong}


def show(results: dict[str, dict[str, Any]]) -> None:
    for name, result in results.items():
        print(f"\n{name}: {result['their tests']}{', cut short' if result['cut short'] else ''}")
        for row in result["messages"]:
            print(f"{row['count']:7} {row['kind']}: {row['message']} (first: {row['example']})")
        for row in result["wrong"]:
            print(f"  WRONG {row['test']}: {row['file']}: {row['variable']}: {row['difference']} (kept: {row['kept']})")
        if result["broken"]:
            print(f"  BROKEN {result['broken']}")
    print("\n" + "suite".ljust(10) + "".join(column.rjust(14) for column in COLUMNS) + "seconds".rjust(9))
    for name, result in results.items():
        row = "".join(str(result["counts"].get(column, 0)).rjust(14) for column in COLUMNS)
        print(name.ljust(10) + row + str(result["seconds"]).rjust(9))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--only", action="append", choices=[suite.name for suite in SUITES])
    parser.add_argument("--short", action="store_true", help="some tests of each")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    arguments.result = arguments.result.resolve()
    suites = [suite for suite in SUITES if not arguments.only or suite.name in arguments.only]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        found = pool.map(lambda suite: run(suite, arguments), suites)
        results = dict(zip((suite.name for suite in suites), found))
    show(results)
    arguments.result.write_text(json.dumps(results, indent=1) + "\n")
    failed = [name for name, result in results.items() if result["wrong"] or result["broken"]]
    for suite in suites:
        matched = results[suite.name]["counts"].get("matched", 0)
        # A machine that is too slow for all of it must have compared something.
        least = 1 if arguments.short or results[suite.name]["cut short"] else suite.least
        if matched < least:
            print(f"{suite.name}: {matched} values matched, where at least {least} do")
            failed.append(suite.name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
