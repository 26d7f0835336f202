//! Files: opened by the connector below, over the file driver of this project where they are managed.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::{
    ffi::{CStr, OsStr, c_char, c_int, c_uint},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr::null_mut,
    sync::Arc,
};

use forebay_libhdf5::hdf5_types::{
    H5F_ACC_RDWR, H5F_ACC_SWMR_READ, H5F_ACC_SWMR_WRITE, H5F_ACC_TRUNC, herr_t, hid_t,
};
use forebay_process::guard;

use super::{FAILED, below, passes};
use crate::{
    file::{
        file_access::FileAccess,
        file_state::{VolFile, settled_version, version_at},
    },
    functions::RawPointer,
    hdf5_arguments::{
        FILE_DELETE, FILE_FLUSH, FILE_GET_ACCESS, FILE_IS_ACCESSIBLE, FILE_REOPEN, FileFlush, FileGet,
        FileSpecific, OBJECTS_OF_ALL_KINDS, OptionalArguments,
    },
    info::UnderConnector,
    optional_ops,
    parallel::{
        opening::{OpeningRanks, RanksOpening},
        parallel_file::OpenedFile,
        settling,
    },
    settings,
    slots::{self, LoadedLibrary},
    vol_object::{VolObject, object_at, wrap_file, wrap_request},
};

passes!(optional, H5VLfile_optional, arguments: RawPointer; first before_optional(arguments));

/// Calls `body` with a copy of the list `access` that names the connector below, and with what the list said.
fn with_access<R>(
    library: &LoadedLibrary,
    access: hid_t,
    failure: R,
    body: impl FnOnce(&FileAccess, &UnderConnector) -> R,
) -> R {
    let Some(below) = UnderConnector::of_access(library, access) else { return failure };
    let Some(list) = FileAccess::over(library, access, &below) else {
        library.errors.kept(|| below.release(library));
        return failure;
    };
    let answer = body(&list, &below);
    // After a call that failed its errors stay.
    library.errors.kept(|| {
        list.close(library);
        below.release(library);
    });
    answer
}

/// The path of a file, as HDF5 was given it.
///
/// # Safety
/// `name` ends in NUL.
unsafe fn path_of<'a>(name: *const c_char) -> &'a Path {
    // SAFETY: as promised by the caller.
    Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()))
}

/// A file that was opened and may be managed.
fn managed(
    library: &LoadedLibrary,
    under: RawPointer,
    connector: hid_t,
    make: impl FnOnce() -> VolFile,
) -> Option<Arc<VolFile>> {
    let mut number = 0;
    let mut arguments = FileGet::number(&raw mut number);
    // SAFETY: a file of that connector that was just opened, and arguments with the layout of the header.
    let answer = unsafe {
        let get = library.functions.H5VLfile_get;
        get(under, connector, (&raw mut arguments).cast(), library.default_transfer(), null_mut())
    };
    (answer >= 0).then(|| library.files.enter(number, make()))
}

/// A file that ranks have opened together, if all of them manage it; `None` for another driver. Collective.
fn of_ranks(
    library: &LoadedLibrary,
    ranks: OpeningRanks,
    under: RawPointer,
    connector: hid_t,
    found: FoundFile,
) -> Option<Arc<VolFile>> {
    let is_plain = found.file.is_some() && !under.is_null() && !has_user_block(library, under, connector);
    let opened = OpenedFile {
        path: found.file.as_ref().filter(|_| !under.is_null()).map(|file| file.path().to_owned()),
        is_writable: found.is_writable,
        caches: found.file.as_ref().is_some_and(|file| file.is_on() && file.id().is_some()),
        has_plain_bytes: is_plain,
    };
    let parallel = Arc::new(guard(None, || ranks.agree(&opened))?);
    let file = found.file?.with_plain_bytes(is_plain).of_ranks(Arc::clone(&parallel));
    let entered = managed(library, under, connector, || file)?;
    match entered.parallel() {
        Some(known) => known.opened(),
        // It is open already by another driver: everything passes through.
        None => drop(parallel.end()),
    }
    if entered.parallel().is_some_and(|known| !Arc::ptr_eq(known, &parallel)) {
        drop(parallel.end());
    }
    Some(entered)
}

/// True where what is staged for a file that `ranks` open cannot come to it first; the errors say why. Collective.
fn is_unsettled(library: &LoadedLibrary, ranks: Option<&OpeningRanks>, opening: RanksOpening) -> bool {
    let settled = ranks.map_or(Ok(()), |ranks| guard(Ok(()), || ranks.settle_staged(opening)));
    settling::refused(library, settled).is_some()
}

/// What a rank knows of a file that it opens.
struct FoundFile {
    file: Option<VolFile>,
    is_writable: bool,
}

