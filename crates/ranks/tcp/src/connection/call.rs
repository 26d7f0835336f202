//! A connection to another rank while it is made: connected, then let in. Several are made at once, and none of them blocks.

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
    time::Duration,
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_store::Wait;
use rustix::{
    event::PollFlags,
    io::Errno,
    net::{RecvFlags, SendFlags, bind, connect},
};

use crate::{
    connection::sockets::{closed, new_socket, ready_for, set_options},
    handshake::{Challenge, ConnectionPurpose, Hello, secret::JobKey},
};

/// Who calls other ranks, from where, and what one needs to be let in.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) rank: usize,
    pub(crate) from: IpAddr,
    pub(crate) key: JobKey,
}

/// How long one waits before it tries again to connect to a rank that does not listen yet, or is too busy to answer.
const RETRY: Duration = Duration::from_millis(20);

/// How long the network may take to lead to another node after this rank has started.
const NETWORK_PATIENCE: Duration = Duration::from_secs(30);

impl Caller {
    /// Begins to connect to `rank`, which listens at `address`.
    pub(crate) fn start(&self, purpose: ConnectionPurpose, rank: usize, address: SocketAddr) -> Result<Call> {
        let failed = |errno: Errno| Error::from_io(errno.into()).at(format!("rank {rank}, {address}"));
        let number = |rank: usize| u32::try_from(rank).map_err(|_| Error::invalid("more than 2^32 ranks"));
        let socket = new_socket(address.ip()).map_err(failed)?;
        bind(&socket, &SocketAddr::from((self.from, 0))).map_err(failed)?;
        set_options(socket.as_fd()).map_err(failed)?;
        let hello = Hello::new(purpose, number(self.rank)?, number(rank)?)?;
        let stage = CallStage::Connecting;
        Ok(Call {
            rank,
            address,
            key: self.key.clone(),
            socket,
            hello,
            stage,
            said: [0; Challenge::LEN],
            len: 0,
        })
    }

    /// A connection to `rank` for collective calls; tried again until it succeeds, since that rank may still have to start, and
    /// the network for a while.
    pub(crate) fn call_hub(&self, rank: usize, address: SocketAddr, wait: &Wait<'_>) -> Result<OwnedFd> {
        let late =
            || format!("rank {rank} does not let this rank in (start all ranks, and see what they write)");
        let network = wait.shortened(NETWORK_PATIENCE);
        loop {
            let mut call = self.start(ConnectionPurpose::Star, rank, address)?;
            let failed = loop {
                match call.go_on() {
                    Ok(CallStep::LetIn) => return Ok(call.socket),
                    Ok(CallStep::TurnedAway) => break None,
                    Ok(CallStep::Waiting) => {}
                    Err(error) if error.kind() == ErrorKind::Unavailable => break Some(error),
                    Err(error) => return Err(error),
                }
                wait.go_on(late)?;
                ready_for(call.socket(), call.awaited(), wait)?;
            };
            match failed {
                None => wait.go_on(late)?,
                Some(error) => network.go_on(|| error.to_string())?,
            }
            thread::sleep(wait.step().min(RETRY));
        }
    }
}

/// A connection that is being made.
#[derive(Debug)]
pub(crate) struct Call {
    rank: usize,
    address: SocketAddr,
    key: JobKey,
    socket: OwnedFd,
    hello: Hello,
    stage: CallStage,
    /// What the other side has said of what is awaited.
    said: [u8; Challenge::LEN],
    len: usize,
}

/// What is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallStage {
    Connecting,
    Challenge,
    Welcome,
}

/// What has become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallStep {
    Waiting,
    LetIn,
    /// Nobody listens there, or who does has closed the connection before anything was proven.
    TurnedAway,
}

