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
use forebay_peer::{PeerBlocks, PeerTable};
use forebay_process::{Error, ErrorKind, Result, WarnOnce};
use forebay_source::SourceId;
use forebay_stage::{CloseWhen, RedoFile, StageOptions};
use forebay_store::{Comm, Wait, agree};

use super::{
    byte_spans::ByteSpans,
    data_comm::data_comm,
    drain_watch::DrainWatch,
    own_words::OwnWords,
    parallel_stats::STATS,
    process_area::{process_area, say_trouble},
    rank_board::RankBoard,
    shared_cache,
};

static NOT_AGREED: WarnOnce = WarnOnce::new();
static NOT_SHARED: WarnOnce = WarnOnce::new();

/// What a rank says when all settle: its writes are not in the file.
const NOT_SETTLED: u8 = 0;
/// They are, and a group that loses its link may stay open there.
const GROUP_STAYS: u8 = 1;
/// They are.
const SETTLED: u8 = 2;

/// What ranks have agreed on when they opened a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AgreedUse {
    /// Writes are staged.
    pub(crate) stages: bool,
    /// Reads are cached.
    pub(crate) caches: bool,
    /// Ranks read what others of them have cached.
    pub(crate) shares: bool,
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
    /// A close has failed as not all could be brought into it.
    has_failed_close: AtomicBool,
    /// How often the program has it open.
    handles: AtomicUsize,
    /// A group without links may be open: the links of what is in it end when some rank closes it.
    has_unlinked_groups: AtomicBool,
    /// MPI's atomic mode: every write is seen by all at once.
    is_atomic: AtomicBool,
    /// Writes of all ranks when they last voted; held while they vote, as calls of MPI come one after the other.
    common_writes: Mutex<u64>,
}

/// What all ranks have said at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankVote {
    /// The least of it.
    pub(crate) least: u8,
    /// Some rank has written since they voted before: the same on all ranks.
    pub(crate) has_writes: bool,
    /// Writes that all ranks have made.
    writes: u64,
}

