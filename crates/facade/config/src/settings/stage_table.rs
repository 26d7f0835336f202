//! The settings of staged writes.

use forebay_process::{Error, ErrorKind, Result, size};
use toml::de::DeValue;

use crate::{
    config::fast_place::FastPlace,
    settings::{
        given::GivenValue,
        setting::{Setting, put, quoted, threads},
    },
};

/// Where written bytes wait, and how they get to their destinations.
pub(crate) const STAGE: [Setting; 7] = [
    Setting {
        section: "stage",
        key: "path",
        flag: "--stage",
        variable: "FOREBAY_STAGE",
        text: |overrides| overrides.stage.as_ref(),
        set: |config, given, environment| {
            put(&mut config.stage.path, FastPlace::parse_in(given.text()?, environment).map(Some))
        },
        toml: |config| config.stage.path.as_ref().map(|place| quoted(&place.to_string())),
        absent: "writes go straight to their destinations",
    },
    Setting {
        section: "stage",
        key: "quota",
        flag: "--stage-quota",
        variable: "FOREBAY_STAGE_QUOTA",
        text: |overrides| overrides.stage_quota.as_ref(),
        set: |config, given, _| put(&mut config.stage.quota, given.amount()),
        toml: |config| Some(quoted(&config.stage.quota.to_string())),
        absent: "",
    },
    Setting {
        section: "stage",
        key: "free_floor",
        flag: "",
        variable: "FOREBAY_STAGE_FREE_FLOOR",
        text: |_| None,
        set: |config, given, _| put(&mut config.stage.free_floor, given.amount().map(Some)),
        toml: |config| config.stage.free_floor.map(|floor| quoted(&floor.to_string())),
        absent: "5% of the disk, at least 1GiB and at most 4GiB, stay free",
    },
    Setting {
        section: "stage",
        key: "drainers",
        flag: "",
        variable: "FOREBAY_STAGE_DRAINERS",
        text: |_| None,
        set: |config, given, _| put(&mut config.stage.drainers, threads(given)),
        toml: |config| Some(config.stage.drainers.to_string()),
        absent: "",
    },
    Setting {
        section: "stage",
        key: "bandwidth",
        flag: "--bandwidth",
        variable: "FOREBAY_STAGE_BANDWIDTH",
        text: |overrides| overrides.bandwidth.as_ref(),
        set: |config, given, _| put(&mut config.stage.bandwidth, bandwidth(given).map(Some)),
        toml: |config| config.stage.bandwidth.map(|bytes| quoted(&format!("{}/s", size::exact(bytes)))),
        absent: "as fast as the destination takes it",
    },
    Setting {
        section: "stage",
        key: "memory",
        flag: "",
        variable: "FOREBAY_STAGE_MEMORY",
        text: |_| None,
        set: |config, given, _| put(&mut config.stage.memory, given.amount()),
        toml: |config| Some(quoted(&config.stage.memory.to_string())),
        absent: "",
    },
    Setting {
        section: "stage",
        key: "paused",
        flag: "",
        variable: "FOREBAY_STAGE_PAUSED",
        text: |_| None,
        set: |config, given, _| put(&mut config.stage.paused, given.boolean()),
        toml: |config| Some(config.stage.paused.to_string()),
        absent: "",
    },
];

/// Bytes a second: a size, with or without `/s` behind it.
fn bandwidth(given: GivenValue<'_>) -> Result<u64> {
    let text = match given {
        GivenValue::Text(text) => Some(text),
        GivenValue::Toml(DeValue::String(text)) => Some(text.as_ref()),
        GivenValue::Toml(_) => None,
    };
    let bytes = match text {
        Some(text) => GivenValue::Text(text.trim().trim_end_matches("/s").trim_end()).bytes()?,
        None => given.bytes()?,
    };
    if bytes == 0 {
        return Err(Error::new(ErrorKind::Invalid, "a bandwidth of 0").hint("leave it out to set no bound"));
    }
    Ok(bytes)
}
