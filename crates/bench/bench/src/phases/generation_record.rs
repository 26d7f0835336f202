//! What the files of a data folder were generated as: a run that asks for others under the same names does not take them for its own.
//!
//! ```text
//! data/.generated.json    {"train/img_1_of_8.h5": {"samples of a file": "4", …}, …}    a set is known by its first file
//! ```

use std::{collections::BTreeMap, fs, io, path::Path};

use forebay::{Error, ErrorKind, Result};
use forebay_workload::{Compression, FileFormat, Split, Workload, layout};
use serde::{Deserialize, Serialize};

use crate::{dataset_files, results};

const NAME: &str = ".generated.json";

/// What a set was generated as, by the names of its properties.
type SetFacts = BTreeMap<String, String>;

/// The sets of a data folder, by their first files.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct GenerationRecord {
    sets: BTreeMap<String, SetFacts>,
}

/// Keeps in `folder` what the files of `workload` are generated as; an error where files of their names are there as others.
pub(crate) fn claim(folder: &Path, workload: &Workload) -> Result<()> {
    let mut record = GenerationRecord::read(folder)?;
    [Split::Train, Split::Eval].into_iter().try_for_each(|split| record.check(workload, split))?;
    let facts = facts(workload);
    let is_known = set_names(workload).iter().all(|name| record.sets.get(name) == Some(&facts));
    if is_known {
        return Ok(());
    }
    record.sets.extend(set_names(workload).into_iter().map(|name| (name, facts.clone())));
    record.write(folder)
}

/// An error where the files of `workload` were generated as others.
pub(crate) fn check(folder: &Path, workload: &Workload) -> Result<()> {
    let record = GenerationRecord::read(folder)?;
    [Split::Train, Split::Eval].into_iter().try_for_each(|split| record.check(workload, split))
}

/// Forgets the files of `workload`, which are removed.
pub(crate) fn forget(folder: &Path, workload: &Workload) -> Result<()> {
    let mut record = GenerationRecord::read(folder)?;
    let names = set_names(workload);
    record.sets.retain(|name, _| !names.contains(name));
    record.write(folder)
}

impl GenerationRecord {
    /// That of `folder`; an empty one where there is none, or one that nobody can read any more.
    fn read(folder: &Path) -> Result<Self> {
        match fs::read(folder.join(NAME)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Error::from_io(error).at(folder.join(NAME).display())),
        }
    }

    /// An error where files of `split` are there as others.
    fn check(&self, workload: &Workload, split: Split) -> Result<()> {
        let Some(difference) = self.difference(workload, split) else { return Ok(()) };
        // What was removed is mistaken for nothing.
        let there = dataset_files::paths(workload, split).into_iter().find(|path| path.exists());
        let Some(there) = there else { return Ok(()) };
        let error = Error::new(ErrorKind::Invalid, difference).at(there.display());
        Err(error.hint("it belongs to another data set: remove it, or use another data folder"))
    }

    /// How the files of `split` would differ from those that were generated under the same names, if they would.
    fn difference(&self, workload: &Workload, split: Split) -> Option<String> {
        let (known, asked) = (self.sets.get(&set_name(workload, split)?)?, facts(workload));
        let (what, asked) = asked.iter().find(|(what, asked)| known.get(*what) != Some(asked))?;
        let known = known.get(what).map_or("unknown", |known| known);
        Some(format!("was generated with {what}: {known}; asked for is {asked}"))
    }

    /// Writes it to `folder`; one of no sets is removed.
    fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(NAME);
        if !self.sets.is_empty() {
            let text = serde_json::to_string_pretty(self).map_err(|error| Error::from_io(error.into()))?;
            return results::write_file(folder, NAME, &text);
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::from_io(error).at(path.display()))
            }
            _ => Ok(()),
        }
    }
}

/// The first file of `split`, relative to the data folder; none where it has no files.
fn set_name(workload: &Workload, split: Split) -> Option<String> {
    let dataset = &workload.dataset;
    let path = (split.file_count(dataset) > 0).then(|| layout::file(dataset, split, 0));
    path.map(|path| path.display().to_string())
}

fn set_names(workload: &Workload) -> Vec<String> {
    [Split::Train, Split::Eval].into_iter().filter_map(|split| set_name(workload, split)).collect()
}

/// What files are generated as, all that their content depends on.
fn facts(workload: &Workload) -> SetFacts {
    let (dataset, hdf5) = (&workload.dataset, &workload.hdf5);
    let mut facts = vec![
        ("samples of a file", dataset.num_samples_per_file.to_string()),
        ("shape of a sample", format!("{:?}", layout::sample_shape(dataset, dataset.record_length_bytes))),
        ("type of elements", dataset.record_element_type.to_string()),
        ("standard deviation of bytes", dataset.record_length_bytes_stdev.to_string()),
        ("compressible to", dataset.compressible_to.to_string()),
        ("compression", compression(workload)),
    ];
    if dataset.format == FileFormat::Hdf5 {
        facts.extend([
            ("data sets", layout::record_names(workload).join(", ")),
            ("data set of labels", hdf5.labels_name.clone()),
            ("layout of files", dataset.naming.to_string()),
            (
                "shape of a chunk",
                layout::chunk_shape(workload).map_or("none".into(), |shape| format!("{shape:?}")),
            ),
            ("subfiling", hdf5.subfiling.to_string()),
        ]);
    }
    facts.into_iter().map(|(what, value)| (what.to_owned(), value)).collect()
}

fn compression(workload: &Workload) -> String {
    match workload.dataset.compression {
        Compression::None => "none".to_owned(),
        some => format!("{some} {}", workload.dataset.compression_level),
    }
}
