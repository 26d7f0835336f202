//! `forebay convert`: variables of any file that can be read, written as a Zarr store or an NPY file.
//!
//! ```text
//! variable ─► slabs of whole output chunks (layout) ─► read ─► cut, compress (codec) ─► chunk files (zarr) ─► rename
//! ```

mod codec;
mod folder;
mod job;
mod layout;
mod npy;
mod zarr;
mod zarr_attributes;
mod zarr_type;

use std::{path::PathBuf, time::Instant};

use clap::ValueEnum;
use forebay::{Error, ErrorKind, JoinedFiles, Locator, Result, Variable, loader::AxisName, sample_words};
use serde::Serialize;

use self::{
    codec::ChunkCodec,
    job::{ConvertJob, Written},
};
use crate::{
    Context,
    args::path,
    exit,
    interrupt::Interrupt,
    output::{
        self,
        progress::{self, Beside},
        show,
    },
};

const EXAMPLES: &str = "\
Examples:
  forebay convert era5.h5 era5.zarr                                   every variable, chunked as it was
  forebay convert era5.h5 era5.zarr --variable t2m --chunk 64,256,256 one variable, in chunks of another shape
  forebay convert era5.h5 era5.zarr --filter gzip:6
  forebay convert era5.h5 t2m.npy --variable t2m                      for numpy.load
  forebay convert 'era5_2020-*.nc' era5.zarr --files-axis time        months, one after the other

The output appears under its name when it is whole, or not at all; what is there already is not touched. Memory does \
not grow with the variables. Zarr is version 3; attributes and names of axes go with it, and chunks that were never \
written stay away. --chunk holds for variables of as many axes; others keep their chunks, or get some of about 4 MiB.

Several files become one: variables that begin with the axis of --files-axis have the rows of all files, in the order of their names; times are counted from the date of the first. Others have to be the same in all files. A variable that some files lack is an error unless --variable leaves it out.

JSON: input, inputs, output, to, seconds, variables[name, shape, chunk, chunk_count, logical_bytes, stored_bytes], \
left_out[name, why].";

/// A file of a few kilobytes can claim any shape: what takes hours to write is written only when it is named.
const MOST_UNNAMED_BYTES: u64 = 1 << 40;

/// Arguments of `forebay convert`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// The file, or its URL; several files, patterns such as 'era5_*.nc' or folders, whose rows follow each other.
    #[arg(required = true, num_args = 1.., value_name = "INPUT", value_parser = path::files())]
    inputs: Vec<String>,

    /// Where the result goes: a folder for Zarr, a file for NPY.
    #[arg(required = true)]
    output: PathBuf,

    /// Only this variable; may be given more than once [default: all that can be].
    #[arg(long = "variable", short = 'v', value_name = "NAME")]
    variables: Vec<String>,

    /// The shape of a chunk, as in `64,256,256`.
    #[arg(long, value_name = "SHAPE", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    chunk: Vec<u64>,

    /// How chunks are compressed: `zstd:3`, `gzip:4` or `none`.
    #[arg(long, value_name = "FILTER")]
    filter: Option<ChunkCodec>,

    /// The axis along which several files follow each other [default: the first axis that can grow, or is called time].
    #[arg(long, value_name = "AXIS", value_parser = sample_words::axis_name)]
    files_axis: Option<AxisName>,

    /// The format of the result [default: as the name of the output says].
    #[arg(long, value_name = "FORMAT")]
    to: Option<To>,
}

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum To {
    /// A Zarr store, version 3.
    Zarr,
    /// One variable as an NPY file.
    Npy,
}

impl To {
    /// Why `variable` cannot be written in this format.
    fn refusal(self, variable: &Variable) -> Option<String> {
        match self {
            Self::Zarr => zarr::refusal(variable),
            Self::Npy => npy::refusal(variable),
        }
    }
}

fn is_vast(variable: &Variable) -> bool {
    variable.logical_len() > MOST_UNNAMED_BYTES
}

/// A variable that was not converted, and why.
#[derive(Debug, Serialize)]
struct UnconvertedVariable {
    name: String,
    why: String,
}

