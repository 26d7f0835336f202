//! What the ranks of one host share: memory, handed on as descriptors over unix sockets, and the certainty who still runs.

mod peer_user;
mod rendezvous;

use std::{
    ops::Range,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use forebay_process::{Error, ErrorKind, Result};
use rustix::{
    fs::{FileType, SealFlags},
    io::Errno,
};

use self::rendezvous::NodeRendezvous;
use crate::{
    comm::{
        process_end::ProcessEnd,
        rank_states::{RankState, RankStates},
        star::{Star, StarCall, StarMessage, StarParts},
    },
    store::shard_memory::ShardMemory,
    wait::Wait,
};

/// How long ranks may take to start after each other, whatever else a wait allows: one that never comes is an error.
pub const START_PATIENCE: Duration = Duration::from_secs(300);

/// The ranks of one host, connected.
///
/// Forked children may read what was shared and ask who is gone; collective calls are errors there.
#[derive(Debug)]
pub struct NodeLink {
    members: Vec<usize>,
    own: usize,
    star: Star,
    _end: ProcessEnd,
}

impl NodeLink {
    /// What ranks of one host have in common and those of two have not: only where it is equal can they connect.
    pub fn host_key() -> Result<String> {
        rendezvous::host_key()
    }

    /// An error where this process lacks what [`connect`](Self::connect) needs of it at least: asked first, it does not leave others
    /// waiting for it.
    pub fn check_ready() -> Result<()> {
        let _kept = (RankStates::new(1)?, ProcessEnd::new()?);
        rendezvous::check_ready()
    }

    /// Connects rank `own` with the others of its host. Collective among `members`, which are all ranks of the host in
    /// ascending order; `name` is that of the job.
    pub fn connect(name: &str, own: usize, members: &[usize], wait: &Wait<'_>) -> Result<Self> {
        let is_ascending = members.windows(2).all(|pair| pair[0] < pair[1]);
        let index = members.iter().position(|member| *member == own).filter(|_| is_ascending);
        let index = index
            .ok_or_else(|| Error::invalid(format!("rank {own} among the ranks {members:?} of a host")))?;
        let wait = &wait.shortened(START_PATIENCE);
        let rendezvous = NodeRendezvous { name, own, members };
        let mut states = Arc::new(RankStates::new(members.len())?);
        let mut sockets = Vec::new();
        match (index, states.descriptor()) {
            _ if members.len() == 1 => {}
            (0, Some(gift)) => sockets.extend((1..).zip(rendezvous.host(gift, wait)?)),
            _ => {
                let (socket, gift) = rendezvous.join(wait)?;
                states = Arc::new(RankStates::shared(gift, members.len())?);
                sockets.push((0, socket));
            }
        }
        // Whatever fails from here on is told to the others, who wait for this rank.
        let end = ProcessEnd::new();
        let parts = StarParts {
            ranks: members.to_vec(),
            own: index,
            sockets,
            states,
            ends_with_connection: false,
            ended_elsewhere: None,
        };
        let star = Star::new(parts)?;
        let watched = end.as_ref().map_err(Error::clone);
        let watched = watched.and_then(|end| end.watched.try_clone().map_err(Error::from_io));
        let (mine, own_end) = with_descriptor(Vec::new(), watched);
        let ends = star.exchange(StarCall::Share, mine, wait)?;
        own_end?;
        for (other, end) in ends.into_iter().enumerate().filter(|(other, _)| *other != index) {
            let named = |error: Error| error.at(format!("rank {}", members[other]));
            star.watch(other, descriptor_of(&end.bytes, end.descriptors).map_err(named)?);
        }
        Ok(Self { members: members.to_vec(), own: index, star, _end: end? })
    }

    /// The ranks of this host.
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// The first of `ranks` that has ended without leaving in order; those of other hosts are not known here.
    pub fn first_gone(&self, ranks: Range<usize>) -> Option<usize> {
        if self.star.states().all_run() {
            return None;
        }
        let first = self.members.partition_point(|member| *member < ranks.start);
        let members =
            self.members.iter().enumerate().skip(first).take_while(|(_, member)| **member < ranks.end);
        let mut gone = members.filter(|(index, _)| self.star.states().get(*index) == RankState::Gone);
        gone.next().map(|(_, member)| *member)
    }

    /// The bytes of every member, in their order. Collective.
    pub fn all_gather(&self, mine: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<Vec<u8>>> {
        self.gather(StarCall::AllGather, mine, wait)
    }

    /// Returns when every member has called it.
    pub fn barrier(&self, wait: &Wait<'_>) -> Result<()> {
        self.gather(StarCall::Barrier, Vec::new(), wait).map(drop)
    }

    /// The bytes of the member at `root`. Collective.
    pub(crate) fn broadcast(&self, root: usize, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<u8>> {
        let mine = if root == self.own { bytes } else { Vec::new() };
        self.gather(StarCall::Broadcast, mine, wait)?
            .into_iter()
            .nth(root)
            .ok_or_else(|| Error::invalid(format!("there is no rank {root}")))
    }

    fn gather(&self, call: StarCall, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<Vec<u8>>> {
        let mine = StarMessage { bytes, descriptors: Vec::new() };
        Ok(self.star.exchange(call, mine, wait)?.into_iter().map(|message| message.bytes).collect())
    }

    /// The shards of all members, mapped, in their order; this rank's is `shard` itself. Collective: an error of one member is
    /// an error on all.
    pub fn share(&self, shard: &Arc<ShardMemory>, wait: &Wait<'_>) -> Result<Vec<Arc<ShardMemory>>> {
        let file = shard.descriptor().ok_or_else(|| Error::invalid("the shard of another rank"));
        let file = file.and_then(|file| file.try_clone_to_owned().map_err(Error::from_io));
        let (mine, own_file) = with_descriptor(shard.len().to_le_bytes().to_vec(), file);
        let brought = self.star.exchange(StarCall::Share, mine, wait)?;
        let map = |(index, message): (usize, StarMessage)| match index == self.own {
            true => own_file.clone().map(|()| Arc::clone(shard)),
            false => {
                let rank = self.members[index];
                received(message).map(Arc::new).map_err(|error| error.at(format!("shard of rank {rank}")))
            }
        };
        let mapped: Result<Vec<_>> = brought.into_iter().enumerate().map(map).collect();
        let told = mapped.as_ref().err().map(|error| error.to_string().into_bytes()).unwrap_or_default();
        let told = self.gather(StarCall::Share, told, wait)?;
        let mapped = mapped?;
        match told.iter().zip(&self.members).find(|(told, _)| !told.is_empty()) {
            None => Ok(mapped),
            Some((told, rank)) => {
                let what = format!("rank {rank}: {}", String::from_utf8_lossy(told));
                Err(Error::new(ErrorKind::Unavailable, what))
            }
        }
    }
}

/// A message with a descriptor; where there is none, with the reason behind its bytes, and that as an error.
fn with_descriptor(mut bytes: Vec<u8>, descriptor: Result<OwnedFd>) -> (StarMessage, Result<()>) {
    match descriptor {
        Ok(descriptor) => (StarMessage { bytes, descriptors: vec![descriptor] }, Ok(())),
        Err(error) => {
            bytes.extend(error.to_string().into_bytes());
            (StarMessage { bytes, descriptors: Vec::new() }, Err(error))
        }
    }
}

/// The descriptor of a message, or the `reason` why there is none.
fn descriptor_of(reason: &[u8], descriptors: Vec<OwnedFd>) -> Result<OwnedFd> {
    descriptors.into_iter().next().ok_or_else(|| match reason.is_empty() {
        true => Error::corrupt("a message without the descriptor that belongs to it"),
        false => Error::new(ErrorKind::Unavailable, String::from_utf8_lossy(reason)),
    })
}

/// Maps the shard that another rank hands on.
fn received(message: StarMessage) -> Result<ShardMemory> {
    let (len, reason) =
        message.bytes.split_first_chunk().ok_or_else(|| Error::corrupt("a shard of no length"))?;
    let (len, file) = (u64::from_le_bytes(*len), descriptor_of(reason, message.descriptors)?);
    check_kept(&file)?;
    ShardMemory::map(file.as_fd(), len)
}

/// An error for memory that its owner could make shorter: reading what is gone would be a SIGBUS.
///
/// A memory file is sealed against it. A file of a disk cannot be; it has to be ours, and without a name by which anybody
/// else could open it.
fn check_kept(file: &OwnedFd) -> Result<()> {
    let refused = |what: &str| Err(Error::new(ErrorKind::Denied, what.to_owned()));
    match rustix::fs::fcntl_get_seals(file.as_fd()) {
        Ok(seals) if seals.contains(SealFlags::SHRINK) => return Ok(()),
        Ok(seals) if !seals.contains(SealFlags::SEAL) => {
            return refused("memory that is not sealed can be made shorter");
        }
        // Files of tmpfs say that they take no seals, those of disks that they know none.
        Ok(_) | Err(Errno::INVAL) => {}
        Err(errno) => return Err(Error::from_io(errno.into())),
    }
    let stat = rustix::fs::fstat(file).map_err(|errno| Error::from_io(errno.into()))?;
    let is_ours = stat.st_uid == rustix::process::geteuid().as_raw();
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    match is_ours && is_file && stat.st_nlink == 0 {
        true => Ok(()),
        false => refused("a file that others can open can be made shorter"),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    use super::*;
    use crate::store::shard_memory::ShardPlace;

    fn patience() -> Wait<'static> {
        Wait::at_most(Duration::from_secs(30))
    }

    fn byte(number: usize) -> u8 {
        u8::try_from(number).expect("a small number")
    }

    /// Links of ranks that are threads: each has its own sockets, as processes have.
    fn links(name: &str, members: &[usize]) -> Vec<NodeLink> {
        let name = format!("{name}-{}", std::process::id());
        thread::scope(|scope| {
            let connect = |own: usize| NodeLink::connect(&name, own, members, &patience()).expect("a link");
            let threads: Vec<_> = members.iter().map(|own| scope.spawn(move || connect(*own))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
        })
    }

    fn on_all<T: Send>(links: &[NodeLink], work: impl Fn(&NodeLink) -> T + Sync) -> Vec<T> {
        thread::scope(|scope| {
            let threads: Vec<_> = links.iter().map(|link| scope.spawn(|| work(link))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
        })
    }

    #[test]
    fn ranks_of_a_host_read_each_others_shards_and_hear_each_other() {
        for members in [&[3][..], &[0, 1], &[2, 5, 7, 11, 12]] {
            let links = links("share", members);
            let shards = on_all(&links, |link| {
                let rank = link.members[link.own];
                let shard =
                    Arc::new(ShardMemory::new(rank as u64 * 100, &ShardPlace::Memory).expect("memory"));
                shard.write(0, &vec![byte(rank); rank * 100]).expect("within the shard");
                let shards = link.share(&shard, &patience()).expect("all share");
                link.barrier(&patience()).expect("all come");
                assert!(Arc::ptr_eq(&shards[link.own], &shard));
                shards
            });
            for shards in &shards {
                for (shard, rank) in shards.iter().zip(members) {
                    let mut read = vec![0; rank * 100];
                    shard.copy_to(0, &mut read).expect("within the shard");
                    assert!(
                        shard.len() == *rank as u64 * 100 && read.iter().all(|read| *read == byte(*rank))
                    );
                }
            }
            let heard = on_all(&links, |link| {
                link.all_gather(vec![byte(link.own); link.own], &patience()).expect("all come")
            });
            let expected: Vec<_> = (0..members.len()).map(|index| vec![byte(index); index]).collect();
            assert!(heard.iter().all(|heard| *heard == expected));
            assert!(links.iter().all(|link| link.first_gone(0..100).is_none()));
        }
    }

    #[test]
    fn a_rank_that_leaves_is_not_gone_and_later_calls_name_it() {
        let mut links = links("leave", &[0, 1, 2]);
        drop(links.remove(1));
        let errors = on_all(&links, |link| link.barrier(&patience()).expect_err("one has left").to_string());
        assert!(errors.iter().all(|error| error.contains("rank 1 has left")), "{errors:?}");
        assert!(links.iter().all(|link| link.first_gone(0..3).is_none()));
    }

    #[test]
    fn a_rank_that_does_not_come_is_named_by_all_that_wait() {
        let links = links("missing", &[0, 1, 2]);
        let errors = on_all(&links[..2], |link| {
            let error =
                link.barrier(&Wait::at_most(Duration::from_millis(300))).expect_err("one does not come");
            assert!(link.barrier(&patience()).is_err(), "what was missed is not made up for");
            error.to_string()
        });
        assert!(errors.iter().all(|error| error.contains("rank 2 did not come")), "{errors:?}");
        assert!(links[2].barrier(&patience()).is_err(), "the others gave up");
    }

    #[test]
    fn ranks_that_make_different_calls_are_told() {
        let links = links("mixed", &[0, 1]);
        let errors = on_all(&links, |link| match link.own {
            0 => link.barrier(&patience()).expect_err("another call"),
            _ => link.all_gather(vec![1], &patience()).expect_err("another call"),
        });
        assert!(errors.iter().all(|error| error.kind() == ErrorKind::Invalid), "{errors:?}");
    }

    #[test]
    fn memory_that_can_be_made_shorter_is_refused() {
        let open = memfd_create("open", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a file");
        ftruncate(&open, 10).expect("room");
        let message = |file: &OwnedFd, len: u64| StarMessage {
            bytes: len.to_le_bytes().to_vec(),
            descriptors: vec![file.try_clone().expect("a descriptor")],
        };
        assert_eq!(received(message(&open, 10)).expect_err("not sealed").kind(), ErrorKind::Denied);
        fcntl_add_seals(&open, SealFlags::SHRINK).expect("a seal");
        received(message(&open, 10)).expect("sealed");
        assert_eq!(
            received(message(&open, 11)).expect_err("shorter than it says").kind(),
            ErrorKind::Corrupt
        );
        let named = tempfile::NamedTempFile::new().expect("a file");
        let named: OwnedFd = named.as_file().try_clone().expect("a descriptor").into();
        assert_eq!(received(message(&named, 0)).expect_err("it has a name").kind(), ErrorKind::Denied);
        let nameless: OwnedFd = tempfile::tempfile().expect("a file").into();
        received(message(&nameless, 0)).expect("a file without a name");
        assert!(received(StarMessage::default()).is_err());
    }

    #[test]
    fn only_one_of_the_members_connects() {
        for (own, members) in [(1, &[0, 2][..]), (1, &[1, 0]), (0, &[])] {
            assert_eq!(
                NodeLink::connect("wrong", own, members, &patience()).expect_err("no member").kind(),
                ErrorKind::Invalid
            );
        }
    }
}
