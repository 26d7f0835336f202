//! A user's own format, written in Python.
//!
//! ```text
//! probe(path, head) ─► describe(file) ─► what each variable is (given) ─► Container
//!                                         its callable, where it has one ─► kept by file ─► Reader
//! ```
//!
//! All that is kept here is touched only by threads that have the interpreter's lock, so that no fork finds it locked.

mod file;
mod given;
mod kept;

pub(crate) use file::FormatFile;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use forebay::{
    Array, Container, Error, ErrorKind, FileOrigin, Origin, Result, Values,
    container::{Group, SourceIndex, Span},
    format::{Format, Found, ReadRequest, Reader, register_format, register_reader},
    source::SourceId,
};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    sync::MutexExt,
    types::{PyBytes, PyList},
};

use self::{
    given::{PythonVariable, Sources},
    kept::{DescribedKey, KeptCallables},
};
use crate::error::{raised, reported};

/// A format whose files Python code recognises and describes.
struct PythonFormat {
    name: String,
    probe: Py<PyAny>,
    describe: Py<PyAny>,
    kept: KeptCallables,
}

/// Reads what such a format gives no extents for.
struct PythonReader {
    name: String,
    format: Arc<PythonFormat>,
}

impl fmt::Debug for PythonFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PythonFormat({})", self.name)
    }
}

impl fmt::Debug for PythonReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PythonReader({})", self.name)
    }
}

/// Names that were registered from Python: those of formats that are built in stay what they are.
static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Adds a format; one that was registered under the same name is replaced.
#[pyfunction]
#[pyo3(name = "register_format")]
pub(crate) fn register(name: String, probe: Py<PyAny>, describe: Py<PyAny>) -> PyResult<()> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if !names.contains(&name) {
        if forebay::formats().iter().any(|format| format.name() == name) {
            let error = Error::new(ErrorKind::Invalid, format!("a format called '{name}' is built in"));
            return Err(raised(error.hint("give yours a name of its own")));
        }
        names.push(name.clone());
    }
    drop(names);
    let format = Arc::new(PythonFormat { name, probe, describe, kept: KeptCallables::default() });
    register_reader(Arc::new(PythonReader { name: reader_name(&format.name), format: Arc::clone(&format) }));
    register_format(format);
    Ok(())
}

fn reader_name(format: &str) -> String {
    format!("python:{format}")
}

/// What `work` gives with the interpreter's lock; what it raises is an error that says who raised it.
fn in_python<T>(who: &str, work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
    let done = Python::try_attach(|py| work(py).map_err(|error| reported(py, error).at(who)));
    done.unwrap_or_else(|| Err(Error::new(ErrorKind::Unavailable, "Python is coming to its end").at(who)))
}

impl PythonFormat {
    /// Asks Python to describe `file`.
    fn ask(&self, py: Python<'_>, file: FormatFile) -> PyResult<Vec<PythonVariable>> {
        let described = self.describe.call1(py, (file,))?;
        let Ok(list) = described.bind(py).cast::<PyList>() else {
            return Err(PyTypeError::new_err("describe gives a list of forebay.Variable"));
        };
        // Which of our own fields it was to become means nothing to the user.
        let plain = |error: PyErr| error.cause(py).unwrap_or(error);
        list.iter().map(|item| item.extract().map_err(plain)).collect()
    }

    fn who(&self, what: &str) -> String {
        format!("{what} of format '{}'", self.name)
    }
}

impl Format for PythonFormat {
    fn name(&self) -> &str {
        &self.name
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        let ask = |py: Python<'_>| {
            let head = PyBytes::new(py, &found.head);
            self.probe.call1(py, (found.at.as_str(), head))?.bind(py).is_truthy()
        };
        in_python(&self.who("probe"), ask).map_err(|error| error.at(found.at))
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        let who = self.who("describe");
        let file = FormatFile::new(found.at.as_str(), found.file.clone());
        let mut given = in_python(&who, |py| self.ask(py, file))?;
        given.sort_by(|one, other| one.name.cmp(&other.name));
        if let Some(twice) = given.windows(2).find(|two| two[0].name == two[1].name) {
            let what = format!("two variables are called '{}'", twice[0].name);
            return Err(Error::new(ErrorKind::Invalid, what).at(who));
        }
        let mut sources = Sources::new(found);
        let variables = given.iter().map(|one| {
            one.variable(&reader_name(&self.name), &mut sources)
                .map_err(|error| error.at(format!("variable '{}'", one.name)).at(&who))
        });
        let container = Container {
            format: self.name.clone(),
            variables: variables.collect::<Result<_>>()?,
            groups: groups(&given),
            sources: sources.into_ids(),
            ..Container::default()
        };
        let key = DescribedKey::new(found.at.as_str(), container.sources.first());
        in_python(&who, |py| {
            self.kept.put(py, key, given);
            Ok(())
        })?;
        Ok(container)
    }
}

