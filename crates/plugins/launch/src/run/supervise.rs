//! A program as the child of this process: signals and stops are passed on, and its end becomes that of this process.
//!
//! The child stays in the process group, so that the terminal's signals (Ctrl-C, Ctrl-Z, a line that is hung up) reach it from the
//! kernel, as they would without this process. What other processes send to this one alone is sent on. Where the child
//! stops, this process stops as well, and a shell sees one stopped job.

#![expect(unsafe_code, reason = "blocks, takes and sends signals, and waits for a child that may stop")]

use std::{
    fmt, io, mem,
    os::unix::process::CommandExt,
    process::{Child, Command},
    ptr,
    time::Duration,
};

/// Signals that are passed on: those that people, schedulers and other programs send.
const PASSED_ON: [libc::c_int; 13] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGXCPU,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// The same, and the real-time signals, which stand for what programs agree on.
fn passed_on() -> impl Iterator<Item = libc::c_int> {
    PASSED_ON.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// With this exit code.
    Exited(u8),
    /// By this signal.
    Killed(i32),
}

impl ProgramEnd {
    /// The exit code as shells have it.
    pub fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }

    /// Ends this process as the program ended: by the same signal, where one ended it. Otherwise it returns the exit code.
    pub fn follow(self) -> u8 {
        if let Self::Killed(signal) = self {
            end_by(signal);
        }
        self.code()
    }
}

/// Signals that this process takes one by one while a program runs, and that its threads leave to it.
pub(crate) struct BlockedSignals {
    taken: SignalSet,
    before: SignalSet,
    children_were_ignored: bool,
}

impl BlockedSignals {
    /// Blocks them for this thread and those that it starts from now on, until this is dropped.
    pub(crate) fn new() -> Self {
        let taken = SignalSet::of(passed_on().chain([libc::SIGCHLD]));
        Self { before: taken.block(), taken, children_were_ignored: default_sigchld() }
    }
}

impl fmt::Debug for BlockedSignals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockedSignals").finish_non_exhaustive()
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        self.before.set();
    }
}

/// Runs `command` to its end; `tick` is called while it runs, and says how long to wait until the next time.
pub(crate) fn supervise(
    command: &mut Command,
    signals: &BlockedSignals,
    mut tick: impl FnMut() -> Duration,
) -> io::Result<ProgramEnd> {
    let (before, children_were_ignored) = (signals.before, signals.children_were_ignored);
    // SAFETY: the closure makes two system calls that may be made between fork and exec, and takes no memory.
    unsafe {
        command.pre_exec(move || {
            before.set();
            if children_were_ignored {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            }
            Ok(())
        });
    }
    let child = command.spawn()?;
    wait(&child, &signals.taken, &mut tick)
}

/// True where the kernel sends `signal` to the program too if it is meant for it: what a terminal sends to all of a process group, and
/// the limit of processor time, which each process has for itself. A hang-up comes to the leader of the session alone, an alarm to who
/// set it.
fn reaches_both(signal: libc::c_int) -> bool {
    match signal {
        libc::SIGINT | libc::SIGQUIT | libc::SIGTSTP | libc::SIGWINCH | libc::SIGXCPU => true,
        // SAFETY: both only ask for numbers of this process.
        libc::SIGHUP => unsafe { libc::getsid(0) != libc::getpid() },
        _ => false,
    }
}

fn wait(child: &Child, signals: &SignalSet, tick: &mut impl FnMut() -> Duration) -> io::Result<ProgramEnd> {
    let child = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let mut pause = tick();
    loop {
        match signals.take(pause) {
            Some(taken) if taken.signal != libc::SIGCHLD => {
                let has_it = match taken.sender {
                    Sender::Process(sender) => sender == child,
                    Sender::Kernel => reaches_both(taken.signal),
                };
                if !has_it {
                    taken.send_on(child);
                }
            }
            Some(_) => {}
            None => pause = tick(),
        }
        match state(child)? {
            ChildState::Runs => {}
            ChildState::Stopped => {
                // The default of SIGSTOP cannot be caught: this returns once somebody continues this process.
                send(libc::pid_t::try_from(std::process::id()).map_err(io::Error::other)?, libc::SIGSTOP);
                send(child, libc::SIGCONT);
            }
            ChildState::Ended(end) => return Ok(end),
        }
    }
}

enum ChildState {
    Runs,
    Stopped,
    Ended(ProgramEnd),
}

