//! The one libhdf5 of this process, behind the one lock: it is not thread safe, and a read holds the lock to its
//! end.

use std::{
    cell::RefCell,
    ffi::{CString, c_int},
    fmt,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Mutex, OnceLock, PoisonError},
};

use forebay_process::{Error, ErrorKind, PerProcess, Result};

use super::recent::{KeptRequest, RecentDatasets};
use forebay_container::{Selection, Variable};
use forebay_libhdf5::{
    Hdf5Calls, Hdf5Library, OpenId,
    calls::NO_SHAPE,
    find::{self, Candidates},
    hdf5_types::hid_t,
    open_id::CloseCall,
};

/// A forked child loads a copy for itself: another thread of its parent may have been in the library, lock in hand.
static LIBRARY: PerProcess<Mutex<Option<LockedHdf5>>> = PerProcess::empty();
/// Outside the lock, so that asking for it never waits for a read.
static VERSION: OnceLock<String> = OnceLock::new();

/// A libhdf5, ready to be called.
pub(super) struct LockedHdf5 {
    pub(super) calls: Hdf5Calls,
    pub(super) version: String,
    /// What is kept open from read to read.
    kept: RefCell<RecentDatasets>,
}

impl fmt::Debug for LockedHdf5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.version)
    }
}

/// Runs `work` with the library, which is looked for at the first call; one caller at a time.
pub(super) fn with<T>(work: impl FnOnce(&LockedHdf5) -> Result<T>) -> Result<T> {
    // A thread that panicked closed what it had opened while it unwound.
    let own = LIBRARY.get(Mutex::default);
    let mut library = own.lock().unwrap_or_else(PoisonError::into_inner);
    // Only a success is kept: what is installed or imported later is found then.
    if library.is_none() {
        *library = Some(find()?);
    }
    find::setting()?;
    match &*library {
        Some(library) => work(library),
        None => Err(Error::new(ErrorKind::Bug, "a library vanished")),
    }
}

/// Version and path of the library, once it is loaded or can be.
pub(super) fn version() -> Option<String> {
    find_version().ok()
}

/// As [`version`], or why there is none.
pub(super) fn find_version() -> Result<String> {
    if VERSION.get().is_none() {
        with(|_| Ok(()))?;
    }
    find::setting()?;
    VERSION
        .get()
        .cloned()
        .ok_or_else(|| Error::new(ErrorKind::Bug, "a library that was loaded has no version"))
}

fn find() -> Result<LockedHdf5> {
    let paths = match find::candidates()? {
        Candidates::Named(path) => return LockedHdf5::new(&path).map_err(|error| error.at(find::SETTING)),
        Candidates::Found(paths) => paths,
    };
    find::first_usable(&paths, LockedHdf5::new)
}

/// What to read.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) data: KeptRequest<'a>,
    pub(super) variable: &'a Variable,
    pub(super) selection: &'a Selection,
    pub(super) budget: u64,
}

impl LockedHdf5 {
    fn new(path: &Path) -> Result<Self> {
        let library = Hdf5Library::load_copy(path)?;
        let place = |error: Error| error.at(path.display());
        let [major, minor, release] = library.version();
        let calls = Hdf5Calls::new(library).map_err(place)?;
        // Threads may still read while the process ends; the system takes back all there is.
        calls.dont_atexit();
        calls.start().map_err(place)?;
        let version = format!("libhdf5 {major}.{minor}.{release} at {}", calls.library().path().display());
        let _ = VERSION.set(version.clone());
        Ok(Self { calls, version, kept: RefCell::default() })
    }

    /// The error for what the library refused, in its own words.
    fn error(&self, what: &str) -> Error {
        self.refusal(self.calls.last_error(), what)
    }

