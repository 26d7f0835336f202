"""Which programs ``forebay run`` and ``forebay mount`` reach: those of other languages, and those that are not their user's alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_programs import LIBRARY, LIMIT, LONG, environment, noise, plain, run, tier_folder, twice
from test_mount import Mounted

pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="the package has no library to preload")

# Each prints its effective user and a sum of the bytes of a file.
C = r"""
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
    static unsigned char bytes[65536];
    unsigned long sum = 0;
    long got;
    int file = open(words[1], O_RDONLY);
    if (file < 0) { perror(words[1]); return 3; }
    while ((got = read(file, bytes, sizeof bytes)) > 0)
        for (long i = 0; i < got; i++) sum = sum * 31 + bytes[i];
    printf("%d %lu\n", (int)geteuid(), sum);
    return got != 0;
}
"""
CPP = r"""
#include <fstream>
#include <iostream>
#include <vector>
int main(int, char **words) {
    std::ifstream file(words[1], std::ios::binary);
    std::vector<char> bytes(65536);
    unsigned long sum = 0;
    while (file.read(bytes.data(), bytes.size()) || file.gcount())
        for (long i = 0; i < file.gcount(); i++) sum = sum * 31 + (unsigned char)bytes[i];
    file.clear();
    file.seekg(-5, std::ios::end);
    std::cout << sum << " " << file.get() << " " << file.tellg() << "\n";
}
"""
RUST = r"""
use std::{env, fs::{self, File}, io::{BufRead, BufReader, Read, Seek, SeekFrom}};
fn main() {
    let path = env::args().nth(1).unwrap();
    let sum = |bytes: &[u8]| bytes.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let mut file = File::open(&path).unwrap();
    let mut last = [0; 5];
    file.seek(SeekFrom::End(-5)).unwrap();
    file.read_exact(&mut last).unwrap();
    let parts = BufReader::new(File::open(&path).unwrap()).split(b'\n').count();
    let elsewhere = std::thread::spawn({ let path = path.clone(); move || fs::read(path).unwrap() });
    println!("{} {last:?} {parts} {}", sum(&elsewhere.join().unwrap()), fs::metadata(&path).unwrap().len());
}
"""


JAVA = r"""
import java.io.*;
import java.nio.*;
import java.nio.channels.*;
import java.nio.file.*;
public class reader {
    public static void main(String[] words) throws Exception {
        long whole = 0, mapped = 0, stream = 0, at;
        for (byte one : Files.readAllBytes(Path.of(words[0]))) whole = whole * 31 + one;
        try (FileChannel channel = FileChannel.open(Path.of(words[0]))) {
            MappedByteBuffer bytes = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
            while (bytes.hasRemaining()) mapped = mapped * 31 + bytes.get();
        }
        try (InputStream in = new BufferedInputStream(new FileInputStream(words[0]))) {
            for (int one; (one = in.read()) >= 0; ) stream = stream * 31 + (byte) one;
        }
        try (RandomAccessFile file = new RandomAccessFile(words[0], "r")) { file.seek(100); at = file.readLong(); }
        System.out.println(whole + " " + mapped + " " + stream + " " + at);
    }
}
"""
FORTRAN = """
program reader
    use iso_fortran_env, only: int8, int64
    character(len=4096) :: path
    integer(int8), allocatable :: bytes(:)
    integer(int64) :: length, total, place
    integer(int8) :: last
    call get_command_argument(1, path)
    open(unit=10, file=trim(path), access='stream', form='unformatted', status='old', action='read')
    inquire(unit=10, size=length)
    allocate(bytes(length))
    read(10) bytes
    read(10, pos=length) last
    total = 0
    do place = 1, length
        total = mod(total * 31 + bytes(place), 1000000007_int64)
    end do
    print *, length, total, last
end program
"""
COMPILERS = {
    "C": ("reader.c", C, ["gcc", "-O1"]),
    "C++": ("reader.cpp", CPP, ["g++", "-O1"]),
    "Rust": ("reader.rs", RUST, ["rustc", "-O"]),
    "Fortran": ("reader.f90", FORTRAN, ["gfortran", "-O1"]),
}
# The compilers of the others come with `make deep-run`.
AT_HAND = ["C", "C++", "Rust"]


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """A folder that every user may look into, as those of pytest are not."""
    folder = Path(tempfile.mkdtemp(prefix="forebay-test-reach-")).resolve()
    (folder / "set").mkdir()
    (folder / "set" / "plain0.h5").write_bytes(noise(3 << 20, 5).tobytes())
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
    time.sleep(2.1)
    yield folder
    shutil.rmtree(folder)


def build(folder: Path, name: str, source: str, *words: str) -> Path:
    (folder / name).write_text(source)
    program = folder / Path(name).stem
    subprocess.run([*words, "-o", program, folder / name], check=True, timeout=LIMIT)
    return program


@pytest.mark.parametrize("language", COMPILERS if LONG else AT_HAND)
def test_programs_of_compiled_languages_read_tiers(open_folder: Path, tmp_path: Path, language: str) -> None:
    name, source, words = COMPILERS[language]
    twice(open_folder / "set", build(tmp_path, name, source, *words), open_folder / "set" / "plain0.h5")


@pytest.mark.skipif(not LONG, reason="FOREBAY_LONG=1 runs it, as make deep-run does, which has a compiler of Java")
def test_a_program_of_java_reads_tiers(open_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "reader.java").write_text(JAVA)
    subprocess.run(["javac", "-d", tmp_path, tmp_path / "reader.java"], check=True, timeout=LIMIT)
    twice(open_folder / "set", "java", "-cp", tmp_path, "reader", open_folder / "set" / "plain0.h5")


GO = r"""
package main

