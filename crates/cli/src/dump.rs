//! `forebay dump`: a variable's values, as text, raw bytes or a checksum.

use std::path::PathBuf;

use forebay::{Opened, Result, Selection, Values, Variable, format::native};

use crate::{Context, sink::Sink};

/// Values are read and written in pieces of about this size.
const SLAB_BYTES: u64 = 64 << 20;

/// Arguments of `forebay dump`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file.
    file: String,

    /// The variable, such as `group/temperature`.
    #[arg(required_unless_present = "all")]
    variable: Option<String>,

    /// Every variable of the file, a line each.
    #[arg(long, requires = "sha256", conflicts_with_all = ["variable", "slice"])]
    all: bool,

    /// Part of the variable, as NumPy writes it: `0:10,5,::2`.
    #[arg(long, value_name = "SLICE", allow_hyphen_values = true)]
    slice: Option<String>,

    /// Print the SHA-256 of the values as little-endian, C-order bytes.
    #[arg(long, conflicts_with = "raw")]
    sha256: bool,

    /// Write the values as little-endian, C-order bytes to FILE (`-` is standard output).
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
}

/// Runs `forebay dump`.
pub(crate) fn run(context: &Context, args: &Args) -> Result<()> {
    let opened = context.open(&args.file)?;
    if args.all {
        return all(context, &opened);
    }
    let variable = opened.container().variable(args.variable.as_deref().unwrap_or_default())?;
    let selection = Selection::parse(args.slice.as_deref().unwrap_or_default(), &variable.grid.shape)?;
    let sink = match &args.raw {
        Some(path) => Sink::raw(path)?,
        None if args.sha256 => Sink::checksum(),
        None => Sink::text(),
    };
    let checksum = write(&opened, variable, &selection, sink)?;
    if let Some(checksum) = checksum {
        if context.json {
            let shape = selection.shape();
            let answer = serde_json::json!({
                "file": args.file, "variable": variable.name, "dtype": variable.dtype.to_string(),
                "shape": shape, "sha256": checksum,
            });
            println!("{answer}");
        } else {
            println!("{checksum}  {}", variable.name);
        }
    }
    Ok(())
}

/// One line per variable: its checksum, or why it has none.
fn all(context: &Context, opened: &Opened) -> Result<()> {
    let container = opened.container();
    let mut lines: Vec<(String, Result<String, String>)> = Vec::new();
    for (name, variable) in container.names() {
        let selection = Selection::all(&variable.grid.shape);
        let checksum = write(opened, variable, &selection, Sink::checksum());
        let answer = checksum.map(Option::unwrap_or_default).map_err(|error| error.to_string());
        lines.push((name.to_owned(), answer));
    }
    lines.extend(container.refused.iter().map(|refused| (refused.name.clone(), Err(refused.why.clone()))));
    for (name, answer) in lines {
        match (context.json, answer) {
            (true, Ok(sum)) => println!("{}", serde_json::json!({ "variable": name, "sha256": sum })),
            (true, Err(why)) => println!("{}", serde_json::json!({ "variable": name, "error": why })),
            (false, Ok(sum)) => println!("{sum}  /{name}"),
            (false, Err(why)) => println!("error: {}  {name}", why.replace('\n', " ")),
        }
    }
    Ok(())
}

fn write(opened: &Opened, variable: &Variable, selection: &Selection, mut sink: Sink) -> Result<Option<String>> {
    for slab in opened.slabs(variable, selection, SLAB_BYTES) {
        let array = opened.read(variable, &slab)?;
        sink.put(&array)?;
    }
    sink.finish()
}

/// The values of an array as dumped: little-endian, C order, without gaps, lengths before what varies.
pub(crate) fn packed(array: &forebay::Array) -> Vec<u8> {
    let mut out = Vec::new();
    match &array.values {
        Values::Fixed(bytes) => native::pack(&array.dtype, bytes, &mut out),
        Values::Variable { offsets, bytes } => {
            for two in offsets.windows(2) {
                let [from, to] = [two[0], two[1]].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
                let element = bytes.get(from..to).unwrap_or_default();
                if let Some(count) = native::item_count(&array.dtype, element) {
                    out.extend_from_slice(&count.to_le_bytes());
                }
                out.extend_from_slice(element);
            }
        }
    }
    out
}
