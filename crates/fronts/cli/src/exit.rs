//! Error kinds as exit codes.

use std::{
    error::Error as _,
    io::{self, Write},
};

use forebay::{Error, ErrorKind, Result};

use crate::output::show;

/// The exit code of a command that did what it was asked to.
pub(crate) const SUCCESS: u8 = 0;
/// The exit code of wrong usage.
pub(crate) const USAGE: u8 = 2;
/// The exit code where something is left to do later.
pub(crate) const TRY_LATER: u8 = 6;
/// The exit code after an interrupt, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// What `--help` says of exit codes.
pub(crate) const HELP: &str = "\
Examples:
  forebay inspect era5.h5
  forebay dump era5.h5 t2m --slice 0,:4,:4
  forebay dump era5.h5 --all --sha256
  forebay convert era5.h5 era5.zarr --variable t2m --chunk 64,256,256
  forebay plan 'train/*.h5' --field image --label label --batch 64
  forebay load 'train/*.h5' --field image --label label --batch 64 --epochs 3
  forebay simulate /data/set /mnt/slow -- python train.py /mnt/slow
  forebay run --origin /pfs/set --tier mem:4GiB --tier /nvme/$USER:100GiB -- python train.py
  forebay run --hdf5 --hdf5-paths /lustre/run --stage /nvme/$USER -- python train.py

Exit codes: 0 done, 2 wrong usage, 3 not found, 4 corrupt file, 5 not supported, 6 try again later, \
7 no room, 8 not allowed, 9 the system refused, 70 a bug in forebay, 130 interrupted

Descriptions of large files are kept in $FOREBAY_CACHE, $XDG_CACHE_HOME/forebay or ~/.cache/forebay; see --no-index.";

/// The exit code of an error kind.
pub(crate) fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Invalid => USAGE,
        ErrorKind::NotFound => 3,
        ErrorKind::Corrupt => 4,
        ErrorKind::Unsupported => 5,
        ErrorKind::Unavailable => TRY_LATER,
        ErrorKind::Full => 7,
        ErrorKind::Denied => 8,
        ErrorKind::Io => 9,
        _ => 70,
    }
}

/// Says what went wrong, if anything, and what to know besides, to `json` as data; gives the exit code.
pub(crate) fn code(done: Result<u8>, json: Option<&mut dyn Write>) -> u8 {
    for warning in forebay::process::take_warnings() {
        let _ = writeln!(io::stderr(), "forebay: warning: {}", show::message(&warning.text));
    }
    let error = match done {
        Ok(code) => return code,
        Err(error) => error,
    };
    if is_broken_pipe(&error) {
        return SUCCESS;
    }
    report(&error, json);
    code_of(error.kind())
}

/// Prints `error` on standard error, and to `json` as data.
pub(crate) fn report(error: &Error, json: Option<&mut dyn Write>) {
    let (text, kind) = (error.to_string(), format!("{:?}", error.kind()));
    // Nobody may be left to read it; the exit code says the same.
    let _ = writeln!(io::stderr(), "forebay: {}", show::message(&text));
    if let Some(output) = json {
        let _ = writeln!(output, "{}", serde_json::json!({ "error": text, "kind": kind }));
    }
}

/// The reader of our output has seen enough, as `head` does.
fn is_broken_pipe(error: &Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
