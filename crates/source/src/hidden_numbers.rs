//! Numbers for descriptors of a library that the program around it does not know of: above the program's own limit (`RLIMIT_NOFILE`) where
//! the hard limit allows it, so that the program may open as many files as without us and finds none of its numbers taken.
//!
//! The kernel looks at the limit when a number is given and at no other time: it is raised for one call.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    sync::{Mutex, OnceLock, PoisonError},
};

use rustix::{
    io::Errno,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::process::PerProcess;

/// Limits up to this are those of programs that may come near them; numbers above cost the kernel a table of 64 KiB at most.
const MOST_LIFTED: u64 = 4096;

/// How many numbers above the limit are used, and how few are not worth it.
const NUMBERS_ABOVE: u64 = 2048;
const FEW_NUMBERS: u64 = 128;

/// Where there is nothing above the limit, numbers below it are used from here on, unless the program is left with fewer.
const NUMBERS_BELOW: u64 = 1024;

/// Told of each number that is taken; set in a program that does not know of us.
static TAKEN: OnceLock<fn(RawFd)> = OnceLock::new();
/// One thread at a time changes the limit.
static LIMIT: PerProcess<Mutex<()>> = PerProcess::empty();

/// Where numbers are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberRange {
    /// From the soft limit on, by a limit that is raised for a moment.
    Above { soft: u64, raised: u64 },
    /// Within the limit, from this number on.
    Within(u64),
}

/// From now on the program around us cannot tell that files are kept open here; `taken` is told of each number.
pub(crate) fn hide(taken: fn(RawFd)) {
    let _is_first = TAKEN.set(taken);
}

/// True once [`hide`] was called.
pub(crate) fn are_used() -> bool {
    TAKEN.get().is_some()
}

/// How many descriptors may have such numbers; none where the program has too few for itself.
pub fn hidden_count() -> u64 {
    match range(getrlimit(Resource::Nofile)) {
        None => 0,
        Some(NumberRange::Above { soft, raised }) => raised - soft,
        Some(NumberRange::Within(_)) => NUMBERS_ABOVE,
    }
}

fn range(Rlimit { current, maximum }: Rlimit) -> Option<NumberRange> {
    let soft = current.unwrap_or(u64::MAX);
    let raised = maximum.unwrap_or(u64::MAX).min(soft.saturating_add(NUMBERS_ABOVE));
    if soft <= MOST_LIFTED && raised - soft >= FEW_NUMBERS {
        return Some(NumberRange::Above { soft, raised });
    }
    (soft >= NUMBERS_BELOW + NUMBERS_ABOVE).then_some(NumberRange::Within(NUMBERS_BELOW))
}

/// Another descriptor of the open file, closed on `exec`, under a number that the program does not expect to be its own.
pub fn hidden(file: impl AsFd) -> io::Result<OwnedFd> {
    let number = |from: u64| RawFd::try_from(from).map_err(|_| Errno::MFILE);
    let limit = LIMIT.get(Mutex::default);
    let _alone = limit.lock().unwrap_or_else(PoisonError::into_inner);
    let before = getrlimit(Resource::Nofile);
    let opened = match range(before).ok_or(Errno::MFILE)? {
        NumberRange::Within(from) => rustix::io::fcntl_dupfd_cloexec(&file, number(from)?)?,
        NumberRange::Above { soft, raised } => {
            let lifted = Rlimit { current: Some(raised), maximum: before.maximum };
            setrlimit(Resource::Nofile, lifted)?;
            let opened = rustix::io::fcntl_dupfd_cloexec(&file, number(soft)?);
            // Unless the program has set another one meanwhile.
            if getrlimit(Resource::Nofile) == lifted {
                setrlimit(Resource::Nofile, before)?;
            }
            opened?
        }
    };
    if let Some(taken) = TAKEN.get() {
        taken(opened.as_raw_fd());
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lie_above_a_low_limit_and_within_a_high_one_and_a_program_with_few_keeps_all() {
        let range = |soft, hard| range(Rlimit { current: Some(soft), maximum: Some(hard) });
        assert_eq!(range(1024, 4096), Some(NumberRange::Above { soft: 1024, raised: 3072 }));
        assert_eq!(range(64, 256), Some(NumberRange::Above { soft: 64, raised: 256 }));
        assert_eq!(range(1 << 20, 1 << 20), Some(NumberRange::Within(1024)));
        assert_eq!((range(64, 64), range(1024, 1024)), (None, None));
    }

    #[test]
    fn the_limit_is_the_same_after_a_number_above_it_was_taken() {
        let before = getrlimit(Resource::Nofile);
        let file = std::fs::File::open("/dev/null").unwrap();
        let hidden = hidden(&file).unwrap();
        assert!(hidden.as_raw_fd() >= 1024 || before.current.is_some_and(|soft| soft < 1024));
        assert_eq!(getrlimit(Resource::Nofile), before);
    }
}
