//! Ranks that are processes: a test starts its own program again for each, and what a rank does is shared by all communicators.

#![expect(unsafe_code, reason = "std has no fork, and what happens after one is what is tested")]
#![expect(clippy::panic, reason = "what a rank finds wrong ends it")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use forebay_store::{
    Comm, FieldGather, JobName, PaddingRows, SampleLens, ShardMemory, ShardPlace, Store, StoreOptions,
    VariableSpec, Wait, WindowPiece, WindowRead, check,
};
use rustix::process::{Pid, Signal, kill_process};

/// Says to a process that it is a rank: its number, how many there are, and what it does.
const RANK: &str = "FOREBAY_TEST_RANK";

/// Long enough for a loaded machine; what takes longer hangs.
const LIMIT: Duration = Duration::from_secs(150);

/// What a process is to do.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) work: String,
    pub(crate) folder: PathBuf,
}

impl Task {
    /// The task of this process; none where it is no rank.
    pub(crate) fn of_this_process() -> Option<Self> {
        let text = env::var(RANK).ok()?;
        let [rank, size, work, folder] = text.splitn(4, ',').collect::<Vec<_>>()[..] else {
            panic!("{text}")
        };
        let number = |text: &str| text.parse().expect("a number");
        Some(Self { rank: number(rank), size: number(size), work: work.to_owned(), folder: folder.into() })
    }

    pub(crate) fn job(&self) -> JobName {
        JobName::new(format!("test-{}", self.folder.display()))
    }

    /// Does it, with this rank's end of a communicator.
    pub(crate) fn run(&self, comm: Arc<dyn Comm>) {
        let (work, victim) = self.work.split_once(' ').unwrap_or((&self.work, "0"));
        let victim = victim.parse().expect("a rank");
        match work {
            "clauses" => check::every_clause(&comm),
            "killed" => self.outlive(&comm, victim),
            "stopped" => self.wait_for_stopped(&*comm, victim),
            "forked" => self.read_in_child(&comm),
            "reads_on" => self.read_on(&*comm, victim),
            "gathers_on" => self.gather_on(&*comm, victim),
            other => panic!("no such work: {other}"),
        }
    }

    /// Says to all others that this rank has come to `step`, and waits until they have, but for `victim`.
    fn meet(&self, step: &str, victim: usize) {
        fs::write(self.folder.join(format!("{step}-{}", self.rank)), "").expect("a file");
        for rank in (0..self.size).filter(|rank| *rank != victim) {
            await_file(&self.folder.join(format!("{step}-{rank}")));
        }
    }

    /// A store of 5 samples of every rank.
    fn store(&self, comm: &Arc<dyn Comm>) -> Store {
        let store =
            Store::new(Arc::clone(comm), StoreOptions::default(), &check::patience()).expect("a store");
        let spec = VariableSpec { name: "x".into(), description: Vec::new(), row_len: 3000, runs: 1 };
        let filling =
            store.begin_from_parts(&[(spec, SampleLens::even(5, 1))], &check::patience()).expect("memory");
        let first = 5 * self.rank as u64;
        let written =
            (first..first + 5).try_for_each(|sample| filling.write(0, sample, &sample_bytes(sample)));
        store.finish(filling, written, &check::patience()).expect("all ranks wrote");
        store
    }

