//! What killed processes left in a staging area, finished or discarded.

use std::path::PathBuf;

use forebay::stage::{RecoverOptions, recover};
use pyo3::prelude::*;

use crate::{
    error::raised,
    stage::{
        area::{ItemRow, item_row},
        progress::with_progress,
    },
};

/// Items by what became of them: finished, discarded, refused, and those of processes that still run.
type RecoveredRows = [Vec<ItemRow>; 4];

/// Finishes or discards every item in the area in `path` whose process is gone. `report` is called with items and bytes that are left,
/// and bytes done.
#[pyfunction]
#[pyo3(signature = (path, apply, discard, hosts, dry_run, report=None))]
pub(crate) fn stage_recover(
    py: Python<'_>,
    path: PathBuf,
    apply: Vec<String>,
    discard: Vec<String>,
    hosts: Vec<String>,
    dry_run: bool,
    report: Option<Py<PyAny>>,
) -> PyResult<RecoveredRows> {
    let options = RecoverOptions { apply, discard, hosts, dry_run };
    let recovered = with_progress(py, report, |tell| recover(&path, &options, tell))?.map_err(raised)?;
    let parts = [recovered.finished, recovered.discarded, recovered.refused, recovered.in_use];
    Ok(parts.map(|items| items.into_iter().map(item_row).collect()))
}
