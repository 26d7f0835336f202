//! Which samples of a set an epoch has, and how often: a subset, and how it is drawn from.

use std::sync::Arc;

use forebay_process::{Error, ErrorKind, Result};
use sha2::{Digest, Sha256};

use crate::{draws::Draws, groups::Groups, identity::SetIdentity, subset::Subset};

/// Which samples of a set an epoch has, and how often; by default each once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampler {
    /// The samples there are to draw from; all where there is none.
    pub subset: Option<Arc<Subset>>,
    /// How they are drawn; each once where nothing is said.
    pub draws: Option<Arc<Draws>>,
}

impl Sampler {
    /// By what the samples of `whole` that it draws from are known to orders and states.
    ///
    /// Parts are what is there of each group of the whole set, so that a block shuffle still reads a group once.
    pub fn identity(&self, whole: &SetIdentity) -> Result<SetIdentity> {
        let mut identity = whole.clone();
        if let Some(subset) = self.subset.as_ref().filter(|subset| !subset.is_whole()) {
            check_count("a subset", subset.whole_len(), whole.sample_count())?;
            let groups = Groups::new(&whole.part_lens, whole.group_len)?;
            identity.part_lens = subset.group_lens(&groups);
            identity.numbering = subset.numbering_digest();
            identity.extend(&subset.digest());
        }
        if let Some(draws) = &self.draws {
            check_count("draws", draws.population(), identity.sample_count())?;
            identity.extend(&draws.digest());
        }
        Ok(identity)
    }

    /// True when an epoch may have `sample` of the whole set.
    pub fn has(&self, sample: u64) -> bool {
        self.subset.as_ref().is_none_or(|subset| subset.has(sample))
    }

    /// The sample of the whole set that has `number` in the subset.
    pub fn sample(&self, number: u64) -> u64 {
        self.subset.as_ref().and_then(|subset| subset.sample(number)).unwrap_or(number)
    }
}

impl SetIdentity {
    /// Makes it that of other samples, which `digest` tells from all others of this set.
    fn extend(&mut self, digest: &str) {
        for text in [&mut self.content, &mut self.version] {
            let mut hash = Sha256::new();
            hash.update(text.as_bytes());
            hash.update(b"/");
            hash.update(digest.as_bytes());
            *text = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        }
    }
}

fn check_count(what: &str, of: u64, count: u64) -> Result<()> {
    if of == count {
        return Ok(());
    }
    let what = format!("{what} of a set of {of} samples, and this one has {count}");
    Err(Error::new(ErrorKind::Invalid, what).hint("take it of the set that is loaded"))
}
