//! Errors of stores in our words.

use object_store::client::{HttpError, HttpErrorKind};

use crate::{Error, ErrorKind, stamp::changed};

/// What `error`, of a request to `store`, means to the caller.
pub(super) fn told(error: object_store::Error, store: &str) -> Error {
    use object_store::Error as Theirs;
    let text = chain(&error);
    let new = |kind, what: &str| Error::new(kind, what);
    let told = match &error {
        Theirs::NotFound { .. } if text.contains("NoSuchBucket") => {
            new(ErrorKind::NotFound, "no such bucket").hint("check its name, and the endpoint")
        }
        Theirs::NotFound { .. } => new(ErrorKind::NotFound, "no such object"),
        Theirs::PermissionDenied { .. } => {
            new(ErrorKind::Denied, "the store refuses these credentials, or none").hint(credentials(store))
        }
        Theirs::Unauthenticated { .. } => {
            new(ErrorKind::Denied, "the store wants to know who asks").hint(credentials(store))
        }
        Theirs::Precondition { .. } => changed("changed since it was opened"),
        Theirs::NotSupported { .. } | Theirs::NotImplemented { .. } => new(ErrorKind::Unsupported, &text),
        Theirs::InvalidPath { .. } => new(ErrorKind::Invalid, &text),
        Theirs::UnknownConfigurationKey { .. } => new(ErrorKind::Invalid, &text).hint(settings(store)),
        _ => other(&error, &text, store),
    };
    told.because(error)
}

/// What has no variant of its own is told by its cause, or by the words of the crate, whose type is private.
fn other(error: &object_store::Error, text: &str, store: &str) -> Error {
    let unavailable = |what: String| Error::new(ErrorKind::Unavailable, what);
    if let Some(kind) = http_kind(error) {
        let root = root(error);
        return match kind {
            HttpErrorKind::Timeout => unavailable(format!("the server did not answer in time: {root}"))
                .hint("it was tried again and again; try later, or set FOREBAY_REMOTE_WAIT to more seconds"),
            HttpErrorKind::Connect => unavailable(format!("the server cannot be reached: {root}"))
                .hint(format!("check the network, and {}", settings(store))),
            _ => unavailable(format!("the connection broke: {root}"))
                .hint("it was tried again and again; try later, or set FOREBAY_REMOTE_WAIT to more seconds"),
        };
    }
    if text.contains("non-partial response") {
        return Error::new(ErrorKind::Unsupported, "the server gives whole files only, not ranges of bytes")
            .hint("copy the file here first");
    }
    if text.contains("redirect") || text.contains("status code: 3") {
        return Error::new(
            ErrorKind::Invalid,
            "the store sends us elsewhere, as it does for a bucket of another region",
        )
        .hint(settings(store));
    }
    if text.contains("status code: 5") || text.contains("status code: 429") {
        return unavailable(format!("the server is in trouble: {text}"))
            .hint("it was tried again and again; try later");
    }
    if text.contains("status code: 416") {
        return changed("is shorter than when it was opened");
    }
    Error::new(ErrorKind::Io, text).hint(settings(store))
}

/// What to set where credentials are refused.
fn credentials(store: &str) -> String {
    let variables = match scheme(store) {
        "s3" | "s3a" => {
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN, if there is one)"
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

/// The words of the outermost error, which repeat those of its causes, on one line.
fn chain(error: &object_store::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
