//! Checks of ranks under MPI, for `mpirun`: `mpi_ranks CHECK`, on every rank. Ends with an error where a check fails.

#[path = "mpi_ranks/faults.rs"]
mod faults;

use std::{
    collections::HashSet,
    env,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_mpi::{LockingWindow, MpiComm, MpiOptions, passive_progress};
use forebay_store::{
    Comm, ShardMemory, ShardPlace, Wait, Window, WindowPiece, WindowRead,
    check::{self, patience},
};

fn main() -> ExitCode {
    let checks: Vec<String> = env::args().skip(1).collect();
    // A rank that panics must not wait for others in MPI_Finalize.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!(
            "rank {}: {panic}",
            env::var("PMI_RANK").or(env::var("OMPI_COMM_WORLD_RANK")).unwrap_or_default()
        );
        std::process::abort();
    }));
    for check in &checks {
        let started = Instant::now();
        match &check[..] {
            "contract" => every_clause_holds_by_shared_memory_and_by_gets(),
            "handle" => a_communicator_of_the_program_gives_the_same_ranks(),
            "deadline" => a_rank_that_does_not_come_is_an_error_at_the_deadline(),
            "dropped" => what_is_not_closed_is_given_back_when_mpi_ends(),
            "long" => samples_beyond_2_gib_are_whole(),
            "kill" => a_killed_rank_is_named(MpiOptions::default()),
            "kill-by-gets" => a_killed_rank_is_named(MpiOptions { share_host: false }),
            "kill-beside" => faults::a_rank_lost_beside_mpi_is_not_waited_for_in_its_end(),
            "stopped" => faults::a_stopped_rank_fails_no_other_and_comes_back(),
            "fork" => faults::a_forked_child_reads_its_host_and_never_calls_mpi(),
            "closing" => faults::a_window_closes_under_its_readers(),
            "threads-below-multiple" => faults::below_multiple_the_maker_alone_calls_mpi(),
            "probe" => progress_is_what_the_script_expects(),
            "computing" => a_rank_that_computes_is_read(),
            "gets" => gets_are_timed(),
            other => {
                eprintln!("mpi_ranks: there is no check '{other}'");
                return ExitCode::FAILURE;
            }
        }
        if is_first() {
            println!("{check}: passed in {:.1} s", started.elapsed().as_secs_f64());
        }
    }
    ExitCode::SUCCESS
}

const BY_GETS: MpiOptions = MpiOptions { share_host: false };

fn world(options: MpiOptions) -> MpiComm {
    MpiComm::world(options, &patience()).expect("ranks that are there")
}

fn expected_hosts() -> usize {
    env::var("MPI_RANKS_HOSTS").ok().and_then(|hosts| hosts.parse().ok()).unwrap_or(1)
}

fn is_first() -> bool {
    ["PMI_RANK", "OMPI_COMM_WORLD_RANK"]
        .iter()
        .find_map(|name| env::var(name).ok())
        .is_none_or(|rank| rank == "0")
}

fn say(comm: &MpiComm, what: &str) {
    if comm.rank() == 0 {
        println!("  {what}");
    }
}

fn every_clause_holds_by_shared_memory_and_by_gets() {
    for options in [MpiOptions::default(), BY_GETS] {
        let comm = world(options);
        say(&comm, &format!("{}: {} ranks, threads {:?}", comm.transport(), comm.size(), comm.threads()));
        let hosts = (0..comm.size()).map(|rank| comm.host_of(rank)).collect::<HashSet<_>>().len();
        assert_eq!(hosts, if options.share_host { expected_hosts() } else { comm.size() }, "hosts");
        let comm: Arc<dyn Comm> = Arc::new(comm);
        check::every_clause(&comm);
    }
}

fn a_communicator_of_the_program_gives_the_same_ranks() {
    let world = world(MpiOptions::default());
    // It stands for mpi4py's: one that somebody else made, in use at the same time.
    let comm = MpiComm::from_handle(world.handle(), BY_GETS, &patience()).expect("a communicator");
    assert_eq!((comm.rank(), comm.size()), (world.rank(), world.size()));
    let all = comm.all_gather(vec![1], &patience()).expect("all are there");
    assert_eq!(all.len(), world.size());
    world.barrier(&patience()).expect("all are there");
    check::every_window_clause(&comm);
}

