//! Bytes per second as people write them.

use forebay::size;

/// The bytes of `200MiB/s`.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    size::parse(text.trim().strip_suffix("/s").unwrap_or(text))
}