    /// The victim is killed while the others read: they get an error that names it, and go on with what is left.
    fn outlive(&self, comm: &Arc<dyn Comm>, victim: usize) {
        let store = self.store(comm);
        let variable = store.variable("x").expect("it was added");
        if self.rank == victim {
            // Children hold the sockets of a process open when it is killed.
            let _child = forked(|| {
                let done = self.folder.join(format!("done-{}", usize::from(victim == 0)));
                let started = Instant::now();
                while self.folder.exists() && !done.exists() && started.elapsed() < LIMIT {
                    thread::sleep(Duration::from_millis(5));
                }
                true
            });
            self.meet("ready", victim);
            thread::sleep(LIMIT);
            panic!("this rank was to be killed");
        }
        self.meet("ready", victim);
        let since = SystemTime::now();
        let mut sample = 0;
        let error = loop {
            assert!(since.elapsed().expect("a clock") < LIMIT, "a rank that was killed is not noticed");
            let mut got = vec![0; 3000];
            match store.get(&variable, sample % (5 * self.size as u64), &mut got) {
                Ok(()) => {
                    assert!(got == sample_bytes(sample % (5 * self.size as u64)), "wrong bytes of {sample}")
                }
                Err(error) => break error.to_string(),
            }
            sample += 1;
        };
        assert!(error.contains(&format!("rank {victim}")), "{error}");
        let killed = fs::metadata(self.folder.join("killed")).and_then(|facts| facts.modified());
        let late = killed.ok().and_then(|killed| killed.elapsed().ok());
        assert!(late.is_none_or(|late| late < Duration::from_secs(10)), "noticed after {late:?}");
        let error = comm.barrier(&check::patience()).expect_err("a rank is gone").to_string();
        assert!(error.contains(&format!("rank {victim}")), "{error}");
        let samples: Vec<_> = (0..5 * self.size as u64).map(Some).collect();
        let mut got = vec![0; 3000 * samples.len()];
        let gather = FieldGather {
            variable: &variable,
            samples: &samples,
            padding: PaddingRows::Each(0),
            into: &mut got,
        };
        let failed = store.get_batch_of_living([gather], &check::patience()).expect("what is left");
        assert!(failed.iter().all(|(rank, _)| *rank == victim), "{failed:?}");
        let is_shared = comm.host_of(victim) == comm.host_of(self.rank);
        assert_eq!(
            failed.is_empty(),
            is_shared,
            "memory of this host outlives its rank, that of others does not"
        );
        for (sample, got) in (0..).zip(got.chunks(3000)) {
            let is_lost = !is_shared && sample / 5 == victim as u64;
            assert!(is_lost || got == sample_bytes(sample), "wrong bytes of {sample}");
        }
        self.meet("done", victim);
    }

    /// The victim stops without ending: whoever waits for it gets an error at the deadline that names it.
    fn wait_for_stopped(&self, comm: &dyn Comm, victim: usize) {
        let shard = Arc::new(ShardMemory::new(1000, &ShardPlace::Memory).expect("memory"));
        let window = comm.window(shard, &check::patience()).expect("a window");
        window.publish(&check::patience()).expect("all ranks publish");
        self.meet("ready", victim);
        if self.rank == victim {
            thread::sleep(LIMIT);
            panic!("this rank was to be killed");
        }
        await_file(&self.folder.join("stopped"));
        let short = || Wait::at_most(Duration::from_secs(3));
        let started = Instant::now();
        let mut into = [0; 10];
        let pieces = vec![WindowPiece { offset: 3, into: &mut into }];
        let mut reads = [WindowRead { rank: victim, pieces, outcome: Ok(()) }];
        window.get(&mut reads, &short());
        if comm.host_of(victim) != comm.host_of(self.rank) {
            let error =
                reads[0].outcome.as_ref().expect_err("a rank that stopped answers nothing").to_string();
            assert!(error.contains(&format!("rank {victim}")), "{error}");
        }
        let of_read = started.elapsed();
        // On a loaded machine one of the others may be late as well: they begin together.
        self.meet("read", victim);
        let started = Instant::now();
        let error = comm.barrier(&short()).expect_err("a rank does not come").to_string();
        assert!(error.contains(&format!("rank {victim}")), "{error}");
        let longest = of_read.max(started.elapsed());
        assert!(longest < Duration::from_secs(10), "a deadline of 3 s is kept, and not after {longest:?}");
        assert_eq!(comm.first_gone(0..self.size), None, "what stops is not gone");
        self.meet("done", victim);
    }

