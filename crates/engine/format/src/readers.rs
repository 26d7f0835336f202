//! The readers of variables without extents that this process knows.

use std::sync::{Arc, PoisonError, RwLock};

use forebay_process::{Error, ErrorKind, Result};

use crate::{Reader, libhdf5::Libhdf5, silo::library::Libsilo, zarr::Ragged};

/// What this process has beyond what is built in.
static REGISTERED: RwLock<Vec<Arc<dyn Reader>>> = RwLock::new(Vec::new());

/// Adds a reader for a user's own format; one of the same name is replaced.
pub fn register_reader(reader: Arc<dyn Reader>) {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    registered.retain(|known| known.name() != reader.name());
    registered.push(reader);
}

/// The reader called `name`.
pub(crate) fn find(name: &str) -> Result<Arc<dyn Reader>> {
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
