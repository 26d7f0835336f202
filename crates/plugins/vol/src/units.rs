//! Values of arrays in a tier, unit by unit: how an array is cut, what a read wants of it, and what is put there behind it.
//!
//! ```text
//!  selection ─► ByteRun… ─► read_plan ─► PlacedPiece… ─► tier ─► memory
//!                             │ UnitGrid      │ not there
//!                             └───────────────┴─► read, then UnitWriter or UnitTarget ─► tier
//! ```
//!
//! Nothing here knows of HDF5: callers describe selections and read units.
//!
//! | file | what it holds |
//! |---|---|
//! | `unit_grid`, `unit_set` | an array cut into units; a set of them |
//! | `read_plan` | which bytes of which unit a selection wants, and where they go |
//! | `data_places` | where in a file the elements of an array lie: in one piece, or in chunks |
//! | `dataset_units` | what a process knows of the units of one data set |
//! | `unit_target`, `unit_writer` | where units go: at once, or by a thread behind the reader, within a bound of memory |
//! | `cache_stats` | what was hit, filled, passed, kept, refused |

pub(crate) mod cache_stats;
pub(crate) mod data_places;
pub(crate) mod dataset_units;
pub(crate) mod read_plan;
pub(crate) mod unit_grid;
pub(crate) mod unit_set;
pub(crate) mod unit_target;
pub(crate) mod unit_writer;
