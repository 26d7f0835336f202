//! How many threads a read may be shared among.

use std::sync::OnceLock;

/// The process that started the pool of threads.
static POOL_OWNER: OnceLock<u32> = OnceLock::new();

/// Threads of the pool this runs in: one in a forked child, which has inherited the pool without its threads and
/// would wait for them for ever.
pub(crate) fn count() -> usize {
    let process = std::process::id();
    if *POOL_OWNER.get_or_init(|| process) == process { rayon::current_num_threads() } else { 1 }
}
