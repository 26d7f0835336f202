//! From paths and fields to a set of samples: files are described in parallel, or by their saved indexes.

use std::sync::Arc;

use forebay_format::Opened;
use forebay_loader::{SampleSet, SampleSpec};
use forebay_process::Result;
use forebay_source::Origin;
use serde::{Deserialize, Serialize};

use crate::{IndexCache, Origins, files::expand_among, open, open::WHOLE_BYTES, parallel_map::parallel_map};

/// Which files, and what of them is a sample; plain data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetSpec {
    /// Lists of files that fields count from 0: paths, URLs, patterns or folders.
    pub files: Vec<Vec<String>>,
    /// The fields.
    pub fields: SampleSpec,
}

/// The samples of `spec`, whose files lie on this machine's file systems or behind URLs.
pub fn open_set(spec: SetSpec, cache: Option<&IndexCache>) -> Result<SampleSet> {
    open_set_among(&Origins::new(), spec, cache)
}

/// The samples of `spec`, whose files `origin` has; patterns and folders of paths are looked up on this machine.
pub fn open_set_on(origin: Arc<dyn Origin>, spec: SetSpec, cache: Option<&IndexCache>) -> Result<SampleSet> {
    open_set_among(&Origins::only(origin), spec, cache)
}

/// The samples of `spec`, whose files lie where `origins` look.
pub fn open_set_among(origins: &Origins, spec: SetSpec, cache: Option<&IndexCache>) -> Result<SampleSet> {
    Ok(open_named_set(origins, spec, NameKind::Patterns, cache)?.0)
}

/// What the lists of a [`SetSpec`] name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// Patterns and folders too, which are looked up.
    Patterns,
    /// Files alone, as a set that was open before had them.
    Files,
}

/// As [`open_set_among`], with the spec that names each file: by it the same set is opened again.
pub fn open_named_set(
    origins: &Origins,
    spec: SetSpec,
    names: NameKind,
    cache: Option<&IndexCache>,
) -> Result<(SampleSet, SetSpec)> {
    let origins = origins.reading_whole(WHOLE_BYTES);
    let files = match names {
        NameKind::Patterns => {
            spec.files.iter().map(|list| expand_among(&origins, list)).collect::<Result<_>>()?
        }
        NameKind::Files => spec.files,
    };
    let spec = SetSpec { files, fields: spec.fields };
    let one =
        |at: &_| Ok(Arc::new(open(Arc::clone(origins.of(at)), at, cache).map(Opened::on_caller_thread)?));
    let files = spec.files.iter().map(|list| parallel_map(list, one)).collect::<Result<Vec<_>>>()?;
    origins.warn_of_tiers();
    Ok((SampleSet::new(spec.fields.clone(), &files)?, spec))
}
