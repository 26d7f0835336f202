//! How a bucket's client is made from the environment, and how long it waits and tries.

use std::{sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, RetryConfig,
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    gcp::{GoogleCloudStorageBuilder, GoogleConfigKey},
    http::HttpBuilder,
};

use super::{
    aws,
    client_options::{TIMES, environment},
    engine::Engine,
    store_error::from_store,
};
use forebay_process::Result;

/// Tries grow apart up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

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
    made.map_err(|error| from_store(error, store))
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
    // `http://` in a URL is explicit.
    HttpBuilder::new()
        .with_url(store)
        .with_client_options(options.with_allow_http(store.starts_with("http://")))
}
