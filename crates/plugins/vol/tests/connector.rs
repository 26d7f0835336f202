//! The connector as cargo builds it, loaded by a real libhdf5: values are those that were written, and come from the cache.
//!
//! What is cached and how depends on the environment of a process, so each scene is played in one of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![expect(unsafe_code, reason = "calls functions of the connector by their names")]

use std::{
    env,
    ffi::{CStr, c_void},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    ptr, thread,
    time::Duration,
};

use forebay_libhdf5::check::{ByteRows, HostHdf5, must_succeed, needed_libhdf5};
use forebay_vol::CacheCounters;
use tempfile::TempDir;

/// What tells a process which scene it plays.
const SCENE: &str = "FOREBAY_TEST_SCENE";
/// What tells it where the file is.
const FILE: &str = "FOREBAY_TEST_FILE";

/// Cut into chunks that are deflated, and stored in one piece.
const CHUNKED: ByteRows = ByteRows { name: c"chunked", shape: [700, 100], chunk: Some([64, 100]) };
const PLAIN: ByteRows = ByteRows { name: c"plain", shape: [500, 120], chunk: None };
const ALL_BYTES: u64 = 700 * 100 + 500 * 120;

/// A file that was written without the connector, and a folder with the connector alone.
struct Stage {
    libhdf5: PathBuf,
    folder: TempDir,
}

impl Stage {
    fn set() -> Self {
        let stage = Self { libhdf5: needed_libhdf5(), folder: tempfile::tempdir().unwrap() };
        // Cargo has built it beside this test. HDF5 opens all libraries of a folder, so it is alone in one.
        let name = "libforebay_vol.so";
        let built = env::current_exe().unwrap().with_file_name(name);
        assert!(built.is_file(), "{} is not there", built.display());
        for part in ["plugins", "files", "others"] {
            std::fs::create_dir(stage.path(part)).unwrap();
        }
        symlink(built, stage.path("plugins").join(name)).unwrap();
        must_succeed(&mut stage.scene("write natively"));
        // Longer than the grain of the clock below.
        thread::sleep(Duration::from_millis(100));
        stage
    }

    fn path(&self, part: &str) -> PathBuf {
        self.folder.path().join(part)
    }

    fn scene(&self, scene: &str) -> Command {
        let mut command = forebay_libhdf5::check::scene(&self.libhdf5);
        command.env(SCENE, scene).env(FILE, self.path("files/a.h5"));
        command
    }

    /// `scene` with the connector: files under `managed` are cached in `cache`, in small units.
    fn with_connector(&self, scene: &str, managed: &str, cache: &Path) -> Command {
        let mut command = self.scene(scene);
        command
            .env("HDF5_PLUGIN_PATH", self.path("plugins"))
            .env("HDF5_VOL_CONNECTOR", "forebay")
            .env("FOREBAY_HDF5_PATHS", self.path(managed))
            .env("FOREBAY_HDF5_CACHE", cache)
            .env("FOREBAY_HDF5_UNIT", "8KiB")
            .env("FOREBAY_HDF5_LEAST", "1")
            .env("FOREBAY_HDF5_CLOCK_GRAIN_MS", "20");
        command
    }
}

#[test]
fn what_is_read_again_comes_from_the_cache_and_is_what_was_written() {
    let stage = Stage::set();
    for cache in [PathBuf::from("memory"), stage.path("fast")] {
        must_succeed(&mut stage.with_connector("read twice", "files", &cache));
    }
}

#[test]
fn two_libraries_of_one_process_share_the_cache_and_read_by_functions_of_their_own() {
    let stage = Stage::set();
    must_succeed(&mut stage.with_connector("read by two", "files", Path::new("memory")));
}

#[test]
fn a_file_that_was_written_anew_is_read_anew() {
    let stage = Stage::set();
    must_succeed(&mut stage.with_connector("write between", "files", Path::new("memory")));
}

#[test]
fn a_file_elsewhere_is_read_without_the_cache() {
    let stage = Stage::set();
    must_succeed(&mut stage.with_connector("read unmanaged", "others", Path::new("memory")));
}

/// One scene, in a process of its own.
#[test]
fn scene() {
    let Ok(scene) = env::var(SCENE) else { return };
    let file = PathBuf::from(env::var_os(FILE).unwrap());
    let host = HostHdf5::load();
    match scene.as_str() {
        "write natively" => host.write(&file, &[CHUNKED, PLAIN]),
        "read twice" => read_twice(&host, &host, &file),
        "read by two" => read_twice(&host, &HostHdf5::load(), &file),
        "write between" => write_between(&host, &file),
        "read unmanaged" => {
            assert_all(&host, &file);
            let stats = Connector::loaded().settled_stats();
            assert_eq!((stats.hit_bytes, stats.filled_bytes, stats.kept_bytes), (0, 0, 0), "{stats:?}");
        }
        other => panic!("no scene {other}"),
    }
}

fn assert_all(host: &HostHdf5, file: &Path) {
    for dataset in [CHUNKED, PLAIN] {
        assert!(host.read(file, dataset.name) == dataset.bytes(), "{:?} is another", dataset.name);
    }
}

fn read_twice(first: &HostHdf5, second: &HostHdf5, file: &Path) {
    assert_all(first, file);
    let connector = Connector::loaded();
    let before = connector.settled_stats();
    assert!(before.hit_bytes == 0 && before.kept_bytes >= ALL_BYTES, "{before:?}");
    assert_all(second, file);
    let after = connector.settled_stats();
    assert_eq!(after.hit_bytes - before.hit_bytes, ALL_BYTES, "{before:?} {after:?}");
    assert_eq!(
        (after.filled_bytes, after.passed_bytes),
        (before.filled_bytes, before.passed_bytes),
        "{before:?} {after:?}"
    );
    assert!(after.used_bytes <= after.quota_bytes, "{after:?}");
}

fn write_between(host: &HostHdf5, file: &Path) {
    assert_all(host, file);
    Connector::loaded().settled_stats();
    let grown = ByteRows { shape: [701, 100], ..CHUNKED };
    host.write(file, &[grown, PLAIN]);
    thread::sleep(Duration::from_millis(100));
    assert!(host.read(file, grown.name) == grown.bytes(), "old values are read");
}

/// The connector that libhdf5 has loaded.
struct Connector {
    handle: *mut c_void,
}

impl Connector {
    fn loaded() -> Self {
        let folder = env::var("HDF5_PLUGIN_PATH").unwrap();
        let path = std::ffi::CString::new(format!("{folder}/libforebay_vol.so")).unwrap();
        // SAFETY: a path that ends in NUL; nothing is loaded that is not loaded already.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        assert!(!handle.is_null(), "libhdf5 has not loaded the connector");
        Self { handle }
    }

    fn function(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is open, and the name ends in NUL.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        assert_ne!(found, ptr::null_mut(), "the connector has no {name:?}");
        found
    }

    /// The counters, once all that was read is in the cache.
    fn settled_stats(&self) -> CacheCounters {
        let [wait, stats] = [c"forebay_hdf5_wait", c"forebay_hdf5_stats"].map(|name| self.function(name));
        let mut counters = CacheCounters::default();
        // SAFETY: these are the functions of `control`, with their own signatures; the place is one for counters.
        unsafe {
            let wait = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(f64) -> i32>(wait);
            let stats = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut CacheCounters)>(stats);
            assert_eq!(wait(60.0), 1, "what was read is not put into the cache");
            stats(&raw mut counters);
        }
        counters
    }
}
