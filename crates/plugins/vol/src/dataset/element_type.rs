//! Types of elements: which can be kept as bytes, and how they become those of the program's memory.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::ffi::{c_int, c_uint};

use forebay_libhdf5::hdf5_types::hid_t;

use crate::{functions::RawPointer, slots::LoadedLibrary};

/// `H5T_INTEGER`, `H5T_FLOAT`, `H5T_BITFIELD`, `H5T_OPAQUE`, `H5T_ENUM`, `H5T_COMPLEX`: a fixed number of bytes each.
const PLAIN: [c_int; 6] = [0, 1, 4, 5, 8, 11];
/// `H5T_STRING`
const TEXT: c_int = 3;
/// `H5T_COMPOUND`
const COMPOUND: c_int = 6;
/// `H5T_ARRAY`
const ARRAY: c_int = 10;
/// Types nested deeper than this pass through.
const DEEPEST: u32 = 16;

/// True when all values of `kind` lie in the element itself: no variable lengths, no references.
pub(crate) fn is_fixed(library: &LoadedLibrary, kind: hid_t) -> bool {
    is_fixed_below(library, kind, DEEPEST)
}

fn is_fixed_below(library: &LoadedLibrary, kind: hid_t, depth: u32) -> bool {
    let functions = &library.functions;
    let Some(depth) = depth.checked_sub(1) else { return false };
    // SAFETY: an open type.
    match unsafe { (functions.H5Tget_class)(kind) } {
        class if PLAIN.contains(&class) => true,
        // SAFETY: an open type.
        TEXT => unsafe { (functions.H5Tis_variable_str)(kind) == 0 },
        // SAFETY: an open type that is an array.
        ARRAY => with_type(library, unsafe { (functions.H5Tget_super)(kind) }, |base| {
            is_fixed_below(library, base, depth)
        }),
        COMPOUND => {
            // SAFETY: an open type that is a compound.
            let count = unsafe { (functions.H5Tget_nmembers)(kind) };
            (0..c_uint::try_from(count).unwrap_or(0)).all(|member| {
                // SAFETY: as above, and it has that member.
                let member = unsafe { (functions.H5Tget_member_type)(kind, member) };
                with_type(library, member, |member| is_fixed_below(library, member, depth))
            })
        }
        _ => false,
    }
}

/// What `ask` says of `kind`, which is closed then.
fn with_type(library: &LoadedLibrary, kind: hid_t, ask: impl FnOnce(hid_t) -> bool) -> bool {
    if kind < 0 {
        return false;
    }
    let answer = ask(kind);
    // SAFETY: a type that was opened for this question.
    unsafe { (library.functions.H5Tclose)(kind) };
    answer
}

/// How elements of a file become those of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// They are the same.
    None,
    /// HDF5 converts them; in memory they have this many bytes.
    By(usize),
}

impl Conversion {
    /// From `file_type` to `memory_type`; `None` where HDF5 has to say what is wrong with it.
    pub(crate) fn between(library: &LoadedLibrary, file_type: hid_t, memory_type: hid_t) -> Option<Self> {
        let functions = &library.functions;
        // SAFETY: an open type of ours, and a handle that a program passed as one.
        unsafe {
            match (functions.H5Tequal)(file_type, memory_type) {
                1.. => Some(Self::None),
                0 => match (functions.H5Tget_size)(memory_type) {
                    0 => None,
                    len => is_fixed(library, memory_type).then_some(Self::By(len)),
                },
                _ => None,
            }
        }
    }
}

/// Converts `count` elements in `elements`; `background` holds what memory had, for members that are not read.
///
/// # Safety
/// Both hold `count` elements of the larger of the two types.
pub(crate) unsafe fn convert(
    library: &LoadedLibrary,
    types: (hid_t, hid_t),
    count: usize,
    elements: &mut [u8],
    background: &mut [u8],
    transfer: hid_t,
) -> bool {
    let (from, to) = types;
    let (elements, background): (RawPointer, RawPointer) =
        (elements.as_mut_ptr().cast(), background.as_mut_ptr().cast());
    // SAFETY: as promised by the caller.
    unsafe { (library.functions.H5Tconvert)(from, to, count, elements, background, transfer) >= 0 }
}
