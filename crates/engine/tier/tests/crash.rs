//! Processes that share a disk tier are killed while others read.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]
#![expect(clippy::cast_possible_truncation, reason = "sources of the tests are small")]

mod made;

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use forebay_source::{ByteRange, Origin, SourceExt};
use forebay_tier::{BuiltinPolicy, DiskTier, Ranking, Tier, Tiered};
use made::{disk_options, name, on_disk, origin, placement, slow};

const CHILD: &str = "FOREBAY_CRASH_CHILD";
const SOURCES: u64 = 12;
const LEN: usize = 200_000;
const BLOCK: u64 = 8192;
/// Half of all: copies come and go.
const QUOTA: u64 = SOURCES * LEN as u64 / 2;

fn kills() -> usize {
    std::env::var("FOREBAY_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(20)
}

/// Reads at random until a file says stop, and checks every byte. Run by the tests below in processes of its own.
#[test]
fn child() {
    let Ok(given) = std::env::var(CHILD) else { return };
    let [folder, policy, seed, reads]: [&str; 4] = given.split(',').collect::<Vec<_>>().try_into().unwrap();
    let folder = Path::new(folder);
    let (slow_origin, contents) = origin(SOURCES, LEN, slow(2));
    let policy = BuiltinPolicy::ALL.into_iter().find(|standard| standard.word() == policy).unwrap();
    let quota = if reads == "all" { u64::MAX / 2 } else { QUOTA };
    let tiered = on_disk(Arc::clone(&slow_origin), folder, quota, policy, placement(BLOCK));
    let mut state = seed.parse::<u64>().unwrap() | 1;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    if reads == "all" {
        assert_all(&tiered, &contents);
        println!("origin {}", slow_origin.counters().bytes);
        return;
    }
    while !folder.join("stop").exists() {
        let index = next(SOURCES) as usize;
        let start = next(LEN as u64 - 20_000);
        let range = ByteRange::at(start, 1 + next(20_000));
        let found = tiered.open(&name(index)).unwrap().fetch_one(range).unwrap();
        assert_eq!(found[..], contents[index][range.start as usize..range.end as usize], "{index} {range:?}");
    }
}

fn assert_all(tiered: &Tiered, contents: &[Vec<u8>]) {
    for (index, contents) in contents.iter().enumerate() {
        let found =
            tiered.open(&name(index)).unwrap().fetch_one(ByteRange { start: 0, end: LEN as u64 }).unwrap();
        assert_eq!(found[..], contents[..]);
    }
}

fn spawn(folder: &Path, policy: &str, seed: usize, reads: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture"])
        .env(CHILD, format!("{},{policy},{seed},{reads}", folder.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn readers_are_right_whoever_is_killed_beside_them_and_nothing_needs_repair() {
    for policy in ["first-fit", "lru"] {
        let folder = tempfile::tempdir().unwrap();
        let mut children: Vec<Child> =
            (0..4).map(|seed| spawn(folder.path(), policy, seed, "some")).collect();
        for kill in 0..kills() {
            thread::sleep(Duration::from_millis(30 + (kill as u64 * 37) % 60));
            let victim = 2 + kill % 2;
            children[victim].kill().unwrap();
            let ended = children[victim].wait_with_output_taken();
            assert!(ended.contains("signal: 9"), "it ended by itself: {ended}");
            children[victim] = spawn(folder.path(), policy, 10 + kill, "some");
        }
        fs::write(folder.path().join("stop"), "").unwrap();
        for child in children {
            let done = child.wait_with_output().unwrap();
            assert!(done.status.success(), "{policy}: {}", String::from_utf8_lossy(&done.stderr));
        }
        let tier =
            DiskTier::open(disk_options(folder.path(), QUOTA, BLOCK), Ranking::new(BuiltinPolicy::FirstFit))
                .unwrap();
        let present: u64 = tier.mirrors().iter().map(|mirror| mirror.present).sum();
        assert_eq!(tier.usage().used, present, "{policy}: what is counted is what is there");
        assert!(present <= QUOTA + 64 * BLOCK, "{policy}: {present}");
        drop(tier);
        let (slow_origin, contents) = origin(SOURCES, LEN, slow(0));
        let tiered = on_disk(slow_origin, folder.path(), QUOTA, BuiltinPolicy::FirstFit, placement(BLOCK));
        assert_all(&tiered, &contents);
    }
}

/// How a child that was waited for ended.
trait Ended {
    fn wait_with_output_taken(&mut self) -> String;
}

impl Ended for Child {
    fn wait_with_output_taken(&mut self) -> String {
        let status = self.wait().unwrap().to_string();
        let mut said = String::new();
        if let Some(mut err) = self.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut err, &mut said);
        }
        format!("{status} {said}")
    }
}

#[test]
fn processes_that_read_the_same_set_fetch_each_block_about_once_together() {
    let folder = tempfile::tempdir().unwrap();
    let children: Vec<Child> = (0..3).map(|seed| spawn(folder.path(), "first-fit", seed, "all")).collect();
    let mut bytes = 0;
    for child in children {
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{said} {}", String::from_utf8_lossy(&done.stderr));
        let given = said.lines().find_map(|line| line.split("origin ").nth(1)).unwrap();
        bytes += given.trim().parse::<u64>().unwrap();
    }
    let set = SOURCES * LEN as u64;
    assert!(bytes >= set && bytes <= set * 11 / 10, "{bytes} of {set}");
}
