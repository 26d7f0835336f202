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
//! | `policy/` | which copy is evicted when a tier is full, and a forecast of that |
//! | `memory/` | a tier in memory, and its memory |
//! | `disk/` | a tier on a local disk, shared by the processes of a node |
//! | `left_out` | a tier that could not be opened |
//! | `tiered/` | the origin over an origin: its sources, and how their reads are served |
//! | `placement` | how copies are placed |
//! | `flight` | single flight: each block is fetched once, however many ask |
//! | `stats` | what was read from where |
//! | `warm` | whole sources copied before a job reads |
//! | `sync` | the locks: the standard library's, or those of a checker |

mod block;
mod disk;
mod flight;
mod left_out;
mod memory;
mod placement;
mod policy;
mod stats;
mod sync;
mod tier;
mod tiered;
mod warm;

pub use block::{SourceBlocks, SourceKey};
pub use disk::{DiskOptions, DiskTier, MadeFolders, MirrorSummary};
pub use flight::{Flight, FlightPart, Flights, Landed, Lead, Turn};
pub use left_out::LeftOutTier;
pub use memory::MemoryTier;
pub use placement::{AHEAD_BYTES, BLOCK_BYTES, Placement, RECHECK, THREADS};
pub use policy::forecast::{BlockUse, Forecast, ForecastTier, forecast};
pub use policy::{BlockFacts, BuiltinPolicy, Foresight, ForesightHandle, Policy, Ranking, Score};
pub use stats::{OriginStats, Stats, TierStats};
pub use tier::{Admission, BlockPiece, Claim, Claimed, Copies, EvictedBlock, Room, Tier, Usage, WholeCopy};
pub use tiered::Tiered;
pub use tiered::read_ahead::{UpcomingRead, UpcomingReads};
pub use warm::{Warmed, warm};
