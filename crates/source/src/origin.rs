//! A place that has sources: a file system, a bucket, a server.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{Result, Source};

/// A name under which an [`Origin`] has bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Locator(String);

impl Locator {
    /// The locator `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The locator of `name` beside this one: in the same folder, or `name` itself when it is absolute.
    ///
    /// Steps of `.` and `..` in `name` are taken here, so that one file has one locator however it is reached.
    #[must_use]
    pub fn beside(&self, name: &str) -> Self {
        // Empty, or ending in a slash.
        let mut path = match self.0.rfind('/') {
            Some(at) if !name.starts_with('/') => self.0[..=at].to_owned(),
            _ => String::new(),
        };
        for step in name.split('/') {
            let folder = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            match step {
                "." => {}
                "" if !path.is_empty() => {}
                ".." if !matches!(folder, "" | "." | "..") => path.truncate(path.len() - folder.len() - 1),
                step => {
                    path.push_str(step);
                    path.push('/');
                }
            }
        }
        path.pop();
        Self(path)
    }
}

impl fmt::Display for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A place that opens sources by name.
///
/// Tiers are an `Origin` over an `Origin`; format readers are handed one and cannot tell.
///
/// # Contract
/// - `open` of what is not there is [`NotFound`](crate::ErrorKind::NotFound) and names the locator.
/// - Two `open`s of unchanged bytes give equal ids.
/// - `list` is sorted, names every source under `under` at any depth, and each name opens.
pub trait Origin: Send + Sync + fmt::Debug {
    /// Opens what lies at `at`.
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>>;

    /// Names of what lies under `under`, sorted.
    fn list(&self, under: &Locator) -> Result<Vec<Locator>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_keeps_the_folder_and_lets_absolute_names_be() {
        assert_eq!(Locator::new("d/a.h5").beside("b.h5").as_str(), "d/b.h5");
        assert_eq!(Locator::new("a.h5").beside("b.h5").as_str(), "b.h5");
        assert_eq!(Locator::new("d/a.h5").beside("/b.h5").as_str(), "/b.h5");
        assert_eq!(Locator::new("/a.h5").beside("b.h5").as_str(), "/b.h5");
        assert_eq!(Locator::new("s3://bucket/d/a.h5").beside("e/b.h5").as_str(), "s3://bucket/d/e/b.h5");
    }

    #[test]
    fn one_file_has_one_locator_however_it_is_reached() {
        for (from, name, to) in [
            ("d/a.h5", "./b.h5", "d/b.h5"),
            ("d/a.h5", "././b.h5", "d/b.h5"),
            ("d/a.h5", "../d/b.h5", "d/b.h5"),
            ("d/a.h5", "../b.h5", "b.h5"),
            ("a.h5", "./b.h5", "b.h5"),
            ("a.h5", "../b.h5", "../b.h5"),
            ("../a.h5", "../b.h5", "../../b.h5"),
            ("/d/a.h5", "../b.h5", "/b.h5"),
            ("d/a.h5", "/e/../b.h5", "/b.h5"),
        ] {
            assert_eq!(Locator::new(from).beside(name).as_str(), to, "{from} {name}");
        }
    }
}
