//! The handler that guards mappings leaves all other faults and signals to those who had them before.
//!
//! Handlers belong to the whole process, so each test runs one scene in a process of its own.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]
#![expect(unsafe_code, reason = "std has no signals, mappings and fork, and these are what is tested")]

use std::{
    env,
    fs::{self, File, OpenOptions},
    mem,
    os::{fd::AsRawFd, unix::process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    ptr,
    sync::Arc,
    thread,
};

use forebay_process::ErrorKind;
use forebay_source::{ByteRange, FileOrigin, Fill, Locator, Origin, Source, SourceExt};
use libc::{c_int, c_void, siginfo_t};

const SCENE: &str = "FOREBAY_TEST_SCENE";
const LEN: usize = 100_000;
/// How the handlers of the scenes end their process.
const HANDLED: i32 = 42;
/// A scene that came to its end.
const PLAYED: i32 = 43;

/// Plays `scene` in a process of its own.
fn play(scene: &str) -> ExitStatus {
    play_with(scene, "on")
}

fn play_with(scene: &str, map: &str) -> ExitStatus {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "stage", "--nocapture"]).env(SCENE, scene).env("FOREBAY_MAP", map);
    command.status().unwrap()
}

#[test]
fn a_fault_elsewhere_reaches_the_handler_that_was_there_before() {
    assert_eq!(play("handler").code(), Some(HANDLED));
    assert_eq!(play("plain handler").code(), Some(HANDLED));
}

#[test]
fn a_fault_elsewhere_ends_a_process_that_had_no_handler() {
    assert_eq!(play("default").signal(), Some(libc::SIGBUS));
    assert_eq!(play("ignore").signal(), Some(libc::SIGBUS), "a fault cannot be ignored");
}

#[test]
fn a_signal_that_was_sent_does_what_it_did_before() {
    assert_eq!(play("sent to default").signal(), Some(libc::SIGBUS));
    assert_eq!(play("sent to ignore").code(), Some(PLAYED));
    assert_eq!(play("sent to handler").code(), Some(HANDLED));
}

#[test]
fn a_handler_put_over_ours_ends_mapped_reads() {
    assert_eq!(play("replaced").code(), Some(PLAYED));
}

#[test]
fn a_thread_that_blocks_the_signal_reads_without_a_mapping() {
    assert_eq!(play("blocked").code(), Some(PLAYED));
}

#[test]
fn a_forked_child_reads_the_mapping_and_survives_a_cut() {
    assert_eq!(play("forked").code(), Some(PLAYED));
}

#[test]
fn mapping_can_be_switched_off() {
    assert_eq!(play_with("off", "off").code(), Some(PLAYED));
}

#[test]
fn where_mapping_is_switched_off_the_page_cache_is_not_asked() {
    assert_eq!(play_with("unasked", "off").code(), Some(PLAYED));
    assert_eq!(play("unasked").signal(), Some(libc::SIGSYS), "otherwise it is");
}

#[test]
fn an_origin_without_mapping_installs_no_handler() {
    assert_eq!(play("without mapping").code(), Some(PLAYED));
}

#[test]
fn a_limited_address_space_is_not_spent_on_mappings() {
    assert_eq!(play("limited").code(), Some(PLAYED));
}

/// Not a test by itself: where the scenes are played.
#[test]
fn stage() {
    let Ok(scene) = env::var(SCENE) else { return };
    let folder = tempfile::TempDir::new().unwrap();
    let set = Set { folder: folder.path().canonicalize().unwrap() };
    match scene.as_str() {
        "handler" => set.fault_after(own(), libc::SA_SIGINFO),
        "plain handler" => set.fault_after(own(), 0),
        "default" => set.fault_after(libc::SIG_DFL, 0),
        "ignore" => set.fault_after(libc::SIG_IGN, 0),
        "sent to default" => set.send_after(libc::SIG_DFL, 0),
        "sent to ignore" => set.send_after(libc::SIG_IGN, 0),
        "sent to handler" => set.send_after(own(), libc::SA_SIGINFO),
        "replaced" => set.replaced(),
        "blocked" => set.blocked(),
        "forked" => set.forked(),
        "off" => set.unmapped(),
        "unasked" => {
            end_on_cachestat();
            set.unmapped();
        }
        "without mapping" => set.without_mapping(),
        "limited" => {
            let limit = rustix::process::Rlimit { current: Some(64 << 30), maximum: Some(64 << 30) };
            rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
            set.unmapped();
        }
        scene => panic!("no scene {scene}"),
    }
    drop(folder);
    std::process::exit(PLAYED);
}

extern "C" fn exit_handled(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: `_exit` may be called from a handler.
    unsafe { libc::_exit(HANDLED) };
}

/// The address of a handler of the scene's own.
fn own() -> usize {
    exit_handled as *const () as usize
}

fn act(handler: usize, flags: c_int) {
    // SAFETY: zeros are a valid action; `handler` is a function of the signature that `flags` ask for, or one of the
    // constants.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()), 0);
    }
}

/// The address of the handler that is called.
fn handler() -> usize {
    // SAFETY: zeros are a valid action, which the call overwrites.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        assert_eq!(libc::sigaction(libc::SIGBUS, ptr::null(), &mut action), 0);
        action.sa_sigaction
    }
}

fn fill(source: &dyn Source, start: usize, into: &mut [u8]) -> forebay_process::Result<()> {
    let range = ByteRange::at(start as u64, into.len() as u64);
    source.fetch_into(&mut [Fill { range, into }])
}

