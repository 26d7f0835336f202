//! A file that stays open, so that each of its variables is read without describing the file again.

pub(crate) mod byte_origin;
pub(crate) mod inspect;
pub(crate) mod read;

use forebay::{
    Error, ErrorKind, Opened, Result, Selection, Variable,
    container::{SourceIndex, unpack::Unpack},
    file_version, variable_facts,
};
use pyo3::prelude::*;

use crate::{
    closable::Closable,
    error::raised,
    file::{
        byte_origin::RawOrigin,
        inspect::{AttributeRows, attribute_rows, numpy_type},
        read::{RawArray, select, values},
    },
    interruptible::interruptible,
    plain::{Plain, plain},
};

/// Reads of up to so many bytes from a local file are done on the caller's thread: a thread for each took 30 us.
const QUICK_BYTES: u64 = 1 << 20;

/// A file that stays open.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct FileReader {
    path: String,
    file: Closable<Opened>,
    /// True where reads do not wait for a network.
    is_local: bool,
    /// How values are unpacked, if they are.
    how: Option<Unpack>,
}

impl FileReader {
    fn is_quick(&self, variable: &Variable, selection: &Selection) -> bool {
        let chunk = variable.grid.chunk.iter().fold(1u64, |len, axis| len.saturating_mul(*axis));
        let chunk_len = chunk.saturating_mul(variable.dtype.stored_len() as u64);
        let len = selection.element_count().saturating_mul(variable.dtype.native_len() as u64);
        self.is_local && len <= QUICK_BYTES && (variable.filters.is_empty() || chunk_len <= QUICK_BYTES)
    }
}

#[pymethods]
impl FileReader {
    /// Opens the file at `path`, whose values are unpacked as `how` says, if it says anything; read through the tiers of
    /// `origin`, if there is one. Where `version` is given, a file of another version is an error.
    #[new]
    #[pyo3(signature = (path, how = None, origin = None, version = None))]
    fn new(
        py: Python<'_>,
        path: String,
        how: Option<Plain<Unpack>>,
        origin: Option<&Bound<'_, RawOrigin>>,
        version: Option<String>,
    ) -> PyResult<Self> {
        let how = how.map(|Plain(how)| how);
        let asked = path.clone();
        let through_tiers = origin.map(|origin| origin.get().file_opener()).transpose()?;
        let open = move || {
            let file = match &through_tiers {
                Some(open) => open(&asked)?,
                None => forebay::open_file(&asked)?,
            };
            check_version(&file, version.as_deref()).map_err(|error| error.at(&asked))?;
            let is_local = file.source(SourceIndex(0)).is_ok_and(|source| source.request_bytes() == 0);
            Ok((file, is_local))
        };
        let (file, is_local) = interruptible(py, open)?;
        if let Some(origin) = origin {
            origin.get().warn_of_tiers(py)?;
        }
        Ok(Self { path, file: Closable::new("file", file), is_local, how })
    }

    /// Names this state of the file on every node; nothing where a SWMR writer goes on changing it.
    #[getter]
    fn version(&self) -> PyResult<Option<String>> {
        Ok(file_version(self.file.get()?.container()))
    }

    /// The name of the file's format.
    #[getter]
    fn format(&self) -> PyResult<String> {
        Ok(self.file.get()?.container().format.clone())
    }

    /// The names of all variables, in the order of the file.
    fn names(&self) -> PyResult<Vec<String>> {
        let file = self.file.get()?;
        let container = file.container();
        Ok(container.listed_in_file_order().map(|variable| container.shown_name(variable)).collect())
    }

    /// The names of all groups, the root's first, which is empty.
    fn group_names(&self) -> PyResult<Vec<String>> {
        Ok(self.file.get()?.container().groups.iter().map(|group| group.name.clone()).collect())
    }

    /// The names of the dimensions that the HDF5 group `group` itself has and that may grow.
    fn growing_scales(&self, group: &str) -> PyResult<Vec<String>> {
        Ok(self.file.get()?.container().growing_scales(group).map(str::to_owned).collect())
    }

    /// The stored name and the shape of the variable `name`.
    fn find(&self, name: &str) -> PyResult<(String, Vec<u64>)> {
        let file = self.file.get()?;
        let variable = file.variable(name).map_err(raised)?;
        Ok((format!("/{}", variable.name), variable.grid.shape.clone()))
    }

    /// The facts of the variable `name`, and its type for NumPy.
    fn facts<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>)> {
        let file = self.file.get()?;
        let variable = file.variable(name).map_err(raised)?;
        Ok((plain(py, &variable_facts(variable))?, numpy_type(py, variable)?))
    }

    /// Names and values of the attributes of the variable `name`; a value that cannot be read is a text that says why.
    fn attributes(&self, py: Python<'_>, name: &str) -> PyResult<AttributeRows> {
        let file = self.file.get()?;
        attribute_rows(py, &file.variable(name).map_err(raised)?.attributes)
    }

    /// The same for the group `name`, of which the root's is empty; nothing where there is no such group.
    fn group_attributes(&self, py: Python<'_>, name: &str) -> PyResult<Option<AttributeRows>> {
        let file = self.file.get()?;
        let group = file.container().groups.iter().find(|group| group.name == name);
        group.map(|group| attribute_rows(py, &group.attributes)).transpose()
    }

    /// The part `selection` of the variable `name`.
    fn read(&self, py: Python<'_>, name: String, selection: String) -> PyResult<RawArray> {
        let (file, how) = (self.file.get()?, self.how);
        let chosen = {
            let variable = file.variable(&name).map_err(raised)?;
            let chosen = select(&self.path, variable, &selection).map_err(raised)?;
            if self.is_quick(variable, &chosen) {
                let read = py.detach(|| values(&file, variable, &chosen, how));
                return read.map(RawArray::unpacked).map_err(raised);
            }
            chosen
        };
        let read = move || -> Result<_> { values(&file, file.variable(&name)?, &chosen, how) };
        interruptible(py, read).map(RawArray::unpacked)
    }

    /// Ends it; may be called more than once.
    fn close(&self) {
        self.file.close();
    }
}

/// An error where `file` is not of the version `expected`: what is known of it came from another one.
fn check_version(file: &Opened, expected: Option<&str>) -> Result<()> {
    if expected.is_none() || file_version(file.container()).as_deref() == expected {
        return Ok(());
    }
    let error =
        Error::new(ErrorKind::Unavailable, "changed since it was first opened, perhaps by another process");
    Err(error.hint("open it again where that was"))
}
