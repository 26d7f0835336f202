//! Copies of far bytes on nearer, faster places: an origin over an origin, which no reader can tell from it.
//!
//! ```text
//!  fetch ─► whole mirror? ─► staged? ─► tier 0 ─► tier 1 … ─► flight ─► placement threads ─► origin
//!                                         ▲          ▲                        │
//!                                         └──────────┴──────── put ◄──────────┘
//! ```
//!
//! A tier may lose bytes and may never change them: trouble inside one is a counted miss. The unit is the block, a
//! fixed, aligned stretch of one version of one source.
//!
//! | file | idea |
//! |---|---|
//! | `block` | a source cut into blocks, and a name for its version |
//! | `tier` | the contract of a place for copies |
//! | `policy` | what is worth keeping, and who leaves when a tier is full |
//! | `memory`, `pages` | a tier in memory, and its memory |
//! | `disk` | a tier on a local disk, shared by the processes of a node |
//! | `left_out` | a tier that could not be opened |
//! | `flight` | each block is fetched once, however many ask |
//! | `pool` | the threads that fetch and place, readers' requests first |
//! | `ahead` | what will be used soon, fetched before it is asked for |
//! | `tiered`, `copied` | the origin over an origin, and its sources |
//! | `promise` | which sources will be near for good |
//! | `state` | what a process knows of a source, and how it finds each byte |
//! | `missing` | what no tier has, read from the origin |
//! | `aside` | work on a source that nobody waits for |
//! | `fetch` | blocks on their way from the origin to a tier |
//! | `demote` | blocks that left a tier, on their way to the next one below |
//! | `warm` | whole sources copied before anybody reads |
//! | `forecast` | what a policy would read from the origin, reckoned and not run |
//! | `stats` | what was read from where |
//! | `sync` | the locks: the standard library's, or those of a checker |

mod ahead;
mod aside;
mod block;
mod copied;
mod demote;
mod disk;
mod fetch;
mod flight;
mod forecast;
mod left_out;
mod memory;
mod missing;
mod pages;
mod policy;
mod pool;
mod promise;
mod state;
mod stats;
mod sync;
mod tier;
mod tiered;
mod warm;

pub use ahead::{Coming, Upcoming};
pub use block::{Blocks, SourceKey};
pub use disk::{DiskOptions, DiskTier, Mirror};
pub use flight::{Flight, Flights, Landed, Lead, Part, Turn};
pub use forecast::{Forecast, ForecastTier, Used, forecast};
pub use left_out::LeftOutTier;
pub use memory::MemoryTier;
pub use policy::{Facts, Foresight, Judge, Outlook, Policy, Standard, Worth};
pub use stats::{OriginStats, Stats, TierStats};
pub use tier::{Admission, Claim, Claimed, Copies, Evicted, Room, Tier, Usage};
pub use tiered::{AHEAD_BYTES, BLOCK_BYTES, Placement, RECHECK, THREADS, Tiered};
pub use warm::{Warmed, warm};
