//! Configurations of benchmarks: DLIO's YAML, h5bench's JSON, our TOML, presets; and overrides as hydra has them.
//!
//! ```text
//! YAML ┐
//! TOML ┼─► ConfigNode ─► overrides ─► dlio ────► Workload  ┐
//! JSON ┘   a tree                └──► h5bench ─► Workloads ┴─► Suite
//! ```
//!
//! Every key is known or an error that names the nearest one. Our TOML has DLIO's sections and keys.
//!
//! | file | idea |
//! |---|---|
//! | `options` | what the command line says besides |
//! | `node`, `yaml` | a tree of text, with lines where the file is YAML |
//! | `section` | keys of a mapping, taken one by one; those that are left are unknown |
//! | `value` | from text to numbers, times, words |
//! | `overrides` | `++workload.reader.batch_size=4` |
//! | `dlio/` | DLIO's sections, old and new names |
//! | `h5bench/` | `benchmarks` of an h5bench file: its `dlio` entries, and which entries are not run |
//! | `presets`, `preset_list` | MLPerf Storage's workloads by name; their values, which are in `presets.toml` |

mod dlio;
mod h5bench;
mod node;
mod options;
mod overrides;
mod preset_list;
mod presets;
mod section;
mod value;
mod yaml;

use forebay_process::{Error, ErrorKind, Result};

use crate::{config::node::ConfigNode, suite::Suite, workload::Workload};

pub use options::{ConfigOptions, ConfigSyntax};
pub use presets::{preset_names, preset_summary};

/// The suite that a configuration's `text` asks for.
pub fn read(text: &str, syntax: ConfigSyntax, options: &ConfigOptions) -> Result<Suite> {
    let mut tree = match syntax {
        ConfigSyntax::Yaml => yaml::parse(text)?,
        ConfigSyntax::Json => serde_json::from_str::<ConfigNode>(text).map_err(|error| malformed(&error))?,
        ConfigSyntax::Toml => toml::from_str::<ConfigNode>(text).map_err(|error| malformed(&error))?,
    };
    // An h5bench file is known by its list, whatever it is written in.
    if tree.get("benchmarks").is_some() {
        return h5bench::suite(&mut tree, options);
    }
    let mut notes = Vec::new();
    let workload = dlio::workload(tree, Workload::default(), options, &mut notes)?;
    Ok(Suite { workloads: vec![workload], notes, ..Suite::default() })
}

/// The suite of a preset such as `unet3d_h100`, changed by overrides.
pub fn preset(name: &str, options: &ConfigOptions) -> Result<Suite> {
    let mut notes = Vec::new();
    let workload = dlio::workload(ConfigNode::empty_map(), presets::preset(name)?, options, &mut notes)?;
    Ok(Suite { workloads: vec![workload], notes, ..Suite::default() })
}

fn malformed(error: &dyn std::error::Error) -> Error {
    Error::new(ErrorKind::Invalid, error.to_string().trim_end().to_owned())
}
