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
//! | `container/` | what is there, in which order, and which attributes are a format's own; the description as bytes |
//! | `dtype/` | what one element is, and how it is stored |
//! | `extents/` | where values lie: chunks, segments, shards, boxes, parts of other variables |
//! | `grid/` | arithmetic of chunks, hyperslabs, and ranges read as one |
//! | `samples/` | what a sample is, as the user says it, and the boxes that are samples, over several files too, but not over gaps |
//! | `cost/` | whether rows can be read by themselves, what that costs, how long stored chunks are |
//! | `values/` | stored elements as the machine's own numbers, values with a shape; numbers as other numbers |
//! | `cf/` | what attributes say of values by the CF conventions: packed numbers, missing values, times |
//! | `unpack/` | values made of packed numbers as those attributes say |

pub mod cf;
mod container;
mod cost;
mod dtype;
mod extents;
pub mod grid;
mod samples;
pub mod unpack;
mod values;

pub use container::dimension_scales::{
    AXIS_LABELS, AXIS_NUMBERS, OWN_NUMBER, SCALE_LIST, is_netcdf_attribute, says_scale,
};
pub use container::saved::{load, save};
pub use container::variable::{Attribute, Variable};
pub use container::{Alias, Container, Group, Refused};
pub use container::{group_pattern, names};
pub use cost::chunk_sizes::ChunkSizes;
pub use cost::row_alone::{RowAlone, row_alone};
pub use cost::{RowCost, row_cost};
pub use dtype::{Dtype, Field, Member, NonstandardBits, Padding, holder};
pub use extents::box_layout::{PlacedBlock, lay_out_boxes};
pub use extents::boxes::{ArrayBox, Boxes};
pub use extents::chunk_table::{ChunkTable, Extent};
pub use extents::heap::Heap;
pub use extents::mapping;
pub use extents::mapping::{HyperslabAxis, Mapping};
pub use extents::mappings::Mappings;
pub use extents::segments::{Segment, Segments};
pub use extents::shards::{InShard, ShardIndex, ShardIndexForm, Shards};
pub use extents::source_index::SourceIndex;
pub use extents::{Extents, Opaque};
pub use forebay_filter::{ByteOrder, Filter, Number};
pub use grid::runs::{ArrayPart, ElementRun, Runs};
pub use grid::selection::{Selection, Span};
pub use grid::slabs::{SlabSizes, slabs};
pub use grid::{Grid, Overlap, Overlaps};
pub use grid::{runs, shape, windows};
pub use samples::{gaps, repeated, sample_index, sample_spec, sample_starts, series, window_axis};
pub use values::array::{Array, Values};
pub use values::scalar::Scalar;
pub use values::{cast, categories, convert, native, nonstandard, recode};
