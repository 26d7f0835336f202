//! `forebay inspect`: what is in a file, and what reading it at random costs.

mod facts;
mod tree;
mod verdict;

use std::io::{self, IsTerminal, Write};

use forebay::{Container, Error, Locator, Opened, Result, container::native};

use crate::{
    Context,
    args::path,
    inspect::{facts::InspectedFile, tree::Drawing},
    output::{self, show},
};

const EXAMPLES: &str = "\
Examples:
  forebay inspect era5.h5                 everything in the file
  forebay inspect era5.h5 surface/t2m     one variable, or one group
  forebay inspect era5.h5 --attrs         with attributes
  forebay inspect 'era5_*.nc' t2m         one variable of several files, and how these differ
  forebay inspect era5.h5 --json | jq '.variables[] | select(.row.verdict == \"poor\") | .name'

Of each variable: type, shape with the names of its axes (and how far it may grow), layout, chunks (shape, written/all), filters, size decoded \
and stored. Random access is judged by one index of axis 0, read alone: good up to twice its bytes read or decoded \
(or a variable so small that it is kept), fair up to eight times, poor beyond.

JSON: file, format, bytes, source_count, swmr, groups[name, attributes], aliases[name, target], \
refused[name, why, corrupt], variables[name, dtype, shape, dimensions, max_shape, layout, chunks{shape, written_count, count}, shards{shape, written_count, count}, \
filters, logical_bytes, stored_bytes, ratio, mapping_count, block_count, library{name, why, found}, unreadable, row{used_bytes, \
read_bytes, decoded_bytes, read_factor, decode_factor, verdict, kept, hint}, attributes[name, dtype, shape, values or \
error]]. What does not apply is null. Of several files: files[the same], differences[file, variable, what].";

/// More differences are not named.
const MOST_DIFFERENCES: usize = 20;

/// Arguments of `forebay inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    /// The file, or its URL; or a pattern such as 'era5_*.nc', or a folder, for several.
    #[arg(value_parser = path::files())]
    file: String,

    /// Only these variables, or the groups of these names; what names nothing in the first file is one more file.
    #[arg(value_name = "VARIABLE|FILE", value_parser = path::files())]
    variables: Vec<String>,

    /// Show attributes too; those by which HDF5 and NetCDF-4 keep dimensions, such as DIMENSION_LIST, are in JSON only.
    #[arg(long)]
    attrs: bool,
}

/// Runs `forebay inspect`.
pub(crate) fn run(context: &Context, args: &InspectArgs) -> Result<()> {
    let mut files = path::expanded(std::slice::from_ref(&args.file))?;
    let first = context.open(&files[0])?;
    let mut names = Vec::new();
    for name in &args.variables {
        match find(&first, name) {
            Ok(found) => names.push(found),
            Err(_) if path::names_files(name) => {
                files.extend(path::expanded(std::slice::from_ref(name))?);
            }
            Err(error) => return Err(error),
        }
    }
    let mut inspected = vec![facts(&files[0], first.container(), &names)];
    let mut differences = Vec::new();
    for file in &files[1..] {
        let opened = context.open(file)?;
        let held: Vec<String> = names.iter().filter_map(|name| find(&opened, name).ok()).collect();
        inspected.push(facts(file, opened.container(), &held));
        differences.extend(differ(first.container(), opened.container(), &names).map(|one| (file, one)));
    }
    if context.json {
        return output::say(json(&inspected, &differences)?);
    }
    let is_terminal = io::stdout().is_terminal();
    let width = terminal_size::terminal_size().filter(|_| is_terminal).map(|(width, _)| usize::from(width.0));
    let drawing = Drawing { paint: context.paint, width, with_attributes: args.attrs };
    let mut lines: Vec<String> = inspected.iter().flat_map(|facts| drawing.draw(facts)).collect();
    if files.len() > 1 {
        let count = show::count(files.len(), "file", "files");
        lines.push(match differences.len() {
            0 => format!("{count} of the same variables, but for their rows"),
            _ => format!("{count}; what differs from the first:"),
        });
        let named = differences.iter().take(MOST_DIFFERENCES);
        lines.extend(named.map(|(file, (name, what))| format!("  {file}: {} {what}", show::visible(name))));
    }
    let mut out = output::stdout();
    for line in lines {
        writeln!(out, "{line}").map_err(Error::from_io)?;
    }
    out.flush().map_err(Error::from_io)
}

/// A variable, and how it differs from that of the first file.
type VariableDifference = (String, String);

/// What is known of a file: of `names` alone, where some are named.
fn facts(file: &Locator, container: &Container, names: &[String]) -> InspectedFile {
    let mut facts = InspectedFile::gather(file, container);
    if !names.is_empty() {
        facts.keep(container, names);
    }
    facts
}

/// What `other` has otherwise than `first`: all but the rows of variables.
fn differ<'a>(
    first: &'a Container,
    other: &'a Container,
    names: &'a [String],
) -> impl Iterator<Item = VariableDifference> + use<'a> {
    let is_meant = move |name: &str| {
        let is_in =
            |group: &String| name.strip_prefix(group.as_str()).is_some_and(|rest| rest.starts_with('/'));
        names.is_empty() || names.iter().any(|own| own == name || is_in(own))
    };
    let own = first.listed().filter(move |variable| is_meant(&variable.name));
    let own = own.filter_map(move |variable| {
        let named = |what: String| Some((variable.name.clone(), what));
        let Ok(found) = other.variable(&format!("/{}", variable.name)) else {
            return named("is missing".into());
        };
        let inner = |shape: &[u64]| (shape.len(), shape.get(1..).unwrap_or_default().to_vec());
        let (shape, of_first) = (&found.grid.shape, &variable.grid.shape);
        let is_same = inner(shape) == inner(of_first) && native::same_native(&found.dtype, &variable.dtype);
        if is_same {
            return None;
        }
        named(format!("is {} {shape:?}, in the first {} {of_first:?}", found.dtype, variable.dtype))
    });
    let more = other.listed().filter(move |variable| is_meant(&variable.name));
    let more = more.filter(move |variable| first.variable(&format!("/{}", variable.name)).is_err());
    own.chain(more.map(|variable| (variable.name.clone(), "is not in the first".into())))
}

fn json(inspected: &[InspectedFile], differences: &[(&Locator, VariableDifference)]) -> Result<String> {
    let misread = |error: serde_json::Error| Error::from_io(error.into());
    if let [one] = inspected {
        return serde_json::to_string(one).map_err(misread);
    }
    let row = |(file, (variable, what)): &(&Locator, VariableDifference)| serde_json::json!({ "file": file.to_string(), "variable": variable, "what": what });
    let differences: Vec<_> = differences.iter().map(row).collect();
    let files = serde_json::to_value(inspected).map_err(misread)?;
    serde_json::to_string(&serde_json::json!({ "files": files, "differences": differences })).map_err(misread)
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
