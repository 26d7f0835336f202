//! Files that several ranks have open by MPI-IO: reads decided together, writes staged by each rank on its own.
//!
//! ```text
//!  H5Dwrite ─► DataPlaces: selection ─► offset + bytes ─► redo log of this rank ─► our threads: pwrite
//!  H5Dread  ─► own log drained, others' logs awaited ─► rank_board ─► cache: all ranks or none, if it is collective
//!  H5Fflush, H5Fclose, H5Dset_extent, H5Ldelete … ─► settle: own log drained, outcome of all ranks gathered
//! ```
//!
//! No thread of ours calls HDF5 or MPI. What MPI-IO opened is never opened by this project's own file driver.
//!
//! | file | what it holds |
//! |---|---|
//! | `mpi_lists` | what property lists say of MPI: the communicator of a file, collective or not |
//! | `opening` | what ranks agree on when they open a file |
//! | `parallel_file` | a file that ranks have open together |
//! | `rank_board`, `board_words`, `own_words`, `byte_spans` | how far each rank is with its writes, and of which bytes, where all others see it |
//! | `data_comm` | how ranks read each other's memory |
//! | `drain_watch` | the thread that notes on the board what was drained |
//! | `process_area` | the staging area of this process |
//! | `chunk_table` | where in the file the chunks of a data set lie |
//! | `parallel_dataset`, `dataset_lookup` | a data set of such a file, and which one a handle stands for |
//! | `gather`, `staged_write` | a write: gathered from memory, accepted by the log |
//! | `collective_read` | a read that all ranks make together |
//! | `shared_cache` | the cache that ranks have in common |
//! | `settling` | what has to be in the file before HDF5 looks at it |
//! | `unlinking` | data sets that lose their last link |
//! | `parallel_stats` | counters |

pub(crate) mod board_words;
pub(crate) mod byte_spans;
pub(crate) mod chunk_table;
pub(crate) mod collective_read;
pub(crate) mod data_comm;
pub(crate) mod dataset_lookup;
pub(crate) mod drain_watch;
pub(crate) mod gather;
pub(crate) mod mpi_lists;
pub(crate) mod opening;
pub(crate) mod own_words;
pub(crate) mod parallel_dataset;
pub(crate) mod parallel_file;
pub(crate) mod parallel_stats;
pub(crate) mod process_area;
pub(crate) mod rank_board;
pub(crate) mod settling;
pub(crate) mod shared_cache;
pub(crate) mod staged_write;
pub(crate) mod unlinking;
