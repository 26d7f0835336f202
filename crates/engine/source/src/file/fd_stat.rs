//! `fstat` of a descriptor's number, whichever file that means at this moment.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "safe wrappers ask for a descriptor that is known to be open")
)]

use std::os::fd::RawFd;

use crate::file::file_stat::FileStat;

/// True when descriptor `number` is open on a file in the state `stamp`, last changed at `changed_ns`.
///
/// The descriptor is not held meanwhile, and a forked child may have given its number to another file. That is harmless: a
/// different file has a different `stat`, and then the caller asks in another way. To hold the descriptor for the call
/// costs 20 ns, and one more cache line.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
pub(crate) fn is_open_on(number: RawFd, stamp: &FileStat, changed_ns: i64) -> bool {
    // SAFETY: zeros are a valid `stat`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes to `stat` alone, laid out as the kernel's on these machines, and changes nothing
    // whatever `number` means. glibc's own `fstat` goes by way of an empty path, which is slower.
    let answer = unsafe { libc::syscall(libc::SYS_fstat, number, &raw mut stat) };
    answer == 0 && stamp.is_of(&stat, changed_ns)
}

/// Not supported here: the caller asks in another way.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) fn is_open_on(_: RawFd, _: &FileStat, _: i64) -> bool {
    false
}
