//! The exported functions: each is the C library's own, with work of ours before or after it.
//!
//! | file | functions |
//! |---|---|
//! | `open` | `open` and its like, `creat`, `mkstemp`, `truncate`, `chdir` |
//! | `names` | names of files in calls, which may be those of staged ones; the next four are calls by name |
//! | `lookup` | `stat`, `statfs`, `access`, `getxattr`, `readlink`, `realpath` |
//! | `attributes` | `chmod`, `chown`, `utimes`, `setxattr` |
//! | `entries` | `rename`, `unlink`, `link`, `symlink`, `mkdir` |
//! | `listing` | `opendir`, `scandir`, `glob`, `nftw`, `fts_open` |
//! | `stdio` | `fopen`, `freopen`, `fclose` |
//! | `read` | `read`, `pread`, `readv`, `preadv` and their checked names, `lseek`, `posix_fadvise` |
//! | `map` | `mmap`, `munmap`, `mremap`, `mprotect` |
//! | `stat` | `fstat` and its like, file systems, modes, owners, times and attributes of a descriptor |
//! | `write` | `write`, `pwrite`, `writev`, `pwritev` and their like: a staging area may be full; `fsync` |
//! | `transfer` | `sendfile`, `copy_file_range` |
//! | `descriptor` | `dup`, `close`, `fcntl`, locks |
//! | `handover` | `ioctl`, `sendmsg`: the file system or another process gets a descriptor |
//! | `numbers` | `pipe`, `socket`, `eventfd` and their like: descriptors of ours give way to those of the program |
//! | `process` | `exec`, `posix_spawn` and their like, `_exit` |

mod attributes;
mod descriptor;
mod entries;
mod handover;
mod listing;
mod lookup;
mod map;
mod names;
mod numbers;
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
