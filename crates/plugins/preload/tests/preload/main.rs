//! Programs that know nothing of forebay run with the library in `LD_PRELOAD`, and see what they would have seen without.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod calls;
mod changes;
mod cost;
mod early;
mod edges;
mod every_name;
mod faults;
mod handover;
mod limits;
mod locks;
mod maps;
mod programs;
mod races;
mod support;
mod symbols;
