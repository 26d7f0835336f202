//! Blocks that ranks of a job have cached, each where it was first read, read by all other ranks one-sided.
//!
//! ```text
//!  block ─hash─► table of this host (shared memory) ─► slot ─► bytes
//!          └───► tables of the other hosts (one-sided gets) ─► slot ─► bytes ─► checksum compared once
//! ```
//!
//! The ranks of a host share one shard: each places in it what it has read from the file, and loads what the others placed. Ranks of
//! other hosts read its table and its slots by gets: no rank is ever asked for anything, and none has to take part. What is placed
//! stays as long as the shard: an entry that was seen once is right for ever.
//!
//! | file | idea |
//! |---|---|
//! | `block_digest` | a name for a block that is the same on every host |
//! | `host_table` | the table and the slots in the shard of a host, which all its ranks write |
//! | `host_shard` | the memory of a host's part, kept by the process that leads its ranks |
//! | `peer_cache` | the parts of all hosts, opened and closed by all ranks together |
//! | `peer_view` | what one rank knows of them |
//! | `peer_gets` | reads of tables and blocks of other hosts, many at a time |
//! | `peer_blocks` | the blocks of one source, as a tier's copies |
//! | `peer_stats` | counters |

mod block_digest;
mod host_shard;
mod host_table;
mod peer_blocks;
mod peer_cache;
mod peer_gets;
mod peer_stats;
mod peer_view;

pub use host_shard::HostShard;
pub use peer_blocks::PeerBlocks;
pub use peer_cache::PeerCache;
pub use peer_stats::{PeerCounters, PeerStats};
