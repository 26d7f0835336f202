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
//! | module | content |
//! |---|---|
//! | `comm` | the communicator: how ranks find each other and let each other in; the memory of all ranks, as one of them reads it |
//! | `handshake` | how two ranks prove that they know the secret of the job; authentication codes under it |
//! | `connection` | a connection to another rank: addresses, options, how it is made, whether its other end is lost |
//! | `reads` | what a rank asks for and what is answered; threads that answer, straight from the shard; reads in flight |

#![cfg(target_os = "linux")]

mod comm;
mod connection;
mod handshake;
mod reads;

pub use comm::over_comm::tcp_over;
pub use comm::rendezvous::{FolderRendezvous, Rendezvous};
pub use comm::tcp_comm::{TcpComm, TcpListen, TcpOptions};
pub use connection::sockets::address_toward;
pub use handshake::secret::Secret;
pub use reads::read_request::{MOST_PIECES, PieceRequest, check_answer};
