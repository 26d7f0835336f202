//! Groups, compound types and strided selections, which the kernels of h5bench need.

#![expect(unsafe_code, reason = "calls into a C library")]

use std::ffi::{CStr, c_char, c_int};

use forebay::Result;

use super::{DEFAULT, Hdf5Functions, Hdf5Id, symbol};

/// `H5T_COMPOUND`.
pub(crate) const COMPOUND: c_int = 6;

/// `H5S_SELECT_SET` and `H5S_SELECT_OR`.
const SELECT: [c_int; 2] = [0, 1];

/// Blocks of a selection, a number per axis each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockSelection {
    /// Where the first block begins.
    pub(crate) start: Vec<u64>,
    /// Elements from the start of one block to that of the next.
    pub(crate) stride: Vec<u64>,
    /// How many blocks.
    pub(crate) count: Vec<u64>,
    /// Elements of a block.
    pub(crate) block: Vec<u64>,
}

impl Hdf5Functions {
    /// A new group in `file`.
    pub(crate) fn group_create(&self, file: Hdf5Id, name: &CStr) -> Result<Hdf5Id> {
        type Create = unsafe extern "C" fn(Hdf5Id, *const c_char, Hdf5Id, Hdf5Id, Hdf5Id) -> Hdf5Id;
        let create = "H5Gcreate2";
        // SAFETY: the signature is that of all versions since 1.8; the name ends with a NUL.
        unsafe {
            Ok(symbol::<Create>(&self.library, create)?(file, name.as_ptr(), DEFAULT, DEFAULT, DEFAULT))
        }
    }

    /// A group of `file`.
    pub(crate) fn group_open(&self, file: Hdf5Id, name: &CStr) -> Result<Hdf5Id> {
        type Open = unsafe extern "C" fn(Hdf5Id, *const c_char, Hdf5Id) -> Hdf5Id;
        // SAFETY: as above.
        unsafe { Ok(symbol::<Open>(&self.library, "H5Gopen2")?(file, name.as_ptr(), DEFAULT)) }
    }

    /// A compound type of `len` bytes with `fields`: name, offset, type.
    pub(crate) fn compound(&self, len: usize, fields: &[(&CStr, usize, Hdf5Id)]) -> Result<Hdf5Id> {
        type Create = unsafe extern "C" fn(c_int, usize) -> Hdf5Id;
        type Insert = unsafe extern "C" fn(Hdf5Id, *const c_char, usize, Hdf5Id) -> c_int;
        // SAFETY: the signatures are those of all versions since 1.8; names end with a NUL.
        unsafe {
            let (create, insert) = (
                symbol::<Create>(&self.library, "H5Tcreate")?,
                symbol::<Insert>(&self.library, "H5Tinsert")?,
            );
            let made = create(COMPOUND, len);
            for (name, offset, dtype) in fields {
                if made < 0 || insert(made, name.as_ptr(), *offset, *dtype) < 0 {
                    return Ok(-1);
                }
            }
            Ok(made)
        }
    }

    /// Selects the union of `selections`.
    pub(crate) fn space_select_blocks(&self, space: Hdf5Id, selections: &[BlockSelection]) -> c_int {
        let ndim = usize::try_from(self.space_ndim(space)).unwrap_or(usize::MAX);
        let mut answer = self.space_select_none(space);
        for (number, part) in selections.iter().enumerate() {
            let lens = [part.start.len(), part.stride.len(), part.count.len(), part.block.len()];
            if answer < 0 || lens != [ndim; 4] {
                return -1;
            }
            let (start, stride) = (part.start.as_ptr(), part.stride.as_ptr());
            let (count, block) = (part.count.as_ptr(), part.block.as_ptr());
            // SAFETY: all four have one number per axis of the space.
            answer =
                unsafe { (self.space_select)(space, SELECT[number.min(1)], start, stride, count, block) };
        }
        answer
    }
}