/// Runs `forebay convert`.
pub(crate) fn run(context: &Context, args: &ConvertArgs) -> Result<u8> {
    let began = Instant::now();
    let to = args.format()?;
    if args.output.symlink_metadata().is_ok() {
        let error = Error::new(ErrorKind::Invalid, "is there already").hint("remove it, or name another");
        return Err(error.at(args.output.display()));
    }
    let inputs = path::expanded(&args.inputs)?;
    let files = inputs.iter().map(|input| context.open(input)).collect::<Result<Vec<_>>>()?;
    let is_wanted = |variable: &Variable| to.refusal(variable).is_none() && !is_vast(variable);
    let opened = JoinedFiles::new(files, args.files_axis.as_ref(), &args.variables, &is_wanted)?;
    let (variables, left_out) = args.choose(&opened, to).map_err(|error| error.at(&inputs[0]))?;
    let total = variables.iter().fold(0u64, |sum, variable| sum.saturating_add(variable.logical_len()));
    let bar = progress::bar(total, Beside::Quiet);
    // A file removes itself on an interrupt; a folder is removed by the writer that fills it.
    let interrupt = if to == To::Zarr { Interrupt::catch() } else { Interrupt::unwatched() };
    let job =
        ConvertJob { opened: &opened, variables, output: &args.output, bar: &bar, interrupt: &interrupt };
    let written = match to {
        To::Zarr => zarr::write(&job, &args.chunk, args.filter.unwrap_or_default()),
        To::Npy => npy::write(&job),
    };
    bar.finish_and_clear();
    let Some(written) = written? else { return Ok(exit::INTERRUPTED) };
    if context.json {
        let input = inputs.iter().map(Locator::to_string).collect::<Vec<_>>();
        output::say(serde_json::json!({
            "input": input[0], "inputs": input, "output": args.output.to_string_lossy(), "to": to,
            "seconds": began.elapsed().as_secs_f64(), "variables": written, "left_out": left_out,
        }))?;
    } else {
        tell(&written, &left_out)?;
    }
    Ok(exit::SUCCESS)
}

impl ConvertArgs {
    fn format(&self) -> Result<To> {
        let suffix = self.output.extension().map(|suffix| suffix.to_string_lossy().to_lowercase());
        let to = match (self.to, suffix.as_deref()) {
            (Some(to), _) => to,
            (None, Some("zarr")) => To::Zarr,
            (None, Some("npy")) => To::Npy,
            _ => {
                let error = Error::new(ErrorKind::Invalid, "its name does not say which format it is to be");
                return Err(error.hint("give --to zarr or --to npy").at(self.output.display()));
            }
        };
        if to == To::Npy && !(self.chunk.is_empty() && self.filter.is_none()) {
            let error = Error::new(ErrorKind::Invalid, "an NPY file has neither chunks nor filters");
            return Err(error.hint("leave out --chunk and --filter").at(self.output.display()));
        }
        Ok(to)
    }

    /// The variables that are converted, and those that cannot be.
    fn choose<'a>(
        &self,
        opened: &'a JoinedFiles,
        to: To,
    ) -> Result<(Vec<&'a Variable>, Vec<UnconvertedVariable>)> {
        let container = opened.container();
        let mut chosen: Vec<&Variable> = Vec::new();
        for name in &self.variables {
            let variable = container.variable(name)?;
            if let Some(why) = to.refusal(variable) {
                let error = Error::new(ErrorKind::Unsupported, why);
                return Err(error.at(format!("variable '{}'", variable.name)));
            }
            if !chosen.iter().any(|known| known.name == variable.name) {
                chosen.push(variable);
            }
        }
        let mut left_out = Vec::new();
        if self.variables.is_empty() {
            for refused in &container.refused {
                left_out.push(UnconvertedVariable { name: refused.name.clone(), why: refused.why.clone() });
            }
            for variable in container.listed() {
                let vast = || format!("{} of values: name it", show::size(variable.logical_len()));
                match to.refusal(variable).or_else(|| is_vast(variable).then(vast)) {
                    None => chosen.push(variable),
                    Some(why) => left_out.push(UnconvertedVariable { name: variable.name.clone(), why }),
                }
            }
        }
        if chosen.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, "no variable that can be converted"));
        }
        if to == To::Npy && chosen.len() > 1 {
            let what = format!("{} variables for an NPY file, which holds one", chosen.len());
            return Err(Error::new(ErrorKind::Invalid, what).hint("name it: --variable NAME"));
        }
        let fits = |variable: &&Variable| variable.grid.shape.len() == self.chunk.len();
        if !self.chunk.is_empty() && !chosen.iter().any(fits) {
            let what = format!("chunks of {} axes, which no variable has", self.chunk.len());
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        Ok((chosen, left_out))
    }
}

fn tell(written: &[Written], left_out: &[UnconvertedVariable]) -> Result<()> {
    for one in written {
        let shape = show::tuple(&one.shape.iter().map(u64::to_string).collect::<Vec<_>>());
        let (logical, stored) = (show::size(one.logical_bytes), show::size(one.stored_bytes));
        output::say(format!("{} {shape}: {logical}, stored in {stored}", show::one_line(&one.name)))?;
    }
    for one in left_out {
        output::say(format!("{} left out: {}", show::one_line(&one.name), show::one_line(&one.why)))?;
    }
    Ok(())
}
