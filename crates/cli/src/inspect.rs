//! `forebay inspect`: what is in a file, and what reading it at random costs.

use std::io::{self, IsTerminal, Write};

use forebay::{Error, Locator, Opened, Result};

use crate::{Context, facts::InspectedFile, output, path_arg, tree::Drawing};

const EXAMPLES: &str = "\
Examples:
  forebay inspect era5.h5                 everything in the file
  forebay inspect era5.h5 surface/t2m     one variable, or one group
  forebay inspect era5.h5 --attrs         with attributes
  forebay inspect era5.h5 --json | jq '.variables[] | select(.row.verdict == \"poor\") | .name'

Of each variable: type, shape with the names of its axes (and how far it may grow), layout, chunks (shape, written/all), filters, size decoded \
and stored. Random access is judged by one index of axis 0, read alone: good up to twice its bytes read or decoded \
(or a variable so small that it is kept), fair up to eight times, poor beyond.

JSON: file, format, bytes, source_count, swmr, groups[name, attributes], aliases[name, target], \
refused[name, why, corrupt], variables[name, dtype, shape, dimensions, max_shape, layout, chunks{shape, written_count, count}, shards{shape, written_count, count}, \
filters, logical_bytes, stored_bytes, ratio, mapping_count, block_count, library{name, why, found}, unreadable, row{used_bytes, \
read_bytes, decoded_bytes, read_factor, decode_factor, verdict, kept, hint}, attributes[name, dtype, shape, values or \
error]]. What does not apply is null.";

/// Arguments of `forebay inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    /// The file, or its URL.
    #[arg(value_parser = path_arg::file())]
    file: Locator,

    /// Only these variables, or the groups of these names.
    #[arg(value_name = "VARIABLE")]
    variables: Vec<String>,

    /// Show attributes too; those by which HDF5 and NetCDF-4 keep dimensions, such as DIMENSION_LIST, are in JSON only.
    #[arg(long)]
    attrs: bool,
}

/// Runs `forebay inspect`.
pub(crate) fn run(context: &Context, args: &InspectArgs) -> Result<()> {
    let opened = context.open(&args.file)?;
    let container = opened.container();
    let names = args.variables.iter().map(|name| find(&opened, name)).collect::<Result<Vec<_>>>()?;
    let mut facts = InspectedFile::gather(&args.file, container);
    if !names.is_empty() {
        facts.keep(container, &names);
    }
    if context.json {
        let text = serde_json::to_string(&facts).map_err(|error| Error::from_io(error.into()))?;
        return output::say(text);
    }
    let is_terminal = io::stdout().is_terminal();
    let width = terminal_size::terminal_size().filter(|_| is_terminal).map(|(width, _)| usize::from(width.0));
    let drawing = Drawing { paint: context.paint, width, with_attributes: args.attrs };
    let mut out = output::stdout();
    for line in drawing.draw(&facts) {
        writeln!(out, "{line}").map_err(Error::from_io)?;
    }
    out.flush().map_err(Error::from_io)
}

/// The name under which what is called `name` stands in the container.
fn find(opened: &Opened, name: &str) -> Result<String> {
    let container = opened.container();
    let trimmed = name.trim_matches('/');
    let is_listed = container.groups.iter().any(|group| group.name == trimmed)
        || container.refused.iter().any(|refused| refused.name == trimmed);
    if is_listed {
        return Ok(trimmed.to_owned());
    }
    opened.variable(name).map(|variable| variable.name.clone())
}
