//! Where a run is, as plain data: enough to go on from there with any number of ranks and threads.

use forebay_process::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::{identity::SetIdentity, order::Shuffle, permutation::ORDER_VERSION};

/// Where a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderState {
    /// The version of this format.
    pub version: u32,
    /// The version of the orders it is a position of.
    pub order_version: u32,
    /// Which samples: spec, and names, lengths, types and counts of the files.
    pub fingerprint: String,
    /// Which versions of the files, by time of modification or ETag.
    pub files: String,
    /// How many samples.
    pub samples: u64,
    /// In which order they come.
    pub shuffle: Shuffle,
    /// Samples of a group that is read together: part of the order.
    pub group_len: u64,
    /// Digest of the placement and numbering of samples in files, on which the order of a block shuffle depends.
    pub parts: String,
    /// Where the order starts from.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// Positions of its order that the consumers of all ranks have received.
    pub position: u64,
}

/// How far a loaded state must agree with the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateCheck {
    /// The same files, or copies of them: names, lengths, counts and types agree.
    Strict,
    /// As many samples; under a block shuffle, as many in each file, numbered in the same order.
    CountOnly,
}

/// What a state that was loaded had been taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Resumed {
    /// The very files that are read now.
    SameFiles,
    /// Files with other times of modification or ETags: copies of these, if nobody wrote to them.
    OtherFiles,
}

/// The version of [`LoaderState`] this build writes.
pub const STATE_VERSION: u32 = 2;

/// What every version of a state has.
#[derive(Deserialize)]
struct Versions {
    version: u32,
    order_version: u32,
    epoch: u64,
}

impl Versions {
    fn check(&self) -> Result<()> {
        if (self.version, self.order_version) == (STATE_VERSION, ORDER_VERSION) {
            return Ok(());
        }
        let what = format!(
            "a state of version {} and order version {}; this build goes on from states of version {STATE_VERSION} and \
             order version {ORDER_VERSION}",
            self.version, self.order_version
        );
        let hint = format!("begin its epoch anew: set_epoch({})", self.epoch);
        Err(Error::new(ErrorKind::Unsupported, what).hint(hint))
    }
}

/// The error for what is no state.
fn misread(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Invalid, "is not the state of a run").because(error)
}

impl LoaderState {
    /// The state that `json` is; one of another version is [`Unsupported`](ErrorKind::Unsupported).
    pub fn from_json(json: &str) -> Result<Self> {
        serde_json::from_str::<Versions>(json).map_err(misread)?.check()?;
        serde_json::from_str(json).map_err(misread)
    }

    /// The state that `value` is, as [`from_json`](Self::from_json) of its text.
    pub fn from_value(value: serde_json::Value) -> Result<Self> {
        Versions::deserialize(&value).map_err(misread)?.check()?;
        serde_json::from_value(value).map_err(misread)
    }

    /// Refuses a state of another version, or of other samples than those of `set`.
    pub fn check(&self, set: &SetIdentity, check: StateCheck) -> Result<()> {
        Versions { version: self.version, order_version: self.order_version, epoch: self.epoch }.check()?;
        let refused = |what: String, hint: &str| Err(Error::new(ErrorKind::Invalid, what).hint(hint));
        let count = set.sample_count();
        if self.samples != count {
            let what = format!("the state is of a set of {} samples, this one has {count}", self.samples);
            return refused(what, "open the set the run began with");
        }
        if check == StateCheck::Strict && self.fingerprint != set.content {
            let what =
                "the fields, or names, lengths or types of the files, are not those the run began with";
            let hint = "open the set the run began with; to go on with as many samples of any other, load the state with \
                        strict=False";
            return refused(what.into(), hint);
        }
        let is_same_set = self.fingerprint == set.content;
        let has_parts = self.parts == set.parts_digest() || (is_same_set && self.parts == set.lens_digest());
        if matches!(self.shuffle, Shuffle::Block { .. }) && !has_parts {
            let what = "the files hold other numbers of samples, or samples are numbered in another order than they lie there, than \
                        when the run began, which is part of the order of a block shuffle";
            let hint = "open files that are split as they were and the same samples of them, or begin the epoch anew";
            return refused(what.into(), hint);
        }
        Ok(())
    }
}
