//! What a batch is: its memory, how other libraries see it, and the seam that fills it.
//!
//! ```text
//! BatchRequest ─► BatchMaker ─► MadeFields ─► FieldArray… ─► DLPack
//! which samples   from files,    and what is    memory of      tensor
//!                 a store, …     to verify      an Arena
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `backing` | where memory comes from |
//! | `arena/`, `scratch_vec` | memory that is used again: of batches; of the lists that a thread makes for each field |
//! | `reserve`, `turn` | memory that is set aside before it is taken; whether a batch made ahead may take what is short |
//! | `batch_memory` | memory for the fields of one batch, apart or side by side |
//! | `pinned` | memory that a device copies from by itself |
//! | `field_array` | one field of a batch, and what has to be verified before it is shown |
//! | `dlpack` | how other libraries see it |
//! | `batch_maker` | the seam: from numbers of samples to the fields of a batch |
//! | `stats`, `effort`, `depth` | what makers and loaders count; what a thread did with its time; how many threads make batches, by that |

mod arena;
mod backing;
mod batch_maker;
mod batch_memory;
mod depth;
mod dlpack;
mod effort;
mod field_array;
mod pinned;
mod reserve;
pub mod scratch_vec;
mod stats;
mod turn;

pub use arena::{Arena, Buffer, room};
pub use backing::{ALIGNMENT, Backing, PlainBacking, RegionUse};
pub use batch_maker::{BatchMaker, BatchRequest, MadeFields, MakerThreads};
pub use batch_memory::BatchMemory;
pub use depth::Depth;
pub use dlpack::{
    DL_CPU, DL_FLAG_IS_COPIED, DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned,
    DLPackVersion, DLTensor,
};
pub use effort::{Effort, ThreadClock};
pub use field_array::{FieldArray, Verify};
pub use pinned::{PinnedBacking, PinnedStats, RegisterMemory};
pub use reserve::ReservedMemory;
pub use stats::{Bottleneck, LoaderCounters, LoaderStats, nanos};
pub use turn::{AtOnce, BatchTurn, MemoryTurn};
