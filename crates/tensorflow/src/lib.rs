//! A TensorFlow file-system plug-in, `libforebay_tensorflow.so`: what TensorFlow opens under `forebay://` is read through tiers.
//!
//! ```text
//!  tf.data, tf.io.gfile ──► TensorFlow ── forebay:///pfs/train.tfrecord ──► callbacks ──► TierFiles ─► tiers ─► /pfs/train.tfrecord
//!                              │ dlopen, TF_InitPlugin                          │
//!                              └─ TF_SetStatus, found at run time ◄─────────────┘ how each call went
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `interface` | the structures of TensorFlow's `filesystem_interface.h`, and their layout |
//! | `plugin` | `TF_InitPlugin`: the tables of callbacks, in memory that TensorFlow frees |
//! | `folder_operations`, `file_operations` | the callbacks: names and folders; the bytes of a file |
//! | `foreign_memory` | values and texts in memory that TensorFlow frees |
//! | `status` | how a call went, in TensorFlow's codes; no panic leaves a callback |
//! | `tier_files` | files of this machine, read through the tiers of the configuration |
//! | `control` | what `forebay.tensorflow` calls: tiers chosen by the program, statistics |
//!
//! It is not linked against TensorFlow, so that one build serves all versions whose interface has the same ABI numbers.

#![expect(unsafe_code, reason = "functions are called by TensorFlow, with pointers that it answers for")]

mod control;
mod file_operations;
mod folder_operations;
mod foreign_memory;
mod interface;
mod plugin;
mod status;
mod tier_files;

pub use control::{forebay_tensorflow_open, forebay_tensorflow_stats};
pub use interface::PluginInfo;
pub use plugin::TF_InitPlugin;
