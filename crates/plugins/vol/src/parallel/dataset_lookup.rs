//! Which data set of a file that ranks have open together a handle stands for.

use std::sync::Arc;

use super::parallel_dataset::ParallelDataset;
use crate::{
    dataset::{dataset_changes, under_dataset::UnderDataset},
    slots::LoadedLibrary,
    vol_object::VolObject,
};

/// The data set `object`, if its file is one that ranks have open together: looked up once.
pub(crate) fn parallel_dataset<'a>(
    library: &LoadedLibrary,
    object: &'a VolObject,
) -> Option<&'a ParallelDataset> {
    if !library.files.has_parallel() {
        return None;
    }
    let found = object.parallel.get_or_init(|| {
        library.quietly(|| {
            let (managed, _) = dataset_changes::identity(library, object)?;
            let file = Arc::clone(managed.parallel()?);
            let under = UnderDataset { object: object.under, connector: object.connector };
            Some(Box::new(ParallelDataset::new(library, under, managed, file)))
        })
    });
    found.as_deref()
}
