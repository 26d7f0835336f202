//! Batches of a maker in memory, transformed: bit for bit what a plain loop gives.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{collections::HashSet, sync::Arc};

use forebay_batch::{
    Arena, AtOnce, BatchMaker, BatchRequest, FieldArray, LoaderStats, MadeFields, MakerThreads, PlainBacking,
};
use forebay_container::{Dtype, Number, cf::ValueKind};
use forebay_plan::{Groups, Plan, PlanSpec, SetIdentity, Shard, Shuffle};
use forebay_process::{ErrorKind, Result};
use forebay_transform::{
    BatchRoom, CropPlace, FieldForm, MeasuredBatches, StatisticsSpec, TransformOp, TransformSpec,
    Transformed, TransformedField,
};

const SHAPE: [usize; 3] = [3, 7, 9];
const SAMPLE: usize = 3 * 7 * 9;
const COUNT: u64 = 40;

/// Pictures whose bytes are a formula of sample and place.
#[derive(Debug)]
struct Pictures {
    set: SetIdentity,
    arena: Arc<Arena>,
}

fn byte(sample: u64, place: usize) -> u8 {
    u8::try_from((sample * 31 + place as u64 * 7) % 256).unwrap()
}

impl Pictures {
    fn new() -> Arc<Self> {
        let (content, version) = ("pictures".to_owned(), "1".to_owned());
        let set = SetIdentity { part_lens: vec![COUNT], group_len: 1, numbering: None, content, version };
        Arc::new(Self { set, arena: Arena::new(1 << 20) })
    }

    fn forms() -> Vec<FieldForm> {
        let shape = SHAPE.iter().map(|len| Some(*len as u64)).collect();
        let form = |name: &str, sample_shape| FieldForm {
            name: name.to_owned(),
            dtype: Dtype::native(Number::U8),
            kind: ValueKind::Number,
            sample_shape,
        };
        vec![form("x", shape), form("y", Vec::new())]
    }
}

impl BatchMaker for Pictures {
    fn set(&self) -> &SetIdentity {
        &self.set
    }

    fn threads(&self) -> MakerThreads {
        MakerThreads::Any
    }

    fn make(&self, request: &BatchRequest<'_>) -> Result<MadeFields> {
        let count = request.samples.len();
        let mut bytes = self.arena.take(count * SAMPLE)?;
        let mut labels = self.arena.take(count)?;
        for (slot, sample) in request.samples.iter().enumerate() {
            labels[slot] = sample.map_or(0, |sample| u8::try_from(sample % 4).unwrap());
            for place in 0..SAMPLE {
                bytes[slot * SAMPLE + place] = sample.map_or(0, |sample| byte(sample, place));
            }
        }
        let shape = std::iter::once(count as u64).chain(SHAPE.iter().map(|len| *len as u64)).collect();
        let field = |name: &str, shape, bytes| FieldArray {
            name: name.to_owned(),
            dtype: Dtype::native(Number::U8),
            kind: ValueKind::Number,
            shape,
            bytes,
            offsets: None,
        };
        let fields = vec![field("x", shape, bytes), field("y", vec![count as u64], labels)];
        Ok(MadeFields { fields, unverified: None })
    }

    fn is_too_long(&self, _: u64) -> bool {
        false
    }

    fn release_idle_memory(&self) {}

    fn stats(&self) -> LoaderStats {
        LoaderStats::default()
    }
}

fn plan() -> Plan {
    let spec = PlanSpec { shuffle: Shuffle::Full, seed: 5, batch: 6, shard: Shard::default(), tail: None };
    Plan::new(spec, Arc::new(Groups::new(&[COUNT], 1).unwrap())).unwrap()
}

fn transformed(fields: Vec<TransformedField>) -> Result<Transformed> {
    let room = BatchRoom { batch_size: 6, batches: 3, backing: Arc::new(PlainBacking::default()) };
    Transformed::new(
        Pictures::new(),
        &Pictures::forms(),
        &TransformSpec { fields, is_selection: false },
        room,
    )
}

