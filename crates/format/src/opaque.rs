//! Variables that have no extents: who reads them is found by name in `reader`.
//!
//! The first of these readers is libhdf5, found at run time:
//!
//! ```text
//! find ─► load (a copy of its own) ─► ffi ─► library (one lock) ─► memory (types) ─► values ─► Array
//! ```
//!
//! libhdf5 is not thread safe: a read holds the one lock of the process until it is done, however long it takes. What it
//! opened stays open for the next read (`kept`); a forked child loads a copy for itself, as the lock and the library may be
//! in use by a thread that the child does not have.

mod arena;
mod ffi;
mod find;
mod kept;
mod library;
mod load;
mod memory;
mod reader;
mod reshaped;
mod values;

pub(crate) use find::linker_folders;
pub(crate) use load::check_owner;
pub use reader::{Reader, Wanted, register_reader};

use std::path::PathBuf;

use forebay_source::{Error, ErrorKind, FileOrigin, Origin, Result};

use crate::{Opened, silo};
use forebay_container::{Array, Container, Dtype, Extents, Opaque, Selection, SourceIndex, Values, Variable};

/// Version and path of the libhdf5 that reads what forebay itself cannot; `None` where there is none.
pub fn libhdf5_version() -> Option<String> {
    library::version()
}

/// As [`libhdf5_version`], or why there is none and what helps.
pub fn find_libhdf5() -> Result<String> {
    library::find_version()
}

/// The values of `selection`, read by the reader that `opaque` names.
pub(crate) fn read(
    opened: &Opened,
    opaque: &Opaque,
    variable: &Variable,
    selection: &Selection,
) -> Result<Array> {
    let array = reader::find(&opaque.library)?.read(&Wanted { opened, opaque, variable, selection });
    let array = array.map_err(|error| error.at(format!("{}, so {} reads it", opaque.why, opaque.library)))?;
    if array.shape != selection.shape() {
        let what = format!(
            "{} gives {:?} elements where {:?} belong",
            opaque.library,
            array.shape,
            selection.shape()
        );
        return Err(Error::new(ErrorKind::Corrupt, what));
    }
    Ok(array)
}

/// libhdf5, where one is found.
#[derive(Debug)]
struct Libhdf5;

impl Reader for Libhdf5 {
    fn name(&self) -> &str {
        "libhdf5"
    }

    fn read(&self, wanted: &Wanted<'_>) -> Result<Array> {
        by_library(wanted.opened, wanted.variable, wanted.selection)
    }
}

/// The values of `selection`, read by libhdf5 whatever forebay itself could do.
pub(crate) fn by_library(opened: &Opened, variable: &Variable, selection: &Selection) -> Result<Array> {
    let (source, name) = target(opened, variable);
    let path = local_path(opened, source)?;
    let budget = opened.budget();
    let parts: &[Variable] = if variable.layout == "virtual" { &opened.container().parts } else { &[] };
    let (sources, may_be_kept) = (&opened.container().sources[..], may_be_kept(opened, variable));
    let data = kept::Wanted { path: &path, name: &name, sources, may_be_kept };
    let request = library::Request { data, variable, selection, budget };
    let array = library::with(|library| {
        let is_known = library.knows(&request);
        for part in parts {
            let (source, name) = target(opened, part);
            let opens = local_path(opened, source).and_then(|path| match is_known {
                true => Ok(()),
                false => library.check_opens(&path, &name),
            });
            opens.map_err(|error| error.at(format!("its source '{}'", part.name)))?;
        }
        match is_silo_in_hdf5(opened.container()) {
            true => reshaped::read(library, &request),
            false => library.read(&request),
        }
    })?;
    // What was written meanwhile may be in the values.
    local_path(opened, source)?;
    Ok(array)
}

/// True when the library may keep open what it reads of `variable`: all files it could lead to are known, few, and
/// unchanged. The library has one view of a file, and would not see what was written since. Those of a virtual data set are not
/// all known, and while it is open the library does not open its sources for themselves.
fn may_be_kept(opened: &Opened, variable: &Variable) -> bool {
    let count = opened.container().sources.len();
    let mut sources = (0..).map(SourceIndex).take(count);
    variable.layout != "virtual"
        && count <= kept::MOST_FILES
        && sources.all(|source| local_path(opened, source).is_ok())
}

