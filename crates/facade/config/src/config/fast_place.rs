//! A place on a fast tier: memory, or a folder of this node.

use std::{fmt, path::PathBuf};

use forebay_process::{Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{
    config::tier::folder,
    environment::{Environment, literal},
};

/// The word for memory.
const MEMORY: &str = "memory";

/// A place on a fast tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FastPlace {
    /// The memory of this process.
    Memory,
    /// A folder, which is made when it is missing.
    Folder(PathBuf),
}

impl FastPlace {
    /// The place that `text` names: the word `memory`, or an absolute path in which variables and `~` are written out.
    pub(crate) fn parse_in(text: &str, environment: &Environment<'_>) -> Result<Self> {
        match text {
            MEMORY => Ok(Self::Memory),
            "" => Err(Error::new(ErrorKind::Invalid, "no place").hint("name a folder, or memory")),
            path => folder(path, environment).map(Self::Folder),
        }
    }
}

impl fmt::Display for FastPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str(MEMORY),
            Self::Folder(path) => f.write_str(&literal(&path.to_string_lossy())),
        }
    }
}

impl Serialize for FastPlace {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Memory => to.serialize_str(MEMORY),
            Self::Folder(path) => path.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for FastPlace {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        match text.as_str() {
            MEMORY => Ok(Self::Memory),
            path if path.starts_with('/') => Ok(Self::Folder(path.into())),
            other => Err(de::Error::custom(format!("'{other}' is neither memory nor an absolute path"))),
        }
    }
}
