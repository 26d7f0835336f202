//! A forked child reads on, whatever the parent's threads held at the moment of the fork.

use std::{
    fs::{self, File},
    os::fd::AsRawFd,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use forebay_process::{Event, PerProcess, ledger, take_warnings};
use forebay_source::{ByteRange, FileOrigin, Locator, Origin, Source, SourceExt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

const FILES: u8 = 8;

fn reads_right(source: &dyn Source, byte: u8) -> bool {
    let read = source.fetch_one(ByteRange::at(1000, 3000));
    read.is_ok_and(|read| read.len() == 3000 && read.iter().all(|read| *read == byte))
}

/// Reads what the parent opened and opens more, on several threads.
fn child_reads(origin: &FileOrigin, sources: &[Arc<dyn Source>]) -> bool {
    let reads_all = || {
        sources.iter().zip(0..).all(|(source, byte)| reads_right(&**source, byte))
            && (0..FILES).all(|byte| {
                let opened = origin.open(&Locator::new(format!("{byte}.bin")));
                opened.is_ok_and(|source| reads_right(&*source, byte))
            })
    };
    let others = thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(reads_all)).collect();
        threads.into_iter().all(|thread| thread.join().unwrap_or(false))
    });
    others && reads_all()
}

/// Runs `reads` in a forked child; true when it exits by 0 within 20 s.
#[expect(unsafe_code, reason = "std has no fork, and what happens after one is what is tested")]
fn forked(reads: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `reads`, which takes no lock that another thread of the parent could have held
    // (that is the claim under test; the allocator's are reset by libc), and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let status = i32::from(!reads());
        // SAFETY: `_exit` ends the child at once, running nothing of the parent's.
        unsafe { libc::_exit(status) };
    }
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut status = 0;
    loop {
        // SAFETY: `child` is ours and not yet waited for; `status` is a valid place for its status.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
            0 => {
                // SAFETY: `child` is ours and still runs, so its number names no other process.
                unsafe { libc::kill(child, libc::SIGKILL) };
                return false;
            }
            _ => return status == 0,
        }
    }
}

fn folder(files: u8) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for byte in 0..files {
        fs::write(folder.path().join(format!("{byte}.bin")), vec![byte; 5000]).expect("a file");
    }
    folder
}

#[test]
fn a_child_forked_while_the_parent_reads_gets_the_right_bytes() {
    let folder = folder(FILES);
    // Eight files through two descriptors: the pool's lock is taken on nearly every read.
    let origin = FileOrigin::under(folder.path()).with_descriptor_budget(2);
    let open = |byte| origin.open(&Locator::new(format!("{byte}.bin"))).unwrap();
    let sources: Vec<_> = (0..FILES).map(open).collect();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    assert!(sources.iter().zip(0..).all(|(source, byte)| reads_right(&**source, byte)));
                }
            });
        }
        let right = (0..50).filter(|_| forked(|| child_reads(&origin, &sources))).count();
        done.store(true, Relaxed);
        assert_eq!(right, 50);
    });
    assert!(child_reads(&origin, &sources), "the parent goes on as before");
}

#[test]
fn a_process_out_of_descriptors_closes_its_own_before_it_gives_up() {
    let folder = folder(100);
    let reads = || {
        let limit = Rlimit { current: Some(50), maximum: Some(50) };
        let origin = FileOrigin::under(folder.path()).with_descriptor_budget(1000);
        let open = |byte| origin.open(&Locator::new(format!("{byte}.bin"))).ok();
        setrlimit(Resource::Nofile, limit).is_ok()
            && (0..100).map(open).collect::<Option<Vec<_>>>().is_some_and(|sources| {
                sources.iter().zip(0..).all(|(source, byte)| reads_right(&**source, byte))
            })
    };
    assert!(forked(reads));
}

/// State whose drop takes a lock, as that of a tier does.
struct Locks(Arc<Mutex<()>>);

impl Drop for Locks {
    fn drop(&mut self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[test]
fn a_child_that_drops_what_it_never_used_does_not_wait_for_a_thread_of_its_parent() {
    let lock = Arc::new(Mutex::new(()));
    let state = PerProcess::new(Locks(Arc::clone(&lock)));
    let (locked, wait_until_locked) = mpsc::channel();
    let (release, wait_until_released) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let _held = lock.lock();
            locked.send(()).unwrap();
            let _ = wait_until_released.recv();
        });
        wait_until_locked.recv().unwrap();
        // Moved into the child's closure, of which the parent runs nothing and forgets its own copy.
        let state = std::mem::ManuallyDrop::new(state);
        let drops = || {
            drop(std::mem::ManuallyDrop::into_inner(state));
            true
        };
        assert!(forked(drops));
        drop(release);
    });
}

fn limit_descriptors(current: u64, maximum: u64) -> bool {
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: Some(maximum) }).is_ok()
}

fn open_descriptors() -> usize {
    fs::read_dir("/dev/fd").map_or(usize::MAX, Iterator::count)
}

