//! Ranks of several nodes: collective calls over a star of TCP connections, reads of other nodes over one per pair of ranks,
//! and of the same node by loads from shared memory.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    ops::Range,
    os::fd::{BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::{Arc, OnceLock, atomic::AtomicU64},
};

use forebay_process::{Error, PerProcess, Result, current_process};
use forebay_store::{
    Comm, CommThreads, JobName, NodeLink, RankStates, START_PATIENCE, ShardMemory, Star, StarCall,
    StarMessage, StarParts, Wait, Window,
};
use serde::{Deserialize, Serialize};

use crate::{
    comm::{
        acceptor::{AcceptRules, Acceptor},
        rendezvous::Rendezvous,
        tcp_rank::{TcpRank, message, received},
        tcp_window::TcpWindow,
    },
    connection::{
        call::Caller,
        loss_watch::LossWatch,
        sockets::{address_toward, listen_on},
    },
    handshake::secret::{JobKey, JobNonce, Secret, random_bytes},
    reads::server::{ServedWindows, Server},
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

/// What rank 0 tells those who look for it.
#[derive(Debug, Serialize, Deserialize)]
struct Announcement {
    address: SocketAddr,
    is_secret_in_file: bool,
    nonce: JobNonce,
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
        Self::connect(options, ReadyRank::new(options)?, rendezvous, wait)
    }

    /// The same, of a rank that has what it needs. Collective.
    pub(crate) fn connect(
        options: &TcpOptions,
        ready: ReadyRank,
        rendezvous: &dyn Rendezvous,
        wait: &Wait<'_>,
    ) -> Result<Self> {
        let ReadyRank { from, listener, address, secret } = ready;
        let wait = &wait.shortened(START_PATIENCE);
        let (key, hub) = agree_on_key(options, (address, secret), rendezvous, wait)?;
        let windows = Arc::new(ServedWindows::default());
        let server = Server::start(&windows, options.size - 1)?;
        let rules = AcceptRules { rank: options.rank, size: options.size, key: key.clone() };
        let acceptor = Acceptor::open(listener, rules, server)?;
        let caller = Caller { rank: options.rank, from, key };
        let sockets = match options.rank {
            0 => acceptor.stars(wait)?,
            _ => vec![(0, caller.call_hub(0, hub, wait)?)],
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

/// What a rank has before it calls the others: a rank that lacks it need not leave them waiting.
#[derive(Debug)]
pub(crate) struct ReadyRank {
    from: IpAddr,
    listener: OwnedFd,
    address: SocketAddr,
    /// That of its file.
    secret: Option<Secret>,
}

impl ReadyRank {
    /// That of the rank that `options` are for.
    pub(crate) fn new(options: &TcpOptions) -> Result<Self> {
        if options.rank >= options.size {
            return Err(Error::invalid(format!("rank {} of {} ranks", options.rank, options.size)));
        }
        let from = match &options.listen {
            TcpListen::Toward(node, port) => address_toward(node, *port)?,
            TcpListen::On(address) => *address,
        };
        let (listener, address) = listen_on(from)?;
        let secret = options.secret_file.as_deref().map(Secret::from_file).transpose()?;
        Ok(Self { from, listener, address, secret })
    }
}

fn key_name(options: &TcpOptions, name: &str) -> String {
    format!("forebay/{}/{name}", options.job)
}

/// The key of the job, and the address of rank 0.
fn agree_on_key(
    options: &TcpOptions,
    (address, given): (SocketAddr, Option<Secret>),
    rendezvous: &dyn Rendezvous,
    wait: &Wait<'_>,
) -> Result<(JobKey, SocketAddr)> {
    let (hub_key, secret_key) = (key_name(options, "hub"), key_name(options, "secret"));
    let is_secret_in_file = given.is_some();
    if options.rank == 0 {
        let secret = given.map_or_else(Secret::random, Ok)?;
        if !is_secret_in_file {
            rendezvous.set(&secret_key, secret.bytes())?;
        }
        let nonce = random_bytes()?;
        rendezvous.set(&hub_key, &message(&Announcement { address, is_secret_in_file, nonce })?)?;
        return Ok((secret.key_of(&options.job, &nonce), address));
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
    Ok((secret.key_of(&options.job, &hub.nonce), hub.address))
}

/// Removes what nobody needs any more, the secret before all.
fn forget(options: &TcpOptions, rendezvous: &dyn Rendezvous) -> Result<()> {
    rendezvous.delete(&key_name(options, "secret"))?;
    rendezvous.delete(&key_name(options, "hub"))
}

fn connect_star(
    options: &TcpOptions,
    sockets: Vec<(usize, OwnedFd)>,
    link: &Arc<OnceLock<Arc<NodeLink>>>,
) -> Result<Star> {
    let link = Arc::clone(link);
    let mut watches: BTreeMap<usize, LossWatch> = BTreeMap::new();
    let ended_elsewhere = move |open: &[(usize, BorrowedFd<'_>)]| -> Vec<usize> {
        let link = link.get();
        let members = link.iter().flat_map(|link| link.members().iter().map(move |rank| (link, *rank)));
        let gone = members.filter(|(link, rank)| link.first_gone(*rank..rank + 1).is_some());
        let mut ended: Vec<_> = gone.map(|(_, rank)| rank).collect();
        let lost = open.iter().filter(|(rank, socket)| watches.entry(*rank).or_default().is_lost(*socket));
        ended.extend(lost.map(|(rank, _)| rank));
        ended
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
        Ok(Arc::new(TcpWindow::open(&self.inner, mine, wait)?))
    }
}
