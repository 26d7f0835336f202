//! Memory of batches that comes from elsewhere, and that others hold on to.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]
#![expect(unsafe_code, reason = "a backing hands out memory by its address, and DLPack takes it so")]

mod made;

use std::{
    fs::File,
    os::unix::fs::FileExt,
    ptr::{self, NonNull},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use forebay_batch::{ALIGNMENT, Arena, Backing, DLDataType, DLPackVersion, DLTensor, FieldArray};
use forebay_container::{Dtype, Number, Padding, cf::ValueKind};
use forebay_loader::{Loader, Options};
use forebay_plan::Shuffle;
use forebay_process::{Error, ErrorKind, Result};
use made::{Rows, check, make, make_texts, set, without_spill};
use rustix::{
    fs::{MemfdFlags, ftruncate, memfd_create},
    mm::{MapFlags, ProtFlags, mmap, munmap},
};

/// Memory that other processes can map: a file without a name.
#[derive(Debug)]
struct Memfd {
    file: File,
    len: AtomicU64,
    /// Where each region begins in memory, where in the file, and how long it is.
    regions: Mutex<Vec<(usize, u64, usize)>>,
    /// The most bytes that all of them had at a time.
    peak: AtomicU64,
}

impl Memfd {
    fn new() -> Self {
        let file = File::from(memfd_create("forebay-test", MemfdFlags::CLOEXEC).unwrap());
        Self { file, len: AtomicU64::new(0), regions: Mutex::default(), peak: AtomicU64::new(0) }
    }

    /// What another process finds where `bytes` lie; nothing where they are no memory of this.
    fn seen_elsewhere(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let address = bytes.as_ptr().addr();
        let regions = self.regions.lock().unwrap();
        let (start, at, _) =
            *regions.iter().find(|(start, _, len)| (*start..start + len).contains(&address))?;
        let mut seen = vec![0; bytes.len()];
        self.file.read_exact_at(&mut seen, at + (address - start) as u64).unwrap();
        Some(seen)
    }
}

// SAFETY: each region is a mapping of its own part of the file, zero, page-aligned, and unmapped by `unmap` alone.
unsafe impl Backing for Memfd {
    fn heap_below(&self) -> usize {
        0
    }

    fn map(&self, len: usize) -> Result<NonNull<u8>> {
        // One at a time: of two that make the file longer, the shorter length may be set last.
        let mut regions = self.regions.lock().unwrap();
        let at = self.len.fetch_add(len as u64, Relaxed);
        ftruncate(&self.file, at + len as u64).map_err(|errno| Error::from_io(errno.into()))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the system's choice touches no other memory.
        let mapped = unsafe { mmap(ptr::null_mut(), len, access, MapFlags::SHARED, &self.file, at) };
        let start = mapped.map_err(|errno| Error::from_io(errno.into()))?.cast::<u8>();
        regions.push((start.addr(), at, len));
        self.peak.fetch_max(regions.iter().map(|(.., len)| *len as u64).sum(), Relaxed);
        Ok(NonNull::new(start).unwrap())
    }

    unsafe fn unmap(&self, start: NonNull<u8>, len: usize) {
        self.regions.lock().unwrap().retain(|(region, ..)| *region != start.as_ptr().addr());
        // SAFETY: the caller says that the mapping is `map`'s and that nothing refers to it.
        unsafe { munmap(start.as_ptr().cast(), len).unwrap() };
    }
}

#[test]
fn an_arena_takes_all_its_memory_from_its_backing_and_gives_all_of_it_back() {
    let memfd = Arc::new(Memfd::new());
    let arena = Arena::over(1 << 30, Arc::clone(&memfd) as _);
    let mut buffers: Vec<_> = [1, 100, 20_000, 3 << 20].map(|len| arena.take(len).unwrap()).into();
    for (number, buffer) in (1u8..).zip(&mut buffers) {
        assert_eq!(buffer.address().addr() % ALIGNMENT, 0);
        assert!(buffer.iter().all(|byte| *byte == 0), "fresh memory");
        buffer.fill(number);
    }
    for (number, buffer) in (1u8..).zip(&buffers) {
        assert_eq!(memfd.seen_elsewhere(buffer).unwrap(), vec![number; buffer.len()]);
    }
    drop(buffers);
    assert!(!memfd.regions.lock().unwrap().is_empty(), "kept for later");
    arena.set_limit(0);
    assert!(memfd.regions.lock().unwrap().is_empty());
}

#[test]
fn batches_lie_in_the_memory_of_the_backing_a_loader_is_given_and_are_the_same() {
    let rows = Rows { count: 203, row_len: 16, chunk: 8 };
    let memfd = Arc::new(Memfd::new());
    let options =
        Options { batch_size: 8, shuffle: Shuffle::Full, memory: Some(64 << 20), ..Options::default() };
    let set = set(&[make(rows)]);
    let loader = Loader::over(set, without_spill(options), Arc::clone(&memfd) as _).unwrap();
    for _ in 0..2 {
        for batch in loader.batches().unwrap() {
            let batch = batch.unwrap();
            check(&batch, rows);
            let bytes = &batch.field("x").unwrap().bytes;
            assert_eq!(memfd.seen_elsewhere(bytes).unwrap(), **bytes);
        }
    }
}

#[test]
fn texts_much_longer_than_was_expected_stay_within_memory_and_fewer_batches_are_made_ahead() {
    // A batch of the first texts takes 1 KiB, one of the others half a mebibyte.
    let text = |row: usize| vec![u8::try_from(row % 200 + 1).unwrap(); if row < 64 { 64 } else { 32 << 10 }];
    let texts: Vec<Vec<u8>> = (0..640).map(text).collect();
    let memory = 12 << 20;
    let options = Options {
        batch_size: 16,
        memory: Some(memory),
        prefetch: 100,
        read_threads: Some(4),
        ..Options::default()
    };
    let memfd = Arc::new(Memfd::new());
    let set = set(&[make_texts(&texts, 0)]);
    let loader = Loader::over(set, without_spill(options), Arc::clone(&memfd) as _).unwrap();
    for _ in 0..2 {
        let mut seen = 0;
        for batch in loader.batches().unwrap() {
            let batch = batch.unwrap();
            let field = batch.field("x").unwrap();
            let expected: Vec<u8> = texts[seen..seen + 16].concat();
            assert!(*field.bytes == expected, "other texts from {seen} on");
            seen += 16;
            // Whoever is slow has as much made ahead as may be.
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert_eq!(seen, texts.len());
    }
    let peak = memfd.peak.load(Relaxed);
    // Short texts have 2 MiB of their own, of which blocks are cut.
    assert!(peak <= memory + (2 << 20), "{peak} bytes of {memory}");
    assert!(peak > memory / 4, "{peak}: nothing is made ahead");
}

fn field(arena: &Arc<Arena>, dtype: Dtype, shape: Vec<u64>) -> Arc<FieldArray> {
    let len = dtype.native_len() * usize::try_from(shape.iter().product::<u64>()).unwrap();
    let (kind, name) = (ValueKind::Number, "x".to_owned());
    Arc::new(FieldArray { name, dtype, kind, shape, bytes: arena.take(len).unwrap(), offsets: None })
}

#[test]
fn memory_returns_to_the_arena_when_the_consumers_of_its_tensors_are_done_and_not_before() {
    let arena = Arena::new(1 << 20);
    let array = field(&arena, Dtype::native(Number::Bf16), vec![3, 0, 5]);
    let (old, new) = (array.to_dlpack().unwrap(), array.to_dlpack_versioned(0).unwrap());
    drop(array);
    assert!(arena.lent() > 0);
    // SAFETY: both were just made and are given back once.
    unsafe {
        let tensor = &old.as_ref().dl_tensor;
        assert_eq!((tensor.ndim, tensor.dtype), (3, DLDataType { code: 4, bits: 16, lanes: 1 }));
        assert_eq!(std::slice::from_raw_parts(tensor.shape, 3), [3, 0, 5]);
        assert_eq!(std::slice::from_raw_parts(tensor.strides, 3), [5, 5, 1]);
        assert_eq!(tensor.data, new.as_ref().dl_tensor.data);
        old.as_ref().deleter.unwrap()(old.as_ptr());
        assert!(arena.lent() > 0, "another consumer holds it");
        assert_eq!(new.as_ref().version, DLPackVersion { major: 1, minor: 0 });
        new.as_ref().deleter.unwrap()(new.as_ptr());
    }
    assert_eq!(arena.lent(), 0);
}

#[test]
fn elements_that_are_arrays_add_axes_to_a_tensor_and_text_is_refused() {
    let arena = Arena::new(0);
    let item = Box::new(Dtype::native(Number::F32));
    let array = field(&arena, Dtype::Array { shape: vec![2, 3], item }, vec![4]);
    let tensor = array.to_dlpack().unwrap();
    // SAFETY: it was just made and is given back once.
    unsafe {
        let DLTensor { ndim, shape, .. } = tensor.as_ref().dl_tensor;
        assert_eq!(std::slice::from_raw_parts(shape, usize::try_from(ndim).unwrap()), [4, 2, 3]);
        tensor.as_ref().deleter.unwrap()(tensor.as_ptr());
    }
    let text = field(&arena, Dtype::Text { len: 4, padding: Padding::NulPadded, utf8: true }, vec![4]);
    assert_eq!(text.to_dlpack().unwrap_err().kind(), ErrorKind::Unsupported);
}
