//! The plain call of the C library, where it has to be made while names are locked.

use std::cell::Cell;

use libc::c_int;

use crate::inside;

/// A call that is made once.
pub(super) struct PlainCall<F> {
    call: Cell<Option<F>>,
    /// What it gave, and the error with it.
    answer: Cell<(c_int, i32)>,
}

impl<F: FnOnce() -> c_int> PlainCall<F> {
    pub(super) fn new(call: F) -> Self {
        Self { call: Cell::new(Some(call)), answer: Cell::new((-1, libc::EIO)) }
    }

    /// Makes the call, unless it was made; true where it has done its work.
    pub(super) fn make(&self) -> bool {
        if let Some(call) = self.call.take() {
            let answer = call();
            self.answer.set((answer, inside::errno()));
        }
        self.answer.get().0 == 0
    }

    /// What the program gets: the call is made now, unless it was made.
    pub(super) fn given(&self) -> c_int {
        self.make();
        let (answer, errno) = self.answer.get();
        if answer != 0 {
            inside::set_errno(errno);
        }
        answer
    }
}
