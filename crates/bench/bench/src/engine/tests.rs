//! What engine forebay reads is what was generated, in every format, whether sizes are alike or differ.

use std::sync::{Arc, atomic::AtomicBool};

use forebay::{
    Origins,
    plan::{Epoch, Groups, Plan, PlanSpec, Shard, Shuffle, Tail},
};
use forebay_workload::{Compression, ElementType, FileFormat};

use super::{
    StepReader, StepRequest,
    forebay_files::open_reader,
    forebay_plan::{ForebayPlan, counted_bytes},
};
use crate::{
    generate::{FileWriter, GenerateSetup, GeneratedFile, Hdf5Storage},
    workers::worker::Preprocessing,
};

const SIDE: u64 = 64;

/// Files of one format, of which file `n` has samples of `sides[n]` squared bytes.
struct GeneratedSet {
    _folder: tempfile::TempDir,
    files: Vec<GeneratedFile>,
    plan: ForebayPlan,
}

impl GeneratedSet {
    fn new(format: FileFormat, sides: &[u64]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let samples = if matches!(format, FileFormat::Jpeg | FileFormat::Png) { 1 } else { 3 };
        let setup = GenerateSetup {
            format,
            storage: Hdf5Storage::default(),
            compression: Compression::None,
            level: 4,
            index_folder: folder.path().join("index"),
        };
        let writer = FileWriter::new(setup).unwrap();
        let mut files = Vec::new();
        for (number, side) in (0..).zip(sides) {
            let file = GeneratedFile {
                path: folder.path().join("train").join(format!("img_{number}.{format}")),
                number,
                samples,
                shape: vec![*side, *side],
                element: ElementType::UInt8,
                seed: 7,
                compress_ratio: 1.0,
            };
            writer.write(&file).unwrap();
            files.push(file);
        }
        let plan = ForebayPlan {
            files: files.iter().map(|file| file.path.clone()).collect(),
            format,
            records: Vec::new(),
            samples_per_file: samples,
            sample_ndim: 2,
            batch_size: 2,
            threads: 0,
            transfer_size: None,
            sizes_differ: sides.iter().any(|side| *side != SIDE),
            sample_len: SIDE * SIDE,
            memory: 1 << 20,
        };
        Self { _folder: folder, files, plan }
    }

    /// The bytes of sample `number` as they were generated; `None` where a codec changes them.
    fn expected(&self, number: u64) -> Option<Vec<u8>> {
        let file = &self.files[usize::try_from(number / self.plan.samples_per_file).unwrap()];
        let record = number % self.plan.samples_per_file;
        let mut all = vec![0; usize::try_from(file.data_len()).unwrap()];
        file.content().fill(&mut all);
        let (len, samples) = (usize::try_from(file.record_len()).unwrap(), file.samples);
        let picked: Vec<u8> = match self.plan.format {
            FileFormat::Jpeg => return None,
            FileFormat::Npz | FileFormat::Npy => {
                let skip = usize::try_from(record).unwrap();
                all.into_iter().skip(skip).step_by(usize::try_from(samples).unwrap()).collect()
            }
            FileFormat::Csv => {
                let start = usize::try_from(record).unwrap() * len;
                let numbers = all[start..start + len].iter().map(|value| f64::from(*value));
                std::iter::once(record as f64).chain(numbers).flat_map(f64::to_ne_bytes).collect()
            }
            _ => all[usize::try_from(record).unwrap() * len..][..len].to_vec(),
        };
        Some(picked)
    }
}

fn epoch() -> Epoch {
    let spec = PlanSpec {
        shuffle: Shuffle::None,
        seed: 0,
        batch: 1,
        shard: Shard::default(),
        tail: Some(Tail::Short),
    };
    Plan::new(spec, Arc::new(Groups::new(&[1], 1).unwrap())).unwrap().epoch(0, 0).unwrap()
}

fn read(reader: &dyn StepReader, samples: &[u64]) -> (Vec<u8>, Vec<u64>) {
    let preprocess = Preprocessing { seconds: &[], is_over: &AtomicBool::new(false) };
    let request = StepRequest { worker: 0, samples, preprocess, epoch: &epoch(), of_ranks: &[] };
    let batch = reader.read(&request).unwrap();
    let lens = batch.times.samples.iter().map(|times| times.bytes).collect();
    (batch.made.fields[0].bytes.to_vec(), lens)
}

const FORMATS: [FileFormat; 9] = [
    FileFormat::Npz,
    FileFormat::Npy,
    FileFormat::TfRecord,
    FileFormat::Csv,
    FileFormat::Jpeg,
    FileFormat::Png,
    FileFormat::IndexedBinary,
    FileFormat::NetCdf,
    FileFormat::Zarr,
];

#[test]
fn batches_hold_the_samples_that_were_generated_in_every_format() {
    for format in FORMATS {
        let set = GeneratedSet::new(format, &[SIDE, SIDE, SIDE]);
        let reader = open_reader(&set.plan, &Origins::new(), None).unwrap();
        let count = 3 * set.plan.samples_per_file;
        for samples in [[0, 1], [count - 1, 0], [2, count - 2]] {
            let (found, _) = read(&*reader, &samples);
            let expected: Option<Vec<u8>> = samples
                .iter()
                .map(|sample| set.expected(*sample))
                .collect::<Option<Vec<_>>>()
                .map(|parts| parts.concat());
            match expected {
                Some(expected) => assert!(found == expected, "{format}, samples {samples:?}"),
                None => assert_eq!(found.len() as u64, 2 * SIDE * SIDE, "{format}"),
            }
        }
    }
}

#[test]
fn samples_of_other_sizes_are_cut_or_filled_up_and_counted_whole() {
    for format in FORMATS {
        let set = GeneratedSet::new(format, &[SIDE, 48, 80]);
        let reader = open_reader(&set.plan, &Origins::new(), None).unwrap();
        let per_file = set.plan.samples_per_file;
        let samples = [0, per_file, 2 * per_file];
        let (found, lens) = read(&*reader, &samples);
        let one_len = usize::try_from(SIDE * SIDE).unwrap();
        for (number, (sample, slot)) in samples.iter().zip(found.chunks(one_len)).enumerate() {
            let Some(mut expected) = set.expected(*sample) else { continue };
            let counted = counted_bytes(format, expected.len() as u64);
            assert_eq!(lens[number], counted, "{format}, sample {sample}");
            expected.resize(one_len, 0);
            assert!(slot == expected, "{format}, sample {sample}");
        }
    }
}

#[test]
fn a_sample_that_a_file_does_not_have_is_an_error_that_names_the_file() {
    for sides in [[SIDE, SIDE], [SIDE, 48]] {
        let mut set = GeneratedSet::new(FileFormat::IndexedBinary, &sides);
        set.plan.samples_per_file = 4;
        let error = match open_reader(&set.plan, &Origins::new(), None) {
            Err(error) => error,
            Ok(reader) => {
                let request = StepRequest {
                    worker: 0,
                    samples: &[3],
                    preprocess: Preprocessing { seconds: &[], is_over: &AtomicBool::new(false) },
                    epoch: &epoch(),
                    of_ranks: &[],
                };
                let error = reader.read(&request).unwrap_err();
                assert!(error.to_string().contains("img_0"), "{error}");
                error
            }
        };
        assert_eq!(error.kind(), forebay::ErrorKind::NotFound, "{error}");
    }
}