/// What became of the child since it was asked last.
fn state(child: libc::pid_t) -> io::Result<ChildState> {
    let mut status = 0;
    // SAFETY: the status is a variable of ours; a number that is no child of ours is an error.
    let found = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG | libc::WUNTRACED) };
    if found == 0 {
        return Ok(ChildState::Runs);
    }
    if found < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(ChildState::Runs) } else { Err(error) };
    }
    Ok(if libc::WIFSTOPPED(status) {
        ChildState::Stopped
    } else if libc::WIFSIGNALED(status) {
        ChildState::Ended(ProgramEnd::Killed(libc::WTERMSIG(status)))
    } else {
        ChildState::Ended(ProgramEnd::Exited(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX)))
    })
}

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Kernel,
    Process(libc::pid_t),
}

/// A signal that arrived.
#[derive(Clone, Copy)]
struct TakenSignal {
    signal: libc::c_int,
    sender: Sender,
    /// What was queued with it (`sigqueue`), if anything was.
    value: Option<libc::sigval>,
}

impl TakenSignal {
    fn send_on(self, child: libc::pid_t) {
        match self.value {
            None => send(child, self.signal),
            // SAFETY: the process is the child, which was not waited for to its end; the value is a number to this process.
            Some(value) => drop(unsafe { libc::sigqueue(child, self.signal, value) }),
        }
    }
}

/// A set of signals.
#[derive(Clone, Copy)]
struct SignalSet(libc::sigset_t);

impl SignalSet {
    fn of(signals: impl IntoIterator<Item = libc::c_int>) -> Self {
        // SAFETY: a set of zeros is a place for one, which is emptied before it is used; signals are constants of the system.
        unsafe {
            let mut set = mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::sigaddset(&raw mut set, signal);
            }
            Self(set)
        }
    }

    /// Blocks these for this thread and those that it starts; gives what was blocked before.
    fn block(&self) -> Self {
        let mut before = Self::of([]);
        // SAFETY: both sets are ours.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const self.0, &raw mut before.0) };
        before
    }

    /// Makes these the blocked ones.
    fn set(&self) {
        // SAFETY: the set is ours.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }

    /// The next of these signals that arrives within `limit`.
    fn take(&self, limit: Duration) -> Option<TakenSignal> {
        let limit = libc::timespec {
            tv_sec: limit.as_secs().try_into().unwrap_or(1),
            tv_nsec: limit.subsec_nanos().into(),
        };
        // SAFETY: the set, the answer and the limit are ours; where a signal was taken, the answer is filled in, `si_pid` is part of
        // it for all signals that a process sends, and `si_value` for those that it queues.
        unsafe {
            let mut info: libc::siginfo_t = mem::zeroed();
            let signal = libc::sigtimedwait(&raw const self.0, &raw mut info, &raw const limit);
            if signal < 0 {
                return None;
            }
            let sender = if info.si_code > 0 { Sender::Kernel } else { Sender::Process(info.si_pid()) };
            let value = (info.si_code == libc::SI_QUEUE).then(|| info.si_value());
            Some(TakenSignal { signal, sender, value })
        }
    }
}

/// Children that end must be heard of; true where whoever started this process had them ignored.
fn default_sigchld() -> bool {
    // SAFETY: the default is what every process begins with.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) == libc::SIG_IGN }
}

fn send(process: libc::pid_t, signal: libc::c_int) {
    // SAFETY: the process is the child, which was not waited for to its end, or this one.
    unsafe { libc::kill(process, signal) };
}

/// Ends this process by `signal`, without a second core file; returns where the signal ends nothing.
fn end_by(signal: libc::c_int) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is ours; after the default is restored the signal ends this process.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        let set = SignalSet::of([signal]);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set.0, ptr::null_mut());
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> ProgramEnd {
        let signals = BlockedSignals::new();
        supervise(Command::new("sh").arg("-c").arg(script), &signals, || Duration::from_millis(5)).unwrap()
    }

    #[test]
    fn exit_codes_and_signals_are_told_apart() {
        assert_eq!(run("exit 42"), ProgramEnd::Exited(42));
        assert_eq!(run("kill -9 $$"), ProgramEnd::Killed(9));
        assert_eq!((ProgramEnd::Killed(15).code(), ProgramEnd::Exited(3).follow()), (143, 3));
        let missing =
            supervise(&mut Command::new("/no/such"), &BlockedSignals::new(), || Duration::from_secs(1));
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_program_has_the_signals_that_it_would_have_had() {
        // SIGTERM is blocked in this process while it waits, and must not be in the child.
        assert_eq!(run("kill -TERM $$; sleep 60"), ProgramEnd::Killed(15));
        let blocked = "grep SigBlk /proc/self/status";
        assert_eq!(
            run(&format!("test \"$({blocked})\" = \"$(printf 'SigBlk:\\t%016x' 0)\"")),
            ProgramEnd::Exited(0)
        );
    }
}
