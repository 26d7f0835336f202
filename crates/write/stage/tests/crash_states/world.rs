//! What a disk may have after a crash, and how such a world is built.
//!
//! What was synced is there. Of what was not, each sector of 512 bytes of a file has one of the contents that it had since the last
//! sync, the length is one of those since then, and each change of a name in a directory is there or not, whatever came before or after
//! it.

use std::{
    collections::{BTreeMap, HashMap, hash_map::DefaultHasher},
    ffi::{OsStr, OsString},
    fs,
    hash::{Hash, Hasher},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
};

use rustix::fs::{CWD, Mode, OFlags, Timespec, Timestamps};

use crate::record::{Change, Inode, Kind, Original, inode_at};

const SECTOR: usize = 512;

/// A file, a directory or a link.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    File { bytes: Vec<u8>, mode: u32, modified_ns: i128 },
    Directory { names: BTreeMap<OsString, Inode>, mode: u32 },
    Link(Vec<u8>),
}

/// All that a disk has.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) root: Inode,
    pub(crate) nodes: HashMap<Inode, Node>,
}

/// What may or may not have reached the disk.
#[derive(Clone, Debug)]
enum Choice {
    /// One of the contents of a sector.
    Sector { inode: Inode, sector: usize, contents: Vec<Vec<u8>> },
    /// One of the lengths of a file.
    Len { inode: Inode, lens: Vec<usize> },
    /// One of the modes of a file.
    Mode { inode: Inode, modes: Vec<u32> },
    /// A change of a name, or not.
    Name { change: Change },
}

impl Choice {
    fn count(&self) -> usize {
        match self {
            Self::Sector { contents, .. } => contents.len(),
            Self::Len { lens, .. } => lens.len(),
            Self::Mode { modes, .. } => modes.len(),
            Self::Name { .. } => 2,
        }
    }
}

/// A disk at the moment of a crash: what is there for sure, and what may be.
#[derive(Debug)]
pub(crate) struct Crash {
    synced: Disk,
    choices: Vec<Choice>,
    /// The last times of modification of files that have choices.
    modified: HashMap<Inode, i128>,
}

/// How many states of a crash are built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Crashes with at most so many states are built in all of them.
    pub(crate) exhaustive: usize,
    /// Of others, so many random ones beside the regular ones.
    pub(crate) sampled: usize,
    /// Calls of a program that fail before a kill.
    pub(crate) failed_runs: usize,
    /// Kills behind each of them.
    pub(crate) kills: usize,
}

impl Disk {
    /// The disk below `root`.
    pub(crate) fn read(root: &Path) -> Self {
        let mut disk = Self { root: inode_at(root), nodes: HashMap::new() };
        disk.add(root);
        disk
    }

    fn add(&mut self, path: &Path) {
        let stat = rustix::fs::lstat(path).unwrap();
        let modified_ns = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
        let mode = stat.st_mode & 0o7777;
        let kind = fs::symlink_metadata(path).unwrap().file_type();
        let node = if kind.is_dir() {
            let mut names = BTreeMap::new();
            for entry in fs::read_dir(path).unwrap() {
                let entry = entry.unwrap();
                names.insert(entry.file_name(), inode_at(&entry.path()));
                self.add(&entry.path());
            }
            Node::Directory { names, mode }
        } else if kind.is_symlink() {
            Node::Link(fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec())
        } else {
            Node::File { bytes: fs::read(path).unwrap(), mode, modified_ns }
        };
        self.nodes.insert(stat.st_ino, node);
    }

