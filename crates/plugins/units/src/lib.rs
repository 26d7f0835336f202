//! Values of arrays in a tier, unit by unit: how an array is cut, what a read wants of it, and what is put there behind it.
//!
//! ```text
//!  selection ─► ByteRun… ─► read_plan ─► PlacedPiece… ─► tier ─► memory
//!                             │ UnitGrid      │ not there
//!                             └───────────────┴─► read, then UnitWriter or UnitTarget ─► tier
//! ```
//!
//! It knows nothing of HDF5: who uses it says what a selection is, and reads units.
//!
//! | file | what it holds |
//! |---|---|
//! | `unit_grid`, `unit_set` | an array cut into units; a set of them |
//! | `read_plan` | which bytes of which unit a selection wants, and where they go |
//! | `data_places` | where in a file the elements of an array lie: in one piece, or in chunks |
//! | `dataset_units` | what a process knows of the units of one data set |
//! | `unit_target`, `unit_writer` | where units go: at once, or by a thread behind the reader, within a bound of memory |
//! | `cache_stats` | what was hit, filled, passed, kept, refused |

pub mod cache_stats;
pub mod data_places;
pub mod dataset_units;
pub mod read_plan;
pub mod unit_grid;
pub mod unit_set;
pub mod unit_target;
pub mod unit_writer;

pub use cache_stats::{CacheCounters, CacheStats};
pub use data_places::{ChunkAddresses, DataPlaces};
pub use dataset_units::DatasetUnits;
pub use read_plan::{ByteRun, PlacedPiece, UnitDemand};
pub use unit_grid::{MOST_DIMENSIONS, UnitBox, UnitGrid, UnitPiece};
pub use unit_set::UnitSet;
pub use unit_target::{BlockClaim, UnitTarget};
pub use unit_writer::{QueuePatience, UnitOrigin, UnitWriter, WAITING_BYTES, WaitingUnit};
