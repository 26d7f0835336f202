//! TCP sockets that never block: options, addresses, and calls that wait no longer than a [`Wait`] allows.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use forebay_source::{Error, ErrorKind, Result};
use forebay_store::Wait;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, listen, socket_with,
        sockopt,
    },
};

/// A peer whose node is lost without a word is noticed after so long: less than the 5 s within which it has to be.
const LOST_AFTER: Duration = Duration::from_millis(3000);

/// Connections that wait to be accepted: all ranks of a job may come at once.
const BACKLOG: i32 = 4096;

/// The address of this machine by which it reaches the node called `node`: no other is listened on.
pub fn address_toward(node: &str, port: u16) -> Result<IpAddr> {
    let named = |error| Error::from_io(error).at(format!("{node}:{port}"));
    let found: Vec<SocketAddr> = (node, port).to_socket_addrs().map_err(named)?.collect();
    let address = found.iter().find_map(|address| route_to(*address));
    let address = address.ok_or_else(|| {
        let error = Error::new(ErrorKind::Unavailable, "no way leads there from this node");
        error.hint("see that MASTER_ADDR and the names of hosts are right").at(format!("{node}:{port}"))
    })?;
    // Some systems give the machine's own name the address 127.0.1.1, by which no other node reaches it.
    let is_meant = node == "localhost" || node.parse::<IpAddr>().is_ok();
    if address.is_loopback() && !is_meant {
        let documentation = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), port.max(1)));
        return Ok(route_to(documentation).unwrap_or(address));
    }
    Ok(address)
}

/// The address that packets to `address` would come from. A connected UDP socket sends none.
fn route_to(address: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(address).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|own| !own.is_unspecified())
}

/// A socket that listens on a free port of `address`, and the port.
pub(crate) fn listen_on(address: IpAddr) -> Result<(OwnedFd, SocketAddr)> {
    if address.is_unspecified() {
        return Err(Error::invalid(format!("{address} is every address of this machine")).hint("name one"));
    }
    let made = || -> Result<_, Errno> {
        let socket = new_socket(address)?;
        bind(&socket, &SocketAddr::from((address, 0)))?;
        listen(&socket, BACKLOG)?;
        let bound = rustix::net::getsockname(&socket)?;
        Ok((socket, SocketAddr::try_from(bound).map_err(|_| Errno::AFNOSUPPORT)?))
    };
    made().map_err(|errno| Error::from_io(errno.into()).at(address))
}

fn new_socket(address: IpAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// A connection to `to` that comes from `from`; nothing where nobody listens there.
pub(crate) fn connect_to(to: SocketAddr, from: IpAddr, wait: &Wait<'_>) -> Result<Option<OwnedFd>> {
    let failed = |errno: Errno| Error::from_io(errno.into()).at(to);
    let socket = new_socket(to.ip()).map_err(failed)?;
    bind(&socket, &SocketAddr::from((from, 0))).map_err(failed)?;
    match connect(&socket, &to) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => loop {
            let ready = ready_for(socket.as_fd(), PollFlags::OUT, wait)?;
            if !ready.is_empty() {
                break;
            }
            wait.go_on(|| format!("{to} does not answer"))?;
        },
        Err(Errno::CONNREFUSED) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    }
    match sockopt::socket_error(&socket).map_err(failed)? {
        Ok(()) => {}
        Err(Errno::CONNREFUSED | Errno::CONNRESET) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    }
    set_options(socket.as_fd()).map_err(failed)?;
    Ok(Some(socket))
}

/// Small messages go out at once, and a node that is lost is noticed.
pub(crate) fn set_options(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(1))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(1))?;
    sockopt::set_tcp_keepcnt(socket, 3)?;
    // It holds for keepalives as well as for what was sent and is not acknowledged.
    sockopt::set_tcp_user_timeout(socket, u32::try_from(LOST_AFTER.as_millis()).unwrap_or(u32::MAX))
}

/// Bytes on their way in one direction: with so many a batch of 1 MiB goes out by one call of the server. Between two namespaces
/// of a machine that was busy otherwise batches reached 1.05 of iperf3 with it, and 0.64 to 0.89 with what the system chooses.
const BUFFER_LEN: usize = 4 << 20;

/// Lets much be received ahead, where the system allows it.
pub(crate) fn enlarge_receive_buffer(socket: BorrowedFd<'_>) {
    let is_forced = sockopt::set_socket_recv_buffer_size_force(socket, BUFFER_LEN).is_ok();
    if !is_forced && allows("rmem_max") {
        let _ = sockopt::set_socket_recv_buffer_size(socket, BUFFER_LEN);
    }
}

