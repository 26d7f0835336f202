//! Tiers that will copy nothing, as far as that is known before the program opens a file.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use forebay_config::{Amount, Config, DiskConfig, TierConfig};
use forebay_report::bytes_text;

/// What the user ought to know of the tiers of `config`, whose folders are there by now.
pub(crate) fn tier_warnings(config: &Config) -> Vec<String> {
    let disks = config.tiers.iter().filter_map(|tier| match tier {
        TierConfig::Disk(disk) => Some(disk),
        TierConfig::Memory { .. } | TierConfig::Peers { .. } => None,
    });
    let device = |path: &Path| fs::metadata(path).ok().map(|facts| facts.dev());
    let origin = config.origin.path.as_deref().and_then(|origin| device(Path::new(origin)));
    let warning = |disk: &DiskConfig| {
        let name = disk.path.display();
        if origin.is_some() && device(&disk.path) == origin {
            return Some(format!("the tier disk {name} is of no use: the files lie on its own device"));
        }
        match disk.quota {
            Amount::Bytes(quota) if quota < config.placement.block => Some(format!(
                "the tier disk {name} of {} holds no block of {}: only files that are smaller are copied there",
                size(quota),
                size(config.placement.block)
            )),
            _ => None,
        }
    };
    disks.filter_map(warning).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a number for people")]
fn size(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { bytes_text(bytes as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_on_the_device_of_the_files_and_one_that_holds_no_block_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        let path = folder.path().display().to_string();
        config.origin.path = Some(path.clone());
        config.tiers = vec![TierConfig::parse(&format!("{path}:1GiB")).unwrap()];
        assert!(tier_warnings(&config)[0].contains("the files lie on its own device"));
        config.origin.path = Some("/proc".into());
        assert_eq!(tier_warnings(&config), Vec::<String>::new());
        config.tiers = vec![TierConfig::parse(&format!("{path}:1000")).unwrap()];
        let said = tier_warnings(&config);
        assert!(said[0].contains("of 1000 B holds no block of 1.00 MiB"), "{said:?}");
    }
}
