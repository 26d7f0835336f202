//! The copies that are in use, by their names.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use super::{mirror::Copy, name::MirrorName};

/// The copies that are in use, by their names.
#[derive(Debug, Default)]
pub(super) struct InUse {
    pub(super) copies: HashMap<MirrorName, Weak<Copy>>,
    /// How many there are when those that nobody uses any more are removed.
    pub(super) sweep_at: usize,
}

/// Fewer copies are not worth a sweep.
const LEAST_SWEPT: usize = 64;

impl InUse {
    pub(super) fn get(&self, name: MirrorName) -> Option<Arc<Copy>> {
        self.copies.get(&name).and_then(Weak::upgrade)
    }

    /// Counts `copy` in, and says how many were looked at for that: about two each, however many there are.
    pub(super) fn insert(&mut self, copy: &Arc<Copy>) -> usize {
        let mut looked_at = 1;
        if self.copies.len() >= self.sweep_at {
            looked_at += self.copies.len();
            self.copies.retain(|_, copy| copy.strong_count() > 0);
            self.sweep_at = (2 * self.copies.len()).max(LEAST_SWEPT);
        }
        self.copies.insert(copy.name, Arc::downgrade(copy));
        looked_at
    }
}