/// Lets much be sent ahead, where the system allows it.
pub(crate) fn enlarge_send_buffer(socket: BorrowedFd<'_>) {
    let is_forced = sockopt::set_socket_send_buffer_size_force(socket, BUFFER_LEN).is_ok();
    if !is_forced && allows("wmem_max") {
        let _ = sockopt::set_socket_send_buffer_size(socket, BUFFER_LEN);
    }
}

/// Whether users may have such buffers. Where they may not, asking would give a smaller one than the system chooses by itself.
fn allows(limit: &str) -> bool {
    let most = std::fs::read_to_string(format!("/proc/sys/net/core/{limit}"));
    most.ok().and_then(|most| most.trim().parse().ok()).is_some_and(|most: usize| most >= BUFFER_LEN)
}

/// What the socket is ready for, after at most one step of `wait`.
pub(crate) fn ready_for(socket: BorrowedFd<'_>, events: PollFlags, wait: &Wait<'_>) -> Result<PollFlags> {
    let mut polled = [PollFd::from_borrowed_fd(socket, events)];
    poll_step(&mut polled, wait)?;
    Ok(polled[0].revents())
}

/// Waits for one of `polled`, at most one step of `wait`.
pub(crate) fn poll_step(polled: &mut [PollFd<'_>], wait: &Wait<'_>) -> Result<()> {
    let step = Timespec::try_from(wait.step()).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
    match poll(polled, Some(&step)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(Error::from_io(errno.into())),
    }
}

/// Sends all of `bytes`; false when the other side has closed the connection.
pub(crate) fn send_all(socket: BorrowedFd<'_>, mut bytes: &[u8], wait: &Wait<'_>) -> Result<bool> {
    while !bytes.is_empty() {
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(len) => bytes = &bytes[len..],
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => {
                wait.go_on(|| "the other rank takes no bytes".to_owned())?;
                ready_for(socket, PollFlags::OUT, wait)?;
            }
            Err(errno) if is_end(errno) => return Ok(false),
            Err(errno) => return Err(Error::from_io(errno.into())),
        }
    }
    Ok(true)
}

/// The next bytes; nothing when the other side has closed the connection before they all came.
pub(crate) fn receive_exact<const LEN: usize>(
    socket: BorrowedFd<'_>,
    wait: &Wait<'_>,
) -> Result<Option<[u8; LEN]>> {
    let mut bytes = [0; LEN];
    let mut filled = 0;
    while filled < LEN {
        match rustix::net::recv(socket, &mut bytes[filled..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Ok(None),
            Ok((len, _)) => filled += len,
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => {
                wait.go_on(|| "the other rank does not answer".to_owned())?;
                ready_for(socket, PollFlags::IN, wait)?;
            }
            Err(errno) if is_end(errno) => return Ok(None),
            Err(errno) => return Err(Error::from_io(errno.into())),
        }
    }
    Ok(Some(bytes))
}

/// Whether an error says that there is no other side any more.
pub(crate) fn is_end(errno: Errno) -> bool {
    [
        Errno::PIPE,
        Errno::CONNRESET,
        Errno::CONNABORTED,
        Errno::TIMEDOUT,
        Errno::HOSTUNREACH,
        Errno::NETUNREACH,
    ]
    .contains(&errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_is_listened_on_and_never_all() {
        let address = address_toward("127.0.0.1", 29500).expect("an address");
        assert!(address.is_loopback());
        let (_listener, bound) = listen_on(address).expect("a listener");
        assert!(bound.ip() == address && bound.port() != 0);
        assert!(
            listen_on(Ipv4Addr::UNSPECIFIED.into()).is_err()
                && listen_on(Ipv6Addr::UNSPECIFIED.into()).is_err()
        );
        assert!(address_toward("no such host.invalid", 1).is_err());
    }

    #[test]
    fn where_nobody_listens_there_is_no_connection() {
        let (listener, bound) = listen_on(Ipv4Addr::LOCALHOST.into()).expect("a listener");
        let wait = Wait::at_most(Duration::from_secs(10));
        assert!(connect_to(bound, bound.ip(), &wait).expect("it listens").is_some());
        drop(listener);
        assert!(connect_to(bound, bound.ip(), &wait).expect("no error").is_none());
    }
}
