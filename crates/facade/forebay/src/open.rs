//! The way from a path to an opened container.

use std::sync::Arc;

use forebay_container::Container;
use forebay_format::{Opened, describe, is_registered};
use forebay_process::Result;
use forebay_source::{Locator, Origin, Source};

use crate::{IndexCache, Origins, describe_cost::describe_counting};

/// Opens what lies at `at`: by its saved index where `cache` has one, else by describing it, which is then saved.
pub fn open(origin: Arc<dyn Origin>, at: &Locator, cache: Option<&IndexCache>) -> Result<Opened> {
    // A folder is no source, and has no version of its own that would tell that something in it has changed.
    let Ok(source) = origin.open(at) else {
        let container = describe(&*origin, at)?;
        return Ok(Opened::new(origin, Arc::new(container)));
    };
    let container = container_of(&origin, at, &*source, cache)?;
    // Held from before it is described until it is read: each file would otherwise be opened three times.
    Ok(Opened::new(origin, Arc::new(container)).with_first_source(source))
}

/// The description of what lies at `at`, which was opened as `source`.
fn container_of(
    origin: &Arc<dyn Origin>,
    at: &Locator,
    source: &dyn Source,
    cache: Option<&IndexCache>,
) -> Result<Container> {
    let Some(cache) = cache else { return describe(&**origin, at) };
    if is_registered(&**origin, at)? {
        return describe(&**origin, at);
    }
    if let Some(container) = cache.get(&**origin, source.id()) {
        return Ok(container);
    }
    let (container, cost) = describe_counting(origin, at, source.request_bytes())?;
    cache.put(source.id(), &container, cost);
    Ok(container)
}

/// Bytes of small, far files that are held so that description and fields of one come by one request.
pub(crate) const WHOLE_BYTES: u64 = 32 << 20;

/// Opens the file at `path`, which may be a URL, with all defaults.
///
/// ```no_run
/// let file = forebay::open_file("era5.h5")?;
/// let variable = file.container().variable("t2m")?;
/// let first = file.read(variable, &forebay::Selection::parse("0:1", &variable.grid.shape)?)?;
/// # Ok::<(), forebay::Error>(())
/// ```
pub fn open_file(path: &str) -> Result<Opened> {
    open_file_with(path, IndexCache::of_user().as_ref())
}

/// As [`open_file`], with the saved indexes of `cache` or none.
pub fn open_file_with(path: &str, cache: Option<&IndexCache>) -> Result<Opened> {
    let origins = Origins::new().reading_whole(WHOLE_BYTES);
    let at = origins.locate(path)?;
    open(Arc::clone(origins.of(&at)), &at, cache)
}
