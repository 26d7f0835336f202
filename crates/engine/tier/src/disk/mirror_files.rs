//! The files of all mirrors in a folder: listed, ranked, removed.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use forebay_process::ErrorKind;
use forebay_scratch::{FileFacts, OwnFolder, nonce};
use forebay_source::SourceId;

use super::{
    map,
    name::{BYTES, MAP, MirrorName, UNFINISHED, ends_in, is_outdated},
};
use crate::{block::SourceKey, policy::BlockFacts};

/// What a disk tier has of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorSummary {
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

impl MirrorSummary {
    pub(super) fn name(&self) -> MirrorName {
        MirrorName { key: self.key, block_len: self.block_len }
    }
}

/// Nanoseconds since 1970.
pub(super) fn clock(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// What the file at `bytes`, which holds the bytes of a mirror, is a copy of; nothing where it is none of this user's.
pub(super) fn source_of(bytes: &Path) -> Option<SourceId> {
    let name = MirrorName::of(bytes).filter(|_| ends_in(bytes, BYTES))?;
    let folder = OwnFolder::open(bytes.parent()?).ok()?;
    let map = folder.open_to_read(format!("{name}.{MAP}")).ok()?;
    let header = map::read_header(&map).ok()?;
    (bytes.file_name() == name.bytes(header.layout.nonce).file_name()).then_some(header.id)
}

/// All files of the tier, by their paths in `folder`.
fn files(folder: &OwnFolder) -> impl Iterator<Item = PathBuf> {
    let is_ours = |name: &String| name.len() == 2 && u8::from_str_radix(name, 16).is_ok();
    folder.names().unwrap_or_default().into_iter().filter(is_ours).flat_map(|inner| {
        let names = folder.names_in(&inner).unwrap_or_default();
        names.into_iter().map(move |name| Path::new(&inner).join(name))
    })
}

/// The names of all mirrors that have a map.
fn maps(folder: &OwnFolder) -> impl Iterator<Item = MirrorName> {
    files(folder).filter(|path| ends_in(path, MAP)).filter_map(|path| MirrorName::of(&path))
}

fn mirror(folder: &OwnFolder, name: MirrorName) -> Option<MirrorSummary> {
    let map = folder.open_to_read(name.map()).ok()?;
    let map::MapHeader { id: source, blocks, layout } = map::read_header(&map).ok()?;
    let used = FileFacts::of(&map).map_or(SystemTime::UNIX_EPOCH, |facts| facts.modified());
    let MirrorName { key, block_len } = name;
    let is_named_so = SourceKey::of(&source) == key && blocks.block_len() == block_len;
    is_named_so.then(|| MirrorSummary {
        key,
        block_len,
        present: layout.present_bytes(&map, blocks),
        source,
        used,
    })
}

pub(super) fn mirrors(folder: &OwnFolder) -> Vec<MirrorSummary> {
    let mut found: Vec<MirrorSummary> = maps(folder).filter_map(|name| mirror(folder, name)).collect();
    found.sort_by(|one, other| {
        other.present.cmp(&one.present).then_with(|| one.source.locator.cmp(&other.source.locator))
    });
    found
}

/// Times of files come from a clock that is some milliseconds late, or two seconds on old file systems.
const CLOCK_GRAIN: Duration = Duration::from_secs(2);

/// Removes what processes left half made or half removed that were killed before `since`: bytes without a map, maps that
/// never got a name, and what is of no use any more. Others may be making mirrors meanwhile.
pub(super) fn sweep(folder: &OwnFolder, since: SystemTime) {
    let is_old = |path: &Path| folder.facts(path).is_ok_and(|facts| facts.modified() + CLOCK_GRAIN < since);
    for path in files(folder) {
        let Some(name) = MirrorName::of(&path) else {
            if is_outdated(&path) && is_ours(&path) {
                let _ = folder.remove_file(&path);
            }
            continue;
        };
        let is_leftover = ends_in(&path, UNFINISHED)
            || ends_in(&path, BYTES) && !is_mapped(folder, name, &path)
            || ends_in(&path, MAP) && is_damaged(folder, name);
        if is_leftover && is_old(&path) {
            let _ = folder.remove_file(&path);
        }
    }
}

/// False when the map of `name` is that of other bytes than those at `path`, or there is none.
fn is_mapped(folder: &OwnFolder, name: MirrorName, path: &Path) -> bool {
    match folder.open_to_read(name.map()) {
        Ok(map) => match map::read_header(&map) {
            Ok(header) => name.bytes(header.layout.nonce) == path,
            Err(error) => !map::is_no_map(&error),
        },
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// True for a map that can be read and is none.
fn is_damaged(folder: &OwnFolder, name: MirrorName) -> bool {
    let map = folder.open_to_read(name.map());
    map.is_ok_and(|map| map::read_header(&map).is_err_and(|error| map::is_no_map(&error)))
}

/// Bytes that all mirrors take.
pub(super) fn used(folder: &OwnFolder) -> u64 {
    maps(folder).filter_map(|name| mirror(folder, name)).map(|mirror| mirror.present).sum()
}

/// What the files of a mirror say about its use.
#[derive(Debug)]
pub(super) struct RankedMirror {
    source: SourceId,
    placed: u64,
    used: u64,
    uses: u64,
}

impl RankedMirror {
    pub(super) fn facts(&self) -> BlockFacts<'_> {
        BlockFacts {
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

pub(super) fn known(folder: &OwnFolder, name: MirrorName) -> Option<RankedMirror> {
    let map = folder.open_to_read(name.map()).ok()?;
    let map::MapHeader { id: source, layout, .. } = map::read_header(&map).ok()?;
    let placed = clock(folder.facts(name.bytes(layout.nonce)).ok()?.modified());
    let used = clock(FileFacts::of(&map).ok()?.modified());
    Some(RankedMirror { source, placed, used, uses: layout.uses(&map) })
}

pub(super) fn ranked(folder: &OwnFolder) -> Vec<(MirrorName, RankedMirror)> {
    maps(folder).filter_map(|name| Some((name, known(folder, name)?))).collect()
}

/// Counts a use of the mirror called `name`.
pub(super) fn touch(folder: &OwnFolder, name: MirrorName) {
    let Ok(map) = folder.open_existing(name.map()) else { return };
    if let Ok(map::MapHeader { layout, .. }) = map::read_header(&map) {
        // Two processes that count at once may count one: it is a rank, not an account.
        let _ = map.write_all_at(&(layout.uses(&map) + 1).to_le_bytes(), layout.uses_at());
    }
}

/// Removes the mirror called `name`, and gives the bytes it took. The map goes first: bytes without one are not read.
pub(super) fn remove(folder: &OwnFolder, name: MirrorName) -> u64 {
    // `rename`: of several processes that remove it one gets it, and never a mirror made under the same name meanwhile.
    let leaving = name.unfinished(nonce());
    if folder.rename(name.map(), &leaving).is_err() {
        return 0;
    }
    let present = folder.open_to_read(&leaving).map_or(0, |map| remove_bytes(folder, name, &map));
    let _ = folder.remove_file(&leaving);
    present
}

/// Removes the bytes that belong to `map`, and says how many were there.
fn remove_bytes(folder: &OwnFolder, name: MirrorName, map: &File) -> u64 {
    // A map that cannot be read does not say which bytes are its own: the next sweep finds them.
    let Ok(map::MapHeader { blocks, layout, .. }) = map::read_header(map) else { return 0 };
    let _ = folder.remove_file(name.bytes(layout.nonce));
    // Counted after the names are gone: what is put from now on gives back its own.
    layout.present_bytes(map, blocks)
}

fn is_ours(path: &Path) -> bool {
    [MAP, BYTES, UNFINISHED].iter().any(|extension| ends_in(path, extension))
}

/// Removes all that is ours; files of others stay.
pub(super) fn remove_all(folder: &OwnFolder) {
    for path in files(folder) {
        if is_ours(&path) && (MirrorName::of(&path).is_some() || is_outdated(&path)) {
            let _ = folder.remove_file(&path);
        }
    }
    for first in 0..=u8::MAX {
        let _ = folder.remove_folder(format!("{first:02x}"));
    }
}
