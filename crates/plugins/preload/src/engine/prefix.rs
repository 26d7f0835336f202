//! Whether a path may lie under the origin's prefix: a comparison of names that asks nobody.
//!
//! A path that may is opened first, and the kernel then says where it really led. A link that lies elsewhere and leads here is not
//! followed by this comparison: such a file is read as if this library were not there.
//!
//! Nothing here allocates: the first file of a process may be opened by its allocator.

#![expect(unsafe_code, reason = "asks the C library for variables and folders without allocating")]

use std::{
    ffi::{CStr, c_char},
    io::Write,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
};

use forebay_process::descriptors::stay_unseen;
use rustix::fs::FileType;

use crate::{
    engine::{inside, own_numbers},
    system::{
        kernel,
        path_text::{PATH_BYTES, PathText},
    },
};

/// The prefix as it is given, and with links resolved.
#[derive(Debug)]
struct OriginPrefix {
    given: PathText,
    real: PathText,
}

/// A path is cut here where people are told of it.
const LINE_PATH_BYTES: usize = 400;

static PREFIX: OnceLock<Option<OriginPrefix>> = OnceLock::new();

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
/// Whether anything is managed in this process.
static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);

const UNRELATED: u8 = 1;
const RELATED: u8 = 2;
/// How the working directory lies to the prefix.
static WORKING_FOLDER: AtomicU8 = AtomicU8::new(UNKNOWN);

/// True when the file that `path` leads to may lie under the prefix.
#[inline]
pub(crate) fn may_cover(path: &CStr) -> bool {
    match MODE.load(Relaxed) {
        OFF => false,
        ON => looks_covered(path.to_bytes()),
        _ => begin() && looks_covered(path.to_bytes()),
    }
}

/// The same for a path relative to an open folder other than the working directory.
#[inline]
pub(crate) fn may_cover_below_folder(path: &CStr) -> bool {
    match MODE.load(Relaxed) {
        OFF => false,
        mode => (mode == ON || begin()) && (!path.to_bytes().starts_with(b"/") || may_cover(path)),
    }
}

/// True when `path`, which has no links in it, lies under the prefix.
pub(crate) fn covers(path: &Path) -> bool {
    let Some(Some(prefix)) = PREFIX.get() else { return false };
    starts_with(path.as_os_str().as_bytes(), prefix.real.get())
}

/// True where there is a prefix.
pub(crate) fn is_on() -> bool {
    match MODE.load(Relaxed) {
        UNKNOWN => begin(),
        mode => mode == ON,
    }
}

/// Nothing is managed in this process from now on.
pub(crate) fn switch_off() {
    MODE.store(OFF, Relaxed);
}

/// The working directory is another by now.
pub(crate) fn forget_working_folder() {
    WORKING_FOLDER.store(UNKNOWN, Relaxed);
}

