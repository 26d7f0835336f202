//! Which bucket a URL names, and which object in it.

use object_store::path::Path;

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::Locator;

/// Schemes whose keys are written as they are.
const BUCKETS: [&str; 6] = ["s3", "s3a", "gs", "az", "abfs", "abfss"];
/// Schemes whose paths are percent-encoded.
const WEB: [&str; 2] = ["https", "http"];

/// A bucket or server, and an object in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Address {
    /// `s3://bucket`, `https://host:port`.
    store: String,
    key: Path,
}

impl Address {
    /// The address of one object.
    pub(super) fn of(at: &Locator) -> Result<Self> {
        let address = Self::parse(at.as_str())?;
        if address.key.as_ref().is_empty() || at.as_str().ends_with('/') {
            return Err(Error::new(ErrorKind::Invalid, "names a folder, not one object"));
        }
        Ok(address)
    }

    /// The address of a folder, which may be the whole bucket.
    pub(super) fn of_folder(at: &Locator) -> Result<Self> {
        Self::parse(at.as_str().trim_end_matches('/'))
    }

    fn parse(url: &str) -> Result<Self> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(Error::new(ErrorKind::Invalid, "is no URL, and only those lead to remote files"));
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "a URL without a bucket or host"));
        }
        if key.starts_with('/') {
            // The crate would take it for the same key without it.
            return Err(Error::new(ErrorKind::Invalid, "a key that starts with a slash"));
        }
        let key = if BUCKETS.contains(&scheme) {
            Path::parse(key)
        } else if WEB.contains(&scheme) {
            check_web(bucket, key)?;
            Path::from_url_path(key)
        } else {
            return Err(unknown(scheme));
        };
        let bad = |error: object_store::path::Error| Error::new(ErrorKind::Invalid, error.to_string());
        Ok(Self { store: format!("{scheme}://{bucket}"), key: key.map_err(bad)? })
    }

    /// Bucket or server, as a URL.
    pub(super) fn store(&self) -> &str {
        &self.store
    }

    /// The object's name in it.
    pub(super) fn key(&self) -> &Path {
        &self.key
    }

    /// The locator of `key` in the same bucket.
    pub(super) fn beside(&self, key: &Path) -> Locator {
        Locator::new(format!("{}/{key}", self.store))
    }

    /// True where there is no bucket behind the URL.
    pub(super) fn is_on_web_server(&self) -> bool {
        WEB.iter().any(|scheme| self.store.split("://").next() == Some(*scheme))
    }
}

fn unknown(scheme: &str) -> Error {
    let error = Error::new(ErrorKind::Unsupported, format!("URLs of '{scheme}' are not read"));
    match scheme {
        "file" => error.hint("give the path alone"),
        _ => error.hint("there are s3://, gs://, az://, abfs://, https:// and http://"),
    }
}

/// Refuses what would be lost on the way to the server, or show up in every message.
fn check_web(host: &str, path: &str) -> Result<()> {
    let invalid = |what: &str| Err(Error::new(ErrorKind::Unsupported, what));
    if host.contains('@') {
        return invalid("a URL with a user's name or password in it");
    }
    if path.contains(['?', '#']) {
        return invalid("a URL with a query or fragment");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> Result<(String, String), ErrorKind> {
        let address = Address::of(&Locator::new(url)).map_err(|error| error.kind())?;
        Ok((address.store().to_owned(), address.key().to_string()))
    }

    #[test]
    fn a_url_is_a_bucket_and_a_key() {
        let split = |store: &str, key: &str| Ok((store.to_owned(), key.to_owned()));
        assert_eq!(parts("s3://bucket/set/a b%20c.h5"), split("s3://bucket", "set/a b%20c.h5"));
        assert_eq!(parts("http://host:8000/set/a%20b.h5"), split("http://host:8000", "set/a b.h5"));
        let azure = "abfs://files@account.dfs.core.windows.net";
        assert_eq!(parts(&format!("{azure}/a.h5")), split(azure, "a.h5"));
    }

    #[test]
    fn paths_of_this_machine_are_refused() {
        for path in ["/etc/passwd", "a.h5", "../a.h5", "s3:/bucket/a.h5", ""] {
            assert_eq!(parts(path), Err(ErrorKind::Invalid), "{path}");
        }
        for url in ["file:///etc/passwd", "ftp://host/a.h5", "unix:///run/socket"] {
            assert!(parts(url).is_err(), "{url}");
        }
    }

    #[test]
    fn keys_that_climb_are_refused() {
        for url in
            ["s3://bucket/../other/a.h5", "s3://bucket/./a.h5", "s3://bucket//a.h5", "http://host/a/../b"]
        {
            assert!(parts(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_folder_is_no_object_and_a_query_is_refused() {
        for url in ["s3://bucket", "s3://bucket/", "s3://bucket/set/", "s3:///set"] {
            assert_eq!(parts(url), Err(ErrorKind::Invalid), "{url}");
        }
        for url in ["https://host/a.h5?token=1", "https://me:secret@host/a.h5"] {
            assert_eq!(parts(url), Err(ErrorKind::Unsupported), "{url}");
        }
    }
}
