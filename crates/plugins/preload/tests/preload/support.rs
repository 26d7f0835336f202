//! A set of files, a tier, and programs that are run with and without the library.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
    thread,
    time::{Duration, Instant, SystemTime},
};

use forebay_scratch::{RunCounter, RunCounters};
use tempfile::TempDir;

/// The library, which cargo has built beside this test.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.with_file_name("libforebay_preload.so");
    assert!(library.is_file(), "{} is not there", library.display());
    library
}

/// How programs in C are compiled.
pub(crate) const FLAGS: [&str; 5] =
    ["-O2", "-D_FORTIFY_SOURCE=2", "-D_GNU_SOURCE", "-pthread", "-Wno-unused-result"];

/// A program in C from this folder, compiled once.
pub(crate) fn c_program(name: &'static str) -> PathBuf {
    c_built(name, &[])
}

/// A library in C from this folder, to be loaded before a program.
pub(crate) fn c_library(name: &'static str) -> PathBuf {
    c_built(name, &["-shared", "-fPIC"])
}

fn c_built(name: &'static str, more: &[&str]) -> PathBuf {
    static BUILT: OnceLock<TempDir> = OnceLock::new();
    let folder = BUILT.get_or_init(|| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let (program, source) = (folder.path().join(name), Path::new("tests/preload").join(format!("{name}.c")));
    if !program.exists() {
        let part = folder.path().join(format!("{name}.{:?}.part", thread::current().id()));
        let built =
            Command::new("cc").args(FLAGS).args(more).arg("-o").arg(&part).arg(&source).status().unwrap();
        assert!(built.success(), "{} does not compile", source.display());
        fs::rename(part, &program).unwrap();
    }
    program
}

/// What `nm` lists of the symbols of a file.
pub(crate) fn symbols(kinds: &[&str], file: &Path) -> Vec<String> {
    let output = Command::new("nm").args(kinds).arg(file).output().unwrap();
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    listed.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect()
}

/// The functions that the library stands in the place of.
pub(crate) fn exported_names() -> Vec<String> {
    symbols(&["-D", "--defined-only"], &library())
}

/// The grain that is counted with, and a tick of the clock that files are stamped by.
const SETTLED_AFTER: Duration = Duration::from_millis(2_050);

/// The user that programs become which are not to be root: nobody.
const ANOTHER: u32 = 65534;

/// True where these tests may do everything.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A folder of files, and tiers on another device.
pub(crate) struct Set {
    folder: TempDir,
    tier: TempDir,
    runs: TempDir,
}

/// What a program printed, and what its run counted.
pub(crate) struct Ran {
    pub(crate) output: Output,
    pub(crate) counts: HashMap<&'static str, u64>,
}

impl Ran {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn count(&self, counter: RunCounter) -> u64 {
        self.counts[counter.name()]
    }

    /// What it printed, after it ended well and said nothing on its standard error.
    pub(crate) fn good(&self) -> String {
        let error = String::from_utf8_lossy(&self.output.stderr);
        assert!(self.output.status.success() && error.is_empty(), "{}: {error}", self.output.status);
        self.stdout()
    }
}

impl Set {
    /// Files by their names, old enough to be copied.
    pub(crate) fn new(files: &[(&str, usize)]) -> Self {
        Self::new_in(Path::new(env!("CARGO_TARGET_TMPDIR")), files)
    }

    /// The same where other users may look: what is built often lies in a home folder, which they may not.
    pub(crate) fn for_others(files: &[(&str, usize)]) -> Self {
        Self::new_in(&std::env::temp_dir(), files)
    }

    fn new_in(place: &Path, files: &[(&str, usize)]) -> Self {
        let set = Self {
            folder: tempfile::tempdir_in(place).unwrap(),
            tier: tempfile::tempdir_in("/dev/shm").unwrap(),
            runs: tempfile::tempdir().unwrap(),
        };
        let device = |folder: &TempDir| fs::metadata(folder.path()).unwrap().dev();
        assert_ne!(device(&set.folder), device(&set.tier), "what lies on the tier's device is not copied");
        fs::create_dir(set.folder.path().join("set")).unwrap();
        for (name, len) in files {
            set.write(name, *len);
        }
        set.settle();
        set
    }

    /// The folder that is the prefix, and below which the files lie.
    pub(crate) fn origin(&self) -> PathBuf {
        self.folder.path().join("set")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.origin().join(name)
    }

    pub(crate) fn tier(&self) -> &Path {
        self.tier.path()
    }

    /// Writes a file whose bytes follow from its name.
    pub(crate) fn write(&self, name: &str, len: usize) {
        fs::write(self.path(name), bytes(name, len)).unwrap();
    }

    /// Waits until the last change of every file is older than the clock's grain: younger files are not copied.
    pub(crate) fn settle(&self) {
        let changed = |entry: fs::DirEntry| {
            let facts = entry.metadata().unwrap();
            Duration::new(facts.ctime().unsigned_abs(), u32::try_from(facts.ctime_nsec()).unwrap())
        };
        let last = fs::read_dir(self.origin()).unwrap().flatten().map(changed).max().unwrap_or_default();
        let until = SystemTime::UNIX_EPOCH + last + SETTLED_AFTER;
        while let Ok(left) = until.duration_since(SystemTime::now()) {
            thread::sleep(left + Duration::from_millis(1));
        }
    }

    /// The program as it runs without the library.
    pub(crate) fn plain(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(self.folder.path());
        command
    }

    /// The same with the library, a disk tier that is kept, and counters in `run`.
    pub(crate) fn preloaded_in(&self, program: impl AsRef<Path>, run: &Path) -> Command {
        let mut command = self.plain(program);
        command
            .env("LD_PRELOAD", library())
            .env("FOREBAY_ORIGIN", self.origin())
            .env("FOREBAY_TIERS", format!("disk:{}:1GiB:keep", self.tier().display()))
            .env("FOREBAY_RUN", run);
        command
    }

    /// A folder with new counters.
    pub(crate) fn new_run(&self) -> (PathBuf, RunCounters) {
        // As the launcher makes it, whatever the umask.
        let private = fs::Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().permissions(private).tempdir_in(self.runs.path()).unwrap();
        let folder = made.keep();
        let counters = RunCounters::create(&folder).unwrap();
        (folder, counters)
    }

    /// Runs the program with the library and tells what it did.
    pub(crate) fn run(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Ran {
        self.run_with(program, arguments, |command| command)
    }

    /// The same with more settings.
    pub(crate) fn run_with(
        &self,
        program: impl AsRef<Path>,
        arguments: &[&str],
        change: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Ran {
        let (folder, counters) = self.new_run();
        let mut command = self.preloaded_in(program, &folder);
        let output = change(command.args(arguments)).output().unwrap();
        let counts =
            counters.snapshot().into_iter().map(|(counter, count)| (counter.name(), count)).collect();
        Ran { output, counts }
    }

    /// The same for a program that makes itself another user where it is root: tier and counters are that user's.
    pub(crate) fn run_as_another(
        &self,
        program: impl AsRef<Path>,
        arguments: &[&str],
        change: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Ran {
        self.give(self.tier());
        self.run_with(program, arguments, |command| {
            let run = command.get_envs().find(|(name, _)| *name == "FOREBAY_RUN").and_then(|(_, run)| run);
            let run = PathBuf::from(run.unwrap());
            fs::set_permissions(self.runs.path(), fs::Permissions::from_mode(0o711)).unwrap();
            self.give(&run);
            fs::read_dir(&run).unwrap().for_each(|entry| self.give(&entry.unwrap().path()));
            change(command)
        })
    }

    /// Has `path` belong to the user that programs become.
    fn give(&self, path: &Path) {
        if is_root() {
            std::os::unix::fs::chown(path, Some(ANOTHER), Some(ANOTHER)).unwrap();
        }
    }

    /// Runs the program without the library, with a cold tier and on copies of `placed`: each time it prints the same.
    pub(crate) fn same_cold_and_warm(&self, program: &Path, arguments: &[impl AsRef<Path>], placed: &[&str]) {
        let arguments: Vec<&str> =
            arguments.iter().map(|argument| argument.as_ref().to_str().unwrap()).collect();
        let plain = self.plain(program).args(&arguments).output().unwrap();
        assert!(plain.status.success(), "{}: {}", plain.status, String::from_utf8_lossy(&plain.stderr));
        let wanted = String::from_utf8_lossy(&plain.stdout).into_owned();
        let same = |how: &str| {
            let ran = self.run(program, &arguments);
            assert_eq!(ran.good(), wanted, "{how}");
            ran
        };
        let cold = same("with a cold tier");
        assert!(cold.count(RunCounter::OpensManaged) > 0, "{:?}", cold.counts);
        self.settle();
        self.place(placed);
        let warm = same("on a copy");
        assert!(warm.count(RunCounter::OpensOnCopy) > 0, "{:?}", warm.counts);
    }

    /// The same for a program that writes to its files, which are made anew before each run and compared after it.
    pub(crate) fn same_each_anew(&self, program: &Path, paths: &[PathBuf], files: &[(&str, usize)]) {
        let anew = || {
            files.iter().for_each(|(name, len)| self.write(name, *len));
            self.settle();
        };
        let after = || files.iter().map(|(name, _)| fs::read(self.path(name)).unwrap()).collect::<Vec<_>>();
        let arguments: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
        let plain = self.plain(program).args(&arguments).output().unwrap();
        let (wanted, bytes) = (String::from_utf8_lossy(&plain.stdout).into_owned(), after());
        for how in ["with a cold tier", "on copies"] {
            anew();
            if how == "on copies" {
                self.place(&files.iter().map(|(name, _)| *name).collect::<Vec<_>>());
            }
            let ran = self.run(program, &arguments);
            assert_eq!(ran.good(), wanted, "{how}");
            assert!(after() == bytes, "{how}: the files differ");
            assert!(how != "on copies" || ran.count(RunCounter::OpensOnCopy) > 0, "{:?}", ran.counts);
        }
    }

    /// Reads files by `cat` until each is opened on its copy.
    pub(crate) fn place(&self, names: &[&str]) {
        let paths: Vec<String> = names.iter().map(|name| self.path(name).display().to_string()).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let began = Instant::now();
        loop {
            let ran = self.run("cat", &paths);
            assert!(ran.output.status.success(), "{}", String::from_utf8_lossy(&ran.output.stderr));
            if ran.count(RunCounter::OpensOnCopy) == names.len() as u64 {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(300), "never whole: {:?}", ran.counts);
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Bytes that follow from `name`, no two blocks of them alike.
pub(crate) fn bytes(name: &str, len: usize) -> Vec<u8> {
    let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_le_bytes()[7]
        })
        .collect()
}
