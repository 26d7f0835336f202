//! Placement of blocks: the rank that copies a block, and the parts of the table in which others look for it.

/// The ranks that place a block, and where the others look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacedBy {
    /// One home rank for each block, by its digest. Every rank has a part, and a reader that does not know a block looks it up in the
    /// one part that may hold it.
    HomeRank,
    /// Whichever rank reads a block first, in the part of its host. A reader looks at its own host, and at the others only when it is
    /// told to, for many blocks at once: a block that nobody has would cost every read a request to all hosts.
    AnyRank,
}

impl PlacedBy {
    /// True when a read looks up the blocks that it does not know.
    pub(crate) fn looks_up_on_read(self) -> bool {
        self == Self::HomeRank
    }

    /// True when a forked child may ask for memory that it has not mapped.
    pub(crate) fn serves_children(self) -> bool {
        self == Self::HomeRank
    }

    /// Seconds after which a claim that is still open was left behind by a process that has ended. A home has the only process that
    /// claims in its part, and gives back what it does not fill.
    pub(crate) fn abandoned_s(self) -> u64 {
        match self {
            Self::HomeRank => u64::MAX,
            Self::AnyRank => 30,
        }
    }
}
