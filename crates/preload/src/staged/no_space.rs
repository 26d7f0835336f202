//! A staging area that is full while a file is written: other files leave it, or the file itself goes to its destination.

use std::{
    fs::{self, File, Metadata},
    io,
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use forebay_source::descriptors;
use forebay_stage::{FolderKey, NameState, ProgramImage};
use rustix::fs::{Mode, OFlags};

use super::{run_staging::staging, settle::settle, write_guard::MoverGuard};
use crate::{inside, kernel, own_writes, prefix, writers};

/// Bytes that are copied at once.
const PART_BYTES: usize = 1 << 20;

/// How often it is counted who has an image open: the launcher has it open for a moment while it looks at it.
const LOOKS_FOR_OTHERS: u32 = 4;

/// The image that `fd` is open on.
fn image_of(fd: RawFd) -> Option<PathBuf> {
    kernel::path_of(fd).filter(|path| staging().is_some_and(|staging| path.parent() == Some(&staging.folder)))
}

/// Waits until other files have left the area; false where `fd` is no staged file.
pub(super) fn wait_for_others(fd: RawFd) -> bool {
    let others = inside::run(|| {
        let image = image_of(fd)?;
        let all = staging()?.names.all().into_iter().map(|(_, named)| named.image);
        Some(all.filter(|other| *other != image).collect())
    });
    let Some(others) = others else { return false };
    settle(others);
    true
}

/// Has `fd` be open on the destination, with the bytes of the image; nothing where others have the image open.
///
/// Names are not locked while bytes are copied: a mark has others leave this one alone. Until the end the image is the file: a program that is killed
/// meanwhile, or a copy that fails, loses nothing.
pub(super) fn move_to_destination(fd: RawFd) -> Option<()> {
    let staging = staging()?;
    let path = image_of(fd)?;
    let image = ProgramImage::at(&path)?;
    let _moving = MoverGuard::begin()?;
    let lock = staging.names.lock().ok()?;
    let (destination, _) = descriptors::briefly(|| image.status())?;
    let (key, name) = (FolderKey::at(destination.parent()?).ok()?, destination.file_name()?);
    let is_free = || {
        let named = |state| staging.names.image(state, key, name);
        let is_newest = named(NameState::Open).as_ref() == Some(&path) && named(NameState::Sealed).is_none();
        is_newest && !is_mapped(&path) && !is_locked(&path) && is_alone(&path)
    };
    if !is_free() {
        return None;
    }
    let _mark = staging.names.mark_moving(image.id()).ok()?;
    drop(lock);
    let copied = CopiedImage::new(fd, &image, &destination).ok()?;
    let _lock = staging.names.lock().ok()?;
    if !is_free() || !copied.is_whole(&path) {
        return None;
    }
    copied.lay_over(fd, &destination).ok()?;
    staging.names.remove_name(NameState::Open, key, name, &path);
    image.discard();
    if prefix::covers(&destination)
        && let Some(identity) = kernel::current_identity(fd)
    {
        writers::add(fd, &identity);
        own_writes::written(&identity, kernel::link_of(fd).as_str());
    }
    Some(())
}

/// The bytes of an image at their destination, open as a descriptor of the program is.
struct CopiedImage {
    copy: File,
    image: Metadata,
}

impl CopiedImage {
    /// Those of `image`, on which the program has `fd` open.
    fn new(fd: RawFd, image: &ProgramImage, destination: &Path) -> io::Result<Self> {
        let from = File::open(image.path())?;
        let facts = from.metadata()?;
        // Opened once, for as long as it is needed: by its own mode the program may not be allowed to open it again.
        let access = kernel::open_flags(fd).ok_or_else(io::Error::last_os_error)? & OFlags::ACCMODE;
        let flags = access | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let to = File::from(rustix::fs::open(destination, flags, Mode::RUSR | Mode::WUSR)?);
        let mut part = vec![0; PART_BYTES];
        let mut at = 0;
        while at < facts.size() {
            let len = from.read_at(&mut part, at)?;
            if len == 0 {
                break;
            }
            // A part of zeros is a hole.
            if part[..len].iter().any(|byte| *byte != 0) {
                to.write_all_at(&part[..len], at)?;
            }
            at += len as u64;
        }
        to.set_len(facts.size())?;
        descriptors::briefly(|| image.dress(&from, &to)).map_err(io::Error::other)?;
        Ok(Self { copy: to, image: facts })
    }

    /// Whether the image is as it was when it was copied, as far as can be seen: one may be cut by its number.
    fn is_whole(&self, image: &Path) -> bool {
        let of =
            |facts: &Metadata| (facts.ino(), facts.size(), facts.mode(), facts.mtime(), facts.mtime_nsec());
        fs::metadata(image).is_ok_and(|now| of(&now) == of(&self.image))
    }

    /// Has `fd` be open on the copy, which is at `destination`.
    fn lay_over(&self, fd: RawFd, destination: &Path) -> io::Result<()> {
        let is_there = |facts: Metadata| -> io::Result<bool> {
            let copy = self.copy.metadata()?;
            Ok((facts.dev(), facts.ino()) == (copy.dev(), copy.ino()))
        };
        if !is_there(fs::metadata(destination)?)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        let flags = kernel::open_flags(fd).ok_or_else(io::Error::last_os_error)?;
        rustix::fs::fcntl_setfl(&self.copy, flags)?;
        kernel::set_position(self.copy.as_raw_fd(), kernel::position(fd).unwrap_or(0));
        if kernel::lay_over(self.copy.as_raw_fd(), fd) { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Whether somebody holds a lock on the file, which stays with the image.
fn is_locked(image: &Path) -> bool {
    let Ok(facts) = fs::metadata(image) else { return true };
    let inode = format!(":{}", facts.ino());
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let is_of_image = |line: &str| line.split_whitespace().any(|word| word.ends_with(&inode));
    // A lease is how the launcher looks for writers.
    locks.lines().any(|line| !line.contains(" LEASE ") && is_of_image(line))
}

/// Whether this process has the file mapped: a map stays with the image.
fn is_mapped(image: &Path) -> bool {
    let maps = fs::read("/proc/self/maps").unwrap_or_default();
    let name = image.file_name().map(std::ffi::OsStr::as_encoded_bytes).unwrap_or_default();
    maps.windows(name.len().max(1)).any(|window| window == name)
}

/// Whether one descriptor is all that is open on the file.
fn is_alone(image: &Path) -> bool {
    (0..LOOKS_FOR_OTHERS).any(|look| {
        thread::sleep(Duration::from_millis(2) * look);
        holders(image) == 1
    })
}

/// Descriptors that processes of this user have open on the file.
fn holders(image: &Path) -> usize {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter(|entry| {
        entry.file_name().to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let descriptors =
        numbers.flat_map(|entry| fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten());
    descriptors.filter(|entry| fs::read_link(entry.path()).is_ok_and(|path| path == image)).count()
}
