//! All mirrors of a folder: listed, ranked, removed.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use forebay_source::{SourceId, descriptors::retry_when_exhausted};

use super::{map, mirror::is_temporary};
use crate::{Facts, SourceKey};

/// What a disk tier has of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The name of the source's version.
    pub key: SourceKey,
    /// The source.
    pub source: SourceId,
    /// Bytes of it that are there.
    pub present: u64,
    /// When it was last used.
    pub used: SystemTime,
}

/// The name of the folder in which copies of `key` lie: a folder with a million files is slow.
pub(super) fn folder_name(key: SourceKey) -> String {
    format!("{:02x}", key.first())
}

pub(super) fn path(folder: &Path, key: SourceKey, extension: &str) -> PathBuf {
    folder.join(folder_name(key)).join(format!("{key}.{extension}"))
}

/// Nanoseconds since 1970.
pub(super) fn clock(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// All files of the tier under `folder`, by their paths.
fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let inside =
        |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.len() == 2 && u8::from_str_radix(name, 16).is_ok())
    };
    inside(folder.to_owned()).filter(is_ours).flat_map(inside)
}

/// The source that a file called so is about, if it is one of ours.
fn key_of(path: &Path) -> Option<SourceKey> {
    let name = path.file_name()?.to_str()?;
    SourceKey::parse(name.split('.').next()?)
}

fn maps(folder: &Path) -> impl Iterator<Item = (SourceKey, PathBuf)> {
    let maps = files(folder).filter(|path| path.extension().is_some_and(|extension| extension == "map"));
    maps.filter_map(|path| Some((key_of(&path)?, path)))
}

fn mirror(key: SourceKey, map_path: &Path) -> Option<Mirror> {
    let map = retry_when_exhausted(|| File::open(map_path)).ok()?;
    let (source, blocks, layout) = map::read_header(&map)?;
    let used = map.metadata().and_then(|facts| facts.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    (SourceKey::of(&source) == key).then(|| Mirror {
        key,
        present: layout.present_bytes(&map, blocks),
        source,
        used,
    })
}

pub(super) fn mirrors(folder: &Path) -> Vec<Mirror> {
    let mut found: Vec<Mirror> = maps(folder).filter_map(|(key, path)| mirror(key, &path)).collect();
    found.sort_by(|one, other| {
        other.present.cmp(&one.present).then_with(|| one.source.locator.cmp(&other.source.locator))
    });
    found
}

/// Removes what killed processes left half made or half removed: mirrors without a map, and maps that never got a name.
pub(super) fn sweep(folder: &Path) {
    for path in files(folder).filter(|path| key_of(path).is_some()) {
        let is_mirror = path.extension().is_some_and(|extension| extension == "bytes");
        if is_temporary(&path) || is_mirror && !path.with_extension("map").exists() {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Bytes that all mirrors take.
pub(super) fn used(folder: &Path) -> u64 {
    maps(folder).filter_map(|(key, path)| mirror(key, &path)).map(|mirror| mirror.present).sum()
}

/// What is known of the mirror of `key`, as its files tell.
#[derive(Debug)]
pub(super) struct Known {
    source: SourceId,
    placed: u64,
    used: u64,
    uses: u64,
}

impl Known {
    pub(super) fn facts(&self) -> Facts<'_> {
        Facts {
            source: Some(&self.source),
            block: None,
            len: self.source.len,
            placed: self.placed,
            used: self.used,
            uses: self.uses,
            next_use: None,
        }
    }
}

pub(super) fn known(folder: &Path, key: SourceKey) -> Option<Known> {
    let map = retry_when_exhausted(|| File::open(path(folder, key, "map"))).ok()?;
    let (source, _, layout) = map::read_header(&map)?;
    let modified = |facts: fs::Metadata| facts.modified().map(clock).ok();
    let placed = fs::metadata(path(folder, key, "bytes")).ok().and_then(modified)?;
    let used = map.metadata().ok().and_then(modified)?;
    Some(Known { source, placed, used, uses: layout.uses(&map) })
}

pub(super) fn ranked(folder: &Path) -> Vec<(SourceKey, Known)> {
    maps(folder).filter_map(|(key, _)| Some((key, known(folder, key)?))).collect()
}

/// Counts a use of the mirror whose map lies at `map_path`.
pub(super) fn touch(map_path: &Path) {
    let Ok(map) = File::options().read(true).write(true).open(map_path) else { return };
    if let Some((.., layout)) = map::read_header(&map) {
        // Two who count at once may count one: it is a rank, not an account.
        let _ = map.write_all_at(&(layout.uses(&map) + 1).to_le_bytes(), layout.uses_at());
    }
}

/// Removes the mirror of `key`, and says how many bytes it took. The map first: a mirror without one is nothing.
pub(super) fn remove(folder: &Path, key: SourceKey) -> u64 {
    let map_path = path(folder, key, "map");
    let map = retry_when_exhausted(|| File::open(&map_path));
    let is_removed = fs::remove_file(&map_path).is_ok();
    let _ = fs::remove_file(path(folder, key, "bytes"));
    // Counted after the name is gone: what is put from now on gives back its own.
    let present = |map: File| {
        let (_, blocks, layout) = map::read_header(&map)?;
        Some(layout.present_bytes(&map, blocks))
    };
    map.ok().filter(|_| is_removed).and_then(present).unwrap_or(0)
}

/// Removes all that is ours; what somebody else put there stays.
pub(super) fn remove_all(folder: &Path) {
    for path in files(folder) {
        let is_ours = path.extension().is_some_and(|extension| extension == "map" || extension == "bytes")
            || is_temporary(&path);
        if is_ours && key_of(&path).is_some() {
            let _ = fs::remove_file(&path);
        }
    }
    for first in 0..=u8::MAX {
        let _ = fs::remove_dir(folder.join(format!("{first:02x}")));
    }
}
