//! Which version of an object was opened, and whether an answer is of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use object_store::{GetOptions, ObjectMeta};

use crate::{ByteRange, Error, Locator, SourceId, Version, stamp::changed};

/// What a store said of an object when it was opened.
#[derive(Clone, Debug)]
pub(super) struct State(ObjectMeta);

impl State {
    pub(super) fn of(meta: ObjectMeta) -> Self {
        Self(meta)
    }

    /// True where the store tells one state of the object from the next.
    pub(super) fn is_versioned(&self) -> bool {
        self.0.e_tag.is_some() || self.0.version.is_some() || self.modified().is_some()
    }

    /// True where the store itself names the state of the object.
    pub(super) fn is_tagged(&self) -> bool {
        self.0.e_tag.is_some()
    }

    /// Which bytes these are, when opened as `locator`.
    pub(super) fn id(&self, locator: Locator) -> SourceId {
        SourceId { locator, len: self.0.size, version: self.version() }
    }

    fn version(&self) -> Version {
        if let Some(tag) = &self.0.e_tag {
            return Version::named(tag.as_str());
        }
        if let Some(version) = &self.0.version {
            return Version::named(format!("version {version}"));
        }
        match self.modified() {
            Some(modified) => {
                let seconds = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                Version::dated(format!("modified {seconds}"), modified)
            }
            // The same whenever it is opened, and of a time that never comes: nothing derived from it is kept.
            None => Version::dated("unversioned", UNIX_EPOCH + NEVER),
        }
    }

    /// When the object last changed; a server that does not say is given the start of the epoch by the client.
    fn modified(&self) -> Option<SystemTime> {
        let modified = SystemTime::from(self.0.last_modified);
        (modified != UNIX_EPOCH).then_some(modified)
    }

    /// A request for `range` that the store refuses if the object is in another state.
    pub(super) fn request(&self, range: ByteRange) -> GetOptions {
        // A weak tag never matches in this header (RFC 9110, 13.1.1): then the answer's own tag alone tells.
        let strong = self.0.e_tag.clone().filter(|tag| !tag.starts_with("W/"));
        let has_date_only = self.0.e_tag.is_none() && self.modified().is_some();
        GetOptions {
            range: Some((range.start..range.end).into()),
            if_match: strong,
            if_unmodified_since: has_date_only.then_some(self.0.last_modified),
            version: self.0.version.clone().filter(|_| self.0.e_tag.is_none()),
            ..GetOptions::default()
        }
    }

    /// Refuses an answer that tells of another state, as a server may give that ignores the conditions.
    pub(super) fn verify(&self, answer: &ObjectMeta) -> Result<(), Error> {
        let is_same = answer.size == self.0.size
            && answer.e_tag == self.0.e_tag
            && (self.0.e_tag.is_some() || answer.last_modified == self.0.last_modified);
        if is_same { Ok(()) } else { Err(changed("changed since it was opened")) }
    }
}

/// In the year 9999, later than any clock.
const NEVER: Duration = Duration::from_secs(253_402_300_799);

#[cfg(test)]
mod tests {
    use object_store::path::Path;

    use super::*;

    fn meta(e_tag: Option<&str>, seconds: u64) -> ObjectMeta {
        ObjectMeta {
            location: Path::from("a"),
            last_modified: (UNIX_EPOCH + Duration::from_secs(seconds)).into(),
            size: 10,
            e_tag: e_tag.map(str::to_owned),
            version: None,
        }
    }

    #[test]
    fn a_tag_comes_before_a_date_and_no_date_is_said_aloud() {
        let now = SystemTime::now();
        let version = |e_tag, seconds| State::of(meta(e_tag, seconds)).version();
        assert_eq!(version(Some("\"a\""), 7), Version::named("\"a\""));
        assert!(version(Some("\"a\""), 7).is_settled(now));
        let dated = version(None, 7);
        assert!(dated.tag == "modified 7" && dated.is_settled(now));
        let bare = version(None, 0);
        assert!(bare.tag == "unversioned" && !bare.is_settled(now));
        assert_eq!(bare, version(None, 0));
    }

    #[test]
    fn requests_carry_what_the_store_can_compare() {
        let request = |e_tag, seconds| State::of(meta(e_tag, seconds)).request(ByteRange::at(0, 1));
        let tagged = request(Some("\"a\""), 7);
        assert!(tagged.if_match.as_deref() == Some("\"a\"") && tagged.if_unmodified_since.is_none());
        assert!(request(Some("W/\"a\""), 7).if_match.is_none());
        assert!(request(None, 7).if_unmodified_since.is_some());
        assert!(request(None, 0).if_unmodified_since.is_none());
    }

    #[test]
    fn an_answer_of_another_state_is_refused() {
        let state = State::of(meta(Some("W/\"a\""), 7));
        assert!(state.verify(&meta(Some("W/\"a\""), 7)).is_ok());
        assert!(state.verify(&meta(Some("W/\"b\""), 7)).is_err());
        assert!(state.verify(&ObjectMeta { size: 11, ..meta(Some("W/\"a\""), 7) }).is_err());
        let dated = State::of(meta(None, 7));
        assert!(dated.verify(&meta(None, 7)).is_ok() && dated.verify(&meta(None, 8)).is_err());
    }
}