/// Reads the prefix from the environment, once that is there; true where there is one. Called before this library is started, by one that
/// is started earlier and opens files.
#[cold]
fn begin() -> bool {
    has_environment() && look()
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// False before the C library has the variables: a function of a program may run before those of all libraries (`.preinit_array`).
fn has_environment() -> bool {
    // SAFETY: the C library sets the address before a program has a second thread; what it leads to is not read.
    unsafe { !environ.is_null() }
}

fn look() -> bool {
    let found = inside::run(|| {
        if PREFIX.get().is_none() {
            // Found before it is set: a child that is forked meanwhile waits for no thread of its parent.
            let _is_first = PREFIX.set(from_environment());
        }
        let prefix = PREFIX.get()?;
        if prefix.is_some() {
            inside::begin_process();
            // Before anything of ours looks at the limit of open files.
            stay_unseen(own_numbers::take);
        }
        MODE.store(if prefix.is_some() { ON } else { OFF }, Relaxed);
        Some(prefix.is_some())
    });
    found.unwrap_or(false)
}

/// Looks while the process has one thread: another may set a variable later, and what the C library gives is not there then. A child that
/// is forked while another thread notes the process would wait for ever for what that thread began, as the C library holds forks and
/// their handlers apart by a lock.
extern "C" fn at_load() {
    look();
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

fn from_environment() -> Option<OriginPrefix> {
    // SAFETY: the name ends with a zero byte.
    let variable = unsafe { libc::getenv(c"FOREBAY_ORIGIN".as_ptr()) };
    if variable.is_null() {
        return None;
    }
    // SAFETY: variables are texts that end with a zero byte; it is copied at once.
    let value = unsafe { CStr::from_ptr(variable) }.to_bytes();
    let given = PathText::of_setting(value).filter(|given| given.get().starts_with(b"/"));
    let Some(given) = given else {
        say_wrong(value, "is not an absolute path");
        return None;
    };
    // SAFETY: the text ends with a zero byte, and there is room for the longest path.
    let real = PathText::written(|into| unsafe { libc::realpath(given.as_c().as_ptr(), into) });
    let is_folder = |path: &PathText| {
        let facts = rustix::fs::stat(path.as_c()).ok();
        // One that may not be asked for is no reason to complain.
        facts.is_none_or(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::Directory)
    };
    match &real {
        None => say_wrong(value, "there is no such folder"),
        Some(real) if !is_folder(real) => say_wrong(value, "is not a folder"),
        Some(_) => {}
    }
    Some(OriginPrefix { given, real: real.unwrap_or(given) })
}

/// Says what is wrong with the prefix, in one write; nothing where `forebay run` has looked at it, which a child may see from another root.
fn say_wrong(value: &[u8], why: &str) {
    // SAFETY: the name ends with a zero byte; nothing but whether there is one is asked.
    if !unsafe { libc::getenv(c"FOREBAY_RUN".as_ptr()) }.is_null() {
        return;
    }
    let mut line = [0; 2 * LINE_PATH_BYTES];
    let mut rest = &mut line[..];
    let parts =
        [b"forebay: FOREBAY_ORIGIN '", &value[..value.len().min(LINE_PATH_BYTES)], b"': ", why.as_bytes()];
    let is_written = parts.iter().all(|part| rest.write_all(part).is_ok())
        && rest.write_all(b"; files are read without tiers\n").is_ok();
    let left = rest.len();
    if is_written {
        let len = line.len() - left;
        let _closed = kernel::write(libc::STDERR_FILENO, &line[..len]);
    }
}

fn looks_covered(path: &[u8]) -> bool {
    let Some(Some(prefix)) = PREFIX.get() else { return false };
    if path.first() == Some(&b'/') {
        let (given, real) = (prefix.given.get(), prefix.real.get());
        return may_lie_under(path, given) || given != real && may_lie_under(path, real);
    }
    let mut relation = WORKING_FOLDER.load(Relaxed);
    if relation == UNKNOWN {
        relation = ask_working_folder(prefix);
    }
    relation == RELATED || has_parents(path)
}

/// How the working directory lies to the prefix: a relative path reaches it from above, from within, or not at all.
#[cold]
fn ask_working_folder(prefix: &OriginPrefix) -> u8 {
    // SAFETY: there is as much room as is said.
    let folder = PathText::written(|into| unsafe { libc::getcwd(into, PATH_BYTES) });
    let Some(folder) = folder else { return RELATED };
    let (folder, prefix) = (folder.get(), prefix.real.get());
    let is_related = starts_with(folder, prefix) || starts_with(prefix, folder);
    let relation = if is_related { RELATED } else { UNRELATED };
    WORKING_FOLDER.store(relation, Relaxed);
    relation
}

/// True when `path` is `folder` or lies in it; both are written without detours.
fn starts_with(path: &[u8], folder: &[u8]) -> bool {
    folder == b"/" || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// True when a part of `path` is `..`.
fn has_parents(path: &[u8]) -> bool {
    let mut from = 0;
    while let Some(at) = find_byte(&path[from..], b'.') {
        let at = from + at;
        let ends = path.get(at + 2).is_none_or(|next| *next == b'/');
        if path.get(at + 1) == Some(&b'.') && ends && (at == 0 || path[at - 1] == b'/') {
            return true;
        }
        from = at + 1;
    }
    false
}

/// Where `byte` first is in `text`. By the C library's own search: every file that the program opens is looked at.
fn find_byte(text: &[u8], byte: u8) -> Option<usize> {
    // SAFETY: the call reads no more than the bytes of `text`.
    let found = unsafe { libc::memchr(text.as_ptr().cast(), byte.into(), text.len()) };
    if found.is_null() { None } else { Some(found.addr() - text.as_ptr().addr()) }
}

/// How many bytes both begin with, eight at a time as far as that goes.
fn same_bytes(one: &[u8], other: &[u8]) -> usize {
    let words = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    let from = 8 * words.take_while(|(one, other)| one == other).count();
    from + one[from..].iter().zip(&other[from..]).take_while(|(one, other)| one == other).count()
}

/// True when the absolute `path` lies under `prefix`, or may do so by a detour. Most paths differ from the prefix in a letter, and
/// then only a `..` could lead back.
fn may_lie_under(path: &[u8], prefix: &[u8]) -> bool {
    let same = same_bytes(path, prefix);
    match path.get(same) {
        next if same == prefix.len() => next.is_none_or(|next| *next == b'/') || has_parents(&path[same..]),
        None => false,
        Some(b'/' | b'.') => climbs_or_lies_under(path, prefix),
        Some(_) => has_parents(&path[same..]),
    }
}

/// True when the absolute `path`, with repeated slashes and `.` left out, lies under `prefix`, or may do so by a `..`.
fn climbs_or_lies_under(path: &[u8], prefix: &[u8]) -> bool {
    let (mut rest, mut wanted) = (path, prefix);
    loop {
        rest = skip_slashes(rest);
        wanted = skip_slashes(wanted);
        if wanted.is_empty() {
            return true;
        }
        if let [b'.', after @ ..] = rest
            && after.first().is_none_or(|next| *next == b'/')
        {
            rest = after;
            continue;
        }
        let len = wanted.iter().position(|byte| *byte == b'/').unwrap_or(wanted.len());
        let (name, after) = wanted.split_at(len);
        match rest.strip_prefix(name) {
            Some(left) if left.first().is_none_or(|next| *next == b'/') => (rest, wanted) = (left, after),
            _ => return has_parents(rest),
        }
    }
}

fn skip_slashes(mut path: &[u8]) -> &[u8] {
    while let [b'/', rest @ ..] = path {
        path = rest;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_compared_by_whole_names_whatever_slashes_and_dots_it_has() {
        let may = |path: &str| may_lie_under(path.as_bytes(), b"/pfs/set");
        for path in ["/pfs/set", "/pfs/set/a", "//pfs///set//a", "/./pfs/./set/./a", "/pfs/set/../x"] {
            assert!(may(path), "{path}");
        }
        for path in ["/", "/pfs", "/pfs/sets", "/pfs/se", "/pf/set", "/pfs/.set/a", "/x/pfs/set"] {
            assert!(!may(path), "{path}");
        }
        assert!(may("/x/../pfs/set/a"), "the kernel says where it leads");
    }

    #[test]
    fn folders_above_and_below_each_other_are_told_from_neighbours() {
        assert!(starts_with(b"/a/b", b"/a") && starts_with(b"/a", b"/a") && starts_with(b"/a", b"/"));
        assert!(!starts_with(b"/ab", b"/a") && !starts_with(b"/", b"/a"));
        assert!(has_parents(b"../x") && has_parents(b"x/..") && !has_parents(b"x..y/..z"));
    }
}
