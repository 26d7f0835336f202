//! One source of a field and where its elements go: read once, written once.

use forebay_container::{Number, cast::Cast};
use forebay_process::Result;

use crate::{
    draw::{Draw, DrawKind},
    program::{
        FieldProgram,
        step::{AxisMove, EndType, MoveKind, ValueOp},
    },
    rows::{
        RowWork,
        axis_runs::AxisRuns,
        layout::RowLayout,
        row_floats::{FloatRows, FloatStep, RowScratch, STREAMED},
    },
    spec::CropPlace,
};

/// A source whose elements have one type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceSource {
    /// Which of the sources that are stacked.
    pub(crate) number: usize,
    /// The type of its elements, where they are numbers.
    pub(crate) from: Option<Number>,
    /// Bytes of one.
    pub(crate) element_len: usize,
    /// Axes before those of a sample: 1 where many samples are walked as one array.
    pub(crate) axes_before: usize,
}

/// One source of a field and where its elements go.
#[derive(Debug)]
pub(crate) struct SourcePiece {
    layout: RowLayout,
    work: RowWork,
    /// In axes of the source.
    moves: Vec<AxisMove>,
    /// By outer axis, bytes from one index to the next in what comes out.
    out_strides: Vec<usize>,
    /// Where the first element goes, in bytes.
    out_start: usize,
    /// Bytes from one element of a row to the next.
    spacing: usize,
    /// Bytes of one element that comes out.
    out_len: usize,
}

impl SourcePiece {
    /// `source` of `program`, whose array, or whose sample, has `shape`, in what comes out with `out_shape`.
    pub(crate) fn new(
        program: &FieldProgram,
        source: PieceSource,
        shape: Vec<usize>,
        out_shape: &[usize],
    ) -> Self {
        let stack = program.stack_axis;
        // Axes behind the one that is stacked by stand one earlier in the source.
        let placed = |axis: usize| source.axes_before + axis - usize::from(stack.is_some_and(|at| axis > at));
        let moves: Vec<AxisMove> =
            program.moves.iter().map(|one| AxisMove { axis: placed(one.axis), ..one.clone() }).collect();
        let values: Vec<ValueOp> =
            program.values.iter().map(|value| of_source(value, stack, source.number, placed)).collect();
        let ndim = shape.len();
        let is_spaced = stack == Some(ndim);
        let least_row_axis = stack.filter(|_| !is_spaced).unwrap_or(0);
        let layout = RowLayout::new(shape, &moves, &values, least_row_axis);
        let out_len = program.element_len();
        let out_stride = |axis: usize| out_shape[axis + 1..].iter().product::<usize>() * out_len;
        let in_out = |axis: usize| axis + usize::from(stack.is_some_and(|at| axis >= at));
        let out_strides = (0..layout.row_axis).map(|axis| out_stride(in_out(axis))).collect();
        let out_start = stack.map_or(0, |at| source.number * out_stride(at));
        let spacing = if is_spaced { out_shape[ndim] * out_len } else { out_len };
        let is_streamed = !is_spaced && out_shape.iter().product::<usize>() * out_len >= STREAMED;
        let work = row_work(program.end, source, &values, &layout, is_streamed);
        Self { layout, work, moves, out_strides, out_start, spacing, out_len }
    }

    /// Makes what comes out of `from` in `to`, with what `seed` draws.
    pub(crate) fn run(&self, from: &[u8], to: &mut [u8], seed: u64) -> Result<()> {
        let runs = self.runs(seed);
        let RowLayout { row_axis, block, moves_row, strides, .. } = &self.layout;
        let row_runs = if *moves_row { runs[*row_axis].clone() } else { AxisRuns::whole(1) };
        let row = (&row_runs, *block);
        let row_len = row_runs.len() * block;
        if row_len == 0 || runs.iter().any(|runs| runs.len() == 0) {
            return Ok(());
        }
        let element_len = from.len() / self.layout.shape.iter().product::<usize>().max(1);
        let tables: Vec<Vec<usize>> = runs[..*row_axis]
            .iter()
            .zip(strides)
            .map(|(runs, stride)| runs.indexes().map(|index| index * stride * element_len).collect())
            .collect();
        let (mut spaced, mut scratch) = (Vec::new(), RowScratch::default());
        let mut outer = vec![0usize; *row_axis];
        loop {
            let source: usize = outer.iter().zip(&tables).map(|(index, table)| table[*index]).sum();
            let placed: usize =
                outer.iter().zip(&self.out_strides).map(|(index, stride)| index * stride).sum();
            let (from, start) = (&from[source..], self.out_start + placed);
            if self.spacing == self.out_len {
                let to = &mut to[start..start + row_len * self.out_len];
                self.work.run(from, to, row, &outer, &mut scratch)?;
            } else {
                spaced.resize(row_len * self.out_len, 0);
                self.work.run(from, &mut spaced, row, &outer, &mut scratch)?;
                for (element, slot) in
                    spaced.chunks_exact(self.out_len).zip(to[start..].chunks_mut(self.spacing))
                {
                    slot[..self.out_len].copy_from_slice(element);
                }
            }
            if !advance(&mut outer, &tables) {
                return Ok(());
            }
        }
    }