fn of(name: &str, ops: Vec<TransformOp>) -> TransformedField {
    TransformedField { name: name.to_owned(), from: vec![name.to_owned()], stack_axis: None, ops }
}

fn normalize(axis: i64) -> TransformOp {
    TransformOp::Normalize { mean: vec![10.0, 20.5, 30.25], std: vec![3.0, 7.0, 11.0], axis: Some(axis) }
}

fn places() -> impl Iterator<Item = (usize, usize, usize)> {
    (0..3).flat_map(|channel| (0..4).flat_map(move |row| (0..5).map(move |column| (channel, row, column))))
}

#[test]
fn the_middle_of_pictures_normalised_by_channel_is_what_a_plain_loop_gives() {
    let crop = TransformOp::Crop { sizes: vec![4, 5], axes: None, place: CropPlace::Center, key: 0 };
    let flip = TransformOp::Flip { axis: -1, probability: 1.0, key: 0 };
    let maker = transformed(vec![of("x", vec![crop, normalize(0), flip])]).unwrap();
    let (plan, mut samples) = (plan(), Vec::new());
    let epoch = plan.epoch(2, 0).unwrap();
    for step in 0..epoch.step_count() {
        epoch.batch(step, &mut samples);
        samples[0] = if step == 1 { None } else { samples[0] };
        let request = BatchRequest {
            samples: &samples,
            numbers: &samples,
            epoch: &epoch,
            step,
            oldest_step: step,
            turn: &AtOnce,
        };
        let made = maker.make(&request).unwrap().fields;
        assert_eq!(made[0].shape, [samples.len() as u64, 3, 4, 5]);
        let mut values = made[0].bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes));
        for sample in &samples {
            for (channel, row, column) in places() {
                let place = (channel * 7 + row + 1) * 9 + 2 + (4 - column);
                let (mean, std) = ([10.0f32, 20.5, 30.25][channel], [3.0f32, 7.0, 11.0][channel]);
                let wanted = sample.map_or(0.0, |sample| (f32::from(byte(sample, place)) - mean) / std);
                assert_eq!(values.next().unwrap().to_bits(), wanted.to_bits());
            }
        }
        assert_eq!(made[1].name, "y");
    }
}

#[test]
fn what_is_drawn_is_the_same_whichever_batch_a_sample_is_in() {
    let crop = TransformOp::Crop { sizes: vec![2, 2], axes: None, place: CropPlace::Random, key: 0 };
    let maker = transformed(vec![of("x", vec![TransformOp::Roll { axis: 1, key: 0 }, crop])]).unwrap();
    let epoch = plan().epoch(0, 0).unwrap();
    let make = |samples: &[Option<u64>]| {
        let request =
            BatchRequest { samples, numbers: samples, epoch: &epoch, step: 0, oldest_step: 0, turn: &AtOnce };
        maker.make(&request).unwrap().fields.remove(0).bytes.to_vec()
    };
    let both = make(&[Some(3), Some(8)]);
    assert_eq!([make(&[Some(3)]), make(&[Some(8)])].concat(), both);
    let cut: HashSet<Vec<u8>> = (0..COUNT).map(|sample| make(&[Some(sample)])).collect();
    assert!(cut.len() > 30);
}

#[test]
fn what_is_drawn_follows_the_number_in_the_epoch() {
    let maker = transformed(vec![of("x", vec![TransformOp::Roll { axis: 2, key: 0 }])]).unwrap();
    let epoch = plan().epoch(0, 0).unwrap();
    let first_row = |sample: u64, number: u64| {
        let (samples, numbers) = (&[Some(sample)], &[Some(number)]);
        let request =
            BatchRequest { samples, numbers, epoch: &epoch, step: 0, oldest_step: 0, turn: &AtOnce };
        maker.make(&request).unwrap().fields.remove(0).bytes[..9].to_vec()
    };
    let shift = |sample: u64, number: u64| {
        let row = first_row(sample, number);
        row.iter().position(|value| *value == byte(sample, 0)).unwrap()
    };
    for number in 0..COUNT {
        assert_eq!(shift(3, number), shift(8, number));
    }
    assert!((0..COUNT).map(|number| shift(3, number)).collect::<HashSet<_>>().len() > 5);
}

