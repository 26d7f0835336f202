//! What goes wrong around ranks that are well: forks, windows that close under readers, ranks that stop for a while.

#![expect(unsafe_code, reason = "forks, and initialises MPI as another part of a program would")]

use std::{
    env,
    ffi::{c_int, c_void},
    fs,
    process::Command,
    ptr,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_mpi::{MpiAbi, MpiComm, MpiLaunchedComm, MpiLibrary, MpiOptions};
use forebay_process::ErrorKind;
use forebay_store::{
    Comm, CommThreads, JobName, SharedComm, Wait, Window, WindowPiece, WindowRead, check::patience,
};

use crate::{BY_GETS, bytes, kill_self, open_window, read, say, world};

const LEN: usize = 1 << 20;

/// Outcomes of reads of 8 KiB from each of `ranks`, in one call, and how long it took. What was read is right.
fn read_all(
    window: &dyn Window,
    ranks: &[usize],
    patience: Duration,
) -> (Vec<forebay_process::Result<()>>, Duration) {
    let mut got = vec![vec![0u8; 8192]; ranks.len()];
    let reads = ranks.iter().zip(&mut got).map(|(rank, into)| WindowRead {
        rank: *rank,
        pieces: vec![WindowPiece { offset: 4096, into }],
        outcome: Ok(()),
    });
    let mut reads: Vec<_> = reads.collect();
    let started = Instant::now();
    window.get(&mut reads, &Wait::at_most(patience));
    let outcomes: Vec<_> = reads.into_iter().map(|read| read.outcome).collect();
    let took = started.elapsed();
    for ((rank, got), outcome) in ranks.iter().zip(&got).zip(&outcomes) {
        assert!(outcome.is_err() || *got == bytes(*rank, 4096, 8192), "bytes of rank {rank}");
    }
    (outcomes, took)
}

fn read_one(window: &dyn Window, rank: usize) -> forebay_process::Result<()> {
    read_all(window, &[rank], Duration::from_secs(60)).0.remove(0)
}

/// Children that a rank forks while a thread of it reads.
pub(crate) fn a_forked_child_reads_its_host_and_never_calls_mpi() {
    let (shared, by_gets) = (world(MpiOptions::default()), world(BY_GETS));
    let windows = [open_window(&shared, LEN), open_window(&by_gets, LEN)];
    let other = (by_gets.rank() + 1) % by_gets.size();
    let reads_shared = shared.host_of(other) == shared.host_of(shared.rank());
    by_gets.barrier(&patience()).expect("all are there");
    thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let window = &windows[1];
        scope.spawn(move || {
            while matches!(stopped.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)) {
                // Each takes the locks that a child might find taken.
                read_one(&**window, other).expect("a rank that is there");
            }
        });
        for _ in 0..10 {
            in_child(|| {
                if reads_shared && read_one(&*windows[0], other).is_err() {
                    return 10;
                }
                let refused = |error: forebay_process::Error| {
                    error.kind() == ErrorKind::Invalid && error.to_string().contains("num_workers=0")
                };
                if other != by_gets.rank() && !read_one(&*windows[1], other).is_err_and(refused) {
                    return 11;
                }
                if !by_gets.barrier(&patience()).is_err_and(refused) {
                    return 12;
                }
                if !MpiComm::world(BY_GETS, &patience()).is_err_and(refused) {
                    return 13;
                }
                0
            });
        }
        drop(stop);
    });
    // A child that drops all it has, and ends as programs do.
    let kept = (shared, by_gets, windows);
    // SAFETY: the child drops its copies and leaves.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        drop(kept);
        // SAFETY: runs what was registered for the end of the process, as a child of any program does.
        unsafe { libc::exit(0) };
    }
    assert_eq!(status_of(child), 0, "a child that drops all");
    let (shared, by_gets, windows) = kept;
    by_gets.barrier(&patience()).expect("all are there, and no child spoke for one");
    read_one(&*windows[1], other).expect("connections are whole");
    for window in &windows {
        window.close(&patience()).expect("all close it");
    }
    shared.barrier(&patience()).expect("all are there");
}

/// Runs `work` in a forked child that ends by `exit`, and has it give 0.
fn in_child(work: impl FnOnce() -> c_int) {
    // SAFETY: the child does what a worker of a loader does, and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let code = work();
        // SAFETY: as a program ends that calls `exit`.
        unsafe { libc::exit(code) };
    }
    assert_eq!(status_of(child), 0, "a forked child");
}

