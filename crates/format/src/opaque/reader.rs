//! Who reads variables that have no extents.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use forebay_source::{Error, ErrorKind, Result};

use super::Libhdf5;
use crate::{Opened, silo::library::Libsilo, zarr::Ragged};
use forebay_container::{Array, Opaque, Selection, Variable};

/// Reads variables that have no extents: a library, or a user's own program.
///
/// # Contract
/// - What it gives has the selection's shape and the variable's type in this machine's byte order.
/// - Safe to call from many threads at once; a reader whose library is not holds a lock of its own.
pub trait Reader: Send + Sync + fmt::Debug {
    /// The name that [`Opaque::library`] has: `libhdf5`.
    fn name(&self) -> &str;

    /// The values that are wanted.
    fn read(&self, wanted: &Wanted<'_>) -> Result<Array>;
}

/// What a [`Reader`] is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The container, and through it its sources.
    pub opened: &'a Opened,
    /// What the format noted for the reader.
    pub opaque: &'a Opaque,
    /// The variable.
    pub variable: &'a Variable,
    /// Which of its elements.
    pub selection: &'a Selection,
}

/// What this process has beyond what is built in.
static REGISTERED: RwLock<Vec<Arc<dyn Reader>>> = RwLock::new(Vec::new());

/// Adds a reader for a user's own format; one of the same name is replaced.
pub fn register_reader(reader: Arc<dyn Reader>) {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    registered.retain(|known| known.name() != reader.name());
    registered.push(reader);
}

/// The reader called `name`.
pub(super) fn find(name: &str) -> Result<Arc<dyn Reader>> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    let known = registered.iter().cloned().chain(built_in());
    known.into_iter().find(|reader| reader.name() == name).ok_or_else(|| {
        let what = format!("no reader called '{name}' is registered in this process");
        Error::new(ErrorKind::Unsupported, what).hint("register the format it belongs to before opening")
    })
}

fn built_in() -> Vec<Arc<dyn Reader>> {
    vec![Arc::new(Libhdf5), Arc::new(Ragged), Arc::new(Libsilo)]
}