    /// The error for what the library refused, with what it `said`.
    pub(super) fn refusal(&self, said: Option<String>, what: &str) -> Error {
        let said = said.unwrap_or_else(|| what.to_owned());
        // A filter that needs a plug-in is nobody's fault and nothing is broken.
        let wants_plug_in = said.contains("filter") || said.contains("plugin");
        let kind = if wants_plug_in { ErrorKind::Unsupported } else { ErrorKind::Io };
        Error::new(kind, said).at(&self.version)
    }

    /// Refuses a negative answer to `what`.
    pub(super) fn check(&self, answer: c_int, what: &str) -> Result<()> {
        if answer < 0 { Err(self.error(what)) } else { Ok(()) }
    }

    pub(super) fn own(&self, id: hid_t, close: CloseCall, what: &str) -> Result<OpenId<'_>> {
        OpenId::new(&self.calls, id, close).ok_or_else(|| self.error(what))
    }

    /// Takes over a type that the library has made.
    pub(super) fn own_type(&self, id: hid_t) -> Result<OpenId<'_>> {
        self.own(id, Hdf5Calls::type_close, "no such type")
    }

    pub(super) fn list(&self, class: &str) -> Result<OpenId<'_>> {
        let class = self.calls.constant(class)?;
        self.own(self.calls.list_create(class), Hdf5Calls::list_close, "no property list")
    }

    /// A data set and the file it lies in, both open.
    fn open(&self, path: &Path, name: &str) -> Result<(OpenId<'_>, OpenId<'_>)> {
        let calls = &self.calls;
        let text = |bytes: &[u8]| {
            CString::new(bytes).map_err(|_| Error::new(ErrorKind::Invalid, "a name with a NUL in it"))
        };
        let access = self.list("H5P_CLS_FILE_ACCESS_ID_g")?;
        calls.prepare_access(access.id());
        let path = text(path.as_os_str().as_bytes())?;
        let file = self.own(calls.file_open(&path, access.id()), Hdf5Calls::file_close, "does not open")?;
        let beside = self.list("H5P_CLS_DATASET_ACCESS_ID_g")?;
        self.check(calls.list_set_beside(beside.id()), "no prefix")?;
        let name = text(format!("/{}", name.trim_start_matches('/')).as_bytes())?;
        let data = self.own(
            calls.data_open(file.id(), &name, beside.id()),
            Hdf5Calls::data_close,
            "no such data set",
        )?;
        Ok((data, file))
    }

    /// True when the parts of what `request` asks for were opened before.
    pub(super) fn knows(&self, request: &Request<'_>) -> bool {
        self.kept.borrow().knows(&request.data)
    }

    /// What `read` makes of the data set that `request` names, open.
    pub(super) fn with_open<T>(
        &self,
        request: &Request<'_>,
        read: impl FnOnce(hid_t) -> Result<T>,
    ) -> Result<T> {
        let data = &request.data;
        if let Some((open, _)) = self.kept.borrow_mut().find(data) {
            return read(open);
        }
        self.kept.borrow_mut().close_other_versions(&self.calls, data);
        let (open, file) = self.open(data.path, data.name)?;
        let values = read(open.id())?;
        if self.kept.borrow_mut().keep(&self.calls, data, (open.id(), file.id())) {
            open.leave();
            file.leave();
        }
        Ok(values)
    }

    /// Refuses a data set that is there but that this version of the library cannot open.
    ///
    /// Inside a virtual data set the library would take it for missing, and give the fill value without a word.
    pub(super) fn check_opens(&self, path: &Path, name: &str) -> Result<()> {
        self.open(path, name).map(drop)
    }

    /// The shape of the data set that `request` names.
    pub(super) fn shape(&self, request: &Request<'_>) -> Result<Vec<u64>> {
        self.with_open(request, |data| {
            let space = self.own(self.calls.data_space(data), Hdf5Calls::space_close, "no data space")?;
            let mut lengths = NO_SHAPE;
            Ok(self.calls.space_shape(space.id(), &mut lengths).to_vec())
        })
    }
}
