//! Copies of far bytes on nearer, faster places: an origin over an origin, which readers cannot distinguish.
//!
//! ```text
//!  fetch ─► whole copy? ─► prefetched? ─► tier 0 ─► tier 1 … ─► flight ─► placement threads ─► origin
//!                                            ▲          ▲                        │
//!                                            └──────────┴──────── put ◄──────────┘
//! ```
//!
//! A tier may lose bytes and may never change them: a failure inside one is a counted miss. The unit is the block, a
//! fixed, aligned stretch of one version of one source.
//!
//! | file | idea |
//! |---|---|
//! | `block` | a source cut into blocks, and a name for its version |
//! | `tier` | the contract of a place for copies |
//! | `policy` | which copy is evicted when a tier is full |
//! | `memory`, `pages`, `large_pages` | a tier in memory, and its memory |
//! | `disk` | a tier on a local disk, shared by the processes of a node |
//! | `left_out` | a tier that could not be opened |
//! | `flight` | single flight: each block is fetched once, however many ask |
//! | `placement`, `placement_threads` | how copies are placed, and the threads that do it, readers' requests first |
//! | `promise` | which sources will be near for good |
//! | `stats` | what was read from where |
//! | `read_ahead` | the buffer of prefetched bytes that no tier keeps |
//! | `source_state`, `process_tiers` | what a process knows of one source, and what its sources share |
//! | `claim`, `demote`, `fetch` | room for a block, evicted blocks on their way down, blocks from the origin to a tier |
//! | `origin_read`, `background_tasks`, `read` | how a read is served, and what it leaves to the background |
//! | `prefetch` | upcoming reads, fetched before they are asked for |
//! | `tiered_shared`, `tiered_source`, `tiered` | the origin over an origin, and its sources |
//! | `warm` | whole sources copied before a job reads |
//! | `forecast` | what a policy would read from the origin, computed and not run |
//! | `sync` | the locks: the standard library's, or those of a checker |

mod background_tasks;
mod block;
mod claim;
mod demote;
mod disk;
mod fetch;
mod flight;
mod forecast;
mod large_pages;
mod left_out;
mod memory;
mod origin_read;
mod pages;
mod placement;
mod placement_threads;
mod policy;
mod prefetch;
mod process_tiers;
mod promise;
mod read;
mod read_ahead;
mod source_state;
mod stats;
mod sync;
mod tier;
mod tiered;
mod tiered_shared;
mod tiered_source;
mod warm;

pub use block::{SourceBlocks, SourceKey};
pub use disk::{DiskOptions, DiskTier, MadeFolders, MirrorSummary};
pub use flight::{Flight, FlightPart, Flights, Landed, Lead, Turn};
pub use forecast::{BlockUse, Forecast, ForecastTier, forecast};
pub use left_out::LeftOutTier;
pub use memory::MemoryTier;
pub use placement::{AHEAD_BYTES, BLOCK_BYTES, Placement, RECHECK, THREADS};
pub use policy::{BlockFacts, BuiltinPolicy, Foresight, ForesightHandle, Policy, Ranking, Score};
pub use read_ahead::{UpcomingRead, UpcomingReads};
pub use stats::{OriginStats, Stats, TierStats};
pub use tier::{Admission, BlockPiece, Claim, Claimed, Copies, EvictedBlock, Room, Tier, Usage, WholeCopy};
pub use tiered::Tiered;
pub use warm::{Warmed, warm};
