//! How ranks that have a file open together read each other's memory: mapped on one host, over TCP between hosts.
//!
//! Not by windows of MPI: a program that makes none must not meet what its MPI cannot do (Open MPI 5.0 over TCP ends the process
//! when one is made), and without passive progress they are read only while their ranks call MPI.

use std::{path::PathBuf, sync::Arc};

use forebay_mpi::MpiComm;
use forebay_process::Result;
use forebay_store::{Comm, Wait, agree};
use forebay_tcp::tcp_over;

/// The communicator whose windows the ranks of `comm` read; an error is one on all of them. Collective.
pub(crate) fn data_comm(comm: &Arc<MpiComm>) -> Result<Arc<dyn Comm>> {
    if comm.is_one_host() {
        return Ok(Arc::clone(comm) as Arc<dyn Comm>);
    }
    let secret = std::env::var_os("FOREBAY_STORE_SECRET_FILE").filter(|path| !path.is_empty());
    let wait = Wait::while_ranks_live();
    Ok(Arc::new(agree(&**comm, tcp_over(&**comm, secret.map(PathBuf::from), &wait), &wait)?))
}
