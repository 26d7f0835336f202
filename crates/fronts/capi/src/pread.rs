//! Bytes of files through the tiers of the configuration: the one call that a program needs to read near copies of far files.

use std::{
    ffi::c_char,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use forebay::{
    Error, Origins, Result, Settings,
    config::Overrides,
    process::PerProcess,
    source::{ByteRange, Fill, SourceExt},
    tier::Tiered,
};

use crate::{
    border::{OutArg, TextArg, owned_text, place, room},
    status::{OK, guard, guard_value},
};

/// Where files are read from, and the tiers between, which the first call opens.
struct TierReader {
    origins: Origins,
    tiered: Option<Arc<Tiered>>,
}

static READER: PerProcess<Mutex<Option<Arc<TierReader>>>> = PerProcess::empty();

fn with_reader<T>(use_it: impl FnOnce(MutexGuard<'_, Option<Arc<TierReader>>>) -> T) -> T {
    READER.with(Mutex::default, |reader| use_it(reader.lock().unwrap_or_else(PoisonError::into_inner)))
}

fn reader() -> Result<Arc<TierReader>> {
    with_reader(|mut kept| {
        if let Some(reader) = &*kept {
            return Ok(Arc::clone(reader));
        }
        let config = Settings::load(&Overrides::default())?.config;
        let (origins, tiered) = Origins::new().through_tiers(&config, None)?;
        let reader = Arc::new(TierReader { origins, tiered });
        *kept = Some(Arc::clone(&reader));
        Ok(reader)
    })
}

impl TierReader {
    /// Fills `into` from `offset` on, as far as the file goes. It is opened anew, so that each call sees the file of now.
    fn read(&self, path: &str, into: &mut [u8], offset: u64) -> Result<usize> {
        let at = self.origins.locate(path)?;
        let source = self.origins.of(&at).open(&at)?;
        let there = usize::try_from(source.id().len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = there.min(into.len());
        if len > 0 {
            let range = ByteRange::at(offset, len as u64);
            source.fetch_into(&mut [Fill { range, into: &mut into[..len] }])?;
        }
        Ok(len)
    }
}

/// Reads as `pread` does, through the tiers; gives the bytes that were read, 0 at the end, or the code of an error.
#[unsafe(no_mangle)]
extern "C" fn forebay_pread(path: TextArg, buffer: *mut u8, len: usize, offset: u64) -> i64 {
    let mut read = 0;
    let code = guard(|| {
        let path = path.path("path")?;
        let into = room(buffer, len, "buffer")?;
        read = reader()?.read(&path, into, offset)?;
        Ok(OK)
    });
    if code == OK { i64::try_from(read).unwrap_or(i64::MAX) } else { i64::from(code) }
}

/// What was read from where, as JSON; `null` without tiers.
#[unsafe(no_mangle)]
extern "C" fn forebay_pread_stats(json: OutArg<'_, *mut c_char>) -> i32 {
    guard(|| {
        let json = place(json, "json")?;
        let stats = reader()?.tiered.as_ref().map(|tiered| tiered.stats());
        let text = serde_json::to_string(&stats).map_err(|error| Error::invalid(error.to_string()))?;
        json.write(owned_text(text));
        Ok(OK)
    })
}

/// Leaves the tiers; the next read opens them anew, by the configuration of then.
#[unsafe(no_mangle)]
extern "C" fn forebay_pread_close() {
    guard_value((), || {
        let left = with_reader(|mut kept| kept.take());
        if let Some(tiered) = left.as_ref().and_then(|reader| reader.tiered.as_ref()) {
            tiered.close();
        }
        Ok(())
    });
}
