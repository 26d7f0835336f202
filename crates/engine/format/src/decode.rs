//! One chunk, from its stored bytes to native elements.

use std::cell::RefCell;

use forebay_process::{Error, Result, WorkMemory};

use forebay_container::{Extent, Variable, native};
use forebay_filter::{Scratch, scratch_len, undo_all};

/// A thread that keeps more than this between chunks gives it back: to have it anew takes a few per cent of the time that so
/// large a chunk takes to decode, and threads of a pool live as long as the process.
const MOST_KEPT_BYTES: usize = 64 << 20;

/// Bytes that a thread needs to decode a chunk of `variable` besides its stored bytes and the memory it is decoded to.
pub fn workspace_len(variable: &Variable) -> u64 {
    scratch_len(&variable.filters, variable.chunk_len())
}

/// Memory a thread uses again for every chunk it decodes.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    scratch: Scratch,
    chunk: WorkMemory,
}

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

/// Lets `work` use this thread's memory.
pub(crate) fn with_workspace<T>(work: impl FnOnce(&mut Workspace) -> T) -> T {
    WORKSPACE.with(|workspace| match workspace.try_borrow_mut() {
        Ok(mut workspace) => {
            let done = work(&mut workspace);
            workspace.shrink();
            done
        }
        // A decode inside a decode, as when a pool runs another job while this one waits.
        Err(_) => work(&mut Workspace::default()),
    })
}

impl Workspace {
    fn shrink(&mut self) {
        if self.scratch.byte_len() + self.chunk.len() > MOST_KEPT_BYTES {
            *self = Self::default();
        }
    }

    /// Decodes a chunk of `chunk_len` bytes into this thread's memory and borrows it out.
    pub(crate) fn decode(
        &mut self,
        variable: &Variable,
        chunk_len: u64,
        extent: Extent,
        stored: &[u8],
    ) -> Result<&[u8]> {
        let len = usize::try_from(chunk_len).map_err(|_| too_large(chunk_len))?;
        self.chunk.make_room(len).map_err(|_| too_large(chunk_len))?;
        let Self { scratch, chunk } = self;
        decode(variable, extent, stored, &mut chunk[..len], scratch)?;
        Ok(&chunk[..len])
    }

    /// Decodes a chunk straight to where it belongs.
    pub(crate) fn decode_into(
        &mut self,
        variable: &Variable,
        extent: Extent,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        decode(variable, extent, stored, out, &mut self.scratch)
    }
}

fn decode(
    variable: &Variable,
    extent: Extent,
    stored: &[u8],
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<()> {
    undo_all(&variable.filters, extent.skipped, stored, out, scratch)?;
    native::make_native(&variable.dtype, out);
    Ok(())
}

fn too_large(chunk_len: u64) -> Error {
    let what = format!("no memory for a chunk of {chunk_len} bytes");
    Error::new(forebay_process::ErrorKind::Full, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_after(len: usize) -> usize {
        with_workspace(|workspace| workspace.chunk.make_room(len).unwrap());
        with_workspace(|workspace| workspace.chunk.len())
    }

    #[test]
    fn a_thread_keeps_a_small_workspace_and_gives_a_large_one_back() {
        assert_eq!(kept_after(MOST_KEPT_BYTES), MOST_KEPT_BYTES);
        assert_eq!(kept_after(MOST_KEPT_BYTES + 1), 0);
    }
}
