//! Ranks over TCP keep every clause, on hosts that are made up: what two of them read of each other goes over a socket.

#![cfg(target_os = "linux")]

#[path = "../../store/tests/support/ranks.rs"]
mod ranks;

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_process::Error;
use forebay_store::{
    Comm, FrameHeader, FrameKind, ShardMemory, ShardPlace, Wait, Window, WindowPiece, WindowRead, check,
};
use forebay_tcp::{FolderRendezvous, TcpComm, TcpListen, TcpOptions};
use ranks::{Ranks, Task};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

fn options(task: &Task, host: usize) -> TcpOptions {
    let secret = task.folder.join("secret");
    TcpOptions {
        rank: task.rank,
        size: task.size,
        job: task.job(),
        listen: TcpListen::Toward("127.0.0.1".to_owned(), 29500),
        secret_file: secret.exists().then_some(secret),
        host: Some(format!("host-{host}")),
    }
}

/// Not a test of its own: it is what a rank does in a process that another test has started.
#[test]
fn rank_of_another_test() {
    let Some(mut task) = Task::of_this_process() else { return };
    let (hosts, work) = task.work.split_once(' ').expect("ranks of a host, and the work");
    let host = task.rank / hosts.parse::<usize>().expect("a number");
    task.work = work.to_owned();
    if task.work == "flooded" && task.rank == 0 {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(FEW_FILES), ..limit }).expect("a lower limit");
    }
    let rendezvous = FolderRendezvous::new(&task.folder);
    let comm = TcpComm::new(&options(&task, host), &rendezvous, &check::patience()).expect("all ranks come");
    assert!(
        !task.folder.join(format!("forebay_{}_secret", task.job()).replace('/', "_")).exists(),
        "it is deleted"
    );
    match &*task.work {
        "intruder" => intrude(&comm),
        "flooded" => flood(&task, &comm),
        _ => task.run(Arc::new(comm)),
    }
}

#[test]
fn ranks_of_several_hosts_keep_every_clause() {
    for (size, ranks_of_host) in [(1, 1), (2, 1), (4, 1), (4, 2)] {
        Ranks::start(size, &format!("{ranks_of_host} clauses")).end(&[]);
    }
}

#[test]
fn ranks_with_a_secret_file_keep_every_clause() {
    let mut ranks = Ranks::start(0, "");
    let secret = ranks.folder.path().join("secret");
    fs::write(&secret, [9; 40]).expect("a file");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("a mode");
    ranks.restart(2, "1 clauses");
    ranks.end(&[]);
}

#[test]
fn a_rank_that_is_killed_is_named_by_the_others_and_leaves_nothing() {
    for (victim, ranks_of_host) in [(0, 1), (2, 1), (3, 2)] {
        let mut ranks = Ranks::start(4, &format!("{ranks_of_host} killed {victim}"));
        ranks.await_ready();
        ranks.signal(victim, Signal::KILL);
        ranks.mark("killed");
        ranks.end(&[victim]);
    }
}

#[test]
fn a_rank_that_stops_is_an_error_at_the_deadline() {
    for victim in [0, 1] {
        let mut ranks = Ranks::start(3, &format!("1 stopped {victim}"));
        ranks.await_ready();
        ranks.stop(victim);
        ranks.mark("stopped");
        (0..3).filter(|rank| *rank != victim).for_each(|rank| ranks.await_done(rank));
        ranks.signal(victim, Signal::KILL);
        ranks.end(&[victim]);
    }
}

#[test]
fn a_rank_that_was_stopped_in_the_middle_of_a_read_or_a_collective_call_goes_on() {
    thread::scope(|scope| {
        for work in ["reads_on", "gathers_on"] {
            scope.spawn(move || {
                let mut ranks = Ranks::start(3, &format!("1 {work} 2"));
                ranks.await_ready();
                // Until it is in the middle of it.
                thread::sleep(Duration::from_millis(300));
                ranks.stop(2);
                ranks.mark("stopped");
                thread::sleep(Duration::from_secs(5));
                ranks.signal(2, Signal::CONT);
                ranks.mark("continued");
                ranks.end(&[]);
            });
        }
    });
}