    /// Makes a change.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { inode, kind, mode, modified_ns, .. } => {
                self.nodes.insert(*inode, new_node(kind, *mode, *modified_ns));
                self.apply_name(change);
            }
            Change::Write { inode, offset, bytes, modified_ns } => {
                if let Some(Node::File { bytes: file, modified_ns: modified, .. }) = self.nodes.get_mut(inode)
                {
                    write(file, *offset, bytes);
                    *modified = *modified_ns;
                }
            }
            Change::SetLen { inode, len, modified_ns } => {
                if let Some(Node::File { bytes, modified_ns: modified, .. }) = self.nodes.get_mut(inode) {
                    bytes.resize(usize::try_from(*len).unwrap(), 0);
                    *modified = *modified_ns;
                }
            }
            Change::SetMode { inode, mode: new } => {
                if let Some(Node::File { mode, .. }) = self.nodes.get_mut(inode) {
                    *mode = *new;
                }
            }
            Change::Rename { .. } | Change::Unlink { .. } => self.apply_name(change),
            Change::Sync { .. } | Change::SyncAll => {}
        }
    }

    fn apply_name(&mut self, change: &Change) {
        let (Change::Create { directory, .. }
        | Change::Rename { directory, .. }
        | Change::Unlink { directory, .. }) = change
        else {
            return;
        };
        let Some(Node::Directory { names, .. }) = self.nodes.get_mut(directory) else { return };
        match change {
            Change::Create { name, inode, .. } => {
                names.insert(name.clone(), *inode);
            }
            Change::Rename { from, to, inode, .. } => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(to.clone(), *inode);
            }
            Change::Unlink { name, inode, .. } if names.get(name) == Some(inode) => {
                names.remove(name);
            }
            _ => {}
        }
    }

    /// A number that is the same for disks that are the same.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash_node(self.root, &mut hasher);
        hasher.finish()
    }

    fn hash_node(&self, inode: Inode, hasher: &mut DefaultHasher) {
        match &self.nodes[&inode] {
            Node::File { bytes, mode, modified_ns } => (inode, bytes, mode, modified_ns).hash(hasher),
            Node::Link(target) => target.hash(hasher),
            Node::Directory { names, .. } => {
                names.len().hash(hasher);
                for (name, inode) in names {
                    name.hash(hasher);
                    self.hash_node(*inode, hasher);
                }
            }
        }
    }

    /// Builds the disk below `root`, in place of what is there; gives what the new files stand for.
    pub(crate) fn build(&self, root: &Path, births: &HashMap<Inode, u64>) -> HashMap<Inode, Original> {
        if root.exists() {
            fs::remove_dir_all(root).unwrap();
        }
        let mut originals = HashMap::new();
        self.build_node(self.root, root, births, &mut originals);
        originals
    }

    fn build_node(
        &self,
        inode: Inode,
        path: &Path,
        births: &HashMap<Inode, u64>,
        originals: &mut HashMap<Inode, Original>,
    ) {
        match &self.nodes[&inode] {
            Node::Directory { names, mode } => {
                fs::create_dir(path).unwrap();
                fs::set_permissions(path, fs::Permissions::from_mode(*mode)).unwrap();
                for (name, inode) in names {
                    self.build_node(*inode, &path.join(name), births, originals);
                }
            }
            Node::Link(target) => std::os::unix::fs::symlink(OsStr::from_bytes(target), path).unwrap(),
            Node::File { bytes, mode, modified_ns } => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let file = rustix::fs::openat(CWD, path, flags, Mode::from_bits_truncate(0o600)).unwrap();
                rustix::io::write(&file, bytes).unwrap();
                rustix::fs::fchmod(&file, Mode::from_bits_truncate(*mode)).unwrap();
                let time = Timespec {
                    tv_sec: i64::try_from(modified_ns / 1_000_000_000).unwrap(),
                    tv_nsec: i64::try_from(modified_ns % 1_000_000_000).unwrap(),
                };
                rustix::fs::futimens(&file, &Timestamps { last_access: time, last_modification: time })
                    .unwrap();
            }
        }
        let born_ns = births.get(&inode).copied().unwrap_or(0);
        originals.insert(inode_at(path), Original { inode, born_ns });
    }
}

fn new_node(kind: &Kind, mode: u32, modified_ns: i128) -> Node {
    match kind {
        Kind::File => Node::File { bytes: Vec::new(), mode, modified_ns },
        Kind::Directory => Node::Directory { names: BTreeMap::new(), mode },
        Kind::Link(target) => Node::Link(target.clone()),
    }
}

fn write(file: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let (start, end) = (usize::try_from(offset).unwrap(), usize::try_from(offset).unwrap() + bytes.len());
    if file.len() < end {
        file.resize(end, 0);
    }
    file[start..end].copy_from_slice(bytes);
}

