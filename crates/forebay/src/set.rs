//! From paths and fields to a set of samples: files are described in parallel, or by their saved indexes.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use forebay_format::Opened;
use forebay_loader::{SampleSet, SampleSpec};
use forebay_source::{Error, ErrorKind, FileOrigin, Locator, Origin, Result, WholeOrigin};
use serde::{Deserialize, Serialize};

use crate::{IndexCache, expand, open};

/// Which files, and what of them is a sample; plain data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetSpec {
    /// Lists of files that fields count from 0: paths, patterns or folders.
    pub files: Vec<Vec<String>>,
    /// The fields.
    pub fields: SampleSpec,
}

/// Bytes of small, far files that are held so that description and fields of one come by one request.
pub(crate) const WHOLE_BYTES: u64 = 32 << 20;

/// The samples of `spec`, whose files lie on this machine's file systems.
pub fn open_set(spec: SetSpec, cache: Option<&IndexCache>) -> Result<SampleSet> {
    open_set_on(Arc::new(FileOrigin::new()), spec, cache)
}

/// The samples of `spec`, whose files `origin` has; patterns and folders are looked up on this machine.
pub fn open_set_on(origin: Arc<dyn Origin>, spec: SetSpec, cache: Option<&IndexCache>) -> Result<SampleSet> {
    let origin: Arc<dyn Origin> = Arc::new(WholeOrigin::new(origin, WHOLE_BYTES));
    let lists = spec.files.iter().map(|list| expand(list)).collect::<Result<Vec<_>>>()?;
    let files = lists.iter().map(|list| open_all(&origin, list, cache)).collect::<Result<Vec<_>>>()?;
    SampleSet::new(spec.fields, &files)
}

/// Opens all of `paths`; the first that fails, in their order, is the error.
fn open_all(
    origin: &Arc<dyn Origin>,
    paths: &[String],
    cache: Option<&IndexCache>,
) -> Result<Vec<Arc<Opened>>> {
    // Threads of its own: a pool would be dead in a process that was forked.
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(paths.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut opened = Vec::new();
        loop {
            let index = next.fetch_add(1, Relaxed);
            let Some(path) = paths.get(index) else { return opened };
            let one = open(Arc::clone(origin), &Locator::new(path.as_str()), cache);
            let failed = one.is_err();
            opened.push((index, one.map(Opened::on_caller_thread)));
            if failed {
                next.store(paths.len(), Relaxed);
            }
        }
    };
    let mut opened = if threads <= 1 {
        work()
    } else {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
        })
    };
    opened.sort_by_key(|(index, _)| *index);
    let opened = opened.into_iter().map(|(_, one)| one.map(Arc::new)).collect::<Result<Vec<_>>>()?;
    if opened.len() != paths.len() {
        return Err(Error::new(ErrorKind::Bug, "a thread that opens files panicked"));
    }
    Ok(opened)
}
