//! How many ranks hold the set between them, where the user leaves it to us: replicas as near as memory allows.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_process::{Error, Result};
use forebay_store::{Comm, ShardMemory, ShardPlace, Wait, Window, WindowPiece, WindowRead, agree};

/// What the choice is made of; the same on every rank.
#[derive(Clone, Debug, PartialEq)]
struct WidthFacts {
    /// The host of each rank.
    hosts: Vec<usize>,
    set_bytes: u64,
    /// Bytes that the rank with the least may keep.
    rank_bytes: u64,
    /// How much longer a get from another host takes than one from memory of this one; 1 where there is one host.
    remote_cost: f64,
}

/// Below this a get from another host costs so little more that a second copy of the set is not worth its memory.
const NEAR: f64 = 2.0;

/// Bytes of the gets that are measured: those of a usual sample.
const PROBE_BYTES: usize = 8 << 10;

/// Gets of each kind that are measured.
const PROBES: usize = 64;

/// The width of a store of `set_bytes` bytes of which this rank may keep `rank_bytes`. Collective.
///
/// Ranks of one host read each other's memory as fast as their own, so a host is the narrowest replica. One host holds the set
/// if it can; otherwise as few whole hosts as can; and all ranks where other hosts are as near as memory.
pub fn auto_width(comm: &Arc<dyn Comm>, set_bytes: u64, rank_bytes: u64, wait: &Wait<'_>) -> Result<usize> {
    let told = comm.all_gather([set_bytes, rank_bytes].map(u64::to_le_bytes).concat(), wait)?;
    let number = |told: &[u8], at: usize| {
        let bytes = told.get(8 * at..8 * at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u64::from_le_bytes).ok_or_else(|| Error::corrupt("a message of another rank is too short"))
    };
    let mut facts = WidthFacts {
        hosts: (0..comm.size()).map(|rank| comm.host_of(rank)).collect(),
        set_bytes: 0,
        rank_bytes: u64::MAX,
        remote_cost: 1.0,
    };
    for told in &told {
        facts.set_bytes = facts.set_bytes.max(number(told, 0)?);
        facts.rank_bytes = facts.rank_bytes.min(number(told, 1)?);
    }
    facts.remote_cost = remote_cost(&**comm, wait)?;
    width(&facts)
}

fn width(facts: &WidthFacts) -> Result<usize> {
    let ranks = facts.hosts.len();
    let needed =
        |bytes: u64| usize::try_from(bytes.div_ceil(facts.rank_bytes.max(1))).unwrap_or(usize::MAX).max(1);
    // Shares end where chunks do, which makes one up to an eighth longer than another; where all ranks are needed it may still do.
    let roomy = needed(facts.set_bytes.saturating_add(facts.set_bytes / 8));
    let needed = if roomy > ranks { needed(facts.set_bytes) } else { roomy };
    if needed > ranks {
        let what =
            format!("{} bytes do not fit into {ranks} ranks of {} bytes", facts.set_bytes, facts.rank_bytes);
        let error = Error::new(forebay_process::ErrorKind::Full, what);
        return Err(error
            .hint("use more ranks, allow more memory (limit=), or keep shards on a local disk (folder=)"));
    }
    if facts.remote_cost < NEAR {
        return Ok(ranks);
    }
    // Groups are consecutive ranks: whole hosts are a group only where ranks are placed host by host.
    let per_host = facts.hosts.iter().take_while(|host| **host == facts.hosts[0]).count();
    Ok(needed.next_multiple_of(per_host).min(ranks))
}

/// How much longer a get from another host takes than one from this host's memory, by the median over all ranks.
fn remote_cost(comm: &dyn Comm, wait: &Wait<'_>) -> Result<f64> {
    let rank = comm.rank();
    let far = (0..comm.size())
        .map(|step| (rank + step) % comm.size())
        .find(|other| comm.host_of(*other) != comm.host_of(rank));
    let shard = agree(comm, ShardMemory::new(PROBE_BYTES as u64, &ShardPlace::Memory), wait)?;
    let window = comm.window(Arc::new(shard), wait)?;
    window.publish(wait)?;
    let measured = median_get(&*window, rank, wait).and_then(|near| match far {
        Some(far) => Ok(median_get(&*window, far, wait)?.as_secs_f64() / near.as_secs_f64().max(1e-9)),
        None => Ok(1.0),
    });
    let cost = agree(comm, measured, wait)?;
    window.close(wait)?;
    let told = comm.all_gather(cost.to_le_bytes().to_vec(), wait)?;
    let mut costs: Vec<f64> =
        told.iter().filter_map(|told| Some(f64::from_le_bytes(told[..].try_into().ok()?))).collect();
    costs.sort_by(f64::total_cmp);
    Ok(costs.get(costs.len() / 2).copied().unwrap_or(1.0))
}

fn median_get(window: &dyn Window, rank: usize, wait: &Wait<'_>) -> Result<Duration> {
    let mut into = vec![0u8; PROBE_BYTES];
    let mut times = Vec::with_capacity(PROBES);
    for _ in 0..PROBES {
        let began = Instant::now();
        match window.shared(rank) {
            Some(shard) => shard.copy_to(0, &mut into)?,
            None => {
                let pieces = vec![WindowPiece { offset: 0, into: &mut into }];
                let mut reads = [WindowRead { rank, pieces, outcome: Ok(()) }];
                window.get(&mut reads, wait);
                let [read] = reads;
                read.outcome?;
            }
        }
        times.push(began.elapsed());
    }
    times.sort();
    Ok(times[PROBES / 2])
}

#[cfg(test)]
mod tests {
    use forebay_store::LocalComm;

    use super::*;

    fn facts(hosts: &[usize], set_bytes: u64, remote_cost: f64) -> WidthFacts {
        WidthFacts { hosts: hosts.to_vec(), set_bytes, rank_bytes: 100, remote_cost }
    }

    #[test]
    fn a_replica_is_a_host_or_as_few_hosts_as_hold_the_set() {
        let hosts = [0, 0, 1, 1, 2, 2, 3, 3];
        for (set_bytes, expected) in
            [(0, 2), (100, 2), (177, 2), (200, 4), (355, 4), (400, 6), (700, 8), (800, 8)]
        {
            assert_eq!(
                width(&facts(&hosts, set_bytes, 20.0)).expect("it fits"),
                expected,
                "{set_bytes} bytes"
            );
        }
        assert_eq!(width(&facts(&[0; 4], 10, 1.0)).expect("it fits"), 4, "one host");
        assert_eq!(width(&facts(&hosts, 10, 1.5)).expect("it fits"), 8, "other hosts are near");
    }

    #[test]
    fn a_set_that_does_not_fit_is_refused_with_the_remedies() {
        let error = width(&facts(&[0, 1], 201, 9.0)).expect_err("one byte too many");
        assert!(error.to_string().contains("2 ranks of 100 bytes"), "{error}");
    }

    #[test]
    fn every_rank_chooses_the_same() {
        let widths = LocalComm::run(&[0, 0, 1], |comm| {
            let wait = Wait::at_most(Duration::from_secs(60));
            // The rank with the least memory decides.
            auto_width(&comm, 100, 50 + comm.rank() as u64, &wait).expect("it fits")
        });
        assert!(widths.iter().all(|width| *width == widths[0]), "{widths:?}");
    }
}
