//! Threads that answer reads of other ranks: few, whatever the number of connections.

use std::{
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use forebay_process::{Error, ProcessIdentity, Result, current_process};
use forebay_store::{FrameHeader, FrameKind, ShardMemory};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    io::Errno,
    net::RecvFlags,
};

use crate::{
    connection::{loss_watch::LossWatch, sockets::enlarge_send_buffer},
    reads::{
        answer::Answer,
        read_request::{MOST_PIECES, PieceRequest, ReadRefusal, request_len},
    },
};

/// The shards that this rank lets others read, by the numbers of their windows.
#[derive(Debug, Default)]
pub(crate) struct ServedWindows(RwLock<HashMap<u64, Arc<ShardMemory>>>);

impl ServedWindows {
    pub(crate) fn add(&self, number: u64, shard: Arc<ShardMemory>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(number, shard);
    }

    pub(crate) fn remove(&self, number: u64) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    fn get(&self, number: u64) -> Option<Arc<ShardMemory>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// The answer to a request.
    fn answer(&self, number: u64, request: PieceRequest) -> Answer {
        let refused = |detail: ReadRefusal| {
            Answer::of_header(FrameHeader {
                detail: detail as u8,
                ..FrameHeader::new(FrameKind::Refused, number, 0)
            })
        };
        let Some(shard) = self.get(request.window) else { return refused(ReadRefusal::NoWindow) };
        let Some(total) = request.total(shard.len()) else { return refused(ReadRefusal::BeyondTheShard) };
        let header = FrameHeader { len: total, ..FrameHeader::new(FrameKind::Bytes, number, 0) };
        Answer::new(header, shard, request.pieces).unwrap_or_else(|| refused(ReadRefusal::BeyondTheShard))
    }
}

/// The threads.
#[derive(Debug)]
pub(crate) struct Server {
    workers: Vec<(Arc<Inbox>, Option<JoinHandle<()>>)>,
    next: AtomicUsize,
    process: ProcessIdentity,
}

/// Connections that a thread is to serve from now on.
#[derive(Debug)]
struct Inbox {
    fresh: Mutex<Vec<OwnedFd>>,
    wake: OwnedFd,
    is_stopping: AtomicBool,
}

/// Threads of one rank: one answers all reads at the speed of a 10 Gbit/s network, more of them those of many peers.
const MOST_THREADS: usize = 4;

impl Server {
    pub(crate) fn start(windows: &Arc<ServedWindows>, peer_count: usize) -> Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let count = peer_count.min(cores / 4).clamp(1, MOST_THREADS);
        let mut workers = Vec::new();
        for _ in 0..count {
            let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
            let wake = wake.map_err(|errno| Error::from_io(errno.into()))?;
            let inbox =
                Arc::new(Inbox { fresh: Mutex::default(), wake, is_stopping: AtomicBool::new(false) });
            let worker = ServerThread {
                inbox: Arc::clone(&inbox),
                windows: Arc::clone(windows),
                connections: Vec::new(),
                looked: Instant::now(),
            };
            let builder = thread::Builder::new().name("forebay-serve".to_owned());
            let thread = builder.spawn(move || worker.run()).map_err(Error::from_io)?;
            workers.push((inbox, Some(thread)));
        }
        Ok(Self { workers, next: AtomicUsize::new(0), process: current_process() })
    }

    /// Serves one more connection.
    pub(crate) fn add(&self, socket: OwnedFd) {
        enlarge_send_buffer(socket.as_fd());
        let (inbox, _) = &self.workers[self.next.fetch_add(1, Relaxed) % self.workers.len()];
        inbox.fresh.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
        inbox.wake();
    }
}

impl Inbox {
    fn wake(&self) {
        // It fails only where the thread is awake anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for (inbox, thread) in &mut self.workers {
            if current_process() != self.process {
                // The threads are the parent's: there are none to be joined here.
                std::mem::forget(thread.take());
                continue;
            }
            inbox.is_stopping.store(true, SeqCst);
            inbox.wake();
            let _ = thread.take().map(JoinHandle::join);
        }
    }
}

struct ServerThread {
    inbox: Arc<Inbox>,
    windows: Arc<ServedWindows>,
    connections: Vec<Served>,
    /// When it looked for nodes that are lost.
    looked: Instant,
}

