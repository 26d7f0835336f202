//! Owner, mode, access list and extended attributes of a file that takes the place of another.
//!
//! At no moment may more users open the file than may in the end. A file is therefore created for its owner alone, or with what the default
//! access list of its directory gives; then come the owner, the access list and, last, the mode.

use std::{ffi::OsStr, fs::File, io, os::fd::AsFd};

use forebay_process::{Error, Result};
use forebay_scratch::disk;
use rustix::fs::{FileType, Gid, Mode, OFlags, Stat, Uid};

use crate::create::destination::Destination;

/// The most bytes that Linux allows for one extended attribute, and for all of their names.
const MOST_XATTR_BYTES: usize = 64 << 10;
/// The access list of a file.
const ACCESS_LIST: &str = "system.posix_acl_access";
/// What new files in a directory have for an access list.
const DEFAULT_LIST: &str = "system.posix_acl_default";
/// Rights of a program file, which a write to it takes away.
const CAPABILITIES: &str = "security.capability";
/// The mode of a file that only its owner may open.
const PRIVATE: u32 = 0o600;
/// What the kernel clears in the mode of a file that is written to.
const SET_ID_BITS: u32 = 0o6000;
const GROUP_BITS: u32 = 0o070;
/// Tags of the entries of an access list for the group of the file, and for the most that groups and named users may.
const GROUP_ENTRY: u16 = 0x04;
const MASK_ENTRY: u16 = 0x10;

/// The mode that a new file is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NewMode {
    /// As it is given to `open(2)`.
    pub(crate) requested: u32,
    /// What the umask of the process that created the file leaves of it.
    pub(crate) masked: u32,
}

impl NewMode {
    /// The mode of a file that is opened with `0666`, by the umask of this process.
    pub(crate) fn of_process() -> Self {
        Self { requested: 0o666, masked: 0o666 & !umask() }
    }

    /// The mode to create a temporary file in `directory` with, for a file that `is_new` or replaces another.
    pub(crate) fn of_temporary(self, directory: impl AsFd, is_new: bool) -> Result<u32> {
        Ok(if is_new && has_default_list(directory)? { self.requested } else { PRIVATE })
    }
}

/// Returns whether new files in `directory` get their rights from a default access list.
fn has_default_list(directory: impl AsFd) -> Result<bool> {
    let list = disk::xattr(directory, OsStr::new(DEFAULT_LIST), MOST_XATTR_BYTES).map_err(Error::from_io)?;
    Ok(list.is_some())
}

/// The umask of this process; `022` where the kernel does not say.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    umask.and_then(|umask| u32::from_str_radix(umask.trim(), 8).ok()).unwrap_or(0o022)
}

/// Mode, owner and time of change of a regular file, which is later with each change of its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dress {
    file: (u64, u64),
    mode: u32,
    owner: (u32, u32),
    changed: (i64, i128),
}

impl Dress {
    fn of(facts: &Stat) -> Self {
        Self {
            file: (facts.st_dev, facts.st_ino),
            mode: facts.st_mode,
            owner: (facts.st_uid, facts.st_gid),
            changed: (facts.st_ctime, i128::from(facts.st_ctime_nsec)),
        }
    }

    /// Returns the dress of the file at `destination`; nothing where there is no regular file.
    pub(crate) fn at(destination: &Destination) -> Result<Option<Self>> {
        match disk::stat_at(destination.directory(), destination.name()) {
            Ok(facts) => Ok(is_regular(&facts).then(|| Self::of(&facts))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::from_io(error).at(destination.path().display())),
        }
    }
}

fn is_regular(facts: &Stat) -> bool {
    FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile
}

