//! What comes before the first step of an epoch: files that are all there, a page cache as it is asked for, the order of the samples.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
};

use forebay::{
    Error, ErrorKind, Launcher, Result,
    store::{Comm, Wait},
};
use forebay_workload::{EpochOrder, FileFormat, LoaderKind, Split};

use crate::{
    dataset_files,
    interruption::{GLANCE, interrupted},
    phases::cold_cache,
    ranks::rank_run::{PageCacheState, RankRun},
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
    /// Ranks of an MPI job leave it together, as they may read together.
    pub(crate) fn epoch_order(&self, split: Split, epoch: u32) -> Result<EpochOrder> {
        let (at, dataset) = (self.at(), &self.workload.dataset);
        let samples = split.file_count(dataset).saturating_mul(dataset.num_samples_per_file);
        if samples < MANY_SAMPLES {
            return EpochOrder::new(self.workload, split, epoch, at);
        }
        let (workload, (to, from)) = (self.workload.clone(), mpsc::channel());
        thread::spawn(move || {
            // After an interrupt nobody waits for it.
            let _ = to.send(EpochOrder::new(&workload, split, epoch, at));
        });
        let made = loop {
            if let Err(interrupted) = self.check() {
                break Err(interrupted);
            }
            match from.recv_timeout(GLANCE) {
                Ok(order) => break order,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    break Err(Error::new(ErrorKind::Bug, "the order of an epoch was not made"));
                }
            }
        };
        match Launcher::of_process() {
            Launcher::Mpi => leave_together(self.comm, made),
            _ => made,
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

/// What this rank has `made`, unless another rank has an error. Collective: none leaves before all have come.
fn leave_together<T>(comm: &dyn Comm, made: Result<T>) -> Result<T> {
    let errors = comm.all_gather(vec![u8::from(made.is_err())], &Wait::while_ranks_live());
    let made = made?;
    if errors?.iter().any(|error| *error != [0]) {
        return Err(interrupted());
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay::store::LocalComm;

    use super::*;
    use crate::interruption::is_interruption;

    #[test]
    fn ranks_of_which_one_was_interrupted_leave_together() {
        for interrupted_rank in [Some(1), None] {
            let ranks = LocalComm::on_hosts(&[0, 0, 0]).into_iter().map(Arc::new).enumerate();
            let threads: Vec<_> = ranks
                .map(|(rank, comm)| {
                    let made = if interrupted_rank == Some(rank) { Err(interrupted()) } else { Ok(rank) };
                    thread::spawn(move || leave_together(&*comm, made))
                })
                .collect();
            for (rank, thread) in threads.into_iter().enumerate() {
                let left = thread.join().unwrap();
                match interrupted_rank {
                    Some(_) => assert!(is_interruption(&left.unwrap_err())),
                    None => assert_eq!(left.unwrap(), rank),
                }
            }
        }
    }
}
