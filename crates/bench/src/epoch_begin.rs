//! What comes before the first step of an epoch: files that are all there, a page cache as it is asked for, the order of the samples.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
};

use forebay::{Error, ErrorKind, Launcher, Result};
use forebay_workload::{EpochOrder, FileFormat, LoaderKind, Split};

use crate::{
    cold_cache, dataset_files,
    interruption::GLANCE,
    rank_run::{PageCacheState, RankRun},
};

/// From so many samples on, their order is made aside.
const MANY_SAMPLES: u64 = 1 << 24;

impl RankRun<'_> {
    /// Refuses a data set of which files are missing, before anything else takes its time.
    pub(crate) fn check_files(&self) -> Result<()> {
        let splits = [Split::Train, Split::Eval];
        let is_read = |split: &Split| *split == Split::Train || self.workload.phases.evaluate;
        let read = splits.into_iter().filter(is_read).filter(|_| self.has_input());
        read.map(|split| dataset_files::read_paths(self.workload, split))
            .try_for_each(|paths| dataset_files::check_there(&paths))
    }

    /// False where samples are made up, and nothing is read.
    pub(crate) fn has_input(&self) -> bool {
        self.workload.dataset.format != FileFormat::Synthetic
            && self.workload.reader.loader != LoaderKind::Synthetic
    }

    /// The batches of an epoch. A shuffle of billions of samples takes minutes: it is made aside, so that an interrupt ends the wait.
    pub(crate) fn epoch_order(&self, split: Split, epoch: u32) -> Result<EpochOrder> {
        let (at, dataset) = (self.at(), &self.workload.dataset);
        let samples = split.file_count(dataset).saturating_mul(dataset.num_samples_per_file);
        // Ranks that read together leave together.
        if samples < MANY_SAMPLES || Launcher::of_process() == Launcher::Mpi {
            return EpochOrder::new(self.workload, split, epoch, at);
        }
        let (workload, (to, from)) = (self.workload.clone(), mpsc::channel());
        thread::spawn(move || {
            // After an interrupt nobody waits for it.
            let _ = to.send(EpochOrder::new(&workload, split, epoch, at));
        });
        loop {
            self.check()?;
            match from.recv_timeout(GLANCE) {
                Ok(order) => return order,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(ErrorKind::Bug, "the order of an epoch was not made"));
                }
            }
        }
    }

    /// What the options say of the page cache, on every rank for its share of the files.
    pub(crate) fn prepare_cache(&self) -> Result<()> {
        let paths = || {
            [Split::Train, Split::Eval].map(|split| dataset_files::read_paths(self.workload, split)).concat()
        };
        let at = self.at();
        match self.options.cache {
            PageCacheState::Warm => return Ok(()),
            PageCacheState::Fadvise => {
                let (rank, ranks) = (at.rank as usize, at.ranks as usize);
                cold_cache::forget(paths().into_iter().skip(rank).step_by(ranks.max(1)))?;
            }
            PageCacheState::Drop => cold_cache::drop_all()?,
        }
        self.barrier().map(drop)
    }
}
