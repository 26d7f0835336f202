//! Ranks of several nodes: collective calls over a star of TCP connections, reads of other nodes over one per pair of ranks,
//! and of the same node by loads from shared memory.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    ops::Range,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use forebay_source::{Error, ErrorKind, PerProcess, ProcessIdentity, Result, current_process};
use forebay_store::{
    Comm, CommThreads, JobName, NodeLink, RankState, RankStates, ShardMemory, Star, StarCall, StarMessage,
    StarParts, Wait, Window, WindowRead, gone,
};
use serde::{Deserialize, Serialize};

use crate::{
    acceptor::{AcceptRules, Acceptor},
    handshake::ConnectionPurpose,
    peers::{Caller, Peers},
    rendezvous::Rendezvous,
    secret::{JobKey, Secret, random_bytes},
    server::{ServedWindows, Server},
    sockets::{address_toward, listen_on},
    transfer::{RemotePiece, Transfer, complete},
};

/// Who this rank is, and how it finds the others.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// The number of this rank.
    pub rank: usize,
    /// How many there are.
    pub size: usize,
    /// The name of the job and of the attempt to run it.
    pub job: JobName,
    /// Where this rank listens.
    pub listen: TcpListen,
    /// A file with the secret of the job; without one rank 0 makes a secret and hands it on by the rendezvous.
    pub secret_file: Option<PathBuf>,
    /// What ranks have in common that share memory, instead of what this machine is.
    pub host: Option<String>,
}

/// The one address that a rank listens on.
#[derive(Clone, Debug)]
pub enum TcpListen {
    /// The address by which it reaches a node, such as that of rank 0, and a port of it.
    Toward(String, u16),
    /// This one.
    On(IpAddr),
}

/// One rank of a communicator over TCP.
#[derive(Debug)]
pub struct TcpComm {
    inner: Arc<TcpRank>,
}

#[derive(Debug)]
struct TcpRank {
    rank: usize,
    hosts: Vec<usize>,
    addresses: Vec<SocketAddr>,
    caller: Caller,
    // Dropped first: it tells the others that this rank leaves.
    star: Star,
    link: Arc<NodeLink>,
    _acceptor: Acceptor,
    windows: Arc<ServedWindows>,
    next_window: AtomicU64,
    process: ProcessIdentity,
    /// A forked child has connections of its own: two processes that read from one socket would get parts of each other's bytes.
    peers: PerProcess<Arc<Peers>>,
}

/// What rank 0 tells those who look for it.
#[derive(Debug, Serialize, Deserialize)]
struct Announcement {
    address: SocketAddr,
    is_secret_in_file: bool,
}

/// What every rank tells the others of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Introduction {
    address: SocketAddr,
    host: String,
    nonce: u64,
}

impl TcpComm {
    /// Connects this rank with the others. Collective.
    pub fn new(options: &TcpOptions, rendezvous: &dyn Rendezvous, wait: &Wait<'_>) -> Result<Self> {
        if options.rank >= options.size {
            return Err(Error::invalid(format!("rank {} of {} ranks", options.rank, options.size)));
        }
        let from = match &options.listen {
            TcpListen::Toward(node, port) => address_toward(node, *port)?,
            TcpListen::On(address) => *address,
        };
        let (listener, address) = listen_on(from)?;
        let (key, hub) = agree_on_key(options, address, rendezvous, wait)?;
        let windows = Arc::new(ServedWindows::default());
        let server = Server::start(&windows, options.size - 1)?;
        let rules = AcceptRules { rank: options.rank, size: options.size, key: key.clone() };
        let acceptor = Acceptor::open(listener, rules, server)?;
        let caller = Caller { rank: options.rank, from, key };
        let sockets = match options.rank {
            0 => acceptor.stars(wait)?,
            _ => vec![(0, caller.call(ConnectionPurpose::Star, (0, hub), true, wait)?)],
        };
        let link = Arc::new(OnceLock::new());
        let star = connect_star(options, sockets, &link)?;
        let known = introduce(options, address, &star, wait)?;
        if options.rank == 0 {
            // Every rank is connected, so each has read them.
            forget(options, rendezvous)?;
        }
        let link = connect_node(options, &known, &link, wait)?;
        let hosts = host_numbers(&known);
        let addresses = known.iter().map(|known| known.address).collect();
        let (next_window, peers) = (AtomicU64::new(0), PerProcess::empty());
        let (rank, process) = (options.rank, current_process());
        let inner = TcpRank {
            rank,
            hosts,
            addresses,
            caller,
            star,
            link,
            _acceptor: acceptor,
            windows,
            next_window,
            process,
            peers,
        };
        inner.exchange(StarCall::Barrier, Vec::new(), wait)?;
        Ok(Self { inner: Arc::new(inner) })
    }
}