fn a_rank_that_does_not_come_is_an_error_at_the_deadline() {
    let comm = world(MpiOptions::default());
    if comm.size() > 1 && comm.rank() == 0 {
        let started = Instant::now();
        let error =
            comm.barrier(&Wait::at_most(Duration::from_millis(300))).expect_err("the others do not come");
        assert!(started.elapsed() < Duration::from_secs(30), "{error}");
        let error = comm.barrier(&patience()).expect_err("ranks are out of step");
        assert!(error.to_string().contains("lost"), "{error}");
        println!("  rank 0: after {:.2} s: {error}", started.elapsed().as_secs_f64());
    } else if comm.size() > 1 {
        std::thread::sleep(Duration::from_millis(600));
    }
    // MPI cannot be finalised in order any more.
    std::process::exit(0);
}

fn what_is_not_closed_is_given_back_when_mpi_ends() {
    let comm = world(BY_GETS);
    for seed in 0..3 {
        drop(open_window(&comm, 10_000 + seed));
    }
    drop(comm);
    forebay_mpi::finalize().expect("MPI ends in order");
    let error = MpiComm::world(BY_GETS, &patience()).expect_err("MPI is over");
    assert!(error.to_string().contains("finalised"), "{error}");
}

fn samples_beyond_2_gib_are_whole() {
    let comm = world(BY_GETS);
    let owner = comm.size() - 1;
    let len: usize = if comm.rank() == owner { (2 << 30) + 12_345 } else { 0 };
    let shard = Arc::new(ShardMemory::new(len as u64, &ShardPlace::Memory).expect("memory"));
    let marks = [0usize, (1 << 30) - 4, (2 << 30) - 4, (2 << 30) + 12_337];
    for mark in marks.iter().filter(|_| len > 0) {
        shard.write(*mark as u64, &mark.to_le_bytes()).expect("within the shard");
    }
    let window = comm.window(shard, &patience()).expect("a window");
    window.publish(&patience()).expect("all publish");
    if comm.rank() == 0 {
        let mut got = vec![1u8; (2 << 30) + 12_345];
        // Much shorter than the read: a rank that answers is never too slow.
        read_within(Duration::from_secs(2), &*window, owner, 0, &mut got);
        for mark in marks {
            assert_eq!(got[mark..mark + 8], mark.to_le_bytes(), "at {mark}");
            got[mark..mark + 8].fill(0);
        }
        assert!(got.iter().all(|byte| *byte == 0), "bytes between the marks");
    }
    comm.barrier(&Wait::at_most(Duration::from_secs(280))).expect("all are there");
    window.close(&patience()).expect("all close it");
}

