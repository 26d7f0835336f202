//! HDF5 files of sound structures that lead to each other in any way.
#![no_main]

use forebay_format::Hdf5;
use forebay_fuzz::plan::Plan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|plan: Plan| {
    if let Some(file) = plan.file() {
        forebay_fuzz::try_file(&Hdf5, &file);
    }
});
