//! The thread that lets other ranks in: it accepts connections, has each prove that it knows the key of the job, and hands
//! those that do on. Whoever does not costs one descriptor for a while, and nothing else.

use std::{
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use forebay_process::{Error, ProcessIdentity, Result, current_process};
use forebay_store::{ParentOnly, Wait};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    io::Errno,
    net::{RecvFlags, SendFlags, SocketFlags, accept_with},
    process::{Resource, getrlimit},
};

use crate::{
    connection::sockets::set_options,
    handshake::{Challenge, ConnectionPurpose, Hello, code::CODE_LEN, secret::JobKey},
    reads::server::Server,
};

/// Who may come in, and what for.
#[derive(Debug)]
pub(crate) struct AcceptRules {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) key: JobKey,
}

/// The thread that lets other ranks in.
#[derive(Debug)]
pub(crate) struct Acceptor {
    shared: Arc<AcceptorShared>,
    thread: Option<JoinHandle<()>>,
    process: ProcessIdentity,
}

#[derive(Debug)]
struct AcceptorShared {
    rules: AcceptRules,
    server: Server,
    /// Connections for collective calls, by rank, until they are fetched.
    stars: Mutex<HashMap<usize, OwnedFd>>,
    came: Condvar,
    wake: OwnedFd,
    is_stopping: AtomicBool,
}

/// How long a connection may take to prove that it is one of ours.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections that may be unproven at once; of more, the oldest are closed.
const MOST_PENDING: usize = 1024;

/// Connections that are accepted before those that are pending are heard.
const MOST_ACCEPTED: usize = 64;

/// Strangers get an eighth of the descriptors that this process may have at the most.
fn most_pending() -> usize {
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit / 8).ok());
    limit.unwrap_or(MOST_PENDING).clamp(1, MOST_PENDING)
}

/// Answers of a fresh connection fit into the memory of its socket: what does not is not waited for.
const SEND: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

impl Acceptor {
    pub(crate) fn open(listener: OwnedFd, rules: AcceptRules, server: Server) -> Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(|errno| Error::from_io(errno.into()))?;
        let is_stopping = AtomicBool::new(false);
        let shared = AcceptorShared {
            rules,
            server,
            stars: Mutex::default(),
            came: Condvar::new(),
            wake,
            is_stopping,
        };
        let shared = Arc::new(shared);
        let accept_loop = AcceptLoop {
            _parent_only: ParentOnly::new(listener.as_fd()),
            listener,
            shared: Arc::clone(&shared),
            pending: Vec::new(),
            most_pending: most_pending(),
        };
        let builder = thread::Builder::new().name("forebay-accept".to_owned());
        let thread = builder.spawn(move || accept_loop.run()).map_err(Error::from_io)?;
        Ok(Self { shared, thread: Some(thread), process: current_process() })
    }

    /// The connections of all other ranks for collective calls, by rank.
    pub(crate) fn stars(&self, wait: &Wait<'_>) -> Result<Vec<(usize, OwnedFd)>> {
        let mut stars = self.shared.stars.lock().unwrap_or_else(PoisonError::into_inner);
        while stars.len() + 1 < self.shared.rules.size {
            wait.go_on(|| {
                let missing = (1..self.shared.rules.size).filter(|rank| !stars.contains_key(rank)).take(16);
                let missing: Vec<_> = missing.collect();
                format!(
                    "ranks {missing:?} did not connect (start all ranks, and see what those have written)"
                )
            })?;
            stars =
                self.shared.came.wait_timeout(stars, wait.step()).unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut found: Vec<_> = stars.drain().collect();
        found.sort_by_key(|(rank, _)| *rank);
        Ok(found)
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        if current_process() != self.process {
            // The thread is the parent's: there is none to be joined here.
            std::mem::forget(self.thread.take());
            return;
        }
        self.shared.is_stopping.store(true, SeqCst);
        let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct AcceptLoop {
    _parent_only: ParentOnly,
    listener: OwnedFd,
    shared: Arc<AcceptorShared>,
    pending: Vec<PendingHandshake>,
    most_pending: usize,
}

/// A connection that has not proven anything yet.
#[derive(Debug)]
struct PendingHandshake {
    socket: OwnedFd,
    since: Instant,
    /// What it said so far; first a [`Hello`], then a code.
    said: [u8; Hello::LEN],
    len: usize,
    challenge: Option<(Hello, Challenge)>,
}

/// What became of a pending connection.
enum HandshakeStep {
    Waiting,
    Welcome(Hello),
    Refused,
}

impl AcceptLoop {
    fn run(mut self) {
        while !self.shared.is_stopping.load(SeqCst) {
            let ready = self.wait();
            // From the last on: those that leave change places with one that was heard.
            for index in ready.into_iter().rev() {
                match self.pending[index].hear(&self.shared.rules) {
                    HandshakeStep::Waiting => {}
                    HandshakeStep::Refused => _ = self.pending.swap_remove(index),
                    HandshakeStep::Welcome(hello) => {
                        self.shared.welcome(&hello, self.pending.swap_remove(index).socket)
                    }
                }
            }
            self.pending.retain(|handshake| handshake.since.elapsed() < PATIENCE);
            self.accept();
        }
    }

    /// The pending connections on which something came.
    fn wait(&self) -> Vec<usize> {
        let mut polled =
            vec![PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&self.shared.wake, PollFlags::IN)];
        polled.extend(self.pending.iter().map(|handshake| PollFd::new(&handshake.socket, PollFlags::IN)));
        // Those that say nothing are looked at once a second, to be closed.
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        let timeout = (!self.pending.is_empty()).then_some(&second);
        if poll(&mut polled, timeout).is_err_and(|errno| errno != Errno::INTR) {
            thread::sleep(Duration::from_millis(50));
            return Vec::new();
        }
        let ready = polled[2..].iter().enumerate().filter(|(_, polled)| !polled.revents().is_empty());
        ready.map(|(index, _)| index).collect()
    }

    fn accept(&mut self) {
        for _ in 0..MOST_ACCEPTED {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    if self.pending.len() >= self.most_pending {
                        let ages = self.pending.iter().enumerate();
                        let oldest = ages.min_by_key(|(_, handshake)| handshake.since);
                        let oldest = oldest.map_or(0, |(index, _)| index);
                        self.pending.swap_remove(oldest);
                    }
                    if set_options(socket.as_fd()).is_ok() {
                        self.pending.push(PendingHandshake::new(socket));
                    }
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::WOULDBLOCK) => return,
                Err(_) => {
                    // No descriptors are left: those of pending come back.
                    thread::sleep(Duration::from_millis(50));
                    return;
                }
            }
        }
    }
}

