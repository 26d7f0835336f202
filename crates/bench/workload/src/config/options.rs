//! What the command line says besides the configuration, and the syntax that a configuration is written in.

use std::path::Path;

use crate::workload::FileNaming;

/// The syntax of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSyntax {
    /// DLIO's YAML.
    Yaml,
    /// h5bench's JSON.
    Json,
    /// Our TOML.
    Toml,
}

impl ConfigSyntax {
    /// The syntax that the name of a file says.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            "toml" => Some(Self::Toml),
            _ => None,
        }
    }
}

/// What the command line says besides the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigOptions {
    /// Overrides such as `++workload.reader.batch_size=4`, in order.
    pub overrides: Vec<String>,
    /// How files are named, whatever the configuration says (`--layout`).
    pub naming: Option<FileNaming>,
    /// Whether DLIO's defects are reproduced (`--like-dlio`).
    pub like_dlio: bool,
}
