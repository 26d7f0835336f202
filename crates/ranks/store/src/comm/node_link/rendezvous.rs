//! How processes of one host find each other: the lowest rank listens on a socket in a folder of this user alone, the others
//! connect to it, and the name of the socket is removed as soon as all have.

use std::{
    env,
    hash::{DefaultHasher, Hash, Hasher},
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    thread,
    time::Duration,
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{FileFacts, OwnFolder, boot_id, nonce, user_folder_name};
use rustix::{
    cmsg_space,
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
        listen, recvmsg, sendmsg, socket_with,
    },
};

use super::peer_user::check_peer_user;
use crate::wait::Wait;

/// Who meets, and under which name.
#[derive(Debug)]
pub(super) struct NodeRendezvous<'a> {
    pub(super) name: &'a str,
    pub(super) own: usize,
    pub(super) members: &'a [usize],
}

/// What to do about ranks that do not come.
const START_REMEDY: &str = "start all with the same job, user and folder for temporary files";

/// How long a process waits before it tries again to connect to one that does not listen yet.
const RETRY: Duration = Duration::from_millis(5);

/// What a member says first: which rendezvous, and who it is.
const HELLO_LEN: usize = 16;

/// A connection whose member has not said who it is yet.
#[derive(Debug)]
struct PendingPeer {
    socket: OwnedFd,
    hello: [u8; HELLO_LEN],
    len: usize,
}

/// Connections that may be open at once without having said who they are.
const MOST_PENDING: usize = 1024;

impl NodeRendezvous<'_> {
    /// A number that those who come to the same rendezvous have in common.
    fn key(&self) -> u64 {
        // Not that of a map: without random keys it is the same in every process of one program.
        let mut hasher = DefaultHasher::new();
        (self.name, self.members, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
        hasher.finish()
    }

    fn socket_name(&self) -> String {
        let letters =
            self.name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
        format!("{}-{:016x}", letters.take(32).collect::<String>(), self.key())
    }

    /// Waits until all others have connected; gives their sockets in the order of the members, and hands `gift` to each.
    pub(super) fn host(&self, gift: BorrowedFd<'_>, wait: &Wait<'_>) -> Result<Vec<OwnedFd>> {
        let listening = ListeningSocket::open(&self.socket_name())?;
        let mut found: Vec<Option<OwnedFd>> = self.members[1..].iter().map(|_| None).collect();
        let mut pending: Vec<PendingPeer> = Vec::new();
        while found.iter().any(Option::is_none) {
            wait.go_on(|| {
                let missing = self.members[1..].iter().zip(&found).filter(|(_, found)| found.is_none());
                let missing: Vec<_> = missing.map(|(rank, _)| rank).collect();
                format!("ranks {missing:?} of this host did not connect ({START_REMEDY})")
            })?;
            let mut polled = vec![PollFd::new(&listening.listener, PollFlags::IN)];
            polled.extend(pending.iter().map(|peer| PollFd::new(&peer.socket, PollFlags::IN)));
            wait_for(&mut polled, wait)?;
            drop(polled);
            if pending.len() < MOST_PENDING {
                pending.extend(listening.accept()?);
            }
            let mut index = 0;
            while index < pending.len() {
                match pending[index].listen() {
                    None => index += 1,
                    Some(hello) => {
                        let peer = pending.swap_remove(index);
                        self.admit(hello, peer.socket, &mut found);
                    }
                }
            }
        }
        let found: Vec<OwnedFd> = found.into_iter().flatten().collect();
        listening.close();
        found.iter().try_for_each(|socket| give(socket.as_fd(), gift))?;
        Ok(found)
    }

    /// Keeps the connection of a member that is missing, and closes that of anybody else.
    fn admit(&self, hello: Option<(u64, u64)>, socket: OwnedFd, found: &mut [Option<OwnedFd>]) {
        let Some((key, rank)) = hello.filter(|(key, _)| *key == self.key()) else { return };
        debug_assert_eq!(key, self.key());
        let index = self.members[1..].iter().position(|member| *member as u64 == rank);
        if let Some(place @ None) = index.map(|index| &mut found[index]) {
            *place = Some(socket);
        }
    }

    /// Connects to the one that hosts the rendezvous; gives the socket and what it hands out once all are there.
    pub(super) fn join(&self, wait: &Wait<'_>) -> Result<(OwnedFd, OwnedFd)> {
        let host = self.members.first().copied().unwrap_or(0);
        let mut hello = [0; HELLO_LEN];
        hello[..8].copy_from_slice(&self.key().to_le_bytes());
        hello[8..].copy_from_slice(&(self.own as u64).to_le_bytes());
        loop {
            if let Some(joined) = self.try_join(&hello, wait)? {
                return Ok(joined);
            }
            // Nobody listens yet, or what listens belongs to a job that was killed.
            wait.go_on(|| format!("rank {host} of this host did not open its socket ({START_REMEDY})"))?;
            thread::sleep(wait.step().min(RETRY));
        }
    }

    fn try_join(&self, hello: &[u8; HELLO_LEN], wait: &Wait<'_>) -> Result<Option<(OwnedFd, OwnedFd)>> {
        let host = self.members.first().copied().unwrap_or(0);
        let folder = match folder() {
            Ok(folder) => folder,
            // Another process of ours has just removed it.
            Err(error) if error.kind() == ErrorKind::NotFound && parent().is_dir() => return Ok(None),
            Err(error) => return Err(error),
        };
        let socket = new_socket()?;
        if connect(&socket, &address(&folder, &self.socket_name())?).is_err() {
            return Ok(None);
        }
        check_peer_user(socket.as_fd())?;
        // A new socket has room for so few bytes.
        match rustix::net::send(&socket, hello, SendFlags::NOSIGNAL) {
            Ok(HELLO_LEN) => {}
            Ok(_) | Err(_) => return Ok(None),
        }
        loop {
            wait.go_on(|| format!("rank {host} still waits for others of this host ({START_REMEDY})"))?;
            wait_for(&mut [PollFd::new(&socket, PollFlags::IN)], wait)?;
            match take(socket.as_fd()) {
                Ok(Some(gift)) => return Ok(Some((socket, gift))),
                // The rendezvous was another one, or its host has ended.
                Ok(None) => return Ok(None),
                Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(_) => return Ok(None),
            }
        }
    }
}

