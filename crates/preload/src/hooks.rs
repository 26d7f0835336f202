//! The exported functions: each is the C library's own, with work of ours before or after it.
//!
//! | file | functions |
//! |---|---|
//! | `open` | `open` and its like, `creat`, `mkstemp`, `truncate`, `chdir` |
//! | `names` | functions that take the name of a file, which may be that of one that is staged: `stat`, `access`, `rename`, `unlink`, `opendir`, … |
//! | `stdio` | `fopen`, `freopen`, `fclose` |
//! | `read` | `read`, `pread`, `readv`, `preadv` and their checked names, `lseek`, `posix_fadvise`, `mmap` |
//! | `stat` | `fstat` and its like, file systems, modes, owners, times and attributes of a descriptor |
//! | `write` | `write`, `pwrite` and their like: a staging area may be full |
//! | `transfer` | `sendfile`, `copy_file_range` |
//! | `descriptor` | `dup`, `close`, `fcntl`, locks |
//! | `process` | `exec` and its like, `_exit` |

mod descriptor;
mod names;
mod open;
mod process;
mod read;
mod stat;
mod stdio;
mod transfer;
mod write;

/// Defines exported functions.
macro_rules! exported {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $answer:ty)? $body:block)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $kind),*) $(-> $answer)? $body
        )*
    };
}

use exported;
