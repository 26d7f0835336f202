//! An identifier of an open object of HDF5, closed when it goes.

use std::{ffi::c_int, mem::forget};

use crate::{calls::Hdf5Calls, hdf5_types::hid_t};

/// A call that closes an identifier.
pub type CloseCall = fn(&Hdf5Calls, hid_t) -> c_int;

/// An identifier that its owner closes.
pub struct OpenId<'a> {
    id: hid_t,
    calls: &'a Hdf5Calls,
    close: CloseCall,
}

impl<'a> OpenId<'a> {
    /// Takes over `id`, which the library has made; a negative one is none.
    pub fn new(calls: &'a Hdf5Calls, id: hid_t, close: CloseCall) -> Option<Self> {
        // Not by `then_some`: its argument would be dropped, and closing no identifier replaces the error that is asked for next.
        if id < 0 { None } else { Some(Self { id, calls, close }) }
    }

    /// The identifier.
    pub fn id(&self) -> hid_t {
        self.id
    }

    /// Closes it and gives the library's answer: a file's last bytes are written by then.
    pub fn close(self) -> c_int {
        let answer = (self.close)(self.calls, self.id);
        forget(self);
        answer
    }

    /// Leaves it open: another owner closes it.
    pub fn leave(self) -> hid_t {
        let id = self.id;
        forget(self);
        id
    }
}

impl std::fmt::Debug for OpenId<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OpenId").field(&self.id).finish()
    }
}

impl Drop for OpenId<'_> {
    fn drop(&mut self) {
        (self.close)(self.calls, self.id);
    }
}