    /// The victim is stopped for longer than it takes to notice a lost node, in the middle of reads that are longer than what
    /// sockets hold: all goes on where it was.
    fn read_on(&self, comm: &dyn Comm, victim: usize) {
        const LEN: usize = 64 << 20;
        let bytes =
            |rank: usize| (0..LEN).map(move |at| u8::try_from((at / 8 + rank) % 251).expect("a byte"));
        let shard = Arc::new(ShardMemory::new(LEN as u64, &ShardPlace::Memory).expect("memory"));
        shard.write(0, &bytes(self.rank).collect::<Vec<_>>()).expect("within the shard");
        let window = comm.window(shard, &check::patience()).expect("a window");
        window.publish(&check::patience()).expect("all ranks publish");
        let expected: Vec<u8> = bytes((victim + 1) % self.size).collect();
        self.meet("ready", victim);
        while self.rank == victim && !self.folder.join("continued").exists() {
            let mut into = vec![0; LEN];
            let pieces = vec![WindowPiece { offset: 0, into: &mut into }];
            let mut reads = [WindowRead { rank: (victim + 1) % self.size, pieces, outcome: Ok(()) }];
            // Less than it is stopped for.
            window.get(&mut reads, &Wait::at_most(Duration::from_secs(4)));
            reads[0].outcome.as_ref().expect("it goes on where it was");
            assert!(into == expected, "wrong bytes");
        }
        comm.barrier(&check::patience()).expect("nobody is gone");
        assert_eq!(comm.first_gone(0..self.size), None, "what stops is not gone");
    }

    /// The victim has come to a collective call and is stopped while the others bring more than sockets hold.
    fn gather_on(&self, comm: &dyn Comm, victim: usize) {
        let bytes_of = |rank: usize| match rank == victim {
            true => vec![1; 10],
            false => vec![u8::try_from(rank + 2).expect("a byte"); 24 << 20],
        };
        fs::write(self.folder.join(format!("ready-{}", self.rank)), "").expect("a file");
        if self.rank != victim {
            await_file(&self.folder.join("stopped"));
        }
        let all = comm.all_gather(bytes_of(self.rank), &check::patience()).expect("all come");
        assert!((0..self.size).all(|rank| all[rank] == bytes_of(rank)), "wrong bytes");
        comm.barrier(&check::patience()).expect("nobody is gone");
        assert_eq!(comm.first_gone(0..self.size), None, "what stops is not gone");
    }

    /// A forked child reads every sample, and does not disturb its parent.
    fn read_in_child(&self, comm: &Arc<dyn Comm>) {
        let store = self.store(comm);
        let reads_all = || {
            let variable = store.variable("x").expect("it was added");
            (0..5 * self.size as u64).all(|sample| {
                let mut got = vec![0; 3000];
                store.get(&variable, sample, &mut got).is_ok() && got == sample_bytes(sample)
            })
        };
        assert!(reads_all());
        for _ in 0..2 {
            let child = forked(|| reads_all() && comm.barrier(&check::patience()).is_err());
            assert!(reads_all(), "while the child reads");
            assert!(ends_well(child), "the child reads all, and collective calls are errors there");
            assert!(reads_all());
            comm.barrier(&check::patience()).expect("the parent's connections are as they were");
        }
        store.close(&check::patience()).expect("all ranks close it");
    }
}

fn sample_bytes(sample: u64) -> Vec<u8> {
    (0..3000u64).map(|at| u8::try_from((at * 7 + at / 256 + sample * 131) % 251).expect("a byte")).collect()
}

fn await_file(path: &Path) {
    let started = Instant::now();
    while !path.exists() {
        assert!(started.elapsed() < LIMIT, "{} does not come", path.display());
        thread::sleep(Duration::from_millis(2));
    }
}

/// Runs `work` in a forked child, which ends by 0 when it gives true.
fn forked(work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child takes no lock that another thread of the parent could have held (that is the claim under test; the
    // allocator's are reset by libc), and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let status = i32::from(!work());
        // SAFETY: `_exit` ends the child at once, running nothing of the parent's.
        unsafe { libc::_exit(status) };
    }
    child
}

fn ends_well(child: i32) -> bool {
    let started = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: `child` is ours and not yet waited for; `status` is a place for its status.
        match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
            0 if started.elapsed() < LIMIT => thread::sleep(Duration::from_millis(1)),
            ended => return ended == child && status == 0,
        }
    }
}

/// The processes of one job, with a folder for temporary files of their own.
pub(crate) struct Ranks {
    children: Vec<Child>,
    pub(crate) folder: tempfile::TempDir,
}

