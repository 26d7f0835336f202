//! The tiers in the memory of all ranks that this process has: data sets that ask for the same one share it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use forebay_config::{Config, TierConfig};
use forebay_source::{Error, Grant, Result, ledger};
use forebay_store::{Comm, Wait};
use forebay_tier::Tier;

use super::tier::PeerTier;

/// The ranks whose memory the tiers of this process lie in.
static JOB: Mutex<Option<JobPeers>> = Mutex::new(None);

struct JobPeers {
    comm: Arc<dyn Comm>,
    tiers: Vec<JobTier>,
}

struct JobTier {
    quota: u64,
    block_len: u64,
    tier: PeerTier,
    _memory: Grant,
}

/// How long the other ranks may take to ask for a tier: they may have to open other files first.
const PATIENCE: Duration = Duration::from_secs(600);

/// Has `peers` tiers lie in the memory of these ranks; the first communicator stays.
///
/// All ranks then open their data sets in the same order. A process that does not call it, such as a worker, goes without.
pub fn join_job(comm: Arc<dyn Comm>) {
    let mut job = JOB.lock().unwrap_or_else(PoisonError::into_inner);
    job.get_or_insert_with(|| JobPeers { comm, tiers: Vec::new() });
}

/// The tier that `config` asks for, where it asks for one and this process is a rank. Collective.
pub(crate) fn of_job(config: &Config) -> Result<Option<Arc<dyn Tier>>> {
    let wanted = config.tiers.iter().filter(|tier| matches!(tier, TierConfig::Peers { .. }));
    let mut quotas = wanted.map(|tier| tier.quota().of(ledger().share()));
    let Some(quota) = quotas.next() else { return Ok(None) };
    if quotas.next().is_some() {
        return Err(Error::invalid("more than one tier of peers").hint("give one of them all the memory"));
    }
    let mut job = JOB.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(job) = job.as_mut() else { return Ok(None) };
    let block_len = config.placement.block;
    if let Some(known) = job.tiers.iter().find(|tier| tier.quota == quota && tier.block_len == block_len) {
        return Ok(Some(Arc::new(known.tier.again())));
    }
    let wait = Wait::at_most(PATIENCE);
    // A share of memory differs between ranks, and tables have to be alike.
    let told = job.comm.all_gather(quota.to_le_bytes().to_vec(), &wait)?;
    let told = told.iter().map(|told| told[..].try_into().map_or(0, u64::from_le_bytes));
    let least = told.min().unwrap_or(0);
    let memory = ledger().take("tier of peers", least);
    let tier = PeerTier::new(Arc::clone(&job.comm), least, block_len, &wait)?;
    let used = Arc::new(tier.again());
    job.tiers.push(JobTier { quota, block_len, tier, _memory: memory });
    Ok(Some(used))
}
