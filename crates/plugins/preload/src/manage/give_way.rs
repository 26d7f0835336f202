//! Descriptors of ours that are closed where the program needs their numbers: files first, and then the tiers.

use std::os::fd::{OwnedFd, RawFd};

use forebay_process::descriptors;
use rustix::io::Errno;

use crate::{
    engine::{self, inside, own_numbers, prefix},
    manage::{back_to_origin::leave, slots},
};

/// What of ours is closed for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// Files: those that the program has open are the origin's from now on, and copies are used again for what it opens later.
    Files,
    /// The tiers as well, for good.
    Tiers,
}

impl GivenUp {
    /// One after the other, as long as the program has no number.
    pub(crate) const ALL: [Self; 2] = [Self::Files, Self::Tiers];
}

/// The program has no number left: descriptors of ours are closed; true where it may try again.
#[cold]
pub(crate) fn give_way(given_up: GivenUp) -> bool {
    let gave = inside::run(|| {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        own_numbers::between(0, u32::try_from(limit).unwrap_or(u32::MAX)).next()?;
        let _left = give_up(given_up);
        Some(())
    });
    gave.is_some()
}

/// The program wants the number `fd`, which is one of ours; true where it may have it.
#[cold]
pub(crate) fn give_way_at(fd: RawFd) -> bool {
    let gave = inside::run(|| {
        let is_free = |given_up: &GivenUp| {
            let left = give_up(*given_up);
            if left == LeftOpen::Unused {
                own_numbers::forget(fd);
            }
            !own_numbers::has(fd)
        };
        GivenUp::ALL.iter().any(is_free).then_some(())
    });
    gave.is_some()
}

/// What of ours may be open still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeftOpen {
    /// What threads are at work with.
    InUse,
    /// What a forked child has of its parent and never reads by.
    Unused,
}

fn give_up(given_up: GivenUp) -> LeftOpen {
    for fd in slots::numbers().collect::<Vec<_>>() {
        if let Some(file) = slots::file(fd) {
            leave(&file, fd);
        }
    }
    let mut left = LeftOpen::InUse;
    if given_up == GivenUp::Tiers {
        let was_used = engine::end();
        prefix::switch_off();
        left = if was_used { LeftOpen::InUse } else { LeftOpen::Unused };
    }
    descriptors::give_way();
    left
}

/// What `open` gives; once more where no number was left, and descriptors of ours have given way.
pub(crate) fn with_way_given(open: impl Fn() -> rustix::io::Result<OwnedFd>) -> Option<OwnedFd> {
    let mut opened = open();
    for given_up in GivenUp::ALL {
        if !matches!(opened, Err(Errno::MFILE)) {
            break;
        }
        let _left = give_up(given_up);
        opened = open();
    }
    opened.ok()
}
