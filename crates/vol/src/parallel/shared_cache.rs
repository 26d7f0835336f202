//! The cache that ranks have in common: a part for each host, read by all through a window that is made and freed with a file.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use forebay_config::{Amount, PeerReads, TierConfig};
use forebay_mpi::{MpiComm, passive_progress};
use forebay_peercache::{HostShard, PeerCache};
use forebay_source::{Error, Grant, Result, ledger};
use forebay_store::{Comm, ShardPlace, Wait};
use forebay_tcp::tcp_over;
use forebay_units::unit_grid::block_len;

use super::{parallel_stats::STATS, rank_board::agreed};
use crate::settings;

/// The part of this host, where this process leads its ranks: it outlives the files, so that what was read once is there when a
/// file is opened again.
static OWN_PART: Mutex<Option<LedPart>> = Mutex::new(None);
/// Whether MPI serves gets from ranks that compute, once that was tried.
static SERVES_COMPUTING: OnceLock<bool> = OnceLock::new();

#[derive(Debug)]
struct LedPart {
    shard: Arc<HostShard>,
    _memory: Option<Grant>,
}

/// True where this rank would read what the others of `comm` have cached: its cache is in memory, or others have other disks.
pub(crate) fn is_wanted(comm: &MpiComm) -> bool {
    let settings = settings::current();
    let is_shared_anyway = comm.is_one_host() && matches!(settings.place, Some(TierConfig::Disk(_)));
    settings.peers == PeerReads::Auto && comm.size() > 1 && settings.place.is_some() && !is_shared_anyway
}

/// The cache of the ranks of `comm`, for a file of `file_len` bytes; an error is one on all ranks. Collective.
pub(crate) fn open(comm: &Arc<MpiComm>, file_len: u64) -> Result<PeerCache> {
    let wait = Wait::while_ranks_live();
    let (quota, block_len) = (quota(file_len), block_len(settings::current().unit));
    let said = comm.all_gather([quota.to_le_bytes(), block_len.to_le_bytes()].concat(), &wait)?;
    let words = |rank: usize, at: usize| {
        said[rank].get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    if (0..comm.size()).any(|rank| words(rank, 8) != block_len) {
        return Err(Error::invalid("ranks have units of different lengths").at("FOREBAY_HDF5_UNIT"));
    }
    let host = comm.host_of(comm.rank());
    let here = (0..comm.size()).filter(|rank| comm.host_of(*rank) == host);
    let is_leader = PeerCache::leader(&**comm) == comm.rank();
    let whole = here.fold(0_u64, |sum, rank| sum.saturating_add(words(rank, 0)));
    // A host without a part reads those of others.
    let part = is_leader.then(|| led_part(whole, quota, block_len).ok()).flatten();
    let data = agreed(comm, data_comm(comm, &wait))?;
    let opened = PeerCache::open(data, part.as_deref(), STATS.peers(), &wait);
    agreed(comm, opened)
}

/// How the bytes of other hosts travel: by MPI where it serves ranks that compute, by TCP where it does not. Collective.
fn data_comm(comm: &Arc<MpiComm>, wait: &Wait<'_>) -> Result<Arc<dyn Comm>> {
    if comm.is_one_host() {
        return Ok(Arc::clone(comm) as Arc<dyn Comm>);
    }
    let known = SERVES_COMPUTING.get().copied();
    let said = comm.all_gather(vec![known.map_or(2, u8::from)], wait)?;
    let is_known = said.iter().all(|one| one.first() != Some(&2));
    let serves = match is_known {
        true => said.iter().all(|one| one.first() == Some(&1)),
        // An error means that MPI has no gets between these hosts.
        false => *SERVES_COMPUTING.get_or_init(|| passive_progress(comm, wait).unwrap_or(false)),
    };
    let serves = comm.all_gather(vec![u8::from(serves)], wait)?.iter().all(|one| one.first() == Some(&1));
    if serves {
        return Ok(Arc::clone(comm) as Arc<dyn Comm>);
    }
    let secret = std::env::var_os("FOREBAY_STORE_SECRET_FILE").filter(|path| !path.is_empty());
    Ok(Arc::new(tcp_over(&**comm, secret.map(PathBuf::from), wait)?))
}

/// The bytes that this rank adds to the part of its host.
fn quota(file_len: u64) -> u64 {
    match &settings::current().place {
        Some(TierConfig::Memory { quota }) => quota.of(ledger().share()),
        // All of it is taken at once: not more than the file may ever need.
        Some(TierConfig::Disk(disk)) => match disk.quota {
            Amount::Bytes(bytes) => bytes.min(file_len.saturating_mul(2)),
            Amount::Percent(_) => file_len.saturating_mul(2),
        },
        _ => 0,
    }
}

/// The part of this host, of which this process leads the ranks: the one that it has, or a new one.
fn led_part(whole: u64, own: u64, block_len: u64) -> Result<Arc<HostShard>> {
    let mut part = OWN_PART.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(part) = part.as_ref().filter(|part| part.shard.block_len() == block_len) {
        return Ok(Arc::clone(&part.shard));
    }
    let (quota, place, memory) = match &settings::current().place {
        Some(TierConfig::Disk(disk)) => (own, ShardPlace::Disk(disk.path.clone()), None),
        _ => (whole, ShardPlace::Memory, Some(ledger().take("HDF5 cache of ranks", whole))),
    };
    let shard = Arc::new(HostShard::new(quota, block_len, &place)?);
    *part = Some(LedPart { shard: Arc::clone(&shard), _memory: memory });
    Ok(shard)
}
