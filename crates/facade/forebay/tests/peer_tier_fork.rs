//! A tier in the memory of all ranks, in a rank that forks: workers read, and the rank places.

#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "forks, to test what a child process reads")]
#![expect(clippy::unwrap_used, reason = "what cannot be had has failed the test")]

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use forebay::{
    Config, Locator, Origin, Origins, PeerTier, TierConfig,
    source::{ByteRange, MemoryOrigin, SourceExt},
    store::{Comm, LocalComm, check::patience},
    tier::{Placement, Tier, Tiered},
};

const BLOCK: u64 = 1000;
const LEN: u64 = 50_003;

fn contents() -> Vec<u8> {
    (0..u32::try_from(LEN).unwrap()).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect()
}

fn tiered(tier: &Arc<PeerTier>) -> Tiered {
    let origin: Arc<dyn Origin> = Arc::new(MemoryOrigin::default().with("set.bin", contents()));
    let tier = Arc::clone(tier);
    let placement = Placement { block_len: BLOCK, threads: 2, ..Placement::default() };
    Tiered::new(origin, move || Ok(vec![Arc::clone(&tier) as Arc<dyn Tier>]), placement).unwrap()
}

/// Runs `child` in a forked process and `parent` in this one meanwhile; true when the child ended well within a minute.
fn forked(child: impl FnOnce() -> bool, parent: impl FnOnce()) -> bool {
    // SAFETY: the child uses what a forked child may, and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: a child that hangs ends by the signal.
        unsafe { libc::alarm(60) };
        let is_right = catch_unwind(AssertUnwindSafe(child)).unwrap_or(false);
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { libc::_exit(i32::from(!is_right)) }
    }
    assert!(pid > 0, "fork");
    parent();
    let mut status = 0;
    // SAFETY: waits for the child that was made above, which ends within a minute.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

#[test]
fn a_worker_reads_what_its_rank_places_after_the_fork() {
    LocalComm::run(&[0], |comm| {
        let tier = Arc::new(PeerTier::new(comm, 1 << 20, BLOCK, &patience()).unwrap());
        let tiered = tiered(&tier);
        let (mut told, mut tells) = UnixStream::pair().unwrap();
        let child = || {
            told.read_exact(&mut [0]).unwrap();
            let source = tiered.open(&Locator::new("set.bin")).unwrap();
            let whole = source.fetch_one(ByteRange::at(0, LEN)).unwrap();
            let stats = tiered.stats();
            whole == contents() && stats.origin.reads == 0 && stats.tiers[0].bytes == LEN && stats.placed == 0
        };
        let parent = || {
            // Opened by the rank, and read by the worker alone.
            tiered.open(&Locator::new("set.bin")).unwrap();
            assert!(tiered.wait(Duration::from_secs(60)));
            tells.write_all(&[1]).unwrap();
        };
        assert!(forked(child, parent), "the child read the origin, or hung");
        assert_eq!(tiered.stats().placed, 51);
    });
}

#[test]
fn workers_forked_while_threads_use_the_tier_hang_on_no_lock() {
    LocalComm::run(&[0], |comm| {
        let tier = Arc::new(PeerTier::new(comm, 1 << 20, BLOCK, &patience()).unwrap());
        let tiered = tiered(&tier);
        let source = tiered.open(&Locator::new("set.bin")).unwrap();
        let read = || source.fetch_one(ByteRange::at(0, LEN)).unwrap() == contents();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            // They hold its lock nearly all the time, so that some fork finds it held.
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(SeqCst) {
                        tier.usage();
                    }
                });
            }
            let are_right = (0..20).all(|_| forked(read, || {}));
            is_over.store(true, SeqCst);
            assert!(are_right, "a child hung, or read other bytes");
        });
    });
}

#[test]
fn a_worker_has_the_tiers_of_its_rank_and_goes_without_others() {
    let alone = LocalComm::on_hosts(&[0]).pop().unwrap();
    forebay::join_job(Arc::new(alone) as Arc<dyn Comm>);
    let through = |quota: &str| {
        let tiers = vec![TierConfig::parse(&format!("peers:{quota}")).unwrap()];
        let config = Config { tiers, ..Config::default() };
        let (_, tiered) = Origins::new().through_tiers(&config, None).unwrap();
        tiered.unwrap()
    };
    let left_out = |quota: &str| through(quota).tiers()[0].left_out().is_some();
    assert!(!left_out("1MiB") && !left_out("1%"));
    let child = || !left_out("1MiB") && !left_out("1%") && left_out("2MiB");
    assert!(forked(child, || {}));
    assert!(!left_out("2MiB"), "the rank itself makes it");
}
