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
//! | `tcp_comm` | the communicator and its windows |
//! | `rendezvous` | values by name through which ranks find each other |
//! | `secret`, `hmac` | what the ranks of a job know and nobody else |
//! | `handshake` | how two ranks prove that they know it |
//! | `sockets` | addresses, options, and calls with a deadline |
//! | `acceptor` | the thread that lets other ranks in |
//! | `read_request` | what a rank asks for, as bytes |
//! | `server`, `answer` | threads that answer reads, straight from the shard |
//! | `peers`, `transfer` | connections to other ranks, and reads in flight on them |

#![cfg(target_os = "linux")]

mod acceptor;
mod answer;
mod handshake;
mod hmac;
mod peers;
mod read_request;
mod rendezvous;
mod secret;
mod server;
mod sockets;
mod tcp_comm;
mod transfer;

pub use read_request::{MOST_PIECES, PieceRequest};
pub use rendezvous::{FolderRendezvous, Rendezvous};
pub use secret::Secret;
pub use sockets::address_toward;
pub use tcp_comm::{TcpComm, TcpListen, TcpOptions};
