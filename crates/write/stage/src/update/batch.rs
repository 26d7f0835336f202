//! A part of what is pending for a file, cut into jobs that several threads do at once.

use std::collections::VecDeque;

use forebay_process::Error;

use crate::update::pending::PendingPiece;

/// A drain begins when so much is pending: what lies side by side in it goes as one.
pub(crate) const BATCH_BYTES: u64 = 32 << 20;
/// A job has at most so many runs: where each takes its time, as behind a network, threads share them.
const MOST_RUNS: usize = 8;

/// Pieces that lie one behind the other in the file, and are written as one.
pub(crate) type MergedRun = Vec<PendingPiece>;

/// The length that a file has to be cut to, and the one it has to have afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truncation {
    pub(crate) cut: u64,
    pub(crate) len: u64,
}

impl Truncation {
    /// Both, the one after the other.
    pub(crate) fn then(before: Option<Self>, len: u64) -> Self {
        Self { cut: before.map_or(len, |before| before.cut.min(len)), len }
    }
}

/// Pieces on their way to the destination; no other batch of the file is, so that overlapping writes stay in order.
#[derive(Debug)]
pub(crate) struct DrainBatch {
    pub(crate) jobs: VecDeque<Vec<MergedRun>>,
    pub(crate) pieces: Vec<PendingPiece>,
    pub(crate) run_count: u64,
    pub(crate) running: usize,
    /// The first record that is not in the destination when it is done.
    pub(crate) base: u64,
    /// What comes before the first write.
    pub(crate) truncation: Option<Truncation>,
    pub(crate) is_truncating: bool,
    pub(crate) is_finishing: bool,
    pub(crate) error: Option<Error>,
}

impl DrainBatch {
    /// `pieces` in the order of the file, in runs of at most `run_bytes`.
    pub(crate) fn new(
        pieces: Vec<PendingPiece>,
        base: u64,
        truncation: Option<Truncation>,
        run_bytes: u64,
    ) -> Self {
        let runs = runs_of(&pieces, run_bytes);
        let run_count = runs.len() as u64;
        let jobs = jobs_of(runs, run_bytes);
        Self {
            jobs,
            pieces,
            run_count,
            running: 0,
            base,
            truncation,
            is_truncating: false,
            is_finishing: false,
            error: None,
        }
    }

    /// Whether nothing is left but to finish it.
    pub(crate) fn is_done(&self) -> bool {
        self.running == 0 && (self.error.is_some() || (self.jobs.is_empty() && self.truncation.is_none()))
    }
}

fn runs_of(pieces: &[PendingPiece], run_bytes: u64) -> Vec<MergedRun> {
    let mut runs: Vec<MergedRun> = Vec::new();
    let mut len = 0;
    for piece in pieces {
        let mut at = piece.start;
        while at < piece.end {
            let joins = runs.last().and_then(|run| run.last()).is_some_and(|last| last.end == at);
            if !joins || len >= run_bytes {
                runs.push(Vec::new());
                len = 0;
            }
            let end = piece.end.min(at.saturating_add(run_bytes - len));
            if let Some(run) = runs.last_mut() {
                run.push(piece.part(at, end));
            }
            len += end - at;
            at = end;
        }
    }
    runs
}

fn jobs_of(runs: Vec<MergedRun>, run_bytes: u64) -> VecDeque<Vec<MergedRun>> {
    let mut jobs: VecDeque<Vec<MergedRun>> = VecDeque::new();
    let mut len = 0;
    for run in runs {
        let bytes: u64 = run.iter().map(PendingPiece::len).sum();
        let joins = jobs.back().is_some_and(|job| job.len() < MOST_RUNS) && len + bytes <= run_bytes;
        match jobs.back_mut().filter(|_| joins) {
            Some(job) => {
                len += bytes;
                job.push(run);
            }
            None => {
                len = bytes;
                jobs.push_back(vec![run]);
            }
        }
    }
    jobs
}
