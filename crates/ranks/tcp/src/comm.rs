//! The communicator: how ranks find each other and let each other in, and the memory of all ranks.

mod acceptor;
pub(crate) mod over_comm;
pub(crate) mod rendezvous;
pub(crate) mod tcp_comm;
mod tcp_rank;
mod tcp_window;
