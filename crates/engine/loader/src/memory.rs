//! Memory of a loader: what it is divided into, and the decoded units that lie in it.
//!
//! | file | idea |
//! |---|---|
//! | `setup`, `shares`, `longest` | what is decided before anything is read; how memory is divided; samples that are too long for it |
//! | `cache`, `ledger`, `horizon` | decoded units in memory, by their next use, and on disk when there is no room |

pub(crate) mod cache;
pub(crate) mod horizon;
pub(crate) mod ledger;
pub(crate) mod longest;
pub(crate) mod setup;
pub(crate) mod shares;
