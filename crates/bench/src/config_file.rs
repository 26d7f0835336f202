//! The workload that a run is asked for.

use std::path::Path;

use forebay::{Error, Result};
use forebay_workload::Workload;

/// The workload in the file at `path`.
pub(crate) fn read(path: &Path) -> Result<Workload> {
    let place = |error: Error| error.at(path.display());
    let text = std::fs::read_to_string(path).map_err(|error| place(Error::from_io(error)))?;
    serde_json::from_str(&text).map_err(|error| place(Error::invalid("is no workload").because(error)))
}
