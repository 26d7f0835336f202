//! TCP sockets: addresses, options, and what the errors of a connection mean.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket},
    os::fd::{BorrowedFd, OwnedFd},
    time::Duration,
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_store::Wait;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt},
};

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
    let documentation = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), port.max(1)));
    reachable(node, address, || route_to(documentation))
}

/// `address`, or where other nodes do not reach it the one that packets to other networks come from.
fn reachable(node: &str, address: IpAddr, outward: impl Fn() -> Option<IpAddr>) -> Result<IpAddr> {
    // Some systems give the machine's own name the address 127.0.1.1.
    let is_meant = node == "localhost" || node.parse::<IpAddr>().is_ok();
    if !address.is_loopback() || is_meant {
        return Ok(address);
    }
    outward().filter(|outward| !outward.is_loopback()).ok_or_else(|| {
        let what = format!("{node} is {address} here, which other nodes do not reach");
        let hint = "give it an address of the network in /etc/hosts, or set MASTER_ADDR to one (127.0.0.1 for one node alone)";
        Error::new(ErrorKind::Unavailable, what).hint(hint)
    })
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

pub(crate) fn new_socket(address: IpAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// Small messages go out at once, and a node that is lost while nothing is on its way is noticed after 4 s; otherwise a
/// `LossWatch` does.
pub(crate) fn set_options(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(1))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(1))?;
    sockopt::set_tcp_keepcnt(socket, 3)
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
    poll_for(&mut polled, wait.step())?;
    Ok(polled[0].revents())
}

/// Waits for one of `polled`, at most for `step`.
pub(crate) fn poll_for(polled: &mut [PollFd<'_>], step: Duration) -> Result<()> {
    let step = Timespec::try_from(step).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
    match poll(polled, Some(&step)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(Error::from_io(errno.into())),
    }
}

/// The error for a connection to `rank` that is no use any more.
pub(crate) fn closed(rank: usize, errno: Errno) -> Error {
    let gone = |why: &str, hint: &str| {
        Error::new(ErrorKind::Unavailable, format!("rank {rank} is gone: {why}")).hint(hint)
    };
    match errno {
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::TIMEDOUT | Errno::HOSTDOWN | Errno::NETDOWN => {
            gone("its node cannot be reached", "see whether that node runs, and the network")
        }
        Errno::PIPE | Errno::CONNRESET | Errno::CONNABORTED => {
            gone("it has closed its connection", "see its output for the reason")
        }
        errno => Error::from_io(errno.into()).at(format!("rank {rank}")),
    }
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
    fn a_name_that_is_the_machines_own_leads_to_an_address_that_others_reach_or_is_an_error() {
        let loopback = IpAddr::from(Ipv4Addr::new(127, 0, 1, 1));
        let reached = IpAddr::from(Ipv4Addr::new(10, 0, 0, 7));
        assert_eq!(reachable("node7", reached, || None).expect("as it is"), reached);
        assert_eq!(reachable("node7", loopback, || Some(reached)).expect("by the route"), reached);
        for meant in ["localhost", "127.0.1.1"] {
            assert_eq!(reachable(meant, loopback, || None).expect("it is meant"), loopback);
        }
        let error = reachable("node7", loopback, || None).expect_err("no other node reaches it").to_string();
        assert!(
            error.contains("/etc/hosts") && error.contains("MASTER_ADDR") && error.contains("node7"),
            "{error}"
        );
    }
}
