//! Error kinds as Python exceptions: the table of this border.

use std::error::Error as _;

use forebay::{Error, ErrorKind, process::Event};
use pyo3::{
    create_exception, exceptions,
    prelude::*,
    sync::PyOnceLock,
    types::{IntoPyDict, PyTuple, PyType},
};

create_exception!(_forebay, ForebayError, exceptions::PyException, "Whatever goes wrong in forebay.");
create_exception!(
    _forebay,
    ForebayWarning,
    exceptions::PyUserWarning,
    "Something was left out, or done otherwise than one may think."
);

/// One kind of error as a class of exceptions.
struct ExceptionRow {
    kind: ErrorKind,
    /// The `kind` of its exceptions.
    word: &'static str,
    name: &'static str,
    doc: &'static str,
    /// Python's own exception that it is as well, so that code written for files goes on working.
    also: Option<fn(Python<'_>) -> Bound<'_, PyType>>,
}

const EXCEPTIONS: [ExceptionRow; 9] = [
    ExceptionRow {
        kind: ErrorKind::NotFound,
        word: "not_found",
        name: "NotFoundError",
        doc: "Nothing is there.",
        also: Some(|py| py.get_type::<exceptions::PyFileNotFoundError>()),
    },
    ExceptionRow {
        kind: ErrorKind::Invalid,
        word: "invalid",
        name: "InvalidError",
        doc: "The request makes no sense.",
        also: None,
    },
    ExceptionRow {
        kind: ErrorKind::Corrupt,
        word: "corrupt",
        name: "CorruptError",
        doc: "The bytes break their own format.",
        also: None,
    },
    ExceptionRow {
        kind: ErrorKind::Unsupported,
        word: "unsupported",
        name: "UnsupportedError",
        doc: "A valid request this build cannot serve.",
        also: None,
    },
    ExceptionRow {
        kind: ErrorKind::Unavailable,
        word: "unavailable",
        name: "UnavailableError",
        doc: "It may work if tried again later.",
        also: None,
    },
    ExceptionRow {
        kind: ErrorKind::Full,
        word: "full",
        name: "FullError",
        doc: "No room is left.",
        also: None,
    },
    ExceptionRow {
        kind: ErrorKind::Denied,
        word: "denied",
        name: "DeniedError",
        doc: "The system does not let this user do it.",
        also: Some(|py| py.get_type::<exceptions::PyPermissionError>()),
    },
    ExceptionRow {
        kind: ErrorKind::Io,
        word: "system",
        name: "SystemError",
        doc: "The system refused.",
        also: Some(|py| py.get_type::<exceptions::PyOSError>()),
    },
    ExceptionRow {
        kind: ErrorKind::Bug,
        word: "bug",
        name: "BugError",
        doc: "A promise inside forebay was broken.",
        also: None,
    },
];

impl ExceptionRow {
    /// The class, made as Python's `class` statement does: it may have two bases.
    fn class(&self, py: Python<'_>) -> PyResult<Py<PyType>> {
        let own = py.get_type::<ForebayError>();
        let bases = match self.also {
            None => PyTuple::new(py, [own])?,
            Some(also) => PyTuple::new(py, [own, also(py)])?,
        };
        // Users meet it in the package, not in its compiled part.
        let attributes = [("__doc__", self.doc), ("__module__", "forebay"), ("kind", self.word)];
        let made = py.get_type::<PyType>().call1((self.name, bases, attributes.into_py_dict(py)?))?;
        Ok(made.cast_into::<PyType>()?.unbind())
    }
}

/// The classes of [`EXCEPTIONS`], made when the first of them is asked for.
fn classes(py: Python<'_>) -> PyResult<&'static Vec<Py<PyType>>> {
    static CLASSES: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();
    CLASSES.get_or_try_init(py, || EXCEPTIONS.iter().map(|row| row.class(py)).collect())
}

/// The exception for `error`, with the number of the system's error as `errno`; one of Python that caused it stays its
/// cause.
pub(crate) fn raised(error: Error) -> PyErr {
    Python::attach(|py| {
        let exception = exception(py, error.kind(), error.to_string());
        let cause = error.source().and_then(|cause| cause.downcast_ref::<PyErr>());
        let theirs = cause.and_then(|cause| cause.value(py).getattr("errno").ok()?.extract().ok());
        if let Some(errno) = error.raw_os_error().or(theirs) {
            // An exception without its number is worth more than an error about that.
            drop(exception.value(py).setattr("errno", errno));
        }
        if let Some(cause) = cause {
            exception.set_cause(py, Some(cause.clone_ref(py)));
        }
        exception
    })
}

fn exception(py: Python<'_>, kind: ErrorKind, text: String) -> PyErr {
    let row = EXCEPTIONS.iter().position(|row| row.kind == kind).unwrap_or(EXCEPTIONS.len() - 1);
    match classes(py) {
        Ok(classes) => PyErr::from_type(classes[row].bind(py).clone(), text),
        Err(error) => error,
    }
}

/// The error for what Python code of the user's raised.
pub(crate) fn reported(py: Python<'_>, raised: PyErr) -> Error {
    let value = raised.value(py);
    let text = value.str().map_or_else(|_| String::new(), |text| text.to_string());
    if raised.is_instance_of::<ForebayError>(py) {
        let word = value.getattr("kind").and_then(|kind| kind.extract::<String>()).unwrap_or_default();
        return Error::new(kind_of(&word), text).because(raised);
    }
    if raised.is_instance_of::<exceptions::PyKeyboardInterrupt>(py) {
        // It was meant for the program, not for its reader of files.
        let again = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
        drop(again);
    }
    let is = |kind: &Bound<'_, PyAny>| raised.matches(py, kind).unwrap_or(false);
    let table = [
        (py.get_type::<exceptions::PyFileNotFoundError>(), ErrorKind::NotFound),
        (py.get_type::<exceptions::PyPermissionError>(), ErrorKind::Denied),
        (py.get_type::<exceptions::PyOSError>(), ErrorKind::Io),
        (py.get_type::<exceptions::PyMemoryError>(), ErrorKind::Full),
        (py.get_type::<exceptions::PyNotImplementedError>(), ErrorKind::Unsupported),
        // What code that takes bytes apart raises when they are not as they should be.
        (py.get_type::<exceptions::PyValueError>(), ErrorKind::Corrupt),
        (py.get_type::<exceptions::PyEOFError>(), ErrorKind::Corrupt),
    ];
    let found = table.iter().find(|(class, _)| is(class.as_any()));
    let name = raised.get_type(py).name().map_or_else(|_| "an exception".into(), |name| name.to_string());
    let kind = match name.as_str() {
        // `struct.error` is an exception of its own.
        "error" => ErrorKind::Corrupt,
        _ => found.map_or(ErrorKind::Invalid, |(_, kind)| *kind),
    };
    Error::new(kind, format!("{name}: {text}")).because(raised)
}

/// The kind whose exceptions have `word` as their `kind`.
fn kind_of(word: &str) -> ErrorKind {
    EXCEPTIONS.iter().find(|row| row.word == word).map_or(ErrorKind::Bug, |row| row.kind)
}

/// Shows what the engine warns of, as Python's warnings.
///
/// All are shown, also where one of them is an error to the program: none is given a second time.
pub(crate) fn show_warnings(py: Python<'_>) -> PyResult<()> {
    let shown: Vec<PyResult<()>> =
        forebay::process::take_warnings().into_iter().map(|event| show_warning(py, event)).collect();
    shown.into_iter().collect()
}

fn show_warning(py: Python<'_>, event: Event) -> PyResult<()> {
    let warning = py.get_type::<ForebayWarning>().call1((event.text,))?;
    warning.setattr("kind", event.kind.word())?;
    let where_shown = [("stacklevel", 2)].into_py_dict(py)?;
    py.import("warnings")?.call_method("warn", (warning,), Some(&where_shown))?;
    Ok(())
}

/// The exception for text that is no such plain data as it should be.
pub(crate) fn misread(error: &serde_json::Error) -> PyErr {
    raised(Error::new(ErrorKind::Invalid, error.to_string()))
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let base = py.get_type::<ForebayError>();
    base.setattr("kind", "")?;
    base.setattr("errno", py.None())?;
    base.setattr("__module__", "forebay")?;
    let classes = classes(py)?.iter().map(|class| class.bind(py).clone());
    let warning = py.get_type::<ForebayWarning>();
    warning.setattr("kind", "")?;
    warning.setattr("__module__", "forebay")?;
    for class in [base, warning].into_iter().chain(classes) {
        module.add(class.name()?.to_string().as_str(), class)?;
    }
    Ok(())
}
