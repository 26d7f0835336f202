//! Error kinds as Python exceptions: the table of this border.

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

/// The exception for `error`.
pub(crate) fn raised(error: Error) -> PyErr {
    let text = error.to_string();
    match error.kind() {
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
