//! Descriptions of files that another rank made: the files of a set are described once for a job, not once by every rank.

use std::collections::HashMap;

use forebay_container::{Container, load, save};
use forebay_loader::SampleSet;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{Locator, Origin, SourceId};
use serde::{Deserialize, Serialize};

/// Descriptions by the file that was described.
#[derive(Debug, Default)]
pub struct ToldContainers {
    by_locator: HashMap<Locator, Vec<u8>>,
}

/// What one rank tells the others.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ToldMessage {
    containers: Vec<(Locator, Vec<u8>)>,
}

impl ToldContainers {
    /// The descriptions of all files of `set`, as bytes for other ranks.
    pub fn message(set: &SampleSet) -> Result<Vec<u8>> {
        let mut told = ToldMessage::default();
        for file in set.files() {
            let container = file.container();
            // A file that a SWMR writer has open is about to change, and a folder has no version by which another rank could tell.
            let Some(first) = container.sources.first().filter(|_| !container.swmr) else { continue };
            told.containers.push((first.locator.clone(), save(container)?));
        }
        postcard::to_stdvec(&told)
            .map_err(|error| Error::new(ErrorKind::Bug, "descriptions cannot be written").because(error))
    }

    /// What another rank told.
    pub fn heard(message: &[u8]) -> Result<Self> {
        let told: ToldMessage = postcard::from_bytes(message)
            .map_err(|error| Error::corrupt("descriptions of another rank cannot be read").because(error))?;
        Ok(Self { by_locator: told.containers.into_iter().collect() })
    }

    /// The description of the source `id`, if it was told and every file that it points to is the same here.
    pub(crate) fn get(&self, origin: &dyn Origin, id: &SourceId) -> Option<Container> {
        let mut container = load(self.by_locator.get(&id.locator)?).ok()?;
        for (number, source) in container.sources.iter_mut().enumerate() {
            let here = match number {
                0 => id.clone(),
                _ => origin.open(&source.locator).ok()?.id().clone(),
            };
            // Not is_unchanged: the number of a file is another on the next node.
            *source = source.names_same_bytes(&here).then_some(here)?;
        }
        let is_absent =
            |at: &Locator| origin.open(at).is_err_and(|error| error.kind() == ErrorKind::NotFound);
        container.absent.iter().all(is_absent).then_some(container)
    }
}
