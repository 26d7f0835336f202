//! Calls that hand a descriptor to the file system or to another process as a whole: `ioctl`, and messages with descriptors (`SCM_RIGHTS`). Both get
//! the origin.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use std::slice;

use libc::{c_int, c_uint, c_ulong, cmsghdr, mmsghdr, msghdr, ssize_t};

use super::exported;
use crate::{
    kernel, manage, own_numbers, real,
    slots::{self, SlotKind},
};

/// Requests that are about the number, or that a copy answers as the origin does.
const OF_NUMBER: [c_ulong; 5] = [libc::FIOCLEX, libc::FIONCLEX, libc::FIONREAD, libc::FIONBIO, libc::TCGETS];

/// `FICLONE` and `FICLONERANGE`: the argument is a descriptor to clone from, or begins with one.
const CLONE: c_ulong = 0x4004_9409;
const CLONE_RANGE: c_ulong = 0x4020_940d;

/// The descriptors in the control messages of `message`.
///
/// # Safety
/// `message` is null or a message as `sendmsg` takes it.
unsafe fn each_sent(message: *const msghdr, sent: impl Fn(c_int)) {
    // SAFETY: as the caller promises.
    if message.is_null() || unsafe { (*message).msg_control.is_null() } {
        return;
    }
    // SAFETY: as the caller promises; the macros of the C library stay within the length that the message states.
    let mut header: *const cmsghdr = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: the header lies within the control messages.
        let found = unsafe { header.read_unaligned() };
        if (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            // SAFETY: the bytes of a message follow its header.
            let data = unsafe { libc::CMSG_DATA(header) };
            let before = data.addr() - header.addr();
            // A header may state more than there is: the kernel refuses the message.
            // SAFETY: as the caller promises.
            let (start, all) = unsafe { ((*message).msg_control.addr(), (*message).msg_controllen) };
            let left = start.saturating_add(all).saturating_sub(header.addr());
            let count = (found.cmsg_len as usize).min(left).saturating_sub(before) / size_of::<c_int>();
            // SAFETY: so many numbers follow within the control messages, at a place that is aligned for them.
            unsafe { slice::from_raw_parts(data.cast::<c_int>(), count) }.iter().for_each(|fd| sent(*fd));
        }
        // SAFETY: as for the first.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
}

/// Has the receivers of `message` get the origin's files.
///
/// # Safety
/// As [`each_sent`].
unsafe fn sending(message: *const msghdr) {
    // SAFETY: as the caller promises.
    unsafe {
        each_sent(message, |fd| {
            if slots::kind(fd) != SlotKind::Plain {
                manage::before_sending(fd);
            }
        });
    }
}

// SAFETY of all that follow: the arguments are handed on as they came.
exported! {
    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
        let fd = own_numbers::as_seen(fd);
        if slots::kind(fd) == SlotKind::Copy && !OF_NUMBER.contains(&request) {
            manage::unlay(fd);
        }
        let from = match request {
            // Callers pass an `int`, and leave the rest of the register as it was.
            CLONE => u32::try_from(argument & 0xffff_ffff).ok().map(u32::cast_signed),
            CLONE_RANGE => kernel::read_memory(argument).and_then(|number| c_int::try_from(i64::from_ne_bytes(number)).ok()),
            _ => None,
        };
        if let Some(from) = from {
            manage::unlay(from);
        }
        // SAFETY: above.
        unsafe { real::ioctl(fd, request, argument) }
    }

    fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: above.
        unsafe {
            sending(message);
            real::sendmsg(socket, message, flags)
        }
    }

    fn sendmmsg(socket: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        // SAFETY: above; the messages are an array of so many.
        unsafe {
            for index in 0..count as usize {
                sending(&raw const (*messages.add(index)).msg_hdr);
            }
            real::sendmmsg(socket, messages, count, flags)
        }
    }
}
