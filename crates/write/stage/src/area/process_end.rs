//! What happens when the process ends while drains go on behind it (`atexit`).
//!
//! A process that ends by `_exit` or a signal leaves its items to `recover`.

#![expect(unsafe_code, reason = "no library has a way to run something at the end of the process")]

use std::{
    io::{self, Write},
    ops::ControlFlow,
    panic,
    sync::{Arc, Mutex, Once, PoisonError, Weak},
};

use forebay_process::PerProcess;

use crate::area::engine::EngineCell;

/// The areas of this process. A forked child has none: those of its parent are drained by the parent.
static AREAS: PerProcess<Mutex<Vec<Weak<EngineCell>>>> = PerProcess::empty();
static REGISTERED: Once = Once::new();

/// Has `area` drained before the process ends.
pub(crate) fn drain_at_end(area: &Arc<EngineCell>) {
    REGISTERED.call_once(|| {
        // SAFETY: the function has the type that is asked for, and is never unloaded while it is registered.
        unsafe { libc::atexit(drain_all) };
    });
    let areas = AREAS.get(Mutex::default);
    let mut areas = areas.lock().unwrap_or_else(PoisonError::into_inner);
    areas.retain(|there| there.strong_count() > 0);
    if !areas.iter().any(|there| Weak::ptr_eq(there, &Arc::downgrade(area))) {
        areas.push(Arc::downgrade(area));
    }
}

/// Has the end of the process not wait for `area`.
pub(crate) fn forget(area: &Arc<EngineCell>) {
    let Some(areas) = AREAS.peek() else { return };
    let mut areas = areas.lock().unwrap_or_else(PoisonError::into_inner);
    areas.retain(|there| !Weak::ptr_eq(there, &Arc::downgrade(area)));
}

extern "C" fn drain_all() {
    // A panic must not cross into the C library, which would end the process with a message about that.
    let _ = panic::catch_unwind(drain_areas);
}

fn drain_areas() {
    let Some(areas) = AREAS.peek() else { return };
    let areas: Vec<_> =
        areas.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
    for area in areas {
        let Some(engine) = area.peek() else { continue };
        if let Err(error) = engine.drain(&|_| ControlFlow::Continue(())) {
            let _ = writeln!(io::stderr(), "forebay: {error}; 'forebay recover' finishes it later");
        }
    }
}