/// Creates a file. Nothing of it is cached before it is opened again: its bytes are no version yet.
pub(crate) unsafe extern "C" fn create<const N: usize>(
    name: *const c_char,
    flags: c_uint,
    creation: hid_t,
    access: hid_t,
    transfer: hid_t,
    request: *mut RawPointer,
) -> RawPointer {
    let library = slots::library::<N>();
    with_access(library, access, null_mut(), |list, below| {
        // SAFETY: as for every callback.
        let path = guard(None, || list.managed_path(library, unsafe { path_of(name) }));
        if path.is_some() {
            list.use_file_driver(library);
        }
        // SAFETY: as for every callback.
        let ranks = guard(None, || OpeningRanks::of(library, access, unsafe { path_of(name) }));
        if is_unsettled(library, ranks.as_ref(), RanksOpening::Replacing) {
            return null_mut();
        }
        // SAFETY: as for every callback, with a list that names the connector below.
        unsafe {
            let make = library.functions.H5VLfile_create;
            let under = make(name, flags, creation, list.id(), transfer, request);
            wrap_request(library, request, below.connector);
            if let Some(ranks) = ranks {
                if !under.is_null() {
                    guard((), || ranks.forget_replaced());
                }
                let file = ranks.path().map(|path| VolFile::new(path, None, list.is_on()));
                let found = FoundFile { file, is_writable: true };
                let file = of_ranks(library, ranks, under, below.connector, found);
                return wrap_file(library, under, below.connector, file);
            }
            let file = path.filter(|_| !under.is_null() && request.is_null()).and_then(|path| {
                managed(library, under, below.connector, || VolFile::new(path, None, list.is_on()))
            });
            wrap_file(library, under, below.connector, file)
        }
    })
}

/// Opens a file. Where it is managed, the version of its bytes is noted before and after.
pub(crate) unsafe extern "C" fn open<const N: usize>(
    name: *const c_char,
    flags: c_uint,
    access: hid_t,
    transfer: hid_t,
    request: *mut RawPointer,
) -> RawPointer {
    let library = slots::library::<N>();
    with_access(library, access, null_mut(), |list, below| {
        // SAFETY: as for every callback.
        let path = guard(None, || list.managed_path(library, unsafe { path_of(name) }));
        let version = path.as_deref().filter(|_| keeps_version(flags)).and_then(version_at);
        if path.is_some() {
            list.use_file_driver(library);
        }
        // SAFETY: as for every callback.
        let ranks = guard(None, || OpeningRanks::of(library, access, unsafe { path_of(name) }));
        if is_unsettled(library, ranks.as_ref(), RanksOpening::Existing) {
            return null_mut();
        }
        let managed_by_ranks = ranks.as_ref().and_then(OpeningRanks::path);
        let before_ranks = managed_by_ranks.as_deref().filter(|_| keeps_version(flags)).and_then(version_at);
        // SAFETY: as for every callback, with a list that names the connector below.
        unsafe {
            let under = (library.functions.H5VLfile_open)(name, flags, list.id(), transfer, request);
            wrap_request(library, request, below.connector);
            if let Some(ranks) = ranks {
                let file = managed_by_ranks.map(|path| opened(path, before_ranks, list.is_on()));
                let found = FoundFile { file, is_writable: flags & H5F_ACC_RDWR != 0 };
                let file = of_ranks(library, ranks, under, below.connector, found);
                return wrap_file(library, under, below.connector, file);
            }
            let path = path.filter(|_| !under.is_null() && request.is_null());
            let file = path.and_then(|path| {
                let is_plain = !has_user_block(library, under, below.connector);
                let is_open = was_open(library, under, below.connector);
                let make =
                    || opened(path, version, list.is_on()).with_plain_bytes(is_plain).unless_open(is_open);
                managed(library, under, below.connector, make)
            });
            wrap_file(library, under, below.connector, file)
        }
    })
}

/// True where what is read belongs to a version: not while another process writes.
fn keeps_version(flags: c_uint) -> bool {
    flags & (H5F_ACC_SWMR_READ | H5F_ACC_SWMR_WRITE | H5F_ACC_TRUNC) == 0
}

fn opened(path: PathBuf, before: Option<forebay_source::SourceId>, is_on: bool) -> VolFile {
    let after = before.as_ref().and_then(|_| version_at(&path));
    VolFile::new(path, settled_version(before, after, settings::current().clock_grain), is_on)
}

/// True when the library had objects of the file open before this one.
fn was_open(library: &LoadedLibrary, under: RawPointer, connector: hid_t) -> bool {
    let mut count = 0;
    let mut arguments = FileGet::open_objects(OBJECTS_OF_ALL_KINDS, &raw mut count);
    // SAFETY: a file of that connector that was just opened and has no handle yet; arguments with the layout of the header.
    let answer = unsafe {
        let get = library.functions.H5VLfile_get;
        get(under, connector, (&raw mut arguments).cast(), library.default_transfer(), null_mut())
    };
    answer >= 0 && count > 0
}

