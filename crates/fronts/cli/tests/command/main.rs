//! The `forebay` command, run as people run it, on the files in `data`.

#[cfg(feature = "replay")]
mod bench;
#[cfg(feature = "replay")]
mod bench_formats;
#[cfg(feature = "replay")]
mod bench_results;
#[cfg(target_os = "linux")]
mod byte_paths;
mod config;
mod doctor;
mod dump;
mod errors;
mod hdf5;
mod inspect;
mod library;
mod load;
mod plan;
mod ran;
mod run;
#[cfg(all(feature = "fuse", target_os = "linux"))]
mod simulate;
mod stage;
mod store;
mod tier;
mod written;