/// How often it looks.
const LOOK: Duration = Duration::from_secs(1);

impl ServerThread {
    fn run(mut self) {
        while !self.inbox.is_stopping.load(SeqCst) {
            let fresh = std::mem::take(&mut *self.inbox.fresh.lock().unwrap_or_else(PoisonError::into_inner));
            self.connections.extend(fresh.into_iter().map(Served::new));
            let ready = self.wait();
            // From the last on: those that are closed change places with one that was looked at.
            for index in ready.into_iter().rev() {
                if !self.connections[index].serve(&self.windows) {
                    self.connections.swap_remove(index);
                }
            }
            if self.looked.elapsed() >= LOOK {
                self.looked = Instant::now();
                // Whoever waits for bytes on a node that is lost takes none, and would keep the shard.
                self.connections.retain_mut(|served| !served.is_lost());
            }
        }
    }

    /// The connections that can go on.
    fn wait(&self) -> Vec<usize> {
        let mut polled = vec![PollFd::new(&self.inbox.wake, PollFlags::IN)];
        polled.extend(self.connections.iter().map(|served| PollFd::new(&served.socket, served.awaited())));
        let look = Timespec { tv_sec: 1, tv_nsec: 0 };
        let timeout = self.connections.iter().any(|served| served.answer.is_some()).then_some(&look);
        if let Err(errno) = poll(&mut polled, timeout) {
            if errno != Errno::INTR {
                // The system has no memory for the list: it may have some later.
                thread::sleep(Duration::from_millis(50));
            }
            return Vec::new();
        }
        if !polled[0].revents().is_empty() {
            let _ = rustix::io::read(&self.inbox.wake, &mut [0; 8]);
        }
        let ready = polled[1..].iter().enumerate().filter(|(_, polled)| !polled.revents().is_empty());
        ready.map(|(index, _)| index).collect()
    }
}

/// One connection: either a request arrives, or its answer goes out. No further request is read before that.
#[derive(Debug)]
struct Served {
    socket: OwnedFd,
    /// Bytes that came and are not taken yet; never more than one request of the greatest length and a bit.
    bytes: Vec<u8>,
    filled: usize,
    answer: Option<Answer>,
    loss: LossWatch,
}

/// Memory of a connection on which only small requests came: 250 pieces.
const FIRST_BYTES: usize = 4096;

impl Served {
    fn new(socket: OwnedFd) -> Self {
        Self { socket, bytes: vec![0; FIRST_BYTES], filled: 0, answer: None, loss: LossWatch::default() }
    }

    fn is_lost(&mut self) -> bool {
        self.answer.is_some() && self.loss.is_lost(self.socket.as_fd())
    }

    fn awaited(&self) -> PollFlags {
        if self.answer.is_some() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Goes on as far as the socket lets it; false when the connection has ended, or what came on it is no request.
    fn serve(&mut self, windows: &ServedWindows) -> bool {
        let mut is_drained = false;
        loop {
            if let Some(answer) = &mut self.answer {
                match answer.send(self.socket.as_fd()) {
                    Ok(()) => self.answer = None,
                    Err(Errno::WOULDBLOCK) => return true,
                    Err(_) => return false,
                }
            }
            match PieceRequest::take(&self.bytes[..self.filled]) {
                Ok(Some((number, request, len))) => {
                    self.bytes.copy_within(len..self.filled, 0);
                    self.filled -= len;
                    self.answer = Some(windows.answer(number, request));
                    continue;
                }
                Ok(None) => {}
                Err(_) => return false,
            }
            if is_drained {
                return true;
            }
            match self.receive() {
                Ok(0) => return false,
                // What filled the buffer may not have been all.
                Ok(_) => is_drained = self.filled < self.bytes.len(),
                Err(Errno::WOULDBLOCK) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn receive(&mut self) -> Result<usize, Errno> {
        if self.filled == self.bytes.len() {
            // The header of what fills it was found to be that of a request.
            self.bytes.resize(FrameHeader::LEN + request_len(MOST_PIECES), 0);
        }
        let (len, _) = rustix::net::recv(&self.socket, &mut self.bytes[self.filled..], RecvFlags::DONTWAIT)?;
        self.filled += len;
        Ok(len)
    }
}