import (
	"fmt"
	"os"
)

func main() {
	bytes, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	var sum uint64
	for _, one := range bytes {
		sum = sum*31 + uint64(one)
	}
	fmt.Println(len(bytes), sum)
}
"""
# By what `forebay run` says of each; `net` and `os/user` are what brings the C library into a program of Go.
UNREACHED = {
    "Go": ("bypass.go", GO, ["go", "build"], "it is written in Go"),
    "Go with C": ("bypass.go", GO.replace('"os"', '"os"\n\t_ "os/user"'), ["go", "build", "-ldflags=-linkmode=external"], "it is written in Go"),
    "musl": ("bypass.c", C, ["musl-gcc", "-O1"], "it is loaded by /lib/ld-musl-x86_64.so.1"),
    "static musl": ("bypass.c", C, ["musl-gcc", "-O1", "-static"], "it is a static program"),
}


@pytest.mark.skipif(not LONG, reason="FOREBAY_LONG=1 runs it, as make deep-run does, which has compilers of Go and musl")
@pytest.mark.parametrize("kind", UNREACHED)
def test_programs_that_bypass_the_c_library_are_told_and_are_served_by_a_mount(
    mounted: Path, open_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    name, source, words, why = UNREACHED[kind]
    monkeypatch.setenv("GOCACHE", str(tmp_path / "go"))
    program, path = build(tmp_path, name, source, *words), open_folder / "set" / "plain0.h5"
    with tier_folder() as folder:
        ran = run(path.parent, program, path, tiers=[f"{folder}:64MiB:free=0"])
    assert ran.out == plain(program, path) == plain(program, mounted / path.name)
    assert f"{program} reads without tiers: {why}" in ran.said, ran.said
    assert ran.count("opens_managed") == 0, ran.said


NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


@pytest.fixture(scope="module")
def foreign(open_folder: Path) -> dict[str, Path]:
    """Programs that run as another user, or with another group."""
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    program = build(open_folder, "reader.c", C, "gcc", "-O1")
    found = {}
    for name, user, group, mode in (("setuid", NOBODY, -1, 0o4755), ("setgid", -1, NOBODY, 0o2755)):
        found[name] = Path(shutil.copy(program, open_folder / name))
        os.chown(found[name], user, group)
        found[name].chmod(mode)
    return {**found, "own": program}


@pytest.mark.parametrize("name", ["setuid", "setgid"])
def test_a_program_that_runs_as_another_user_reads_the_origin_and_is_told(open_folder: Path, foreign: dict[str, Path], name: str) -> None:
    path = open_folder / "set" / "plain0.h5"
    with tier_folder() as folder:
        ran = run(path.parent, foreign[name], path, tiers=[f"{folder}:64MiB:free=0"])
    assert ran.out == plain(foreign[name], path)
    assert ran.out.split()[0] == (str(NOBODY).encode() if name == "setuid" else b"0"), "it runs as it is meant to"
    assert "it is a setuid program" in ran.said and "nor does `forebay mount` serve it" in ran.said, ran.said
    assert ran.count("opens_managed") == 0, ran.said


@pytest.mark.parametrize(
    ("words", "name", "is_served"),
    [
        ([], "own", True),
        (["unshare", "--map-root-user"], "own", True),
        (["unshare", "--user", "--map-user=1000", "--map-group=1000"], "own", True),
        (["setpriv", "--bounding-set=-all"], "own", True),
        ([], "setuid", False),
        ([], "setgid", False),
        (AS_NOBODY, "own", False),
        (["setpriv", f"--regid={NOBODY}", "--clear-groups"], "own", False),
    ],
    ids=["own", "container of root", "container of a user", "no capabilities", "setuid", "setgid", "other user", "other group"],
)
def test_a_mount_serves_its_own_user_and_group_alone(
    mounted: Path, open_folder: Path, foreign: dict[str, Path], words: list[str], name: str, is_served: bool
) -> None:
    def reads(folder: Path) -> subprocess.CompletedProcess[bytes]:
        program = [*words, foreign[name], folder / "plain0.h5"]
        return subprocess.run(program, capture_output=True, timeout=LIMIT, env=environment())

    at_origin, shown = reads(open_folder / "set"), reads(mounted)
    if at_origin.stderr.startswith(b"unshare: "):
        pytest.skip(f"no user namespaces here: {at_origin.stderr.decode()}")
    assert at_origin.returncode == 0, at_origin.stderr
    if is_served:
        assert (shown.returncode, shown.stdout) == (0, at_origin.stdout), shown.stderr
    else:
        assert shown.returncode == 3 and b"Permission denied" in shown.stderr, shown


@pytest.fixture(scope="module")
def mounted(open_folder: Path) -> Iterator[Path]:
    shown = Mounted(open_folder / "set", open_folder)
    yield shown.place
    shown.end()