    /// By axis, which indexes come out.
    fn runs(&self, seed: u64) -> Vec<AxisRuns> {
        let mut runs: Vec<AxisRuns> = self.layout.shape.iter().map(|len| AxisRuns::whole(*len)).collect();
        for AxisMove { axis, from_end, key, kind } in &self.moves {
            let len = runs[*axis].len();
            let draw = |what: DrawKind| Draw::new(seed, what, *from_end, *key);
            let below = |draw: Draw, len: usize| usize::try_from(draw.below(len as u64)).unwrap_or(0);
            runs[*axis] = match kind {
                MoveKind::Crop { size, place: CropPlace::Center } => {
                    runs[*axis].crop((len - size) / 2, *size)
                }
                MoveKind::Crop { size, place: CropPlace::Random } => {
                    runs[*axis].crop(below(draw(DrawKind::Crop), len - size + 1), *size)
                }
                MoveKind::Flip { probability } if draw(DrawKind::Flip).happens(*probability) => {
                    runs[*axis].flip()
                }
                MoveKind::Flip { .. } => continue,
                MoveKind::Roll => runs[*axis].roll(below(draw(DrawKind::Roll), len)),
            };
        }
        runs
    }
}

/// Goes to the next row; false after the last.
fn advance(outer: &mut [usize], tables: &[Vec<usize>]) -> bool {
    for (index, table) in outer.iter_mut().zip(tables).rev() {
        *index += 1;
        if *index < table.len() {
            return true;
        }
        *index = 0;
    }
    false
}

/// `value` for source number `number` of those that are stacked along `stack`.
fn of_source(
    value: &ValueOp,
    stack: Option<usize>,
    number: usize,
    placed: impl Fn(usize) -> usize,
) -> ValueOp {
    match value {
        ValueOp::Normalize { mean, std, axis: Some(axis) } if Some(*axis) == stack => {
            ValueOp::Normalize { mean: vec![mean[number]], std: vec![std[number]], axis: None }
        }
        ValueOp::Normalize { mean, std, axis } => {
            ValueOp::Normalize { mean: mean.clone(), std: std.clone(), axis: axis.map(placed) }
        }
        other => other.clone(),
    }
}

fn row_work(
    end: EndType,
    source: PieceSource,
    values: &[ValueOp],
    layout: &RowLayout,
    is_streamed: bool,
) -> RowWork {
    match (end, source.from) {
        (EndType::OneHot { classes, to }, Some(from)) => RowWork::OneHot { from, classes, to },
        (EndType::Number(to), Some(from)) if values.is_empty() && from == to => RowWork::Moved(to.size()),
        (EndType::Number(to), Some(from)) if values.is_empty() && !goes_by_floats(from, to) => {
            RowWork::Cast(Cast { from, to, scale: None })
        }
        (EndType::Number(to), Some(from)) => {
            let steps = values.iter().map(|value| FloatStep::new(value, layout)).collect();
            RowWork::Floats(FloatRows { from, to, steps, block: layout.block, is_streamed })
        }
        (EndType::Kept, _) | (_, None) => RowWork::Moved(source.element_len),
    }
}

/// True when a 32-bit float holds every value of `from`, and `to` is a float of no more bits: the cast rounds once.
pub(crate) fn goes_by_floats(from: Number, to: Number) -> bool {
    use Number::{Bf16, F16, F32, I8, I16, U8, U16};
    matches!(from, I8 | U8 | I16 | U16 | F16 | Bf16 | F32) && matches!(to, F16 | Bf16 | F32)
}
