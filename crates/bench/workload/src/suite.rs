//! What one configuration file asks for.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use forebay_process::Error;

use crate::workload::Workload;

/// The workloads of one configuration file, in order, and how it wants them to be started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Suite {
    /// The workloads: one of a DLIO file, one for each `dlio` entry of an h5bench file.
    pub workloads: Vec<Workload>,
    /// Entries of an h5bench file that `forebay bench` does not run.
    pub unsupported: Vec<UnsupportedEntry>,
    /// How h5bench would start its ranks.
    pub mpi: Option<MpiLaunch>,
    /// The VOL connector of h5bench's `vol`.
    pub vol: Option<VolChoice>,
    /// The folder of h5bench's `directory`, where files and results go.
    pub directory: Option<PathBuf>,
    /// Lustre's stripes of h5bench's `file-system`.
    pub stripes: Option<LustreStripes>,
    /// Whether the configuration has h5bench's keys, not DLIO's.
    pub is_h5bench: bool,
    /// What the reader of the configuration ought to know: keys that have no effect here, defects that are not reproduced.
    pub notes: Vec<String>,
}

/// Entry of an h5bench file whose benchmark is not `dlio`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsupportedEntry {
    /// Position in the list `benchmarks`, counted from 1.
    pub number: usize,
    /// Name of the benchmark, such as `write`.
    pub benchmark: String,
}

impl UnsupportedEntry {
    /// Builds the error that the entry ends with; it names h5bench as the tool that runs it.
    pub fn error(&self) -> Error {
        let what = format!("entry {}: expected \"dlio\", got {:?}", self.number, self.benchmark);
        Error::unsupported(what).hint("run this entry with h5bench itself")
    }
}

/// How h5bench would start its ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MpiLaunch {
    /// The launcher, such as `mpirun` or `srun`.
    pub command: String,
    /// How many ranks.
    pub ranks: Option<u32>,
    /// Further arguments of the launcher.
    pub arguments: Option<String>,
}

/// A VOL connector that HDF5 loads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolChoice {
    /// For `LD_LIBRARY_PATH`.
    pub library: Option<String>,
    /// For `HDF5_PLUGIN_PATH`.
    pub path: Option<String>,
    /// For `HDF5_VOL_CONNECTOR`.
    pub connector: Option<String>,
    /// For `LD_PRELOAD`.
    pub preload: Option<String>,
}

/// Stripes of a folder on Lustre.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LustreStripes {
    /// Bytes of a stripe.
    pub stripe_bytes: Option<u64>,
    /// How many targets; -1 for all.
    pub stripe_count: Option<i32>,
}