impl Call {
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The connection, once it was let in.
    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// What the socket has to be ready for before it can go on.
    pub(crate) fn awaited(&self) -> PollFlags {
        if self.stage == CallStage::Connecting { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Where nobody lets this rank in.
    pub(crate) fn turned_away(&self) -> Error {
        let what = format!("rank {} is gone: nobody answers at {}", self.rank, self.address);
        Error::new(ErrorKind::Unavailable, what).hint("see its output for the reason")
    }

    /// Goes on as far as the socket lets it.
    pub(crate) fn go_on(&mut self) -> Result<CallStep> {
        if self.stage == CallStage::Connecting {
            // On a socket that is being connected the call asks how far it is.
            match connect(&self.socket, &self.address) {
                Ok(()) | Err(Errno::ISCONN) => {}
                Err(Errno::INPROGRESS | Errno::ALREADY | Errno::INTR) => return Ok(CallStep::Waiting),
                Err(Errno::CONNREFUSED | Errno::CONNRESET) => return Ok(CallStep::TurnedAway),
                Err(errno) => return Err(closed(self.rank, errno)),
            }
            self.stage = CallStage::Challenge;
            if !self.say(&self.hello.to_bytes())? {
                return Ok(CallStep::TurnedAway);
            }
        }
        if self.stage == CallStage::Challenge {
            match self.hear(Challenge::LEN)? {
                CallStep::LetIn => {}
                other => return Ok(other),
            }
            let code = Challenge::answer(&self.said, &self.hello, &self.key)?;
            (self.stage, self.len) = (CallStage::Welcome, 0);
            if !self.say(&code)? {
                return Ok(CallStep::TurnedAway);
            }
        }
        match self.hear(1)? {
            // Ranks that read of each other have proven before what they know: whoever says nothing to a proof now has ended meanwhile.
            CallStep::TurnedAway if self.hello.purpose == ConnectionPurpose::Star => {
                let what = format!("rank {} does not take this rank for one of the job", self.rank);
                Err(Error::new(ErrorKind::Denied, what)
                    .hint("give the same secret file and job to all ranks"))
            }
            other => Ok(other),
        }
    }

    /// Says so few bytes that they fit into the memory of a new socket; false where the other side has closed the connection.
    fn say(&self, bytes: &[u8]) -> Result<bool> {
        match rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(len) => Ok(len == bytes.len()),
            Err(Errno::PIPE | Errno::CONNRESET) => Ok(false),
            Err(errno) => Err(closed(self.rank, errno)),
        }
    }

    /// Whether `wanted` bytes were heard.
    fn hear(&mut self, wanted: usize) -> Result<CallStep> {
        while self.len < wanted {
            match rustix::net::recv(&self.socket, &mut self.said[self.len..wanted], RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Ok(CallStep::TurnedAway),
                Ok((len, _)) => self.len += len,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(CallStep::Waiting),
                Err(errno) => return Err(closed(self.rank, errno)),
            }
        }
        Ok(CallStep::LetIn)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{Ipv4Addr, TcpListener},
    };

    use forebay_store::JobName;

    use super::*;
    use crate::{connection::sockets::listen_on, handshake::secret::Secret};

    fn caller() -> Caller {
        let key = Secret::random().expect("random bytes").key_of(&JobName::new("job"), &[0; 32]);
        Caller { rank: 1, from: Ipv4Addr::LOCALHOST.into(), key }
    }

    fn last_step(mut call: Call) -> CallStep {
        let wait = Wait::at_most(Duration::from_secs(10));
        loop {
            match call.go_on().expect("no error") {
                CallStep::Waiting if call.stage == CallStage::Connecting => {
                    ready_for(call.socket(), call.awaited(), &wait).expect("a socket");
                    wait.go_on(|| "no end".to_owned()).expect("a step");
                }
                step => return step,
            }
        }
    }

    #[test]
    fn where_nobody_listens_there_is_no_connection() {
        let (listener, bound) = listen_on(Ipv4Addr::LOCALHOST.into()).expect("a listener");
        let call = || caller().start(ConnectionPurpose::Reads, 0, bound).expect("a socket");
        assert_eq!(last_step(call()), CallStep::Waiting, "connected, and not let in");
        drop(listener);
        assert_eq!(last_step(call()), CallStep::TurnedAway);
    }

    #[test]
    fn a_rank_that_ends_while_it_lets_one_in_is_gone_and_has_denied_nothing() {
        for (purpose, denies) in [(ConnectionPurpose::Reads, false), (ConnectionPurpose::Star, true)] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
            let (caller, address) = (caller(), listener.local_addr().expect("an address"));
            let mut call = caller.start(purpose, 0, address).expect("a socket");
            thread::scope(|scope| {
                scope.spawn(|| {
                    let (mut stream, _) = listener.accept().expect("a caller");
                    let mut hello = [0; Hello::LEN];
                    stream.read_exact(&mut hello).expect("a hello");
                    let hello = Hello::parse(&hello).expect("a hello");
                    let challenge = Challenge::new(&hello, &caller.key).expect("random bytes");
                    stream.write_all(&challenge.to_bytes()).expect("a challenge");
                    // Killed before it says welcome.
                    stream.read_exact(&mut [0; 32]).expect("a proof");
                });
                let wait = Wait::at_most(Duration::from_secs(60));
                let end = loop {
                    match call.go_on() {
                        Ok(CallStep::Waiting) => {
                            wait.go_on(|| "no end".to_owned()).expect("a step");
                            ready_for(call.socket(), call.awaited(), &wait).expect("a socket");
                        }
                        end => break end,
                    }
                };
                match denies {
                    true => assert_eq!(end.expect_err("denied").kind(), ErrorKind::Denied),
                    false => assert_eq!(end.expect("no error"), CallStep::TurnedAway),
                }
            });
        }
        assert_eq!(
            caller()
                .start(ConnectionPurpose::Reads, 4, ([127, 0, 0, 1], 9).into())
                .map(|call| call.turned_away().kind())
                .ok(),
            Some(ErrorKind::Unavailable)
        );
    }

    #[test]
    fn a_node_that_cannot_be_reached_is_unavailable_and_named() {
        for errno in [Errno::HOSTUNREACH, Errno::NETUNREACH, Errno::TIMEDOUT] {
            let error = closed(3, errno);
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().contains("rank 3 is gone: its node cannot be reached"), "{error}");
        }
    }
}
