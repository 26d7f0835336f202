//! A library for `LD_PRELOAD` that gives any program the tiers: functions of the C library in whose place it stands.
//!
//! ```text
//!  program ──open──► hooks ──► the C library's open: leave, errors, number          (always, and first)
//!                      │ a regular file under the prefix, for reading alone
//!                      ├─► whole on a disk tier: the copy is laid over the number ─► the kernel serves read, mmap, dup, fork
//!                      └─► else: read and pread go block by block through the tiers; the rest is placed in the background
//!                            stat, locks, modes of a copy ─► a descriptor of the origin that is kept beside it
//! ```
//!
//! Whatever goes wrong inside, the program gets what the C library's own function gives. For a file outside the prefix a hook is
//! a comparison of paths on `open`, and one byte of a table on `read`. Without `FOREBAY_ORIGIN`, or without a tier, it does nothing.
//!
//! | module | content |
//! |---|---|
//! | `system` | the functions in whose place the hooks stand (`dlsym(RTLD_NEXT)`); system calls by number, which pass no hook; memory and locks that need no allocator |
//! | `engine` | the tiers of this process, started by the first file that needs them; whether a path may lie under the prefix; descriptors of ours |
//! | `engine::inside` | work of our own on a thread of the program: never re-entered, never panics, never changes `errno` |
//! | `manage` | from a descriptor that was just opened to a managed one, and what becomes of it |
//! | `manage::slots`, `program_file` | a table of those by number; a file that is open and read from a copy or block by block |
//! | `manage::back_to_origin`, `own_writes` | the origin, laid over the numbers that are open on a copy; a file that the program itself begins to write to |
//! | `manage::copy_maps`, `copy_devices`, `copy_origins` | maps of copies, and paths that lead to copies, as those of the origin |
//! | `manage::inherited`, `reopened`, `writers` | descriptors of copies from the program that started this one; paths that name open descriptors (`/proc/self/fd/N`); files that are open for writing |
//! | `manage::give_way` | descriptors of ours that are closed where the program needs their numbers |
//! | `hooks` | the exported functions, a file for each kind |

#![cfg(target_os = "linux")]
#![cfg_attr(
    test,
    expect(
        dead_code,
        reason = "without the hooks, which tests of this crate would pass through, nobody calls it"
    )
)]

mod engine;
#[cfg(not(test))]
mod hooks;
mod manage;
mod system;
