//! How long clients wait and try, and what the environment sets.

use std::{env, time::Duration};

use object_store::ClientConfigKey;

/// A server that was restarted or a balancer that was changed is back within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// Sets the patience, in seconds.
const PATIENCE_VARIABLE: &str = "FOREBAY_REMOTE_WAIT";
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
    let given = env::var(PATIENCE_VARIABLE).ok().and_then(|seconds| seconds.trim().parse().ok());
    given.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(PATIENCE)
}

/// Variables of the environment that start with `prefix`, in lower case as the keys of the builders are.
pub(super) fn environment(prefix: &str) -> impl Iterator<Item = (String, String)> {
    let text =
        env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)));
    let prefix = prefix.to_owned();
    text.filter(move |(key, _)| key.starts_with(&prefix))
        .map(|(key, value)| (key.to_ascii_lowercase(), value))
}