#[test]
fn a_number_that_is_no_class_is_about_its_sample() {
    let maker = transformed(vec![of("y", vec![TransformOp::OneHot { classes: 3, to: Number::U8 }])]).unwrap();
    let epoch = plan().epoch(0, 0).unwrap();
    let make = |samples: &[Option<u64>]| {
        maker.make(&BatchRequest {
            samples,
            numbers: samples,
            epoch: &epoch,
            step: 0,
            oldest_step: 0,
            turn: &AtOnce,
        })
    };
    let fields = make(&[Some(1), None, Some(2)]).unwrap().fields;
    assert_eq!(fields[1].shape, [3, 3]);
    assert_eq!(fields[1].bytes.to_vec(), [0, 1, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(make(&[Some(3)]).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn steps_that_make_no_sense_are_refused_before_any_batch() {
    let crop = |sizes: Vec<u64>| TransformOp::Crop { sizes, axes: None, place: CropPlace::Random, key: 0 };
    let cast = TransformOp::Cast { to: Number::F16 };
    let refused = [
        of("x", vec![crop(vec![8, 1])]),
        of("x", vec![crop(vec![0])]),
        of("x", vec![TransformOp::Flip { axis: 3, probability: 0.5, key: 0 }]),
        of("x", vec![TransformOp::Flip { axis: 0, probability: 1.5, key: 0 }]),
        of("x", vec![cast, TransformOp::Log { add: 0.0 }]),
        of("x", vec![normalize(1)]),
        of("x", vec![crop(vec![2, 7, 9]), normalize(0)]),
        of("x", vec![TransformOp::Clip { low: Some(2.0), high: Some(1.0) }]),
        of("x", vec![TransformOp::Normalize { mean: vec![0.0], std: vec![0.0], axis: None }]),
        of("z", vec![normalize(0)]),
    ];
    for field in refused {
        let error = transformed(vec![field.clone()]).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{field:?}: {error}");
    }
}

#[test]
fn statistics_do_not_depend_on_the_order_in_which_batches_are_made() {
    let spec =
        StatisticsSpec { fields: vec![("x".into(), Some(0)), ("y".into(), None)], quantiles: vec![0.5] };
    let epoch = plan().epoch(0, 0).unwrap();
    let measured = |order: &mut dyn Iterator<Item = u64>| {
        let maker = MeasuredBatches::new(Pictures::new(), &Pictures::forms(), &spec).unwrap();
        let mut samples = Vec::new();
        for step in order {
            epoch.batch(step, &mut samples);
            let request = BatchRequest {
                samples: &samples,
                numbers: &samples,
                epoch: &epoch,
                step,
                oldest_step: 0,
                turn: &AtOnce,
            };
            assert!(maker.make(&request).unwrap().fields.is_empty());
        }
        (0..epoch.step_count()).for_each(|step| maker.take(step).unwrap());
        maker.statistics()
    };
    let found = measured(&mut (0..epoch.step_count()));
    assert_eq!(found, measured(&mut (0..epoch.step_count()).rev()));
    assert_eq!(found[0].channels.len(), 3);
    assert_eq!(found[0].channels[0].count, COUNT * 63);
    let labels = &found[1].channels[0];
    assert_eq!((labels.count, labels.min, labels.max, labels.mean), (COUNT, 0.0, 3.0, 1.5));
    assert_eq!(labels.quantiles, [1.0]);
}
