//! A file that several ranks have open by MPI-IO.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
};

use forebay_mpi::MpiComm;
use forebay_plugin::WarnOnce;
use forebay_source::{Error, ErrorKind, Result};
use forebay_stage::{CloseWhen, StageOptions};
use forebay_store::{Comm, Wait};

use super::{
    byte_spans::ByteSpans,
    drain_watch::DrainWatch,
    parallel_stats::STATS,
    process_area::{process_area, say_trouble},
    rank_board::RankBoard,
};

static NOT_AGREED: WarnOnce = WarnOnce::new();

/// What ranks have agreed on when they opened a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AgreedUse {
    /// Writes are staged.
    pub(crate) stages: bool,
    /// Reads are cached.
    pub(crate) caches: bool,
    /// The file was opened for writing.
    pub(crate) is_writable: bool,
}

/// A file that ranks have open together.
#[derive(Debug)]
pub(crate) struct ParallelFile {
    path: PathBuf,
    pub(crate) agreed: AgreedUse,
    /// The ranks, until the file is closed.
    ranks: RwLock<Option<FileRanks>>,
    /// How often the places of data sets may have changed.
    layouts: AtomicU64,
    /// Writes of other ranks that this one has seen.
    seen_writes: AtomicU64,
    /// How often the program has it open.
    handles: AtomicUsize,
    /// MPI's atomic mode: every write is seen by all at once.
    is_atomic: AtomicBool,
    /// Calls of MPI come one after the other.
    turn: Mutex<()>,
}

/// What is shared with the other ranks.
#[derive(Debug)]
struct FileRanks {
    comm: MpiComm,
    /// Of files that are written.
    board: Option<Arc<RankBoard>>,
    staging: Option<DrainWatch>,
}

impl ParallelFile {
    /// The file at `path`, of which `agreed` is the same on all ranks of `comm`. Collective.
    pub(crate) fn new(path: &Path, comm: MpiComm, agreed: AgreedUse) -> Result<Self> {
        let board = agreed.is_writable.then(|| RankBoard::new(&comm).map(Arc::new)).transpose()?;
        let staging = match (&board, agreed.stages) {
            (Some(board), true) => Some(DrainWatch::new(open_log(path)?, Arc::clone(board))),
            _ => None,
        };
        Ok(Self {
            path: path.to_owned(),
            agreed,
            ranks: RwLock::new(Some(FileRanks { comm, board, staging })),
            layouts: AtomicU64::new(0),
            seen_writes: AtomicU64::new(0),
            handles: AtomicUsize::new(0),
            is_atomic: AtomicBool::new(false),
            turn: Mutex::default(),
        })
    }

    fn with_ranks<R>(&self, body: impl FnOnce(&FileRanks) -> R) -> Option<R> {
        let ranks = self.ranks.read().unwrap_or_else(PoisonError::into_inner);
        ranks.as_ref().map(body)
    }

    /// The program has opened it once more.
    pub(crate) fn opened(&self) {
        self.handles.fetch_add(1, SeqCst);
    }

    /// A handle was closed: with the last one, what was shared with the other ranks is given up. Collective.
    pub(crate) fn closed(&self) -> Result<()> {
        if self.handles.fetch_sub(1, SeqCst) > 1 {
            return Ok(());
        }
        self.end()
    }

    /// Gives up what is shared with the other ranks; everything passes through from now on. Collective.
    pub(crate) fn end(&self) -> Result<()> {
        let ranks = self.ranks.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(FileRanks { comm, board, staging }) = ranks else { return Ok(()) };
        let redo = staging.and_then(DrainWatch::end);
        let closed = redo.map_or(Ok(()), |redo| redo.close(CloseWhen::Drained));
        let board = board.map_or(Ok(()), |board| board.close());
        drop(comm);
        closed.and(board).map_err(|error| error.at(self.path.display()))
    }

    /// How often the places of data sets may have changed.
    pub(crate) fn layout_changes(&self) -> u64 {
        self.layouts.load(SeqCst)
    }

    /// The places of data sets may change.
    pub(crate) fn note_layouts(&self) {
        self.layouts.fetch_add(1, SeqCst);
    }

