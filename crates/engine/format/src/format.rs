//! What a format is, and what it is shown of a file.

use std::{
    cell::{Cell, OnceCell},
    fmt,
    rc::Rc,
    sync::Arc,
};

use bytes::Bytes;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Locator, Origin, Source, SourceExt};

use forebay_container::{Container, SourceIndex};
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

    /// While `is_on`, a superblock is looked for in the first bytes alone.
    pub(crate) fn look_at_head_only(&self, is_on: bool) {
        self.hdf5.only_head.set(is_on);
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
