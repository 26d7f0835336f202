//! How kinds of files are told apart, and which of them this process knows.

use std::{
    cell::{Cell, OnceCell},
    fmt,
    rc::Rc,
    sync::{Arc, PoisonError, RwLock},
};

use bytes::Bytes;
use forebay_source::{ByteRange, Error, ErrorKind, Locator, Origin, Result, Source, SourceExt};

use crate::{Bp3, Bp4, Bp5, Csv, Hdf5, Images, Indexed, Netcdf3, Npy, NpyFolder, Npz, Silo, TfRecord, Zarr};
use forebay_container::Container;
use forebay_container::SourceIndex;
use forebay_hdf5::{self as hdf5, File};

/// How one kind of file is recognised and described.
///
/// # Contract
/// - `probe` looks at content, never at names alone, and reads at most a few kilobytes.
/// - `describe` reads metadata only, never array values, where the format has metadata. One that says nowhere where its records
///   are, such as CSV and TFRecord, is read through once. Whatever the bytes say, it ends with a container or an error, and
///   takes no more memory than their length justifies.
pub trait Format: Send + Sync + fmt::Debug {
    /// The name used in messages and on the command line: `hdf5`, `zarr`.
    fn name(&self) -> &str;

    /// True when what was found is of this format.
    fn probe(&self, found: &Found<'_>) -> Result<bool>;

    /// Describes what was found.
    fn describe(&self, found: &Found<'_>) -> Result<Container>;

    /// Why what was found is not of this format though its name says so; asked where no format takes it.
    fn why_not(&self, _found: &Found<'_>) -> Result<Option<Error>> {
        Ok(None)
    }
}

/// What lies at a place, looked at once for all formats.
#[derive(Debug)]
pub struct Found<'a> {
    /// Where it was found, and where all that it names is opened.
    pub origin: &'a dyn Origin,
    /// Its name there.
    pub at: &'a Locator,
    /// The file; `None` for a folder.
    pub file: Option<Arc<dyn Source>>,
    /// The first bytes of the file, at most [`HEAD_BYTES`](Self::HEAD_BYTES).
    pub head: Bytes,
    hdf5: Hdf5Look,
}

/// What was found of HDF5 so far, kept for all who ask: Silo, HDF5 itself, and the walk over the file.
#[derive(Debug, Default)]
struct Hdf5Look {
    /// True while other formats are asked first, as a user block may be as long as the file and each place costs a request.
    only_head: Cell<bool>,
    superblock: OnceCell<Option<u64>>,
    file: OnceCell<Rc<File>>,
}

impl<'a> Found<'a> {
    /// How much of a file's start is looked at before its format is known.
    pub const HEAD_BYTES: u64 = 4096;

    /// Looks at what lies at `at`.
    pub fn look(origin: &'a dyn Origin, at: &'a Locator) -> Result<Self> {
        match origin.open(at) {
            Ok(file) => {
                let head = file.fetch_one(ByteRange::at(0, file.id().len.min(Self::HEAD_BYTES)))?;
                Ok(Self { origin, at, file: Some(file), head, hdf5: Hdf5Look::default() })
            }
            Err(error) if is_folder(origin, at, &error) => {
                Ok(Self { origin, at, file: None, head: Bytes::new(), hdf5: Hdf5Look::default() })
            }
            Err(error) => Err(error),
        }
    }

    /// The file, where a format needs one.
    pub fn need_file(&self) -> Result<&Arc<dyn Source>> {
        self.file.as_ref().ok_or_else(|| Error::new(ErrorKind::Invalid, "is a folder").at(self.at))
    }

    /// True when the file is an HDF5 file, as far as it was looked for.
    pub(crate) fn probe_superblock(&self) -> Result<bool> {
        if self.file.is_none() || self.hdf5.only_head.get() {
            return Ok(self.file.is_some() && hdf5::superblock_in(&self.head).is_some());
        }
        Ok(self.superblock()?.is_some())
    }

    /// Where the superblock of HDF5 begins, looked for once.
    fn superblock(&self) -> Result<Option<u64>> {
        if let Some(known) = self.hdf5.superblock.get() {
            return Ok(*known);
        }
        let found = hdf5::find_superblock(&**self.need_file()?, &self.head)?;
        Ok(*self.hdf5.superblock.get_or_init(|| found))
    }

    /// The file as one of HDF5, opened once.
    pub(crate) fn hdf5(&self) -> Result<Rc<File>> {
        if let Some(file) = self.hdf5.file.get() {
            return Ok(Rc::clone(file));
        }
        let at = self.superblock()?.ok_or_else(|| Error::new(ErrorKind::Corrupt, "no HDF5 signature"))?;
        let file = Rc::new(File::open_at(Arc::clone(self.need_file()?), SourceIndex(0), at)?);
        Ok(Rc::clone(self.hdf5.file.get_or_init(|| file)))
    }