    /// MPI's atomic mode is switched.
    pub(crate) fn set_atomic(&self, is_atomic: bool) {
        self.is_atomic.store(is_atomic, SeqCst);
    }

    /// True while writes are taken into the log.
    pub(crate) fn stages(&self) -> bool {
        self.agreed.stages && !self.is_atomic.load(SeqCst) && self.with_ranks(|_| ()).is_some()
    }

    /// This rank has written something, by whatever way.
    pub(crate) fn note_write(&self) {
        self.with_ranks(|ranks| ranks.board.as_ref().map(|board| board.own().wrote()));
    }

    /// True when another rank has written since this was asked before.
    pub(crate) fn others_wrote(&self) -> bool {
        let writes = self.with_ranks(|ranks| match &ranks.board {
            Some(board) => board.writes_of_others().unwrap_or(u64::MAX),
            None => 0,
        });
        writes.is_some_and(|writes| self.seen_writes.swap(writes, SeqCst) != writes)
    }

    /// Has the log accept what `write` hands to it, all of it bytes of `spans`; `None` where there is no log.
    pub(crate) fn accept(
        &self,
        spans: &ByteSpans,
        write: impl FnOnce(&dyn Fn(u64, &[u8]) -> Result<()>) -> Result<()>,
    ) -> Option<Result<()>> {
        self.with_ranks(|ranks| {
            let (board, staging) = (ranks.board.as_ref()?, ranks.staging.as_ref()?);
            staging.announce(spans);
            // What another rank wrote to these bytes before comes first.
            let ordered = board.await_overlaps(&ranks.comm, spans);
            let written =
                ordered.and_then(|()| write(&|offset, bytes| staging.redo().write_at(offset, bytes)));
            // What was accepted before an error counts.
            Some(staging.accepted().and(written))
        })
        .flatten()
    }

    /// Returns when all that this rank has written is in the file.
    pub(crate) fn drain_own(&self) -> Result<()> {
        let drained = self.with_ranks(|ranks| ranks.staging.as_ref().map_or(Ok(()), DrainWatch::drain));
        drained.unwrap_or(Ok(())).map_err(|error| error.at(self.path.display()))
    }

    /// Returns when all that any rank had written before the call is in the file. Not collective.
    pub(crate) fn drain_all(&self) -> Result<()> {
        self.drain_own()?;
        let awaited = self.with_ranks(|ranks| match (&ranks.board, &ranks.staging) {
            (Some(board), Some(_)) => board.await_others(&ranks.comm),
            _ => Ok(()),
        });
        awaited.unwrap_or(Ok(())).map_err(|error| error.at(self.path.display()))
    }

    /// Brings all that any rank has written into the file. Collective: all ranks fail if one does.
    pub(crate) fn settle(&self) -> Result<()> {
        if !self.agreed.stages {
            return Ok(());
        }
        let drained = self.drain_own();
        let Some(outcome) = self.vote(u8::from(drained.is_ok())) else { return drained };
        STATS.settled();
        drained?;
        match outcome? {
            0 => {
                let what = "staged writes of another rank could not be written";
                Err(Error::new(ErrorKind::Io, what).at(self.path.display()))
            }
            _ => Ok(()),
        }
    }

    /// The least of what all ranks say; `None` once the file is closed. Collective.
    pub(crate) fn vote(&self, mine: u8) -> Option<Result<u8>> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.with_ranks(|ranks| {
            let votes = ranks.comm.all_gather(vec![mine], &Wait::while_ranks_live());
            if let Err(error) = &votes {
                NOT_AGREED.say(format_args!("{error}; {} is read and written as it is", self.path.display()));
            }
            Ok(votes?.iter().map(|vote| vote.first().copied().unwrap_or(0)).min().unwrap_or(0))
        })
    }
}

/// A log for the file at `path`, which all ranks write.
fn open_log(path: &Path) -> Result<forebay_stage::RedoFile> {
    let area = process_area().ok_or_else(|| Error::invalid("no staging area"))?;
    say_trouble(area);
    let file = File::options().read(true).write(true).open(path);
    let file = file.map_err(|error| Error::from_io(error).at(path.display()))?;
    // The other ranks and HDF5 itself write to it too.
    area.update(path, file, StageOptions { is_shared: true, ..StageOptions::default() })
}
