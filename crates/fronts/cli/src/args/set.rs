//! Which files, and what of them is a sample, as the command line says it.

use std::sync::Arc;

use forebay::{
    Error, ErrorKind, Locator, Origins, Result, SampleSet, SampleSpec, SetSpec, Variable,
    config::OriginConfig,
    container::cf::ValueKind,
    container::unpack::{Unpack, UnpackKind},
    loader::FieldSpec,
    sample_words,
    source::{path_of_text, text_of_path},
};
use serde::Serialize;

use crate::{
    Context,
    args::{path, samples::SamplesArgs},
    output::show,
};

/// Which files, and what of them is a sample.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Samples")]
pub(crate) struct SetArgs {
    /// Files, folders, or patterns such as 'train/*.h5'; URLs too, such as 's3://bucket/train/*.h5'.
    #[arg(required = true, value_name = "PATH", value_parser = path::files())]
    paths: Vec<String>,

    /// A variable that is part of a sample, as NAME, NAME=VARIABLE or NAME:float32; may be given more than once
    /// [default: every variable with as many rows as the largest].
    #[arg(long = "field", value_name = "FIELD", value_parser = sample_words::field)]
    fields: Vec<FieldSpec>,

    /// One more field: the label. With ragged samples it has one row for each.
    #[arg(long, value_name = "FIELD", value_parser = sample_words::field)]
    label: Option<FieldSpec>,

    #[command(flatten)]
    samples: SamplesArgs,

    /// Unpack values as the CF conventions say: scale_factor, add_offset, missing values, times.
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "decoded")]
    cf: Option<CfArg>,
}

/// How values are unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CfArg {
    /// NaN where a value is missing, times in nanoseconds since 1970.
    Decoded,
    /// As decoded, but times are days since 1970-01-01 of their calendar.
    Days,
    /// 0 where a value is missing, and a field NAME_mask.
    Mask,
    /// As decoded, but times stay numbers.
    Values,
}

impl CfArg {
    fn unpack(self) -> Unpack {
        let kind = match self {
            Self::Decoded => UnpackKind::Decoded,
            Self::Days => UnpackKind::Days,
            Self::Mask => UnpackKind::Masked,
            Self::Values => UnpackKind::Values,
        };
        Unpack { kind, valid: false }
    }
}

/// A set of samples, and what of it the user left to us.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) set: Arc<SampleSet>,
    /// Why these fields, where none were named.
    pub(crate) why: Option<String>,
}

/// A field, for people and for JSON.
#[derive(Debug, Serialize)]
pub(crate) struct FieldSummary {
    name: String,
    dtype: String,
    sample_shape: Vec<Option<u64>>,
}

impl Chosen {
    pub(crate) fn fields(&self) -> Vec<FieldSummary> {
        let facts = self.set.fields().into_iter();
        let field = |facts: forebay::loader::FieldFacts| FieldSummary {
            name: facts.name,
            dtype: match facts.kind {
                ValueKind::Datetime => "datetime64[ns]".to_owned(),
                ValueKind::Timedelta => "timedelta64[ns]".to_owned(),
                ValueKind::Days(calendar) => format!("{} days since 1970-01-01 ({calendar})", facts.dtype),
                ValueKind::Text | ValueKind::Texts => "text".to_owned(),
                ValueKind::Number | ValueKind::Bool => facts.dtype.to_string(),
            },
            sample_shape: facts.sample_shape,
        };
        facts.map(field).collect()
    }

    /// What the set is, a few lines of text.
    pub(crate) fn describe(&self) -> Vec<String> {
        let files = show::count(self.set.files().len(), "file", "files");
        let bytes = show::size(self.set.delivered_len());
        let mut lines = vec![format!("{} samples in {files}, {bytes}", self.set.len())];
        for FieldSummary { name, dtype, sample_shape } in self.fields() {
            let axis = |len: &Option<u64>| len.map_or_else(|| "*".into(), |len| len.to_string());
            let shape: Vec<String> = sample_shape.iter().map(axis).collect();
            lines.push(format!("  {} {dtype} {}", show::visible(&name), show::tuple(&shape)));
        }
        lines.extend(self.why.as_ref().map(|why| format!("  {why}")));
        lines
    }
}

