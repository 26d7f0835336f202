//! Blocks of any shape, stored and filtered as wholes, which may lie over each other: the later one wins.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Arc;

use forebay_container::{
    Boxes, Container, Dtype, Extents, Filter, Number, Selection, SourceIndex, Span, Values, Variable,
};
use forebay_format::Opened;
use forebay_source::{ByteRange, Locator, MemoryOrigin, Origin};

/// A generator of small numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// A stretch of an axis of `len` that has one index at least.
    fn stretch(&mut self, len: u64) -> (u64, u64) {
        let start = self.below(len);
        (start, 1 + self.below(len - start))
    }
}

const SHAPE: [u64; 2] = [30, 40];

/// An array of `count` blocks in a file, and the values that it has.
struct Made {
    opened: Opened,
    values: Vec<u16>,
}

fn made(dice: &mut Dice, count: u64, is_shuffled: bool) -> Made {
    let mut values = vec![7u16; 1200];
    let (mut file, mut boxes) = (vec![0u8; 5], Boxes::new(2));
    for number in 0..count {
        let ((row, rows), (column, columns)) = (dice.stretch(SHAPE[0]), dice.stretch(SHAPE[1]));
        let len = usize::try_from(rows * columns).unwrap();
        let block: Vec<u16> =
            (0..len).map(|at| u16::try_from(number * 41 + at as u64 % 37).unwrap()).collect();
        for (at, value) in (0..rows * columns).zip(&block) {
            let to = (row + at / columns) * SHAPE[1] + column + at % columns;
            values[usize::try_from(to).unwrap()] = *value;
        }
        let range = ByteRange::at(file.len() as u64, 2 * len as u64);
        boxes.push(&[row, column], &[rows, columns], SourceIndex(0), range);
        match is_shuffled {
            true => (0..2).for_each(|byte| file.extend(block.iter().map(|value| value.to_le_bytes()[byte]))),
            false => file.extend(block.iter().flat_map(|value| value.to_le_bytes())),
        }
    }
    let origin = MemoryOrigin::default().with("f", file);
    let source = origin.open(&Locator::new("f")).unwrap().id().clone();
    let mut variable = Variable::new("v", Dtype::native(Number::U16), SHAPE.to_vec());
    variable.extents = Extents::Boxes(boxes);
    variable.fill = 7u16.to_le_bytes().to_vec();
    if is_shuffled {
        variable.filters = vec![Filter::Shuffle { element_len: 2 }];
    }
    let container = Container { sources: vec![source], variables: vec![variable], ..Container::default() };
    let loaded = forebay_container::load(&forebay_container::save(&container).unwrap()).unwrap();
    assert_eq!(loaded, container, "what is described is sound");
    Made { opened: Opened::new(Arc::new(origin), Arc::new(loaded)), values }
}

fn wanted(values: &[u16], selection: &Selection) -> Vec<u8> {
    let [rows, columns] = selection.spans() else { return Vec::new() };
    let indexes = |span: &Span| {
        let Span { start, count, step } = *span;
        (0..count).map(move |at| start + at * step)
    };
    let all = indexes(rows).flat_map(|row| indexes(columns).map(move |column| row * SHAPE[1] + column));
    all.flat_map(|at| values[usize::try_from(at).unwrap()].to_le_bytes()).collect()
}

#[test]
fn any_selection_of_blocks_that_overlap_has_what_was_written_last() {
    let mut dice = Dice(7);
    for (count, is_shuffled) in [(1, false), (3, true), (12, false), (200, false), (200, true)] {
        let Made { opened, values } = made(&mut dice, count, is_shuffled);
        let variable = opened.variable("v").unwrap();
        for _ in 0..60 {
            let span = |dice: &mut Dice, len: u64| {
                let ((start, count), step) = (dice.stretch(len), 1 + dice.below(3));
                Span { start, count: count.div_ceil(step), step }
            };
            let selection = Selection::new(vec![span(&mut dice, SHAPE[0]), span(&mut dice, SHAPE[1])]);
            let array = opened.read(variable, &selection).unwrap();
            assert_eq!(array.values, Values::Fixed(wanted(&values, &selection)), "{count} {selection:?}");
        }
    }
}

#[test]
fn a_selection_of_one_block_requests_no_other() {
    let mut dice = Dice(11);
    let Made { opened, .. } = made(&mut dice, 50, true);
    let variable = opened.variable("v").unwrap();
    let Extents::Boxes(boxes) = &variable.extents else { panic!("not boxes") };
    for number in 0..SHAPE[0] {
        let row = Selection::new(vec![Span::range(number..number + 1), Span::range(0..SHAPE[1])]);
        let has_row = |start: u64, count: u64| (start..start + count).contains(&number);
        let touched = boxes.iter().filter(|one| has_row(one.start[0], one.count[0]));
        let expected: Vec<ByteRange> = touched.map(|one| one.extent.range).collect();
        let mut planned = Vec::new();
        opened.plan(variable, &row, &mut |_, range| planned.push(range)).unwrap();
        assert_eq!(planned, expected, "row {number}");
    }
}
