//! The ranks of the job that this process is one of: who started them, and how their bytes travel.
//!
//! ```text
//! mpi4py's communicator ─┐                    ┌─ one host ─────► shared memory
//! mpirun, srun ──────────┴─► MPI ─► data = ? ─┼─ mpi ──────────► MPI's one-sided gets
//!                                             └─ tcp ──────────► TCP; MPI only for finding each other
//! torchrun ─┬─ one node ─────► shared memory
//!           └─ several ──────► TCP, found through torch's key-value store
//! ```

use std::{env, path::PathBuf, sync::Arc};

use forebay_mpi::{MpiComm, MpiHandle, MpiLaunchedComm, MpiOptions, passive_progress};
use forebay_process::{Error, ErrorKind, Event, EventKind, Result};
use forebay_store::{Comm, JobName, LocalComm, SharedComm, Wait};
use forebay_tcp::{Rendezvous, TcpComm, TcpListen, TcpOptions, tcp_over};

/// Names the library of MPI, or forbids one.
const MPI_LIBRARY: &str = "FOREBAY_MPI_LIBRARY";

/// How the bytes of ranks of other hosts travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataPath {
    /// By MPI where it serves ranks that compute, by TCP where it does not.
    #[default]
    Auto,
    /// By MPI's one-sided gets.
    Mpi,
    /// By TCP.
    Tcp,
    /// By shared memory: all ranks are on one host, or it is an error.
    Shm,
}

impl DataPath {
    /// The one called `word`.
    pub fn parse(word: &str) -> Result<Self> {
        match word {
            "auto" => Ok(Self::Auto),
            "mpi" => Ok(Self::Mpi),
            "tcp" => Ok(Self::Tcp),
            "shm" => Ok(Self::Shm),
            _ => {
                Err(Error::invalid(format!("'{word}' is no way for data; there are auto, mpi, tcp and shm")))
            }
        }
    }
}

/// Who started this process as one of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// Nobody: it is alone.
    None,
    /// `mpirun`, `srun` and their like.
    Mpi,
    /// `torchrun`, or a program that sets the same variables.
    Torch {
        /// The number of this rank.
        rank: usize,
        /// How many there are.
        size: usize,
        /// True where all of them are on this node.
        is_one_node: bool,
    },
    /// `srun`, without a word of how the tasks find each other.
    Srun {
        /// How many there are.
        tasks: usize,
    },
}

impl Launcher {
    /// What the environment says.
    pub fn of_process() -> Self {
        Self::from_env(&|name| env::var(name).ok())
    }

    fn from_env(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| env(name)?.trim().parse::<usize>().ok();
        let torch = || {
            let (rank, size) = (number("RANK")?, number("WORLD_SIZE")?);
            let is_one_node = number("LOCAL_WORLD_SIZE") == Some(size);
            (size > 1 && rank < size).then_some(Self::Torch { rank, size, is_one_node })
        };
        let is_for_torch = ["MASTER_ADDR", "MASTER_PORT"].iter().all(|name| env(name).is_some());
        // srun tells every program how to find its MPI, if it has one or not: whoever sets torch's variables means those.
        let is_srun = env("SLURM_PROCID").is_some() && env("OMPI_COMM_WORLD_SIZE").is_none();
        let is_mpi_off = env(MPI_LIBRARY).is_some_and(|library| library == "off");
        // torchrun itself may have been started by mpirun or srun, once per node.
        if env("TORCHELASTIC_RUN_ID").is_some() || (is_for_torch && (is_srun || is_mpi_off)) {
            return torch().unwrap_or(Self::None);
        }
        if ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "PMI_RANK"]
            .iter()
            .any(|name| env(name).is_some())
        {
            return Self::Mpi;
        }
        let tasks = number("SLURM_STEP_NUM_TASKS").filter(|tasks| *tasks > 1 && env("WORLD_SIZE").is_none());
        torch().or(tasks.map(|tasks| Self::Srun { tasks })).unwrap_or(Self::None)
    }
}

/// The ranks of the job that this process is one of; itself alone where no launcher started it. Collective.
pub fn job_comm(data: DataPath, wait: &Wait<'_>) -> Result<Arc<dyn Comm>> {
    match Launcher::of_process() {
        Launcher::None => alone(),
        Launcher::Mpi => over_mpi(MpiComm::world(MpiOptions::default(), wait)?, data, wait),
        Launcher::Srun { tasks } => {
            let what = format!("srun started {tasks} tasks, and nothing says how they find each other");
            Err(Error::invalid(what).hint(
                "use srun --mpi=pmix, or set RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT; \
                 WORLD_SIZE=1 for tasks that have nothing to do with each other",
            ))
        }
        Launcher::Torch { .. } if data == DataPath::Mpi => Err(no_mpi()),
        Launcher::Torch { rank, size, is_one_node: true } if data != DataPath::Tcp => {
            let job = JobName::from_torchrun(&|name| env::var(name).ok())?;
            Ok(Arc::new(SharedComm::new(rank, size, &job, wait)?))
        }
        Launcher::Torch { .. } => {
            let what = "ranks of several nodes that torchrun started find each other through torch's store";
            Err(Error::unsupported(what).hint("use forebay.Store in Python, or start the job by mpirun"))
        }
    }
}

/// The ranks of a communicator of the program's own MPI, such as mpi4py's. Collective over its ranks.
pub fn mpi_comm(handle: MpiHandle, data: DataPath, wait: &Wait<'_>) -> Result<Arc<dyn Comm>> {
    over_mpi(MpiComm::from_handle(handle, MpiOptions::default(), wait)?, data, wait)
}

