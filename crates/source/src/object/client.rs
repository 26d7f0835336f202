//! How a bucket's client is made from the environment, and how long it waits and tries.

use std::{env, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig,
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    gcp::{GoogleCloudStorageBuilder, GoogleConfigKey},
    http::HttpBuilder,
};

use super::{aws, engine::Engine, trouble::told};
use crate::Result;

/// A server that was restarted or a balancer that was changed is back within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// Sets the patience, in seconds.
const PATIENCE_VARIABLE: &str = "FOREBAY_REMOTE_WAIT";
/// Tries grow apart up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long is waited.
pub(super) const TIMES: [(ClientConfigKey, &str); 3] = [
    // Connections are made within a second or not at all.
    (ClientConfigKey::ConnectTimeout, "5 seconds"),
    // No byte for so long: the server is gone, and another try may reach one that is not.
    (ClientConfigKey::ReadTimeout, "20 seconds"),
    // The longest part (`parts::PART_BYTES`) comes at 70 kB/s.
    (ClientConfigKey::Timeout, "120 seconds"),
];

/// How long requests are tried again: `FOREBAY_REMOTE_WAIT` seconds, else a minute.
pub(super) fn patience() -> Duration {
    let told = env::var(PATIENCE_VARIABLE).ok().and_then(|seconds| seconds.trim().parse().ok());
    told.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(PATIENCE)
}

/// The client of `store`, such as `s3://bucket`.
pub(super) fn make(store: &str, patience: Duration, engine: &Engine) -> Result<Arc<dyn ObjectStore>> {
    choose_cryptography();
    let retry = retry(patience);
    let (scheme, bucket) = store.split_once("://").unwrap_or_default();
    let made = match scheme {
        "s3" | "s3a" => return aws::client(bucket, &retry, engine).map(|client| Arc::new(client) as _),
        "gs" => gcs(bucket).with_retry(retry).build().map(|client| Arc::new(client) as _),
        "az" | "abfs" | "abfss" => azure(store).with_retry(retry).build().map(|client| Arc::new(client) as _),
        _ => web(store).with_retry(retry).build().map(|client| Arc::new(client) as _),
    };
    made.map_err(|error| told(error, store))
}

/// Says which library TLS encrypts with, as clients are built without one. Where the program has said so before, that stands.
fn choose_cryptography() {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
}

/// Time alone decides when to give up. Pauses are drawn at random, so that ranks do not come back all at once.
fn retry(patience: Duration) -> RetryConfig {
    let backoff = BackoffConfig { max_backoff: LONGEST_PAUSE, ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: usize::MAX, retry_timeout: patience }
}

/// Variables of the environment that start with `prefix`, in lower case as the keys of the builders are.
pub(super) fn environment(prefix: &str) -> impl Iterator<Item = (String, String)> {
    let text =
        env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)));
    let prefix = prefix.to_owned();
    text.filter(move |(key, _)| key.starts_with(&prefix))
        .map(|(key, value)| (key.to_ascii_lowercase(), value))
}

fn gcs(bucket: &str) -> GoogleCloudStorageBuilder {
    let ours = TIMES.map(|(key, value)| (GoogleConfigKey::Client(key), value.to_owned()));
    let theirs = environment("GOOGLE_").filter_map(|(key, value)| Some((key.parse().ok()?, value)));
    let mut builder = GoogleCloudStorageBuilder::new();
    for (key, value) in ours.into_iter().chain(theirs) {
        builder = builder.with_config(key, value);
    }
    builder.with_bucket_name(bucket)
}

fn azure(store: &str) -> MicrosoftAzureBuilder {
    let ours = TIMES.map(|(key, value)| (AzureConfigKey::Client(key), value.to_owned()));
    let theirs = environment("AZURE_").filter_map(|(key, value)| Some((key.parse().ok()?, value)));
    let mut builder = MicrosoftAzureBuilder::new();
    for (key, value) in ours.into_iter().chain(theirs) {
        builder = builder.with_config(key, value);
    }
    builder.with_url(format!("{store}/"))
}

fn web(store: &str) -> HttpBuilder {
    let options =
        TIMES.into_iter().fold(ClientOptions::new(), |options, (key, value)| options.with_config(key, value));
    // Whoever writes `http://` means it.
    HttpBuilder::new()
        .with_url(store)
        .with_client_options(options.with_allow_http(store.starts_with("http://")))
}
