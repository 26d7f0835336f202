//! Samples in shuffled and deflated chunks: each chunk is decoded once, and samples are copied out in the order asked.

use std::{
    hint::black_box,
    ops::Range,
    sync::{Mutex, PoisonError},
};

use libdeflater::Decompressor;
use memmap2::Mmap;

use crate::{
    Limit, Options, Outcome,
    arena::{Arena, Pages},
    mapped::map,
    table::Chunks,
};

const ELEMENT_LEN: usize = 4;

/// A chunk that waits for its samples to be asked for.
#[derive(Default)]
struct Slot<'a> {
    decoded: Option<&'a mut [u8]>,
    taken: usize,
}

pub(crate) struct Decoder<'a> {
    table: &'a Chunks,
    files: Vec<Mmap>,
    slots: Vec<Mutex<Slot<'a>>>,
    /// Places for chunks; those whose samples are all out come back, and are taken first.
    free: Mutex<Vec<&'a mut [u8]>>,
    batch: usize,
    pages: Pages,
    keep: bool,
}

pub(crate) struct Worker {
    inflater: Decompressor,
    planes: Vec<u8>,
    batch: Arena,
}

/// Room for all chunks at once.
pub(crate) fn arena(table: &Chunks, pages: Pages) -> Outcome<Arena> {
    Arena::new(table.chunks.len() * chunk_len(table), pages)
}

fn chunk_len(table: &Chunks) -> usize {
    table.samples_per_chunk * table.sample_len
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Brings the bytes of each element together again.
fn unshuffle(planes: &[u8], into: &mut [u8]) {
    let count = into.len() / ELEMENT_LEN;
    let (first, rest) = planes.split_at(count);
    let (second, rest) = rest.split_at(count);
    let (third, fourth) = rest.split_at(count);
    let bytes = first.iter().zip(second).zip(third).zip(fourth);
    for (element, (((first, second), third), fourth)) in into.chunks_exact_mut(ELEMENT_LEN).zip(bytes) {
        element.copy_from_slice(&[*first, *second, *third, *fourth]);
    }
}

impl<'a> Decoder<'a> {
    pub(crate) fn open(table: &'a Chunks, arena: &'a mut [u8], options: &Options) -> Outcome<Self> {
        let files = table.paths.iter().map(|path| map(path)).collect::<Outcome<_>>()?;
        let slots = table.chunks.iter().map(|_| Mutex::default()).collect();
        let free = arena.chunks_exact_mut(chunk_len(table)).rev().collect();
        let Options { batch, pages, keep, .. } = *options;
        Ok(Self { table, files, slots, free: Mutex::new(free), batch, pages, keep })
    }

    fn decode(&self, chunk: usize, worker: &mut Worker) -> Outcome<&'a mut [u8]> {
        let place = locked(&self.free).pop().ok_or("there are more chunks than places")?;
        let stored = self.table.chunks[chunk].of(&self.files)?;
        if worker.inflater.zlib_decompress(stored, &mut worker.planes)? != place.len() {
            return Err("a chunk is shorter than the table says".into());
        }
        unshuffle(&worker.planes, place);
        Ok(place)
    }

    /// Copies one sample, decoding its chunk if it is the first asked for.
    fn copy(&self, sample: usize, worker: &mut Worker, at: usize) -> Outcome<()> {
        let (chunk, row) = (sample / self.table.samples_per_chunk, sample % self.table.samples_per_chunk);
        let len = self.table.sample_len;
        let mut slot = locked(&self.slots[chunk]);
        let decoded = match slot.decoded.take() {
            Some(decoded) => decoded,
            None => self.decode(chunk, worker)?,
        };
        worker.batch.bytes()[at * len..][..len].copy_from_slice(&decoded[row * len..][..len]);
        slot.taken += 1;
        if slot.taken == self.table.samples_per_chunk && !self.keep {
            slot.taken = 0;
            locked(&self.free).push(decoded);
        } else {
            slot.decoded = Some(decoded);
        }
        Ok(())
    }
}

impl Limit for Decoder<'_> {
    type Worker = Worker;

    fn worker(&self) -> Outcome<Worker> {
        Ok(Worker {
            inflater: Decompressor::new(),
            planes: vec![0; chunk_len(self.table)],
            batch: Arena::new(self.batch * self.table.sample_len, self.pages)?,
        })
    }

    fn fill(&self, positions: Range<usize>, worker: &mut Worker) -> Outcome<()> {
        for (at, sample) in self.table.order[positions].iter().enumerate() {
            self.copy(*sample, worker, at)?;
        }
        black_box(worker.batch.bytes());
        Ok(())
    }
}
