//! `forebay dump`: a variable's values, as text, raw bytes or a checksum.

mod rows;
mod sink;

use std::{cell::Cell, path::PathBuf};

use forebay::{
    Array, Locator, Opened, Result, Selection, Values, Variable,
    container::{
        Dtype,
        cf::{ValueKind, iso_time},
        unpack::{Unpack, UnpackKind, UnpackedArray, Unpacker, unpack},
    },
};
use indicatif::ProgressBar;

use crate::{
    Context,
    args::path,
    dump::sink::Sink,
    output::{
        self,
        progress::{self, Beside},
        show,
    },
};

/// Values are read and written in pieces of about this size.
const SLAB_BYTES: u64 = 64 << 20;
/// A file of a few kilobytes can claim any shape: what takes hours to sum is summed only when it is named.
const MOST_UNNAMED_BYTES: u64 = 1 << 40;

const EXAMPLES: &str = "\
Examples:
  forebay dump era5.h5 t2m --slice 0,:4,:4        a corner of the first row
  forebay dump era5.h5 t2m --slice -1 --json      {file, variable, dtype, shape, values}
  forebay dump era5.h5 t2m --raw t2m.bin          bytes for numpy.fromfile
  forebay dump era5.nc t2m --cf --slice 0         values unpacked: scaled, NaN where missing
  forebay dump era5.nc time --cf                  times as dates
  forebay dump era5.h5 t2m --sha256               checksum of those bytes
  forebay dump era5.h5 --all --sha256             one line per variable

Text has one line per row of the last axis, a space between values. Numbers are as short as they can be read back; \
text is quoted; bytes are 0x and digits; compounds {a: 1, b: \"x\"}; arrays and sequences [1, 2]; complex numbers \
(1+2j). In JSON values are a flat list in C order; NaN and infinities are strings, complex numbers pairs. With --cf times are texts such as \"2020-01-01T06:00:00\", NaT for none, durations nanoseconds, and times of other calendars days since 1970-01-01; as bytes, times are nanoseconds since 1970, as in datetime64[ns].

With --all a line is `<sha256>  <name>` or `error: <why>  <name>`; in names a backslash, a line feed and a carriage \
return are written \\\\, \\n and \\r, and one that starts with a space is led by a slash.";

/// Arguments of `forebay dump`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DumpArgs {
    /// The file, or its URL.
    #[arg(value_parser = path::file())]
    file: Locator,

    /// The variable, such as `group/temperature`.
    #[arg(required_unless_present = "all")]
    variable: Option<String>,

    /// Every variable of the file, a line each.
    #[arg(long, requires = "sha256", conflicts_with_all = ["variable", "slice"])]
    all: bool,

    /// Part of the variable, as NumPy writes it: `0:10,5,::2`.
    #[arg(long, value_name = "SLICE", allow_hyphen_values = true)]
    slice: Option<String>,

    /// Unpack values as the CF conventions say: scale_factor, add_offset, missing values, times.
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "decoded")]
    cf: Option<DumpedCf>,

    /// Print the SHA-256 of the values as little-endian, C-order bytes.
    #[arg(long, conflicts_with = "raw")]
    sha256: bool,

    /// Write the values as little-endian, C-order bytes to FILE (`-` is standard output).
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
}

/// How dumped values are unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DumpedCf {
    /// NaN where a value is missing, times as dates.
    Decoded,
    /// As decoded, but times are days since 1970-01-01 of their calendar.
    Days,
    /// As decoded, but times stay numbers.
    Values,
}

impl DumpedCf {
    fn unpack(self) -> Unpack {
        let kind = match self {
            Self::Decoded => UnpackKind::Decoded,
            Self::Days => UnpackKind::Days,
            Self::Values => UnpackKind::Values,
        };
        Unpack { kind, valid: false }
    }
}

/// Runs `forebay dump`.
pub(crate) fn run(context: &Context, args: &DumpArgs) -> Result<()> {
    let opened = context.open(&args.file)?;
    if args.all {
        return all(context, &opened, args.cf);
    }
    let variable = opened.variable(args.variable.as_deref().unwrap_or_default())?;
    let selection = Selection::parse(args.slice.as_deref().unwrap_or_default(), &variable.grid.shape)
        .map_err(|error| error.at(format!("variable '{}'", variable.name)).at(&args.file))?;
    let shape = selection.shape();
    let dtype = unpacked_dtype(variable, args.cf).map_err(|error| error.at(&args.file))?;
    let mut head = serde_json::json!({
        "file": args.file.to_string(), "variable": variable.name, "dtype": dtype, "shape": shape,
    });
    let (sink, beside) = match &args.raw {
        Some(path) => (Sink::raw(path)?, Beside::Quiet),
        None if args.sha256 => (Sink::checksum(), Beside::Quiet),
        None if context.json => (Sink::json(&head)?, Beside::Values),
        None => (Sink::text(&shape), Beside::Values),
    };
    let bar = progress::bar(selected_len(variable, &selection), beside);
    let part = DumpedPart { opened: &opened, variable, selection, cf: args.cf };
    let checksum = part.write(sink, &bar, &context.error_was_shown);
    bar.finish_and_clear();
    match (checksum?, &args.raw) {
        (Some(checksum), _) if context.json => {
            head["sha256"] = checksum.into();
            output::say(head)
        }
        (Some(checksum), _) => output::say(format!("{checksum}  {}", show::one_line(&variable.name))),
        (None, Some(path)) if context.json && path.as_os_str() != "-" => {
            head["raw"] = path.to_string_lossy().into();
            output::say(head)
        }
        _ => Ok(()),
    }
}