/// Gives `file` what the file at `destination` has of owner, access list, extended attributes and mode, as a file that is written
/// anew keeps them; or the mode of a new file where there is none. Returns what that file looked like before.
pub(crate) fn dress(file: &File, destination: &Destination, mode: NewMode) -> Result<Option<Dress>> {
    let at = |error: io::Error| Error::from_io(error).at(destination.path().display());
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    match disk::open_at(destination.directory(), destination.name(), flags, Mode::empty()) {
        Ok(old) => {
            let facts = disk::stat(&old).map_err(at)?;
            if is_regular(&facts) {
                dress_like(file, &old, &facts).map_err(at)?;
                return Ok(Some(Dress::of(&facts)));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(at(error)),
    }
    dress_as_new(file, destination, mode)?;
    Ok(None)
}

/// Gives `file`, which is for its owner alone or has the mode of a new file already, the mode of a new file.
pub(crate) fn dress_as_new(file: &File, destination: &Destination, mode: NewMode) -> Result<()> {
    // The kernel has combined the default list with the mode when it created the file. A short list is all in the mode: that must
    // not be set again. A file that was created for its owner alone, in place of one that is gone by now, stays so.
    if has_default_list(destination.directory())? {
        return Ok(());
    }
    disk::set_mode(file, Mode::from_bits_truncate(mode.masked)).map_err(Error::from_io)
}

/// Gives `file` the owner, access list, extended attributes and mode of the file `old`, in this order.
fn dress_like(file: &File, old: impl AsFd, facts: &Stat) -> io::Result<()> {
    if disk::stat(file)?.st_mode & 0o7777 != PRIVATE {
        disk::set_mode(file, Mode::from_bits_truncate(PRIVATE))?;
    }
    give_to(file, (facts.st_uid, facts.st_gid))?;
    // The rights of another group are not for ours.
    let is_of_other_group = disk::stat(file)?.st_gid != facts.st_gid;
    let list = copy_attributes(old, file, is_of_other_group)?;
    let mode = facts.st_mode & 0o7777 & !SET_ID_BITS;
    // The group's bits of a file with a list are the most that the list grants, not what the group may.
    let is_narrowed = list == ListCopy::Refused || is_of_other_group;
    let mode = if is_narrowed { mode & !GROUP_BITS } else { mode };
    disk::set_mode(file, Mode::from_bits_truncate(mode))
}

/// Gives `file` to an owner and a group as far as the kernel allows: only root gives files away, the group is kept by its members.
fn give_to(file: &File, (owner, group): (u32, u32)) -> io::Result<()> {
    let own = disk::stat(file)?;
    if (own.st_uid, own.st_gid) == (owner, group) {
        return Ok(());
    }
    let (owner, group) = (Uid::from_raw(owner), Gid::from_raw(group));
    match disk::set_owner(file, Some(owner), Some(group)) {
        Err(error) if is_not_given(&error) => match disk::set_owner(file, None, Some(group)) {
            Err(error) if !is_not_given(&error) => Err(error),
            _ => Ok(()),
        },
        given => given,
    }
}

/// True where this user may not give a file to an owner, or where the owner has no number in this user namespace.
fn is_not_given(error: &io::Error) -> bool {
    [io::ErrorKind::PermissionDenied, io::ErrorKind::InvalidInput].contains(&error.kind())
}

/// What became of an access list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListCopy {
    /// The file has none.
    None,
    Copied,
    /// This user or the file system does not allow it.
    Refused,
}

/// Copies the access list and the extended attributes of `from`; what this user or the file system does not allow is left out, and so
/// are capabilities, which no written file keeps. With `is_of_other_group` the list grants nothing to groups and named users from the
/// first moment on.
fn copy_attributes(from: impl AsFd, to: &File, is_of_other_group: bool) -> io::Result<ListCopy> {
    // Attributes are not read through a descriptor that was opened with `O_PATH`.
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&from.as_fd()));
    let from = std::path::Path::new(&link);
    // The list that the directory gave the new file is not that of the old one.
    match disk::remove_xattr(to, OsStr::new(ACCESS_LIST)) {
        Err(error) if !is_unsupported(&error) => return Err(error),
        _ => {}
    }
    let names = match disk::path_xattr_names(from, MOST_XATTR_BYTES) {
        // No `/proc`.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ListCopy::Refused),
        names => names?,
    };
    let mut list = ListCopy::None;
    for name in names.iter().filter(|name| *name != CAPABILITIES) {
        let copied = match disk::path_xattr(from, name, MOST_XATTR_BYTES) {
            Ok(Some(mut value)) => {
                if name == ACCESS_LIST && is_of_other_group {
                    narrow(&mut value);
                }
                disk::set_xattr(to, name, &value)
            }
            Ok(None) => continue,
            Err(error) => Err(error),
        };
        let is_set = match copied {
            Ok(()) => true,
            Err(error) if is_unsupported(&error) || error.kind() == io::ErrorKind::PermissionDenied => false,
            Err(error) => return Err(error),
        };
        if name == ACCESS_LIST {
            list = if is_set { ListCopy::Copied } else { ListCopy::Refused };
        }
    }
    Ok(list)
}

/// Takes the rights of the group and of the mask out of an access list: a version of four bytes, then tag, rights and user of each entry
/// in two, two and four.
fn narrow(list: &mut [u8]) {
    for entry in list.get_mut(4..).unwrap_or_default().chunks_exact_mut(8) {
        if [GROUP_ENTRY, MASK_ENTRY].contains(&u16::from_le_bytes([entry[0], entry[1]])) {
            entry[2..4].fill(0);
        }
    }
}

/// True where a file system has no such attribute, or none at all.
fn is_unsupported(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::NODATA, Errno::OPNOTSUPP, Errno::INVAL]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
