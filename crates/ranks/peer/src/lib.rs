//! Hash table of cached blocks in the memory of the ranks of a job, read one-sided.
//!
//! ```text
//!  block ─hash─► the part in this host's memory ─► slot ─► bytes
//!          └───► the parts of other ranks (one-sided gets) ─► slot ─► bytes ─► checksum compared once
//! ```
//!
//! A rank that looks for a block reads the table and the slots of other ranks by gets: no rank is ever asked for anything, and none
//! has to take part. What is placed stays as long as the memory: an entry that was seen once is right for ever, and needs no second
//! look. Ranks of one host load each other's memory.
//!
//! One of two rules says who places a block (`placed_by`):
//!
//! - **Its home rank**, of a [`PeerTier`]: the quotas of all ranks add up, and each block is copied once for all of them. What a rank
//!   needs before its home has copied it, it reads from the origin, just these bytes.
//! - **Any rank**, of a table over [`HostShard`]s: each block stays on the host where it was read first, in a shard that all ranks of
//!   the host write.
//!
//! Forked children place nothing: they find what their parent has placed in the memory that they share with it.
//!
//! | file | idea |
//! |---|---|
//! | `block_digest` | a name for a block that is the same on every host |
//! | `block_table` | the table and the slots in a shard |
//! | `placed_by` | who places a block, and where it is looked for |
//! | `host_shard` | the memory of a host's part, kept by the process that leads its ranks |
//! | `peer_table` | the parts of all ranks, opened and closed by all of them together |
//! | `peer_tier` | a table with homes, as a tier |
//! | `table_use` | one use of a table, which ends by itself |
//! | `table_view` | what one rank knows of the parts |
//! | `peer_gets` | reads of tables and blocks of other ranks, many at a time |
//! | `peer_blocks` | the blocks of one source, as a tier's copies |
//! | `peer_stats` | counters |

mod block_digest;
mod block_table;
mod host_shard;
mod peer_blocks;
mod peer_gets;
mod peer_stats;
mod peer_table;
mod peer_tier;
mod placed_by;
mod table_use;
mod table_view;

pub use host_shard::HostShard;
pub use peer_blocks::PeerBlocks;
pub use peer_stats::{PeerCounters, PeerStats};
pub use peer_table::PeerTable;
pub use peer_tier::PeerTier;
