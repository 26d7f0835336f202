//! A tier in the memory of all ranks: blocks that one rank has copied serve its peers.
//!
//! ```text
//! (source, block) ─hash─► home rank ─hash─► eight entries of its table ─► slot ─► bytes
//! ```
//!
//! Every block has one home, and only the home places it, from the moment it opens the source, whoever reads the block: the quotas of
//! all ranks add up, and each block is copied once for all of them. What a rank needs before its home has copied it, it reads from the
//! origin, just these bytes. A peer finds the block by reading the home's table, without asking the home. What is placed stays until
//! the end: an entry that was seen once is right for ever, and needs no second look.
//!
//! Forked children read alone, and their parent places: they find its blocks in the memory that they share with it.
//!
//! | file | idea |
//! |---|---|
//! | `tier` | the tier, made by all ranks together |
//! | `table` | entries and slots in the memory of a rank |
//! | `gets` | reads of tables and blocks of other ranks, many at a time |
//! | `shared` | what a rank knows of its table and of the others' |
//! | `copies` | the blocks of one source, here and on other ranks |
//! | `of_job` | the tiers of this process, which all data sets share |

mod copies;
mod gets;
mod of_job;
mod shared;
mod table;
mod tier;

pub use of_job::join_job;
pub(crate) use of_job::of_job;
pub use tier::PeerTier;
