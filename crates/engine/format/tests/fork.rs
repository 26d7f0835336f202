//! A forked child reads what its parent has open: the pool of threads it inherits has no threads.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_container::{
    ByteOrder, ChunkTable, Container, Dtype, Extent, Extents, Grid, Number, Selection, SourceIndex, Variable,
};
use forebay_format::{Opened, describe};
use forebay_source::{ByteRange, FileOrigin, Locator, MemoryOrigin, Origin};

/// Ends in a child process what `work` says, and gives that back; a child that hangs is killed.
#[expect(unsafe_code, reason = "std has no fork, and what happens after one is what is tested")]
fn in_a_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child only reads, on its one thread, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let status = i32::from(!work());
        // SAFETY: `_exit` ends the child at once, running nothing of the parent's.
        unsafe { libc::_exit(status) };
    }
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut status = 0;
    loop {
        // SAFETY: `child` is ours and not yet waited for; `status` is a valid place for its status.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
            0 => {
                // SAFETY: `child` is ours and still runs, so its number names no other process.
                unsafe { libc::kill(child, libc::SIGKILL) };
                return false;
            }
            _ => return status == 0,
        }
    }
}

/// Four mebibytes of numbers in sixteen chunks: enough to be shared among threads.
fn opened() -> Opened {
    const CHUNK: u64 = 256 << 10;
    let bytes: Vec<u8> = (0..16 * CHUNK).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let origin = Arc::new(MemoryOrigin::default().with("m", bytes));
    let extent =
        |number| Extent { source: SourceIndex(0), range: ByteRange::at(number * CHUNK, CHUNK), skipped: 0 };
    let pairs = (0..16).map(|number| (number, extent(number))).collect();
    let variable = Variable {
        name: "x".into(),
        dtype: Dtype::Number { number: Number::U16, order: ByteOrder::Big },
        grid: Grid { shape: vec![8 * CHUNK], chunk: vec![CHUNK / 2] },
        max_shape: vec![Some(8 * CHUNK)],
        layout: "chunked".into(),
        filters: vec![],
        fill: vec![],
        extents: Extents::Chunks(ChunkTable::new(pairs, 16).unwrap()),
        heap: None,
        attributes: vec![],
        dimensions: vec![],
        type_name: None,
    };
    let sources = vec![origin.open(&Locator::new("m")).unwrap().id().clone()];
    let container = Container { sources, variables: vec![variable], ..Container::default() };
    Opened::new(origin, Arc::new(container))
}

#[test]
fn a_forked_child_reads_what_takes_its_parent_many_threads() {
    rayon::ThreadPoolBuilder::new().num_threads(4).build_global().unwrap();
    let opened = opened();
    let variable = &opened.container().variables[0];
    let all = Selection::all(&variable.grid.shape);
    let here = opened.read(variable, &all).unwrap();
    let there = in_a_child(|| opened.read(variable, &all).is_ok_and(|array| array == here));
    assert!(there, "the child gave other values, or none");
}

/// Reads the first variable of a file of the matrix by libhdf5, whatever forebay itself could do.
fn read_by_library() -> bool {
    let folder = std::env::var("FOREBAY_MATRIX").expect("FOREBAY_MATRIX must name what make_matrix.py made");
    let origin = Arc::new(FileOrigin::new());
    let container = describe(&*origin, &Locator::new(format!("{folder}/numbers_latest_deflate.h5"))).unwrap();
    let opened = Opened::new(origin, Arc::new(container));
    let variable = &opened.container().variables[0];
    let all = Selection::all(&variable.grid.shape);
    let ours = opened.read(variable, &all).unwrap();
    opened.read_by_library(variable, &all).is_ok_and(|theirs| theirs == ours)
}

#[test]
fn a_child_that_is_forked_while_libhdf5_reads_reads_with_a_copy_of_its_own() {
    assert!(read_by_library(), "a libhdf5 is needed: `pip install h5py` in the active environment");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_done.load(Relaxed) {
                    assert!(read_by_library());
                }
            });
        }
        let children: Vec<bool> = (0..10).map(|_| in_a_child(read_by_library)).collect();
        is_done.store(true, Relaxed);
        assert!(children.iter().all(|is_right| *is_right), "{children:?}");
    });
}
