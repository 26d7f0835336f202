//! A slow mount that can be written to, as any program writes. Where FUSE is not permitted, nothing is tested here.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{
    fs::{self, File},
    io::{ErrorKind, Read, Seek, SeekFrom, Write},
    num::{NonZeroU32, NonZeroU64},
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink},
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant, SystemTime},
};

use forebay_mount::{CONTROL_FILE, MountCounters, Pace, SlowMount};
use tempfile::TempDir;

/// An empty folder, shown elsewhere for reading and writing.
struct Shown {
    mount: SlowMount,
    below: TempDir,
    _above: TempDir,
}

fn shown(pace: Pace, capacity: Option<u64>) -> Option<Shown> {
    let (below, above) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    match SlowMount::writable(below.path(), above.path(), pace, capacity) {
        Ok(mount) => Some(Shown { mount, below, _above: above }),
        Err(error) => {
            eprintln!("NOT TESTED, FUSE cannot be used here: {error}");
            None
        }
    }
}

impl Shown {
    fn path(&self, name: &str) -> PathBuf {
        self.mount.mountpoint().join(name)
    }

    fn below(&self, name: &str) -> PathBuf {
        self.below.path().join(name)
    }

    fn counters(&self) -> MountCounters {
        self.mount.counters()
    }

    /// Runs a line of shell in the mount and gives what it prints.
    fn shell(&self, line: &str) -> String {
        let ran = Command::new("sh").args(["-ec", line]).current_dir(self.path("")).output().unwrap();
        assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }
}

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 % 251).to_le_bytes()[0]).collect()
}

#[test]
fn what_is_written_stands_below_and_is_read_back() {
    let Some(shown) = shown(Pace::default(), None) else { return };
    let written = bytes(3 << 20);
    fs::write(shown.path("f"), &written).unwrap();
    assert!(fs::read(shown.below("f")).unwrap() == written);
    assert!(fs::read(shown.path("f")).unwrap() == written);
    let file = File::options().read(true).write(true).open(shown.path("f")).unwrap();
    file.write_all_at(b"within", 1_000_000).unwrap();
    file.write_all_at(b"past the end", 4_000_000).unwrap();
    let mut part = [0; 6];
    file.read_exact_at(&mut part, 1_000_000).unwrap();
    assert_eq!(&part, b"within");
    let below = fs::read(shown.below("f")).unwrap();
    assert_eq!((below.len(), &below[4_000_000..]), (4_000_012, &b"past the end"[..]));
    assert!(below[3 << 20..4_000_000].iter().all(|byte| *byte == 0));
    assert_eq!(file.metadata().unwrap().len(), 4_000_012);
}

#[test]
fn programs_of_the_system_find_a_file_system_like_any_other() {
    let Some(shown) = shown(Pace::default(), None) else { return };
    let said = shown.shell(
        "mkdir -p a/b; seq 100000 > a/b/n; cp a/b/n copy; mv copy a/moved; ln -s moved a/link; ln a/moved twin
         echo more >> twin; sort -nr a/b/n | tail -n 1; tar cf t.tar a; rm -r a; tar xf t.tar
         cmp a/moved twin || true; tail -n 1 a/link; wc -c < twin; dd if=/dev/zero of=z bs=1M count=3 status=none
         truncate -s 5 z; stat -c %s z; chmod 640 z; stat -c %a z; touch -d @1000000000 z; stat -c %Y z; rm z; ls",
    );
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines, ["1", "more", "588900", "5", "640", "1000000000", "a", "t.tar", "twin"]);
    assert_eq!(fs::read(shown.below("twin")).unwrap(), fs::read(shown.below("a/moved")).unwrap());
}

#[test]
fn permissions_times_and_owner_are_what_a_program_sets() {
    let Some(shown) = shown(Pace::default(), None) else { return };
    let said = shown.shell("umask 027; : > f; stat -c %a f; mkdir d; stat -c %a d");
    assert_eq!(said, "640\n750\n");
    let file = File::options().write(true).open(shown.path("f")).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000, 123_456_000);
    file.set_modified(time).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o604)).unwrap();
    for found in [fs::metadata(shown.path("f")).unwrap(), fs::metadata(shown.below("f")).unwrap()] {
        assert_eq!((found.modified().unwrap(), found.mode() & 0o777), (time, 0o604));
        assert_eq!(found.uid(), rustix::process::geteuid().as_raw());
    }
}

