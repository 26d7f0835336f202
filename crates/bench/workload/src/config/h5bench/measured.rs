//! The configurations that the h5bench extension was measured with, as presets `h5bench_a` to `h5bench_h`.

use super::training;
use crate::{config::preset_list::MeasuredPreset, distribution::TimeDistribution, workload::Workload};

/// The workload of such a preset, generated, trained and evaluated.
pub(in crate::config) fn workload(preset: &MeasuredPreset) -> Workload {
    let mut workload = training::defaults();
    workload.model.name = preset.name.clone();
    workload.phases.generate = true;
    workload.phases.train = true;
    workload.phases.evaluate = preset.files.1 > 0;
    workload.dataset.record_length_bytes = preset.record_bytes;
    (workload.dataset.num_files_train, workload.dataset.num_files_eval) = preset.files;
    (workload.reader.batch_size, workload.reader.batch_size_eval) = preset.batch_sizes;
    workload.reader.read_threads = preset.read_threads;
    workload.train.compute = TimeDistribution::Fixed { mean: preset.compute_s.0 };
    workload.evaluation.compute = TimeDistribution::Fixed { mean: preset.compute_s.1 };
    workload.hdf5.collective_meta = preset.collective;
    workload.hdf5.collective_data = preset.collective;
    workload.hdf5.chunking = preset.chunking;
    workload.hdf5.subfiling = preset.subfiling;
    if let Some(compression) = preset.compression {
        workload.dataset.compression = compression;
    }
    workload
}
