//! Calls that make descriptors: where the program has no number left, descriptors of ours give way and the call is made once more.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use std::slice;

use libc::{DIR, c_char, c_int, c_uint, c_void, sockaddr, socklen_t};

use super::exported;
use crate::{
    engine::{inside, own_numbers},
    manage::give_way::{self, GivenUp},
    system::{kernel, real},
};

/// What a call that makes a descriptor answers.
pub(super) trait MadeAnswer {
    /// True where it made none.
    fn has_failed(&self) -> bool;

    /// Notes that what was made is the program's.
    fn note(&self) {}
}

impl MadeAnswer for c_int {
    #[inline]
    fn has_failed(&self) -> bool {
        *self == -1
    }

    #[inline]
    fn note(&self) {
        if *self > 0 {
            own_numbers::forget(*self);
        }
    }
}

impl<T> MadeAnswer for *mut T {
    #[inline]
    fn has_failed(&self) -> bool {
        self.is_null()
    }
}

fn is_refused<R: MadeAnswer>(made: &R) -> bool {
    made.has_failed() && inside::errno() == libc::EMFILE
}

/// What `make` gives; once more where no number was left and descriptors of ours could give way.
#[inline]
pub(super) fn with_a_number<R: MadeAnswer>(make: impl Fn() -> R) -> R {
    let made = make();
    if !made.has_failed() {
        made.note();
        return made;
    }
    if is_refused(&made) { made_anew(made, make) } else { made }
}

#[cold]
fn made_anew<R: MadeAnswer>(mut made: R, make: impl Fn() -> R) -> R {
    for given_up in GivenUp::ALL {
        if give_way::give_way(given_up) {
            made = make();
            if !is_refused(&made) {
                made.note();
                break;
            }
        }
    }
    made
}

/// The same for a call that writes a name in place of the six characters before the last `suffix` ones of `template`.
///
/// # Safety
/// `template` is a text that may be changed.
pub(super) unsafe fn with_a_name(template: *mut c_char, suffix: c_int, make: impl Fn() -> c_int) -> c_int {
    with_a_number(|| {
        let fd = make();
        if is_refused(&fd) {
            // SAFETY: as the caller promises; that it was not refused for its template says that it has these characters.
            unsafe {
                let len = libc::strlen(template) - 6 - usize::try_from(suffix).unwrap_or(0);
                slice::from_raw_parts_mut(template.add(len).cast::<u8>(), 6).fill(b'X');
            }
        }
        fd
    })
}

/// Has descriptors of ours give way where no number is left.
pub(super) fn keep_a_number_free() {
    if own_numbers::has_any() {
        let _is_free = with_a_number(kernel::look_for_a_number);
    }
}

// SAFETY of all that follow: the arguments are handed on as they came.
exported! {
    fn opendir(path: *const c_char) -> *mut DIR {
        // SAFETY: above.
        with_a_number(|| unsafe { real::opendir(path) })
    }

    fn pipe(into: *mut c_int) -> c_int {
        // SAFETY: above.
        with_a_number(|| unsafe { real::pipe(into) })
    }

    fn pipe2(into: *mut c_int, flags: c_int) -> c_int {
        // SAFETY: above.
        with_a_number(|| unsafe { real::pipe2(into, flags) })
    }

    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        // SAFETY: above.
        with_a_number(|| unsafe { real::socket(domain, kind, protocol) })
    }

    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, into: *mut c_int) -> c_int {
        // SAFETY: above.
        with_a_number(|| unsafe { real::socketpair(domain, kind, protocol, into) })
    }

    fn accept(socket: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: above.
        with_a_number(|| unsafe { real::accept(socket, address, len) })
    }

    fn accept4(socket: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        // SAFETY: above.
        with_a_number(|| unsafe { real::accept4(socket, address, len, flags) })
    }

    fn eventfd(first: c_uint, flags: c_int) -> c_int {
        // SAFETY: above.
        with_a_number(|| unsafe { real::eventfd(first, flags) })
    }

    fn epoll_create(size: c_int) -> c_int {
        // SAFETY: above.
        with_a_number(|| unsafe { real::epoll_create(size) })
    }

    fn epoll_create1(flags: c_int) -> c_int {
        // SAFETY: above.
        with_a_number(|| unsafe { real::epoll_create1(flags) })
    }

    fn timerfd_create(clock: c_int, flags: c_int) -> c_int {
        // SAFETY: above.
        with_a_number(|| unsafe { real::timerfd_create(clock, flags) })
    }

    fn signalfd(fd: c_int, signals: *const c_void, flags: c_int) -> c_int {
        // SAFETY: above.
        with_a_number(|| unsafe { real::signalfd(fd, signals, flags) })
    }

    fn inotify_init() -> c_int {
        // SAFETY: above.
        with_a_number(|| unsafe { real::inotify_init() })
    }

    fn inotify_init1(flags: c_int) -> c_int {
        // SAFETY: above.
        with_a_number(|| unsafe { real::inotify_init1(flags) })
    }

    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int {
        // SAFETY: above.
        with_a_number(|| unsafe { real::memfd_create(name, flags) })
    }
}