#[test]
fn a_forked_child_reads_all_samples_and_leaves_its_parent_alone() {
    Ranks::start(2, "1 forked").end(&[]);
}

/// Two ranks that are threads of this process, each with sockets of its own, and what `work` gives on each.
fn two_ranks<T: Send>(name: &str, work: impl Fn(&TcpComm) -> T + Sync) -> Vec<T> {
    let folder = tempfile::tempdir().expect("a folder");
    let task = |rank| Task { rank, size: 2, work: name.to_owned(), folder: folder.path().to_owned() };
    thread::scope(|scope| {
        let run = |rank: usize| {
            let rendezvous = FolderRendezvous::new(folder.path());
            let comm = TcpComm::new(&options(&task(rank), rank), &rendezvous, &check::patience())
                .expect("both come");
            work(&comm)
        };
        let threads: Vec<_> = (0..2).map(|rank| scope.spawn(move || run(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank")).collect()
    })
}

fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    let mut got = Vec::new();
    match stream.read_to_end(&mut got) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// The port that this process, which is one rank, listens on.
fn listening() -> u16 {
    let own: Vec<String> = fs::read_dir("/proc/self/fd")
        .expect("descriptors")
        .flatten()
        .filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
        .collect();
    let table = fs::read_to_string("/proc/self/net/tcp").expect("a table");
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    let own = rows.filter(|row| row[3] == "0A" && own.contains(&format!("socket:[{}]", row[9])));
    let own: Vec<_> = own.collect();
    assert_eq!(own.len(), 1, "it listens on one address");
    let (address, port) = own[0][1].split_once(':').expect("an address");
    assert_eq!(address, "0100007F");
    u16::from_str_radix(port, 16).expect("a port")
}

#[test]
fn whoever_does_not_know_the_secret_gets_nothing_and_harms_nothing() {
    Ranks::start(2, "1 intruder").end(&[]);
}

/// A window of 1000 bytes of each rank, all 7.
fn open_sevens(comm: &TcpComm) -> Arc<dyn Window> {
    let shard = Arc::new(ShardMemory::new(1000, &ShardPlace::Memory).expect("memory"));
    shard.write(0, &[7; 1000]).expect("within the shard");
    let window = comm.window(shard, &check::patience()).expect("a window");
    window.publish(&check::patience()).expect("both publish");
    window
}

fn read_sevens(comm: &TcpComm, window: &dyn Window) {
    let got = read(window, 1 - comm.rank(), 1000).expect("nothing is harmed");
    assert_eq!(got, [7; 1000]);
}

fn read(window: &dyn Window, rank: usize, len: usize) -> Result<Vec<u8>, Error> {
    let mut got = vec![0; len];
    let mut reads =
        [WindowRead { rank, pieces: vec![WindowPiece { offset: 0, into: &mut got }], outcome: Ok(()) }];
    window.get(&mut reads, &check::patience());
    let [WindowRead { outcome, .. }] = reads;
    outcome.map(|()| got)
}

fn intrude(comm: &TcpComm) {
    let window = open_sevens(comm);
    let port = listening();
    let connect = || TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let mut silent = connect();
    // No word of ours.
    let mut garbage = connect();
    let _ = garbage.write_all(&[0x55; 4096]);
    assert!(is_closed(&mut garbage));
    // A read without a handshake.
    let mut rude = connect();
    let mut request = FrameHeader::new(FrameKind::Read, 0, 24).to_bytes().to_vec();
    request.extend([0; 24]);
    request.extend([0; 52]);
    let _ = rude.write_all(&request);
    assert!(is_closed(&mut rude));
    // The words, and a code that is not right.
    for rank in [0u32, 1] {
        let mut liar = connect();
        let mut hello = b"forebay1\x01\0\0\0".to_vec();
        hello.extend((1 - rank).to_le_bytes());
        hello.extend(rank.to_le_bytes());
        hello.extend([3; 32]);
        let _ = liar.write_all(&hello);
        let mut challenge = [0; 64];
        if liar.read_exact(&mut challenge).is_ok() {
            let _ = liar.write_all(&challenge[32..]);
            let _ = liar.write_all(&request);
        }
        assert!(is_closed(&mut liar), "not even a word of welcome");
    }
    silent.write_all(b"forebay1").expect("it is still open");
    comm.barrier(&check::patience()).expect("nothing is harmed");
    read_sevens(comm, &*window);
    window.close(&check::patience()).expect("both close");
}

/// Descriptors of a rank that strangers crowd.
const FEW_FILES: u64 = 240;

#[test]
fn strangers_leave_a_rank_most_of_its_descriptors() {
    Ranks::start(2, "1 flooded").end(&[]);
}

/// Rank 1 holds more connections to rank 0 than that may have descriptors, and still reads of it.
fn flood(task: &Task, comm: &TcpComm) {
    let window = open_sevens(comm);
    if comm.rank() == 0 {
        comm.broadcast(0, listening().to_le_bytes().to_vec(), &check::patience()).expect("both come");
    } else {
        let port = comm.broadcast(0, Vec::new(), &check::patience()).expect("both come");
        let port = u16::from_le_bytes(port.try_into().expect("a port"));
        let connect = |_| TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let strangers: Vec<_> = (0..FEW_FILES + 100).map(connect).collect();
        read_sevens(comm, &*window);
        fs::write(task.folder.join("read"), "").expect("a file");
        drop(strangers);
    }
    comm.barrier(&check::patience()).expect("nothing is harmed");
    window.close(&check::patience()).expect("both close");
}

fn await_true(flag: &AtomicBool) {
    let started = Instant::now();
    while !flag.load(SeqCst) {
        assert!(started.elapsed() < Duration::from_secs(60), "it does not happen");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn ranks_that_opened_windows_in_vain_read_the_right_ones_afterwards() {
    let (is_waiting, has_failed) = (AtomicBool::new(false), AtomicBool::new(false));
    two_ranks("in vain", |comm| {
        let shard_of = |window: usize, rank: usize| {
            vec![u8::try_from(10 * window + rank + 1).expect("a byte"); 50 + 10 * window]
        };
        let open = |window: usize| {
            let bytes = shard_of(window, comm.rank());
            let shard = Arc::new(ShardMemory::new(bytes.len() as u64, &ShardPlace::Memory).expect("memory"));
            shard.write(0, &bytes).expect("within the shard");
            comm.window(shard, &check::patience())
        };
        if comm.rank() == 0 {
            let waits = || {
                is_waiting.store(true, SeqCst);
                Ok(())
            };
            thread::scope(|scope| {
                let first =
                    scope.spawn(|| comm.broadcast(1, Vec::new(), &check::patience().interrupted_by(&waits)));
                await_true(&is_waiting);
                let error = open(0).expect_err("while another call waits for rank 1");
                assert!(error.to_string().contains("at once"), "{error}");
                has_failed.store(true, SeqCst);
                first.join().expect("a thread").expect("rank 1 comes");
            });
        } else {
            await_true(&has_failed);
            comm.broadcast(1, Vec::new(), &check::patience()).expect("rank 0 is there");
        }
        let windows: Vec<_> = (0..3).map(|window| open(window).expect("a window")).collect();
        for window in &windows {
            window.publish(&check::patience()).expect("both publish");
        }
        for (number, window) in windows.iter().enumerate() {
            let expected = shard_of(number, 1 - comm.rank());
            let got = read(&**window, 1 - comm.rank(), expected.len()).expect("a shard");
            assert_eq!(got, expected, "window {number}");
        }
        comm.barrier(&check::patience()).expect("both come");
    });
}

#[test]
fn a_window_that_is_closed_is_read_no_more() {
    two_ranks("closed", |comm| {
        let shard = Arc::new(ShardMemory::new(10, &ShardPlace::Memory).expect("memory"));
        let window = comm.window(shard, &check::patience()).expect("a window");
        window.publish(&check::patience()).expect("both publish");
        window.close(&check::patience()).expect("both close");
        comm.barrier(&check::patience()).expect("both come");
        let mut got = [0; 10];
        let pieces = vec![WindowPiece { offset: 0, into: &mut got }];
        let mut reads = [WindowRead { rank: 1 - comm.rank(), pieces, outcome: Ok(()) }];
        window.get(&mut reads, &check::patience());
        let error = reads[0].outcome.as_ref().expect_err("it is closed").to_string();
        assert!(error.contains(&format!("rank {}", 1 - comm.rank())), "{error}");
        comm.barrier(&check::patience()).expect("both come");
    });
}

#[test]
fn more_pieces_than_a_request_holds_are_read() {
    two_ranks("pieces", |comm| {
        let bytes: Vec<u8> = (0..100_000u32).map(|at| u8::try_from(at * 31 % 251).expect("a byte")).collect();
        let shard = Arc::new(ShardMemory::new(100_000, &ShardPlace::Memory).expect("memory"));
        shard.write(0, &bytes).expect("within the shard");
        let window = comm.window(shard, &check::patience()).expect("a window");
        window.publish(&check::patience()).expect("both publish");
        let mut got = vec![0; 100_000];
        let pieces =
            got.chunks_mut(9).enumerate().map(|(at, into)| WindowPiece { offset: 9 * at as u64, into });
        let mut reads = [WindowRead { rank: 1 - comm.rank(), pieces: pieces.collect(), outcome: Ok(()) }];
        window.get(&mut reads, &check::patience());
        reads[0].outcome.as_ref().expect("all pieces");
        assert!(got == bytes);
        window.close(&check::patience()).expect("both close");
    });
}

#[test]
fn a_piece_of_more_than_2_gib_is_read() {
    const LEN: usize = (2 << 30) + 12_345;
    two_ranks("long", |comm| {
        let own = if comm.rank() == 0 { LEN } else { 0 };
        let shard = Arc::new(ShardMemory::new(own as u64, &ShardPlace::Memory).expect("memory"));
        if own > 0 {
            shard.write(0, b"first").expect("within the shard");
            shard.write(LEN as u64 - 4, b"last").expect("within the shard");
        }
        let window = comm.window(shard, &check::patience()).expect("a window");
        window.publish(&check::patience()).expect("both publish");
        if comm.rank() == 1 {
            let mut got = vec![0; LEN];
            let pieces = vec![WindowPiece { offset: 0, into: &mut got }];
            let mut reads = [WindowRead { rank: 0, pieces, outcome: Ok(()) }];
            window.get(&mut reads, &Wait::at_most(Duration::from_secs(120)));
            reads[0].outcome.as_ref().expect("all of it");
            assert!(got.starts_with(b"first\0") && got.ends_with(b"\0last"));
        }
        comm.barrier(&Wait::at_most(Duration::from_secs(120))).expect("both come");
        window.close(&check::patience()).expect("both close");
    });
}

#[test]
fn ranks_with_different_secrets_are_told_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = |rank: usize| {
        let path = folder.path().join(format!("secret-{rank}"));
        fs::write(&path, [u8::try_from(rank).expect("a small number"); 32]).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        path
    };
    let started = Instant::now();
    let errors: Vec<_> = thread::scope(|scope| {
        let run = |rank: usize| {
            let task = Task { rank, size: 2, work: String::new(), folder: folder.path().to_owned() };
            let options = TcpOptions { secret_file: Some(secret(rank)), ..options(&task, rank) };
            let wait = Wait::at_most(Duration::from_secs(3));
            TcpComm::new(&options, &FolderRendezvous::new(folder.path()), &wait)
                .map(drop)
                .expect_err("secrets differ")
        };
        let threads: Vec<_> = (0..2).map(|rank| scope.spawn(move || run(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank").to_string()).collect()
    });
    assert!(errors[1].contains("does not know the secret"), "{errors:?}");
    assert!(errors[0].contains("[1]"), "{errors:?}");
    assert!(started.elapsed() < Duration::from_secs(20));
}
