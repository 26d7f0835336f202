//! A libhdf5 that plug-ins are tested with, and files that it writes and reads; every function panics where something fails.

use std::{
    env,
    ffi::{CStr, CString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    calls::{Hdf5Calls, HyperslabTransfer, NO_SHAPE},
    find,
    hdf5_types::{H5P_DEFAULT, hid_t},
    library::{Hdf5Library, OLDEST_VERSION},
    open_id::{CloseCall, OpenId},
};

/// A data set of single bytes in rows.
#[derive(Clone, Copy, Debug)]
pub struct ByteRows {
    /// What it is called in the file.
    pub name: &'static CStr,
    /// Rows, and bytes of each.
    pub shape: [u64; 2],
    /// The shape of chunks, which are deflated; contiguous where there is none.
    pub chunk: Option<[u64; 2]>,
}

impl ByteRows {
    /// Bytes of all rows: every row is another, and deflating gains little.
    pub fn bytes(&self) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15 ^ self.shape[0];
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_le_bytes()[7]
        };
        (0..self.shape[0] * self.shape[1]).map(|_| next()).collect()
    }
}

/// Path of a libhdf5 that loads plug-ins, which these tests cannot do without: its absence is seen, not passed over.
pub fn needed_libhdf5() -> PathBuf {
    let remedy = "`pip install h5py` in the active environment, or set FOREBAY_LIBHDF5";
    let paths = find::paths().unwrap_or_default();
    let is_recent = |path: &&PathBuf| {
        Hdf5Library::load_copy(path).is_ok_and(|library| library.version() >= OLDEST_VERSION)
    };
    let found = paths.iter().find(is_recent).cloned();
    assert!(found.is_some(), "these tests need a libhdf5 of 1.14 or later: {remedy}");
    found.unwrap_or_default()
}

/// This test program as a process of its own, which runs its test `scene` alone: no variable of HDF5 or forebay is set but
/// `FOREBAY_LIBHDF5`.
pub fn scene(libhdf5: &Path) -> Command {
    let mut command = Command::new(env::current_exe().expect("a test has a program"));
    command.args(["--exact", "scene", "--nocapture"]);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("HDF5_") || text.starts_with("FOREBAY_") {
            command.env_remove(name);
        }
    }
    command.env("FOREBAY_LIBHDF5", libhdf5);
    command
}

/// Runs `command`, which must end well and say nothing on its standard error.
pub fn must_succeed(command: &mut Command) {
    let done = command.output().expect("a program starts");
    let (said, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && errors.is_empty(), "{command:?}: {}\n{said}{errors}", done.status);
}

/// A libhdf5 that this process has loaded, and that has loaded the plug-ins which the environment names.
#[derive(Debug)]
pub struct HostHdf5 {
    calls: &'static Hdf5Calls,
}

impl HostHdf5 {
    /// Another instance of the library that `FOREBAY_LIBHDF5` names, with identifiers and a slot of its own.
    pub fn load() -> Self {
        let path = find::setting().expect("a libhdf5 is allowed").expect("FOREBAY_LIBHDF5 is set");
        let library = Hdf5Library::load_copy(&path).expect("it can be loaded");
        let calls = Hdf5Calls::new(library).expect("it has all functions");
        calls.start().expect("it starts");
        // A plug-in that it has loaded keeps addresses of it.
        Self { calls: Box::leak(Box::new(calls)) }
    }

    /// Its calls.
    pub fn calls(&self) -> &Hdf5Calls {
        self.calls
    }

    /// Writes a file with all of `datasets`.
    pub fn write(&self, file: &Path, datasets: &[ByteRows]) {
        self.write_then(file, datasets, || ());
    }

    /// As [`write`](Self::write); `before_close` is called when all is written and the file is still open.
    pub fn write_then(&self, file: &Path, datasets: &[ByteRows], before_close: impl FnOnce()) {
        let calls = self.calls;
        let file = self.own(calls.file_create(&c_path(file), H5P_DEFAULT), Hdf5Calls::file_close);
        let byte = self.constant("H5T_STD_U8LE_g");
        for dataset in datasets {
            let space = self.own(calls.space_create(&dataset.shape), Hdf5Calls::space_close);
            let list = calls.list_create(self.constant("H5P_CLS_DATASET_CREATE_ID_g"));
            let list = self.own(list, Hdf5Calls::list_close);
            if let Some(chunk) = &dataset.chunk {
                self.check(calls.list_set_chunk(list.id(), chunk).into());
                self.check(calls.list_set_deflate(list.id(), 1).into());
            }
            let created = calls.data_create(file.id(), dataset.name, byte, space.id(), list.id());
            let data = self.own(created, Hdf5Calls::data_close);
            let transfer = whole(byte, &space);
            self.check(calls.data_write(data.id(), &transfer, &dataset.bytes()).into());
            self.check(data.close().into());
        }
        before_close();
        self.check(file.close().into());
    }

    /// All bytes of the data set `name`.
    pub fn read(&self, file: &Path, name: &CStr) -> Vec<u8> {
        let calls = self.calls;
        let file = self.own(calls.file_open(&c_path(file), H5P_DEFAULT), Hdf5Calls::file_close);
        let data = self.own(calls.data_open(file.id(), name, H5P_DEFAULT), Hdf5Calls::data_close);
        let space = self.own(calls.data_space(data.id()), Hdf5Calls::space_close);
        let mut lengths = NO_SHAPE;
        let count: u64 = calls.space_shape(space.id(), &mut lengths).iter().product();
        let mut bytes = vec![0; usize::try_from(count).expect("files of tests are small")];
        let transfer = whole(self.constant("H5T_NATIVE_UINT8_g"), &space);
        self.check(calls.data_read(data.id(), &transfer, &mut bytes).into());
        bytes
    }

    /// What the library says of opening the file at `path`, which fails.
    pub fn refusal(&self, path: &Path) -> String {
        assert!(self.calls.file_open(&c_path(path), H5P_DEFAULT) < 0, "{} is opened", path.display());
        self.calls.last_error().expect("the library says why")
    }

    fn constant(&self, name: &str) -> hid_t {
        self.calls.constant(name).expect("every libhdf5 has it")
    }

    fn own(&self, id: hid_t, close: CloseCall) -> OpenId<'_> {
        self.check(id);
        OpenId::new(self.calls, id, close).expect("it was checked")
    }

    fn check(&self, answer: hid_t) {
        assert!(answer >= 0, "libhdf5 refuses: {:?}", self.calls.last_error());
    }
}

/// All of a data set, in its own order.
fn whole(memory_type: hid_t, space: &OpenId<'_>) -> HyperslabTransfer {
    HyperslabTransfer { memory_type, memory_space: space.id(), file_space: space.id(), list: H5P_DEFAULT }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("paths of tests have no NUL")
}
