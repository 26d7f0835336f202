//! libsilo, found at run time: reads arrays of PDB files that no machine of today stores that way.
//!
//! libsilo trusts what it opens: a file is handed over only after `pdb` has made out its header, types and symbols,
//! and the array's own. It is not thread safe, so one lock is held from opening to closing.

mod ffi;
mod find;

use std::{
    ffi::CString,
    os::unix::ffi::OsStrExt,
    sync::{Mutex, PoisonError},
};

use forebay_process::{Error, ErrorKind, PerProcess, Result};

use self::ffi::SiloCalls;
use crate::{ReadRequest, Reader};
use forebay_container::runs::ArrayPart;
use forebay_container::{Array, Dtype, Number, Values};

/// What the reader is called.
pub(super) const NAME: &str = "libsilo";

/// A forked child has a lock of its own: another thread of its parent may have been in the library, lock in hand.
static LIBRARY: PerProcess<Mutex<Option<SiloCalls>>> = PerProcess::empty();

/// libsilo, where one is found.
#[derive(Debug)]
pub(crate) struct Libsilo;

impl Reader for Libsilo {
    fn name(&self) -> &str {
        NAME
    }

    fn read(&self, wanted: &ReadRequest<'_>) -> Result<Array> {
        let variable = wanted.variable;
        let shape = wanted.selection.shape();
        let Dtype::Number { number, .. } = variable.dtype else {
            return Err(Error::new(ErrorKind::Bug, "libsilo is asked for what is no number"));
        };
        let all = whole(wanted, number)?;
        let len = wanted.selection.element_count().saturating_mul(number.size() as u64);
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| too_long(len))?];
        let start = vec![0; shape.len()];
        let part = ArrayPart {
            from_shape: &variable.grid.shape,
            selection: wanted.selection,
            to_shape: &shape,
            to_start: &start,
        };
        part.copy(&all, &mut bytes, number.size());
        Ok(Array { dtype: variable.dtype.clone(), shape, values: Values::Fixed(bytes) })
    }
}

/// Version and path of the libsilo that reads what forebay itself cannot; `None` where there is none.
pub fn libsilo_version() -> Option<String> {
    with(|library| Ok(library.to_string())).ok()
}

/// All elements of what is wanted: libsilo's own slices take as long and have limits of their own.
fn whole(wanted: &ReadRequest<'_>, number: Number) -> Result<Vec<u8>> {
    let len = wanted.variable.logical_len();
    if len.saturating_mul(2) > wanted.opened.budget() {
        return Err(too_long(len));
    }
    let path = wanted.opened.local_path(wanted.opaque.source)?;
    let text = |bytes: &[u8]| {
        CString::new(bytes).map_err(|_| Error::new(ErrorKind::Invalid, "a name with a NUL in it"))
    };
    let (path, name) = (text(path.as_os_str().as_bytes())?, text(wanted.opaque.name.as_bytes())?);
    let count = wanted.variable.grid.element_count();
    let bytes = with(|library| library.read(&path, &name, number, count))?;
    // What was written meanwhile may be in the values.
    wanted.opened.local_path(wanted.opaque.source)?;
    Ok(bytes)
}

/// Runs `work` with the library, which is looked for at the first call; one caller at a time.
fn with<T>(work: impl FnOnce(&SiloCalls) -> Result<T>) -> Result<T> {
    let own = LIBRARY.get(Mutex::default);
    let mut library = own.lock().unwrap_or_else(PoisonError::into_inner);
    let named = find::setting()?;
    // Only a success is kept: what is installed later is found then.
    if library.is_none() {
        *library = Some(find::find(named)?);
    }
    match &*library {
        Some(library) => work(library),
        None => Err(Error::new(ErrorKind::Bug, "a library vanished")),
    }
}

fn too_long(len: u64) -> Error {
    Error::new(
        ErrorKind::Full,
        format!("libsilo reads all {len} bytes of it at once, beyond the memory budget"),
    )
}
