//! Overrides as hydra has them: `++workload.reader.batch_size=4` sets, `~workload.metric` removes.

use forebay_process::{Error, ErrorKind, Result};

use crate::config::{node::ConfigNode, yaml};

/// Changes `tree` by each of `overrides`, in order; paths may begin with `workload.`.
///
/// `+` (add) and no sign (change) do as `++` does: whether a key exists is checked for all keys alike.
pub(super) fn apply(tree: &mut ConfigNode, overrides: &[String]) -> Result<()> {
    overrides.iter().try_for_each(|text| apply_one(tree, text))
}

fn apply_one(tree: &mut ConfigNode, text: &str) -> Result<()> {
    let invalid = || {
        Error::new(ErrorKind::Invalid, format!("'{text}' is no override"))
            .hint("overrides look like ++workload.reader.batch_size=4")
    };
    if let Some(path) = text.strip_prefix('~') {
        let mut keys = keys(path);
        let last = keys.pop().ok_or_else(invalid)?;
        keys.iter().fold(tree, |node, key| node.entry(key)).remove(last);
        return Ok(());
    }
    let (path, value) = text.trim_start_matches('+').split_once('=').ok_or_else(invalid)?;
    let keys = keys(path);
    if keys.is_empty() || keys.iter().any(|key| key.is_empty()) {
        return Err(invalid());
    }
    // The tree of an empty value is an empty mapping, which is no value.
    let mut value = yaml::parse(&format!("value: {value}")).map_err(|_| invalid())?;
    let mut value = value.remove("value").ok_or_else(invalid)?;
    value.line = None;
    *keys.iter().fold(tree, |node, key| node.entry(key)) = value;
    Ok(())
}

fn keys(path: &str) -> Vec<&str> {
    let path = path.trim();
    path.strip_prefix("workload.").unwrap_or(path).split('.').collect()
}
