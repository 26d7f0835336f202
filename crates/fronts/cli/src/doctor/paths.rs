//! Where given paths lie, and whether they would be copied.

use std::{fs::File, os::unix::fs::MetadataExt, path::Path};

use forebay::{
    Error, ErrorKind, FileOrigin, Locator, Origins, Result, Settings, TierConfig,
    config::candidates::{self, Device, Suitability, ThisMachine},
    format::Found,
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
    pub(super) format: Option<String>,
    /// Whether the tiers would keep copies of it.
    pub(super) copied: bool,
    pub(super) why: String,
}

/// Looks at each path, and gives the first error as well.
pub(super) fn look_at(paths: &[Locator], settings: Option<&Settings>) -> (Vec<PathFacts>, Option<Error>) {
    let tiers = settings.map_or(&[][..], |settings| &settings.config.tiers);
    let tiers = usable(tiers);
    let mut broken = None;
    let facts = paths.iter().map(|path| {
        look_at_one(path, &tiers).unwrap_or_else(|error| {
            let facts = PathFacts::without(path, &error);
            broken.get_or_insert(error);
            facts
        })
    });
    let facts = facts.collect();
    (facts, broken)
}

/// The tiers that a run would not leave out.
fn usable(tiers: &[TierConfig]) -> Vec<TierConfig> {
    let places = candidates::survey(&ThisMachine, tiers);
    let is_refused =
        |path: &Path| places.iter().any(|place| place.path == path && place.verdict == Suitability::Refused);
    let is_usable = |tier: &&TierConfig| match tier {
        TierConfig::Memory { .. } | TierConfig::Peers { .. } => true,
        TierConfig::Disk(disk) => !is_refused(&disk.path),
    };
    tiers.iter().filter(is_usable).cloned().collect()
}

fn look_at_one(at: &Locator, tiers: &[TierConfig]) -> Result<PathFacts> {
    if at.is_url() {
        return look_at_url(at, !tiers.is_empty());
    }
    let path = at.to_path();
    let is_plain = path.metadata().map_err(|error| Error::from_io(error).at(at))?;
    if !is_plain.is_file() && !is_plain.is_dir() {
        return Err(Error::new(ErrorKind::Invalid, "is neither a file nor a folder").at(at));
    }
    let file = File::open(&path).map_err(|error| Error::from_io(error).at(at))?;
    let near = lies_near(&file);
    let format = if is_plain.is_file() { format_of(at)? } else { None };
    let located = candidates::locate(&ThisMachine, &path);
    let device = located.as_ref().map(|located| located.device);
    let (copied, why) = copying(near, is_plain.dev(), tiers);
    Ok(PathFacts {
        path: at.to_string(),
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

fn format_of(at: &Locator) -> Result<Option<String>> {
    let origin = FileOrigin::new();
    let Some(format) = forebay::format::format_of(&Found::look(&origin, at)?)? else { return Ok(None) };
    if format.name() != "hdf5" {
        return Ok(Some(format.name().to_owned()));
    }
    // Only its contents tell NetCDF-4 from other HDF5; what is wrong with them is not asked for here.
    let described = forebay::format::describe(&origin, at).map(|container| container.format);
    Ok(Some(described.unwrap_or_else(|_| format.name().to_owned())))
}

/// What lies behind a URL: it is opened, and nothing of it is read.
fn look_at_url(at: &Locator, has_tiers: bool) -> Result<PathFacts> {
    Origins::new().of(at).open(at)?;
    let why = if has_tiers {
        "behind a network: tiers keep copies"
    } else {
        "read over the network: no tier is configured that can be used"
    };
    Ok(PathFacts {
        near: Some(false),
        copied: has_tiers,
        why: why.to_owned(),
        error: None,
        ..PathFacts::named(at)
    })
}

/// Whether tiers keep copies of what lies on `device`: a tier on that device does not.
fn copying(near: bool, device: u64, tiers: &[TierConfig]) -> (bool, &'static str) {
    let copies = |tier: &TierConfig| match tier {
        TierConfig::Memory { .. } | TierConfig::Peers { .. } => true,
        TierConfig::Disk(disk) => device_of(&disk.path) != Some(device),
    };
    match (tiers.is_empty(), near, tiers.iter().any(copies)) {
        (true, true, _) => (false, "read where it lies, on this machine"),
        (true, false, _) => (false, "read over the network: no tier is configured that can be used"),
        (false, false, true) => (true, "behind a network: tiers keep copies"),
        (false, true, true) => {
            (true, "on another device than the tier: copies are kept, which gains little if it is as fast")
        }
        (false, _, false) => (false, "on the tier's own device: a copy would gain nothing"),
    }
}

/// The device of a folder, or of the nearest above it that is there.
fn device_of(folder: &Path) -> Option<u64> {
    folder.ancestors().find_map(|folder| folder.metadata().ok()).map(|facts| facts.dev())
}

impl PathFacts {
    fn without(path: &Locator, error: &Error) -> Self {
        Self { error: Some(error.to_string()), ..Self::named(path) }
    }

    /// A path of which nothing is known.
    fn named(path: &Locator) -> Self {
        Self {
            path: path.to_string(),
            error: None,
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
