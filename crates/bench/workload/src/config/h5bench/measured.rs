//! The configurations A to H that the h5bench extension was measured with, as presets `h5bench_a` to `h5bench_h`.

use super::training;
use crate::{
    distribution::TimeDistribution,
    workload::{Compression, Workload},
};

/// One of these configurations; what is not named here is h5bench's default.
struct Measured {
    name: &'static str,
    record_length_bytes: u64,
    files: (u64, u64),
    batch: (u64, u64),
    threads: u32,
    seconds: (f64, f64),
    collective: bool,
    chunking: bool,
    compressed: bool,
    subfiling: bool,
}

const A: Measured = Measured {
    name: "h5bench_a",
    record_length_bytes: 67_108_864,
    files: (128, 32),
    batch: (7, 2),
    threads: 4,
    seconds: (0.323, 0.323),
    collective: true,
    chunking: false,
    compressed: false,
    subfiling: false,
};

/// The scaling tests: independent access, no read threads.
const D: Measured = Measured { name: "h5bench_d", files: (256, 64), threads: 0, collective: false, ..A };

const MEASURED: [Measured; 8] = [
    A,
    Measured {
        name: "h5bench_b",
        record_length_bytes: 146_600_628,
        files: (168, 0),
        batch: (4, 0),
        seconds: (1.3604, 0.0),
        ..A
    },
    Measured { name: "h5bench_c", files: (512, 128), ..A },
    D,
    Measured { name: "h5bench_e", collective: true, ..D },
    Measured { name: "h5bench_f", chunking: true, ..D },
    Measured { name: "h5bench_g", chunking: true, compressed: true, ..D },
    Measured { name: "h5bench_h", subfiling: true, ..D },
];

/// The names of these configurations.
pub(in crate::config) fn names() -> impl Iterator<Item = &'static str> {
    MEASURED.iter().map(|measured| measured.name)
}

/// The workload of `name`, generated, trained and evaluated.
pub(in crate::config) fn workload(name: &str) -> Option<Workload> {
    let measured = MEASURED.iter().find(|measured| measured.name == name)?;
    let mut workload = training::defaults();
    workload.model.name = name.to_owned();
    workload.phases.generate = true;
    workload.phases.train = true;
    workload.phases.evaluate = measured.files.1 > 0;
    workload.dataset.record_length_bytes = measured.record_length_bytes;
    (workload.dataset.num_files_train, workload.dataset.num_files_eval) = measured.files;
    (workload.reader.batch_size, workload.reader.batch_size_eval) = measured.batch;
    workload.reader.read_threads = measured.threads;
    workload.train.compute = TimeDistribution::Fixed { mean: measured.seconds.0 };
    workload.evaluation.compute = TimeDistribution::Fixed { mean: measured.seconds.1 };
    workload.hdf5.collective_meta = measured.collective;
    workload.hdf5.collective_data = measured.collective;
    workload.hdf5.chunking = measured.chunking;
    workload.hdf5.subfiling = measured.subfiling;
    if measured.compressed {
        workload.dataset.compression = Compression::Gzip;
    }
    Some(workload)
}