#[test]
fn an_open_file_outlives_its_name_and_follows_its_new_one() {
    let Some(shown) = shown(Pace::default(), None) else { return };
    let mut file = File::options().read(true).write(true).create_new(true).open(shown.path("f")).unwrap();
    fs::rename(shown.path("f"), shown.path("g")).unwrap();
    file.write_all(b"renamed").unwrap();
    assert_eq!(fs::read(shown.path("g")).unwrap(), b"renamed");
    fs::remove_file(shown.path("g")).unwrap();
    file.write_all(b", removed").unwrap();
    thread::sleep(ms(1100)); // what the kernel knew of it is old now
    assert_eq!(file.metadata().unwrap().len(), 16);
    file.set_len(12).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "renamed, rem");
    assert_eq!(File::open(shown.path("g")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_rename_replaces_and_moves_whole_folders() {
    let Some(shown) = shown(Pace::default(), None) else { return };
    fs::create_dir_all(shown.path("old/deep")).unwrap();
    fs::write(shown.path("old/deep/f"), "1").unwrap();
    let open = File::open(shown.path("old/deep/f")).unwrap();
    fs::rename(shown.path("old"), shown.path("new")).unwrap();
    assert_eq!(fs::read(shown.path("new/deep/f")).unwrap(), b"1");
    assert_eq!(open.metadata().unwrap().ino(), fs::metadata(shown.path("new/deep/f")).unwrap().ino());
    fs::write(shown.path("g"), "22").unwrap();
    fs::rename(shown.path("g"), shown.path("new/deep/f")).unwrap();
    assert_eq!(fs::read(shown.path("new/deep/f")).unwrap(), b"22");
    assert_eq!(open.metadata().unwrap().len(), 1, "the one that was replaced is still open");
    symlink("new/deep/f", shown.path("latest")).unwrap();
    assert_eq!(fs::read(shown.path("latest")).unwrap(), b"22");
    assert_eq!(shown.counters().renames, 2);
}

#[test]
fn a_file_has_the_same_number_in_every_mount() {
    let Some(shown) = shown(Pace::default(), None) else { return };
    fs::write(shown.path("f"), "x").unwrap();
    let below = fs::metadata(shown.below("f")).unwrap().ino();
    assert_eq!(fs::metadata(shown.path("f")).unwrap().ino(), below);
}

#[test]
fn a_create_that_must_be_new_is_refused_where_a_file_is() {
    let Some(shown) = shown(Pace::default(), None) else { return };
    fs::write(shown.below("f"), "x").unwrap();
    let made = File::options().write(true).create_new(true).open(shown.path("f"));
    assert_eq!(made.unwrap_err().kind(), ErrorKind::AlreadyExists);
    fs::write(shown.path("f"), "").unwrap();
    assert_eq!(fs::metadata(shown.below("f")).unwrap().len(), 0, "opened and emptied");
}

#[test]
fn every_operation_is_counted() {
    let Some(shown) = shown(Pace::default(), None) else { return };
    let file = File::create(shown.path("f")).unwrap();
    for number in 0..10 {
        file.write_all_at(&[1; 5000], number * 5000).unwrap();
    }
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    file.set_len(100).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    drop(file);
    fs::create_dir(shown.path("d")).unwrap();
    fs::rename(shown.path("f"), shown.path("d/f")).unwrap();
    fs::remove_file(shown.path("d/f")).unwrap();
    fs::remove_dir(shown.path("d")).unwrap();
    let counters = shown.counters();
    assert_eq!((counters.writes, counters.write_requests, counters.bytes_written), (10, 10, 50_000));
    assert_eq!((counters.creates, counters.renames, counters.removes), (2, 1, 2));
    assert_eq!((counters.fsyncs, counters.truncates, counters.changes), (2, 1, 1));
}

#[test]
fn a_write_of_a_mebibyte_is_one_write_wherever_its_memory_begins() {
    let Some(shown) = shown(Pace::default(), None) else { return };
    let file = File::create(shown.path("f")).unwrap();
    let memory = bytes((1 << 20) + 8192);
    let page = memory.as_ptr().align_offset(4096);
    for skew in [0, 16, 4095] {
        let before = shown.counters();
        let written = &memory[page + skew..][..1 << 20];
        file.write_all_at(written, 12_345).unwrap();
        assert!(fs::read(shown.below("f")).unwrap()[12_345..] == *written);
        assert_eq!(shown.counters().writes - before.writes, 1, "memory begins {skew} bytes into a page");
    }
}

#[test]
fn a_request_size_cuts_long_writes_and_reads() {
    let pace = Pace { request_bytes: NonZeroU32::new(64 << 10), ..Pace::default() };
    let Some(shown) = shown(pace, None) else { return };
    fs::write(shown.path("f"), bytes(1 << 20)).unwrap();
    assert_eq!(shown.counters().writes, 16);
    File::open(shown.path("f")).unwrap().read_exact_at(&mut [0; 100 << 10], 0).unwrap();
    assert_eq!(shown.counters().reads, 2);
}

#[test]
fn writes_fsyncs_and_names_wait_each_its_own_time() {
    let pace = Pace { latency: ms(5), open_latency: ms(20), fsync_latency: ms(40), ..Pace::default() };
    let Some(shown) = shown(pace, None) else { return };
    let took = |act: &dyn Fn()| {
        let began = Instant::now();
        act();
        began.elapsed()
    };
    assert!(took(&|| fs::create_dir(shown.path("d")).unwrap()) >= ms(20));
    let file = File::create(shown.path("f")).unwrap();
    assert!(took(&|| (0..20).for_each(|turn| file.write_all_at(&[1; 100], turn * 100).unwrap())) >= ms(100));
    assert!(took(&|| file.sync_all().unwrap()) >= ms(40));
    assert!(took(&|| fs::rename(shown.path("f"), shown.path("g")).unwrap()) >= ms(20));
    assert!(took(&|| fs::remove_file(shown.path("g")).unwrap()) >= ms(20));
}

#[test]
fn readers_and_writers_share_the_bandwidth() {
    let pace = Pace { bytes_per_second: NonZeroU64::new(10 << 20), ..Pace::default() };
    let Some(shown) = shown(pace, None) else { return };
    fs::write(shown.below("old"), bytes(1 << 20)).unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        let shown = &shown;
        scope.spawn(move || fs::write(shown.path("new"), bytes(1 << 20)).unwrap());
        scope.spawn(move || {
            File::open(shown.path("old")).unwrap().read_exact_at(&mut vec![0; 1 << 20], 0).unwrap();
        });
    });
    // 2 MiB at 10 MiB/s, one after the other.
    assert!(began.elapsed() >= ms(195), "{:?}", began.elapsed());
}

