//! A process with running tiers that forks.
#![expect(unsafe_code, reason = "forks, to test what a child process reads")]

mod made;

use std::{sync::Arc, thread, time::Duration};

use forebay_source::{ByteRange, FaultSchedule, Origin, SourceExt};
use forebay_tier::{DiskOptions, DiskTier, Judge, Placement, Standard, Tier, Tiered};
use made::{disk_options, name, on_disk, origin, placement};

/// Runs `child` in a forked process; true when it ended well within a minute.
fn forked(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child uses what a forked child may, leaves by `_exit`, and the test process has few threads.
    match unsafe { libc::fork() } {
        0 => {
            let is_right = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(false);
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(i32::from(!is_right)) }
        }
        pid => {
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
        let tier = DiskTier::open(options.clone(), Judge::new(Standard::FirstFit))?;
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
        let tiered = on_disk(far, folder.path(), 1 << 30, Standard::Lru, placement);
        let sources: Vec<_> = (0..contents.len()).map(|index| tiered.open(&name(index)).unwrap()).collect();
        (0..2).all(|_| {
            sources.iter().zip(&contents).all(|(source, bytes)| {
                source.fetch_one(ByteRange { start: 0, end: 900 }).is_ok_and(|read| read[..] == bytes[..900])
            })
        }) && std::fs::read_dir("/dev/fd").unwrap().count() <= 80
    };
    assert!(forked(reads));
}