    /// Opens `name` in the folder that was found; `None` where it has nothing of that name.
    pub fn inside(&self, name: &str) -> Result<Option<Arc<dyn Source>>> {
        match self.origin.open(&self.at.inside(name)) {
            Ok(source) => Ok(Some(source)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// True where `error` may mean that `at` names a folder: of files, or of keys that begin with it.
fn is_folder(origin: &dyn Origin, at: &Locator, error: &Error) -> bool {
    match error.kind() {
        // A folder, or a URL that ends in a slash.
        ErrorKind::Invalid => true,
        // Object stores have no folders, and web servers do not say: formats look for the files they know by name.
        ErrorKind::NotFound if at.is_url() => true,
        ErrorKind::NotFound => origin.list(at).is_ok_and(|files| files.iter().any(|file| file != at)),
        _ => false,
    }
}

/// What this process can do beyond what is built in.
static REGISTERED: RwLock<Vec<Arc<dyn Format>>> = RwLock::new(Vec::new());

/// Adds a user's own format. It is asked before all that are built in; one of the same name is replaced.
pub fn register_format(format: Arc<dyn Format>) {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    registered.retain(|known| known.name() != format.name());
    registered.push(format);
}

/// True where a format that was registered takes what lies at `at`: its description may change with the user's program.
pub fn is_registered(origin: &dyn Origin, at: &Locator) -> Result<bool> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner).clone();
    if registered.is_empty() {
        return Ok(false);
    }
    let found = Found::look(origin, at)?;
    for format in registered {
        if format.probe(&found)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// All formats, in the order they are asked.
pub fn formats() -> Vec<Arc<dyn Format>> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    registered.iter().cloned().chain(built_in()).collect()
}

/// The formats that are built in: those with a signature first, then those that are told by less.
fn built_in() -> Vec<Arc<dyn Format>> {
    vec![
        Arc::new(Netcdf3),
        // Silo in HDF5 is told by what lies in the file, so it is asked before HDF5 itself.
        Arc::new(Silo),
        Arc::new(Hdf5),
        Arc::new(Zarr),
        Arc::new(Bp5),
        Arc::new(Bp4),
        Arc::new(Npy),
        Arc::new(Npz),
        Arc::<TfRecord>::default(),
        Arc::new(Images),
        Arc::new(NpyFolder),
        Arc::new(Csv),
        // Those that look at more than the first bytes of a file come last: each look is a request.
        Arc::new(Bp3),
        Arc::new(Indexed),
    ]
}

/// The format of what was found, if this process reads it.
pub fn format_of(found: &Found<'_>) -> Result<Option<Arc<dyn Format>>> {
    found.hdf5.only_head.set(true);
    let known = first_of(&formats(), found);
    found.hdf5.only_head.set(false);
    match known? {
        Some(format) => Ok(Some(format)),
        None => first_of(&[Arc::new(Silo), Arc::new(Hdf5)], found),
    }
}

/// The first of `formats` that takes what was found.
fn first_of(formats: &[Arc<dyn Format>], found: &Found<'_>) -> Result<Option<Arc<dyn Format>>> {
    for format in formats {
        if format.probe(found)? {
            return Ok(Some(Arc::clone(format)));
        }
    }
    Ok(None)
}

/// The error for what was no file a moment ago and is one now.
fn changed(at: &Locator) -> Error {
    Error::new(ErrorKind::Unavailable, "changed while it was looked at").hint("open it again").at(at)
}

/// Describes what lies at `at`, in whichever format it is.
pub fn describe(origin: &dyn Origin, at: &Locator) -> Result<Container> {
    let found = Found::look(origin, at)?;
    if let Some(format) = format_of(&found)? {
        return format.describe(&found).map_err(|error| error.at(at));
    }
    let mut known: Vec<_> = formats().iter().map(|format| format.name().to_owned()).collect();
    // NetCDF-4 is no format of its own here: it is read as the HDF5 it is.
    if let Some(at) = known.iter().position(|name| name == "hdf5") {
        known.insert(at + 1, Container::NETCDF4.to_owned());
    }
    let reads = format!("it reads: {}", known.join(", "));
    // A folder of nothing we know, or a pipe, or nothing at all: why it could not be opened says it best.
    let Some(file) = &found.file else {
        return origin.open(at).and_then(|_| Err(changed(at))).map_err(|error| match error.kind() {
            ErrorKind::Invalid => error.hint(format!("of folders, those of a format are read; {reads}")),
            _ => error,
        });
    };
    if file.id().len == 0 {
        let error = Error::new(ErrorKind::Corrupt, "the file is empty");
        return Err(error.hint("was it written to its end?").at(at));
    }
    for format in formats() {
        if let Some(why) = format.why_not(&found)? {
            return Err(why.at(at));
        }
    }
    Err(Error::new(ErrorKind::Unsupported, "not a file of a format this build reads").hint(reads).at(at))
}

#[cfg(test)]
mod tests {
    use forebay_source::MemoryOrigin;

    use super::*;

    /// Takes any file that begins with its own name.
    #[derive(Debug)]
    struct Named(&'static str, &'static str);

    impl Format for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn probe(&self, found: &Found<'_>) -> Result<bool> {
            Ok(found.head.starts_with(self.0.as_bytes()))
        }

        fn describe(&self, _: &Found<'_>) -> Result<Container> {
            Ok(Container { format: self.1.into(), ..Container::default() })
        }
    }

    #[test]
    fn a_format_that_is_registered_is_asked_and_may_be_replaced() {
        let origin = MemoryOrigin::default().with("a", "mine and more").with("b", "nobody's");
        let describe = |at: &str| describe(&origin, &Locator::new(at));
        assert_eq!(describe("a").unwrap_err().kind(), ErrorKind::Unsupported);
        register_format(Arc::new(Named("mine", "first")));
        register_format(Arc::new(Named("mine", "second")));
        assert_eq!(describe("a").unwrap().format, "second");
        let is_registered = |at: &str| is_registered(&origin, &Locator::new(at)).unwrap();
        assert!(is_registered("a") && !is_registered("b"));
        let error = describe("b").unwrap_err().to_string();
        assert!(error.contains("it reads: mine, ") && error.contains(", hdf5, netcdf4, "), "{error}");
        assert_eq!(describe("c").unwrap_err().kind(), ErrorKind::NotFound);
    }
}
