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

use forebay_source::{Error, ErrorKind, PerProcess, Result};

use super::{
    arena::Arena,
    ffi::{self, Calls, Hid, Read},
    find::{self, Candidates},
    kept::{Kept, Wanted},
    load,
    memory::Memory,
    values::no_values,
};
use forebay_container::{Array, Selection, Variable};

/// A forked child loads a copy for itself: another thread of its parent may have been in the library, lock in hand.
static LIBRARY: PerProcess<Mutex<Option<Library>>> = PerProcess::empty();
/// Outside the lock, so that asking for it never waits for a read.
static VERSION: OnceLock<String> = OnceLock::new();

/// `H5S_NULL`: a space without elements.
const NULL_SPACE: c_int = 2;
/// Identifiers are 64 bits wide from this version on.
const OLDEST: [u32; 3] = [1, 10, 0];

/// A libhdf5, ready to be called.
pub(super) struct Library {
    pub(super) calls: Calls,
    version: String,
    /// What is kept open from read to read.
    kept: RefCell<Kept>,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.version)
    }
}

/// Runs `work` with the library, which is looked for at the first call; one caller at a time.
pub(super) fn with<T>(work: impl FnOnce(&Library) -> Result<T>) -> Result<T> {
    // Whoever panicked has closed what it had opened on its way out.
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

fn find() -> Result<Library> {
    let paths = match find::candidates()? {
        Candidates::Named(path) => return Library::new(&path).map_err(|error| error.at(find::SETTING)),
        Candidates::Found(paths) => paths,
    };
    let mut failures = String::new();
    for path in paths {
        match Library::new(&path) {
            Ok(library) => return Ok(library),
            Err(error) => failures = format!("{failures} ({error})"),
        }
    }
    Err(Error::new(ErrorKind::Unsupported, format!("no libhdf5 was found{failures}")).hint(find::REMEDY))
}

/// What to read.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) data: Wanted<'a>,
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
    /// Leaves it open: somebody else closes it.
    fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for Id<'_> {
    fn drop(&mut self) {
        (self.close)(self.calls, self.id);
    }
}

impl Library {
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

    fn own(&self, id: Hid, close: fn(&Calls, Hid) -> c_int, what: &str) -> Result<Id<'_>> {
        if id < 0 { Err(self.error(what)) } else { Ok(Id { id, calls: &self.calls, close }) }
    }

    /// Takes over a type that the library has made.
    pub(super) fn own_type(&self, id: Hid) -> Result<Id<'_>> {
        self.own(id, Calls::type_close, "no such type")
    }

    fn list(&self, class: &str) -> Result<Id<'_>> {
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
    fn with_open<T>(&self, request: &Request<'_>, read: impl FnOnce(Hid) -> Result<T>) -> Result<T> {
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

    /// The values that `request` asks for.
    pub(super) fn read(&self, request: &Request<'_>) -> Result<Array> {
        self.with_open(request, |data| self.read_from(data, request))
    }

    fn read_from(&self, data: Hid, request: &Request<'_>) -> Result<Array> {
        let calls = &self.calls;
        let stored = self.own_type(calls.data_type(data))?;
        let memory = Memory::of(self, stored.id)?;
        let from = self.own(calls.data_space(data), Calls::space_close, "no data space")?;
        let shape = request.selection.shape();
        if calls.space_kind(from.id) == NULL_SPACE || request.selection.element_count() == 0 {
            let dtype = memory.described(&request.variable.dtype);
            return Ok(Array { values: no_values(&dtype), dtype, shape });
        }
        let to = self.select(&from, request)?;
        let len = byte_len(request, memory.len)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| full(format!("no memory for {len} bytes")))?;
        bytes.resize(len, 0);
        let transfer = self.list("H5P_CLS_DATASET_XFER_ID_g")?;
        let read = Read {
            memory: memory.id.id,
            to: to.as_ref().unwrap_or(&from).id,
            from: from.id,
            transfer: transfer.id,
        };
        let mut arena = Arena::new(usize::try_from(request.budget).unwrap_or(usize::MAX));
        let answer = calls.data_read(data, &read, &mut bytes, &mut arena);
        if answer < 0 && arena.is_spent() {
            return Err(full(format!(
                "values of variable length beyond the memory budget of {}",
                request.budget
            )));
        }
        self.check(answer, "does not read")?;
        let values = memory.values(bytes, &arena)?;
        Ok(Array { dtype: memory.described(&request.variable.dtype), shape, values })
    }

    /// Selects in `from`, and makes the space in memory; none for a single value.
    fn select(&self, from: &Id<'_>, request: &Request<'_>) -> Result<Option<Id<'_>>> {
        let calls = &self.calls;
        let shape = calls.space_shape(from.id);
        request.selection.check(&shape).map_err(|error| {
            let described = &request.variable.grid.shape;
            error.at(format!("an array of {shape:?} to {}, described as {described:?}", self.version))
        })?;
        if shape.is_empty() {
            return Ok(None);
        }
        let spans = request.selection.spans();
        let [start, step, count]: [Vec<u64>; 3] = [
            spans.iter().map(|span| span.start).collect(),
            spans.iter().map(|span| span.step).collect(),
            request.selection.shape(),
        ];
        self.check(calls.space_select(from.id, &start, &step, &count), "no such selection")?;
        self.own(calls.space_create(&count), Calls::space_close, "no space in memory").map(Some)
    }
}

fn byte_len(request: &Request<'_>, element_len: usize) -> Result<usize> {
    let len = request.selection.element_count().saturating_mul(element_len as u64);
    if len > request.budget {
        let what = format!("{len} bytes asked for at once, the memory budget is {}", request.budget);
        return Err(full(what).hint("read it in slices"));
    }
    usize::try_from(len).map_err(|_| full("more bytes than can be addressed".into()))
}

fn full(what: String) -> Error {
    Error::new(ErrorKind::Full, what)
}