fn key_name(options: &TcpOptions, name: &str) -> String {
    format!("forebay/{}/{name}", options.job)
}

/// The key of the job, and the address of rank 0.
fn agree_on_key(
    options: &TcpOptions,
    address: SocketAddr,
    rendezvous: &dyn Rendezvous,
    wait: &Wait<'_>,
) -> Result<(JobKey, SocketAddr)> {
    let given = options.secret_file.as_deref().map(Secret::from_file).transpose()?;
    let (hub_key, secret_key) = (key_name(options, "hub"), key_name(options, "secret"));
    let is_secret_in_file = given.is_some();
    if options.rank == 0 {
        let secret = given.map_or_else(Secret::random, Ok)?;
        if !is_secret_in_file {
            rendezvous.set(&secret_key, secret.bytes())?;
        }
        rendezvous.set(&hub_key, &message(&Announcement { address, is_secret_in_file })?)?;
        return Ok((secret.key_of(&options.job), address));
    }
    let hub: Announcement = received(&rendezvous.get(&hub_key, wait)?)?;
    if hub.is_secret_in_file != is_secret_in_file {
        let has = |has: bool| if has { "has a secret file" } else { "has none" };
        let what = format!(
            "rank 0 {} and rank {} {}",
            has(!is_secret_in_file),
            options.rank,
            has(is_secret_in_file)
        );
        return Err(Error::invalid(what).hint("set FOREBAY_STORE_SECRET_FILE on all nodes, or on none"));
    }
    let secret = given.map_or_else(|| Secret::from_bytes(rendezvous.get(&secret_key, wait)?), Ok)?;
    Ok((secret.key_of(&options.job), hub.address))
}

/// Removes what nobody needs any more, the secret before all.
fn forget(options: &TcpOptions, rendezvous: &dyn Rendezvous) -> Result<()> {
    rendezvous.delete(&key_name(options, "secret"))?;
    rendezvous.delete(&key_name(options, "hub"))
}

fn connect_star(
    options: &TcpOptions,
    sockets: Vec<(usize, std::os::fd::OwnedFd)>,
    link: &Arc<OnceLock<Arc<NodeLink>>>,
) -> Result<Star> {
    let link = Arc::clone(link);
    let ended_elsewhere = move || -> Vec<usize> {
        let link = link.get();
        let members = link.iter().flat_map(|link| link.members().iter().map(move |rank| (link, *rank)));
        members
            .filter(|(link, rank)| link.first_gone(*rank..rank + 1).is_some())
            .map(|(_, rank)| rank)
            .collect()
    };
    Star::new(StarParts {
        ranks: (0..options.size).collect(),
        own: options.rank,
        sockets,
        states: Arc::new(RankStates::new(options.size)?),
        ends_with_connection: true,
        ended_elsewhere: Some(Box::new(ended_elsewhere)),
    })
}

/// What all ranks say of themselves. Collective.
fn introduce(
    options: &TcpOptions,
    address: SocketAddr,
    star: &Star,
    wait: &Wait<'_>,
) -> Result<Vec<Introduction>> {
    let host = options.host.clone().map_or_else(NodeLink::host_key, Ok)?;
    let mine = Introduction { address, host, nonce: u64::from_le_bytes(random_bytes()?) };
    let mine = StarMessage { bytes: message(&mine)?, descriptors: Vec::new() };
    let all = star.exchange(StarCall::AllGather, mine, wait)?;
    all.iter().map(|one| received(&one.bytes)).collect()
}

