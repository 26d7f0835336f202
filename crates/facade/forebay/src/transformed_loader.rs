//! Loaders whose batches are transformed.

use std::sync::Arc;

use forebay_batch::{Backing, PlainBacking};
use forebay_loader::Loader;
use forebay_process::Result;
use forebay_transform::{BatchRoom, FieldForm, TransformSpec, Transformed};

/// Has the batches of `loader`, of fields `forms`, transformed as `spec` says; they lie in memory of `backing`, if one is given.
pub fn transform_batches(
    loader: &mut Loader,
    forms: &[FieldForm],
    spec: &TransformSpec,
    backing: Option<Arc<dyn Backing>>,
) -> Result<()> {
    if spec.is_none() {
        return Ok(());
    }
    let batch_size = loader.options().batch_size;
    // Two are the consumer's at least: one it is given while it still holds the one before.
    let held = loader.options().held.max(2) as u64;
    let batches = loader.in_force().batches_ahead + held;
    let backing = backing.unwrap_or_else(|| Arc::new(PlainBacking::default()));
    let room = BatchRoom { batch_size, batches, backing };
    loader.decorate(|maker| Ok(Arc::new(Transformed::new(maker, forms, spec, room)?)))
}
