//! The exported functions: each is the C library's own, with work of ours before or after it.
//!
//! | file | functions |
//! |---|---|
//! | `open` | `open` and its like, `creat`, `mkstemp`, `truncate`, `chdir` |
//! | `names` | paths of calls that lead to a copy; the next three are calls by name |
//! | `lookup` | `stat`, `statfs`, `access`, `getxattr`, `readlink` |
//! | `attributes` | `chmod`, `chown`, `utimes`, `setxattr` |
//! | `link` | `linkat` |
//! | `stdio` | `fopen`, `freopen`, `fclose` |
//! | `read` | `read`, `pread`, `readv`, `preadv` and their checked names, `lseek`, `posix_fadvise` |
//! | `map` | `mmap`, `munmap`, `mremap`, `mprotect` |
//! | `stat` | `fstat` and its like, file systems, modes, owners, times and attributes of a descriptor |
//! | `write` | `write`, `pwrite`, `writev`, `pwritev` and their like |
//! | `transfer` | `sendfile`, `copy_file_range` |
//! | `descriptor` | `dup`, `close`, `fcntl`, locks |
//! | `handover` | `ioctl`, `sendmsg`: the file system or another process gets a descriptor |
//! | `numbers` | `opendir`, `pipe`, `socket`, `eventfd` and their like: descriptors of ours give way to those of the program |
//! | `process` | `exec` and its like, `_exit` |

mod attributes;
mod descriptor;
mod handover;
mod link;
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
