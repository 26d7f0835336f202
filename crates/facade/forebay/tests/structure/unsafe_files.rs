//! Unsafe code stands in named files only.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::tree;

/// Files, and folders ending in `/`, that may hold unsafe code, each with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/facade/forebay/examples/limits/mapped.rs", "maps files of the benchmark"),
    ("crates/facade/forebay/tests/peer_tier_fork.rs", "forks, to test what a child process reads"),
    (
        "crates/bench/bench/src/runtime_hdf5/parallel_calls.rs",
        "calls functions that parallel builds of libhdf5 have",
    ),
    (
        "crates/bench/bench/src/workers/shared_batches.rs",
        "lends memory that worker processes fill by address",
    ),
    ("crates/engine/filter/src/jpeg/wide.rs", "uses instructions that not every processor has"),
    ("crates/engine/filter/src/weave.rs", "calls instructions by their names"),
    ("crates/engine/container/src/values/native/swap.rs", "uses instructions that not every processor has"),
    ("crates/engine/transform/src/rows/row_floats.rs", "uses instructions that not every processor has"),
    ("crates/engine/transform/src/rows/wide.rs", "uses instructions that not every processor has"),
    (
        "crates/engine/libhdf5/src/",
        "loads and calls a libhdf5 found at run time, and has what it looks for in plug-ins",
    ),
    ("crates/engine/format/src/silo/library/ffi.rs", "calls into a libsilo found at run time"),
    ("crates/engine/format/tests/fork.rs", "forks, to test what a child process reads"),
    (
        "crates/ranks/mpi/examples/mpi_ranks/faults.rs",
        "forks, and initialises MPI as another part of a program would",
    ),
    ("crates/ranks/mpi/src/baseline.rs", "calls into an MPI found at run time, as plain programs do"),
    ("crates/ranks/mpi/src/library/ffi.rs", "calls into an MPI found at run time"),
    (
        "crates/ranks/mpi/src/calls/lifetime.rs",
        "is called by MPI and by the C library at the end of the process",
    ),
    ("crates/ranks/mpi/src/calls/pending.rs", "hands memory to MPI until a call is done"),
    ("crates/ranks/mpi/src/window/rma.rs", "hands memory to MPI until a window is freed"),
    ("crates/ranks/mpi/src/calls/slab.rs", "hands memory to MPI until a get is done"),
    ("crates/ranks/mpi/src/calls/stall.rs", "ends a process that MPI keeps for ever"),
    (
        "crates/plugins/launch/src/run/supervise.rs",
        "blocks, takes and sends signals, and waits for a child that may stop",
    ),
    ("crates/fronts/capi/src/", "is called by programs in C, with pointers that they answer for"),
    ("crates/engine/batch/src/arena.rs", "lends memory by address"),
    ("crates/engine/batch/src/arena/memory_block.rs", "takes memory from the heap and a backing"),
    ("crates/engine/batch/src/backing.rs", "maps memory, and promises what an arena relies on"),
    (
        "crates/engine/batch/src/pinned.rs",
        "registers memory with a driver, and promises what an arena relies on",
    ),
    (
        "crates/engine/batch/src/dlpack.rs",
        "hands memory to other libraries and takes it back when they say so",
    ),
    (
        "crates/engine/loader/tests/memory.rs",
        "brings memory of its own, and takes tensors as other libraries do",
    ),
    ("crates/ranks/peer/src/block_table.rs", "has words in memory that other processes read and write"),
    (
        "crates/plugins/preload/src/",
        "stands in the place of functions of the C library, calls those, and fills memory of programs",
    ),
    ("python/src/tensors/array_struct.rs", "hands NumPy a structure by its address"),
    (
        "python/src/store.rs",
        "takes the handle of a communicator from mpi4py, and memory to read into from NumPy",
    ),
    ("python/src/stage/file.rs", "writes from and reads into buffers that Python gives by their address"),
    (
        "python/src/tensors/pinned.rs",
        "calls into a CUDA runtime found at run time, and lends memory of tensors",
    ),
    ("python/src/tensors/dlpack.rs", "hands tensors to Python in capsules"),
    ("crates/engine/scratch/src/byte_lock.rs", "takes locks of open file descriptions"),
    (
        "crates/engine/scratch/src/parent_only.rs",
        "has forked children leave sockets and locks to their parent",
    ),
    ("crates/engine/scratch/src/run_counters.rs", "adds to atomics that other processes map"),
    ("crates/engine/source/src/file/map/", "maps files, and guards the copies by a signal handler"),
    ("crates/engine/source/src/file/fd_stat.rs", "asks about a descriptor by its number"),
    ("crates/engine/source/src/prefetch.rs", "asks for memory ahead"),
    ("crates/engine/process/src/process.rs", "keeps the process's number in a page that fork clears"),
    ("crates/engine/process/src/process_tree.rs", "maps a page that forked processes share"),
    (
        "crates/engine/process/src/work_memory.rs",
        "has a forked child find zeros in what a thread decodes into",
    ),
    ("crates/engine/source/tests/fork.rs", "forks, to test what a child process sees"),
    ("crates/write/stage/src/update/close_error.rs", "closes a descriptor, to hear how it went"),
    ("crates/write/stage/src/update/memory_map.rs", "maps memory that threads fill and read without a lock"),
    ("crates/write/stage/src/area/process_end.rs", "is called by the C library at the end of the process"),
    (
        "crates/write/stage/src/recover/writers.rs",
        "asks for leases, by which the kernel says whether a file has writers",
    ),
    ("crates/write/stage/tests/fork.rs", "forks, to test what a child process reads and writes"),
    ("crates/ranks/store/src/store/shard_memory.rs", "reads and writes memory that other processes map"),
    ("crates/ranks/store/src/comm/node_link/peer_user.rs", "asks a socket which user is at its other end"),
    ("crates/ranks/store/src/comm/rank_states.rs", "reads and writes atomics that other processes map"),
    ("crates/ranks/store/tests/support/ranks.rs", "forks, to test what a child process reads"),
    ("crates/ranks/tcp/src/reads/answer.rs", "sends memory that other processes map by address"),
    (
        "crates/ranks/tcp/src/connection/loss_watch.rs",
        "asks a socket what its system knows of the connection",
    ),
    ("crates/engine/tier/tests/fork.rs", "forks, to test what a child process reads"),
    ("crates/engine/source/tests/signal.rs", "installs handlers, faults and forks, to test who is called"),
    (
        "crates/plugins/vol/src/",
        "is called by HDF5, calls into a libhdf5 found at run time, and fills memory of programs",
    ),
    ("crates/plugins/vol/tests/connector.rs", "calls functions of the connector by their names"),
    ("crates/engine/tier/src/memory/large_pages.rs", "asks for large pages below memory of its own"),
    ("crates/engine/tier/src/disk/writeback.rs", "asks an open file whether its write-back failed"),
    ("crates/plugins/vfd/src/class.rs", "has the structures that HDF5 reads, with its pointers"),
    ("crates/plugins/vfd/src/driver.rs", "is called by HDF5"),
    ("crates/plugins/vfd/src/driver_file.rs", "is handed files by HDF5 by their address"),
    ("crates/plugins/vfd/src/process.rs", "runs something at the end of the process"),
    ("crates/plugins/vfd/src/ranks_opening.rs", "is called by the VOL connector with a path"),
    ("crates/plugins/vfd/src/sec2.rs", "calls into a libhdf5 found at run time"),
];