/// One line per variable: its checksum, or why it has none.
fn all(context: &Context, opened: &Opened, cf: Option<DumpedCf>) -> Result<()> {
    let container = opened.container();
    let names = container.names();
    let total = names.iter().fold(0u64, |sum, (_, variable)| sum.saturating_add(variable.logical_len()));
    let bar = progress::bar(total, Beside::Quiet);
    for (name, variable) in names {
        let wanted = DumpedPart { opened, variable, selection: Selection::all(&variable.grid.shape), cf };
        let answer = checksum(&wanted, &bar, &context.error_was_shown);
        bar.suspend(|| answer_line(context, name, answer))?;
    }
    bar.finish_and_clear();
    container
        .refused
        .iter()
        .try_for_each(|refused| answer_line(context, &refused.name, Err(refused.why.clone())))
}

/// The checksum of a variable among all; one that is too large to be read by accident is read only when it is named.
fn checksum(
    wanted: &DumpedPart<'_>,
    bar: &ProgressBar,
    error_was_shown: &Cell<bool>,
) -> Result<String, String> {
    let len = wanted.variable.logical_len();
    if len > MOST_UNNAMED_BYTES {
        return Err(format!("{} of values: name it to read them", show::size(len)));
    }
    let checksum = wanted.write(Sink::checksum(), bar, error_was_shown);
    checksum.map(Option::unwrap_or_default).map_err(|error| error.to_string())
}

fn answer_line(context: &Context, name: &str, answer: Result<String, String>) -> Result<()> {
    // A name that starts with a space would be lost among those before it.
    let slash = if name.starts_with(' ') { "/" } else { "" };
    match (context.json, answer) {
        (true, Ok(sum)) => output::say(serde_json::json!({ "variable": name, "sha256": sum })),
        (true, Err(why)) => output::say(serde_json::json!({ "variable": name, "error": why })),
        (false, Ok(sum)) => output::say(format!("{sum}  {slash}{}", show::one_line(name))),
        (false, Err(why)) => {
            output::say(format!("error: {}  {slash}{}", show::one_line(&why), show::one_line(name)))
        }
    }
}

/// A part of a variable that is to be dumped.
struct DumpedPart<'a> {
    opened: &'a Opened,
    variable: &'a Variable,
    selection: Selection,
    cf: Option<DumpedCf>,
}

/// The type of dumped values, as NumPy calls it.
fn unpacked_dtype(variable: &Variable, cf: Option<DumpedCf>) -> Result<String> {
    let stored = variable.dtype.to_string();
    let Some(cf) = cf else { return Ok(stored) };
    let place = |error: forebay::Error| error.at(format!("variable '{}'", variable.name));
    let Some(unpacker) = Unpacker::of(variable, cf.unpack()).map_err(place)? else { return Ok(stored) };
    Ok(match unpacker.kind() {
        ValueKind::Datetime => "datetime64[ns]".to_owned(),
        ValueKind::Timedelta => "timedelta64[ns]".to_owned(),
        ValueKind::Days(calendar) => format!("days since 1970-01-01 ({calendar})"),
        ValueKind::Bool => Dtype::boolean().to_string(),
        // What needs no unpacking stays as it is stored.
        _ if variable.dtype.number().is_some_and(|number| unpacker.is_idle(number)) => stored,
        _ => Dtype::native(unpacker.to()).to_string(),
    })
}

/// Times as texts, for readers.
fn dates(array: &Array) -> Array {
    let Values::Fixed(stored) = &array.values else { return array.clone() };
    let (mut offsets, mut bytes) = (vec![0], Vec::new());
    for element in stored.chunks_exact(size_of::<i64>()) {
        let ns = element.try_into().map_or(0, i64::from_ne_bytes);
        bytes.extend_from_slice(iso_time(ns).as_bytes());
        offsets.push(bytes.len() as u64);
    }
    let dtype = Dtype::VarText { reference_len: 16, utf8: true };
    Array { dtype, shape: array.shape.clone(), values: Values::Variable { offsets, bytes } }
}

impl DumpedPart<'_> {
    /// The values of `slab`, as they go to `sink`.
    fn read(&self, slab: &Selection, sink: &Sink) -> Result<Array> {
        let array = self.opened.read(self.variable, slab)?;
        let Some(cf) = self.cf else { return Ok(array) };
        let UnpackedArray { array, kind, .. } = unpack(self.variable, array, cf.unpack())
            .map_err(|error| error.at(format!("variable '{}'", self.variable.name)))?;
        Ok(if kind == ValueKind::Datetime && sink.is_read() { dates(&array) } else { array })
    }

    /// Writes the values to `sink`; `error_was_shown` becomes true when an error is part of what was written.
    fn write(
        &self,
        mut sink: Sink,
        bar: &ProgressBar,
        error_was_shown: &Cell<bool>,
    ) -> Result<Option<String>> {
        let mut slabs = self.opened.slabs(self.variable, &self.selection, SLAB_BYTES);
        let written = slabs.try_for_each(|slab| {
            let array = self.read(&slab, &sink)?;
            sink.put(&array)?;
            bar.inc(selected_len(self.variable, &slab));
            Ok(())
        });
        if let Err(error) = written {
            error_was_shown.set(sink.fail(&error));
            return Err(error);
        }
        sink.finish()
    }
}

fn selected_len(variable: &Variable, selection: &Selection) -> u64 {
    selection.element_count().saturating_mul(variable.dtype.stored_len() as u64)
}
