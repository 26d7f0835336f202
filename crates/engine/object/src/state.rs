//! Which version of an object was opened, and whether an answer is of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use object_store::{GetOptions, ObjectMeta};

use super::address::Address;
use forebay_process::Error;
use forebay_source::{ByteRange, Locator, SourceId, Version, changed_error};

/// What a store said of an object when it was opened.
#[derive(Clone, Debug)]
pub(super) struct ObjectState {
    meta: ObjectMeta,
    /// True where tags are drawn from a clock, as web servers do: of the time of modification, in whole seconds, and the
    /// length.
    has_dated_tag: bool,
}

impl ObjectState {
    /// What `address` was said to be.
    pub(super) fn of(meta: ObjectMeta, address: &Address) -> Self {
        Self { meta, has_dated_tag: address.is_on_web_server() }
    }

    /// True where the store tells one state of the object from the next.
    pub(super) fn is_versioned(&self) -> bool {
        self.meta.e_tag.is_some() || self.meta.version.is_some() || self.modified().is_some()
    }

    /// True where the store itself names the bytes of the object.
    pub(super) fn is_tagged(&self) -> bool {
        self.meta.e_tag.as_deref().is_some_and(|tag| !is_weak(tag))
    }

    /// Which bytes these are, when opened as `locator`.
    pub(super) fn id(&self, locator: Locator) -> SourceId {
        SourceId { locator, len: self.meta.size, version: self.version() }
    }

    fn version(&self) -> Version {
        let modified = self.modified();
        if let Some(tag) = &self.meta.e_tag {
            let tag = quoted(tag);
            return match modified {
                // Equal bytes are not promised: the time must be equal too.
                Some(modified) if is_weak(&tag) => {
                    Version::dated(format!("{tag} modified {}", seconds(modified)), modified)
                }
                None if is_weak(&tag) => Version::dated(tag, UNIX_EPOCH + NEVER),
                Some(modified) if self.has_dated_tag => Version::dated(tag, modified),
                _ => Version::named(tag),
            };
        }
        if let Some(version) = &self.meta.version {
            return Version::named(format!("version {version}"));
        }
        match modified {
            Some(modified) => Version::dated(format!("modified {}", seconds(modified)), modified),
            // The same whenever it is opened, and of a time that never comes: nothing derived from it is kept.
            None => Version::dated("unversioned", UNIX_EPOCH + NEVER),
        }
    }

    /// When the object last changed; a server that does not say is given the start of the epoch by the client.
    fn modified(&self) -> Option<SystemTime> {
        let modified = SystemTime::from(self.meta.last_modified);
        (modified != UNIX_EPOCH).then_some(modified)
    }

    /// A request for `range` that the store refuses if the object is in another state.
    pub(super) fn request(&self, range: ByteRange) -> GetOptions {
        let tag = self.meta.e_tag.as_deref();
        // A weak tag never matches in this header (RFC 9110, 13.1.1), and one without quotes, as Azure's lists have, is
        // not what the store compares: then the answer's own tag alone tells.
        let strong = tag.filter(|tag| !is_weak(tag) && *tag == quoted(tag));
        let has_date_only = tag.is_none_or(is_weak) && self.modified().is_some();
        GetOptions {
            range: Some((range.start..range.end).into()),
            if_match: strong.map(str::to_owned),
            if_unmodified_since: has_date_only.then_some(self.meta.last_modified),
            version: self.meta.version.clone().filter(|_| tag.is_none()),
            ..GetOptions::default()
        }
    }

    /// Refuses an answer that tells of another state, as a server may give that ignores the conditions.
    pub(super) fn verify(&self, answer: &ObjectMeta) -> Result<(), Error> {
        let tag = |meta: &ObjectMeta| meta.e_tag.as_deref().map(quoted);
        let is_same = answer.size == self.meta.size
            && tag(answer) == tag(&self.meta)
            && (self.is_tagged() || answer.last_modified == self.meta.last_modified);
        if is_same { Ok(()) } else { Err(changed_error("changed since it was opened")) }
    }
}

