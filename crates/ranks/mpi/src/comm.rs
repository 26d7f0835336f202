//! The ranks of an MPI job as a [`Comm`].

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    ops::Range,
    sync::Arc,
};

use forebay_process::{Error, Result};
use forebay_store::{Comm, CommThreads, NodeLink, ShardMemory, Wait, Window};

use crate::{
    calls::{
        hosts, lifetime,
        ranks::{CollectiveCalls, Ranks},
        window_use::WindowUse,
    },
    library::{MpiLibrary, abi::MpiHandle, find},
    window::{MpiWindow, rma::RemoteWindow},
};

/// How ranks of an MPI job work together; the same on every rank.
#[derive(Clone, Copy, Debug)]
pub struct MpiOptions {
    /// Ranks of one host read each other's memory directly. Where they do not, all bytes go through MPI.
    pub share_host: bool,
}

impl Default for MpiOptions {
    fn default() -> Self {
        Self { share_host: true }
    }
}

/// A communicator over whichever MPI this process has or finds.
///
/// It has messages of its own, so that it never meets those of the program. Where the first caller of MPI is this, it is
/// initialised for calls from any thread, and finalised when the process ends.
pub struct MpiComm {
    library: &'static MpiLibrary,
    ranks: Arc<Ranks>,
    hosts: Vec<usize>,
}

impl MpiComm {
    /// All ranks of the job. Collective.
    pub fn world(options: MpiOptions, wait: &Wait<'_>) -> Result<Self> {
        let library = MpiLibrary::find()?;
        lifetime::begin(library, true)?;
        let world = library.loaded.constants.comm_world;
        let size = library.loaded.size(world)?;
        if let Some(launched) = find::launched_ranks().filter(|launched| *launched > 1 && size == 1) {
            let what =
                format!("{launched} ranks were started, and this MPI sees one: it is not the launcher's");
            let hint = "start the job by the mpirun of this library, or set FOREBAY_MPI_LIBRARY to the launcher's libmpi";
            return Err(Error::invalid(what).at(library.path().display()).hint(hint));
        }
        Self::new(library, world, options, wait)
    }

    /// The ranks of a communicator of the program, such as that of mpi4py's `comm.handle`. Collective over its ranks.
    pub fn from_handle(comm: MpiHandle, options: MpiOptions, wait: &Wait<'_>) -> Result<Self> {
        let library = MpiLibrary::find()?;
        lifetime::begin(library, false)?;
        Self::new(library, comm, options, wait)
    }

    /// As [`from_handle`](Self::from_handle), for a communicator that was made for the caller: it is freed. Collective.
    pub fn from_made_handle(comm: MpiHandle, options: MpiOptions, wait: &Wait<'_>) -> Result<Self> {
        let made = Self::from_handle(comm, options, wait);
        if let Ok(library) = MpiLibrary::find() {
            // One that cannot be freed is no reason to leave the ranks: the others would wait for this one.
            let _ = library.loaded.comm_free(comm);
        }
        made
    }

    /// The communicator that its messages go by.
    pub fn handle(&self) -> MpiHandle {
        self.ranks.comm
    }

    /// The library that is called.
    pub fn library(&self) -> &'static MpiLibrary {
        self.library
    }

    /// True where all ranks run on one host and share its memory, so that no byte goes through MPI.
    pub fn is_one_host(&self) -> bool {
        self.hosts.iter().all(|host| *host == self.hosts[0])
    }

    pub(crate) fn ranks(&self) -> &Arc<Ranks> {
        &self.ranks
    }

    fn new(
        library: &'static MpiLibrary,
        comm: MpiHandle,
        options: MpiOptions,
        wait: &Wait<'_>,
    ) -> Result<Self> {
        let ranks = Arc::new(Ranks::of(&library.loaded, comm, wait)?);
        // Ranks of one host know of each other's end in any case.
        let linked = linked_hosts(&ranks, wait)?;
        let hosts = if options.share_host { linked } else { (0..ranks.size).collect() };
        Ok(Self { library, ranks, hosts })
    }

    /// Shards of the ranks of this host, by rank.
    fn share(&self, mine: &Arc<ShardMemory>, wait: &Wait<'_>) -> Result<Vec<Option<Arc<ShardMemory>>>> {
        let mut shared = vec![None; self.ranks.size];
        shared[self.ranks.rank] = Some(Arc::clone(mine));
        let members = members(&self.hosts, self.ranks.rank);
        if let Some(link) = self.ranks.losses.link().filter(|_| members.len() > 1) {
            for (rank, shard) in members.into_iter().zip(link.share(mine, wait)?) {
                shared[rank] = Some(shard);
            }
        }
        Ok(shared)
    }
}