fn a_killed_rank_is_named(options: MpiOptions) {
    let comm = world(options);
    let window = open_window(&comm, 100_000);
    let victim = comm.size() / 2;
    if let Err(error) = comm.barrier(&patience()) {
        // What the victim had still to send was lost with it.
        assert!(
            comm.rank() != victim && error.to_string().contains(&format!("rank {victim} is gone")),
            "{error}"
        );
    }
    if comm.rank() == victim {
        kill_self();
    }
    let started = Instant::now();
    let mut got = vec![0u8; 8192];
    let error = loop {
        let pieces = vec![WindowPiece { offset: 0, into: &mut got }];
        let mut reads = [WindowRead { rank: victim, pieces, outcome: Ok(()) }];
        window.get(&mut reads, &Wait::at_most(Duration::from_secs(8)));
        let [read] = reads;
        let outcome = read.outcome;
        match (outcome, comm.first_gone(0..comm.size())) {
            (_, Some(rank)) => break format!("rank {rank} is gone"),
            (Err(error), None) => break error.to_string(),
            (Ok(()), None) => assert!(started.elapsed() < Duration::from_secs(10), "nobody noticed"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(error.contains(&format!("rank {victim}")), "{error}");
    let took = started.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}: {error}");
    let then = comm.barrier(&Wait::at_most(Duration::from_secs(2))).expect_err("a rank is gone");
    println!("  rank {}: after {:.2} s: {error}; then: {then}", comm.rank(), took.as_secs_f64());
    assert!(forebay_mpi::finalize().is_err(), "MPI cannot be finalised without that rank");
}

/// SIGKILL: no destructor, no MPI_Finalize.
fn kill_self() -> ! {
    let _ = std::process::Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    std::thread::sleep(Duration::from_secs(60));
    std::process::abort();
}

/// What `MPI_RANKS_PROGRESS` says (yes, no or refused) of gets, where it is set.
fn progress_is_what_the_script_expects() {
    for options in [MpiOptions::default(), BY_GETS] {
        let comm = world(options);
        let answer = passive_progress(&comm, &patience());
        match &answer {
            Ok(progress) => say(&comm, &format!("{}: passive progress {progress}", comm.transport())),
            Err(error) => say(&comm, &format!("{}: refused: {error}", comm.transport())),
        }
        let word = answer.map_or("refused", |progress| if progress { "yes" } else { "no" });
        let expected = if comm.is_one_host() { Ok("yes".to_owned()) } else { env::var("MPI_RANKS_PROGRESS") };
        assert!(expected.as_ref().map_or(true, |expected| expected == word), "{word}, not {expected:?}");
    }
}

/// Rank 0 reads from the last one, which computes for 5 s without MPI.
fn a_rank_that_computes_is_read() {
    let comm = world(BY_GETS);
    let window = open_window(&comm, 1 << 20);
    let target = comm.size() - 1;
    let mut latencies = Vec::new();
    let mut got = vec![0u8; 8192];
    if comm.rank() == 0 {
        read(&*window, target, 0, &mut got);
    }
    comm.barrier(&patience()).expect("all are there");
    let started = Instant::now();
    if comm.rank() == target {
        while started.elapsed() < Duration::from_secs(5) {
            std::hint::spin_loop();
        }
    } else if comm.rank() == 0 {
        while started.elapsed() < Duration::from_millis(4500) {
            let one = Instant::now();
            let offset = latencies.len() * 8192 % (1 << 20);
            read(&*window, target, offset as u64, &mut got);
            assert_eq!(got, bytes(target, offset, 8192));
            latencies.push(one.elapsed());
        }
        latencies.sort_unstable();
        // The longest of a few counts.
        let at = |part: usize| latencies[(latencies.len() * part).div_ceil(100) - 1].as_secs_f64() * 1e3;
        println!("  {} gets, p50 {:.3} ms, p99 {:.3} ms", latencies.len(), at(50), at(99));
        if let Some(most) = faults::bound("MPI_RANKS_P99_MS") {
            assert!(at(99) < most, "p99 of {:.3} ms, where {most} ms are allowed", at(99));
        }
    }
    comm.barrier(&patience()).expect("all are there");
    window.close(&patience()).expect("all close it");
}

/// Batches of 128 random samples of 8 KiB from the other ranks, ours and one by one under locks.
fn gets_are_timed() {
    const SAMPLE: usize = 8192;
    const COUNT: usize = 4096;
    let comm = world(BY_GETS);
    let window = open_window(&comm, SAMPLE * COUNT);
    let rounds: usize =
        env::var("MPI_RANKS_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(200);
    let mut batch = vec![0u8; SAMPLE * 128];
    let mut random = 88_172_645_463_325_252u64 + comm.rank() as u64;
    let mut choose = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let other = 1 + usize::try_from(random >> 40).expect("24 bits") % (comm.size() - 1);
        ((comm.rank() + other) % comm.size(), usize::try_from(random >> 8).expect("56 bits") % COUNT * SAMPLE)
    };
    let rank_bytes = |rank: usize| bytes(rank, 0, SAMPLE * COUNT);
    let all: Vec<Vec<u8>> = (0..comm.size()).map(rank_bytes).collect();
    let check = |chosen: &[(usize, usize)], batch: &[u8]| {
        for ((rank, offset), got) in chosen.iter().zip(batch.chunks(SAMPLE)) {
            assert!(*got == all[*rank][*offset..offset + SAMPLE], "rank {rank}, at {offset}");
        }
    };
    comm.barrier(&patience()).expect("all are there");
    let mut ours = Duration::ZERO;
    for _ in 0..rounds {
        let chosen: Vec<_> = (0..128).map(|_| choose()).collect();
        let mut reads: Vec<WindowRead<'_>> =
            (0..comm.size()).map(|rank| WindowRead { rank, pieces: Vec::new(), outcome: Ok(()) }).collect();
        for ((rank, offset), into) in chosen.iter().zip(batch.chunks_mut(SAMPLE)) {
            reads[*rank].pieces.push(WindowPiece { offset: *offset as u64, into });
        }
        let started = Instant::now();
        window.get(&mut reads, &patience());
        ours += started.elapsed();
        for read in reads {
            read.outcome.expect("ranks that are there");
        }
        check(&chosen, &batch);
    }
    comm.barrier(&patience()).expect("all are there");
    window.close(&patience()).expect("all close it");

    let shard = Arc::new(ShardMemory::new((SAMPLE * COUNT) as u64, &ShardPlace::Memory).expect("memory"));
    shard.write(0, &all[comm.rank()]).expect("within the shard");
    let window = LockingWindow::new(&comm, shard, &patience()).expect("a window");
    let mut theirs = Duration::ZERO;
    for _ in 0..rounds {
        let chosen: Vec<_> = (0..128).map(|_| choose()).collect();
        let started = Instant::now();
        for ((rank, offset), into) in chosen.iter().zip(batch.chunks_mut(SAMPLE)) {
            window.get(*rank, *offset as u64, into).expect("a get");
        }
        theirs += started.elapsed();
        check(&chosen, &batch);
    }
    comm.barrier(&patience()).expect("all are there");
    window.lock_all().expect("an epoch");
    let mut flushed = Duration::ZERO;
    for _ in 0..rounds {
        let chosen: Vec<_> = (0..128).map(|_| choose()).collect();
        let started = Instant::now();
        let pieces = chosen.iter().zip(batch.chunks_mut(SAMPLE));
        let mut pieces: Vec<_> = pieces.map(|((rank, offset), into)| (*rank, *offset as u64, into)).collect();
        window.get_and_flush(&mut pieces).expect("gets");
        flushed += started.elapsed();
        check(&chosen, &batch);
    }
    comm.barrier(&patience()).expect("all are there");
    window.unlock_all().expect("the end of an epoch");
    window.close(&patience()).expect("all close it");
    let rate = |time: Duration| (rounds * 128) as f64 / time.as_secs_f64();
    let gain = theirs.as_secs_f64() / ours.as_secs_f64();
    say(
        &comm,
        &format!(
            "batches of 128 x 8 KiB: {:.0} samples/s; one flush: {:.0} samples/s; lock, get, unlock each: {:.0} samples/s; \
             {:.2} times that; bytes read {}",
            rate(ours),
            rate(flushed),
            rate(theirs),
            gain,
            3 * rounds * 128 * SAMPLE
        ),
    );
    if let Some(least) = faults::bound("MPI_RANKS_GAIN").filter(|_| comm.rank() == 0) {
        assert!(gain >= least, "{gain:.2} times as fast as locks, where {least} is asked");
    }
}

/// A published window whose shards are `len` bytes long.
fn open_window(comm: &MpiComm, len: usize) -> Arc<dyn Window> {
    let shard = Arc::new(ShardMemory::new(len as u64, &ShardPlace::Memory).expect("memory"));
    shard.write(0, &bytes(comm.rank(), 0, len)).expect("within the shard");
    let window = comm.window(shard, &patience()).expect("ranks that are there");
    window.publish(&patience()).expect("all publish");
    window
}

fn read(window: &dyn Window, rank: usize, offset: u64, into: &mut [u8]) {
    read_within(Duration::from_secs(60), window, rank, offset, into);
}

fn read_within(time: Duration, window: &dyn Window, rank: usize, offset: u64, into: &mut [u8]) {
    let mut reads = [WindowRead { rank, pieces: vec![WindowPiece { offset, into }], outcome: Ok(()) }];
    window.get(&mut reads, &Wait::at_most(time));
    let [read] = reads;
    read.outcome.expect("a rank that is there");
}

#[expect(clippy::cast_possible_truncation, reason = "a pattern of bytes")]
fn bytes(rank: usize, from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| (at * 31 + at / 251 + rank * 101) as u8).collect()
}