impl PendingPeer {
    /// What it says, once it has said all of it; nothing in it where the connection ended before.
    fn listen(&mut self) -> Option<Option<(u64, u64)>> {
        match rustix::net::recv(&self.socket, &mut self.hello[self.len..], RecvFlags::DONTWAIT) {
            Err(Errno::WOULDBLOCK | Errno::INTR) => return None,
            Ok((0, _)) | Err(_) => return Some(None),
            Ok((len, _)) => self.len += len,
        }
        if self.len < HELLO_LEN {
            return None;
        }
        let number = |at: usize| -> Option<u64> {
            Some(u64::from_le_bytes(self.hello.get(at..at + 8)?.try_into().ok()?))
        };
        Some(number(0).zip(number(8)))
    }
}

/// A socket that listens, and its name.
#[derive(Debug)]
struct ListeningSocket {
    folder: OwnFolder,
    name: String,
    facts: Option<FileFacts>,
    listener: OwnedFd,
}

impl ListeningSocket {
    /// Listens under `name`, in place of what a killed process left there.
    fn open(name: &str) -> Result<Self> {
        for _ in 0..MOST_TRIES {
            match Self::try_open(name) {
                // Another process of ours has just removed the empty folder.
                Err(error) if error.kind() == ErrorKind::NotFound && parent().is_dir() => {}
                opened => return opened,
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "the folder of the socket is removed again and again"))
    }

    fn try_open(name: &str) -> Result<Self> {
        let folder = folder()?;
        remove_stale(&folder);
        let listener = new_socket()?;
        let fresh = format!("{FRESH}{:016x}", nonce());
        let bound = bind(&listener, &address(&folder, &fresh)?).and_then(|()| listen(&listener, BACKLOG));
        bound.map_err(|errno| Error::from_io(errno.into()).at(folder.path().display()))?;
        let facts = folder.facts(&fresh).ok();
        if let Err(error) = folder.rename(&fresh, name) {
            // Another process of ours may have removed the folder, and one more made it anew before the socket was bound.
            let _ = std::fs::remove_file(folder.path().join(&fresh));
            return Err(error);
        }
        Ok(Self { folder, name: name.to_owned(), facts, listener })
    }

    fn accept(&self) -> Result<Vec<PendingPeer>> {
        let mut pending = Vec::new();
        while pending.len() < MOST_PENDING {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) if check_peer_user(socket.as_fd()).is_ok() => {
                    pending.push(PendingPeer { socket, hello: [0; HELLO_LEN], len: 0 });
                }
                Ok(_) | Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::WOULDBLOCK) => break,
                Err(errno) => return Err(Error::from_io(errno.into())),
            }
        }
        Ok(pending)
    }

    /// Removes the name, and the folder where nothing else is in it.
    fn close(self) {}
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        // Another job of the same name may have put its own socket there.
        let is_ours = self
            .folder
            .facts(&self.name)
            .ok()
            .zip(self.facts)
            .is_some_and(|(now, ours)| now.identity == ours.identity);
        if is_ours {
            let _ = self.folder.remove_file(&self.name);
        }
        let _ = std::fs::remove_dir(self.folder.path());
    }
}

/// How often a folder may vanish before a socket is in it.
const MOST_TRIES: usize = 100;

const BACKLOG: i32 = 4096;

/// Where sockets of this user are made: the folder of the session, or that for temporary files.
fn parent() -> PathBuf {
    let session = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    session.filter(|folder| folder.is_absolute() && folder.is_dir()).unwrap_or_else(env::temp_dir)
}

