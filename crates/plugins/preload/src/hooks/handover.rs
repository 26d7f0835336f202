//! Calls that hand a descriptor to the file system or to another process as a whole: `ioctl`, and messages with descriptors (`SCM_RIGHTS`). Both get
//! the origin.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use std::mem;

use libc::{c_int, c_uint, c_ulong, cmsghdr, mmsghdr, msghdr, ssize_t};

use super::exported;
use crate::{
    engine::own_numbers,
    manage::{
        self,
        slots::{self, SlotKind},
    },
    system::{kernel, real},
};

/// Requests that are about the number, or that a copy answers as the origin does.
const OF_NUMBER: [c_ulong; 5] = [libc::FIOCLEX, libc::FIONCLEX, libc::FIONREAD, libc::FIONBIO, libc::TCGETS];

/// `FICLONE` and `FICLONERANGE`: the argument is a descriptor to clone from, or begins with one.
const CLONE: c_ulong = 0x4004_9409;
const CLONE_RANGE: c_ulong = 0x4020_940d;

/// The kernel takes no more messages at once.
const MOST_MESSAGES: c_uint = 1024;

/// Has the receivers of `message` get the origin's files. What it says is read as the kernel reads it: an address without memory is refused, by the kernel.
fn sending(message: *const msghdr) {
    // SAFETY: the structure is made of numbers and addresses, which may have any bytes; nothing is read by the addresses here.
    let read = |bytes: [u8; size_of::<msghdr>()]| unsafe { mem::transmute::<_, msghdr>(bytes) };
    let Some(message) = kernel::read_memory(message.addr()).map(read) else { return };
    if !message.msg_control.is_null() {
        sending_controls(message.msg_control.addr(), message.msg_controllen);
    }
}

/// The same for its control messages, `len` bytes from `start` on.
fn sending_controls(start: usize, len: usize) {
    const HEADER: usize = size_of::<cmsghdr>();
    let end = start.saturating_add(len);
    let mut at = start;
    while end.saturating_sub(at) >= HEADER {
        // SAFETY: the structure is made of numbers.
        let read = |bytes: [u8; HEADER]| unsafe { mem::transmute::<_, cmsghdr>(bytes) };
        let Some(header) = kernel::read_memory(at).map(read) else { return };
        // One that is shorter than itself, or longer than what is left, is refused.
        let len = header.cmsg_len;
        if len < HEADER || len > end - at {
            return;
        }
        if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            for number in
                (at + HEADER..=(at + len).saturating_sub(size_of::<c_int>())).step_by(size_of::<c_int>())
            {
                let Some(fd) = kernel::read_memory(number).map(c_int::from_ne_bytes) else { return };
                if slots::kind(fd) != SlotKind::Plain {
                    manage::before_sending(fd);
                }
            }
        }
        at = at.saturating_add(len.next_multiple_of(align_of::<cmsghdr>()));
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
        if slots::has_any() {
            sending(message);
        }
        // SAFETY: above.
        unsafe { real::sendmsg(socket, message, flags) }
    }

    fn sendmmsg(socket: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        if slots::has_any() {
            for index in 0..count.min(MOST_MESSAGES) as usize {
                sending(messages.wrapping_add(index).cast());
            }
        }
        // SAFETY: above.
        unsafe { real::sendmmsg(socket, messages, count, flags) }
    }
}