/// How a child ended; an error where it does not within a minute.
fn status_of(child: c_int) -> c_int {
    let started = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: `child` is ours and not yet waited for.
        match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
            0 => assert!(started.elapsed() < Duration::from_secs(60), "a child hangs"),
            ended => {
                assert_eq!(ended, child);
                return status;
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Threads that read while the window is closed, and while MPI is finalised.
pub(crate) fn a_window_closes_under_its_readers() {
    let comm = world(BY_GETS);
    let other = (comm.rank() + 1) % comm.size();
    let readers = |window: &Arc<dyn Window>| {
        let read = |window: Arc<dyn Window>| {
            move || loop {
                if let Err(error) = read_one(&*window, other) {
                    return error;
                }
            }
        };
        (0..2).map(|_| thread::spawn(read(Arc::clone(window)))).collect::<Vec<_>>()
    };
    let ends = |readers: Vec<thread::JoinHandle<forebay_process::Error>>| {
        for reader in readers {
            let error = reader.join().expect("a reader");
            assert!(error.to_string().contains("closed") || error.to_string().contains("final"), "{error}");
        }
    };
    let is_remote = comm.threads() == CommThreads::Any && other != comm.rank();
    for _ in 0..10 {
        let window = open_window(&comm, LEN);
        let readers = if is_remote { readers(&window) } else { Vec::new() };
        comm.barrier(&patience()).expect("all are there");
        window.close(&patience()).expect("all close it");
        ends(readers);
    }
    let window = open_window(&comm, LEN);
    let readers = if is_remote { readers(&window) } else { Vec::new() };
    comm.barrier(&patience()).expect("all are there");
    forebay_mpi::finalize().expect("MPI ends in order");
    ends(readers);
}

/// The last rank is stopped for a while: it is silent, not lost, and the others are read all the while.
pub(crate) fn a_stopped_rank_fails_no_other_and_comes_back() {
    let comm = world(BY_GETS);
    let window = open_window(&comm, LEN);
    let victim = comm.size() - 1;
    let pids =
        comm.all_gather(std::process::id().to_le_bytes().to_vec(), &patience()).expect("all are there");
    let ranks: Vec<usize> = (1..comm.size()).collect();
    if comm.rank() == 0 && victim > 0 {
        // All are connected.
        let (outcomes, _) = read_all(&*window, &ranks, Duration::from_secs(60));
        outcomes.into_iter().for_each(|outcome| outcome.expect("a rank that is there"));
    }
    comm.barrier(&patience()).expect("all are there");
    if comm.rank() == 0 && victim > 0 {
        let pid = u32::from_le_bytes(pids[victim][..].try_into().expect("4 bytes"));
        signal("-STOP", pid);
        let is_stopped = || {
            fs::read_to_string(format!("/proc/{pid}/status"))
                .is_ok_and(|status| status.contains("T (stopped)"))
        };
        let started = Instant::now();
        while !is_stopped() {
            assert!(started.elapsed() < Duration::from_secs(20), "it does not stop");
            thread::sleep(Duration::from_millis(1));
        }
        let patience_of_gets = Duration::from_secs(2);
        for round in 0..3 {
            let (outcomes, took) = read_all(&*window, &ranks, patience_of_gets);
            for (rank, outcome) in ranks.iter().zip(outcomes) {
                match outcome {
                    Err(error) if *rank == victim => {
                        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                        assert!(error.to_string().contains(&format!("rank {victim} ")), "{error}");
                        println!("  rank {victim} is stopped: after {:.2} s: {error}", took.as_secs_f64());
                        assert!(
                            round == 0 || took < patience_of_gets / 2,
                            "{took:?}: it was known to be silent"
                        );
                    }
                    // Where its memory is read without it.
                    Ok(()) if *rank == victim => println!("  rank {victim} is stopped, and read"),
                    outcome => outcome.expect("a rank that runs"),
                }
            }
            assert!(took < patience_of_gets * 2, "{took:?}");
        }
        signal("-CONT", pid);
        let resumed = Instant::now();
        while let Err(error) = &read_all(&*window, &[victim], patience_of_gets).0[0] {
            assert!(resumed.elapsed() < Duration::from_secs(20), "{error}");
            thread::sleep(Duration::from_millis(5));
        }
    }
    comm.barrier(&patience()).expect("nobody is lost");
    window.close(&patience()).expect("all close it");
    forebay_mpi::finalize().expect("MPI ends in order");
}

fn signal(name: &str, pid: u32) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "kill {name}");
}

