//! Samples divided anew among the members of a group, after ranks brought as many as they had.

use std::{
    ops::Range,
    sync::{Arc, PoisonError, atomic::Ordering::SeqCst},
};

use forebay_process::Result;

use crate::{
    store::{
        Shelf, Store,
        allocate::{NewVariable, same_on_every_rank},
        filling::{Filling, VariableSpec},
        gather::{FieldGather, PaddingRows},
        partition::{Balance, Partition},
        variable::StoredVariable,
    },
    wait::Wait,
};

/// Bytes that are read at once from where samples lay: enough for batched gets, little beside a shard.
const MOVED_BYTES: u64 = 8 << 20;

impl Store {
    /// Divides the samples of all variables evenly among the members of each group, until the store is sealed. Collective.
    ///
    /// Variables that were begun together move together: meanwhile each rank holds what it had of them and what it will have.
    pub fn restripe(&self, balance: Balance, wait: &Wait<'_>) -> Result<()> {
        self.check_open()?;
        same_on_every_rank(&**self.comm(), "balance", &balance, wait)?;
        let mut start = 0;
        while let Some(old) = self.shelves_together(start) {
            // What is dropped at the end of the round is given back before the next one takes memory.
            self.restripe_together(start, &old, balance, &wait.renewed())?;
            start += old.len();
        }
        Ok(())
    }

    /// The variables from place `start` on that lie in one window; nothing at the end.
    fn shelves_together(&self, start: usize) -> Option<Vec<Shelf>> {
        let shelves = self.variables.read().unwrap_or_else(PoisonError::into_inner);
        let window = &shelves.get(start)?.variable.window;
        let same = shelves[start..].iter().take_while(|shelf| Arc::ptr_eq(&shelf.variable.window, window));
        Some(same.cloned().collect())
    }

    fn restripe_together(&self, at: usize, old: &[Shelf], balance: Balance, wait: &Wait<'_>) -> Result<()> {
        let bytes = |variable: &StoredVariable| {
            variable.lens.total().saturating_mul(variable.row_len * variable.runs)
        };
        let Some(largest) = old.iter().max_by_key(|shelf| bytes(&shelf.variable)) else { return Ok(()) };
        let partition = Partition::even(&largest.variable.lens, self.member().1, balance);
        let new = |shelf: &Shelf| NewVariable {
            spec: VariableSpec {
                name: shelf.variable.name.clone(),
                description: shelf.variable.description.clone(),
                row_len: shelf.variable.row_len,
                runs: shelf.variable.runs,
            },
            lens: shelf.variable.lens.clone(),
            partition: partition.clone(),
        };
        // What was updated since is read here too.
        old[0].variable.window.publish(wait)?;
        let filling = self.take_memory(old.iter().map(new).collect(), wait)?;
        let moved = old.iter().enumerate().try_for_each(|(number, shelf)| {
            let samples = partition.samples_of(self.member().0);
            self.move_samples(&filling, number, &shelf.variable, samples, wait)
        });
        let made = self.published(filling, moved, &wait.renewed())?;
        let mut known = self.variables.write().unwrap_or_else(PoisonError::into_inner);
        known.splice(at..at + made.len(), made).for_each(drop);
        drop(known);
        self.shard_bytes.fetch_sub(old[0].shard.len(), SeqCst);
        old[0].variable.window.close(wait)
    }

    /// Copies `samples` from where they lay.
    fn move_samples(
        &self,
        filling: &Filling,
        number: usize,
        variable: &StoredVariable,
        samples: Range<u64>,
        wait: &Wait<'_>,
    ) -> Result<()> {
        let mut bytes = Vec::new();
        let mut next = samples.start;
        while next < samples.end {
            // It takes as long as there are bytes: only an interrupt ends it.
            wait.renewed().go_on(String::new)?;
            let first = next;
            let mut len = 0;
            // A batch joins samples of several runs run by run: those move one by one.
            while next < samples.end && (next == first || (variable.runs == 1 && len < MOVED_BYTES)) {
                len += variable.sample_len(next)?;
                next += 1;
            }
            bytes.resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
            let wanted: Vec<_> = (first..next).map(Some).collect();
            self.get_batch([FieldGather {
                variable,
                samples: &wanted,
                padding: PaddingRows::Each(0),
                into: &mut bytes,
            }])?;
            filling.write(number, first, &bytes)?;
        }
        Ok(())
    }
}
