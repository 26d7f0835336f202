//! Error kinds as Python exceptions: the table of this border.

use std::error::Error as _;

use forebay::{Error, ErrorKind};
use pyo3::{create_exception, exceptions, prelude::*};

create_exception!(_forebay, ForebayError, exceptions::PyException, "Whatever goes wrong in forebay.");
create_exception!(_forebay, NotFoundError, ForebayError, "Nothing is there.");
create_exception!(_forebay, InvalidError, ForebayError, "The request makes no sense.");
create_exception!(_forebay, CorruptError, ForebayError, "The bytes break their own format.");
create_exception!(_forebay, UnsupportedError, ForebayError, "A valid request this build cannot serve.");
create_exception!(_forebay, UnavailableError, ForebayError, "It may work if tried again later.");
create_exception!(_forebay, FullError, ForebayError, "No room is left.");
create_exception!(_forebay, DeniedError, ForebayError, "The system does not let this user do it.");
create_exception!(_forebay, SystemError, ForebayError, "The system refused.");
create_exception!(_forebay, BugError, ForebayError, "A promise inside forebay was broken.");

/// The exception for `error`; one of Python that caused it stays its cause.
pub(crate) fn raised(error: Error) -> PyErr {
    let exception = exception(error.kind(), error.to_string());
    if let Some(cause) = error.source().and_then(|cause| cause.downcast_ref::<PyErr>()) {
        Python::attach(|py| exception.set_cause(py, Some(cause.clone_ref(py))));
    }
    exception
}

fn exception(kind: ErrorKind, text: String) -> PyErr {
    match kind {
        ErrorKind::NotFound => NotFoundError::new_err(text),
        ErrorKind::Invalid => InvalidError::new_err(text),
        ErrorKind::Corrupt => CorruptError::new_err(text),
        ErrorKind::Unsupported => UnsupportedError::new_err(text),
        ErrorKind::Unavailable => UnavailableError::new_err(text),
        ErrorKind::Full => FullError::new_err(text),
        ErrorKind::Denied => DeniedError::new_err(text),
        ErrorKind::Io => SystemError::new_err(text),
        _ => BugError::new_err(text),
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
    match word {
        "not_found" => ErrorKind::NotFound,
        "invalid" => ErrorKind::Invalid,
        "corrupt" => ErrorKind::Corrupt,
        "unsupported" => ErrorKind::Unsupported,
        "unavailable" => ErrorKind::Unavailable,
        "full" => ErrorKind::Full,
        "denied" => ErrorKind::Denied,
        "system" => ErrorKind::Io,
        _ => ErrorKind::Bug,
    }
}

/// The exception for text that is no such plain data as it should be.
pub(crate) fn misread(error: &serde_json::Error) -> PyErr {
    InvalidError::new_err(error.to_string())
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let kinds = [
        ("ForebayError", py.get_type::<ForebayError>(), ""),
        ("NotFoundError", py.get_type::<NotFoundError>(), "not_found"),
        ("InvalidError", py.get_type::<InvalidError>(), "invalid"),
        ("CorruptError", py.get_type::<CorruptError>(), "corrupt"),
        ("UnsupportedError", py.get_type::<UnsupportedError>(), "unsupported"),
        ("UnavailableError", py.get_type::<UnavailableError>(), "unavailable"),
        ("FullError", py.get_type::<FullError>(), "full"),
        ("DeniedError", py.get_type::<DeniedError>(), "denied"),
        ("SystemError", py.get_type::<SystemError>(), "system"),
        ("BugError", py.get_type::<BugError>(), "bug"),
    ];
    for (name, class, kind) in kinds {
        class.setattr("kind", kind)?;
        // Users meet them in the package, not in its compiled part.
        class.setattr("__module__", "forebay")?;
        module.add(name, class)?;
    }
    Ok(())
}
