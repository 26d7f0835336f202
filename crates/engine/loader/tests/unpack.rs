//! Packed values: each file has its own factors, and what a field becomes holds what all of them give.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Arc;

use forebay_container::{
    Array, Attribute, ByteOrder, ChunkTable, Container, Dtype, Extent, Extents, Number, SourceIndex, Values,
    Variable,
    unpack::{Unpack, UnpackKind},
};
use forebay_format::Opened;
use forebay_loader::{AxisName, Boundary, FieldSpec, Loader, Options, SampleSet, SampleSpec};
use forebay_process::{ErrorKind, Result};
use forebay_source::{ByteRange, Locator, MemoryOrigin, Origin};

/// Six samples of four numbers, one number after the other.
fn file(name: &str, attributes: &[(&str, f64)]) -> Arc<Opened> {
    let bytes: Vec<u8> = (0..24i16).flat_map(i16::to_be_bytes).collect();
    let origin: Arc<dyn Origin> = Arc::new(MemoryOrigin::default().with(name, bytes));
    let big_endian = Dtype::Number { number: Number::I16, order: ByteOrder::Big };
    let mut variable = Variable::new("x", big_endian, vec![6, 4]);
    let extent = Extent { source: SourceIndex(0), range: ByteRange::at(0, 48), skipped: 0 };
    variable.extents = Extents::Chunks(ChunkTable::new(vec![(0, extent)], 1).unwrap());
    variable.dimensions = vec!["time".into(), "place".into()];
    for (name, value) in attributes {
        let values = Values::Fixed(value.to_ne_bytes().to_vec());
        let value = Ok(Array { dtype: Dtype::native(Number::F64), shape: vec![], values });
        variable.attributes.push(Attribute { name: (*name).to_owned(), value });
    }
    let container = Container {
        format: "made".into(),
        sources: vec![origin.open(&Locator::new(name)).unwrap().id().clone()],
        variables: vec![variable],
        ..Container::default()
    };
    Arc::new(Opened::new(origin, Arc::new(container)))
}

fn set(files: Vec<Arc<Opened>>, kind: UnpackKind, samples: Boundary) -> Result<SampleSet> {
    let mut field = FieldSpec { samples, ..FieldSpec::new("x") };
    field.convert.unpack = Some(Unpack { kind, valid: false });
    SampleSet::new(SampleSpec { fields: vec![field] }, &[files])
}

fn floats(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|eight| f64::from_ne_bytes(eight.try_into().unwrap())).collect()
}

#[test]
fn a_batch_of_many_files_has_each_sample_by_its_own_factors() {
    let files = vec![
        file("half", &[("scale_factor", 0.5)]),
        file("raised", &[("add_offset", 100.0), ("_FillValue", 6.0)]),
        file("plain", &[]),
    ];
    let set = Arc::new(set(files, UnpackKind::Decoded, Boundary::default()).unwrap());
    assert_eq!(set.fields()[0].dtype, Dtype::native(Number::F64));
    let options = Options { batch_size: 18, ..Options::default() };
    let loader = Loader::new(set, options).unwrap();
    let batch = loader.batches().unwrap().next().unwrap().unwrap();
    let values = floats(&batch.field("x").unwrap().bytes);
    for (slot, row) in batch.samples.iter().zip(values.chunks_exact(4)) {
        let sample = slot.unwrap();
        for (column, value) in row.iter().enumerate() {
            let stored = (sample % 6 * 4) as f64 + column as f64;
            let expected = match sample / 6 {
                0 => stored * 0.5,
                1 if stored == 6.0 => f64::NAN,
                1 => stored + 100.0,
                _ => stored,
            };
            assert!(value.total_cmp(&expected).is_eq(), "sample {sample}: {value}, not {expected}");
        }
    }
}

#[test]
fn a_file_that_declares_nothing_is_asked_for_its_mask_too() {
    let files = vec![file("gaps", &[("missing_value", 3.0)]), file("none", &[])];
    let set = Arc::new(set(files, UnpackKind::Masked, Boundary::default()).unwrap());
    let names: Vec<String> = set.fields().into_iter().map(|field| field.name).collect();
    assert_eq!(names, ["x", "x_mask"]);
    let loader = Loader::new(set, Options { batch_size: 12, ..Options::default() }).unwrap();
    let batch = loader.batches().unwrap().next().unwrap().unwrap();
    let masked: Vec<usize> =
        batch.field("x_mask").unwrap().bytes.iter().map(|byte| usize::from(*byte)).collect();
    assert_eq!(masked.iter().sum::<usize>(), 1);
    assert_eq!(batch.field("x").unwrap().dtype, Dtype::native(Number::I16));
}

#[test]
fn nothing_is_copied_twice_where_nothing_is_packed() {
    let set = set(vec![file("plain", &[])], UnpackKind::Decoded, Boundary::default()).unwrap();
    assert_eq!(set.fields()[0].dtype, Dtype::native(Number::I16));
}

#[test]
fn samples_along_a_named_axis_lose_it() {
    let along = |rows| Boundary::Along { axis: AxisName::Name("place".into()), rows };
    let shape = |rows| {
        let set = set(vec![file("plain", &[])], UnpackKind::Decoded, along(rows)).unwrap();
        (set.len(), set.fields()[0].sample_shape.clone())
    };
    assert_eq!(shape(1), (4, vec![Some(6)]));
    assert_eq!(shape(2), (2, vec![Some(6), Some(2)]));
    let refused = set(vec![file("plain", &[])], UnpackKind::Decoded, along(3)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

#[test]
fn an_attribute_that_makes_no_sense_is_an_error_that_names_file_and_variable() {
    let mut container = file("odd", &[]).container().clone();
    let value = Err("a type nobody knows".to_owned());
    container.variables[0].attributes.push(Attribute { name: "scale_factor".into(), value });
    let origin: Arc<dyn Origin> = Arc::new(MemoryOrigin::default());
    let odd = Arc::new(Opened::new(origin, Arc::new(container)));
    let error = set(vec![odd], UnpackKind::Decoded, Boundary::default()).unwrap_err().to_string();
    for part in ["odd", "variable 'x'", "scale_factor", "a type nobody knows"] {
        assert!(error.contains(part), "{error}");
    }
}
