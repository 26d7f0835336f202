//! The suite that a run is asked for: a file of any syntax, or a preset.

use std::{fs, path::Path};

use forebay::{Error, Result};
use forebay_workload::{
    FileNaming, Suite,
    config::{self, ConfigOptions, ConfigSyntax},
};

use crate::command::args::BenchArgs;

/// The suite that `args` name.
pub(crate) fn suite(args: &BenchArgs) -> Result<Suite> {
    let name = args.workload.as_deref().ok_or_else(|| Error::invalid("no workload is named"))?;
    let options = ConfigOptions {
        overrides: args.overrides.clone(),
        naming: args.layout.as_deref().map(naming).transpose()?,
        like_dlio: args.like_dlio,
    };
    read(name, &options)
}

/// The suite of the file or preset `name`.
pub(crate) fn read(name: &Path, options: &ConfigOptions) -> Result<Suite> {
    match ConfigSyntax::of(name) {
        Some(syntax) => {
            let place = |error: Error| error.at(name.display());
            let text = fs::read_to_string(name).map_err(|error| place(Error::from_io(error)))?;
            config::read(&text, syntax, options).map_err(place)
        }
        None => config::preset(&preset_name(name), options),
    }
}

/// A preset may be given as hydra has it, `workload=unet3d`.
fn preset_name(name: &Path) -> String {
    let text = name.display().to_string();
    text.strip_prefix("workload=").map_or(text.clone(), str::to_owned)
}

fn naming(word: &str) -> Result<FileNaming> {
    FileNaming::named(word).ok_or_else(|| {
        Error::invalid(format!("'{word}' is no layout; there are {}", FileNaming::NAMES.join(", ")))
    })
}
