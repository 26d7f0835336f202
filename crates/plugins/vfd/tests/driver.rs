//! The file driver as cargo builds it, loaded by a real libhdf5: writes are staged and drained, reads come from the tiers.
//!
//! What the driver does depends on the environment of a process, so each scene is played in one of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use forebay_libhdf5::check::{ByteRows, HostHdf5, must_succeed, needed_libhdf5};
use tempfile::TempDir;

/// What tells a process which scene it plays.
const SCENE: &str = "FOREBAY_TEST_SCENE";
/// What tells it where the file is.
const FILE: &str = "FOREBAY_TEST_FILE";

/// Stored in one piece, so that libhdf5 hands it over as it is written; and cut into chunks.
const PLAIN: ByteRows = ByteRows { name: c"plain", shape: [4096, 512], chunk: None };
const CHUNKED: ByteRows = ByteRows { name: c"chunked", shape: [700, 100], chunk: Some([64, 100]) };
const PLAIN_BYTES: u64 = 4096 * 512;

/// A folder of files, and one with the driver alone.
struct Stage {
    libhdf5: PathBuf,
    folder: TempDir,
}

impl Stage {
    fn set() -> Self {
        let stage = Self { libhdf5: needed_libhdf5(), folder: tempfile::tempdir().unwrap() };
        // Cargo has built it beside this test. HDF5 opens all libraries of a folder, so it is alone in one.
        let name = "libforebay_vfd.so";
        let built = env::current_exe().unwrap().with_file_name(name);
        assert!(built.is_file(), "{} is not there", built.display());
        for part in ["plugins", "files"] {
            fs::create_dir(stage.path(part)).unwrap();
        }
        symlink(built, stage.path("plugins").join(name)).unwrap();
        stage
    }

    fn path(&self, part: &str) -> PathBuf {
        self.folder.path().join(part)
    }

    fn native(&self, scene: &str) -> Command {
        let mut command = forebay_libhdf5::check::scene(&self.libhdf5);
        command.env(SCENE, scene).env(FILE, self.path("files/a.h5"));
        command
    }

    fn with_driver(&self, scene: &str) -> Command {
        let mut command = self.native(scene);
        command
            .env("HDF5_PLUGIN_PATH", self.path("plugins"))
            .env("HDF5_DRIVER", "forebay")
            .env("FOREBAY_HDF5_PATHS", self.path("files"));
        command
    }
}

#[test]
fn staged_writes_are_in_their_file_once_it_is_closed() {
    let stage = Stage::set();
    for place in [PathBuf::from("memory"), stage.path("fast")] {
        must_succeed(stage.with_driver("write staged").env("FOREBAY_STAGE", place));
        must_succeed(&mut stage.native("read"));
        fs::remove_file(stage.path("files/a.h5")).unwrap();
    }
}

#[test]
fn a_close_that_does_not_wait_is_drained_by_the_end_of_the_process() {
    let stage = Stage::set();
    let mut write = stage.with_driver("write");
    must_succeed(write.env("FOREBAY_STAGE", stage.path("fast")).env("FOREBAY_DELAY_CLOSE", "1"));
    must_succeed(&mut stage.native("read"));
}

#[test]
fn bytes_that_were_read_once_come_from_the_tiers() {
    let stage = Stage::set();
    must_succeed(&mut stage.native("write"));
    // A file that has changed within two seconds is not copied: the clock of a file system is no finer.
    thread::sleep(Duration::from_millis(2500));
    must_succeed(stage.with_driver("read twice").env("FOREBAY_TIERS", "memory:64MiB"));
}

#[test]
fn a_file_that_is_not_there_is_refused_in_the_words_of_the_library_itself() {
    let stage = Stage::set();
    let refusal = |mut command: Command| {
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
        said.lines().find_map(|line| line.strip_prefix("refused: ")).expect("it says why").to_owned()
    };
    let [native, ours] = [stage.native("open missing"), stage.with_driver("open missing")].map(refusal);
    assert_eq!(ours, native);
    assert!(native.contains("errno = 2"), "{native}");
}

/// One scene, in a process of its own.
#[test]
fn scene() {
    let Ok(scene) = env::var(SCENE) else { return };
    let file = PathBuf::from(env::var_os(FILE).unwrap());
    let host = HostHdf5::load();
    match scene.as_str() {
        "write" => host.write(&file, &[PLAIN, CHUNKED]),
        "write staged" => host.write_then(&file, &[PLAIN, CHUNKED], || {
            let written = fs::metadata(&file).map_or(0, |file| file.len());
            assert!(written < PLAIN_BYTES, "{written} bytes are in the file while it is open");
        }),
        "read" => assert_all(&host, &file),
        "read twice" => {
            let before = bytes_read();
            assert_all(&host, &file);
            let first = bytes_read() - before;
            assert_all(&host, &file);
            let second = bytes_read() - before - first;
            assert!(first > PLAIN_BYTES && PLAIN_BYTES > 10 * second, "{first} bytes, then {second}");
        }
        "open missing" => println!("\nrefused: {}", host.refusal(&file.with_file_name("missing.h5"))),
        other => panic!("no scene {other}"),
    }
}

fn assert_all(host: &HostHdf5, file: &Path) {
    for dataset in [PLAIN, CHUNKED] {
        assert!(host.read(file, dataset.name) == dataset.bytes(), "{:?} is another", dataset.name);
    }
}

/// Bytes that this process has asked the system for.
fn bytes_read() -> u64 {
    let counters = fs::read_to_string("/proc/self/io").unwrap();
    counters.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}