#[test]
fn writers_of_one_file_wait_at_the_same_time() {
    let Some(shown) = shown(Pace { latency: ms(50), ..Pace::default() }, None) else { return };
    let file = File::create(shown.path("f")).unwrap();
    file.set_len(1 << 20).unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        for number in 0..8 {
            let file = &file;
            scope.spawn(move || {
                (0..4).for_each(|turn| file.write_all_at(&[1; 100], number * 1000 + turn * 100).unwrap());
            });
        }
    });
    // One after another they would take 1600 ms; kernels before 6.2 let them.
    let took = began.elapsed();
    assert!(took >= ms(200), "{took:?}");
    assert_eq!(shown.counters().writes, 32);
}

#[test]
fn beyond_the_capacity_there_is_no_space_and_what_is_there_stays_whole() {
    let Some(shown) = shown(Pace::default(), Some(100_000)) else { return };
    fs::write(shown.path("a"), bytes(60_000)).unwrap();
    let file = File::create(shown.path("b")).unwrap();
    file.write_all_at(&bytes(40_000), 0).unwrap();
    let full = |done: std::io::Result<()>| assert_eq!(done.unwrap_err().kind(), ErrorKind::StorageFull);
    full(file.write_all_at(b"x", 40_000));
    full(file.set_len(40_001));
    file.write_all_at(b"in place", 100).unwrap();
    assert!(fs::read(shown.path("a")).unwrap() == bytes(60_000));
    let found = rustix::fs::statvfs(shown.path("")).unwrap();
    assert_eq!(found.f_bavail, 0);
    fs::remove_file(shown.path("a")).unwrap();
    file.write_all_at(&bytes(60_000), 40_000).unwrap();
    full(fs::write(shown.path("c"), "x"));
    fs::write(shown.path("b"), "").unwrap();
    fs::write(shown.path("c"), bytes(100_000)).unwrap();
}

#[test]
fn a_mount_can_become_read_only_or_full_and_normal_again() {
    let Some(shown) = shown(Pace::default(), None) else { return };
    let file = File::create(shown.path("f")).unwrap();
    file.write_all_at(b"kept", 0).unwrap();
    for (word, kind) in [("read-only", ErrorKind::ReadOnlyFilesystem), ("full", ErrorKind::StorageFull)] {
        fs::write(shown.path(CONTROL_FILE), word).unwrap();
        assert_eq!(file.write_all_at(b"lost", 0).unwrap_err().kind(), kind);
        assert_eq!(fs::write(shown.path("new"), "").unwrap_err().kind(), kind);
        assert_eq!(fs::rename(shown.path("f"), shown.path("g")).unwrap_err().kind(), kind);
        assert_eq!(fs::read(shown.path("f")).unwrap(), b"kept");
    }
    shown.shell(&format!("echo normal > {CONTROL_FILE}"));
    file.write_all_at(b"next", 0).unwrap();
    assert_eq!(fs::read(shown.below("f")).unwrap(), b"next");
    assert_eq!(fs::write(shown.path(CONTROL_FILE), "nonsense").unwrap_err().kind(), ErrorKind::InvalidInput);
}
