//! Samples by number, on the caller's thread: for looking at them, and for loaders that are not ours.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use forebay_batch::{FieldArray, LoaderStats, PlainBacking};
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    assemble::file_maker::FileMaker,
    memory::{
        horizon::Moment,
        ledger::Now,
        setup::{InForce, ReaderKind, file_maker},
    },
    options::Options,
    set::SampleSet,
};

/// Samples by number. Memory and a spill are taken when the first is asked for.
#[derive(Debug)]
pub struct Samples {
    set: Arc<SampleSet>,
    options: Options,
    calls: AtomicU64,
    maker: Mutex<Option<Arc<FileMaker>>>,
}

impl Samples {
    /// The samples of `set`, by what `options` say of memory, spill and requests.
    pub fn new(set: Arc<SampleSet>, options: &Options) -> Self {
        let (options, calls) = (options.clone(), AtomicU64::new(0));
        Self { set, options, calls, maker: Mutex::default() }
    }

    /// The samples `numbers`, side by side, in that order; one may be asked for more than once.
    pub fn get(&self, numbers: &[u64]) -> Result<Vec<FieldArray>> {
        let maker = self.maker()?;
        let (set, memory) = (&self.set, maker.shares.memory);
        // How long texts and sequences are is found when they are read.
        let len = set.fixed_len().saturating_mul(numbers.len() as u64);
        if len > memory {
            let what = format!("memory={memory} is less than the {len} bytes of {} samples", numbers.len());
            return Err(Error::new(ErrorKind::Full, what).hint("take fewer at a time, or use a loader"));
        }
        let slots: Vec<Option<u64>> = numbers.iter().map(|number| Some(*number)).collect();
        let call = self.calls.fetch_add(1, Relaxed);
        let moment = Moment::new(0, call);
        maker.assemble(&slots, Now { moment, oldest: moment, horizon: None })
    }

    /// All samples there are.
    pub fn set(&self) -> &Arc<SampleSet> {
        &self.set
    }

    /// What was read so far.
    pub fn stats(&self) -> LoaderStats {
        self.made().map_or_else(LoaderStats::default, |maker| maker.counters.stats())
    }

    /// What memory and which spill are in force; nothing before the first sample was asked for.
    pub fn in_force(&self) -> Option<InForce> {
        self.made().map(|maker| maker.in_force())
    }

    fn made(&self) -> Option<Arc<FileMaker>> {
        self.maker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn maker(&self) -> Result<Arc<FileMaker>> {
        let mut made = self.maker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(maker) = &*made {
            return Ok(Arc::clone(maker));
        }
        let backing = Arc::new(PlainBacking::default());
        let maker = file_maker(Arc::clone(&self.set), &self.options, ReaderKind::Caller, backing)?;
        let maker = Arc::new(maker);
        *made = Some(Arc::clone(&maker));
        Ok(maker)
    }
}
