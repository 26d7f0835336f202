//! The compiled half of the Python package `forebay`: sets of samples, loaders, and their memory.
//!
//! What users see is written in Python, in `python/forebay`; here is no logic, only the border.
//!
//! | file | idea |
//! |---|---|
//! | `error` | error kinds as Python exceptions |
//! | `memory`, `array_struct`, `dlpack` | one field of a batch, lent to NumPy and to any framework |
//! | `texts` | fields of texts, as Python has them |
//! | `dtype` | element types as NumPy writes them |
//! | `numpy_type` | element types as NumPy gives them |
//! | `raw_batch`, `joint_fields` | what a batch is made of, field by field or side by side |
//! | `pinned` | memory of batches that a device copies from by itself |
//! | `read`, `inspect`, `file` | one variable's values; what is in a file; a file that stays open |
//! | `byte_origin` | bytes of files and objects by name, through tiers |
//! | `command` | the `forebay` command, for the package's entry point |
//! | `samples` | a set of samples, by number |
//! | `loader` | epochs of batches |
//! | `statistics` | statistics of a set, computed step by step |
//! | `store`, `store_concat` | a data set in the memory of all ranks; several of them as one |
//! | `own_format` | a user's own format, written in Python |
//! | `tiers` | from what Python says of tiers to a configuration |
//! | `ranking` | a policy that is written in Python |
//! | `warming` | files on their way to the tiers, in the background |
//! | `stage_area`, `stage_settings` | a staging area, and from what Python says of it to its settings |
//! | `stage_recover` | what killed processes left in an area |
//! | `stage_progress` | waits that tell how far they are, and that an exception of Python ends |
//! | `stage_file`, `stage_cursor`, `stage_sealed` | a file on its way to its destination: written by position, then sealed |
//! | `interruptible` | work that Ctrl-C interrupts |
//! | `closable` | what Python may close while other threads use it |

mod array_struct;
mod byte_origin;
mod closable;
mod command;
mod dlpack;
mod dtype;
mod error;
mod file;
mod inspect;
mod interruptible;
mod joint_fields;
mod loader;
mod memory;
mod numpy_type;
mod own_format;
mod pinned;
mod ranking;
mod raw_batch;
mod read;
mod sampler;
mod samples;
mod stage_area;
mod stage_cursor;
mod stage_file;
mod stage_progress;
mod stage_recover;
mod stage_sealed;
mod stage_settings;
mod statistics;
mod store;
mod store_concat;
mod texts;
mod tiers;
mod warming;

use pyo3::{exceptions::PyValueError, prelude::*};

/// The compiled part of forebay.
#[pymodule(gil_used = true)]
fn _forebay(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<sampler::RawSubset>()?;
    module.add_class::<sampler::RawDraws>()?;
    module.add_class::<samples::SampleReader>()?;
    module.add_class::<loader::BatchLoader>()?;
    module.add_class::<loader::EpochRun>()?;
    module.add_class::<statistics::RawStatistics>()?;
    module.add_class::<store::RawComm>()?;
    module.add_class::<store::RawStore>()?;
    module.add_class::<store_concat::RawStoreConcat>()?;
    module.add_class::<store::RawFilling>()?;
    module.add_class::<ranking::PyBlockFacts>()?;
    module.add_class::<stage_area::RawArea>()?;
    module.add_class::<stage_file::RawStagedFile>()?;
    module.add_class::<stage_sealed::RawSealed>()?;
    module.add_class::<warming::WarmingRun>()?;
    module.add_class::<memory::Memory>()?;
    module.add_class::<pinned::LoaderMemory>()?;
    module.add_class::<raw_batch::RawBatch>()?;
    module.add_class::<read::RawArray>()?;
    module.add_class::<file::FileReader>()?;
    module.add_class::<byte_origin::RawOrigin>()?;
    module.add_class::<byte_origin::RawSource>()?;
    module.add_class::<own_format::FormatFile>()?;
    module.add_function(wrap_pyfunction!(own_format::register, module)?)?;
    module.add_function(wrap_pyfunction!(command::run_command, module)?)?;
    module.add_function(wrap_pyfunction!(read::read_variable, module)?)?;
    module.add_function(wrap_pyfunction!(inspect::inspect_file, module)?)?;
    module.add_function(wrap_pyfunction!(inspect::format_at, module)?)?;
    module.add_function(wrap_pyfunction!(absolute_path, module)?)?;
    module.add_function(wrap_pyfunction!(expanded_files, module)?)?;
    module.add_function(wrap_pyfunction!(memory_report, module)?)?;
    module.add_function(wrap_pyfunction!(set_workers, module)?)?;
    module.add_function(wrap_pyfunction!(parse_size, module)?)?;
    module.add_function(wrap_pyfunction!(stage_settings::stage_settings, module)?)?;
    module.add_function(wrap_pyfunction!(stage_recover::stage_recover, module)?)?;
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

/// What this process may take of the node's memory budget, and who in it has taken how much, as JSON.
#[pyfunction]
fn memory_report() -> PyResult<String> {
    serde_json::to_string(&forebay::process::ledger().report()).map_err(|error| error::misread(&error))
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
