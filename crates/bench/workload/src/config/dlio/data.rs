//! The sections `dataset` and `reader`.

use forebay_process::Result;

use crate::{
    config::section::Section,
    workload::{Compression, FileFormat, Workload},
};

pub(super) fn dataset(
    mut section: Section<'_>,
    workload: &mut Workload,
    notes: &mut Vec<String>,
) -> Result<()> {
    let dataset = &mut workload.dataset;
    section.set(&["data_folder"], &mut dataset.data_folder)?;
    section.set(&["train_folder"], &mut dataset.train_folder)?;
    section.set(&["eval_folder"], &mut dataset.eval_folder)?;
    section.set(&["format"], &mut dataset.format)?;
    section.set(&["layout"], &mut dataset.naming)?;
    section.set(&["num_files_train"], &mut dataset.num_files_train)?;
    section.set(&["num_files_eval"], &mut dataset.num_files_eval)?;
    section.set(&["num_samples_per_file"], &mut dataset.num_samples_per_file)?;
    section.set_bytes(&["record_length_bytes", "record_length"], &mut dataset.record_length_bytes)?;
    section
        .set(&["record_length_bytes_stdev", "record_length_stdev"], &mut dataset.record_length_bytes_stdev)?;
    let resize = &["record_length_bytes_resize", "record_length_resize"];
    section.set_bytes(resize, &mut dataset.record_length_bytes_resize)?;
    section.set(&["record_dims"], &mut dataset.record_dims)?;
    section.set(&["record_element_type"], &mut dataset.record_element_type)?;
    section.set(&["num_subfolders_train"], &mut dataset.num_subfolders_train)?;
    section.set(&["num_subfolders_eval"], &mut dataset.num_subfolders_eval)?;
    section.set(&["file_prefix"], &mut dataset.file_prefix)?;
    section.set(&["keep_files"], &mut dataset.keep_files)?;
    section.set_compression("compression", &mut dataset.compression)?;
    section.set(&["compression_level"], &mut dataset.compression_level)?;
    section.set(&["compressible_to"], &mut dataset.compressible_to)?;
    if !(dataset.compressible_to > 0.0 && dataset.compressible_to <= 1.0) {
        return Err(
            section.error("compressible_to", "data compress to a part above 0 and up to 1 of their size")
        );
    }
    if dataset.compression != Compression::None && !(1..=22).contains(&dataset.compression_level) {
        return Err(section.error("compression_level", "levels of compression go from 1 to 9, of zstd to 22"));
    }
    section.set_unused("generation_buffer_size", &mut dataset.generation_buffer_bytes, notes)?;
    chunks(&mut section, workload, notes)?;
    section.ignore(&["eval_num_samples_per_file", "parquet"], notes);
    section.finish()
}

fn chunks(section: &mut Section<'_>, workload: &mut Workload, notes: &mut Vec<String>) -> Result<()> {
    let hdf5 = &mut workload.hdf5;
    section.set(&["enable_chunking", "chunking"], &mut hdf5.chunking)?;
    section.set(&["chunk_size"], &mut hdf5.chunk_size)?;
    let mut nested = section.child(&["hdf5"])?;
    nested.set(&["chunk_dims"], &mut hdf5.chunk_dims)?;
    nested.set(&["num_dset_per_record"], &mut hdf5.datasets_per_record)?;
    nested.set_unused("max_shape", &mut hdf5.max_shape, notes)?;
    if !hdf5.chunk_dims.is_empty() {
        hdf5.chunking = true;
    }
    nested.finish()
}

pub(super) fn reader(
    mut section: Section<'_>,
    workload: &mut Workload,
    notes: &mut Vec<String>,
) -> Result<()> {
    let reader = &mut workload.reader;
    section.set(&["data_loader"], &mut reader.loader)?;
    section.set(&["batch_size"], &mut reader.batch_size)?;
    section.set(&["batch_size_eval"], &mut reader.batch_size_eval)?;
    section.set(&["read_threads"], &mut reader.read_threads)?;
    section.set_unused("computation_threads", &mut reader.computation_threads, notes)?;
    section.set(&["prefetch_size"], &mut reader.prefetch_size)?;
    section.set(&["rank_share"], &mut reader.rank_share)?;
    section.set(&["file_shuffle"], &mut reader.file_shuffle)?;
    section.set(&["sample_shuffle"], &mut reader.sample_shuffle)?;
    section.set_unused("shuffle_size", &mut reader.shuffle_size, notes)?;
    section.set_unused("read_type", &mut reader.read_type, notes)?;
    section.set(&["transfer_size"], &mut reader.transfer_size)?;
    section.set_time("preprocess_time", "preprocess_time_stdev", &mut reader.preprocess)?;
    section.set_unused("odirect", &mut reader.odirect, notes)?;
    let odirect = reader.odirect && !matches!(workload.dataset.format, FileFormat::Npy | FileFormat::Npz);
    if odirect && workload.like_dlio {
        return Err(section.error("odirect", "DLIO reads npy and npz alone around the page cache"));
    }
    section.set_unused("transformed_record_dims", &mut reader.transformed_record_dims, notes)?;
    let transformed = &mut reader.transformed_record_element_type;
    section.set_unused("transformed_record_element_type", transformed, notes)?;
    let unused =
        ["file_access", "dont_use_mmap", "pin_memory", "multiprocessing_context", "data_loader_sampler"];
    section.ignore(&unused, notes);
    section.ignore(&["data_loader_classname", "reader_classname", "storage_library"], notes);
    section.finish()
}
