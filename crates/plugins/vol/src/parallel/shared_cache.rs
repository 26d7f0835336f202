//! The cache that ranks have in common: a part for each host, read by all through a window that is made and freed with a file.

use std::sync::{Arc, Mutex, PoisonError};

use crate::units::unit_grid::block_len;
use forebay_config::{Amount, PeerReads, TierConfig};
use forebay_mpi::MpiComm;
use forebay_peer::{HostShard, PeerTable};
use forebay_process::{Error, Grant, Result, ledger};
use forebay_store::{Comm, ShardPlace, Wait, agree};

use super::parallel_stats::STATS;
use crate::settings;

/// The part of this host, where this process leads its ranks: it outlives the files, so that what was read once is there when a
/// file is opened again.
static OWN_PART: Mutex<Option<LedPart>> = Mutex::new(None);

#[derive(Debug)]
struct LedPart {
    shard: Arc<HostShard>,
    _memory: Option<Grant>,
}

/// True where this rank would read what the others of `comm` have cached.
pub(crate) fn is_wanted(comm: &MpiComm) -> bool {
    let settings = settings::current();
    // A folder that all nodes share is one cache for them as it is.
    let is_global = matches!(&settings.place, Some(TierConfig::Disk(disk)) if disk.keep);
    settings.peers == PeerReads::Auto && comm.size() > 1 && settings.place.is_some() && !is_global
}

/// The cache of the ranks of `comm`, for a file of `file_len` bytes, read through windows of `data`; an error is one on all ranks.
/// Collective.
pub(crate) fn open(comm: &MpiComm, data: &Arc<dyn Comm>, file_len: u64) -> Result<PeerTable> {
    let wait = Wait::while_ranks_live();
    let (quota, block_len) = (quota(file_len), block_len(settings::current().unit));
    let said = comm.all_gather([quota.to_le_bytes(), block_len.to_le_bytes()].concat(), &wait)?;
    let words = |rank: usize, at: usize| {
        said[rank].get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    if (0..comm.size()).any(|rank| words(rank, 8) != block_len) {
        return Err(Error::invalid("ranks have units of different lengths").at("FOREBAY_HDF5_UNIT"));
    }
    let host = data.host_of(data.rank());
    let here = (0..data.size()).filter(|rank| data.host_of(*rank) == host);
    let is_leader = PeerTable::leader(&**data) == comm.rank();
    let whole = here.fold(0_u64, |sum, rank| sum.saturating_add(words(rank, 0)));
    // The ranks of a host without a part cache on their own.
    let part = is_leader.then(|| led_part(whole, quota, block_len).ok()).flatten();
    agree(comm, PeerTable::open(Arc::clone(data), part.as_deref(), STATS.peers(), &wait), &wait)
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

/// The part of this host, of which this process leads the ranks: the one that it has, or a new one where that is too small.
fn led_part(whole: u64, own: u64, block_len: u64) -> Result<Arc<HostShard>> {
    let (quota, place) = match &settings::current().place {
        Some(TierConfig::Disk(disk)) => (own, ShardPlace::Disk(disk.path.clone())),
        _ => (whole, ShardPlace::Memory),
    };
    let mut part = OWN_PART.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(part) = part.as_ref().filter(|part| part.shard.has_room_for(quota, block_len)) {
        return Ok(Arc::clone(&part.shard));
    }
    let memory = (place == ShardPlace::Memory).then(|| ledger().take("HDF5 cache of ranks", quota));
    match (HostShard::new(quota, block_len, &place), &*part) {
        (Ok(shard), _) => {
            let shard = Arc::new(shard);
            *part = Some(LedPart { shard: Arc::clone(&shard), _memory: memory });
            Ok(shard)
        }
        // A smaller one is better than none.
        (Err(_), Some(part)) if part.shard.has_room_for(0, block_len) => Ok(Arc::clone(&part.shard)),
        (Err(error), _) => Err(error),
    }
}
