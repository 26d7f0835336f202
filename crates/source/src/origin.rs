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
    #[must_use]
    pub fn beside(&self, name: &str) -> Self {
        match self.0.rsplit_once('/') {
            Some((folder, _)) if !name.starts_with('/') => Self(format!("{folder}/{name}")),
            _ => Self(name.to_owned()),
        }
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
    }
}
