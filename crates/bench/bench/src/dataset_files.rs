//! From a workload to its files: where they lie, how they are written, how engines read them.

use std::path::{Path, PathBuf};

use forebay::{Error, Result};
use forebay_workload::{
    Compression, DatasetSpec, ElementType, FileFormat, FileNaming, LoaderKind, Mt19937, Split,
    TimeDistribution, Workload, layout, order,
};

use crate::{
    engine::{forebay_plan::ForebayPlan, hdf5::Hdf5Plan},
    generate::{GenerateSetup, GeneratedFile, Hdf5Compression, Hdf5Storage, dtypes::hdf5_types},
    reading::sample_reader::ReaderSetup,
};

/// What DLIO seeds its sizes with.
const SIZE_SEED: u32 = 10;

/// The folder of all files of the data set.
pub(crate) fn data_folder(workload: &Workload) -> PathBuf {
    Path::new(&workload.storage.root).join(&workload.dataset.data_folder)
}

/// The paths of the files of `split`, in the order in which samples are numbered.
pub(crate) fn paths(workload: &Workload, split: Split) -> Vec<PathBuf> {
    let folder = data_folder(workload);
    layout::files(&workload.dataset, split).into_iter().map(|file| folder.join(file)).collect()
}

/// The files of `split` that are read: those of its names, or where there is none of these, the first that are found, as in DLIO.
///
/// The count of files is in the names, so that a part of a larger set is not known by them.
pub(crate) fn read_paths(workload: &Workload, split: Split) -> Vec<PathBuf> {
    let named = paths(workload, split);
    let (Some(first), Some(last)) = (named.first(), named.last()) else { return named };
    if first.exists() || last.exists() || first.parent() != last.parent() {
        return named;
    }
    let found = found_beside(first);
    if found.len() < named.len() { named } else { found.into_iter().take(named.len()).collect() }
}

/// Files of the folder and the extension of `file`, sorted by name.
fn found_beside(file: &Path) -> Vec<PathBuf> {
    let entries = file.parent().map(std::fs::read_dir).and_then(std::io::Result::ok);
    let is_alike = |path: &PathBuf| {
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        !is_hidden && path.extension() == file.extension()
    };
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = paths.filter(is_alike).collect();
    found.sort_unstable();
    found
}

/// All files of the data set, with what they hold.
pub(crate) fn generated(workload: &Workload) -> Vec<GeneratedFile> {
    let paths = [Split::Train, Split::Eval].into_iter().flat_map(|split| paths(workload, split));
    let mut random = Mt19937::seeded(SIZE_SEED);
    let file = |(number, path): (u64, PathBuf)| GeneratedFile {
        path,
        number,
        samples: workload.dataset.num_samples_per_file,
        shape: stored_shape(workload, record_len(&workload.dataset, &mut random)),
        element: workload.dataset.record_element_type,
        seed: u64::from(SIZE_SEED),
        compress_ratio: 1.0 / workload.dataset.compressible_to.clamp(0.001, 1.0),
    };
    (0..).zip(paths).map(file).collect()
}

/// Bytes of a record of the next file.
fn record_len(dataset: &DatasetSpec, random: &mut Mt19937) -> u64 {
    let (mean, stdev) = (dataset.record_length_bytes, dataset.record_length_bytes_stdev);
    if stdev <= 0.0 {
        return mean;
    }
    let drawn = TimeDistribution::Normal { mean: mean as f64, stdev }.draw(random);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number of bytes")]
    let drawn = drawn.round() as u64;
    drawn.max(1)
}

/// The shape of what one data set holds of a record of `record_len` bytes.
fn stored_shape(workload: &Workload, record_len: u64) -> Vec<u64> {
    let mut shape = layout::sample_shape(&workload.dataset, record_len);
    let parts = layout::record_names(workload).len() as u64;
    if workload.dataset.format == FileFormat::Hdf5
        && let Some(first) = shape.first_mut()
    {
        *first = (*first / parts).max(1);
    }
    shape.iter_mut().for_each(|axis| *axis = (*axis).max(1));
    shape
}

/// How the files are written.
pub(crate) fn generate_setup(workload: &Workload) -> Result<GenerateSetup> {
    let dataset = &workload.dataset;
    let is_hdf5 = dataset.format == FileFormat::Hdf5;
    Ok(GenerateSetup {
        format: dataset.format,
        storage: if is_hdf5 { hdf5_storage(workload)? } else { Hdf5Storage::default() },
        compression: if is_hdf5 { Compression::None } else { dataset.compression },
        level: dataset.compression_level.clamp(1, 9),
        index_folder: data_folder(workload).join("index"),
    })
}

fn hdf5_storage(workload: &Workload) -> Result<Hdf5Storage> {
    let (dataset, hdf5) = (&workload.dataset, &workload.hdf5);
    let level = dataset.compression_level;
    let compression = match dataset.compression {
        Compression::None => Hdf5Compression::None,
        Compression::Gzip => Hdf5Compression::Gzip(level.min(9)),
        Compression::Lzf => Hdf5Compression::Lzf,
        Compression::Lz4 => Hdf5Compression::Lz4,
        Compression::Bzip2 => Hdf5Compression::Bzip2(level.clamp(1, 9)),
        Compression::Zstd => Hdf5Compression::Zstd(level),
        Compression::Zip | Compression::Xz => {
            let what = format!("HDF5 has no filter {}", dataset.compression);
            return Err(Error::unsupported(what).hint("use gzip, lzf, lz4, bz2 or zstd"));
        }
    };
    Ok(Hdf5Storage {
        records: layout::record_names(workload),
        labels: hdf5.labels_name.clone(),
        chunk: layout::chunk_shape(workload),
        compression,
        latest_format: dataset.naming == FileNaming::Dlio,
    })
}

