//! Ranks that an MPI launcher started and that work without MPI keep every clause of communicators, windows and stores.

use std::sync::Arc;

use forebay_mpi::MpiLaunchedComm;
use forebay_store::{Comm, LocalComm, check};

#[test]
fn ranks_that_work_without_mpi_keep_every_clause() {
    for hosts in [&[0][..], &[0, 0, 1]] {
        LocalComm::run(hosts, |comm| {
            let launched: Arc<dyn Comm> = Arc::new(MpiLaunchedComm::new(comm));
            check::every_clause(&launched);
        });
    }
}