impl MpiComm {
    fn remote_window(
        &self,
        calls: &CollectiveCalls<'_>,
        mine: &Arc<ShardMemory>,
        usage: &Arc<WindowUse>,
        wait: &Wait<'_>,
    ) -> Result<RemoteWindow> {
        let created = RemoteWindow::create(&self.ranks, mine, usage);
        let is_made = created.is_ok();
        let agreed = calls.agree(created, wait);
        // A window that some ranks lack can never be freed.
        if is_made { calls.in_step(agreed) } else { agreed }
    }
}

impl Comm for MpiComm {
    fn rank(&self) -> usize {
        self.ranks.rank
    }

    fn size(&self) -> usize {
        self.ranks.size
    }

    fn host_of(&self, rank: usize) -> usize {
        self.hosts[rank]
    }

    fn threads(&self) -> CommThreads {
        self.ranks.threads
    }

    fn first_gone(&self, ranks: Range<usize>) -> Option<usize> {
        self.ranks.losses.first_gone(ranks)
    }

    fn hears_of_ends(&self) -> bool {
        // MPI has no word for a rank of another host that died.
        self.is_one_host()
    }

    fn transport(&self) -> String {
        let shares = members(&self.hosts, self.ranks.rank).len() > 1;
        match (shares, self.is_one_host()) {
            (true, true) => format!("{}, shared memory", self.library.version()),
            (true, false) => format!("{}, shared memory within a host", self.library.version()),
            (false, _) => self.library.version().to_owned(),
        }
    }

    fn barrier(&self, wait: &Wait<'_>) -> Result<()> {
        self.ranks.collectively(wait)?.barrier(wait)
    }

    fn broadcast(&self, root: usize, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<u8>> {
        self.ranks.collectively(wait)?.broadcast(root, bytes, wait)
    }

    fn all_gather(&self, mine: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<Vec<u8>>> {
        self.ranks.collectively(wait)?.all_gather(&mine, wait)
    }

    fn window(&self, mine: Arc<ShardMemory>, wait: &Wait<'_>) -> Result<Arc<dyn Window>> {
        let calls = self.ranks.collectively(wait)?;
        let lens = calls.all_gather(&mine.len().to_le_bytes(), wait)?;
        let lens = lens.iter().map(|len| len[..].try_into().map_or(0, u64::from_le_bytes)).collect();
        // MPI waits for all ranks to make a window: none may have failed before.
        let shared = calls.agree(self.share(&mine, wait), wait)?;
        let usage = Arc::new(WindowUse::default());
        let remote = match self.is_one_host() {
            true => None,
            false => Some(self.remote_window(&calls, &mine, &usage, wait)?),
        };
        Ok(Arc::new(MpiWindow { ranks: Arc::clone(&self.ranks), shared, lens, remote, usage }))
    }
}

impl fmt::Debug for MpiComm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MpiComm")
            .field("library", &self.library)
            .field("rank", &self.ranks.rank)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

/// Numbers of hosts by rank, and links between the ranks of each. Where those of a host cannot be linked, each counts as a
/// host of its own. Collective.
fn linked_hosts(ranks: &Ranks, wait: &Wait<'_>) -> Result<Vec<usize>> {
    // A rank that does not know its host, or cannot meet others there, has none in common with them.
    let host = NodeLink::check_ready().and_then(|()| NodeLink::host_key());
    let host = host.unwrap_or_else(|_| random_name());
    let calls = ranks.collectively(wait)?;
    let hosts = hosts::numbered(&calls.all_gather(host.as_bytes(), wait)?);
    let name = calls.broadcast(0, random_name().into_bytes(), wait)?;
    let name = String::from_utf8_lossy(&name);
    let own = members(&hosts, ranks.rank);
    let link = match own.len() {
        1 => Ok(None),
        _ => NodeLink::connect(&name, ranks.rank, &own, wait).map(Some),
    };
    let outcomes = calls.all_gather(&[u8::from(link.is_err())], wait)?;
    let has_failed = |host: usize| {
        hosts.iter().zip(&outcomes).any(|(other, outcome)| *other == host && outcome[..] != [0])
    };
    if let (Some(link), false) = (link.unwrap_or(None), has_failed(hosts[ranks.rank])) {
        ranks.losses.watch(link);
    }
    Ok(hosts::parted(&hosts, has_failed))
}

fn random_name() -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", random(), random())
}

/// Ranks of the host of `rank`.
fn members(hosts: &[usize], rank: usize) -> Vec<usize> {
    (0..hosts.len()).filter(|other| hosts[*other] == hosts[rank]).collect()
}
