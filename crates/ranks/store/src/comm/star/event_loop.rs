//! The thread of a star: it sends, receives, and notices members that end.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_process::Error;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::comm::{
    rank_states::RankState,
    star::{connection::Connection, exchange::Shared},
};

/// The longest time between two looks at what nothing wakes it for.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// How often it looks for members that have ended by other means.
const LOOK: Duration = Duration::from_millis(150);

/// How long what is still to be sent may take when the star is dropped.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Which members have ended, by what the star cannot see itself; by their places, as the open connections are.
pub type EndedElsewhere = Box<dyn FnMut(&[(usize, BorrowedFd<'_>)]) -> Vec<usize> + Send>;

pub(super) struct EventLoop {
    pub(super) shared: Arc<Shared>,
    pub(super) wake: OwnedFd,
    /// By member; closed ones are none.
    pub(super) connections: Vec<Option<Connection>>,
    /// Whether a connection that ends means that the member did: otherwise a descriptor says so.
    pub(super) ends_with_connection: bool,
    pub(super) ended_elsewhere: Option<EndedElsewhere>,
    /// When it was asked last.
    pub(super) looked: Option<Instant>,
    pub(super) ends: Vec<(usize, OwnedFd)>,
}

/// What became ready.
enum Ready {
    Wake,
    Connection(usize),
    End(usize),
}

impl EventLoop {
    pub(super) fn run(mut self) {
        let mut until = None;
        loop {
            if self.take_posted() {
                let deadline = *until.get_or_insert_with(|| Instant::now() + LAST_WORDS);
                let is_done = !self.connections.iter().flatten().any(Connection::has_unsent);
                if is_done || Instant::now() >= deadline {
                    return;
                }
            }
            let ready = self.wait();
            let mut ended = Vec::new();
            for ready in ready {
                match ready {
                    Ready::Wake => _ = rustix::io::read(&self.wake, &mut [0; 8]),
                    Ready::Connection(index) => self.serve(index),
                    Ready::End(index) => ended.push(index),
                }
            }
            ended.into_iter().for_each(|index| self.end(index));
            self.look_elsewhere();
            self.shared.fail_for_ended(&mut self.shared.lock());
        }
    }

    /// Takes what callers posted; true when the star is dropped.
    fn take_posted(&mut self) -> bool {
        let mut exchange = self.shared.lock();
        self.ends.append(&mut exchange.ends);
        let mut lost = 0;
        for (posted, connection) in exchange.outbox.iter_mut().zip(&mut self.connections) {
            match connection {
                Some(connection) => posted.drain(..).for_each(|frame| connection.queue(frame)),
                None => {
                    lost += posted.len();
                    posted.clear();
                }
            }
        }
        exchange.unsent -= lost;
        let is_stopping = exchange.is_stopping;
        drop(exchange);
        for index in self.shared.neighbours() {
            self.send(index);
        }
        is_stopping
    }

    fn wait(&self) -> Vec<Ready> {
        let mut polled = vec![PollFd::new(&self.wake, PollFlags::IN)];
        let mut ready = vec![Ready::Wake];
        for (index, connection) in self.connections.iter().enumerate() {
            let Some(connection) = connection else { continue };
            let sending = if connection.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
            polled.push(PollFd::from_borrowed_fd(connection.socket(), PollFlags::IN | sending));
            ready.push(Ready::Connection(index));
        }
        for (index, end) in &self.ends {
            polled.push(PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN));
            ready.push(Ready::End(*index));
        }
        match poll(&mut polled, Some(&TICK)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Vec::new(),
            Err(_) => {
                // The system has no memory for the list: it may have some later.
                thread::sleep(Duration::from_millis(50));
                return Vec::new();
            }
        }
        ready
            .into_iter()
            .zip(&polled)
            .filter(|(_, polled)| !polled.revents().is_empty())
            .map(|(ready, _)| ready)
            .collect()
    }

    fn serve(&mut self, index: usize) {
        self.send(index);
        let Some(connection) = &mut self.connections[index] else { return };
        let shared = Arc::clone(&self.shared);
        match connection.receive(&mut |frame, descriptors| shared.arrived(index, frame, descriptors)) {
            Ok(true) => {}
            Ok(false) => self.close(index),
            Err(error) => self.fail(error),
        }
    }

    /// What another member sent cannot be read here: no collective call ends well any more, and all are told why.
    fn fail(&self, error: Error) {
        let error = error.at(format!("rank {}", self.shared.ranks[self.shared.own]));
        self.shared.fail(&mut self.shared.lock(), error, None);
    }

    fn send(&mut self, index: usize) {
        let Some(connection) = &mut self.connections[index] else { return };
        let count = connection.send();
        if count > 0 {
            self.shared.lock().unsent -= count;
            self.shared.notify();
        }
    }

    fn close(&mut self, index: usize) {
        let Some(connection) = self.connections[index].take() else { return };
        let mut exchange = self.shared.lock();
        exchange.unsent -= connection.unsent_count();
        if self.ends_with_connection {
            self.shared.note_end(&mut exchange, index, false, Some(index));
        }
        exchange.closed[index] = true;
        if !self.shared.is_hub() {
            self.shared.fail(&mut exchange, self.shared.ended(index), Some(index));
        }
    }

    /// A member has ended: what it said before is still read.
    fn end(&mut self, index: usize) {
        self.ends.retain(|(ended, _)| *ended != index);
        self.serve(index);
        self.shared.note_end(&mut self.shared.lock(), index, false, None);
        if self.connections[index].is_some() {
            self.close(index);
        }
    }

    fn look_elsewhere(&mut self) {
        let Some(ended_elsewhere) = &mut self.ended_elsewhere else { return };
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        let open = self.connections.iter().enumerate();
        let open: Vec<_> =
            open.filter_map(|(index, connection)| Some((index, connection.as_ref()?.socket()))).collect();
        for index in ended_elsewhere(&open) {
            if self.shared.states.get(index) == RankState::Running {
                self.end(index);
            }
        }
    }
}
