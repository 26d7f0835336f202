//! The formats this process knows, and which of them takes a file.

use std::sync::{Arc, PoisonError, RwLock};

use forebay_container::Container;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{Locator, Origin};

use crate::{
    Format, Found,
    adios::{Bp3, Bp4, Bp5},
    csv::Csv,
    hdf5::Hdf5,
    images::Images,
    indexed::Indexed,
    netcdf::Netcdf3,
    npy::{Npy, folder::NpyFolder},
    npz::Npz,
    silo::Silo,
    tfrecord::TfRecord,
    zarr::Zarr,
};

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

/// The formats that are built in: those with a signature first, then those that are recognised by less.
fn built_in() -> Vec<Arc<dyn Format>> {
    vec![
        Arc::new(Netcdf3),
        // Silo in HDF5 is recognised by what lies in the file, so it is asked before HDF5 itself.
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
    found.look_at_head_only(true);
    let known = first_of(&formats(), found);
    found.look_at_head_only(false);
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
