//! What a process knows of the units of one data set, through whichever handle it is read: programs often open it anew for each read.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use crate::units::unit_set::UnitSet;

/// The units of one data set of an open file.
#[derive(Debug)]
pub(crate) struct DatasetUnits {
    /// No other data set of this process has the number.
    pub(crate) number: u64,
    /// Units that were asked for in part, and passed through.
    touched: Mutex<UnitSet>,
    /// Units that were seen in the tier.
    present: Mutex<UnitSet>,
    /// Units that are prestaged one by one, as reads come.
    later: Mutex<VecDeque<u64>>,
    is_prestaged: AtomicBool,
}

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

impl DatasetUnits {
    /// Of a data set of which nothing is known yet.
    pub(crate) fn unknown() -> Self {
        Self {
            number: NEXT_NUMBER.fetch_add(1, Relaxed),
            touched: Mutex::default(),
            present: Mutex::default(),
            later: Mutex::default(),
            is_prestaged: AtomicBool::new(false),
        }
    }

    /// Units that were asked for in part.
    pub(crate) fn touched(&self) -> MutexGuard<'_, UnitSet> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Units that were seen in the tier.
    pub(crate) fn present(&self) -> MutexGuard<'_, UnitSet> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Units that wait to be prestaged.
    pub(crate) fn later(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True the first time: the data set is prestaged once.
    pub(crate) fn takes_prestaging(&self) -> bool {
        !self.is_prestaged.swap(true, Relaxed)
    }
}