/// The ranks that torchrun started, which find each other through `rendezvous`. Collective.
pub fn torch_comm(rendezvous: &dyn Rendezvous, data: DataPath, wait: &Wait<'_>) -> Result<Arc<dyn Comm>> {
    let Launcher::Torch { rank, size, is_one_node } = Launcher::of_process() else { return alone() };
    if data == DataPath::Mpi {
        return Err(no_mpi());
    }
    if is_one_node && data != DataPath::Tcp {
        return job_comm(data, wait);
    }
    if data == DataPath::Shm {
        return Err(several_hosts());
    }
    let name = |name: &str| {
        env::var(name)
            .map_err(|_| Error::invalid(format!("{name} is not set")).hint("start the job by torchrun"))
    };
    let port = name("MASTER_PORT")?;
    let port = port.parse().map_err(|_| Error::invalid(format!("MASTER_PORT={port} is no port")))?;
    let job = JobName::from_torchrun_nodes(&|name| env::var(name).ok())?;
    let options = TcpOptions {
        rank,
        size,
        job,
        listen: TcpListen::Toward(name("MASTER_ADDR")?, port),
        secret_file: secret_file(),
        host: None,
    };
    Ok(Arc::new(TcpComm::new(&options, rendezvous, wait)?))
}

fn alone() -> Result<Arc<dyn Comm>> {
    let alone = LocalComm::on_hosts(&[0]).pop();
    Ok(Arc::new(alone.ok_or_else(|| Error::new(ErrorKind::Bug, "one rank is none"))?))
}

fn over_mpi(comm: MpiComm, data: DataPath, wait: &Wait<'_>) -> Result<Arc<dyn Comm>> {
    let is_one_host = comm.is_one_host();
    match data {
        DataPath::Shm if !is_one_host => Err(several_hosts()),
        DataPath::Mpi | DataPath::Shm => Ok(Arc::new(comm)),
        DataPath::Tcp => tcp_over_mpi(&comm, wait),
        DataPath::Auto if is_one_host => Ok(Arc::new(comm)),
        DataPath::Auto => match passive_progress(&comm, wait) {
            Ok(true) => Ok(Arc::new(comm)),
            answer => {
                let why = answer
                    .err()
                    .map_or_else(|| "it serves no rank that computes".to_owned(), |error| error.to_string());
                Event::new(EventKind::Rank, format!("samples travel by TCP instead of MPI: {why}")).emit();
                tcp_over_mpi(&comm, wait)
            }
        },
    }
}

/// TCP between ranks that find each other by MPI.
fn tcp_over_mpi(comm: &MpiComm, wait: &Wait<'_>) -> Result<Arc<dyn Comm>> {
    let tcp = tcp_over(comm, secret_file(), wait)?;
    Ok(Arc::new(MpiLaunchedComm::new(Arc::new(tcp))))
}

/// The file that holds the secret of the job, if one is named.
fn secret_file() -> Option<PathBuf> {
    env::var_os("FOREBAY_STORE_SECRET_FILE").filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn no_mpi() -> Error {
    Error::invalid("data=mpi in a job that no MPI started").hint("start it by mpirun or srun")
}

fn several_hosts() -> Error {
    Error::invalid("data=shm, and ranks run on several hosts").hint("use auto, mpi or tcp")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launcher(values: &[(&str, &str)]) -> Launcher {
        Launcher::from_env(&|name| {
            values.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn every_launcher_is_known_by_its_variables() {
        let torch = |rank, size, is_one_node| Launcher::Torch { rank, size, is_one_node };
        let ranks = [("RANK", "1"), ("WORLD_SIZE", "4")];
        assert_eq!(launcher(&[]), Launcher::None);
        assert_eq!(launcher(&ranks), torch(1, 4, false));
        assert_eq!(launcher(&[ranks[0], ranks[1], ("LOCAL_WORLD_SIZE", "4")]), torch(1, 4, true));
        assert_eq!(launcher(&[("OMPI_COMM_WORLD_SIZE", "4"), ranks[0], ranks[1]]), Launcher::Mpi);
        assert_eq!(launcher(&[("PMI_SIZE", "4")]), Launcher::Mpi);
        let nested = [("OMPI_COMM_WORLD_SIZE", "2"), ("TORCHELASTIC_RUN_ID", "x"), ranks[0], ranks[1]];
        assert_eq!(launcher(&nested), torch(1, 4, false), "torchrun started by mpirun, once per node");
        assert_eq!(launcher(&[("RANK", "0"), ("WORLD_SIZE", "1")]), Launcher::None);
        assert_eq!(launcher(&[("RANK", "x"), ("WORLD_SIZE", "4")]), Launcher::None);
        let master = [("MASTER_ADDR", "a"), ("MASTER_PORT", "1")];
        let srun = [("SLURM_PROCID", "1"), ("PMIX_RANK", "1"), ("SLURM_STEP_NUM_TASKS", "4")];
        assert_eq!(launcher(&srun), Launcher::Mpi);
        assert_eq!(launcher(&[&srun[..], &ranks[..], &master[..]].concat()), torch(1, 4, false));
        let off = [("FOREBAY_MPI_LIBRARY", "off"), ("PMI_SIZE", "4")];
        assert_eq!(launcher(&[&off[..], &ranks[..], &master[..]].concat()), torch(1, 4, false));
        let plain = [srun[0], srun[2]];
        assert_eq!(launcher(&plain), Launcher::Srun { tasks: 4 });
        assert_eq!(launcher(&[&plain[..], &[("WORLD_SIZE", "1")]].concat()), Launcher::None);
    }
}