/// The library's answer where forebay itself gave `native`; if it has none, that error and what was tried.
pub(crate) fn instead(
    opened: &Opened,
    variable: &Variable,
    selection: &Selection,
    native: Error,
) -> Result<Array> {
    let is_tried = matches!(variable.extents, Extents::Opaque(_));
    // Neither can the library make values of these.
    let is_hopeless = matches!(variable.dtype, Dtype::Reference { .. } | Dtype::Other { .. });
    let is_stored_so = opened.container().is_hdf5() || is_silo_in_hdf5(opened.container());
    if is_hopeless || native.kind() != ErrorKind::Unsupported || !is_stored_so || is_tried {
        return Err(native);
    }
    by_library(opened, variable, selection)
        .map_err(|error| native.hint(format!("libhdf5 was tried: {error}")))
}

/// As [`instead`], into memory laid out as the variable's type says.
pub(crate) fn instead_into(
    opened: &Opened,
    variable: &Variable,
    selection: &Selection,
    native: Error,
    out: &mut [u8],
) -> Result<()> {
    let array = instead(opened, variable, selection, native)?;
    copy_out(&array, variable, out)
}

/// Copies the values of `array` to memory laid out as the type of `variable` says.
pub(crate) fn copy_out(array: &Array, variable: &Variable, out: &mut [u8]) -> Result<()> {
    let is_wanted = match variable.dtype {
        Dtype::Odd { number, .. } => array.dtype == Dtype::native(number),
        _ => array.dtype == variable.dtype,
    };
    match &array.values {
        Values::Fixed(bytes) if bytes.len() == out.len() && is_wanted => {
            out.copy_from_slice(bytes);
            Ok(())
        }
        _ => {
            let what = format!("the library gives {} where {} was wanted", array.dtype, variable.dtype);
            Err(Error::new(ErrorKind::Unsupported, what))
        }
    }
}

/// The source the library opens and what it calls the variable there.
///
/// Links are the library's business as well, so a variable's name holds in the file that was described; a part's
/// name starts with the file it lies in.
fn target(opened: &Opened, variable: &Variable) -> (SourceIndex, String) {
    let container = opened.container();
    let is_named = container.variables.binary_search_by(|known| known.name.cmp(&variable.name)).is_ok();
    let in_source = |(index, id): (u32, &forebay_source::SourceId)| {
        let name = variable.name.strip_prefix(id.locator.as_str())?.strip_prefix(':')?;
        Some((SourceIndex(index), name.to_owned()))
    };
    // An object's array of a Silo file is listed under the object's name.
    let mut names = container.aliases.iter().filter(|alias| alias.target == variable.name);
    if let Some(stored) = names.find(|alias| silo::is_array_name(&alias.name)) {
        return (SourceIndex(0), stored.name.clone());
    }
    let mut sources = (0..).zip(&container.sources);
    let part = if is_named { None } else { sources.find_map(in_source) };
    part.unwrap_or_else(|| (SourceIndex(0), variable.name.clone()))
}

/// True for a Silo file of the HDF5 driver.
fn is_silo_in_hdf5(container: &Container) -> bool {
    let aliases = container.aliases.iter().map(|alias| &alias.name);
    let mut names = aliases.chain(container.variables.iter().map(|variable| &variable.name));
    container.format == "silo" && names.any(|name| silo::is_array_name(name))
}

/// The path of a source that is a local file, unchanged since it was described: libraries open nothing else.
pub(crate) fn local_path(opened: &Opened, index: SourceIndex) -> Result<PathBuf> {
    let Some(id) = opened.container().sources.get(index.0 as usize) else {
        return Err(Error::new(ErrorKind::Bug, format!("no source {}", index.0)));
    };
    // A remote file may be named like a local one: only the same bytes will do.
    let here = FileOrigin::new().open(&id.locator);
    match here {
        Ok(source) if source.id().names_same_bytes(id) => {}
        Ok(source) if source.id().version.modified.is_some() && id.version.modified.is_some() => {
            return Err(
                Error::new(ErrorKind::Unavailable, "changed since it was described").hint("open it again")
            );
        }
        _ => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "a library reads it, and those open local files only",
            ));
        }
    }
    std::path::absolute(id.locator.as_str()).map_err(Error::from_io)
}
