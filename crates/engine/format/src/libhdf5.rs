//! libhdf5, found at run time: it reads what forebay itself cannot.
//!
//! ```text
//! Hdf5Calls (a copy of its own) ─► library (one lock) ─► memory (types) ─► values ─► Array
//! ```
//!
//! libhdf5 is not thread safe: a read holds the one lock of the process until it is done, however long it takes. What it
//! opened stays open for the next read (`recent`); a forked child loads a copy for itself, as the lock and the library may be
//! in use by a thread that the child does not have.

mod library;
mod memory;
mod read;
mod recent;
mod reshaped;
mod values;

use forebay_container::{Array, Container, Selection, SourceIndex, Variable};
use forebay_process::Result;

use crate::{Opened, ReadRequest, Reader, silo};

/// Version and path of the libhdf5 that reads what forebay itself cannot; `None` where there is none.
pub fn libhdf5_version() -> Option<String> {
    library::version()
}

/// As [`libhdf5_version`], or why there is none and what helps.
pub fn find_libhdf5() -> Result<String> {
    library::find_version()
}

/// libhdf5, where one is found.
#[derive(Debug)]
pub(crate) struct Libhdf5;

impl Reader for Libhdf5 {
    fn name(&self) -> &str {
        "libhdf5"
    }

    fn read(&self, wanted: &ReadRequest<'_>) -> Result<Array> {
        by_library(wanted.opened, wanted.variable, wanted.selection)
    }
}

/// The values of `selection`, read by libhdf5 whatever forebay itself could do.
pub(crate) fn by_library(opened: &Opened, variable: &Variable, selection: &Selection) -> Result<Array> {
    let (source, name) = target(opened, variable);
    let path = opened.local_path(source)?;
    let budget = opened.budget();
    let parts: &[Variable] = if variable.layout == "virtual" { &opened.container().parts } else { &[] };
    let (sources, may_be_kept) = (&opened.container().sources[..], may_be_kept(opened, variable));
    let data = recent::KeptRequest { path: &path, name: &name, sources, may_be_kept };
    let request = library::Request { data, variable, selection, budget };
    let array = library::with(|library| {
        let is_known = library.knows(&request);
        for part in parts {
            let (source, name) = target(opened, part);
            let opens = opened.local_path(source).and_then(|path| match is_known {
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
    opened.local_path(source)?;
    Ok(array)
}

/// True when the library may keep open what it reads of `variable`: all files it could lead to are known, few, and
/// unchanged. The library has one view of a file, and would not see what was written since. Those of a virtual data set are not
/// all known, and while it is open the library does not open its sources for themselves.
fn may_be_kept(opened: &Opened, variable: &Variable) -> bool {
    let count = opened.container().sources.len();
    let mut sources = (0..).map(SourceIndex).take(count);
    variable.layout != "virtual"
        && count <= recent::MOST_FILES
        && sources.all(|source| opened.local_path(source).is_ok())
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
pub(crate) fn is_silo_in_hdf5(container: &Container) -> bool {
    let aliases = container.aliases.iter().map(|alias| &alias.name);
    let mut names = aliases.chain(container.variables.iter().map(|variable| &variable.name));
    container.format == "silo" && names.any(|name| silo::is_array_name(name))
}
