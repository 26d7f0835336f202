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

use super::{
    ffi::{self, Calls, Hid},
    find::{self, Candidates},
    load,
    recent::{KeptRequest, RecentDatasets},
};
use forebay_container::{Selection, Variable};

/// A forked child loads a copy for itself: another thread of its parent may have been in the library, lock in hand.
static LIBRARY: PerProcess<Mutex<Option<Hdf5Calls>>> = PerProcess::empty();
/// Outside the lock, so that asking for it never waits for a read.
static VERSION: OnceLock<String> = OnceLock::new();

/// Identifiers are 64 bits wide from this version on.
const OLDEST: [u32; 3] = [1, 10, 0];

/// A libhdf5, ready to be called.
pub(super) struct Hdf5Calls {
    pub(super) calls: Calls,
    pub(super) version: String,
    /// What is kept open from read to read.
    kept: RefCell<RecentDatasets>,
}

impl fmt::Debug for Hdf5Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.version)
    }
}

/// Runs `work` with the library, which is looked for at the first call; one caller at a time.
pub(super) fn with<T>(work: impl FnOnce(&Hdf5Calls) -> Result<T>) -> Result<T> {
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

fn find() -> Result<Hdf5Calls> {
    let paths = match find::candidates()? {
        Candidates::Named(path) => return Hdf5Calls::new(&path).map_err(|error| error.at(find::SETTING)),
        Candidates::Found(paths) => paths,
    };
    let mut failures = String::new();
    for path in paths {
        match Hdf5Calls::new(&path) {
            Ok(library) => return Ok(library),
            Err(error) => failures = format!("{failures} ({error})"),
        }
    }
    Err(Error::new(ErrorKind::Unsupported, format!("no libhdf5 was found{failures}")).hint(find::REMEDY))
}

/// What to read.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) data: KeptRequest<'a>,
    pub(super) variable: &'a Variable,
    pub(super) selection: &'a Selection,
    pub(super) budget: u64,
}

/// An identifier, closed when it goes.
pub(super) struct Id<'a> {
    pub(super) id: Hid,
    calls: &'a Calls,
    close: fn(&Calls, Hid) -> c_int,
}

impl Id<'_> {
    /// Leaves it open: another owner closes it.
    fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for Id<'_> {
    fn drop(&mut self) {
        (self.close)(self.calls, self.id);
    }
}

impl Hdf5Calls {
    fn new(path: &Path) -> Result<Self> {
        let loaded = load::load(path)?;
        let place = |error: Error| error.at(path.display());
        let version = ffi::version(&loaded).map_err(place)?;
        let [major, minor, release] = version;
        if version < OLDEST {
            let what = format!("is version {major}.{minor}.{release}, older than 1.10");
            return Err(place(Error::new(ErrorKind::Unsupported, what)));
        }
        let calls = Calls::new(loaded).map_err(place)?;
        let version = format!("libhdf5 {major}.{minor}.{release} at {}", calls.path().display());
        let _ = VERSION.set(version.clone());
        Ok(Self { calls, version, kept: RefCell::default() })
    }

    /// The error for what the library refused, in its own words.
    fn error(&self, what: &str) -> Error {
        let said = self.calls.last_error().unwrap_or_else(|| what.to_owned());
        // A filter that needs a plug-in is nobody's fault and nothing is broken.
        let wants_plug_in = said.contains("filter") || said.contains("plugin");
        let kind = if wants_plug_in { ErrorKind::Unsupported } else { ErrorKind::Io };
        Error::new(kind, said).at(&self.version)
    }

    /// Refuses a negative answer to `what`.
    pub(super) fn check(&self, answer: c_int, what: &str) -> Result<()> {
        if answer < 0 { Err(self.error(what)) } else { Ok(()) }
    }

    pub(super) fn own(&self, id: Hid, close: fn(&Calls, Hid) -> c_int, what: &str) -> Result<Id<'_>> {
        if id < 0 { Err(self.error(what)) } else { Ok(Id { id, calls: &self.calls, close }) }
    }

    /// Takes over a type that the library has made.
    pub(super) fn own_type(&self, id: Hid) -> Result<Id<'_>> {
        self.own(id, Calls::type_close, "no such type")
    }

    pub(super) fn list(&self, class: &str) -> Result<Id<'_>> {
        let class = self.calls.constant(class)?;
        self.own(self.calls.list_create(class), Calls::list_close, "no property list")
    }

    /// A data set and the file it lies in, both open.
    fn open(&self, path: &Path, name: &str) -> Result<(Id<'_>, Id<'_>)> {
        let calls = &self.calls;
        let text = |bytes: &[u8]| {
            CString::new(bytes).map_err(|_| Error::new(ErrorKind::Invalid, "a name with a NUL in it"))
        };
        let access = self.list("H5P_CLS_FILE_ACCESS_ID_g")?;
        calls.prepare_access(access.id)?;
        let path = text(path.as_os_str().as_bytes())?;
        let file = self.own(calls.file_open(&path, access.id), Calls::file_close, "does not open")?;
        let beside = self.list("H5P_CLS_DATASET_ACCESS_ID_g")?;
        self.check(calls.list_set_beside(beside.id), "no prefix")?;
        let name = text(format!("/{}", name.trim_start_matches('/')).as_bytes())?;
        let data =
            self.own(calls.data_open(file.id, &name, beside.id), Calls::data_close, "no such data set")?;
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
        read: impl FnOnce(Hid) -> Result<T>,
    ) -> Result<T> {
        let data = &request.data;
        if let Some((open, _)) = self.kept.borrow_mut().find(data) {
            return read(open);
        }
        self.kept.borrow_mut().close_other_versions(&self.calls, data);
        let (open, file) = self.open(data.path, data.name)?;
        let values = read(open.id)?;
        if self.kept.borrow_mut().keep(&self.calls, data, (open.id, file.id)) {
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
            let space = self.own(self.calls.data_space(data), Calls::space_close, "no data space")?;
            Ok(self.calls.space_shape(space.id))
        })
    }
}