impl SetArgs {
    /// Opens the set; only descriptions and offsets are read.
    pub(crate) fn open(&self, context: &Context) -> Result<Chosen> {
        self.open_among(context, &Origins::new())
    }

    /// Opens the set, whose files lie where `origins` look.
    pub(crate) fn open_among(&self, context: &Context, origins: &Origins) -> Result<Chosen> {
        let (named, why) = match self.fields.as_slice() {
            [] => self.by_default(context, origins)?,
            named => (named.to_vec(), None),
        };
        let label = self.label.iter().filter(|label| named.iter().all(|field| field.name != label.name));
        let all = named.iter().map(|field| (field, false)).chain(label.map(|label| (label, true)));
        let all: Vec<(&FieldSpec, bool)> = all.collect();
        self.samples.check(&all.iter().map(|(field, _)| field.name.as_str()).collect::<Vec<_>>())?;
        let mut fields = Vec::with_capacity(all.len());
        for (field, is_label) in all {
            let mut spec = field.clone();
            spec.convert.unpack = self.cf.map(CfArg::unpack);
            fields.extend(self.samples.cut(spec, is_label)?);
        }
        let spec = SetSpec { files: vec![self.paths.clone()], fields: SampleSpec { fields } };
        let set = forebay::open_set_among(origins, spec, context.index.as_ref())?;
        Ok(Chosen { set: Arc::new(set), why })
    }

    /// The same, with relative paths where the configuration has them.
    pub(crate) fn under(&self, origin: &OriginConfig) -> Self {
        Self { paths: origin.place(&self.paths), ..self.clone() }
    }

    /// The same, each file under the name that `rename` gives its absolute path.
    pub(crate) fn rename(&mut self, rename: impl Fn(&str) -> Result<String>) -> Result<()> {
        let absolute = |path: String| {
            let path = std::path::absolute(path_of_text(&path)).map_err(Error::from_io)?;
            rename(&text_of_path(&path))
        };
        self.paths = forebay::expand(&self.paths)?.into_iter().map(absolute).collect::<Result<_>>()?;
        Ok(())
    }

    /// Every variable of the first file with as many rows as the largest, and a word on that.
    fn by_default(&self, context: &Context, origins: &Origins) -> Result<(Vec<FieldSpec>, Option<String>)> {
        let files = forebay::expand_among(origins, &self.paths)?;
        let at = Locator::new(files[0].as_str());
        let opened = forebay::open(Arc::clone(origins.of(&at)), &at, context.index.as_ref())?;
        if self.samples.need_names() {
            let error = Error::new(ErrorKind::Invalid, "which members of the groups are fields?");
            return Err(error.hint("name them with --field; `forebay inspect` lists them").at(&files[0]));
        }
        let label = self.label.as_ref().map(|label| label.variable.trim_matches('/'));
        let tables = self.samples.tables();
        let is_field = |variable: &&Variable| {
            let name = variable.name.as_str();
            can_be_sample(variable) && Some(name) != label && !tables.contains(&name)
        };
        let candidates: Vec<&Variable> = opened.container().listed().filter(is_field).collect();
        // Of equally large ones the first.
        let largest = candidates.iter().rev().max_by_key(|variable| variable.logical_len());
        let Some(largest) = largest else {
            let error = Error::new(ErrorKind::NotFound, "no variable can be a sample");
            return Err(error.hint("name one with --field; `forebay inspect` lists them").at(&files[0]));
        };
        let rows = largest.grid.shape[0];
        let alike = candidates.iter().filter(|variable| variable.grid.shape[0] == rows);
        let fields = alike.map(|variable| FieldSpec::new(&variable.name)).collect();
        let why = format!(
            "no --field was given: these are all with as many rows as {} ({rows})",
            show::visible(&largest.name)
        );
        Ok((fields, Some(why)))
    }
}

/// True when rows of `variable` can stand in a batch.
fn can_be_sample(variable: &Variable) -> bool {
    let dtype = &variable.dtype;
    dtype.refusal().is_none() && !dtype.is_variable() && !variable.grid.shape.is_empty()
}
