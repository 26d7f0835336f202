//! What one configuration file asks for.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{kernel::Kernel, workload::Workload};

/// The tasks of one configuration file, in order, and how it wants them to be started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Suite {
    /// The tasks; a DLIO workload is one, an h5bench file may hold several.
    pub tasks: Vec<Task>,
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

/// One benchmark of a suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "benchmark", rename_all = "snake_case")]
pub enum Task {
    /// Training, evaluation, checkpoints: DLIO, MLPerf Storage, h5bench's `dlio`.
    Training(Box<Workload>),
    /// A `write` or `read` kernel of h5bench.
    Kernel(Box<Kernel>),
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
