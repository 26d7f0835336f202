//! Whether ranks can be read while they compute.

use std::{
    hint,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_store::{Comm, ShardMemory, ShardPlace, Wait, Window, WindowPiece, WindowRead};

use crate::comm::MpiComm;

/// How long the rank that is read computes without a call of MPI.
const COMPUTE: Duration = Duration::from_millis(500);
/// A get that takes this long has waited for that rank, though it may have begun late.
const ANSWER: Duration = Duration::from_millis(100);
/// How long the probe may take.
const AT_MOST: Duration = Duration::from_secs(30);
/// How long a get may take.
const GET_AT_MOST: Duration = Duration::from_secs(8);
const LEN: usize = 8192;

/// True where MPI serves gets from a rank that computes and does not call it (passive progress), which its standard leaves
/// open; also true where no byte goes through MPI. An error where gets do not work at all. Collective.
pub fn passive_progress(comm: &MpiComm, wait: &Wait<'_>) -> Result<bool> {
    if comm.is_one_host() {
        return Ok(true);
    }
    let wait = &wait.shortened(AT_MOST);
    let target = (0..comm.size()).find(|rank| comm.host_of(*rank) != comm.host_of(0)).unwrap_or(0);
    let shard = Arc::new(ShardMemory::new(LEN as u64, &ShardPlace::Memory)?);
    shard.write(0, &pattern(comm.rank()))?;
    let window = comm.window(shard, wait)?;
    window.publish(wait)?;
    // The first get from a rank connects to it, which both ends have to work for.
    let connected = match comm.rank() == target {
        true => Ok(Duration::ZERO),
        false => timed_get(&*window, target, wait),
    };
    comm.ranks().collectively(wait)?.agree(connected, wait)?;
    let answered = match comm.rank() == target {
        true => {
            compute();
            Ok(Duration::ZERO)
        }
        false => timed_get(&*window, target, wait),
    };
    let longest = comm.ranks().collectively(wait)?.agree(answered, wait)?;
    let all = comm.all_gather(vec![u8::from(longest < ANSWER)], wait)?;
    window.close(wait)?;
    Ok(all.iter().all(|served| served[..] == [1]))
}

/// How long a get from `target` takes, once it computes.
fn timed_get(window: &dyn Window, target: usize, wait: &Wait<'_>) -> Result<Duration> {
    let mut got = vec![0; LEN];
    // Long enough for the last rank to have left the barrier.
    std::thread::sleep(COMPUTE / 10);
    let started = Instant::now();
    let pieces = vec![WindowPiece { offset: 0, into: &mut got }];
    let mut reads = [WindowRead { rank: target, pieces, outcome: Ok(()) }];
    window.get(&mut reads, &wait.shortened(GET_AT_MOST));
    let took = started.elapsed();
    let [read] = reads;
    read.outcome?;
    match got == pattern(target) {
        true => Ok(took),
        false => {
            Err(Error::new(ErrorKind::Corrupt, format!("MPI gave other bytes than rank {target} holds")))
        }
    }
}

fn compute() {
    let started = Instant::now();
    while started.elapsed() < COMPUTE {
        hint::spin_loop();
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a pattern of bytes")]
fn pattern(rank: usize) -> Vec<u8> {
    (0..LEN).map(|at| (at * 13 + rank * 7 + 1) as u8).collect()
}