impl Crash {
    /// A crash after `changes` of `before`, which was all synced.
    pub(crate) fn after(before: &Disk, changes: &[Change]) -> Self {
        let (mut synced, mut choices, mut modified) = (before.clone(), Vec::new(), HashMap::new());
        // A file exists from its creation on; whether a name leads to it is another matter.
        for change in changes {
            if let Change::Create { inode, kind, mode, modified_ns, .. } = change {
                synced.nodes.insert(*inode, new_node(kind, *mode, *modified_ns));
            }
        }
        let last_sync = |wanted: Inode| {
            changes.iter().rposition(|change| match change {
                Change::Sync { inode } => *inode == wanted,
                Change::SyncAll => true,
                _ => false,
            })
        };
        let mut touched: Vec<Inode> = Vec::new();
        let mut small: Vec<Inode> = Vec::new();
        for (index, change) in changes.iter().enumerate() {
            match change {
                Change::Create { directory, name, inode, .. } => {
                    if [OsStr::new("usage"), OsStr::new("alive")].contains(&name.as_os_str()) {
                        small.push(*inode);
                    }
                    name_change(&mut synced, &mut choices, change, last_sync(*directory) > Some(index));
                }
                Change::Rename { directory, .. } | Change::Unlink { directory, .. } => {
                    name_change(&mut synced, &mut choices, change, last_sync(*directory) > Some(index));
                }
                Change::Write { inode, .. }
                | Change::SetLen { inode, .. }
                | Change::SetMode { inode, .. } => {
                    if last_sync(*inode) > Some(index) {
                        synced.apply(change);
                    } else if !touched.contains(inode) {
                        touched.push(*inode);
                    }
                }
                Change::Sync { .. } | Change::SyncAll => {}
            }
        }
        for inode in touched {
            let since = last_sync(inode).map_or(0, |index| index + 1);
            file_choices(
                &synced,
                inode,
                &changes[since..],
                small.contains(&inode),
                &mut choices,
                &mut modified,
            );
        }
        Self { synced, choices, modified }
    }

    /// How many states there are.
    pub(crate) fn count(&self) -> usize {
        self.choices.iter().fold(1_usize, |count, choice| count.saturating_mul(choice.count()))
    }

    /// The states to look at: all of them, or the regular ones and a sample.
    pub(crate) fn states(&self, limits: Limits, seed: u64) -> Vec<Disk> {
        let counts: Vec<usize> = self.choices.iter().map(Choice::count).collect();
        if self.count() <= limits.exhaustive {
            let mut all = Vec::new();
            let mut picks = vec![0; counts.len()];
            loop {
                all.push(self.state(&picks));
                let Some(next) = (0..picks.len()).find(|index| picks[*index] + 1 < counts[*index]) else {
                    return all;
                };
                picks[next] += 1;
                picks[..next].fill(0);
            }
        }
        let (none, all): (Vec<usize>, Vec<usize>) =
            (vec![0; counts.len()], counts.iter().map(|count| count - 1).collect());
        let mut picks = vec![none.clone(), all.clone()];
        for index in 0..counts.len() {
            for (base, pick) in [(&none, all[index]), (&all, 0)] {
                let mut one = base.clone();
                one[index] = pick;
                picks.push(one);
            }
            // All up to here, and all from here on.
            let split = |first: &[usize], second: &[usize]| [&first[..index], &second[index..]].concat();
            picks.extend([split(&all, &none), split(&none, &all)]);
        }
        let mut state = seed | 1;
        let mut below = |most: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % most
        };
        picks.extend((0..limits.sampled).map(|_| counts.iter().map(|count| below(*count)).collect()));
        picks.iter().map(|picks| self.state(picks)).collect()
    }

    /// The states in which nothing that was not synced is there, and in which all of it is.
    pub(crate) fn extremes(&self) -> Vec<Disk> {
        let last: Vec<usize> = self.choices.iter().map(|choice| choice.count() - 1).collect();
        vec![self.state(&vec![0; last.len()]), self.state(&last)]
    }

    fn state(&self, picks: &[usize]) -> Disk {
        let mut disk = self.synced.clone();
        let mut lens: HashMap<Inode, usize> = HashMap::new();
        for (choice, pick) in self.choices.iter().zip(picks) {
            match choice {
                Choice::Name { change } if *pick == 1 => disk.apply_name(change),
                Choice::Name { .. } => {}
                Choice::Mode { inode, modes } => {
                    if let Some(Node::File { mode, .. }) = disk.nodes.get_mut(inode) {
                        *mode = modes[*pick];
                    }
                }
                Choice::Len { inode, lens: all } => {
                    lens.insert(*inode, all[*pick]);
                    self.touch(&mut disk, *inode, *pick);
                }
                Choice::Sector { inode, sector, contents } => {
                    if let Some(Node::File { bytes, .. }) = disk.nodes.get_mut(inode) {
                        write(bytes, (sector * SECTOR) as u64, &contents[*pick]);
                    }
                    self.touch(&mut disk, *inode, *pick);
                }
            }
        }
        for (inode, len) in lens {
            if let Some(Node::File { bytes, .. }) = disk.nodes.get_mut(&inode) {
                bytes.resize(len, 0);
            }
        }
        disk
    }

    fn touch(&self, disk: &mut Disk, inode: Inode, pick: usize) {
        if let (Some(Node::File { modified_ns, .. }), true) = (disk.nodes.get_mut(&inode), pick > 0) {
            *modified_ns = self.modified[&inode];
        }
    }
}

