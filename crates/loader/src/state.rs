//! Where a run is, as plain data: enough to go on from there with any number of ranks and threads.

use forebay_source::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::{ORDER_VERSION, Shuffle};

/// Where a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Which make of state this is.
    pub version: u32,
    /// Which make of order.
    pub order_version: u32,
    /// Which files and samples.
    pub fingerprint: String,
    /// How many samples.
    pub samples: u64,
    /// In which order they come.
    pub shuffle: Shuffle,
    /// Samples of a group that is read together: part of the order.
    pub group_len: u64,
    /// Where the order starts from.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// Positions of its order that the consumers of all ranks have received.
    pub position: u64,
}

/// The make of [`State`] this build writes.
pub const STATE_VERSION: u32 = 1;

impl State {
    /// Refuses a state of another make, or of another set of samples.
    pub fn check(&self, fingerprint: &str, samples: u64) -> Result<()> {
        if self.version != STATE_VERSION || self.order_version != ORDER_VERSION {
            let what = format!(
                "a state of version {}, order {}; this build has {STATE_VERSION} and {ORDER_VERSION}",
                self.version, self.order_version
            );
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        if self.samples != samples {
            let what = format!("the state is of a set of {} samples, this one has {samples}", self.samples);
            return Err(Error::new(ErrorKind::Invalid, what).hint("open the set the run began with"));
        }
        if self.fingerprint != fingerprint {
            let what = "the files or fields are not those the run began with";
            return Err(Error::new(ErrorKind::Invalid, what)
                .hint("if they are the same, copied or touched, load the state with strict=False"));
        }
        Ok(())
    }
}
