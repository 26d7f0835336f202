//! A pipe from a process to those that it starts: it ends when the process does or wants an end, and so do they.
//!
//! ```text
//! launcher ── Lifeline ──► standard input of a rank ── LifelineWatch
//! ```
//!
//! Ctrl-C reaches all processes of a group; a signal to the launcher alone, or its death, reaches them by this.

use std::{
    env,
    io::{self, Read},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Set for processes whose standard input is such a pipe.
const VARIABLE: &str = "FOREBAY_BENCH_LIFELINE";

/// How often the end of a process is looked for.
const GLANCE: Duration = Duration::from_millis(5);

/// A process that was started, and the pipe to it.
#[derive(Debug)]
pub(crate) struct Lifeline {
    pub(crate) child: Child,
    pipe: Option<ChildStdin>,
}

impl Lifeline {
    /// Starts `command`.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.env(VARIABLE, "1").stdin(Stdio::piped()).spawn()?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe })
    }

    /// Waits for the end of the process, which is asked to end once `is_interrupted`.
    pub(crate) fn wait(&mut self, is_interrupted: &mut dyn FnMut() -> bool) -> io::Result<ExitStatus> {
        loop {
            if is_interrupted() {
                self.cut();
            }
            match self.child.try_wait()? {
                Some(status) => return Ok(status),
                None => thread::sleep(GLANCE),
            }
        }
    }

    /// Asks the process to end.
    pub(crate) fn cut(&mut self) {
        self.pipe = None;
    }
}

/// Whether the pipe from the process that started this one has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct LifelineWatch {
    is_cut: Arc<AtomicBool>,
}

impl LifelineWatch {
    /// Watches the pipe, where there is one.
    pub(crate) fn begin() -> Self {
        let watch = Self::default();
        if env::var_os(VARIABLE).is_some() {
            let is_cut = Arc::clone(&watch.is_cut);
            thread::spawn(move || {
                // Nothing is sent: it is the end that is waited for.
                let _ = io::stdin().read_to_end(&mut Vec::new());
                is_cut.store(true, Relaxed);
            });
        }
        watch
    }

    /// True when the process that started this one has ended, or wants an end.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.load(Relaxed)
    }
}
