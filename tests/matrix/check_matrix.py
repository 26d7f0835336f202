#!/usr/bin/env python3
"""Holds a forebay binary against the matrix.

    check_matrix.py FOREBAY MATRIX_DIR [--jobs N] [--hostile] [--only TEXT] [--show N] [--quiet]

One process per file: `FOREBAY dump FILE --all --sha256` prints one line per data set,

    <sha256>  <variable path>
    error: <message>  <variable path>

two spaces before the path; in paths (and messages) a backslash is written `\\\\`, a line feed `\\n`, a carriage
return `\\r`. --all lists, from the root, by hard links in the order of their names' bytes, every name of every data set,
entering each group once; it may list more. Rows noted `by-name` that it does not list are asked for one by one with
`FOREBAY dump FILE VARIABLE --sha256`, whose first word is the sha256, and whose exit code says whether it was refused.
The exit code of --all is 0 or small even where single data sets were refused; death by signal, a panic (exit code 101) and
running longer than --timeout are crashes. Files are named relative to MATRIX_DIR, which is the working directory.

With --hostile, MATRIX_DIR is what make_hostile.py made: only crashes count. The address space is then limited to 2 GiB,
so that an allocation of a size that a damaged file made up ends in an abort, which is a crash; threads, whose stacks and
heaps take address space too, are limited to two.
Exit code 1 on any wrong value, crash, missing data set, refusal of a value or value of a refusal.
"""

import argparse
import collections
import concurrent.futures
import csv
import os
import re
import resource
import subprocess
import sys

LINE = re.compile(r"^([0-9a-f]{64}|error: .*?)  (/.*|[^ ].*)$")
BAD = ["wrong", "refused", "answered", "missing", "crashed"]
HOSTILE_MEMORY_BYTES = 2 << 30
ESCAPES = {"n": "\n", "r": "\r", "\\": "\\"}


def plain(path):
    """A printed path without its escapes, with its leading slash."""
    path = re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[0]), path)
    return path if path.startswith("/") else f"/{path}"


def printed(path):
    return path.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (HOSTILE_MEMORY_BYTES, HOSTILE_MEMORY_BYTES))


class Runner:
    """A forebay binary, a folder, a limit in seconds; and whether memory is limited."""

    def __init__(self, forebay, folder, timeout, hostile):
        self.forebay = os.path.abspath(forebay)
        self.folder = folder
        self.timeout = timeout
        self.flags = ["--threads", "2"] if hostile else []
        self.prepare = limit_memory if hostile else None

    def run(self, *arguments):
        """(lines, error text, how it crashed or None, exit code)."""
        command = [self.forebay, "dump", *arguments, "--sha256", *self.flags]
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                capture_output=True,
                timeout=self.timeout,
                check=False,
                preexec_fn=self.prepare,
            )
        except subprocess.TimeoutExpired:
            return [], "", f"longer than {self.timeout} s", -1
        text = done.stderr.decode("utf-8", "replace").strip()
        lines = done.stdout.decode("utf-8", "replace").split("\n")
        died = done.returncode < 0 or done.returncode == 101 or "panicked at" in text
        return lines, text, f"exit code {done.returncode}: {text[-300:]}" if died else None, done.returncode

    def all(self, file):
        """({variable: sha256 or "error: ..."}, how it crashed or None, error text)."""
        lines, text, crash, _ = self.run(file, "--all")
        answers = {}
        for line in lines:
            found = LINE.match(line)
            if found:
                answers[plain(found[2])] = found[1]
        return answers, crash, text

    def one(self, file, variable):
        """(answer, how it crashed or None)."""
        lines, text, crash, code = self.run(file, variable)
        first = lines[0].split()[:1]
        if crash or code or not first:
            return f"error: {text[-200:] or 'no answer'}", crash
        return first[0], None


def verdict(row, answer):
    """(word, remark) for one manifest row and what was said of it."""
    refused = answer.startswith("error:")
    if row["kind"] == "value":
        if refused:
            return "refused", answer
        return ("match", "") if answer == row["sha256"] else ("wrong", f"{answer[:12]} for {row['sha256'][:12]}")
    return ("refused as expected", "") if refused else ("answered", f"though {row['kind']}")


def check_file(runner, file, rows):
    answers, crash, text = runner.all(file)
    results = []
    if crash:
        results.append(("crashed", {"variable": "--all", "dtype": "", "shape": "", "note": ""}, crash))
    for row in rows:
        answer = answers.get(row["variable"])
        if answer is None and "by-name" in row["note"].split(";"):
            answer, died = runner.one(file, row["variable"])
            if died:
                results.append(("crashed", row, died))
                continue
        if answer is None:
            results.append(("missing", row, text.split("\n")[-1][-200:]))
        else:
            word, remark = verdict(row, answer)
            results.append((word, row, remark))
    return file, results


def check_hostile(runner, file, _rows):
    _, crash, _ = runner.all(file)
    row = {"variable": "--all", "dtype": "", "shape": "", "note": ""}
    return file, [("crashed", row, crash) if crash else ("survived", row, "")]


def read_rows(folder, hostile, only):
    files = collections.defaultdict(list)
    with open(os.path.join(folder, "hostile.csv" if hostile else "manifest.csv"), newline="", encoding="utf-8") as table:
        for row in csv.DictReader(table):
            if only in row["file"]:
                files[row["file"]].append(row)
    return files


def show(file, failures, most):
    for word, row, remark in failures[:most]:
        about = " ".join(filter(None, (row["dtype"], row["shape"], row["note"])))
        print(f"{word}: {file}: {printed(row['variable'])} ({about}): {remark}")
    if len(failures) > most:
        print(f"{file}: {len(failures) - most} more like these")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay")
    parser.add_argument("matrix")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--only", default="", help="only files whose name holds this")
    parser.add_argument("--show", type=int, default=20, help="failures shown per file; 0 for all")
    parser.add_argument("--quiet", action="store_true", help="counts, not each failure")
    arguments = parser.parse_args()
    runner = Runner(arguments.forebay, arguments.matrix, arguments.timeout, arguments.hostile)
    files = read_rows(arguments.matrix, arguments.hostile, arguments.only)
    check = check_hostile if arguments.hostile else check_file
    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for file, results in pool.map(lambda item: check(runner, *item), sorted(files.items())):
            counts.update(word for word, _, _ in results)
            if not arguments.quiet:
                show(file, [result for result in results if result[0] in BAD], arguments.show or len(results))
    print(", ".join(f"{count} {word}" for word, count in sorted(counts.items())) or "nothing to check")
    sys.exit(1 if not counts or any(counts[word] for word in BAD) else 0)


if __name__ == "__main__":
    main()
