//! A description is plain data: what was saved is loaded as it was, and what was damaged is refused.

use std::collections::HashMap;

use forebay_container::{
    Boxes, ChunkTable, Container, Dtype, Extent, Extents, Grid, HyperslabAxis, Mapping, Mappings, Number,
    Opaque, Segments, SourceIndex, Variable, load, save,
};
use forebay_process::ErrorKind;
use forebay_source::{ByteRange, Locator, SourceId, Version};
use proptest::prelude::*;

fn source(name: &str) -> SourceId {
    let version = Version { tag: "1".into(), file: None, modified: None };
    SourceId { locator: Locator::new(name), len: 1 << 20, version }
}

fn extent(source: u32, start: u64) -> Extent {
    Extent { source: SourceIndex(source), range: ByteRange::at(start, 32), skipped: 0 }
}

fn variable(name: &str, extents: Extents) -> Variable {
    let grid = Grid { shape: vec![4, 4], chunk: vec![2, 4] };
    Variable { extents, grid, ..Variable::new(name, Dtype::native(Number::F32), vec![4, 4]) }
}

fn whole(name: &str, extents: Extents) -> Variable {
    Variable { extents, ..Variable::new(name, Dtype::native(Number::F32), vec![4, 4]) }
}

/// A container with a variable for each kind of extents.
fn every_kind() -> Container {
    let axes = |len| vec![HyperslabAxis { start: 0, stride: len, count: 1, block: len }; 2];
    let mapping = Mapping::new(0, axes(4), axes(4)).expect("both sides are alike");
    let segments = Segments::within(SourceIndex(1), [ByteRange::at(0, 48), ByteRange::at(100, 16)]);
    let chunks = |source| ChunkTable::new(vec![(0, extent(source, 0)), (1, extent(source, 64))], 2);
    let opaque = Opaque {
        library: "libhdf5".into(),
        why: "irregular mappings".into(),
        name: "opaque".into(),
        source: SourceIndex(0),
    };
    let mut boxes = Boxes::new(2);
    boxes.push(&[0, 0], &[4, 4], SourceIndex(0), ByteRange::at(512, 64));
    let variables = vec![
        whole("boxes", Extents::Boxes(boxes)),
        variable("chunks", Extents::Chunks(chunks(0).expect("two chunks"))),
        whole("inline", Extents::Inline(vec![7; 64])),
        whole("mapped", Extents::Mapped(Mappings::from(vec![mapping]))),
        whole("opaque", Extents::Opaque(opaque)),
        whole("segments", Extents::Segments(segments.expect("two segments"))),
    ];
    let parts = vec![variable("other.h5:part", Extents::Chunks(chunks(1).expect("two chunks")))];
    let sources = vec![source("a.h5"), source("other.h5")];
    Container { format: "hdf5".into(), sources, variables, parts, ..Container::default() }
}

#[test]
fn every_kind_of_extents_is_loaded_as_it_was_saved() {
    let container = every_kind();
    assert!(container.is_sound());
    assert_eq!(load(&save(&container).expect("it is saved")).expect("it is loaded"), container);
}

#[test]
fn a_description_that_is_read_as_json_by_another_process_is_the_same() {
    let container = every_kind();
    let text = serde_json::to_string(&container).expect("plain data");
    assert_eq!(serde_json::from_str::<Container>(&text).expect("its own text"), container);
}

#[test]
fn what_points_to_what_is_not_there_is_refused() {
    let damages: HashMap<&str, fn(&mut Container)> = HashMap::from([
        ("a source", (|container| drop(container.sources.pop())) as fn(&mut Container)),
        ("a part", |container| container.parts.clear()),
        ("an axis", |container| container.variables[1].grid.shape.push(1)),
        ("the order of names", |container| container.variables.reverse()),
    ]);
    for (what, damage) in damages {
        let mut container = every_kind();
        damage(&mut container);
        let error = load(&save(&container).expect("it is saved")).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}");
        assert!(error.to_string().contains("points to what is not there"), "{what}: {error}");
    }
}

proptest! {
    #[test]
    fn a_byte_that_was_changed_or_an_end_that_was_cut_is_refused(at in any::<prop::sample::Index>(), mask in 1u8..) {
        let mut bytes = save(&every_kind()).expect("it is saved");
        let at = at.index(bytes.len());
        prop_assert_eq!(load(&bytes[..at]).expect_err("it was cut").kind(), ErrorKind::Corrupt);
        bytes[at] ^= mask;
        prop_assert_eq!(load(&bytes).expect_err("it was changed").kind(), ErrorKind::Corrupt);
    }
}
