//! Names under which origins have bytes: paths and URLs.

use std::{borrow::Cow, fmt, path::Path};

use serde::{Deserialize, Serialize};

use crate::byte_path::{path_of_text, show, text_of_path};

/// A name under which an [`Origin`](crate::Origin) has bytes: a URL, a path, or what else an origin calls them by.
///
/// Paths may be any bytes: [`from_path`](Self::from_path) takes them, [`to_path`](Self::to_path) gives them back, and those
/// that are not UTF-8 are [written out](crate::text_of_path) in between. For people such a name is shown with `\xff` in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Locator(String);

impl Locator {
    /// The locator `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The locator of the file at `path`, whose bytes may be any.
    pub fn from_path(path: impl AsRef<Path>) -> Self {
        Self(text_of_path(path.as_ref()))
    }

    /// The path that this locator names, where it names one.
    pub fn to_path(&self) -> Cow<'_, Path> {
        path_of_text(&self.0)
    }

    /// The name, with bytes of a path that are not UTF-8 [written out](crate::text_of_path).
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for a URL, `scheme://…`: it names something remote, and never a file of this machine.
    pub fn is_url(&self) -> bool {
        self.root_len() > 0
    }

    /// How long `scheme://bucket` is, or 0 for a path.
    fn root_len(&self) -> usize {
        let Some((scheme, rest)) = self.0.split_once("://") else { return 0 };
        let is_scheme = scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
        if !is_scheme {
            return 0;
        }
        scheme.len() + "://".len() + rest.find('/').unwrap_or(rest.len())
    }

    /// The locator of `name` in the folder that this one names.
    #[must_use]
    pub fn inside(&self, name: &str) -> Self {
        Self(format!("{}/{name}", self.0.trim_end_matches('/')))
    }

    /// The locator of `name` beside this one: in the same folder, or `name` itself when it is absolute.
    ///
    /// Steps of `.` and `..` in `name` are taken here, so that one file has one locator however it is reached. Beside
    /// a URL everything stays in its bucket: an absolute name starts there, and steps upwards end there.
    #[must_use]
    pub fn beside(&self, name: &str) -> Self {
        let (bucket, path) = self.0.split_at(self.root_len());
        if bucket.is_empty() {
            return Self(self.path_beside(name));
        }
        // As a path, the bucket is the root folder: no step leads above it.
        let inside = Self(if path.is_empty() { "/".into() } else { path.to_owned() }).path_beside(name);
        let steps = inside.split('/').filter(|step| !matches!(*step, "" | "." | ".."));
        Self(steps.fold(bucket.to_owned(), |url, step| url + "/" + step))
    }

    fn path_beside(&self, name: &str) -> String {
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
        path
    }
}

impl fmt::Display for Locator {
    /// For people. A user's name and password in a web address, which is refused, are not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (root, path) = self.0.split_at(self.root_len());
        let is_web = root.starts_with("http://") || root.starts_with("https://");
        let Some((_, host)) = root.rsplit_once('@').filter(|_| is_web) else { return show(&self.0, f) };
        write!(f, "{}://...@{host}", root.split(':').next().unwrap_or_default())?;
        show(path, f)
    }
}