fn folder() -> Result<OwnFolder> {
    OwnFolder::create_in(&parent(), &user_folder_name("node"))
}

/// What two processes have in common that can meet: the running system, and the folder that their sockets are made in.
pub(super) fn host_key() -> Result<String> {
    let parent = parent();
    let stat =
        rustix::fs::stat(&parent).map_err(|errno| Error::from_io(errno.into()).at(parent.display()))?;
    Ok(format!("{}-{:x}-{:x}-{}", boot_id(), stat.st_dev, stat.st_ino, rustix::process::geteuid().as_raw()))
}

/// An error where there are no descriptors for a folder, a socket, and what is handed on by it.
pub(super) fn check_ready() -> Result<()> {
    let _kept = (new_socket()?, new_socket()?, new_socket()?);
    Ok(())
}

fn new_socket() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|errno| Error::from_io(errno.into()))
}

/// The address of a socket in `folder`: by the folder's descriptor where its path is too long for one.
fn address(folder: &OwnFolder, name: &str) -> Result<SocketAddrUnix> {
    let by_descriptor = || format!("/proc/self/fd/{}/{name}", folder.descriptor().as_raw_fd());
    let address =
        SocketAddrUnix::new(folder.path().join(name)).or_else(|_| SocketAddrUnix::new(by_descriptor()));
    address.map_err(|errno| Error::from_io(errno.into()).at(folder.path().display()))
}

/// What the name of a socket begins with that is not listened on yet.
const FRESH: &str = "new-";

/// How long a process may take to listen on a socket that it has made.
const FRESH_FOR: Duration = Duration::from_secs(60);

/// Removes sockets that nobody listens on any more.
fn remove_stale(folder: &OwnFolder) {
    for name in folder.names().unwrap_or_default() {
        let age = folder.facts(&name).ok().and_then(|facts| facts.modified().elapsed().ok());
        if name.starts_with(FRESH) && age.is_none_or(|age| age < FRESH_FOR) {
            continue;
        }
        let (Ok(socket), Ok(address)) = (new_socket(), address(folder, &name)) else { return };
        if connect(&socket, &address) == Err(Errno::CONNREFUSED) {
            let _ = folder.remove_file(&name);
        }
    }
}

fn wait_for(polled: &mut [PollFd<'_>], wait: &Wait<'_>) -> Result<()> {
    let step = Timespec::try_from(wait.step()).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
    match poll(polled, Some(&step)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(Error::from_io(errno.into())),
    }
}

/// Hands a descriptor to the other end of a socket.
fn give(socket: BorrowedFd<'_>, gift: BorrowedFd<'_>) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let gifts = [gift];
    control.push(SendAncillaryMessage::ScmRights(&gifts));
    let sent = sendmsg(socket, &[IoSlice::new(&[1])], &mut control, SendFlags::NOSIGNAL);
    // One that has ended since is noticed by whoever uses the connection.
    sent.map(drop)
        .or_else(|errno| if errno == Errno::PIPE { Ok(()) } else { Err(Error::from_io(errno.into())) })
}

/// The descriptor that the other end hands over; none where it has closed the connection.
fn take(socket: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    // One byte: what follows belongs to the first frame.
    recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut control, flags)?;
    let gift = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(gift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(folder: &OwnFolder, name: &str) -> OwnedFd {
        let socket = new_socket().expect("a socket");
        bind(&socket, &address(folder, name).expect("an address")).expect("a name");
        socket
    }

    #[test]
    fn only_sockets_that_nobody_listens_on_are_removed() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = OwnFolder::create_in(parent.path(), "sockets").expect("a folder");
        let listening = bound(&folder, "listening");
        listen(&listening, 1).expect("it listens");
        let _fresh = bound(&folder, "new-0");
        drop(bound(&folder, "left"));
        remove_stale(&folder);
        let mut names = folder.names().expect("names");
        names.sort();
        assert_eq!(names, ["listening", "new-0"], "another process is about to listen on the fresh one");
    }

    #[test]
    fn many_jobs_of_a_host_meet_at_once() {
        let wait = || Wait::at_most(Duration::from_secs(60));
        let gift = tempfile::tempfile().expect("a file");
        let meet = |job: usize| {
            let name = format!("many-{}-{job}", std::process::id());
            let end = |own: usize| NodeRendezvous { name: &name, own, members: &[0, 1] };
            thread::scope(|scope| {
                let join = scope.spawn(|| end(1).join(&wait()).map(drop));
                let hosted = end(0).host(gift.as_fd(), &wait()).map(drop);
                hosted.and(join.join().expect("a thread"))
            })
        };
        thread::scope(|scope| {
            for thread in 0..6 {
                scope.spawn(move || (0..100).for_each(|at| meet(thread * 100 + at).expect("both come")));
            }
        });
    }
}
