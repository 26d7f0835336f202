//! The description that a format reader ends at, as plain data: what arrays there are and where their values lie.
//!
//! ```text
//! Container ─► Variable ─┬─ Dtype     what one element is
//!                        ├─ Grid      shape and chunks
//!                        ├─ Filter…   what was done to a chunk
//!                        └─ Extents   where each chunk's bytes lie: source and range
//! ```
//!
//! A container can be saved, sent to other ranks and compared; code that reads values from it knows no format.
//!
//! | file | idea |
//! |---|---|
//! | `container`, `file_order`, `variable`, `dimension_scales` | what is there, in which order, and which attributes are a format's own |
//! | `dtype/` | what one element is, and how it is stored |
//! | `extents`, `chunk_table`, `source_index`, `segments`, `shards`, `boxes`, `box_layout`, `mapping`, `mappings`, `interval_tree`, `heap` | where values lie: chunks, segments, shards, boxes, parts of other variables |
//! | `shape`, `grid`, `selection`, `slabs`, `runs`, `windows`, `window_axis`, `sample_index`, `sample_starts`, `series`, `repeated`, `gaps` | arithmetic of chunks, hyperslabs, ranges read as one, and boxes that are samples, over several files too, but not over gaps |
//! | `sample_spec` | what a sample is, as the user says it |
//! | `row_alone`, `cost`, `chunk_sizes` | whether rows can be read by themselves, what that costs, how long stored chunks are |
//! | `native/`, `nonstandard`, `convert`, `scalar`, `array` | stored elements as the machine's own numbers, values with a shape |
//! | `cast`, `recode`, `categories` | numbers as other numbers, by NumPy's rules and by a table; tables of names, joined |
//! | `cf/` | what attributes say of values by the CF conventions: packed numbers, missing values, times |
//! | `unpack/` | values made of packed numbers as those attributes say |
//! | `names`, `group_pattern` | what formats write into a description themselves; patterns that name groups |
//! | `saved` | the description as bytes |

mod array;
mod box_layout;
mod boxes;
pub mod cast;
pub mod categories;
pub mod cf;
mod chunk_sizes;
mod chunk_table;
mod container;
pub mod convert;
mod cost;
mod dimension_scales;
mod dtype;
mod extents;
mod file_order;
pub mod gaps;
pub mod grid;
pub mod group_pattern;
mod heap;
mod interval_tree;
pub mod mapping;
mod mappings;
pub mod names;
pub mod native;
pub mod nonstandard;
pub mod recode;
pub mod repeated;
mod row_alone;
pub mod runs;
pub mod sample_index;
pub mod sample_spec;
pub mod sample_starts;
mod saved;
mod scalar;
mod segments;
mod selection;
pub mod series;
pub mod shape;
mod shards;
mod slabs;
mod source_index;
pub mod unpack;
mod variable;
pub mod window_axis;
pub mod windows;

pub use array::{Array, Values};
pub use box_layout::{PlacedBlock, lay_out_boxes};
pub use boxes::{ArrayBox, Boxes};
pub use chunk_sizes::ChunkSizes;
pub use chunk_table::{ChunkTable, Extent};
pub use container::{Alias, Container, Group, Refused};
pub use cost::{RowCost, row_cost};
pub use dimension_scales::{
    AXIS_LABELS, AXIS_NUMBERS, OWN_NUMBER, SCALE_LIST, is_netcdf_attribute, says_scale,
};
pub use dtype::{Dtype, Field, Member, NonstandardBits, Padding, holder};
pub use extents::{Extents, Opaque};
pub use forebay_filter::{ByteOrder, Filter, Number};
pub use grid::{Grid, Overlap, Overlaps};
pub use heap::Heap;
pub use mapping::{HyperslabAxis, Mapping};
pub use mappings::Mappings;
pub use row_alone::{RowAlone, row_alone};
pub use runs::{ArrayPart, ElementRun, Runs};
pub use saved::{load, save};
pub use scalar::Scalar;
pub use segments::{Segment, Segments};
pub use selection::{Selection, Span};
pub use shards::{InShard, ShardIndex, ShardIndexForm, Shards};
pub use slabs::{SlabSizes, slabs};
pub use source_index::SourceIndex;
pub use variable::{Attribute, Variable};