/// Has the kernel end the process by SIGSYS when it asks what is in the page cache.
fn end_on_cachestat() {
    const SYS_CACHESTAT: u32 = 451;
    let step =
        |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code.try_into().unwrap(), jt, jf, k };
    let mut steps = [
        // The number of the system call is the first word.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, SYS_CACHESTAT),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: steps.len().try_into().unwrap(), filter: steps.as_mut_ptr() };
    // SAFETY: the filter and its steps outlive the call, which copies them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter), 0);
    }
}

struct Set {
    folder: PathBuf,
}

impl Set {
    fn file(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        fs::write(&path, vec![7; LEN]).unwrap();
        path
    }

    fn read_twice(&self, path: &Path) -> Arc<dyn Source> {
        let source = FileOrigin::new().open(&Locator::new(path.to_str().unwrap())).unwrap();
        for _ in 0..2 {
            fill(&*source, 0, &mut [0; 100]).unwrap();
        }
        source
    }

    fn mapped(&self, path: &Path) -> Arc<dyn Source> {
        let source = self.read_twice(path);
        assert!(is_mapped(path));
        source
    }

    /// A file of ours that is cut is an error, whatever stood before; then a mapping that is not ours faults.
    fn fault_after(&self, handler: usize, flags: c_int) {
        act(handler, flags);
        self.ours_is_guarded();
        let path = self.file("foreign.bin");
        let file = File::open(&path).unwrap();
        // SAFETY: the kernel chooses the address; the byte that is read lies in the mapping and has vanished, which is
        // the fault that is wanted.
        unsafe {
            let start =
                libc::mmap(ptr::null_mut(), LEN, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
            cut(&path, 0);
            println!("{}", start.cast::<u8>().read_volatile());
        }
    }

    fn send_after(&self, handler: usize, flags: c_int) {
        act(handler, flags);
        self.ours_is_guarded();
        // SAFETY: the signal goes to this thread alone.
        unsafe { libc::raise(libc::SIGBUS) };
    }

    fn ours_is_guarded(&self) {
        let path = self.file("ours.bin");
        let source = self.mapped(&path);
        cut(&path, 0);
        let error = fill(&*source, 5000, &mut [0; 50_000]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }

    fn replaced(&self) {
        let path = self.file("ours.bin");
        let source = self.mapped(&path);
        act(own(), libc::SA_SIGINFO);
        // Noticed after so many copies of a thread, or at once by a thread that was not there before.
        for _ in 0..1100 {
            fill(&*source, 0, &mut [0; 100]).unwrap();
        }
        let other = self.file("other.bin");
        self.read_twice(&other);
        assert!(!is_mapped(&other), "mapped without a guard");
        cut(&path, 0);
        fill(&*source, 5000, &mut [0; 50_000]).unwrap_err();
    }

    fn blocked(&self) {
        let path = self.file("ours.bin");
        let source = self.mapped(&path);
        let reads = || {
            // SAFETY: a set is made and blocked for this thread alone.
            unsafe {
                let mut set = mem::zeroed();
                libc::sigemptyset(&mut set);
                libc::sigaddset(&mut set, libc::SIGBUS);
                assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut()), 0);
            }
            let mut memory = [0; 50_000];
            fill(&*source, 5000, &mut memory).unwrap();
            assert!(memory.iter().all(|byte| *byte == 7));
            cut(&path, 0);
            fill(&*source, 5000, &mut memory).unwrap_err();
        };
        thread::scope(|scope| scope.spawn(reads).join().unwrap());
    }

    fn forked(&self) {
        let path = self.file("ours.bin");
        let source = self.mapped(&path);
        for (is_cut, has_handler) in [(false, false), (true, true), (true, false)] {
            if is_cut {
                cut(&path, 10_000);
            }
            // SAFETY: the child reads and leaves by `_exit`; no other thread of the scene holds anything.
            let child = unsafe { libc::fork() };
            if child == 0 {
                if has_handler {
                    // Noticed at once: the child's first read looks.
                    act(own(), libc::SA_SIGINFO);
                }
                let mut memory = [0; 50_000];
                let right = match fill(&*source, 5000, &mut memory) {
                    Ok(()) => !is_cut && memory.iter().all(|byte| *byte == 7),
                    Err(error) => is_cut && error.kind() == ErrorKind::Unavailable,
                };
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(i32::from(!right)) };
            }
            let mut status = 0;
            // SAFETY: `child` is ours and not yet waited for.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "cut: {is_cut}");
        }
        // What the children saw is their own: the parent finds out for itself.
        fill(&*source, 0, &mut [0; 50_000]).unwrap_err();
    }

    fn without_mapping(&self) {
        act(own(), libc::SA_SIGINFO);
        let path = self.file("ours.bin");
        let source = FileOrigin::new().without_mapping().open(&Locator::from_path(&path)).unwrap();
        for _ in 0..4 {
            fill(&*source, 0, &mut [0; 50_000]).unwrap();
        }
        assert!(handler() == own() && !is_mapped(&path));
        self.mapped(&path);
        assert_ne!(handler(), own(), "a file that is mapped is guarded");
    }

    fn unmapped(&self) {
        let path = self.file("ours.bin");
        let source = self.read_twice(&path);
        let mut memory = [0; 50_000];
        fill(&*source, 5000, &mut memory).unwrap();
        assert!(memory.iter().all(|byte| *byte == 7) && !is_mapped(&path));
    }
}

fn cut(path: &Path, len: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn is_mapped(path: &Path) -> bool {
    fs::read_to_string("/proc/self/maps").unwrap().lines().any(|line| line.ends_with(path.to_str().unwrap()))
}