/// The ranks of this host, connected. Collective among them.
fn connect_node(
    options: &TcpOptions,
    known: &[Introduction],
    place: &OnceLock<Arc<NodeLink>>,
    wait: &Wait<'_>,
) -> Result<Arc<NodeLink>> {
    let own = &known[options.rank].host;
    let members: Vec<_> =
        known.iter().enumerate().filter(|(_, one)| one.host == *own).map(|(rank, _)| rank).collect();
    let name = format!("{}-{:016x}", options.job, known[0].nonce);
    let link = Arc::new(NodeLink::connect(&name, options.rank, &members, wait)?);
    Ok(Arc::clone(place.get_or_init(|| link)))
}

/// Hosts, numbered in the order of their lowest ranks.
fn host_numbers(known: &[Introduction]) -> Vec<usize> {
    let mut names: Vec<&str> = Vec::new();
    let mut numbers = Vec::with_capacity(known.len());
    for one in known {
        let number = names.iter().position(|name| *name == one.host);
        numbers.push(number.unwrap_or(names.len()));
        if number.is_none() {
            names.push(&one.host);
        }
    }
    numbers
}

fn message(value: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(value)
        .map_err(|error| Error::new(ErrorKind::Bug, "a message cannot be written").because(error))
}

fn received<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes)
        .map_err(|error| Error::corrupt("a message of another rank cannot be read").because(error))
}

impl TcpRank {
    fn exchange(&self, call: StarCall, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<Vec<u8>>> {
        let mine = StarMessage { bytes, descriptors: Vec::new() };
        Ok(self.star.exchange(call, mine, wait)?.into_iter().map(|message| message.bytes).collect())
    }

    fn first_gone(&self, ranks: Range<usize>) -> Option<usize> {
        let states = self.star.states();
        let told = match states.all_run() {
            true => None,
            false => ranks.clone().find(|rank| states.get(*rank) == RankState::Gone),
        };
        let seen = self.link.first_gone(ranks);
        told.into_iter().chain(seen).min()
    }
}

impl Comm for TcpComm {
    fn rank(&self) -> usize {
        self.inner.rank
    }

    fn size(&self) -> usize {
        self.inner.hosts.len()
    }

    fn host_of(&self, rank: usize) -> usize {
        self.inner.hosts[rank]
    }

    fn threads(&self) -> CommThreads {
        CommThreads::Any
    }

    fn first_gone(&self, ranks: Range<usize>) -> Option<usize> {
        self.inner.first_gone(ranks)
    }

    fn transport(&self) -> String {
        let hosts = self.inner.hosts.iter().max().map_or(0, |last| last + 1);
        format!("TCP between {hosts} hosts, shared memory within each")
    }

    fn barrier(&self, wait: &Wait<'_>) -> Result<()> {
        self.inner.exchange(StarCall::Barrier, Vec::new(), wait).map(drop)
    }