/// Bytes that the trainer is handed of each sample.
pub(crate) fn sample_len(workload: &Workload) -> u64 {
    let dataset = &workload.dataset;
    match dataset.record_length_bytes_resize {
        0 => {
            let parts = layout::record_names(workload).len() as u64;
            let shape = stored_shape(workload, dataset.record_length_bytes);
            let parts = if dataset.format == FileFormat::Hdf5 { parts } else { 1 };
            shape.iter().product::<u64>() * dataset.record_element_type.byte_len() * parts
        }
        resized => resized,
    }
}

/// Memory comes in slabs of 2 MiB, which go back to the system as wholes: with a limit below some of them each batch would lie in
/// fresh pages, and 64 KiB of a file of the page cache took 130 us to read instead of 16.
const SLAB_ROOM: u64 = 16 << 20;

/// Memory for `batches` of so many samples.
fn room(batches: u64, batch_size: u64, sample_len: u64) -> u64 {
    batches.saturating_mul(batch_size).saturating_mul(sample_len).saturating_add(SLAB_ROOM)
}

/// How libhdf5 reads `split`.
pub(crate) fn hdf5_plan(workload: &Workload, split: Split) -> Result<Hdf5Plan> {
    if workload.dataset.format != FileFormat::Hdf5 {
        let what = format!("engine hdf5 reads no files of format {}", workload.dataset.format);
        return Err(Error::unsupported(what).hint("use --engine forebay, or generate HDF5 files"));
    }
    let workers = workload.reader.read_threads;
    let sample_len = sample_len(workload);
    let batches = order::read_ahead(workload) + u64::from(workers) + 3;
    let memory = room(batches, order::batch_size(workload, split), sample_len);
    let setup = ReaderSetup {
        files: read_paths(workload, split),
        records: layout::record_names(workload),
        memory_type: memory_type(workload.dataset.record_element_type),
        sample_len,
        mpi_io: None,
        keeps_open: workload.reader.loader == LoaderKind::TensorFlow,
    };
    Ok(Hdf5Plan { setup, samples_per_file: workload.dataset.num_samples_per_file, workers, memory })
}

fn memory_type(element: ElementType) -> String {
    // The extension of h5bench reads bytes as `H5T_STD_U8LE`, which is what they are in memory too.
    hdf5_types(element).1.to_owned()
}

/// How forebay reads `split`.
pub(crate) fn forebay_plan(workload: &Workload, split: Split) -> ForebayPlan {
    let dataset = &workload.dataset;
    let (batch_size, sample_len) = (order::batch_size(workload, split).max(1), sample_len(workload));
    let batches = order::read_ahead(workload) + u64::from(workload.reader.read_threads) + 3;
    ForebayPlan {
        files: read_paths(workload, split),
        format: dataset.format,
        records: layout::record_names(workload),
        samples_per_file: dataset.num_samples_per_file,
        sample_ndim: layout::sample_shape(dataset, dataset.record_length_bytes).len(),
        batch_size,
        threads: workload.reader.read_threads,
        transfer_size: workload.reader.transfer_size,
        sizes_differ: dataset.record_length_bytes_stdev > 0.0,
        sample_len,
        memory: room(batches, batch_size, sample_len),
    }
}

/// Refuses a data set of which files are missing.
pub(crate) fn check_there(paths: &[PathBuf]) -> Result<()> {
    let missing: Vec<&PathBuf> = paths.iter().filter(|path| !path.exists()).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    let what = format!("{} of {} files are missing, the first of them this", missing.len(), paths.len());
    let error = Error::new(forebay::ErrorKind::NotFound, what).at(first.display());
    Err(error.hint("generate them (++workload.workflow.generate_data=True, or generate-data of h5bench), or ask for as many as there are"))
}

#[cfg(test)]
mod tests {
    use forebay::batch::Arena;

    use super::*;

    #[test]
    fn of_a_larger_set_the_first_files_are_read_and_a_smaller_one_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let mut workload = Workload::default();
        workload.storage.root = folder.path().display().to_string();
        workload.dataset.data_folder = String::new();
        workload.dataset.format = FileFormat::Hdf5;
        workload.dataset.num_files_train = 6;
        std::fs::create_dir(folder.path().join("train")).unwrap();
        let all = paths(&workload, Split::Train);
        all.iter().for_each(|path| std::fs::write(path, "").unwrap());
        std::fs::write(folder.path().join("train/.img_9_of_6.hdf5"), "").unwrap();
        std::fs::write(folder.path().join("train/a.txt"), "").unwrap();
        assert_eq!(read_paths(&workload, Split::Train), all);
        workload.dataset.num_files_train = 4;
        assert_eq!(read_paths(&workload, Split::Train), all[..4]);
        workload.dataset.num_files_train = 7;
        let asked = read_paths(&workload, Split::Train);
        let error = check_there(&asked).unwrap_err().to_string();
        assert!(asked == paths(&workload, Split::Train) && error.contains("7 of 7 files"), "{error}");
    }

    #[test]
    fn a_short_batch_is_read_into_the_memory_of_the_one_before() {
        let mut workload = Workload::default();
        workload.dataset.format = FileFormat::Hdf5;
        let plan = hdf5_plan(&workload, Split::Train).unwrap();
        let (arena, len) = (Arena::new(plan.memory), usize::try_from(plan.setup.sample_len).unwrap());
        let first = arena.take(len).unwrap().address().addr();
        // Nobody had the buffer any more, and the arena kept it.
        assert_eq!(arena.take(len).unwrap().address().addr(), first);
        assert_eq!(forebay_plan(&workload, Split::Train).memory, plan.memory, "of both engines");
    }
}
