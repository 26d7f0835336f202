//! Errors of `object_store` as our own.

use object_store::client::{HttpError, HttpErrorKind};

use forebay_process::{Error, ErrorKind};
use forebay_source::changed_error;

/// What `error`, of a request to `store`, means to the caller.
pub(super) fn from_store(error: object_store::Error, store: &str) -> Error {
    use object_store::Error as Theirs;
    if let Some(ours) = ours(&error) {
        return ours.clone();
    }
    let text = chain(&error);
    let converted = match &error {
        Theirs::NotFound { .. } => missing(&text),
        Theirs::PermissionDenied { .. } | Theirs::Unauthenticated { .. } => denied(store),
        Theirs::Precondition { .. } => changed_error("changed since it was opened"),
        Theirs::NotSupported { .. } if text.contains("Range request") => whole_only(),
        Theirs::NotSupported { .. } | Theirs::NotImplemented { .. } => {
            Error::new(ErrorKind::Unsupported, text)
        }
        Theirs::InvalidPath { .. } => Error::new(ErrorKind::Invalid, text),
        _ => match http_kind(&error) {
            Some(kind) => unreached(kind, &root(&error), store),
            None => answered(&text, store),
        },
    };
    converted.because(error)
}

/// An error of this crate that `error` carries, as one of a provider of credentials.
pub(super) fn ours(error: &object_store::Error) -> Option<&Error> {
    causes(error).find_map(|cause| cause.downcast_ref::<Error>())
}

const AGAIN: &str = "it was tried again and again; try later, or set FOREBAY_REMOTE_WAIT to more seconds";

/// The error where no answer came.
fn unreached(kind: HttpErrorKind, root: &str, store: &str) -> Error {
    let unavailable = |what: &str| Error::new(ErrorKind::Unavailable, format!("{what}: {root}"));
    match kind {
        HttpErrorKind::Timeout => unavailable("the server did not answer in time").hint(AGAIN),
        HttpErrorKind::Connect => unavailable("the server cannot be reached")
            .hint(format!("check the network, and {}", settings(store))),
        _ => unavailable("the connection broke").hint(AGAIN),
    }
}

/// The error for an answer that the crate has no variant for: recognised by its text, as its type is private.
fn answered(text: &str, store: &str) -> Error {
    if text.contains("non-partial response") {
        return whole_only();
    }
    let is_redirect = text.contains("redirect without LOCATION");
    match status(text) {
        Some(401 | 403) => denied(store),
        Some(404) => missing(text),
        Some(412) => changed_error("changed since it was opened"),
        Some(416) => changed_error("is shorter than when it was opened"),
        Some(408 | 429 | 500..600) => {
            Error::new(ErrorKind::Unavailable, format!("the server failed: {text}")).hint(AGAIN)
        }
        status if is_redirect || status.is_some_and(|status| (300..400).contains(&status)) => {
            let what = "the store sends us elsewhere, as it does for a bucket of another region";
            Error::new(ErrorKind::Invalid, what).hint(format!("check {}", settings(store)))
        }
        _ => Error::new(ErrorKind::Io, text).hint(format!("check {}", settings(store))),
    }
}

/// The status that the words of an error name.
fn status(text: &str) -> Option<u16> {
    let (_, after) = text.split_once("status code: ")?;
    after.get(..3)?.parse().ok()
}

fn missing(text: &str) -> Error {
    // The codes of S3 and Google, and of Azure.
    if ["NoSuchBucket", "ContainerNotFound"].iter().any(|code| text.contains(code)) {
        return Error::new(ErrorKind::NotFound, "no such bucket").hint("check its name, and the endpoint");
    }
    Error::new(ErrorKind::NotFound, "no such object")
}

fn whole_only() -> Error {
    Error::new(ErrorKind::Unsupported, "the server gives whole files only, not ranges of bytes")
        .hint("copy the file here first")
}

fn denied(store: &str) -> Error {
    Error::new(ErrorKind::Denied, "the store refuses these credentials, or none").hint(credentials(store))
}

/// What to set where credentials are refused.
fn credentials(store: &str) -> String {
    let variables = match scheme(store) {
        "s3" | "s3a" => {
            "AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN, if there is one), or \
             AWS_SKIP_SIGNATURE=true for a public bucket"
        }
        "gs" => "GOOGLE_SERVICE_ACCOUNT, or GOOGLE_SKIP_SIGNATURE=true for a public bucket",
        "az" | "abfs" | "abfss" => {
            "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_SKIP_SIGNATURE=true for a public container"
        }
        _ => return "such a file cannot be read by its URL: download it first".into(),
    };
    format!("set {variables}")
}

/// Where the store is looked for.
fn settings(store: &str) -> &'static str {
    match scheme(store) {
        "s3" | "s3a" => "AWS_ENDPOINT_URL and AWS_REGION",
        "gs" => "the variables GOOGLE_…",
        "az" | "abfs" | "abfss" => "the variables AZURE_…",
        _ => "the URL",
    }
}

fn scheme(store: &str) -> &str {
    store.split("://").next().unwrap_or_default()
}

/// `error` and its causes, from the outside in.
fn causes<'a>(error: &'a object_store::Error) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    let first: &'a (dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |error| (**error).source())
}

fn http_kind(error: &object_store::Error) -> Option<HttpErrorKind> {
    causes(error).find_map(|cause| cause.downcast_ref::<HttpError>()).map(HttpError::kind)
}

/// The innermost cause, which is what the system said.
fn root(error: &object_store::Error) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// The words of the outermost error, which repeat those of its causes, on one line: servers send whole pages.
fn chain(error: &object_store::Error) -> String {
    let line = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MOST_WORDS).collect()
}

/// Letters of a message: the status and the code of an error come first.
const MOST_WORDS: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_by_their_status() {
        for (words, kind) in [
            ("Server returned non-2xx status code: 403 Forbidden: ", ErrorKind::Denied),
            ("status code: 404 Not Found: <Code>NoSuchBucket</Code>", ErrorKind::NotFound),
            ("status code: 412 Precondition Failed", ErrorKind::Unavailable),
            ("status code: 503 Slow Down", ErrorKind::Unavailable),
            ("status code: 429 Too Many Requests", ErrorKind::Unavailable),
            ("status code: 301 Moved Permanently", ErrorKind::Invalid),
            ("Received redirect without LOCATION, this normally", ErrorKind::Invalid),
            ("Received non-partial response when range requested", ErrorKind::Unsupported),
            ("status code: 400 Bad Request", ErrorKind::Io),
            ("something else", ErrorKind::Io),
        ] {
            let error = answered(words, "s3://bucket");
            assert_eq!(error.kind(), kind, "{words}: {error}");
        }
    }
}
