"""The C interface: programs in C and C++ that are compiled against forebay.h, and what they read next to h5py."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import forebay

pytestmark = pytest.mark.usefixtures("no_tiers")

ROOT = Path(__file__).parents[2]
LIMIT = 300
COUNT = 53
IS_LONG = bool(os.environ.get("FOREBAY_LONG") or os.environ.get("FOREBAY_SLOW"))
STRICT = ["-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the library is installed: by scripts/test.sh, or else here."""
    if given := os.environ.get("FOREBAY_CAPI"):
        return Path(given)
    made = subprocess.run(
        [ROOT / "scripts/capi.sh", "--dev", tmp_path_factory.mktemp("capi")], capture_output=True, text=True, timeout=3000
    )
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip())


def compiled(prefix: Path, source: Path, folder: Path, *flags: str) -> Path:
    made = folder / source.stem
    compiler = ["c++", "-std=c++17"] if source.suffix == ".cpp" else ["cc", "-std=c11"]
    linked = [f"-I{prefix}/include", f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-lforebay", "-pthread"]
    done = subprocess.run([*compiler, *STRICT, *flags, source, "-o", made, *linked], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def calls(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(prefix, ROOT / "tests/c/calls.c", tmp_path_factory.mktemp("calls"))


def said(program: Path, *words: object, **variables: object) -> str:
    environment = os.environ | {name: str(value) for name, value in variables.items()}
    done = subprocess.run([program, *map(str, words)], env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def train(tmp_path: Path) -> Path:
    """A set that a linear model fits."""
    random = np.random.default_rng(1)
    x = random.standard_normal((COUNT, 6)).astype("f4")
    path = tmp_path / "train.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=x, chunks=(8, 6), compression="gzip", shuffle=True)
        file["y"] = x @ np.arange(6, dtype="f4")
    return path


def losses(output: str) -> list[float]:
    return [float(line.split()[-1]) for line in output.splitlines()]


def test_the_c_example_learns(prefix: Path, train: Path, tmp_path: Path) -> None:
    found = losses(said(compiled(prefix, ROOT / "examples/c/train.c", tmp_path), train, 20))
    assert len(found) == 20 and found[-1] < 1e-3 * found[0]


def checked(prefix: Path, program: Path, *words: object, **variables: object) -> str:
    """What ``program`` prints under valgrind, which finds no use of memory that is not its own, and nothing left behind."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("valgrind is not installed; scripts/setup.sh does that")
    # State behind statics is possibly lost, to valgrind; a release inlines the functions that it is left out by.
    sections = subprocess.run(["readelf", "-SW", prefix / "lib/libforebay.so"], capture_output=True, text=True, check=True).stdout
    kinds = "definite,possible" if ".debug_line" in sections else "definite"
    options = ["--quiet", "--error-exitcode=9", "--leak-check=full", f"--errors-for-leak-kinds={kinds}", "--fair-sched=try"]
    if kinds == "definite":
        # An optimiser asks for the kind of an enum's inner enum before the loop that would use it, whether or not there is one.
        options.append("--undef-value-errors=no")
    command = [valgrind, *options, f"--suppressions={ROOT}/tests/c/valgrind.supp", program, *map(str, words)]
    environment = os.environ | {name: str(value) for name, value in variables.items()}
    # Whatever else is loaded leaves things behind of its own.
    environment.pop("LD_PRELOAD", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_c_example_leaves_nothing_behind_and_uses_no_memory_that_is_not_its_own(prefix: Path, train: Path, tmp_path: Path) -> None:
    program = compiled(prefix, ROOT / "examples/c/train.c", tmp_path, "-g")
    assert losses(checked(prefix, program, train, 2)) == losses(said(program, train, 2))


@pytest.mark.long
@pytest.mark.skipif(not IS_LONG, reason="FOREBAY_LONG=1 runs it, and make deep-compat and make deep-tests do")
def test_valgrind_would_find_what_is_left_behind(prefix: Path, train: Path, tmp_path: Path) -> None:
    source = tmp_path / "leak.c"
    text = (ROOT / "examples/c/train.c").read_text()
    assert "forebay_batch_free(batch);" in text
    source.write_text(text.replace("forebay_batch_free(batch);", "", 1))
    with pytest.raises(AssertionError, match="definitely lost|possibly lost"):
        checked(prefix, compiled(prefix, source, tmp_path, "-g", "-Wno-unused"), train, 1)


def test_the_cpp_example_gives_the_bits_that_h5py_reads_each_sample_once(prefix: Path, train: Path, tmp_path: Path) -> None:
    lines = said(compiled(prefix, ROOT / "examples/c/train.cpp", tmp_path), train).splitlines()
    with h5py.File(train) as file:
        x, y = file["x"][:], file["y"][:]
    numbers = [int(line.split()[0]) for line in lines]
    assert sorted(numbers) == list(range(COUNT)) and numbers != sorted(numbers)
    for number, line in zip(numbers, lines, strict=True):
        _, label, *bits = line.split()
        assert np.float32(label) == y[number]
        assert [int(word, 16) for word in bits] == list(x[number].view("u4"))


def test_errors_of_the_cpp_example_are_told(prefix: Path, tmp_path: Path) -> None:
    program = compiled(prefix, ROOT / "examples/c/train.cpp", tmp_path)
    done = subprocess.run([program, tmp_path / "none.h5"], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 1 and done.stderr.startswith("not_found: ") and "none.h5" in done.stderr


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("flags", [(), ("-DFOREBAY_NO_DLPACK",)])
def test_the_header_compiles_by_itself(prefix: Path, tmp_path: Path, language: str, flags: tuple[str, ...]) -> None:
    source = tmp_path / "empty"
    source.write_text("#include <forebay.h>\n#include <forebay.h>\nint main(void) { return forebay_loader_options_defaults().reserved; }\n")
    standard = "-std=c11" if language == "c" else "-std=c++17"
    command = ["cc", "-x", language, standard, *STRICT, *flags, f"-I{prefix}/include", "-fsyntax-only", source]
    subprocess.run(command, check=True, timeout=LIMIT)


def test_the_library_shows_the_functions_of_the_header_and_nothing_else(prefix: Path) -> None:
    listed = subprocess.run(["nm", "-D", "--defined-only", prefix / "lib/libforebay.so"], capture_output=True, text=True, check=True)
    shown = {line.split()[-1] for line in listed.stdout.splitlines()}
    declared = set(re.findall(r"^\w[\w *]*?\b(forebay_\w+)\(", (prefix / "include/forebay.h").read_text(), re.MULTILINE))
    assert shown == declared - {"forebay_dataset_options_defaults", "forebay_loader_options_defaults"}
    dynamic = subprocess.run(["readelf", "-d", prefix / "lib/libforebay.so"], capture_output=True, text=True, check=True)
    assert "soname: [libforebay.so.1]" in dynamic.stdout


def test_pkg_config_knows_it(prefix: Path) -> None:
    text = (prefix / "lib/pkgconfig/forebay.pc").read_text()
    assert f"prefix={prefix}\n" in text and re.search(r"^Version: \d+\.\d+\.\d+$", text, re.MULTILINE) and "@" not in text
    if shutil.which("pkg-config"):
        found = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "forebay"],
            env=os.environ | {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")},
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.split() == [f"-I{prefix}/include", f"-L{prefix}/lib", "-lforebay"]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.mark.parametrize("dtype", ["f4", ">f8", "i2", ">u4", "f2", "?", "c8", "u1"])
def test_values_are_those_of_h5py_bit_for_bit(calls: Path, out: Path, make: Any, dtype: str) -> None:
    random = np.random.default_rng(2)
    x = random.integers(0, 2 if dtype == "?" else 200, (COUNT, 3, 2)).astype(dtype)
    path = make(x=(x, {"chunks": (7, 3, 1), "compression": "gzip"}), y=np.arange(COUNT))
    said(calls, "dump", path, out, "", "y", "x")
    with h5py.File(path) as file:
        theirs = file["x"][:]
    assert (out / "x").read_bytes() == theirs.astype(theirs.dtype.newbyteorder("=")).tobytes()
    assert np.array_equal(np.fromfile(out / "y", "i8"), np.arange(COUNT))
    assert np.array_equal(np.fromfile(out / "samples", "i8"), np.arange(COUNT))
    assert len(set(np.fromfile(out / "seeds", "u8"))) == COUNT


def test_samples_of_different_lengths_come_with_offsets(calls: Path, out: Path, make: Any) -> None:
    lengths = np.arange(11) % 4
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    pos = np.arange(ptr[-1] * 3, dtype="f8").reshape(-1, 3)
    path = make(pos=pos, ptr=ptr, energy=np.arange(11, dtype="f4"))
    said(calls, "dump", path, out, "ragged:ptr", "energy", "pos")
    assert np.array_equal(np.fromfile(out / "pos").reshape(-1, 3), pos)
    assert np.array_equal(np.fromfile(out / "pos.lengths", "i8"), lengths)
    assert np.array_equal(np.fromfile(out / "energy", "f4"), np.arange(11))
    assert not (out / "energy.lengths").exists()


def test_a_set_that_python_describes_is_polled_without_prefetch(calls: Path, make: Any) -> None:
    path = make(x=np.arange(40.0).reshape(20, 2))
    ds = forebay.open(path, ["x"], samples=forebay.Windows({0: 4}, stride={0: 2}))
    assert said(calls, "polls", ds.spec).splitlines() == [f"{number} of 4 rows" for number in range(len(ds))]


def test_samples_by_number_and_the_description(calls: Path, train: Path) -> None:
    length, text, values = said(calls, "get", train, "x").splitlines()
    described = json.loads(text)
    assert int(length) == described["samples"] == COUNT
    assert described["format"] == "hdf5" and described["files"] == [str(train.resolve())]
    assert [(field["name"], field["dtype"], field["sample_shape"]) for field in described["fields"]] == [("x", "<f4", [6])]
    with h5py.File(train) as file:
        assert np.array_equal(np.array(values.split(), "f4"), file["x"][:][[3, 1, 3]].ravel())


def test_errors_have_a_code_and_name_what_was_wrong(calls: Path, train: Path) -> None:
    rows = [line.split(": ", 2) for line in said(calls, "errors", train).splitlines()]
    found = {what: (word, text) for what, word, text in rows}
    words = {what: word for what, (word, _) in found.items()}
    missing = {"missing file", "wrong field", "no field", "no variable"}
    assert {what for what, word in words.items() if word == "not_found"} == missing
    assert {what for what, word in words.items() if word != "not_found"} == {what for what, word in words.items() if word == "invalid"}
    parts = {"missing file": "/nowhere/a.h5", "wrong field": "'nothing'", "wrong samples": "samples: ", "null": "is NULL", "rank": "2 ranks"}
    parts |= {"tail": "tail: 9", "no field": "it has x", "no tensor": "field: 7", "selection": "train.h5", "no options": "size=3"}
    for what, part in parts.items():
        assert part in found[what][1], (what, found[what])


def test_threads_share_one_loader(calls: Path, train: Path) -> None:
    stats = json.loads(said(calls, "threads", train))
    assert stats["samples"] == 3 * COUNT + 3 and stats["verdict"]


def test_a_run_goes_on_from_its_state(calls: Path, train: Path) -> None:
    said(calls, "resume", train)


@pytest.mark.parametrize(("selection", "part"), [("", np.s_[:]), ("3:9,1", np.s_[3:9, 1]), (":,2:4", np.s_[:, 2:4])])
def test_a_part_of_a_variable_is_a_tensor(calls: Path, train: Path, out: Path, selection: str, part: Any) -> None:
    described = json.loads(said(calls, "file", train, "x", selection, out))
    assert {variable["name"]: variable["shape"] for variable in described["variables"]} == {"x": [COUNT, 6], "y": [COUNT]}
    with h5py.File(train) as file:
        assert np.array_equal(np.fromfile(out / "part", "f4"), file["x"][part].ravel())


def test_pread_comes_through_the_tiers_of_the_configuration(calls: Path, out: Path, tmp_path: Path) -> None:
    data = np.random.default_rng(3).integers(0, 256, 123_456, "u1").tobytes()
    path = tmp_path / "a.bin"
    path.write_bytes(data)
    config = tmp_path / "forebay.toml"
    config.write_text('[[tier]]\nkind = "memory"\nquota = "16MiB"\n')
    # No copy is kept of a file that was written just now: it may still change within the grain of its clock.
    for _ in range(100):
        stats = json.loads(said(calls, "pread", path, out, FOREBAY_CONFIG=config))
        assert (out / "bytes").read_bytes() == 3 * data
        (out / "bytes").unlink()
        if stats["tiers"][0]["bytes"] > 0:
            break
        time.sleep(0.2)
    assert stats["tiers"][0]["bytes"] > 0 and stats["origin"]["bytes"] < 3 * len(data)
    assert json.loads(said(calls, "pread", path, out, FOREBAY_CONFIG="none")) is None
    assert (out / "bytes").read_bytes() == 3 * data


@pytest.mark.parametrize("area", ["memory", "folder"])
def test_staged_files_reach_their_destination(calls: Path, tmp_path: Path, area: str) -> None:
    place = area if area == "memory" else tmp_path / "fast"
    destination = tmp_path / "out.txt"
    printed = said(calls, "stage", place, destination)
    assert destination.read_text() == "hello world"
    assert printed.startswith("nowhere: not_found: ") and "/nowhere/at" in printed


LONG_CALLS = {
    "dump": ("{train}", "{out}", "", "y", "x"),
    "get": ("{train}", "x"),
    "errors": ("{train}",),
    "threads": ("{train}",),
    "resume": ("{train}",),
    "file": ("{train}", "x", "3:9,1", "{out}"),
    "pread": ("{train}", "{out}"),
    "stage": ("{out}/fast", "{out}/out.txt"),
    "store": ("{train}",),
}


@pytest.mark.long
@pytest.mark.skipif(not IS_LONG, reason="FOREBAY_LONG=1 runs it, and make deep-compat and make deep-tests do")
@pytest.mark.parametrize("call", LONG_CALLS)
def test_no_call_leaves_memory_behind(prefix: Path, train: Path, out: Path, tmp_path: Path, call: str) -> None:
    config = tmp_path / "forebay.toml"
    config.write_text('[[tier]]\nkind = "memory"\nquota = "16MiB"\n')
    program = compiled(prefix, ROOT / "tests/c/calls.c", tmp_path, "-g")
    words = [word.format(train=train, out=out) for word in LONG_CALLS[call]]
    checked(prefix, program, call, *words, FOREBAY_CONFIG=config)


@pytest.mark.parametrize("ranks", [1, 3])
def test_ranks_keep_a_set_in_their_memory(calls: Path, train: Path, ranks: int) -> None:
    # Ranks of one node, as torchrun starts them.
    job = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "TORCHELASTIC_RUN_ID": train.parent.name, "MASTER_ADDR": "127.0.0.1"}
    job |= {"MASTER_PORT": os.getpid(), "GROUP_RANK": 0, "TORCHELASTIC_RESTART_COUNT": 0}
    started = []
    for rank in range(ranks):
        own = {name: str(value) for name, value in job.items()} | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        environment = os.environ | own if ranks > 1 else dict(os.environ)
        started.append(subprocess.Popen([calls, "store", train], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    seen: list[int] = []
    for rank, process in enumerate(started):
        output, errors = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, errors
        head, numbers = output.split(":")
        assert head == f"rank {rank} of {ranks}"
        seen += map(int, numbers.split())
    assert sorted(seen) == list(range(COUNT))


def test_the_page_shows_the_example(prefix: Path, train: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs/c.md").read_text()
    (program,) = re.findall(r"```c\n(.*?)```", page, re.DOTALL)
    source = tmp_path / "page.c"
    source.write_text(program)
    assert said(compiled(prefix, source, tmp_path), train).splitlines()[0].startswith("32 samples of 6 features")
    text = (prefix / "include/forebay.h").read_text()
    for name in set(re.findall(r"`(forebay_\w+|FOREBAY_[A-Z_]+)`?", page)):
        assert name.rstrip("_") in text, name
