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
//! | file | idea |
//! |---|---|
//! | `real` | the functions in whose place the hooks stand (`dlsym(RTLD_NEXT)`) |
//! | `kernel` | system calls on descriptors by number, which pass no hook |
//! | `path_text` | a path in memory that needs no allocator |
//! | `prefix` | whether a path may lie under the origin's prefix |
//! | `inside` | work of our own on a thread of the program: never re-entered, never panics, never changes `errno` |
//! | `engine` | the tiers of this process, started by the first file that needs them |
//! | `run_counts` | what is counted for `forebay run` |
//! | `program_file` | a file that is open and read from a copy or block by block |
//! | `process_lock` | a lock that allocates nothing and that a forked child finds free |
//! | `own_numbers` | which descriptors are ours, and stay open when a program closes all numbers |
//! | `slots` | which descriptors those are: a table by number |
//! | `manage` | from a descriptor that was just opened to a managed one, and what becomes of it |
//! | `back_to_origin` | the origin, laid over the numbers that are open on a copy |
//! | `own_writes` | a file that the program itself begins to write to |
//! | `give_way` | descriptors of ours that are closed where the program needs their numbers |
//! | `copy_maps` | maps of copies, replaced by maps of the origin when the program writes to the file |
//! | `map_parts` | parts of memory that show files, as the kernel lists them |
//! | `copy_devices`, `copy_origins` | whether a path may lead to a copy, and which file of the origin that is |
//! | `reopened` | paths that name open descriptors (`/proc/self/fd/N`) |
//! | `inherited` | descriptors of copies that a program has from the one that started it |
//! | `writers` | files of this process that are open for writing, of which no copy is used |
//! | `hooks` | the exported functions, a file for each kind |

#![cfg(target_os = "linux")]
#![cfg_attr(
    test,
    expect(
        dead_code,
        reason = "without the hooks, which tests of this crate would pass through, nobody calls it"
    )
)]

mod back_to_origin;
mod copy_devices;
mod copy_maps;
mod copy_origins;
mod engine;
mod give_way;
#[cfg(not(test))]
mod hooks;
mod inherited;
mod inside;
mod kernel;
mod manage;
mod map_parts;
mod own_numbers;
mod own_writes;
mod path_text;
mod prefix;
mod process_lock;
mod program_file;
mod real;
mod reopened;
mod run_counts;
mod slots;
mod writers;
