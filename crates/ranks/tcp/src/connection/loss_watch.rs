//! Whether the node at the other end of a connection is lost, judged by what the system knows of the connection (`TCP_INFO`).
//!
//! A process that is stopped takes no bytes, but its system acknowledges what is sent again and every probe of a full window. A
//! node that is lost acknowledges nothing. `TCP_USER_TIMEOUT` does not tell the two apart, and keepalives are not sent while
//! bytes are on their way.

#![expect(unsafe_code, reason = "rustix has no TCP_INFO")]

use std::{
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd},
    time::{Duration, Instant},
};

/// Silence of so long, in which bytes or probes were sent again, is a lost node: less than the 5 s within which it has to be
/// noticed.
const LOST_AFTER: Duration = Duration::from_millis(3000);

/// What was sent again in that time at the least: one packet may get lost.
const LEAST_SENT_AGAIN: u32 = 2;

/// What is known of one connection since the other side was silent.
#[derive(Debug, Default)]
pub(crate) struct LossWatch {
    /// When something waited to be acknowledged first, and how often the connection had sent anything again by then.
    silent: Option<(Instant, u32)>,
}

/// What the system knows of a connection.
#[derive(Clone, Copy, Debug)]
struct ConnectionFacts {
    /// Packets that are not acknowledged.
    unacknowledged: u32,
    /// Probes of a full window and keepalives that are not answered.
    probes: u32,
    /// Packets that were sent again, ever.
    sent_again: u32,
    since_acknowledged: Duration,
}

impl LossWatch {
    /// Whether the node at the other end is lost; to be asked several times a second.
    pub(crate) fn is_lost(&mut self, socket: BorrowedFd<'_>) -> bool {
        facts(socket).is_some_and(|facts| self.judge(facts, Instant::now()))
    }

    fn judge(&mut self, facts: ConnectionFacts, now: Instant) -> bool {
        let is_waiting = facts.unacknowledged > 0 || facts.probes > 0;
        let silent = self.silent.filter(|(since, _)| is_waiting && facts.since_acknowledged >= now - *since);
        self.silent = silent.or(is_waiting.then_some((now, facts.sent_again)));
        silent.is_some_and(|(since, before)| {
            let again = facts.sent_again.saturating_sub(before).saturating_add(facts.probes);
            now - since >= LOST_AFTER && again >= LEAST_SENT_AGAIN
        })
    }
}

/// Nothing where the socket is no TCP connection.
fn facts(socket: BorrowedFd<'_>) -> Option<ConnectionFacts> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    // SAFETY: the descriptor is open, `info` is a place for a `tcp_info`, and `len` says how long it is.
    let answer = unsafe {
        let place = info.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, place, &raw mut len)
    };
    // SAFETY: it is made of numbers, all of them zeros before the call: what an old system does not know stays 0.
    let info = unsafe { info.assume_init() };
    (answer == 0).then(|| ConnectionFacts {
        unacknowledged: info.tcpi_unacked,
        probes: info.tcpi_probes.into(),
        sent_again: info.tcpi_total_retrans,
        since_acknowledged: Duration::from_millis(info.tcpi_last_ack_recv.into()),
    })
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
        os::{fd::AsFd, unix::net::UnixStream},
    };

    use super::*;

    /// What a watch says of `facts` at times in milliseconds.
    fn judged(facts: &[(u64, ConnectionFacts)]) -> Vec<bool> {
        let (start, mut watch) = (Instant::now(), LossWatch::default());
        facts.iter().map(|(at, facts)| watch.judge(*facts, start + Duration::from_millis(*at))).collect()
    }

    fn sent(sent_again: u32, silent_ms: u64) -> ConnectionFacts {
        let since_acknowledged = Duration::from_millis(silent_ms);
        ConnectionFacts { unacknowledged: 3, probes: 0, sent_again, since_acknowledged }
    }

    #[test]
    fn a_node_that_acknowledges_nothing_is_lost_after_three_seconds() {
        assert_eq!(
            judged(&[(0, sent(7, 10)), (2900, sent(10, 2910)), (3100, sent(11, 3110))]),
            [false, false, true]
        );
        let probed = |probes, silent_ms| ConnectionFacts { unacknowledged: 0, probes, ..sent(0, silent_ms) };
        assert_eq!(judged(&[(0, probed(1, 300)), (3100, probed(4, 3400))]), [false, true]);
    }

    #[test]
    fn one_that_acknowledges_now_and_then_is_not_nor_one_that_was_asked_once() {
        assert_eq!(judged(&[(0, sent(7, 10)), (3100, sent(11, 500)), (6000, sent(13, 3400))]), [false; 3]);
        assert_eq!(judged(&[(0, sent(7, 10)), (3100, sent(8, 3110))]), [false; 2]);
        let idle = ConnectionFacts { unacknowledged: 0, ..sent(0, 60_000) };
        assert_eq!(judged(&[(0, idle), (5000, idle), (5001, sent(0, 65_000))]), [false; 3]);
    }

    #[test]
    fn a_reader_that_takes_nothing_is_not_lost() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut writer = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let _reader = listener.accept().expect("a connection");
        writer.set_nonblocking(true).expect("an option");
        while writer.write(&[0; 65_536]).is_ok() {}
        let (started, mut watch) = (Instant::now(), LossWatch::default());
        while started.elapsed() < Duration::from_millis(3500) {
            assert!(!watch.is_lost(writer.as_fd()), "after {:?}", started.elapsed());
            std::thread::sleep(Duration::from_millis(100));
        }
        let (unix, _other) = UnixStream::pair().expect("sockets");
        assert!(facts(unix.as_fd()).is_none());
    }
}