/// True when something lies before HDF5's own bytes, or when that is not known.
fn has_user_block(library: &LoadedLibrary, under: RawPointer, connector: hid_t) -> bool {
    let mut arguments = FileGet::creation();
    let mut len = 1;
    // SAFETY: a file of that connector that was just opened; the list that it gives is closed again.
    unsafe {
        let get = library.functions.H5VLfile_get;
        if get(under, connector, (&raw mut arguments).cast(), library.default_transfer(), null_mut()) < 0 {
            return true;
        }
        let list = arguments.first.list;
        let answer = (library.functions.H5Pget_userblock)(list, &raw mut len);
        (library.functions.H5Pclose)(list);
        answer < 0 || len != 0
    }
}

/// Questions to a file. Its access list names the driver that the program chose, not the one that took its place.
pub(crate) unsafe extern "C" fn get<const N: usize>(
    object: RawPointer,
    arguments: RawPointer,
    transfer: hid_t,
    request: *mut RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback; the arguments have the layout of the header.
    unsafe {
        let (under, connector) = below(object);
        let answer = (library.functions.H5VLfile_get)(under, connector, arguments, transfer, request);
        wrap_request(library, request, connector);
        let asked = arguments.cast::<FileGet>();
        if answer >= 0 && (*asked).operation == FILE_GET_ACCESS {
            FileAccess::hide_file_driver(library, (*asked).first.list);
        }
        answer
    }
}

/// What is done to files: those that only have a name, and those that are open.
pub(crate) unsafe extern "C" fn specific<const N: usize>(
    object: RawPointer,
    arguments: RawPointer,
    transfer: hid_t,
    request: *mut RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    let operation = {
        // SAFETY: as for every callback; the arguments begin with the operation.
        unsafe { *arguments.cast::<c_int>() }
    };
    if operation == FILE_IS_ACCESSIBLE || operation == FILE_DELETE {
        // SAFETY: as for every callback; both operations have this layout.
        return unsafe { by_name(library, arguments.cast(), transfer, request) };
    }
    // SAFETY: as for every callback; a file that was opened again is given at the address in the arguments.
    unsafe {
        if operation == FILE_FLUSH {
            let kind = (*arguments.cast::<FileFlush>()).object_kind;
            let settled = settling::before_flush(library, object_at(object), kind);
            if let Some(answer) = settling::refused(library, settled) {
                return answer;
            }
        }
        let (under, connector) = below(object);
        let answer = (library.functions.H5VLfile_specific)(under, connector, arguments, transfer, request);
        wrap_request(library, request, connector);
        if operation == FILE_REOPEN && answer >= 0 {
            let again = (*arguments.cast::<FileSpecific>()).first.cast::<RawPointer>();
            let file = object_at(object).file.clone();
            if let Some(parallel) = file.as_ref().and_then(|file| file.parallel()) {
                parallel.opened();
            }
            *again = wrap_file(library, *again, connector, file);
        }
        answer
    }
}

/// `FILE_IS_ACCESSIBLE` and `FILE_DELETE`, with a list that names the connector below.
unsafe fn by_name(
    library: &LoadedLibrary,
    arguments: *mut FileSpecific,
    transfer: hid_t,
    request: *mut RawPointer,
) -> herr_t {
    // SAFETY: the layout was promised by the caller.
    let given = unsafe { *arguments };
    with_access(library, given.access, FAILED, |list, below| {
        // SAFETY: both operations name a file first.
        let path = unsafe { path_of(given.first.cast::<c_char>()) };
        // The driver waits for what is still on its way there.
        if guard(None, || list.managed_path(library, path)).is_some() {
            list.use_file_driver(library);
        }
        let mut given = FileSpecific { access: list.id(), ..given };
        let specific = library.functions.H5VLfile_specific;
        // SAFETY: as for every callback; these two operations have no object.
        unsafe {
            let answer = specific(null_mut(), below.connector, (&raw mut given).cast(), transfer, request);
            wrap_request(library, request, below.connector);
            answer
        }
    })
}

/// Operations of this connector are answered; before some of the one below, all that ranks have written has to be in the file.
unsafe fn before_optional(
    library: &LoadedLibrary,
    object: &VolObject,
    arguments: RawPointer,
) -> Option<herr_t> {
    // SAFETY: as for every callback; the arguments have the layout of the header.
    unsafe {
        let asked = &*arguments.cast::<OptionalArguments>();
        optional_ops::on_file(library, object, asked).or_else(|| {
            let settled = settling::before_file_operation(object, asked.operation, asked.arguments);
            settling::refused(library, settled)
        })
    }
}
