//! A value as it is given: text of a flag or variable, or a value of a TOML file.

use forebay_process::{Error, ErrorKind, Result, size, suggest::unknown};
use toml::de::DeValue;

use crate::config::amount::Amount;

/// A value as it is given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GivenValue<'a> {
    /// Of a flag or a variable.
    Text(&'a str),
    /// Of a file.
    Toml(&'a DeValue<'a>),
}

impl<'a> GivenValue<'a> {
    pub(crate) fn text(self) -> Result<&'a str> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Toml(value) => value.as_str().ok_or_else(|| wrong(value, "text in quotes")),
        }
    }

    pub(crate) fn boolean(self) -> Result<bool> {
        match self {
            Self::Text(text) => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Ok(true),
                "false" | "no" | "off" | "0" => Ok(false),
                _ => Err(unknown("answer", text, &["true", "false"])),
            },
            Self::Toml(value) => value.as_bool().ok_or_else(|| wrong(value, "true or false")),
        }
    }

    /// How many of `what`.
    pub(crate) fn count(self, what: &str) -> Result<u64> {
        match self {
            Self::Text(text) => text.parse().map_err(|_| invalid(format!("'{text}' is no number of {what}"))),
            Self::Toml(value) => whole(value),
        }
    }

    pub(crate) fn bytes(self) -> Result<u64> {
        match self {
            Self::Text(text) => parse_size(text),
            Self::Toml(DeValue::String(text)) => parse_size(text),
            Self::Toml(value @ DeValue::Integer(_)) => whole(value),
            Self::Toml(value) => Err(wrong(value, "a size such as \"64MiB\" or 1048576")),
        }
    }

    pub(crate) fn amount(self) -> Result<Amount> {
        match self {
            Self::Text(text) => text.parse(),
            Self::Toml(DeValue::String(text)) => text.parse(),
            Self::Toml(value @ DeValue::Integer(_)) => whole(value).map(Amount::Bytes),
            Self::Toml(value) => {
                Err(wrong(value, "a size such as \"64MiB\" or 1048576, or a share such as \"50%\""))
            }
        }
    }
}

fn whole(value: &DeValue<'_>) -> Result<u64> {
    let number = value.as_integer();
    let number = number.and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
    number.ok_or_else(|| wrong(value, "a whole number from 0 up"))
}

fn parse_size(text: &str) -> Result<u64> {
    size::parse(text).map_err(invalid)
}

/// The error for a `value` of another type than the `wanted` one.
pub(crate) fn wrong(value: &DeValue<'_>, wanted: &str) -> Error {
    let found = value.type_str();
    let article = if found.starts_with(['a', 'i']) { "an" } else { "a" };
    invalid(format!("{wanted} is wanted here, not {article} {found}"))
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, what)
}
