//! Where given paths lie, and whether they would be copied.

use std::{fs::File, path::Path};

use forebay::{
    Error, ErrorKind, FileOrigin, Locator, Result, Settings, formats,
    places::{self, Device, ThisMachine},
    source::lies_near,
};
use serde::Serialize;

/// Where a path lies.
#[derive(Debug, Serialize)]
pub(super) struct PathFacts {
    pub(super) path: String,
    pub(super) error: Option<String>,
    /// Whether it lies on this machine.
    pub(super) near: Option<bool>,
    pub(super) mount_point: Option<String>,
    pub(super) file_system: Option<String>,
    pub(super) device: Option<Device>,
    /// The format of a file; nothing for a folder, and where no format knows it.
    pub(super) format: Option<&'static str>,
    /// Whether the tiers would keep copies of it.
    pub(super) copied: bool,
    pub(super) why: String,
}

/// Looks at each path, and gives the first error as well.
pub(super) fn look_at(paths: &[String], settings: Option<&Settings>) -> (Vec<PathFacts>, Option<Error>) {
    let has_tiers = settings.is_some_and(|settings| !settings.config.tiers.is_empty());
    let mut broken = None;
    let facts = paths.iter().map(|path| {
        look_at_one(path, has_tiers).unwrap_or_else(|error| {
            let facts = PathFacts::without(path, &error);
            broken.get_or_insert(error);
            facts
        })
    });
    let facts = facts.collect();
    (facts, broken)
}

fn look_at_one(path: &str, has_tiers: bool) -> Result<PathFacts> {
    if path.contains("://") {
        let error = Error::new(ErrorKind::Unsupported, "this build reads files only");
        return Err(error.at(path).hint("name a path of a mounted file system"));
    }
    let is_plain = Path::new(path).metadata().map_err(|error| Error::from_io(error).at(path))?;
    if !is_plain.is_file() && !is_plain.is_dir() {
        return Err(Error::new(ErrorKind::Invalid, "is neither a file nor a folder").at(path));
    }
    let file = File::open(path).map_err(|error| Error::from_io(error).at(path))?;
    let near = lies_near(&file);
    let format = if is_plain.is_file() { format_of(path)? } else { None };
    let located = places::locate(&ThisMachine, Path::new(path));
    let device = located.as_ref().map(|located| located.device);
    let (copied, why) = copying(near, device, has_tiers);
    Ok(PathFacts {
        path: path.to_owned(),
        error: None,
        near: Some(near),
        mount_point: located.as_ref().map(|located| located.mount_point.display().to_string()),
        file_system: located.map(|located| located.file_system),
        device,
        format,
        copied,
        why: why.to_owned(),
    })
}

fn format_of(path: &str) -> Result<Option<&'static str>> {
    let (origin, at) = (FileOrigin::new(), Locator::new(path));
    for format in formats() {
        if format.probe(&origin, &at)? {
            return Ok(Some(format.name()));
        }
    }
    Ok(None)
}

/// Whether copies of what lies there are worth making.
fn copying(near: bool, device: Option<Device>, has_tiers: bool) -> (bool, &'static str) {
    match (has_tiers, near, device) {
        (false, true, _) => (false, "read where it lies, on this machine"),
        (false, false, _) => (false, "read over the network: no tier is configured"),
        (true, false, _) => (true, "behind a network: tiers keep copies"),
        (true, true, Some(Device::Hdd)) => (true, "on a spinning disk: tiers keep copies"),
        (true, true, _) => (false, "on this machine already: a copy would gain nothing"),
    }
}

impl PathFacts {
    fn without(path: &str, error: &Error) -> Self {
        Self {
            path: path.to_owned(),
            error: Some(error.to_string()),
            near: None,
            mount_point: None,
            file_system: None,
            device: None,
            format: None,
            copied: false,
            why: "cannot be read".to_owned(),
        }
    }
}