fn name_change(synced: &mut Disk, choices: &mut Vec<Choice>, change: &Change, is_synced: bool) {
    if is_synced {
        synced.apply_name(change);
    } else {
        choices.push(Choice::Name { change: change.clone() });
    }
}

/// What may be on the disk of a file that was changed by `changes` since it was synced.
fn file_choices(
    synced: &Disk,
    wanted: Inode,
    changes: &[Change],
    is_small: bool,
    choices: &mut Vec<Choice>,
    modified: &mut HashMap<Inode, i128>,
) {
    let Some(Node::File { bytes, mode, modified_ns }) = synced.nodes.get(&wanted) else { return };
    let (mut versions, mut modes, mut last) = (vec![bytes.clone()], vec![*mode], *modified_ns);
    for change in changes {
        match change {
            Change::Write { inode, offset, bytes, modified_ns } if *inode == wanted => {
                let mut next = versions.last().unwrap().clone();
                write(&mut next, *offset, bytes);
                versions.push(next);
                last = *modified_ns;
            }
            Change::SetLen { inode, len, modified_ns } if *inode == wanted => {
                let mut next = versions.last().unwrap().clone();
                next.resize(usize::try_from(*len).unwrap(), 0);
                versions.push(next);
                last = *modified_ns;
            }
            Change::SetMode { inode, mode } if *inode == wanted => modes.push(*mode),
            _ => {}
        }
    }
    modified.insert(wanted, last);
    if is_small {
        // A number that nobody compares: the first and the last tell enough.
        versions = vec![versions[0].clone(), versions.last().unwrap().clone()];
    }
    let most = versions.iter().map(Vec::len).max().unwrap_or(0);
    let mut lens: Vec<usize> = Vec::new();
    for version in &versions {
        if !lens.contains(&version.len()) {
            lens.push(version.len());
        }
    }
    if lens.len() > 1 {
        choices.push(Choice::Len { inode: wanted, lens });
    }
    for sector in 0..most.div_ceil(SECTOR) {
        let mut contents: Vec<Vec<u8>> = Vec::new();
        for version in &versions {
            let end = ((sector + 1) * SECTOR).min(most);
            let mut content =
                version.get(sector * SECTOR..version.len().min(end)).unwrap_or_default().to_vec();
            content.resize(end - sector * SECTOR, 0);
            if !contents.contains(&content) {
                contents.push(content);
            }
        }
        if contents.len() > 1 {
            choices.push(Choice::Sector { inode: wanted, sector, contents });
        }
    }
    modes.dedup();
    if modes.len() > 1 {
        choices.push(Choice::Mode { inode: wanted, modes });
    }
}
