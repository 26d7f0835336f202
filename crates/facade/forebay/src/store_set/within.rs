//! How many batches of a store are made at a time, by the memory there is for them.

use forebay_loader::Options;
use forebay_process::{Result, ledger};
use forebay_store::Store;

/// `options` with as many threads and batches ahead as `memory` has room for, of the variables `names` of `store`; at least one.
pub fn store_options_within(
    store: &Store,
    names: &[String],
    memory: u64,
    options: Options,
) -> Result<Options> {
    let mut batch_bytes = 0u128;
    for name in names {
        let variable = store.variable(name)?;
        let factors = [variable.lens().total(), variable.row_len(), variable.runs(), options.batch_size];
        let bytes = factors.into_iter().fold(1u128, |bytes, factor| bytes.saturating_mul(factor.into()));
        batch_bytes = batch_bytes.saturating_add(bytes / u128::from(variable.sample_count().max(1)));
    }
    let room = usize::try_from(u128::from(memory) / batch_bytes.max(1)).unwrap_or(usize::MAX);
    let room = room.saturating_sub(options.held).max(1);
    let threads = options.read_threads.unwrap_or_else(|| ledger().threads()).min(room);
    // A thread has a batch of its own, besides those that were made ahead.
    let prefetch = options.prefetch.min(room.saturating_sub(threads));
    Ok(Options { read_threads: Some(threads), prefetch, ..options })
}
