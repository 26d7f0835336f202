//! Any bytes at all as the files of a staging area: journals, facts of destinations, segments of redo logs.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    forebay_stage::try_untrusted(bytes);
});
