//! Memory of a loader: what it is divided into, and the decoded units that lie in it.
//!
//! | file | idea |
//! |---|---|
//! | `setup`, `shares`, `longest` | what is decided before anything is read; how memory is divided; samples that are too long for it |
//! | `cache`, `ledger`, `horizon` | decoded units in memory, by their next use, and on disk when there is no room |
//! | `spill`, `bitmap` | a file for units of one length that memory has no room for, of one process or of all of a node; a set of numbers |
//! | `spill_folder` | where such a file goes |

mod bitmap;
pub(crate) mod cache;
pub(crate) mod horizon;
pub(crate) mod ledger;
pub(crate) mod longest;
pub(crate) mod setup;
pub(crate) mod shares;
pub(crate) mod spill;
pub(crate) mod spill_folder;
