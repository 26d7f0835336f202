//! The mirrors that this process has in use, by their names.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use super::{mirror::Mirror, name::MirrorName};

/// The mirrors that this process has in use, by their names.
#[derive(Debug, Default)]
pub(super) struct OpenMirrors {
    pub(super) mirrors: HashMap<MirrorName, Weak<Mirror>>,
    /// How many there are when those that are out of use are removed.
    pub(super) sweep_at: usize,
}

/// Fewer mirrors are not swept.
const LEAST_SWEPT: usize = 64;

impl OpenMirrors {
    pub(super) fn get(&self, name: MirrorName) -> Option<Arc<Mirror>> {
        self.mirrors.get(&name).and_then(Weak::upgrade)
    }

    /// Adds `mirror`, and gives how many entries were looked at for that: about two each, however many there are.
    pub(super) fn insert(&mut self, mirror: &Arc<Mirror>) -> usize {
        let mut looked_at = 1;
        if self.mirrors.len() >= self.sweep_at {
            looked_at += self.mirrors.len();
            self.mirrors.retain(|_, mirror| mirror.strong_count() > 0);
            self.sweep_at = (2 * self.mirrors.len()).max(LEAST_SWEPT);
        }
        self.mirrors.insert(mirror.name, Arc::downgrade(mirror));
        looked_at
    }
}
