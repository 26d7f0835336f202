//! Detection of forked children that have called no `exec`: many of them end by `_exit`, which runs nothing at the end of the process.

use std::fs;

/// `PF_FORKNOEXEC` of the kernel: set in every child, cleared by `exec`.
const FORKED_WITHOUT_EXEC: u64 = 0x40;
/// The place of the flags in `/proc/self/stat`, counted from the state of the process, which follows its name.
const FLAGS_FIELD: usize = 6;

/// True in a forked child that has called no `exec`, such as a worker of `multiprocessing`; also where the kernel does not say.
pub(crate) fn is_forked_child() -> bool {
    fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|stat| flags_of(&stat))
        .is_none_or(|flags| flags & FORKED_WITHOUT_EXEC != 0)
}

fn flags_of(stat: &str) -> Option<u64> {
    // The name of a program may hold spaces and brackets.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(FLAGS_FIELD)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_started_is_no_forked_child() {
        assert!(!is_forked_child());
    }

    #[test]
    fn the_flags_are_found_behind_any_name() {
        assert_eq!(flags_of("17 (a) b) S 1 17 17 0 -1 4194368 95"), Some(0x40_0040));
        assert_eq!(flags_of("17 (a) S 1"), None);
        assert_eq!(flags_of(""), None);
    }
}
