//! The rank's side of a worker: the process, and what is sent to it.

use std::{
    ffi::OsString,
    fs::File,
    io::{BufReader, BufWriter},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use forebay::{Error, ErrorKind, Result};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    interruption::{GLANCE, interrupted},
    workers::{
        frames::{receive, send},
        worker::{WorkerAnswer, WorkerRole},
    },
};

/// The command line by which this program starts its workers and ranks: the program, then what makes it a worker.
pub(crate) type OwnCommand = Vec<OsString>;

/// What workers have in their environment that the rank has not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerEnvironment {
    /// Where the records of HDF5's Log VFD are added, if it is in use: the driver writes them to standard error.
    pub(crate) log_vfd: Option<PathBuf>,
    /// The number of this rank's first worker among those of all ranks.
    pub(crate) first: u32,
}

impl WorkerEnvironment {
    /// That of a rank which has `workers`.
    pub(crate) fn of_rank(&self, rank: u32, workers: u32) -> Self {
        Self { first: rank * workers.max(1), ..self.clone() }
    }

    /// That of worker `number`: each has a file of its own for records, as the driver writes them piece by piece.
    pub(crate) fn of_worker(&self, number: u32) -> Self {
        let number = self.first + number;
        let numbered = |path: &PathBuf| match number {
            0 => path.clone(),
            _ => PathBuf::from(format!("{}.{number}", path.display())),
        };
        Self { log_vfd: self.log_vfd.as_ref().map(numbered), first: number }
    }

    /// True when samples must be read by processes, however few read threads there are.
    pub(crate) fn needs_processes(&self) -> bool {
        self.log_vfd.is_some()
    }
}

/// A worker, running. It ends when this goes.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    child: Child,
    to: Option<BufWriter<ChildStdin>>,
    from: BufReader<ChildStdout>,
    /// What it said of itself when it was ready.
    pub(crate) says: String,
}

impl WorkerProcess {
    /// Starts a worker by `command`. It is not in this process's group, so that Ctrl-C reaches the rank alone.
    pub(crate) fn start(
        command: &OwnCommand,
        role: &WorkerRole,
        environment: &WorkerEnvironment,
    ) -> Result<Self> {
        let (program, arguments) = command.split_first().ok_or_else(|| Error::invalid("no command"))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        if let Some(path) = &environment.log_vfd {
            let log = File::options().create(true).append(true).open(path);
            command.stderr(log.map_err(|error| Error::from_io(error).at(path.display()))?);
            command.env("HDF5_DRIVER", "log");
        }
        let mut child = command.spawn().map_err(|error| Error::from_io(error).at("a read worker"))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new(ErrorKind::Bug, "a worker without pipes"));
        };
        let (to, from) = (Some(BufWriter::new(to)), BufReader::new(from));
        let mut worker = Self { child, to, from, says: String::new() };
        worker.says = worker.ask(role)?;
        Ok(worker)
    }

    /// Sends `task` and waits for the answer.
    pub(crate) fn ask<A: DeserializeOwned>(&mut self, task: &impl Serialize) -> Result<A> {
        self.send(task)?;
        self.answer()
    }

    /// The same; once `is_over` nobody waits for the answer any more, and the worker is ended.
    pub(crate) fn ask_until<A: DeserializeOwned>(
        &mut self,
        task: &impl Serialize,
        is_over: &AtomicBool,
    ) -> Result<A> {
        self.send(task)?;
        while !self.has_answered() {
            if is_over.load(Relaxed) {
                // It may be in the middle of a batch, whose memory is another's after this.
                self.to = None;
                let _ = self.child.kill();
                let _ = self.child.wait();
                return Err(interrupted());
            }
        }
        self.answer()
    }

    fn send(&mut self, task: &impl Serialize) -> Result<()> {
        let sent = match &mut self.to {
            Some(to) => send(to, task),
            None => return Err(Error::new(ErrorKind::Unavailable, "a worker process that was ended")),
        };
        sent.map_err(|_| self.ended())
    }

    fn answer<A: DeserializeOwned>(&mut self) -> Result<A> {
        match receive::<WorkerAnswer<A>>(&mut self.from) {
            Ok(Some(answer)) => Ok(answer?),
            Ok(None) | Err(_) => Err(self.ended()),
        }
    }

    /// True when there is an answer, or the worker has ended; waits a little for it.
    fn has_answered(&self) -> bool {
        let glance = Timespec { tv_sec: 0, tv_nsec: GLANCE.subsec_nanos().into() };
        let mut from = [PollFd::new(self.from.get_ref(), PollFlags::IN)];
        // What cannot be waited for is read, which tells why.
        match poll(&mut from, Some(&glance)) {
            Ok(ready) => ready > 0,
            Err(error) => error != Errno::INTR,
        }
    }

    /// Why there was no answer.
    fn ended(&mut self) -> Error {
        self.to = None;
        let how = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        Error::new(ErrorKind::Unavailable, format!("a worker process ended ({how})"))
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // Its standard input ends, and so does it, unless it hangs in a read.
        self.to = None;
        for _ in 0..50 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