impl RankVote {
    fn of(votes: &[Vec<u8>], last: u64) -> Self {
        let writes_of = |vote: &Vec<u8>| {
            vote.get(1..9).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let writes = votes.iter().fold(0_u64, |sum, vote| sum.wrapping_add(writes_of(vote)));
        let least = votes.iter().map(|vote| vote.first().copied().unwrap_or(0)).min().unwrap_or(0);
        Self { least, has_writes: writes != last, writes }
    }
}

/// What is shared with the other ranks.
#[derive(Debug)]
struct FileRanks {
    comm: Arc<MpiComm>,
    /// By which they read each other's memory.
    data: Arc<dyn Comm>,
    /// What they have cached, of files that are only read.
    cache: Option<PeerTable>,
    /// Of files that are written.
    board: Option<Arc<RankBoard>>,
    staging: Option<DrainWatch>,
}

impl ParallelFile {
    /// The file at `path`, of which `agreed` is the same on all ranks of `comm`. Collective.
    pub(crate) fn new(path: &Path, comm: Arc<MpiComm>, agreed: AgreedUse, own: OwnParts) -> Result<Self> {
        let data = match agreed.shares || agreed.is_writable {
            true => data_comm(&comm)?,
            false => Arc::clone(&comm) as Arc<dyn Comm>,
        };
        let board = own.words.map(|words| RankBoard::new(&*data, words).map(Arc::new)).transpose();
        // A rank that lacks it would leave the others to wait for it.
        let board = agree(&*comm, board, &Wait::while_ranks_live())?;
        let log = own.log.filter(|_| agreed.stages);
        let staging = board.as_ref().zip(log).map(|(board, log)| DrainWatch::new(log, Arc::clone(board)));
        let cache = agreed.shares.then(|| open_cache(path, &comm, &data)).flatten();
        Ok(Self {
            path: path.to_owned(),
            agreed,
            ranks: RwLock::new(Some(FileRanks { comm, data, cache, board, staging })),
            layouts: AtomicU64::new(0),
            seen_writes: AtomicU64::new(0),
            has_failed_close: AtomicBool::new(false),
            handles: AtomicUsize::new(0),
            has_unlinked_groups: AtomicBool::new(false),
            is_atomic: AtomicBool::new(false),
            common_writes: Mutex::default(),
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

    /// A close could not bring all into it; true the first time.
    pub(crate) fn fails_close(&self) -> bool {
        !self.has_failed_close.swap(true, SeqCst)
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
        let Some(FileRanks { comm, data, cache, board, staging }) = ranks else { return Ok(()) };
        let redo = staging.and_then(DrainWatch::end);
        let closed = redo.map_or(Ok(()), |redo| redo.close(CloseWhen::Drained));
        let board = board.map_or(Ok(()), |board| board.close());
        let cache = cache.map_or(Ok(()), |cache| cache.close(&Wait::while_ranks_live()));
        drop((data, comm));
        closed.and(board).and(cache).map_err(|error| error.at(self.path.display()))
    }

    /// What ranks have cached of `source`, where they read each other's.
    pub(crate) fn blocks(&self, source: &SourceId) -> Option<Arc<PeerBlocks>> {
        let blocks = |cache: &PeerTable| cache.has_room().then(|| cache.blocks(source));
        self.with_ranks(|ranks| ranks.cache.as_ref().and_then(blocks)).flatten()
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
        let passes = self.is_atomic.load(SeqCst) || self.has_unlinked_groups.load(SeqCst);
        self.agreed.stages && !passes && self.with_ranks(|_| ()).is_some()
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
        match writes {
            Some(writes) => self.seen_writes.swap(writes, SeqCst) != writes,
            // Of a file whose handles are closed while its data sets are open nobody tells what others write.
            None => self.agreed.is_writable,
        }
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
            let ordered = board.await_overlaps(&*ranks.data, spans);
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
            (Some(board), Some(_)) => board.await_others(&*ranks.data),
            _ => Ok(()),
        });
        awaited.unwrap_or(Ok(())).map_err(|error| error.at(self.path.display()))
    }

    /// Brings all that any rank has written into the file. Collective: all ranks fail if one does.
    pub(crate) fn settle(&self) -> Result<()> {
        self.settle_saying(SETTLED).map(drop)
    }

    /// As [`settle`](Self::settle), before a link is deleted. Where a group may stay open on some rank without links, nothing is
    /// staged from then on.
    pub(crate) fn settle_before_delete(&self, may_stay: bool) -> Result<()> {
        if self.settle_saying(if may_stay { GROUP_STAYS } else { SETTLED })? == GROUP_STAYS {
            self.has_unlinked_groups.store(true, SeqCst);
        }
        Ok(())
    }

    /// Settles, and gives the least of what all ranks say.
    fn settle_saying(&self, mine: u8) -> Result<u8> {
        if !self.agreed.stages {
            return Ok(SETTLED);
        }
        let drained = self.drain_own();
        let mine = if drained.is_ok() { mine } else { NOT_SETTLED };
        let Some(outcome) = self.vote(mine) else { return drained.map(|()| SETTLED) };
        STATS.settled();
        drained?;
        match outcome?.least {
            NOT_SETTLED => {
                let what = "staged writes of another rank could not be written";
                Err(Error::new(ErrorKind::Io, what).at(self.path.display()))
            }
            least => Ok(least),
        }
    }

    /// What all ranks say; `None` once the file is closed. Collective.
    pub(crate) fn vote(&self, mine: u8) -> Option<Result<RankVote>> {
        let mut last = self.common_writes.lock().unwrap_or_else(PoisonError::into_inner);
        self.with_ranks(|ranks| {
            let writes = ranks.board.as_ref().map_or(0, |board| board.own().now().writes);
            let said = [&[mine], &writes.to_le_bytes()[..]].concat();
            let votes = ranks.comm.all_gather(said, &Wait::while_ranks_live());
            if let Err(error) = &votes {
                NOT_AGREED.say(format_args!("{error}; {} is read and written as it is", self.path.display()));
            }
            let vote = RankVote::of(&votes?, *last);
            *last = vote.writes;
            Ok(vote)
        })
    }
}

/// What the ranks have cached; `None` where they cannot read each other's, on all of them. Collective.
fn open_cache(path: &Path, comm: &MpiComm, data: &Arc<dyn Comm>) -> Option<PeerTable> {
    let len = path.metadata().map_or(0, |facts| facts.len());
    shared_cache::open(comm, data, len)
        .inspect_err(|error| NOT_SHARED.say(format_args!("{error}; each rank caches on its own")))
        .ok()
}

/// What a rank brings to a file that is written: made before the ranks agree, so that none fails on its own afterwards.
#[derive(Debug, Default)]
pub(crate) struct OwnParts {
    pub(crate) words: Option<OwnWords>,
    /// Where writes can be staged.
    pub(crate) log: Option<RedoFile>,
}

impl OwnParts {
    /// Those for `opened`.
    pub(crate) fn prepare(opened: &OpenedFile) -> Self {
        let Some(path) = opened.path.as_deref().filter(|_| opened.is_writable) else {
            return Self::default();
        };
        let log = process_area().filter(|_| opened.has_plain_bytes).and_then(|_| open_log(path).ok());
        Self { words: OwnWords::new().ok(), log }
    }
}

/// What this rank knows of the file once HDF5 has opened it.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    /// Where it lies, if this rank manages it and HDF5 could open it.
    pub(crate) path: Option<PathBuf>,
    /// It was opened for writing.
    pub(crate) is_writable: bool,
    /// Reads of it may be cached.
    pub(crate) caches: bool,
    /// HDF5's addresses are places in the file.
    pub(crate) has_plain_bytes: bool,
}

/// A log for the file at `path`, which all ranks write.
fn open_log(path: &Path) -> Result<RedoFile> {
    let area = process_area().ok_or_else(|| Error::invalid("no staging area"))?;
    say_trouble(area);
    let file = File::options().read(true).write(true).open(path);
    let file = file.map_err(|error| Error::from_io(error).at(path.display()))?;
    // The other ranks and HDF5 itself write to it too.
    area.update(path, file, StageOptions { is_shared: true, ..StageOptions::default() })
}