/// The root, and all groups that names of variables speak of.
fn groups(given: &[PythonVariable]) -> Vec<Group> {
    let mut names = vec![String::new()];
    for one in given {
        let ends = one.name.match_indices('/').map(|(end, _)| one.name[..end].to_owned());
        names.extend(ends);
    }
    names.sort();
    names.dedup();
    names.into_iter().map(|name| Group { name, attributes: Vec::new() }).collect()
}

impl Reader for PythonReader {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self, wanted: &ReadRequest<'_>) -> Result<Array> {
        check_unchanged(wanted)?;
        let who = self.format.who("read");
        let bytes = in_python(&who, |py| self.bytes(py, wanted))?;
        // What was written meanwhile may be in the values.
        check_unchanged(wanted)?;
        Ok(Array {
            dtype: wanted.variable.dtype.clone(),
            shape: wanted.selection.shape(),
            values: Values::Fixed(bytes),
        })
    }
}

impl PythonReader {
    fn bytes(&self, py: Python<'_>, wanted: &ReadRequest<'_>) -> PyResult<Vec<u8>> {
        let callable = self.callable(py, wanted)?;
        let spans: Vec<_> = wanted.selection.spans().iter().map(bounds).collect();
        let turn = self.format.kept.turn();
        // Who waits for its turn lets others have the interpreter.
        let _mine = turn.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let given = callable.call1(py, (spans,))?;
        Ok(given.bind(py).cast::<PyBytes>()?.as_bytes().to_vec())
    }

    /// The callable that reads the variable. It is asked for again where the description came from another process, or
    /// was left to make room for others.
    fn callable(&self, py: Python<'_>, wanted: &ReadRequest<'_>) -> PyResult<Py<PyAny>> {
        let (kept, path, name) = (&self.format.kept, wanted.opaque.name.as_str(), &wanted.variable.name);
        let first = wanted.opened.container().sources.first();
        let key = DescribedKey::new(path, first);
        if let Some(callable) = kept.get(py, &key, name) {
            return Ok(callable);
        }
        let is_file = first.is_some_and(|id| id.locator.as_str() == path);
        let source = match is_file {
            true => Some(py.detach(|| wanted.opened.shared_source(SourceIndex(0))).map_err(raised)?),
            false => None,
        };
        let given = self.format.ask(py, FormatFile::new(path, source))?;
        kept.put(py, key.clone(), given);
        kept.get(py, &key, name).ok_or_else(|| {
            let what = format!("describe no longer gives a variable '{name}' that is read by a callable");
            raised(Error::new(ErrorKind::Invalid, what))
        })
    }
}

/// Start, stop and step of a slice.
fn bounds(span: &Span) -> (u64, u64, u64) {
    let reach = span.count.saturating_sub(1).saturating_mul(span.step);
    let stop = if span.count == 0 { span.start } else { span.start.saturating_add(reach).saturating_add(1) };
    (span.start, stop, span.step)
}

/// Refuses what has changed since it was described: callables open files as they like.
fn check_unchanged(wanted: &ReadRequest<'_>) -> Result<()> {
    let is_same = |id: &SourceId| match id.locator.is_url() {
        true => Ok(true),
        false => FileOrigin::new().open(&id.locator).map(|source| source.id().names_same_bytes(id)),
    };
    match wanted.opened.container().sources.first() {
        Some(id) if !is_same(id)? => {
            Err(Error::new(ErrorKind::Unavailable, "changed since it was described").hint("open it again"))
        }
        _ => Ok(()),
    }
}