    fn broadcast(&self, root: usize, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<u8>> {
        let mine = if root == self.inner.rank { bytes } else { Vec::new() };
        let all = self.inner.exchange(StarCall::Broadcast, mine, wait)?;
        all.into_iter().nth(root).ok_or_else(|| Error::invalid(format!("there is no rank {root}")))
    }

    fn all_gather(&self, mine: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<Vec<u8>>> {
        self.inner.exchange(StarCall::AllGather, mine, wait)
    }

    fn window(&self, mine: Arc<ShardMemory>, wait: &Wait<'_>) -> Result<Arc<dyn Window>> {
        let inner = &self.inner;
        let number = inner.next_window.fetch_add(1, SeqCst);
        inner.windows.add(number, Arc::clone(&mine));
        // From now on dropping it closes what was opened.
        let mut window =
            TcpWindow { inner: Arc::clone(inner), number, lens: Vec::new(), shards: BTreeMap::new() };
        let shared = inner.link.share(&mine, wait);
        let told = shared.as_ref().map(|_| mine.len()).map_err(ToString::to_string);
        let told = inner.exchange(StarCall::Share, message(&told)?, wait)?;
        window.shards = inner.link.members().iter().copied().zip(shared?).collect();
        for (rank, told) in told.iter().enumerate() {
            let len: Result<u64, String> = received(told)?;
            let failed = |what| Error::new(ErrorKind::Unavailable, format!("rank {rank}: {what}"));
            window.lens.push(len.map_err(failed)?);
        }
        Ok(Arc::new(window))
    }
}

/// The shards of all ranks: those of this host mapped, those of others behind a connection.
#[derive(Debug)]
struct TcpWindow {
    inner: Arc<TcpRank>,
    number: u64,
    lens: Vec<u64>,
    shards: BTreeMap<usize, Arc<ShardMemory>>,
}

/// How long a rank may take to let this one in; what is read of others still needs some time.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

impl TcpWindow {
    /// Makes sure that every piece lies within the shard of a rank that runs.
    fn check(&self, read: &WindowRead<'_>) -> Result<()> {
        let len = self
            .lens
            .get(read.rank)
            .ok_or_else(|| Error::invalid(format!("there is no rank {}", read.rank)))?;
        for piece in &read.pieces {
            if piece.offset.checked_add(piece.into.len() as u64).is_none_or(|end| end > *len) {
                let what =
                    format!("{} bytes at {} of a shard of {len} bytes", piece.into.len(), piece.offset);
                return Err(Error::invalid(what).at(format!("rank {}", read.rank)));
            }
        }
        match self.inner.first_gone(read.rank..read.rank + 1) {
            None => Ok(()),
            Some(rank) => Err(gone(rank)),
        }
    }

    fn peers(&self) -> Arc<Peers> {
        let make = || Arc::new(Peers::new(self.inner.caller.clone(), &self.inner.addresses));
        Arc::clone(&self.inner.peers.get(make))
    }
}

/// Pieces of one rank, and the outcomes of the reads that they are of.
type RankReads<'a> = (Vec<RemotePiece<'a>>, Vec<&'a mut Result<()>>);

impl Window for TcpWindow {
    fn publish(&self, wait: &Wait<'_>) -> Result<()> {
        self.inner.exchange(StarCall::Barrier, Vec::new(), wait).map(drop)
    }

    fn shared(&self, rank: usize) -> Option<&ShardMemory> {
        self.shards.get(&rank).map(|shard| &**shard)
    }

    fn get(&self, reads: &mut [WindowRead<'_>], wait: &Wait<'_>) {
        let mut remote: BTreeMap<usize, RankReads<'_>> = BTreeMap::new();
        for read in reads {
            if let Some(shard) = self.shards.get(&read.rank) {
                read.outcome =
                    read.pieces.iter_mut().try_for_each(|piece| shard.copy_to(piece.offset, piece.into));
                continue;
            }
            read.outcome = self.check(read);
            if read.outcome.is_ok() {
                let (pieces, outcomes) = remote.entry(read.rank).or_default();
                let filled = read.pieces.iter_mut().filter(|piece| !piece.into.is_empty());
                pieces.extend(filled.map(|piece| (piece.offset, &mut *piece.into)));
                outcomes.push(&mut read.outcome);
            }
        }
        remote.retain(|_, (pieces, _)| !pieces.is_empty());
        if remote.is_empty() {
            return;
        }
        let peers = self.peers();
        let mut transfers = Vec::with_capacity(remote.len());
        let mut told = Vec::with_capacity(remote.len());
        for (rank, (pieces, outcomes)) in remote {
            match peers.lease(rank, &wait.shortened(CONNECT_PATIENCE)) {
                Ok(lease) => {
                    transfers.push(Transfer::new(rank, self.number, lease, pieces));
                    told.push(outcomes);
                }
                Err(error) => outcomes.into_iter().for_each(|outcome| *outcome = Err(error.clone())),
            }
        }
        let is_gone = |rank: usize| self.inner.first_gone(rank..rank + 1).is_some();
        for (outcome, told) in complete(transfers, &is_gone, wait).into_iter().zip(told) {
            told.into_iter().for_each(|place| *place = outcome.clone());
        }
    }

    fn close(&self, wait: &Wait<'_>) -> Result<()> {
        let closed = self.inner.exchange(StarCall::Barrier, Vec::new(), wait).map(drop);
        self.inner.windows.remove(self.number);
        closed
    }
}

impl Drop for TcpWindow {
    fn drop(&mut self) {
        // In a forked child nobody is served, and a thread of the parent may have held the lock for ever.
        if current_process() == self.inner.process {
            self.inner.windows.remove(self.number);
        }
    }
}
