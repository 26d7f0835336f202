//! Selections as runs of bytes: HDF5 itself walks hyperslabs, points, strides and unions.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use forebay_libhdf5::hdf5_types::{hid_t, hsize_t};

pub(crate) use crate::units::read_plan::ByteRun;
use crate::units::unit_grid::MOST_DIMENSIONS;

use crate::slots::LoadedLibrary;

/// `H5S_ALL`
const ALL: hid_t = 0;
/// `H5S_BLOCK`: the elements lie side by side in memory.
const BLOCK: hid_t = 1;
/// `H5S_PLIST`: the selection stands in the transfer list.
const IN_LIST: hid_t = 2;
/// `H5S_SEL_POINTS`
const POINTS: i32 = 1;
/// `H5S_SEL_HYPERSLABS`
const HYPERSLABS: i32 = 2;
/// `H5S_SEL_ALL`
const SELECTS_ALL: i32 = 3;
/// `H5S_SEL_ITER_SHARE_WITH_DATASPACE`: the space outlives the iterator, and need not be copied.
const SHARED: u32 = 2;
/// Runs asked for at once.
const RUNS_AT_ONCE: usize = 1024;
/// A selection of more runs passes through: what would be gained is lost by walking it.
const MOST_RUNS: usize = 1 << 20;

/// Elements of an array in the order in which a read goes over them.
#[derive(Debug)]
pub(crate) struct SelectedRuns {
    pub(crate) runs: Vec<ByteRun>,
    /// How many elements they hold.
    pub(crate) count: u64,
    /// No element comes twice.
    pub(crate) is_disjoint: bool,
}

impl SelectedRuns {
    /// `count` elements of `element_len` bytes side by side.
    fn whole(count: u64, element_len: u64) -> Self {
        let runs = vec![ByteRun { at: 0, len: count * element_len }];
        Self { runs, count, is_disjoint: true }
    }

    /// What `space` selects of a data set of `shape` in a file; `None` where it does not fit, for HDF5 to say why.
    pub(crate) fn in_file(
        library: &LoadedLibrary,
        space: hid_t,
        shape: &[u64],
        element_len: u64,
    ) -> Option<Self> {
        match space {
            ALL => Some(Self::whole(shape.iter().product(), element_len)),
            BLOCK | IN_LIST => None,
            _ if extents(library, space)? != shape => None,
            _ => Self::walk(library, space, element_len),
        }
    }

    /// What `space` selects of memory into which `count` elements are read from the space `file_space`.
    pub(crate) fn in_memory(
        library: &LoadedLibrary,
        space: hid_t,
        file_space: hid_t,
        count: u64,
        element_len: u64,
    ) -> Option<Self> {
        let selected = match space {
            BLOCK => Self::whole(count, element_len),
            IN_LIST => return None,
            // The memory is an array like the data set, with the same elements selected.
            ALL if file_space == ALL => Self::whole(count, element_len),
            ALL => Self::walk(library, file_space, element_len)?,
            _ => Self::walk(library, space, element_len)?,
        };
        (selected.count == count).then_some(selected)
    }

    fn walk(library: &LoadedLibrary, space: hid_t, element_len: u64) -> Option<Self> {
        let functions = &library.functions;
        // SAFETY: a handle that a program passed as a dataspace; HDF5 answers with an error if it is none.
        let (kind, count, is_valid) = unsafe {
            (
                (functions.H5Sget_select_type)(space),
                (functions.H5Sget_select_npoints)(space),
                (functions.H5Sselect_valid)(space),
            )
        };
        let count = u64::try_from(count).ok().filter(|count| *count > 0 && is_valid > 0)?;
        match kind {
            SELECTS_ALL => Some(Self::whole(count, element_len)),
            POINTS | HYPERSLABS => {
                let runs = runs_of(library, space, element_len, count)?;
                Some(Self { runs, count, is_disjoint: kind == HYPERSLABS })
            }
            _ => None,
        }
    }
}

/// True when neither `file_space` nor `memory_space` has an element selected.
pub(crate) fn is_empty(library: &LoadedLibrary, file_space: hid_t, memory_space: hid_t) -> bool {
    let count = |space: hid_t| {
        // SAFETY: a handle that a program passed as a dataspace; HDF5 answers with an error if it is none.
        library.quietly(|| unsafe { (library.functions.H5Sget_select_npoints)(space) })
    };
    let is_named = |space: hid_t| space > IN_LIST;
    is_named(file_space) && count(file_space) == 0 && (!is_named(memory_space) || count(memory_space) == 0)
}

/// The extents of `space`, where it is an array.
pub(crate) fn extents(library: &LoadedLibrary, space: hid_t) -> Option<Vec<u64>> {
    let functions = &library.functions;
    let mut shape = [0; MOST_DIMENSIONS];
    // SAFETY: room for as many extents as HDF5 allows.
    let ndim =
        unsafe { (functions.H5Sget_simple_extent_dims)(space, shape.as_mut_ptr(), std::ptr::null_mut()) };
    Some(shape.get(..usize::try_from(ndim).ok()?)?.to_vec())
}

fn runs_of(library: &LoadedLibrary, space: hid_t, element_len: u64, count: u64) -> Option<Vec<ByteRun>> {
    let functions = &library.functions;
    let len = usize::try_from(element_len).ok()?;
    // SAFETY: an open dataspace that stays open while the iterator lives.
    let iterator = unsafe { (functions.H5Ssel_iter_create)(space, len, SHARED) };
    if iterator < 0 {
        return None;
    }
    let runs = collect(library, iterator, element_len, count);
    // SAFETY: the iterator that was just made.
    unsafe { (functions.H5Ssel_iter_close)(iterator) };
    runs
}

fn collect(library: &LoadedLibrary, iterator: hid_t, element_len: u64, count: u64) -> Option<Vec<ByteRun>> {
    let mut offsets = [0 as hsize_t; RUNS_AT_ONCE];
    let mut lens = [0_usize; RUNS_AT_ONCE];
    let (mut runs, mut left): (Vec<ByteRun>, u64) = (Vec::new(), count);
    while left > 0 {
        let (mut found, mut elements) = (0, 0);
        // SAFETY: an open iterator, and lists of `RUNS_AT_ONCE` places each.
        let answer = unsafe {
            (library.functions.H5Ssel_iter_get_seq_list)(
                iterator,
                RUNS_AT_ONCE,
                usize::try_from(left).unwrap_or(usize::MAX),
                &raw mut found,
                &raw mut elements,
                offsets.as_mut_ptr(),
                lens.as_mut_ptr(),
            )
        };
        if answer < 0 || elements == 0 || runs.len() + found > MOST_RUNS {
            return None;
        }
        for (at, len) in offsets.iter().zip(&lens).take(found) {
            let (at, len) = (*at, *len as u64);
            match runs.last_mut() {
                Some(last) if last.at + last.len == at => last.len += len,
                _ => runs.push(ByteRun { at, len }),
            }
        }
        left = left.checked_sub(elements as u64)?;
    }
    let total: u64 = runs.iter().map(|run| run.len).sum();
    (total == count * element_len).then_some(runs)
}
