//! Numbers for descriptors of a library that the program around it does not know of: the highest free ones within the program's own limit
//! (`RLIMIT_NOFILE`), which it takes last.
//!
//! The limit itself is never touched: children inherit it, and the program may ask for it or set it at any moment. A program that
//! finds no number left gets those of ours ([`give_way`](crate::descriptors::give_way)).

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    sync::OnceLock,
};

use rustix::{
    io::Errno,
    process::{Resource, getrlimit},
};

/// Numbers are below this one as far as possible, whatever the limit is: the kernel keeps 8 bytes for each number up to the highest, and
/// copies them at every fork.
const HIGHEST_NUMBER: u64 = 4096;

/// At most so many descriptors have such numbers, and no more than half of all that the program may have.
const MOST_HIDDEN: u64 = 2048;

/// A program with a limit below this one keeps all its numbers.
const FEW_NUMBERS: u64 = 256;

/// The first part of the numbers that is looked into, from the highest on; the next ones are twice as long each.
const FIRST_PART: u64 = 16;

/// Told of each number that is taken; set in a program that does not know of us.
static TAKEN: OnceLock<fn(RawFd)> = OnceLock::new();

/// From now on the program around us cannot tell that files are kept open here; `taken` is told of each number.
pub(crate) fn hide(taken: fn(RawFd)) {
    let _is_first = TAKEN.set(taken);
}

/// True once [`hide`] was called.
pub(crate) fn are_used() -> bool {
    TAKEN.get().is_some()
}

/// Tells that `file` is ours, under the number that it has.
pub(crate) fn take(file: impl AsFd) {
    if let Some(taken) = TAKEN.get() {
        taken(file.as_fd().as_raw_fd());
    }
}

/// How many descriptors may have such numbers; none where the program has too few for itself.
pub fn hidden_count() -> u64 {
    count_within(limit())
}

fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

fn count_within(limit: u64) -> u64 {
    if limit < FEW_NUMBERS { 0 } else { (limit / 2).min(MOST_HIDDEN) }
}

/// From where on a free number is looked for within `limit`, one place after the other.
fn starts(limit: u64) -> impl Iterator<Item = u64> {
    let (end, count) = (limit.min(HIGHEST_NUMBER), count_within(limit));
    let parts =
        std::iter::successors(Some(FIRST_PART), move |len| (*len < count).then_some((2 * len).min(count)));
    parts.take_while(move |_| count > 0).map(move |len| end - len)
}

/// Another descriptor of the open file, closed on `exec`, under a number that the program does not expect to be its own.
pub fn hidden(file: impl AsFd) -> io::Result<OwnedFd> {
    for start in starts(limit()) {
        let start = RawFd::try_from(start).map_err(|_| Errno::MFILE)?;
        match rustix::io::fcntl_dupfd_cloexec(&file, start) {
            // All of them are in use, or the program has lowered its limit meanwhile.
            Err(Errno::MFILE | Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
            Ok(opened) => {
                take(&opened);
                return Ok(opened);
            }
        }
    }
    Err(Errno::MFILE.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_numbers_within_the_limit_are_looked_for_first_and_a_program_with_few_keeps_all() {
        let starts = |limit| starts(limit).collect::<Vec<_>>();
        assert_eq!(starts(1024), [1008, 992, 960, 896, 768, 512]);
        assert_eq!(starts(300), [284, 268, 236, 172, 150]);
        assert_eq!((starts(u64::MAX)[0], starts(1 << 20).last().copied()), (4080, Some(2048)));
        assert_eq!((starts(255), count_within(255)), (vec![], 0));
    }

    #[test]
    fn a_number_is_taken_within_the_limit_which_stays_as_it_is() {
        let before = getrlimit(Resource::Nofile);
        let file = std::fs::File::open("/dev/null").unwrap();
        let opened = hidden(&file).unwrap();
        let number = u64::try_from(opened.as_raw_fd()).unwrap();
        assert!(
            number >= limit().min(HIGHEST_NUMBER) - count_within(limit()) && number < limit(),
            "{number}"
        );
        assert_eq!(getrlimit(Resource::Nofile), before);
    }
}
