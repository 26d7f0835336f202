//! A staging area, as Python uses it.

use std::{
    os::fd::IntoRawFd,
    path::PathBuf,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use forebay::stage::{Area, AreaPlace, ItemStatus, StageOptions, StageStats};
use pyo3::prelude::*;

use crate::{
    error::{raised, show_warnings},
    interruptible::interruptible,
    plain::Plain,
    stage::{
        file::RawStagedFile,
        progress::{KeptError, with_progress},
        settings::AreaDescription,
    },
};

/// One item of an area: id, kind, destination, state, bytes, process, whether that is gone, begin in seconds since 1970, and error.
pub(crate) type ItemRow =
    (String, &'static str, std::ffi::OsString, &'static str, u64, u32, bool, f64, Option<String>);

/// A staging area.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawArea {
    area: Arc<Area>,
}

#[pymethods]
impl RawArea {
    /// The area that `settings` describe.
    #[new]
    fn new(py: Python<'_>, settings: Plain<AreaDescription>) -> PyResult<Self> {
        let settings = settings.0.settings();
        let area = interruptible(py, move || {
            settings.make_folder()?;
            Area::open(settings.clone())
        })?;
        show_warnings(py)?;
        Ok(Self { area })
    }

    /// The folder, or nothing for memory.
    #[getter]
    fn path(&self) -> Option<std::ffi::OsString> {
        match &self.area.settings().place {
            AreaPlace::Folder(folder) => Some(folder.clone().into_os_string()),
            AreaPlace::Memory => None,
        }
    }

    /// A new file for the destination `path`; with `exclusive`, an error with the number `EEXIST` where there is one.
    #[pyo3(signature = (path, priority, latest, exclusive))]
    fn create(
        &self,
        py: Python<'_>,
        path: PathBuf,
        priority: i32,
        latest: Option<PathBuf>,
        exclusive: bool,
    ) -> PyResult<RawStagedFile> {
        let (area, name) = (Arc::clone(&self.area), path.display().to_string());
        let file = interruptible(py, move || {
            let latest = latest.clone();
            let options =
                StageOptions { priority, latest, is_exclusive: exclusive, ..StageOptions::default() };
            area.create(&path, options)
        })?;
        show_warnings(py)?;
        Ok(RawStagedFile::new(name, file))
    }

    /// True where an item of some process has bytes for `path` that are not there yet.
    fn is_pending(&self, py: Python<'_>, path: PathBuf) -> PyResult<bool> {
        Ok(py.detach(|| self.area.pending(&path)).map_err(raised)?.is_some())
    }

    /// A descriptor of the staged image of `path`, where one is sealed and not durable yet; the caller closes it.
    fn open_staged(&self, py: Python<'_>, path: PathBuf) -> PyResult<Option<i32>> {
        let file = py.detach(|| self.area.open_staged(&path)).map_err(raised)?;
        Ok(file.map(IntoRawFd::into_raw_fd))
    }

    /// Waits until no item of any process has bytes for `path`, at most so many seconds; false when that was not enough.
    #[pyo3(signature = (path, timeout=None))]
    fn wait_for(&self, py: Python<'_>, path: PathBuf, timeout: Option<f64>) -> PyResult<bool> {
        let limit = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
        let signal = KeptError::default();
        let keep_waiting = || signal.keep(Python::attach(|py| py.check_signals()));
        let waited = py.detach(|| self.area.wait_for(&path, limit, &keep_waiting));
        signal.raise()?;
        waited.map_err(raised)
    }

    /// The items of all processes that share the area.
    fn items(&self, py: Python<'_>) -> PyResult<Vec<ItemRow>> {
        let items = py.detach(|| self.area.items()).map_err(raised)?;
        Ok(items.into_iter().map(item_row).collect())
    }

    /// Waits until all items of this process are durable; `report` is called with items and bytes that are left, and bytes done.
    #[pyo3(signature = (report=None))]
    fn drain(&self, py: Python<'_>, report: Option<Py<PyAny>>) -> PyResult<()> {
        with_progress(py, report, |tell| self.area.drain(tell))?.map_err(raised)?;
        show_warnings(py)
    }

    /// Leaves what is not durable to `recover`: the end of the process does not wait for it.
    fn leave(&self) {
        self.area.leave();
    }

    /// Stops the drainers of this process, or of everyone who uses the area.
    fn pause(&self, py: Python<'_>, everyone: bool) -> PyResult<()> {
        py.detach(|| {
            if everyone {
                self.area.pause_all()
            } else {
                self.area.pause();
                Ok(())
            }
        })
        .map_err(raised)
    }

    /// Lets the drainers of this process, or of everyone, go on.
    fn resume(&self, py: Python<'_>, everyone: bool) -> PyResult<()> {
        py.detach(|| {
            if everyone {
                self.area.resume_all()
            } else {
                self.area.resume();
                Ok(())
            }
        })
        .map_err(raised)
    }

    /// What this process has done here so far, by name.
    fn stats(&self) -> Vec<(&'static str, u64)> {
        stat_rows(self.area.stats())
    }

    /// Drains, and ends the threads.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let area = Arc::clone(&self.area);
        interruptible(py, move || area.close())?;
        show_warnings(py)
    }
}

/// An item as Python takes it.
pub(crate) fn item_row(item: ItemStatus) -> ItemRow {
    let since = item.since.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    (
        item.id,
        item.kind.word(),
        item.destination.into_os_string(),
        item.state.word(),
        item.bytes,
        item.pid,
        item.is_deserted,
        since,
        item.error,
    )
}

fn stat_rows(stats: StageStats) -> Vec<(&'static str, u64)> {
    vec![
        ("staged_bytes", stats.staged_bytes),
        ("staged_writes", stats.staged_writes),
        ("sealed_files", stats.sealed_files),
        ("published_files", stats.published_files),
        ("passed_through_bytes", stats.passed_through_bytes),
        ("passed_through_writes", stats.passed_through_writes),
        ("drained_bytes", stats.drained_bytes),
        ("drain_writes", stats.drain_writes),
        ("merged_writes", stats.merged_writes),
        ("destination_syncs", stats.destination_syncs),
        ("reserved_bytes", stats.reserved_bytes),
        ("pending_bytes", stats.pending_bytes),
        ("failures", stats.failures),
    ]
}
