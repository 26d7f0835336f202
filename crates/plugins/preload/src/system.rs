//! The C library's own functions, system calls, and what works without an allocator or a lock of the program's.

pub(crate) mod kernel;
pub(crate) mod map_parts;
pub(crate) mod path_text;
pub(crate) mod process_lock;
pub(crate) mod real;
