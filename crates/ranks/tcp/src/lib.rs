//! Ranks of several nodes over TCP, for jobs without an MPI.
//!
//! ```text
//!            rendezvous (torch's TCPStore): address of rank 0, secret
//!                 │
//! rank ─ handshake ─ star to rank 0: collective calls, who is gone
//!      ├ handshake ─ one connection per pair: read requests ─► server ─► bytes straight from the shard
//!      └ same host: NodeLink, loads from shared memory
//! ```
//!
//! Ranks prove to each other that they know the secret of the job. What they say afterwards is neither encrypted nor signed.
//!
//! | file | idea |
//! |---|---|
//! | `tcp_comm`, `tcp_rank` | the communicator: how ranks find each other, and what one has of it then |
//! | `tcp_window` | the memory of all ranks, as one of them reads it |
//! | `over_comm` | the same, of ranks that have found each other by another communicator |
//! | `rendezvous` | values by name through which ranks find each other |
//! | `secret`, `code` | the secret of a job, and authentication codes under it |
//! | `handshake` | how two ranks prove that they know it |
//! | `sockets` | addresses, options, and what errors mean |
//! | `call` | a connection to another rank while it is made |
//! | `loss_watch` | whether the node at the other end of a connection is lost |
//! | `acceptor` | the thread that lets other ranks in |
//! | `read_request` | what a rank asks for and what is answered, as bytes |
//! | `server`, `answer` | threads that answer reads, straight from the shard |
//! | `peers`, `transfer` | connections to other ranks, and reads in flight on them |

#![cfg(target_os = "linux")]

mod acceptor;
mod answer;
mod call;
mod code;
mod handshake;
mod loss_watch;
mod over_comm;
mod peers;
mod read_request;
mod rendezvous;
mod secret;
mod server;
mod sockets;
mod tcp_comm;
mod tcp_rank;
mod tcp_window;
mod transfer;

pub use over_comm::tcp_over;
pub use read_request::{MOST_PIECES, PieceRequest, check_answer};
pub use rendezvous::{FolderRendezvous, Rendezvous};
pub use secret::Secret;
pub use sockets::address_toward;
pub use tcp_comm::{TcpComm, TcpListen, TcpOptions};
