//! A process with running tiers that forks.
#![expect(unsafe_code, reason = "forks, to test what a child process reads")]

mod made;

use std::{
    fs::File,
    io::{Read, Write},
    mem::ManuallyDrop,
    os::{fd::AsRawFd, unix::fs::FileExt},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_source::{ByteRange, FaultSchedule, Origin, SourceExt};
use forebay_tier::{BuiltinPolicy, DiskOptions, DiskTier, Placement, Ranking, SourceKey, Tier, Tiered};
use made::{disk_options, name, on_disk, origin, placement};

/// Runs `child` in a forked process; true when it ended well within a minute.
fn forked(child: impl FnOnce() -> bool) -> bool {
    forked_while(child, || {})
}

/// Runs `child` in a forked process and `parent` in this one meanwhile; true when the child ended well within a minute.
fn forked_while(child: impl FnOnce() -> bool, parent: impl FnOnce()) -> bool {
    // SAFETY: the child uses what a forked child may, leaves by `_exit`, and the test process has few threads.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: a child that waits for a parent that is gone ends by the signal.
            unsafe { libc::alarm(60) };
            let is_right = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(false);
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(i32::from(!is_right)) }
        }
        pid => {
            parent();
            for _ in 0..600 {
                let mut status = 0;
                // SAFETY: waits for the child that was made above.
                if unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == pid {
                    return libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
                }
                thread::sleep(Duration::from_millis(100));
            }
            // SAFETY: the child hangs, which is what the test is about.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            false
        }
    }
}

#[test]
fn a_forked_child_reads_on_and_leaves_its_parents_copies_be() {
    let (slow_origin, contents) =
        origin(3, 200_000, FaultSchedule { delay: Duration::from_millis(1), ..FaultSchedule::default() });
    let folder = tempfile::tempdir().unwrap();
    let options = DiskOptions { keep: false, ..disk_options(folder.path(), 1 << 30, 4096) };
    let make = move || {
        let tier = DiskTier::open(options.clone(), Ranking::new(BuiltinPolicy::FirstFit))?;
        Ok(vec![Arc::new(tier) as Arc<dyn Tier>])
    };
    let tiered = Tiered::new(slow_origin, make, placement(4096)).unwrap();
    let sources: Vec<_> = (0..3).map(|index| tiered.open(&name(index)).unwrap()).collect();
    let is_right = |source: &Arc<dyn forebay_source::Source>, index: usize| {
        let range = ByteRange { start: 1000, end: 150_000 };
        source.fetch_one(range).is_ok_and(|found| found[..] == contents[index][1000..150_000])
    };
    // Threads are at work while it forks.
    assert!(is_right(&sources[0], 0));
    for _ in 0..3 {
        let inherited = || {
            let anew = tiered.open(&name(2)).unwrap();
            (0..3).all(|index| is_right(&sources[index], index)) && is_right(&anew, 2)
        };
        assert!(forked(inherited));
        assert!(is_right(&sources[1], 1));
    }
    assert!(tiered.wait(Duration::from_secs(60)));
    let used = tiered.stats().tiers[0].used;
    assert!(used >= 400_000, "the parent's copies are still there: {used}");
    assert!((0..3).all(|index| is_right(&sources[index], index)));
}

#[test]
fn mirrors_that_are_not_whole_draw_on_the_processs_budget_of_descriptors() {
    let (count, len) = (150, 2000);
    let (far, contents) = origin(count, len, FaultSchedule::default());
    let folder = tempfile::tempdir().unwrap();
    let reads = || {
        let limit = libc::rlimit { rlim_cur: 128, rlim_max: 128 };
        // SAFETY: the limit is that of this child alone, and is read only.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
            return false;
        }
        // Half of each source, so that no mirror is whole.
        let placement = Placement { whole_file: false, looks_ahead: false, ..placement(1000) };
        let tiered = on_disk(far, folder.path(), 1 << 30, BuiltinPolicy::Lru, placement);
        let sources: Vec<_> = (0..contents.len()).map(|index| tiered.open(&name(index)).unwrap()).collect();
        (0..2).all(|_| {
            sources.iter().zip(&contents).all(|(source, bytes)| {
                source.fetch_one(ByteRange { start: 0, end: 900 }).is_ok_and(|read| read[..] == bytes[..900])
            })
        }) && std::fs::read_dir("/dev/fd").unwrap().count() <= 80
    };
    assert!(forked(reads));
}

#[test]
fn a_leased_mirror_stays_while_a_child_reads_it_and_its_bytes_outlast_the_tier() {
    let (len, folder) = (10_500, tempfile::tempdir().unwrap());
    let (far, contents) = origin(3, len, FaultSchedule::default());
    // Room for one source and no other.
    let tiered = on_disk(far, folder.path(), len as u64, BuiltinPolicy::Lru, placement(1000));
    let read = |index: usize| {
        let source = tiered.open(&name(index)).unwrap();
        let all = ByteRange { start: 0, end: len as u64 };
        assert_eq!(source.fetch_one(all).unwrap()[..], contents[index][..]);
        assert!(tiered.wait(Duration::from_secs(60)));
        source
    };
    let first = read(0);
    let whole = tiered.whole_copy(SourceKey::of(first.id())).expect("all of it is there, and sealed");
    // The parent closes it by hand.
    let leased = ManuallyDrop::new(File::from(whole.descriptor().expect("a descriptor")));
    let (mut cleared, mut tell) = std::io::pipe().unwrap();
    let child = || {
        // The tier is cleared by then.
        let is_told = cleared.read_exact(&mut [0]).is_ok();
        let mut bytes = vec![0; len];
        is_told && leased.read_exact_at(&mut bytes, 0).is_ok() && bytes == contents[0]
    };
    let parent = || {
        // The child's descriptor alone is a lease, and a full tier keeps what is leased.
        // SAFETY: the parent's descriptor is closed once and not used any more; the child has its own.
        assert_eq!(unsafe { libc::close(leased.as_raw_fd()) }, 0);
        drop(read(1));
        assert_eq!(tiered.stats().tiers[0].evicted, 0);
        assert!(!whole.is_gone() && whole.descriptor().is_some());
        // The user clears it: its name goes.
        let user =
            DiskTier::open(disk_options(folder.path(), len as u64, 1000), Ranking::new(BuiltinPolicy::Lru))
                .unwrap();
        assert_eq!(user.clear(|_| true), len as u64);
        assert!(user.mirrors().is_empty());
        assert!(whole.descriptor().is_none(), "what was removed is not handed out any more");
        tell.write_all(&[1]).unwrap();
    };
    assert!(forked_while(child, parent));
    // Without a lease the next source has the room; a tier that found nothing to evict looks again a little later.
    let began = Instant::now();
    drop(read(1));
    while tiered.stats().tiers[0].evicted == 0 {
        drop(read(2));
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
