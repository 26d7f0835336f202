//! How the memory of a loader is divided among batches, threads and decoded units: arithmetic.

use forebay_plan::Shuffle;
use forebay_process::{Error, ErrorKind, Result};

use crate::{assemble::convert_sample::scratch_len, layout::SetLayout, options::Options, set::SampleSet};

/// How the memory of a loader is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Threads that make batches: as many as were asked for and memory has room for.
    pub threads: usize,
    /// The most there are of them, with those that wait for data meanwhile.
    pub most_threads: usize,
    /// Batches that are made and not yet taken; none where each is made when it is asked for.
    pub ahead: u64,
    /// Batches that a thread makes one after the other, as one request brings the data of all of them.
    pub run_len: u64,
    /// Bytes for decoded units.
    pub cache: u64,
    /// Bytes for everything.
    pub memory: u64,
}

/// What a loader needs memory for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Bytes of a batch.
    pub(crate) batch: u64,
    /// Bytes of the largest unit.
    pub(crate) unit: u64,
    /// Bytes a thread needs besides the unit it decodes: stored bytes, what lies between filters, samples on their way.
    pub(crate) besides: u64,
    /// Bytes that all units take.
    pub(crate) all_units: u64,
    /// Threads that were asked for.
    pub(crate) threads: u64,
    /// Threads that may be needed besides, because they wait for data.
    pub(crate) waiting: u64,
    /// Batches that are to be made ahead; 0 where each is to be made when it is asked for.
    pub(crate) prefetch: u64,
    /// Batches in a row that lie in one far unit: threads that each made one of them would all wait for the same request.
    pub(crate) run_len: u64,
    /// Batches that the consumer holds at a time besides the two that any has.
    pub(crate) held: u64,
}

impl Needs {
    /// What `options` ask for of `set`, with `threads` threads and about `memory` bytes.
    pub(crate) fn of(
        options: &Options,
        set: &SampleSet,
        layout: &SetLayout,
        threads: usize,
        memory: u64,
    ) -> Self {
        let batch = options.batch_size.min(set.len());
        let columns = set.columns.iter().zip(&layout.columns);
        let has_heap = set.columns.iter().any(|column| column.elements.is_some());
        let heap = if has_heap { HEAP_BYTES.min(memory / 8) } else { 0 };
        // What a few samples say of the others refuses no memory.
        let variable = set.usual_variable_len().saturating_mul(batch).min(memory / 8);
        let batch_len = set.fixed_len().saturating_mul(batch).saturating_add(variable).max(1);
        // Samples that are drawn do not lie in a row.
        let is_in_order = options.shuffle == Shuffle::None && options.sampler.draws.is_none();
        let is_far_in_order = is_in_order && layout.request_bytes > 0;
        let changed = columns.map(|(column, layout)| scratch_len(column, layout, batch)).max().unwrap_or(0);
        Self {
            batch: batch_len,
            unit: layout.largest_unit,
            besides: changed.saturating_add(layout.besides_unit).saturating_add(heap),
            all_units: layout.unit_count.saturating_mul(room_of(layout.largest_unit)),
            threads: threads as u64,
            waiting: waiting(layout),
            prefetch: options.prefetch as u64,
            run_len: if is_far_in_order { layout.largest_unit / batch_len } else { 1 },
            held: (options.held as u64).saturating_sub(2),
        }
    }
}

impl Shares {
    /// How `memory` bytes are divided among `needs`.
    pub(crate) fn of(memory: u64, needs: &Needs) -> Result<Self> {
        let &Needs { batch, unit, besides, .. } = needs;
        // The least that works: a batch of the consumer's and one that one thread makes, from two units.
        let least = batch.saturating_mul(2).saturating_add(unit.saturating_mul(2)).saturating_add(besides);
        if least > memory {
            let what = format!(
                "memory={memory} is too little for batches of {batch} bytes, units of {unit} bytes, and {besides} bytes to \
                 read, decode and convert them in"
            );
            return Err(Error::new(ErrorKind::Full, what).hint("set memory higher, or batch_size lower"));
        }
        let (room, units) = (room_of(batch), unit.saturating_mul(2));
        let each = room_of(unit).saturating_add(besides);
        let threads = needs.threads_within(memory, each);
        let ahead = needs.ahead_within(memory, each.saturating_mul(threads), threads);
        let waiting = if ahead == 0 { 0 } else { needs.waiting_within(memory, each) };
        let scratch = each.saturating_mul(threads + waiting);
        let (ahead, most) = (ahead + waiting, threads + waiting);
        let in_flight = room.saturating_mul(ahead.saturating_add(needs.held).saturating_add(2));
        let slack = (memory / 16).min(8 << 20);
        let cache = memory.saturating_sub(in_flight.saturating_add(slack).saturating_add(scratch)).max(units);
        let count = |threads: u64| usize::try_from(threads).unwrap_or(1);
        // Units of all runs on their way must stay until their last batch is made.
        let wanted = needs.run_len.min(ahead / (threads + 1)).max(1);
        let run_len = if cache / unit.max(1) > ahead / wanted + 1 { wanted } else { 1 };
        Ok(Self { threads: count(threads), most_threads: count(most), ahead, run_len, cache, memory })
    }

