//! The numbers that a libhdf5 gives to the operations of this connector.

use std::{
    ffi::{CStr, c_int},
    sync::atomic::{AtomicI32, Ordering::Relaxed},
};

/// What can be asked of a file or a data set beyond HDF5's own interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlOp {
    /// Reads pass through, and nothing is put into the cache.
    Pause,
    /// The opposite.
    Start,
    /// Caching is switched for one file.
    Switch,
    /// A data set is read into the cache.
    Prestage,
    /// What is on its way into the cache gets there.
    Wait,
    /// The counters.
    Stats,
    /// Those of files that ranks have open together.
    ParallelStats,
}

impl ControlOp {
    /// All, in the order of their numbers here.
    pub(crate) const ALL: [Self; 7] = [
        Self::Pause,
        Self::Start,
        Self::Switch,
        Self::Prestage,
        Self::Wait,
        Self::Stats,
        Self::ParallelStats,
    ];

    /// The name under which a program finds its number.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Pause => c"forebay.pause",
            Self::Start => c"forebay.start",
            Self::Switch => c"forebay.switch",
            Self::Prestage => c"forebay.prestage",
            Self::Wait => c"forebay.wait",
            Self::Stats => c"forebay.stats",
            Self::ParallelStats => c"forebay.parallel_stats",
        }
    }
}

/// The numbers of one libhdf5, for files and for data sets; -1 where it has given none.
#[derive(Debug)]
pub(crate) struct OperationNumbers {
    file: [AtomicI32; ControlOp::ALL.len()],
    dataset: [AtomicI32; ControlOp::ALL.len()],
}

/// `H5VL_SUBCLS_DATASET`
pub(crate) const DATASET_SUBCLASS: c_int = 4;
/// `H5VL_SUBCLS_FILE`
pub(crate) const FILE_SUBCLASS: c_int = 6;

impl OperationNumbers {
    /// None given yet.
    pub(crate) fn new() -> Self {
        let none = || std::array::from_fn(|_| AtomicI32::new(-1));
        Self { file: none(), dataset: none() }
    }

    /// The places of a subclass.
    fn of(&self, subclass: c_int) -> &[AtomicI32] {
        match subclass {
            DATASET_SUBCLASS => &self.dataset,
            FILE_SUBCLASS => &self.file,
            _ => &[],
        }
    }

    /// Notes what the library called the operations of a subclass: it does so anew whenever it is started.
    pub(crate) fn note(&self, subclass: c_int, op: ControlOp, number: c_int) {
        let at = ControlOp::ALL.iter().position(|known| *known == op);
        if let Some(place) = at.and_then(|at| self.of(subclass).get(at)) {
            place.store(number, Relaxed);
        }
    }

    /// What the library calls an operation of a subclass.
    pub(crate) fn number(&self, subclass: c_int, op: ControlOp) -> Option<c_int> {
        let at = ControlOp::ALL.iter().position(|known| *known == op)?;
        Some(self.of(subclass).get(at)?.load(Relaxed)).filter(|number| *number >= 0)
    }

    /// The operation of this connector that `number` of a subclass is.
    pub(crate) fn find(&self, subclass: c_int, number: c_int) -> Option<ControlOp> {
        let is_it = |known: &AtomicI32| number >= 0 && known.load(Relaxed) == number;
        let at = self.of(subclass).iter().position(is_it)?;
        ControlOp::ALL.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_what_the_library_called_last() {
        let numbers = OperationNumbers::new();
        assert_eq!(numbers.find(FILE_SUBCLASS, -1), None);
        numbers.note(FILE_SUBCLASS, ControlOp::Wait, 1030);
        numbers.note(DATASET_SUBCLASS, ControlOp::Stats, 1030);
        assert_eq!(numbers.find(FILE_SUBCLASS, 1030), Some(ControlOp::Wait));
        assert_eq!(numbers.find(DATASET_SUBCLASS, 1030), Some(ControlOp::Stats));
        numbers.note(FILE_SUBCLASS, ControlOp::Wait, 1031);
        assert_eq!(numbers.find(FILE_SUBCLASS, 1030), None);
        assert_eq!(numbers.find(0, 1030), None);
    }
}
