//! All mirrors of a folder: listed, ranked, removed.

use std::{
    collections::hash_map::RandomState,
    fs::{self, File},
    hash::BuildHasher,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use forebay_source::{SourceId, descriptors::retry_when_exhausted};

use super::{
    map,
    name::{BYTES, MAP, MirrorName, UNFINISHED, ends_in, is_outdated},
};
use crate::{Facts, SourceKey};

/// What a disk tier has of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The name of the source's version.
    pub key: SourceKey,
    /// The source.
    pub source: SourceId,
    /// Bytes of a block of the mirror.
    pub block_len: u64,
    /// Bytes of it that are there.
    pub present: u64,
    /// When it was last used.
    pub used: SystemTime,
}

impl Mirror {
    pub(super) fn name(&self) -> MirrorName {
        MirrorName { key: self.key, block_len: self.block_len }
    }
}

/// A number that no mirror had before.
pub(super) fn nonce() -> u64 {
    RandomState::new().hash_one((std::process::id(), SystemTime::now()))
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

fn open(path: &Path) -> std::io::Result<File> {
    retry_when_exhausted(|| File::open(path))
}

fn maps(folder: &Path) -> impl Iterator<Item = (MirrorName, PathBuf)> {
    let maps = files(folder).filter(|path| ends_in(path, MAP));
    maps.filter_map(|path| Some((MirrorName::of(&path)?, path)))
}

fn mirror(name: MirrorName, map_path: &Path) -> Option<Mirror> {
    let map = open(map_path).ok()?;
    let map::Header { id: source, blocks, layout } = map::read_header(&map).ok()?;
    let used = map.metadata().and_then(|facts| facts.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let MirrorName { key, block_len } = name;
    let is_named_so = SourceKey::of(&source) == key && blocks.block_len() == block_len;
    is_named_so.then(|| Mirror { key, block_len, present: layout.present_bytes(&map, blocks), source, used })
}

pub(super) fn mirrors(folder: &Path) -> Vec<Mirror> {
    let mut found: Vec<Mirror> = maps(folder).filter_map(|(name, path)| mirror(name, &path)).collect();
    found.sort_by(|one, other| {
        other.present.cmp(&one.present).then_with(|| one.source.locator.cmp(&other.source.locator))
    });
    found
}

/// Times of files come from a clock that is some milliseconds late, or two seconds on old file systems.
const CLOCK_GRAIN: Duration = Duration::from_secs(2);

/// Removes what processes left half made or half removed that were killed before `since`: bytes without a map, maps that
/// never got a name, and what is of no use any more. Others may be making mirrors meanwhile.
pub(super) fn sweep(folder: &Path, since: SystemTime) {
    let is_old = |path: &Path| {
        let modified = fs::symlink_metadata(path).and_then(|facts| facts.modified());
        modified.is_ok_and(|modified| modified + CLOCK_GRAIN < since)
    };
    for path in files(folder) {
        let Some(name) = MirrorName::of(&path) else {
            if is_outdated(&path) && is_ours(&path) {
                let _ = fs::remove_file(&path);
            }
            continue;
        };
        let is_leftover = ends_in(&path, UNFINISHED)
            || ends_in(&path, BYTES) && !is_mapped(folder, name, &path)
            || ends_in(&path, MAP) && is_damaged(&path);
        if is_leftover && is_old(&path) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// False when the map of `name` is that of other bytes than those at `path`, or there is none.
fn is_mapped(folder: &Path, name: MirrorName, path: &Path) -> bool {
    match open(&name.map(folder)).and_then(|map| map::read_header(&map)) {
        Ok(header) => name.bytes(folder, header.layout.nonce) == path,
        Err(error) => error.kind() != std::io::ErrorKind::NotFound && !map::is_no_map(&error),
    }
}

/// True for a map that can be read and is none.
fn is_damaged(map_path: &Path) -> bool {
    open(map_path).and_then(|map| map::read_header(&map)).is_err_and(|error| map::is_no_map(&error))
}

/// Bytes that all mirrors take.
pub(super) fn used(folder: &Path) -> u64 {
    maps(folder).filter_map(|(name, path)| mirror(name, &path)).map(|mirror| mirror.present).sum()
}

/// What is known of a mirror, as its files tell.
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

pub(super) fn known(folder: &Path, name: MirrorName) -> Option<Known> {
    let map = open(&name.map(folder)).ok()?;
    let map::Header { id: source, layout, .. } = map::read_header(&map).ok()?;
    let modified = |facts: fs::Metadata| facts.modified().map(clock).ok();
    let placed = fs::metadata(name.bytes(folder, layout.nonce)).ok().and_then(modified)?;
    let used = map.metadata().ok().and_then(modified)?;
    Some(Known { source, placed, used, uses: layout.uses(&map) })
}

pub(super) fn ranked(folder: &Path) -> Vec<(MirrorName, Known)> {
    maps(folder).filter_map(|(name, _)| Some((name, known(folder, name)?))).collect()
}

/// Counts a use of the mirror whose map lies at `map_path`.
pub(super) fn touch(map_path: &Path) {
    let Ok(map) = File::options().read(true).write(true).open(map_path) else { return };
    if let Ok(map::Header { layout, .. }) = map::read_header(&map) {
        // Two who count at once may count one: it is a rank, not an account.
        let _ = map.write_all_at(&(layout.uses(&map) + 1).to_le_bytes(), layout.uses_at());
    }
}

/// Removes the mirror called `name`, and says how many bytes it took. The map first: bytes without one are nothing.
pub(super) fn remove(folder: &Path, name: MirrorName) -> u64 {
    // Of several who remove it one gets it, and never a mirror that was made under the same name meanwhile.
    let leaving = name.unfinished(folder, nonce());
    if fs::rename(name.map(folder), &leaving).is_err() {
        return 0;
    }
    let present = remove_bytes(folder, name, &leaving);
    let _ = fs::remove_file(&leaving);
    present
}

/// Removes the bytes that belong to the map at `leaving`, and says how many were there.
fn remove_bytes(folder: &Path, name: MirrorName, leaving: &Path) -> u64 {
    let found = open(leaving).and_then(|map| Ok((map::read_header(&map)?, map)));
    // A map that cannot be read does not say which bytes are its own: the next sweep finds them.
    let Ok((map::Header { blocks, layout, .. }, map)) = found else { return 0 };
    let _ = fs::remove_file(name.bytes(folder, layout.nonce));
    // Counted after the names are gone: what is put from now on gives back its own.
    layout.present_bytes(&map, blocks)
}

fn is_ours(path: &Path) -> bool {
    [MAP, BYTES, UNFINISHED].iter().any(|extension| ends_in(path, extension))
}

/// Removes all that is ours; what somebody else put there stays.
pub(super) fn remove_all(folder: &Path) {
    for path in files(folder) {
        if is_ours(&path) && (MirrorName::of(&path).is_some() || is_outdated(&path)) {
            let _ = fs::remove_file(&path);
        }
    }
    for first in 0..=u8::MAX {
        let _ = fs::remove_dir(folder.join(format!("{first:02x}")));
    }
}
