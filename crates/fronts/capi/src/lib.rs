//! The C interface, `libforebay.so` and `forebay.h`: sets, loaders and batches for any program that can take a pointer.
//!
//! ```text
//!  forebay_dataset_open ─► forebay_loader_new ─► forebay_loader_next ─► forebay_batch_tensor ─► DLManagedTensorVersioned
//!  files, fields            order, ranks          one batch, or the end    no copy                any framework
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `border` | arguments and results of C: texts, lists, structures with a version, places to write to |
//! | `status` | error kinds as codes, the last error of a thread, the guard that no panic passes |
//! | `dataset_arguments`, `loader_arguments` | the structures of options, and what they ask for |
//! | `dataset`, `loader`, `batch` | sets of samples, epochs of batches, fields as tensors |
//! | `file` | one file: what is in it, and a part of a variable |
//! | `pread` | bytes of files through the tiers of the configuration |
//! | `stage` | staged writes |
//! | `store` | a set in the memory of all ranks of a job |
//! | `turns` | which of the threads that share a loader is next |
//!
//! Handles are boxes that the caller owns, and may be used by many threads at once. What the caller promises stands in
//! `forebay.h`: a handle is one that was given out and was not freed, and a place to write to is there.

#![expect(unsafe_code, reason = "functions are called by C, with pointers that it answers for")]

mod batch;
mod border;
mod dataset;
mod dataset_arguments;
mod file;
mod loader;
mod loader_arguments;
mod pread;
mod stage;
mod status;
mod store;
mod turns;