/// `tag` as headers write it: lists of Azure leave out the quotes.
fn quoted(tag: &str) -> String {
    if tag.starts_with('"') || is_weak(tag) { tag.to_owned() } else { format!("\"{tag}\"") }
}

fn is_weak(tag: &str) -> bool {
    tag.starts_with("W/")
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
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

    fn at(url: &str, e_tag: Option<&str>, seconds: u64) -> ObjectState {
        ObjectState::of(meta(e_tag, seconds), &Address::of(&Locator::new(url)).unwrap())
    }

    fn state(e_tag: Option<&str>, seconds: u64) -> ObjectState {
        at("s3://bucket/a", e_tag, seconds)
    }

    #[test]
    fn a_tag_comes_before_a_date_and_no_date_is_said_aloud() {
        let now = SystemTime::now();
        let version = |e_tag, seconds| state(e_tag, seconds).version();
        assert_eq!(version(Some("\"a\""), 7), Version::named("\"a\""));
        assert!(version(Some("\"a\""), 7).is_settled(now));
        let dated = version(None, 7);
        assert!(dated.tag == "modified 7" && dated.is_settled(now));
        let bare = version(None, 0);
        assert!(bare.tag == "unversioned" && !bare.is_settled(now));
        assert_eq!(bare, version(None, 0));
    }

    #[test]
    fn a_tag_without_quotes_is_the_same_as_the_one_with_them() {
        let (bare, whole) = (state(Some("0x8D"), 7), state(Some("\"0x8D\""), 7));
        assert_eq!(bare.version(), whole.version());
        assert!(bare.verify(&whole.meta).is_ok() && whole.verify(&bare.meta).is_ok());
        assert!(bare.verify(&meta(Some("\"0x8E\""), 7)).is_err());
        assert!(bare.request(ByteRange::at(0, 1)).if_match.is_none(), "it is not what the store compares");
    }

    #[test]
    fn the_tag_of_a_web_server_is_settled_once_its_second_is_over() {
        let now = SystemTime::now();
        let version = |e_tag, seconds| at("https://host/a", Some(e_tag), seconds).version();
        assert!(!version("\"a\"", seconds(now)).is_settled(now), "a second write may have the same tag");
        assert!(version("\"a\"", seconds(now)).is_settled(now + Duration::from_secs(5)));
        assert!(
            version("\"a\"", 0).is_settled(now),
            "a server without dates makes its tags of something else"
        );
    }

    #[test]
    fn a_weak_tag_names_no_bytes_without_their_date() {
        let now = SystemTime::now();
        let weak = |seconds| state(Some("W/\"a\""), seconds).version();
        assert_ne!(weak(7).tag, weak(8).tag);
        assert!(weak(7).is_settled(now) && !weak(seconds(now)).is_settled(now) && !weak(0).is_settled(now));
    }

    #[test]
    fn requests_carry_what_the_store_can_compare() {
        let request = |e_tag, seconds| state(e_tag, seconds).request(ByteRange::at(0, 1));
        let tagged = request(Some("\"a\""), 7);
        assert!(tagged.if_match.as_deref() == Some("\"a\"") && tagged.if_unmodified_since.is_none());
        let weak = request(Some("W/\"a\""), 7);
        assert!(weak.if_match.is_none() && weak.if_unmodified_since.is_some());
        assert!(request(None, 7).if_unmodified_since.is_some());
        assert!(request(None, 0).if_unmodified_since.is_none());
    }

    #[test]
    fn an_answer_of_another_state_is_refused() {
        let weak = state(Some("W/\"a\""), 7);
        assert!(weak.verify(&meta(Some("W/\"a\""), 7)).is_ok());
        assert!(weak.verify(&meta(Some("W/\"b\""), 7)).is_err());
        assert!(weak.verify(&meta(Some("W/\"a\""), 8)).is_err());
        assert!(weak.verify(&ObjectMeta { size: 11, ..meta(Some("W/\"a\""), 7) }).is_err());
        let dated = state(None, 7);
        assert!(dated.verify(&meta(None, 7)).is_ok() && dated.verify(&meta(None, 8)).is_err());
    }
}
