//! Which files, and what of them is a sample, as C says it.

use forebay::{
    Config, Error, Options, Result, SampleSpec, SetSpec, Settings,
    config::Overrides,
    loader::{Boundary, FieldSpec},
    sample_words,
};

use crate::border::{TextArg, VersionedArguments, list};

/// `forebay_dataset_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatasetArguments {
    size: usize,
    files: *const TextArg,
    file_count: usize,
    fields: *const TextArg,
    field_count: usize,
    label: TextArg,
    samples: TextArg,
    spec: TextArg,
    config: TextArg,
    tiers: *const TextArg,
    tier_count: usize,
    memory: u64,
}

// SAFETY: a size, numbers and pointers that may be NULL, all of eight bytes: there is no padding, and any bytes are a value.
unsafe impl VersionedArguments for DatasetArguments {}

impl DatasetArguments {
    /// The set that is asked for: by its spec as JSON, or by files, fields, label and boundary.
    pub(crate) fn set_spec(&self) -> Result<SetSpec> {
        if let Some(json) = self.spec.text("spec")? {
            let spec = serde_json::from_str(json);
            return spec.map_err(|error| Error::invalid(error.to_string()).at("spec").because(error));
        }
        let files = list(self.files, self.file_count, "files")?;
        let files = files.iter().map(|file| file.path("files")).collect::<Result<Vec<_>>>()?;
        let fields = list(self.fields, self.field_count, "fields")?;
        let fields: Vec<&str> = fields.iter().map(|field| field.required("fields")).collect::<Result<_>>()?;
        let boundary = self.samples.text("samples")?;
        let fields = field_specs(&fields, self.label.text("label")?, boundary)?;
        Ok(SetSpec { files: vec![files], fields: SampleSpec { fields } })
    }

    /// The configuration in force: what is given here over environment and file.
    pub(crate) fn configuration(&self) -> Result<Config> {
        let tiers = list(self.tiers, self.tier_count, "tiers")?;
        let tiers = tiers.iter().map(|tier| Ok(tier.required("tiers")?.to_owned()));
        let overrides = Overrides {
            config: self.config.text("config")?.map(str::to_owned),
            tiers: tiers.collect::<Result<_>>()?,
            ..Overrides::default()
        };
        Ok(Settings::load(&overrides)?.config)
    }

    /// How samples are read by number.
    pub(crate) fn options(&self) -> Options {
        Options { memory: (self.memory > 0).then_some(self.memory), ..Options::default() }
    }
}

/// The fields, and the label as one more; of ragged samples it has one row each.
fn field_specs(named: &[&str], label: Option<&str>, boundary: Option<&str>) -> Result<Vec<FieldSpec>> {
    let refused = |what: String, name: &str| Error::invalid(what).at(name);
    let samples = boundary.map_or(Ok(Boundary::default()), sample_words::boundary);
    let samples = samples.map_err(|what| refused(what, "samples"))?;
    let field = |text: &str, name: &str| sample_words::field(text).map_err(|what| refused(what, name));
    let mut specs = Vec::with_capacity(named.len() + 1);
    for text in named {
        specs.push(FieldSpec { samples: samples.clone(), ..field(text, "fields")? });
    }
    if let Some(label) = label.map(|label| field(label, "label")).transpose()?
        && specs.iter().all(|spec: &FieldSpec| spec.name != label.name)
    {
        let samples = match samples {
            Boundary::Ragged { .. } => Boundary::default(),
            samples => samples,
        };
        specs.push(FieldSpec { samples, ..label });
    }
    if specs.is_empty() {
        let error = Error::invalid("no variable is named").at("fields");
        return Err(error.hint("forebay_file_describe lists them"));
    }
    Ok(specs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_one_more_field_and_has_one_row_of_each_ragged_sample() {
        let specs = field_specs(&["pos", "z=atoms/z:int32"], Some("y"), Some("ragged:ptr")).unwrap();
        let names: Vec<_> = specs.iter().map(|spec| (&*spec.name, &*spec.variable)).collect();
        assert_eq!(names, [("pos", "pos"), ("z", "atoms/z"), ("y", "y")]);
        assert!(matches!(specs[1].samples, Boundary::Ragged { .. }));
        assert_eq!(specs[2].samples, Boundary::default());
        assert_eq!(field_specs(&["x"], Some("x"), None).unwrap().len(), 1);
    }

    #[test]
    fn what_cannot_be_a_field_or_a_sample_is_named() {
        let error = |fields: &[&str], samples| field_specs(fields, None, samples).unwrap_err().to_string();
        assert!(error(&[], None).starts_with("fields: no variable is named"));
        assert!(error(&["=x"], None).starts_with("fields: a field is"));
        assert!(error(&["x"], Some("fixed:0")).starts_with("samples: "));
    }
}
