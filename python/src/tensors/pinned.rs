//! Memory of batches that a device copies from by itself.
#![expect(unsafe_code, reason = "functions of a library that is found at run time are called by address")]

use std::{
    collections::BTreeMap,
    ffi::{c_int, c_uint, c_void},
    fmt,
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use forebay::{
    Error, ErrorKind, Result,
    batch::{Backing, PinnedBacking, RegionUse, RegisterMemory},
};
use libloading::Library;
use pyo3::prelude::*;

use crate::{error::reported, plain::plain};

/// Where the batches of a loader lie.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct LoaderMemory {
    kind: PinnedKind,
}

enum PinnedKind {
    Registered(Arc<PinnedBacking>),
    Allocated(Arc<AllocatedBacking>),
}

#[pymethods]
impl LoaderMemory {
    /// Memory that the CUDA runtime `library` registers for `device`; pageable memory where there is none.
    #[staticmethod]
    #[pyo3(signature = (library, device=0))]
    fn registered(library: Option<&str>, device: i32) -> Self {
        let driver = library.and_then(|path| CudaRuntime::open(path, device).ok());
        let backing = match driver {
            Some(driver) => PinnedBacking::new(Box::new(driver)),
            None => PinnedBacking::unregistered(),
        };
        Self { kind: PinnedKind::Registered(Arc::new(backing)) }
    }

    /// Memory of tensors that `allocate` gives for a number of bytes; each is let go as soon as nobody uses its batch.
    #[staticmethod]
    fn allocated(allocate: Py<PyAny>) -> Self {
        let backing = AllocatedBacking { allocate, regions: Mutex::default() };
        Self { kind: PinnedKind::Allocated(Arc::new(backing)) }
    }

    /// The tensor that `allocate` gave and that `address` lies in, and the bytes before that.
    fn tensor_at(&self, py: Python<'_>, address: usize) -> Option<(Py<PyAny>, usize)> {
        let PinnedKind::Allocated(backing) = &self.kind else { return None };
        let regions = backing.regions();
        let (start, (len, tensor)) = regions.range(..=address).next_back()?;
        (address - start < *len).then(|| (tensor.clone_ref(py), address - start))
    }

    /// Bytes that are not pinned, though they should be.
    #[getter]
    fn pageable_bytes(&self) -> u64 {
        match &self.kind {
            PinnedKind::Registered(backing) => backing.stats().pageable_bytes,
            PinnedKind::Allocated(_) => 0,
        }
    }

    /// How much is pinned.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = match &self.kind {
            PinnedKind::Registered(backing) => backing.stats(),
            PinnedKind::Allocated(_) => Default::default(),
        };
        plain(py, &stats)
    }
}

impl LoaderMemory {
    pub(crate) fn backing(&self) -> Arc<dyn Backing> {
        match &self.kind {
            PinnedKind::Registered(backing) => Arc::clone(backing) as _,
            PinnedKind::Allocated(backing) => Arc::clone(backing) as _,
        }
    }
}

/// The functions of a CUDA runtime that the process has loaded.
struct CudaRuntime {
    register: unsafe extern "C" fn(*mut c_void, usize, c_uint) -> c_int,
    unregister: unsafe extern "C" fn(*mut c_void) -> c_int,
    get_device: unsafe extern "C" fn(*mut c_int) -> c_int,
    set_device: unsafe extern "C" fn(c_int) -> c_int,
    last_error: unsafe extern "C" fn() -> c_int,
    device: c_int,
    /// What the functions belong to; last, so that it is let go last.
    _library: Library,
}

/// `cudaHostRegisterPortable`: pinned for every context of the process.
const PORTABLE: c_uint = 1;

impl CudaRuntime {
    fn open(path: &str, device: c_int) -> std::result::Result<Self, libloading::Error> {
        // SAFETY: the process has loaded this library already, so nothing runs; the signatures are those of
        // `cuda_runtime_api.h`, the same since CUDA 4.
        unsafe {
            let library = Library::new(path)?;
            Ok(Self {
                register: *library.get(b"cudaHostRegister\0")?,
                unregister: *library.get(b"cudaHostUnregister\0")?,
                get_device: *library.get(b"cudaGetDevice\0")?,
                set_device: *library.get(b"cudaSetDevice\0")?,
                last_error: *library.get(b"cudaGetLastError\0")?,
                device,
                _library: library,
            })
        }
    }

    /// Calls `call` on the device of the loader: a thread that never named one would begin to use the first.
    fn on_device(&self, call: impl FnOnce() -> c_int) -> c_int {
        let mut before = 0;
        // SAFETY: `before` is there to be written to; a number of a device that the program uses is set.
        unsafe {
            let is_known = (self.get_device)(&raw mut before) == 0;
            let is_other = is_known && before != self.device;
            if is_other {
                (self.set_device)(self.device);
            }
            let number = call();
            if number != 0 {
                // Reported by us: CUDA must not give it to the next call of the program.
                (self.last_error)();
            }
            if is_other {
                (self.set_device)(before);
            }
            number
        }
    }
}

impl RegisterMemory for CudaRuntime {
    fn register(&self, start: NonNull<u8>, len: usize) -> std::result::Result<(), i32> {
        // SAFETY: the region is mapped, of this length, and stays so until it is unregistered.
        match self.on_device(|| unsafe { (self.register)(start.as_ptr().cast(), len, PORTABLE) }) {
            0 => Ok(()),
            number => Err(number),
        }
    }

    fn unregister(&self, start: NonNull<u8>) {
        // SAFETY: the region was registered and is still mapped.
        self.on_device(|| unsafe { (self.unregister)(start.as_ptr().cast()) });
    }
}

impl fmt::Debug for CudaRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaRuntime(device {})", self.device)
    }
}

/// Memory of tensors of another library, which knows when a device is done with them.
#[derive(Debug)]
struct AllocatedBacking {
    allocate: Py<PyAny>,
    /// By address, with their lengths.
    regions: Mutex<BTreeMap<usize, (usize, Py<PyAny>)>>,
}

impl AllocatedBacking {
    fn regions(&self) -> MutexGuard<'_, BTreeMap<usize, (usize, Py<PyAny>)>> {
        // Put in and taken out whole.
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: the tensor is nobody else's until `unmap` lets it go, or whoever was given it by its address does.
unsafe impl Backing for AllocatedBacking {
    fn heap_below(&self) -> usize {
        0
    }

    fn region_use(&self) -> RegionUse {
        RegionUse::Once
    }

    fn map(&self, len: usize) -> Result<NonNull<u8>> {
        let allocated = Python::try_attach(|py| {
            let allocated = self.allocate.call1(py, (len,)).and_then(|tensor| {
                let address: usize = tensor.call_method0(py, "data_ptr")?.extract(py)?;
                Ok((address, tensor))
            });
            allocated.map_err(|raised| reported(py, raised))
        });
        let (address, tensor) =
            allocated.ok_or_else(|| Error::new(ErrorKind::Invalid, "the interpreter has ended"))??;
        let start = NonNull::new(std::ptr::with_exposed_provenance_mut(address));
        let start = start.ok_or_else(|| Error::new(ErrorKind::Full, format!("no memory for {len} bytes")))?;
        self.regions().insert(address, (len, tensor));
        Ok(start)
    }

    unsafe fn unmap(&self, start: NonNull<u8>, _: usize) {
        let tensor = self.regions().remove(&start.as_ptr().addr());
        // Where the interpreter is gone, so is what the tensor belongs to.
        let _ = Python::try_attach(move |_| drop(tensor));
    }
}
