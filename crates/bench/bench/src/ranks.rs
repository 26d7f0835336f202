//! One rank: what it works with, its time, its machine; ranks without MPI, and how child processes are made to end.

pub(crate) mod clock;
pub(crate) mod digest;
pub(crate) mod host;
pub(crate) mod launch;
pub(crate) mod lifeline;
pub(crate) mod rank_run;