    /// Bytes that are not the cache's.
    pub(crate) fn fixed(self) -> u64 {
        self.memory.saturating_sub(self.cache)
    }

    /// The least bytes it works with as it is, and the most it can use.
    pub(crate) fn bounds(self, needs: &Needs) -> (u64, u64) {
        let least_cache = needs.unit.saturating_mul(2);
        let with = |cache: u64| self.fixed().saturating_add(cache);
        (with(least_cache.min(self.cache)), with(needs.all_units.max(least_cache)))
    }
}

impl Needs {
    /// Threads of which each takes `each` bytes: at most a quarter of all, and no more than leaves room for a batch ahead.
    fn threads_within(&self, memory: u64, each: u64) -> u64 {
        let fitting = |bytes: u64| bytes.checked_div(each).unwrap_or(u64::MAX);
        let rest = memory.saturating_sub(self.least_ahead());
        self.threads.min(fitting(memory / 4)).min(fitting(rest)).max(1)
    }

    /// Batches ahead, where threads take `scratch` bytes. Batches take at most half; one is made ahead wherever it fits.
    fn ahead_within(&self, memory: u64, scratch: u64, threads: u64) -> u64 {
        if self.prefetch == 0 {
            return 0;
        }
        // Two are the consumer's: one it is given while it still holds the one before.
        let rest = memory.saturating_sub(self.unit.saturating_mul(2)).min(memory / 2).saturating_sub(scratch);
        let fitting = (rest / room_of(self.batch)).saturating_sub(2);
        // With those that the consumer holds besides, they are within all of it.
        let all = memory.saturating_sub(self.unit.saturating_mul(2)).saturating_sub(scratch);
        let fitting = fitting.min((all / room_of(self.batch)).saturating_sub(self.held.saturating_add(2)));
        let has_room = self.least_ahead().saturating_add(scratch) <= memory;
        // Units that stay for the next epoch have better use of memory than long runs.
        let wanted = self.prefetch + threads;
        let in_runs = wanted.saturating_mul(self.run_len).min(memory / 8 / room_of(self.batch)).max(wanted);
        fitting.min(in_runs).max(u64::from(has_room))
    }

    /// Threads that wait for data, each with a batch of its own, where one takes `each` bytes besides.
    fn waiting_within(&self, memory: u64, each: u64) -> u64 {
        // Where there are no units, memory has no better use.
        let part = if self.unit == 0 { memory / 4 } else { memory / 8 };
        let one = room_of(self.batch).saturating_add(each);
        self.waiting.min(part.min(MOST_WAITING_BYTES) / one.max(1))
    }

    /// Bytes of the units that `threads` threads decode at a time.
    pub(crate) fn decoding_bytes(&self, threads: usize) -> u64 {
        room_of(self.unit).saturating_mul(threads as u64)
    }

    /// Bytes with which one thread makes a batch ahead.
    pub(crate) fn enough(&self) -> u64 {
        let each = room_of(self.unit).saturating_add(self.besides);
        // A sixteenth is slack.
        let all = self.least_ahead().saturating_add(each);
        all.saturating_add(all / 15)
    }

    /// Bytes of two batches of the consumer's, one ahead, and two units.
    fn least_ahead(&self) -> u64 {
        room_of(self.batch).saturating_mul(3).saturating_add(self.unit.saturating_mul(2))
    }
}

/// Bytes of a heap that a thread holds while it looks for texts and sequences.
const HEAP_BYTES: u64 = 512 << 10;

/// Threads that wait for far data, at the most: as many as `run_concurrently` has requests that wait.
const MOST_WAITING_FAR: u64 = 64;
/// Threads that wait for a local disk, at the most: the depth of the bare loop of `benches/waiting.py`.
const MOST_WAITING_NEAR: u64 = 16;

/// Bytes that are on their way to threads that wait, at the most: what a line of 100 Gbit/s brings within 20 ms.
const MOST_WAITING_BYTES: u64 = 256 << 20;

