//! The tiers in the memory of all ranks that this process has: data sets that ask for the same one share it.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use forebay_config::{Config, TierConfig};
use forebay_peer::PeerTier;
use forebay_process::{Error, Grant, ProcessIdentity, Result, current_process, ledger};
use forebay_store::{Comm, Wait};
use forebay_tier::Tier;

/// The ranks whose memory the tiers of this process lie in.
static JOB: OnceLock<JobPeers> = OnceLock::new();

struct JobPeers {
    comm: Arc<dyn Comm>,
    /// The process that is the rank, and no child of it.
    rank: ProcessIdentity,
    tiers: Mutex<Vec<JobTier>>,
}

struct JobTier {
    /// As the user wrote it: what a share comes to differs between ranks and workers, which have to agree.
    config: TierConfig,
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
    JOB.get_or_init(|| JobPeers { comm, rank: current_process(), tiers: Mutex::default() });
}

/// The tier that `config` asks for, where it asks for one and this process is a rank. Collective.
///
/// A forked child has those that its parent had, and goes without others: it is no rank that could make one.
pub(crate) fn of_job(config: &Config) -> Result<Option<Arc<dyn Tier>>> {
    let mut wanted = config.tiers.iter().filter(|tier| matches!(tier, TierConfig::Peers { .. }));
    let Some(tier) = wanted.next() else { return Ok(None) };
    if wanted.next().is_some() {
        return Err(Error::invalid("more than one tier of peers").hint("give one of them all the memory"));
    }
    let Some(job) = JOB.get() else { return Ok(None) };
    let block_len = config.placement.block;
    if job.rank != current_process() {
        // A thread of the parent that makes a tier has the lock for ever here.
        let tiers = job.tiers.try_lock().ok();
        return Ok(tiers.and_then(|tiers| find(&tiers, tier, block_len)));
    }
    let mut tiers = job.tiers.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = find(&tiers, tier, block_len) {
        return Ok(Some(known));
    }
    let made = JobTier::new(&job.comm, tier, block_len)?;
    let used = Arc::new(made.tier.again());
    tiers.push(made);
    Ok(Some(used))
}

fn find(tiers: &[JobTier], config: &TierConfig, block_len: u64) -> Option<Arc<dyn Tier>> {
    let known = tiers.iter().find(|tier| tier.config == *config && tier.block_len == block_len)?;
    Some(Arc::new(known.tier.again()))
}

impl JobTier {
    /// Collective.
    fn new(comm: &Arc<dyn Comm>, config: &TierConfig, block_len: u64) -> Result<Self> {
        let (wait, quota) = (Wait::at_most(PATIENCE), config.quota().of(ledger().share()));
        // A share of memory differs between ranks, and tables have to be alike.
        let told = comm.all_gather(quota.to_le_bytes().to_vec(), &wait)?;
        let told = told.iter().map(|told| told[..].try_into().map_or(0, u64::from_le_bytes));
        let least = told.min().unwrap_or(0);
        let _memory = ledger().take("tier of peers", least);
        let tier = PeerTier::new(Arc::clone(comm), least, block_len, &wait)?;
        Ok(Self { config: config.clone(), block_len, tier, _memory })
    }
}