impl PendingHandshake {
    fn new(socket: OwnedFd) -> Self {
        Self { socket, since: Instant::now(), said: [0; Hello::LEN], len: 0, challenge: None }
    }

    fn hear(&mut self, rules: &AcceptRules) -> HandshakeStep {
        let wanted = if self.challenge.is_some() { CODE_LEN } else { Hello::LEN };
        while self.len < wanted {
            match rustix::net::recv(&self.socket, &mut self.said[self.len..wanted], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return HandshakeStep::Refused,
                Ok((len, _)) => self.len += len,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return HandshakeStep::Waiting,
                Err(_) => return HandshakeStep::Refused,
            }
        }
        self.len = 0;
        match &self.challenge {
            None => self.greet(rules),
            Some((hello, challenge)) => {
                let mut code = [0; CODE_LEN];
                code.copy_from_slice(&self.said[..CODE_LEN]);
                let is_ours = challenge.is_answered(&code, hello, &rules.key);
                match is_ours && rustix::net::send(&self.socket, &[1], SEND) == Ok(1) {
                    true => HandshakeStep::Welcome(*hello),
                    false => HandshakeStep::Refused,
                }
            }
        }
    }

    fn greet(&mut self, rules: &AcceptRules) -> HandshakeStep {
        let is_member = |hello: &Hello| {
            hello.listener as usize == rules.rank
                && (hello.caller as usize) < rules.size
                && hello.caller != hello.listener
        };
        let Some(hello) = Hello::parse(&self.said).filter(is_member) else { return HandshakeStep::Refused };
        let Ok(challenge) = Challenge::new(&hello, &rules.key) else { return HandshakeStep::Refused };
        if rustix::net::send(&self.socket, &challenge.to_bytes(), SEND) != Ok(Challenge::LEN) {
            return HandshakeStep::Refused;
        }
        self.challenge = Some((hello, challenge));
        HandshakeStep::Waiting
    }
}

impl AcceptorShared {
    fn welcome(&self, hello: &Hello, socket: OwnedFd) {
        match hello.purpose {
            ConnectionPurpose::Reads => self.server.add(socket),
            ConnectionPurpose::Star => {
                let mut stars = self.stars.lock().unwrap_or_else(PoisonError::into_inner);
                stars.entry(hello.caller as usize).or_insert(socket);
                self.came.notify_all();
            }
        }
    }
}