const WORD: &str = concat!("un", "safe");

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name() != Some("target".as_ref()) {
            rust_files(&path, found);
        } else if path.extension() == Some("rs".as_ref()) {
            found.push(path);
        }
    }
}

/// Rust without its comments and the insides of its string and character literals.
fn code_of(source: &str) -> String {
    let mut code = String::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let after_identifier = code.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment_len(rest)
        } else if let (Some(len), false) = (raw_string_len(rest), after_identifier) {
            len
        } else if first == '"' {
            quoted_len(rest, '"')
        } else if first == '\'' && is_char(rest) {
            quoted_len(rest, '\'')
        } else {
            0
        };
        if skipped == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.push(' ');
            rest = &rest[skipped..];
        }
    }
    code
}

fn block_comment_len(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        let step = match here {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        at += step;
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of `r"…"`, `r#"…"#` and the like, if one begins here.
fn raw_string_len(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let inside = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let len = inside.find(&end)? + end.len();
    Some(rest.len() - inside.len() + len)
}

/// A quote begins a character, not a lifetime, where another follows one character or an escape.
fn is_char(rest: &str) -> bool {
    let mut letters = rest.chars().skip(1);
    match letters.next() {
        Some('\\') => true,
        Some(_) => letters.next() == Some('\''),
        None => false,
    }
}

fn quoted_len(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        if letter == quote && !escaped {
            return at + letter.len_utf8();
        }
        escaped = letter == '\\' && !escaped;
    }
    rest.len()
}

fn count(source: &str) -> usize {
    let code = code_of(source);
    code.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| *word == WORD).count()
}

#[test]
fn no_file_is_unsafe_that_is_not_on_the_list() {
    let root = tree::root();
    let mut files = Vec::new();
    tree::crate_directories().iter().for_each(|directory| rust_files(directory, &mut files));
    assert!(!files.is_empty(), "no Rust files");
    let mut counts = BTreeMap::new();
    for path in files {
        let found = count(&fs::read_to_string(&path).expect("UTF-8"));
        if found > 0 {
            let name = path.strip_prefix(&root).expect("below the workspace").display().to_string();
            counts.insert(name, found);
        }
    }
    for (name, found) in &counts {
        println!("{found:4}  {name}");
    }
    let is_allowed = |name: &str| {
        ALLOWED
            .iter()
            .any(|(place, _)| if place.ends_with('/') { name.starts_with(place) } else { name == *place })
    };
    let others: Vec<_> = counts.keys().filter(|name| !is_allowed(name)).collect();
    assert!(others.is_empty(), "not on the list in this file: {others:?}");
}

#[test]
fn the_word_is_counted_in_code_and_not_in_comments_strings_and_names() {
    let said = |text: &str| count(&text.replace('?', WORD));
    assert_eq!(said("? { f() } ? fn g() {}"), 2);
    assert_eq!(said("// ?\n/* ? /* ? */ ? */ let s = \"? \\\" ?\";"), 0);
    assert_eq!(said("r#\"? \" ?\"# '\\'' #[expect(?_code)] fn a<'a>(b: &'a str) {}"), 0);
    assert_eq!(said("let quote = '\"'; ? {}"), 1);
}
