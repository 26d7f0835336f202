//! The compiled half of the Python package `forebay`: sets of samples, loaders, and their memory.
//!
//! What users see is written in Python, in `python/forebay`; here is no logic, only the border.
//!
//! | file | idea |
//! |---|---|
//! | `error` | error kinds as Python exceptions |
//! | `tensors/memory`, `tensors/array_struct`, `tensors/dlpack` | one field of a batch, lent to NumPy and to any framework |
//! | `tensors/texts` | fields of texts, as Python has them |
//! | `tensors/dtype` | element types as NumPy writes them |
//! | `tensors/numpy_type` | element types as NumPy gives them |
//! | `tensors/raw_batch`, `tensors/joint_fields` | what a batch is made of, field by field or side by side |
//! | `tensors/pinned` | memory of batches that a device copies from by itself |
//! | `file`, `file/read`, `file/inspect` | a file that stays open; one variable's values; what is in a file |
//! | `file/byte_origin` | bytes of files and objects by name, through tiers |
//! | `command` | the `forebay` command, for the package's entry point |
//! | `dataset/samples`, `dataset/sampler` | a set of samples, by number; parts of it, and draws |
//! | `dataset/statistics` | statistics of a set, computed step by step |
//! | `dataset/warming` | files on their way to the tiers, in the background |
//! | `loader` | epochs of batches |
//! | `store`, `store/concat` | a data set in the memory of all ranks; several of them as one |
//! | `own_format` | a user's own format, written in Python |
//! | `tiers` | from what Python says of tiers to a configuration |
//! | `tiers/ranking` | a policy that is written in Python |
//! | `stage/area`, `stage/settings` | a staging area, and from what Python says of it to its settings |
//! | `stage/recover` | what killed processes left in an area |
//! | `stage/progress` | waits that tell how far they are, and that an exception of Python ends |
//! | `stage/file`, `stage/cursor`, `stage/sealed` | a file on its way to its destination: written by position, then sealed |
//! | `plain` | dicts, lists and numbers of Python, read and written by serde |
//! | `interruptible` | work that Ctrl-C interrupts |
//! | `closable` | what Python may close while other threads use it |

mod closable;
mod command;
mod dataset;
mod error;
mod file;
mod interruptible;
mod loader;
mod own_format;
mod plain;
mod stage;
mod store;
mod tensors;
mod tiers;

use pyo3::{exceptions::PyValueError, prelude::*};

/// The compiled part of forebay.
#[pymodule(gil_used = true)]
fn _forebay(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<dataset::sampler::RawSubset>()?;
    module.add_class::<dataset::sampler::RawDraws>()?;
    module.add_class::<dataset::samples::SampleReader>()?;
    module.add_class::<loader::BatchLoader>()?;
    module.add_class::<loader::EpochRun>()?;
    module.add_class::<dataset::statistics::RawStatistics>()?;
    module.add_class::<store::RawComm>()?;
    module.add_class::<store::RawStore>()?;
    module.add_class::<store::concat::RawStoreConcat>()?;
    module.add_class::<store::RawFilling>()?;
    module.add_class::<tiers::ranking::PyBlockFacts>()?;
    module.add_class::<stage::area::RawArea>()?;
    module.add_class::<stage::file::RawStagedFile>()?;
    module.add_class::<stage::sealed::RawSealed>()?;
    module.add_class::<dataset::warming::WarmingRun>()?;
    module.add_class::<tensors::memory::Memory>()?;
    module.add_class::<tensors::pinned::LoaderMemory>()?;
    module.add_class::<tensors::raw_batch::RawBatch>()?;
    module.add_class::<file::read::RawArray>()?;
    module.add_class::<file::FileReader>()?;
    module.add_class::<file::byte_origin::RawOrigin>()?;
    module.add_class::<file::byte_origin::RawSource>()?;
    module.add_class::<own_format::FormatFile>()?;
    module.add_function(wrap_pyfunction!(own_format::register, module)?)?;
    module.add_function(wrap_pyfunction!(command::run_command, module)?)?;
    module.add_function(wrap_pyfunction!(file::read::read_variable, module)?)?;
    module.add_function(wrap_pyfunction!(file::inspect::inspect_file, module)?)?;
    module.add_function(wrap_pyfunction!(file::inspect::format_at, module)?)?;
    module.add_function(wrap_pyfunction!(absolute_path, module)?)?;
    module.add_function(wrap_pyfunction!(expanded_files, module)?)?;
    module.add_function(wrap_pyfunction!(memory_report, module)?)?;
    module.add_function(wrap_pyfunction!(set_workers, module)?)?;
    module.add_function(wrap_pyfunction!(parse_size, module)?)?;
    module.add_function(wrap_pyfunction!(stage::settings::stage_settings, module)?)?;
    module.add_function(wrap_pyfunction!(stage::recover::stage_recover, module)?)?;
    module.add_function(wrap_pyfunction!(tiers::tier_config, module)?)?;
    error::add_to(module)
}

/// The path or pattern `name`, absolute and with `~` and variables written out; a URL stands for itself.
#[pyfunction]
fn absolute_path(name: &str) -> PyResult<String> {
    forebay::Origins::new().absolute(name).map_err(error::raised)
}

/// The files that `names` stand for, patterns and folders looked up, in the order a set has them.
#[pyfunction]
fn expanded_files(py: Python<'_>, names: Vec<String>) -> PyResult<Vec<String>> {
    interruptible::interruptible(py, move || forebay::expand(&names))
}

/// What this process may take of the node's memory budget, and who in it has taken how much.
#[pyfunction]
fn memory_report(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    plain::plain(py, &forebay::process::ledger().report())
}

/// Says that this process is one of `count` workers that divide what it may take, which are called `pool` among those of the
/// same parent.
#[pyfunction]
fn set_workers(count: u64, pool: u64) {
    forebay::process::ledger().set_workers(count, pool);
}

/// The bytes of a size as people write it.
#[pyfunction]
fn parse_size(text: &str) -> PyResult<u64> {
    forebay::size::parse(text).map_err(PyValueError::new_err)
}