/// Opens and reads `count` files of `folder` by an origin of its own.
fn read_all(folder: &TempDir, count: u8) -> Option<Vec<Arc<dyn Source>>> {
    let origin = FileOrigin::under(folder.path());
    let open = |byte| origin.open(&Locator::new(format!("{byte}.bin"))).ok();
    let sources = (0..count).map(open).collect::<Option<Vec<_>>>()?;
    sources.iter().zip(0..).all(|(source, byte)| reads_right(&**source, byte)).then_some(sources)
}

#[test]
fn all_origins_of_a_process_draw_on_one_budget_of_descriptors() {
    let folder = folder(200);
    let reads = || {
        limit_descriptors(256, 256)
            && (0..3).map(|_| read_all(&folder, 200)).collect::<Option<Vec<_>>>().is_some_and(|_held| {
                // The program around us has its half.
                open_descriptors() <= 150 && (0..90).map(|_| File::open("/dev/null")).all(|file| file.is_ok())
            })
    };
    assert!(forked(reads));
}

#[test]
fn a_forked_child_leaves_room_beside_what_it_inherited() {
    let folder = folder(200);
    let reads = || {
        let Some(parents) = limit_descriptors(256, 256).then(|| read_all(&folder, 200)).flatten() else {
            return false;
        };
        forked(|| {
            let all = read_all(&folder, 200);
            let files: Vec<_> = (0..40).map(|_| File::open("/dev/null")).collect();
            parents.len() == 200 && all.is_some() && files.iter().all(Result::is_ok)
        })
    };
    assert!(forked(reads));
}

#[test]
fn the_soft_limit_of_descriptors_is_raised_to_the_hard_one() {
    let (folder, hard) = (folder(1), getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX));
    let wanted = hard.min(1 << 20);
    let reads = || {
        limit_descriptors(wanted.min(64), hard)
            && read_all(&folder, 1).is_some()
            && getrlimit(Resource::Nofile).current == Some(wanted)
    };
    assert!(forked(reads));
}

/// Makes this process, where the tests are run by root, that of a user who may not look into everything.
#[expect(unsafe_code, reason = "std has no way to become another user")]
fn become_ordinary() -> bool {
    const NOBODY: u32 = 65534;
    // SAFETY: the call changes the user of this child alone.
    !rustix::process::geteuid().is_root() || unsafe { libc::seteuid(NOBODY) } == 0
}

#[test]
fn a_forked_child_reads_by_the_adopted_descriptor_that_it_inherits_and_never_by_anothers_of_its_number() {
    let folder = folder(2);
    let path = |byte: u8| folder.path().join(format!("{byte}.bin"));
    let adopted = File::open(path(1)).expect("a file");
    let number = adopted.as_raw_fd();
    let source = FileOrigin::new().adopt(adopted.into(), Locator::new("adopted")).expect("a source");
    fs::remove_file(path(1)).expect("removed");
    assert!(reads_right(&*source, 1));
    let reads = || {
        if !reads_right(&*source, 1) {
            return false;
        }
        let other = File::open(path(0)).expect("a file");
        // SAFETY: gives the number to another file, as a child does that closes all it inherits and opens its own.
        #[expect(unsafe_code, reason = "std closes no descriptor that it does not own")]
        let replaced = unsafe { libc::dup2(other.as_raw_fd(), number) } == number;
        replaced && source.fetch_one(ByteRange::at(0, 100)).is_err()
    };
    assert!(forked(reads));
    assert!(reads_right(&*source, 1));
}

#[test]
fn a_list_leaves_out_folders_that_may_not_be_looked_into_and_warns_of_them_once() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder(1);
    let (root, closed) = (folder.path(), folder.path().join("closed"));
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("a.bin"), "").unwrap();
    set_mode(&closed, 0);
    set_mode(root, 0o755);
    let lists = || {
        let list = || FileOrigin::under(root).list(&Locator::new(""));
        let lists_rest = || list().is_ok_and(|listed| listed == [Locator::new("0.bin")]);
        let tells = |event: &&Event| event.text.contains("1 left out that may not be looked into");
        become_ordinary() && lists_rest() && lists_rest() && take_warnings().iter().filter(tells).count() == 1
    };
    let listed = forked(lists);
    set_mode(&closed, 0o755);
    assert!(listed);
}

#[test]
fn a_forked_child_has_what_its_parent_left_and_gives_nothing_of_the_parents_back() {
    let held = ledger().take("loader", 1 << 20);
    let (share, free) = (ledger().share(), ledger().free());
    assert!(free <= share - held.bytes());
    let mut held = Some(held);
    let counts_right = || {
        let inherited = ledger().share() == free;
        drop(held.take());
        let own = ledger().take("data set", 1 << 10);
        ledger().set_workers(2, 7);
        // A worker has some for what it takes unasked.
        let part = free / 2;
        inherited && ledger().free() == part - (16 << 20).min(part / 4) - own.bytes()
    };
    assert!(forked(counts_right));
    assert_eq!(ledger().free(), free, "the child has ended, and the parent still has its own");
    assert_eq!(ledger().report().forked_bytes, 0);
}
