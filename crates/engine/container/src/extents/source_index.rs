//! Which of a container's sources.

use serde::{Deserialize, Serialize};

/// Position of a source in [`Container::sources`](crate::Container::sources).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceIndex(pub u32);