impl Ranks {
    /// Starts `size` ranks that do `work`.
    pub(crate) fn start(size: usize, work: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("tmp")).expect("a folder");
        let mut ranks = Self { children: Vec::new(), folder };
        for rank in 0..size {
            ranks.start_one(rank, size, work);
        }
        ranks
    }

    pub(crate) fn start_one(&mut self, rank: usize, size: usize, work: &str) {
        let folder = self.folder.path();
        let output = fs::File::create(folder.join(format!("output-{rank}"))).expect("a file");
        let child = Command::new(env::current_exe().expect("this program"))
            .args(["rank_of_another_test", "--exact", "--nocapture"])
            .env(RANK, format!("{rank},{size},{work},{}", folder.display()))
            .env("TMPDIR", folder.join("tmp"))
            .env_remove("XDG_RUNTIME_DIR")
            .stdout(Stdio::null())
            .stderr(output)
            .spawn();
        self.children.push(child.expect("a process"));
    }

    /// Waits until every rank says that it is ready.
    pub(crate) fn await_ready(&mut self) {
        (0..self.children.len()).for_each(|rank| self.await_step(rank, "ready"));
    }

    /// Waits until `rank` has come to `step`, unless a rank has failed.
    fn await_step(&mut self, rank: usize, step: &str) {
        let started = Instant::now();
        while !self.folder.path().join(format!("{step}-{rank}")).exists() {
            for rank in 0..self.children.len() {
                let status = self.children[rank].try_wait().expect("a status");
                assert!(status.is_none_or(|status| status.success()), "rank {rank}: {}", self.output(rank));
            }
            assert!(
                started.elapsed() < LIMIT,
                "rank {rank} does not come to '{step}': {}",
                self.output(rank)
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn output(&self, rank: usize) -> String {
        fs::read_to_string(self.folder.path().join(format!("output-{rank}"))).unwrap_or_default()
    }

    /// Waits until `rank` has done all that it is to do.
    pub(crate) fn await_done(&mut self, rank: usize) {
        self.await_step(rank, "done");
    }

    /// Kills all ranks and starts as many as are wanted.
    pub(crate) fn restart(&mut self, size: usize, work: &str) {
        self.kill();
        self.children.clear();
        (0..size).for_each(|rank| self.start_one(rank, size, work));
    }

    fn kill(&mut self) {
        for child in &mut self.children {
            // One that has ended is not killed again.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn signal(&self, rank: usize, signal: Signal) {
        let number = i32::try_from(self.children[rank].id()).expect("a number of a process");
        kill_process(Pid::from_raw(number).expect("a process"), signal).expect("it runs");
    }

    /// Stops `rank`: a signal is on its way until the last thread of the process has stopped.
    pub(crate) fn stop(&self, rank: usize) {
        self.signal(rank, Signal::STOP);
        let threads = PathBuf::from(format!("/proc/{}/task", self.children[rank].id()));
        let is_stopped = |thread: &fs::DirEntry| {
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            status.contains("State:\tT")
        };
        let started = Instant::now();
        while !fs::read_dir(&threads).expect("a process").flatten().all(|thread| is_stopped(&thread)) {
            assert!(started.elapsed() < LIMIT, "rank {rank} does not stop");
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn mark(&self, name: &str) {
        fs::write(self.folder.path().join(name), "").expect("a file");
    }

    /// Waits until all but those in `killed` have ended well, and makes sure that they left nothing.
    pub(crate) fn end(mut self, killed: &[usize]) {
        let started = Instant::now();
        for rank in 0..self.children.len() {
            let status = loop {
                if let Some(status) = self.children[rank].try_wait().expect("a status") {
                    break Some(status);
                }
                if started.elapsed() > LIMIT {
                    break None;
                }
                thread::sleep(Duration::from_millis(5));
            };
            let output = self.output(rank);
            let is_well = status.is_some_and(|status| status.success()) || killed.contains(&rank);
            assert!(is_well, "rank {rank}: {status:?}\n{output}");
        }
        let left = files(&self.folder.path().join("tmp"));
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Everything below `folder` that is no folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}