/// Ranks that MPI started and that work together without it: a killed one is known when MPI ends.
pub(crate) fn a_rank_lost_beside_mpi_is_not_waited_for_in_its_end() {
    let comm = world(MpiOptions::default());
    let name = comm.broadcast(0, std::process::id().to_string().into_bytes(), &patience()).expect("a name");
    let job = JobName::new(format!("beside-mpi-{}", String::from_utf8_lossy(&name)));
    let shared = SharedComm::new(comm.rank(), comm.size(), &job, &patience()).expect("ranks of one host");
    let beside = MpiLaunchedComm::new(Arc::new(shared));
    let victim = comm.size() / 2;
    drop(comm);
    if let Err(error) = beside.barrier(&patience()) {
        assert!(beside.rank() != victim, "{error}");
    }
    if beside.rank() == victim {
        kill_self();
    }
    let started = Instant::now();
    while beside.first_gone(0..beside.size()).is_none() {
        assert!(started.elapsed() < Duration::from_secs(10), "nobody noticed");
        thread::sleep(Duration::from_millis(5));
    }
    let rank = beside.rank();
    drop(beside);
    let error = forebay_mpi::finalize().expect_err("MPI cannot be finalised without that rank");
    assert!(error.to_string().contains(&format!("rank {victim} is gone")), "{error}");
    println!("  rank {rank}: after {:.2} s: {error}", started.elapsed().as_secs_f64());
}

/// Another part of the program has initialised MPI for calls from one thread, and finalises it.
pub(crate) fn below_multiple_the_maker_alone_calls_mpi() {
    type Init = unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int;
    type Finalize = unsafe extern "C" fn() -> c_int;
    let found = MpiLibrary::find().expect("an MPI");
    // SAFETY: the library is loaded already.
    let library = unsafe { libloading::Library::new(found.path()) }.expect("the same library");
    let funneled = if found.abi() == MpiAbi::Standard { 1024 } else { 1 };
    let mut level = 0;
    // SAFETY: these are the signatures of the MPI standard, which allows null for the arguments of `main`.
    let finalize = unsafe {
        let init = library.get::<Init>(b"MPI_Init_thread").expect("a function");
        assert_eq!(init(ptr::null_mut(), ptr::null_mut(), funneled, &raw mut level), 0);
        *library.get::<Finalize>(b"MPI_Finalize").expect("a function")
    };
    let comm = world(BY_GETS);
    assert_eq!(comm.threads(), CommThreads::Caller, "level {level}");
    say(&comm, &format!("{}: threads {:?}", comm.transport(), comm.threads()));
    let window = open_window(&comm, LEN);
    let other = (comm.rank() + 1) % comm.size();
    comm.barrier(&patience()).expect("all are there");
    thread::scope(|scope| {
        let elsewhere = scope.spawn(|| {
            (read_one(&*window, other), read_one(&*window, comm.rank()), comm.barrier(&patience()))
        });
        let (remote, own, barrier) = elsewhere.join().expect("a thread");
        own.expect("no call of MPI");
        let wrong_thread = |error: &forebay_process::Error| error.to_string().contains("MPI_THREAD_MULTIPLE");
        assert!(other == comm.rank() || remote.as_ref().is_err_and(wrong_thread), "{remote:?}");
        assert!(barrier.as_ref().is_err_and(wrong_thread), "{barrier:?}");
    });
    let mut got = vec![0u8; 8192];
    read(&*window, other, 0, &mut got);
    assert_eq!(got, bytes(other, 0, 8192));
    comm.barrier(&patience()).expect("all are there");
    window.close(&patience()).expect("all close it");
    // A communicator that another thread drops is freed when MPI ends.
    thread::spawn(move || drop((window, comm))).join().expect("a thread");
    // SAFETY: MPI is initialised, on this thread, and nothing uses it any more.
    assert_eq!(unsafe { finalize() }, 0);
}

/// A bound that the script gives.
pub(crate) fn bound(name: &str) -> Option<f64> {
    let text = env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().expect("a number"))
}