/// Threads that may be needed to wait for data besides those that work.
fn waiting(layout: &SetLayout) -> u64 {
    if layout.request_bytes > 0 {
        return MOST_WAITING_FAR;
    }
    // To decode takes longer than to read from a disk of this machine.
    if layout.unit_count > 0 { 0 } else { MOST_WAITING_NEAR }
}

/// Bytes of memory that `len` bytes take as one buffer; those of a batch's fields apart take hardly more.
pub(crate) fn room_of(len: u64) -> u64 {
    match usize::try_from(len) {
        Ok(0) => 0,
        Ok(len) => forebay_batch::room(len) as u64,
        Err(_) => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Threads, units and memory from little to more than any machine has.
    fn table() -> impl Iterator<Item = (u64, Needs)> {
        let memories =
            [1u64, 5, 16, 64, 100, 256, 1 << 10, 12 << 10, 1 << 20].map(|mebibytes| mebibytes * MIB);
        let units = [0, 4 << 10, 256 << 10, MIB, 4 * MIB, 16 * MIB, 128 * MIB, 1 << 30];
        memories.into_iter().flat_map(move |memory| {
            units.into_iter().flat_map(move |unit| {
                [1, 2, 3, 8, 16, 64, 256, 1024].into_iter().flat_map(move |threads| {
                    [4 << 10, MIB, 8 * MIB, 100 * MIB].map(move |batch| {
                        let besides = unit * 3;
                        let needs = Needs { batch, unit, besides, threads, prefetch: 4, ..Needs::default() };
                        (memory, Needs { waiting: if threads == 3 { 0 } else { 64 }, ..needs })
                    })
                })
            })
        })
    }

    #[test]
    fn a_batch_is_made_ahead_wherever_one_fits_however_many_threads_are_asked_for() {
        let mut seen = 0;
        for (memory, needs) in table() {
            let Ok(shares) = Shares::of(memory, &needs) else { continue };
            let each = room_of(needs.unit) + needs.besides;
            let fits = needs.least_ahead() + each <= memory;
            assert_eq!(shares.ahead > 0, fits, "{memory} bytes, {needs:?}: {shares:?}");
            assert!((1..=needs.threads).contains(&(shares.threads as u64)), "{needs:?}: {shares:?}");
            seen += u64::from(fits);
        }
        assert!(seen > 500, "{seen}");
    }

    #[test]
    fn more_threads_never_mean_fewer_of_them_or_fewer_batches_than_memory_has_room_for() {
        for (memory, needs) in table() {
            let Ok(one) = Shares::of(memory, &Needs { threads: 1, ..needs }) else { continue };
            let Ok(many) = Shares::of(memory, &needs) else { panic!("{memory} bytes, {needs:?}") };
            assert!(
                many.threads >= one.threads && (many.ahead > 0) == (one.ahead > 0),
                "{needs:?}: {many:?}"
            );
        }
    }

    #[test]
    fn all_that_is_taken_fits_into_memory_where_more_than_the_least_does() {
        for (memory, needs) in table() {
            let Ok(shares) = Shares::of(memory, &needs) else { continue };
            if shares.ahead == 0 {
                continue;
            }
            let each = room_of(needs.unit) + needs.besides;
            let batches = room_of(needs.batch) * (shares.ahead + 2);
            let all = batches + each * shares.most_threads as u64 + shares.cache;
            assert!(all <= memory, "{memory} bytes, {needs:?}: {shares:?} come to {all}");
        }
    }

    #[test]
    fn sixty_four_threads_of_large_chunks_leave_batches_ahead() {
        let needs = Needs { batch: MIB, unit: 4 * MIB, threads: 64, prefetch: 4, ..Needs::default() };
        let shares = Shares::of(256 * MIB, &needs).unwrap();
        assert!(shares.ahead > 4 && shares.threads >= 8, "{shares:?}");
    }

    #[test]
    fn no_batch_is_made_ahead_where_none_is_wanted() {
        let needs = Needs { batch: MIB, threads: 8, prefetch: 0, ..Needs::default() };
        assert_eq!(Shares::of(1 << 30, &needs).unwrap().ahead, 0);
    }

    #[test]
    fn a_small_set_has_use_for_little_of_what_it_is_offered() {
        let needs =
            Needs { batch: MIB, unit: MIB, all_units: 10 * MIB, threads: 2, prefetch: 4, ..Needs::default() };
        let shares = Shares::of(8 << 30, &needs).unwrap();
        let (least, most) = shares.bounds(&needs);
        assert_eq!((least, most), (shares.fixed() + 2 * MIB, shares.fixed() + 10 * MIB));
        assert!(most < 64 * MIB, "{most}");
        let large = Needs { all_units: 1 << 40, ..needs };
        assert!(shares.bounds(&large).1 > 8 << 30);
    }
}
