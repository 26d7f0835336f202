//! Windows along an axis that goes on from file to file, cut at the borders of files into pieces.

use std::{ops::Range, sync::Arc};

use crate::{grid::selection::Span, samples::repeated::RepeatedAxis};

/// Windows along axis 0 of an array whose rows lie in several files, one after the other.
#[derive(Clone, Debug)]
pub struct SeriesWindows {
    /// The first row of each file, and one past the last of all.
    files: Vec<u64>,
    /// The first window with a row of each file.
    first_windows: Vec<u64>,
    /// Stretches of rows that no window leaves.
    stretches: Vec<Stretch>,
    /// How many windows there are along axis 0.
    count: u64,
    /// Rows from one window to the next.
    stride: u64,
    /// The rows of a window.
    runs: Vec<RowRun>,
    /// How boxes lie along the other axes.
    inner: Vec<RepeatedAxis>,
    /// Samples of one window along axis 0.
    each: u64,
    /// True when a box has all of the other axes.
    has_whole_rows: bool,
}

/// Rows without a gap.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first_row: u64,
    first_window: u64,
}

/// Rows of a window at regular places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowRun {
    /// The first, from where the window begins.
    offset: u64,
    step: u64,
    count: u64,
}

/// What a sample has of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesPiece {
    /// Which file.
    pub file: usize,
    /// The number of the piece among those of the file.
    pub number: u64,
    /// Its rows, which follow those of the pieces before it.
    pub rows: u64,
}

/// What windows are, before it is known which files they lie in.
#[derive(Clone, Debug)]
pub struct WindowShape {
    /// The rows of a window from where it begins, rising.
    pub rows: Vec<u64>,
    /// How many rows a window needs, be they part of it or not.
    pub reach: u64,
    /// Rows from one window to the next.
    pub stride: u64,
    /// How boxes lie along the other axes.
    pub inner: Vec<RepeatedAxis>,
    /// Samples of one window along axis 0.
    pub each: u64,
    /// True when a box has all of the other axes.
    pub has_whole_rows: bool,
}

impl SeriesWindows {
    /// Windows of `shape` over files of `file_rows` rows each; none leaves one of `stretches`, which are ranges of all rows in
    /// their order. Nothing where there are more than can be counted.
    pub fn new(shape: WindowShape, file_rows: &[u64], stretches: &[Range<u64>]) -> Option<Self> {
        let mut files = vec![0u64];
        for rows in file_rows {
            files.push(files.last()?.checked_add(*rows)?);
        }
        let stride = shape.stride.max(1);
        let mut found = Vec::new();
        let mut count = 0u64;
        for rows in stretches {
            let len = rows.end.saturating_sub(rows.start);
            if let Some(beyond) = len.checked_sub(shape.reach.max(1)) {
                found.push(Stretch { first_row: rows.start, first_window: count });
                count += beyond / stride + 1;
            }
        }
        let runs = runs_of(&shape.rows);
        count.checked_mul(shape.each)?.checked_mul(runs.len() as u64)?;
        let mut windows = Self {
            files,
            first_windows: Vec::new(),
            stretches: found,
            count,
            stride,
            runs,
            inner: shape.inner,
            each: shape.each.max(1),
            has_whole_rows: shape.has_whole_rows,
        };
        windows.first_windows =
            windows.files.windows(2).map(|two| windows.touching(two[0]..two[1]).start).collect();
        Some(windows)
    }

    /// How many samples there are.
    pub fn sample_count(&self) -> u64 {
        self.count * self.each
    }

    /// The shape of one.
    pub fn sample_shape(&self) -> Vec<u64> {
        let rows = self.runs.iter().map(|run| run.count).sum();
        std::iter::once(rows).chain(self.inner.iter().map(|axis| axis.window.size)).collect()
    }

    /// How boxes lie along the axes other than 0.
    pub fn inner(&self) -> &[RepeatedAxis] {
        &self.inner
    }

    /// Samples of one window along axis 0.
    pub fn each(&self) -> u64 {
        self.each
    }

    /// How many samples begin in each file.
    pub fn begins(&self) -> Vec<u64> {
        let begin = |row: u64| self.partition_point(|first| first < row);
        self.files.windows(2).map(|two| (begin(two[1]) - begin(two[0])) * self.each).collect()
    }

    /// The corner of the box of `sample`, axis 0 counted over all files: where its window begins.
    pub fn origin(&self, sample: u64) -> Vec<u64> {
        let row = self.row(sample / self.each);
        std::iter::once(row).chain(self.inner.iter().map(|axis| axis.span(sample).start)).collect()
    }

    /// The row that window `window` begins at.
    fn row(&self, window: u64) -> u64 {
        let after = self.stretches.partition_point(|stretch| stretch.first_window <= window);
        let Some(stretch) = after.checked_sub(1).map(|at| self.stretches[at]) else { return 0 };
        stretch.first_row + (window - stretch.first_window) * self.stride
    }

    /// The windows that may have some of `rows`.
    fn touching(&self, rows: Range<u64>) -> Range<u64> {
        let (Some(first), Some(last)) = (self.runs.first(), self.runs.last()) else { return 0..0 };
        let last_row = last.offset + last.count.saturating_sub(1) * last.step;
        let begin = self.partition_point(|row| row + last_row < rows.start);
        begin..self.partition_point(|row| row + first.offset < rows.end).max(begin)
    }

    /// The first window whose first row `is_before` is not true of.
    fn partition_point(&self, is_before: impl Fn(u64) -> bool) -> u64 {
        let mut range = 0..self.count;
        while range.start < range.end {
            let middle = range.start + (range.end - range.start) / 2;
            if is_before(self.row(middle)) { range.start = middle + 1 } else { range.end = middle }
        }
        range.start
    }

    /// Calls `each` with the pieces of `sample`, in the order of its rows.
    pub fn each_piece(&self, sample: u64, mut each: impl FnMut(SeriesPiece)) {
        let begin = self.row(sample / self.each);
        for (number, run) in (0u64..).zip(&self.runs) {
            let mut done = 0;
            while done < run.count {
                let row = begin + run.offset + done * run.step;
                let file = self.files.partition_point(|first| *first <= row).saturating_sub(1);
                let Some(end) = self.files.get(file + 1) else { return };
                let rows = (end - row).div_ceil(run.step).min(run.count - done);
                let first = self.first_windows[file] * self.each;
                let number = (sample - first) * self.runs.len() as u64 + number;
                each(SeriesPiece { file, number, rows });
                done += rows;
            }
        }
    }
}

/// `rows`, which rise, as few runs.
fn runs_of(rows: &[u64]) -> Vec<RowRun> {
    let mut runs: Vec<RowRun> = Vec::new();
    for row in rows {
        match runs.last_mut() {
            Some(run) if run.count == 1 => (run.step, run.count) = (row - run.offset, 2),
            Some(run) if run.offset + run.count * run.step == *row => run.count += 1,
            _ => runs.push(RowRun { offset: *row, step: 1, count: 1 }),
        }
    }
    runs
}

/// The pieces of windows that lie in one file.
#[derive(Clone, Debug)]
pub struct SeriesPart {
    windows: Arc<SeriesWindows>,
    file: usize,
}

impl SeriesPart {
    /// Those of `windows` in file `file`.
    pub fn new(windows: Arc<SeriesWindows>, file: usize) -> Self {
        Self { windows, file }
    }

    /// The windows of all files.
    pub fn windows(&self) -> &Arc<SeriesWindows> {
        &self.windows
    }

    /// The rows of all that the file has.
    fn file_rows(&self) -> Range<u64> {
        self.windows.files[self.file]..self.windows.files[self.file + 1]
    }

    /// How many numbers pieces have; a window that steps over the file has one too, without rows.
    pub fn count(&self) -> u64 {
        let rows = self.file_rows();
        if rows.is_empty() {
            return 0;
        }
        let touching = self.windows.touching(rows);
        (touching.end - touching.start) * self.windows.each * self.windows.runs.len() as u64
    }

    /// Every how many rows of the file a piece has one, and which: first and count.
    fn rows_of(&self, number: u64) -> Span {
        let (windows, file) = (&self.windows, self.file_rows());
        let sample = self.samples(number..number + 1).start;
        let run = windows.runs[usize::try_from(number % windows.runs.len() as u64).unwrap_or(0)];
        let start = windows.row(sample / windows.each) + run.offset;
        let first = file.start.saturating_sub(start).div_ceil(run.step).min(run.count);
        let end = file.end.saturating_sub(start).div_ceil(run.step).clamp(first, run.count);
        let at = (start + first * run.step).saturating_sub(file.start);
        Span { start: if end > first { at } else { 0 }, count: end - first, step: run.step }
    }

    /// True when every piece is some rows of axis 0, one after the other.
    pub fn is_rows(&self) -> bool {
        self.windows.has_whole_rows && self.windows.runs.iter().all(|run| run.step == 1)
    }

    /// The rows of piece `number`, which follow each other.
    pub fn rows(&self, number: u64) -> Range<u64> {
        let span = self.rows_of(number);
        span.start..span.start + span.count
    }

    /// Puts the box of piece `number` into `out`.
    pub fn spans(&self, number: u64, out: &mut [Span]) {
        let Some((first, others)) = out.split_first_mut() else { return };
        *first = self.rows_of(number);
        let sample = self.samples(number..number + 1).start;
        for (span, axis) in others.iter_mut().zip(&self.windows.inner) {
            *span = axis.span(sample);
        }
    }

    /// The pieces that may have some of `rows` of the file.
    pub fn touching(&self, rows: Range<u64>) -> Range<u64> {
        let first = self.file_rows().start;
        let touching = self.windows.touching(first + rows.start..first + rows.end);
        let before = self.windows.first_windows[self.file];
        let each = self.windows.each * self.windows.runs.len() as u64;
        touching.start.saturating_sub(before) * each..touching.end.saturating_sub(before) * each
    }

    /// The samples of all files that pieces `numbers` are of.
    pub fn samples(&self, numbers: Range<u64>) -> Range<u64> {
        let (first, runs) =
            (self.windows.first_windows[self.file] * self.windows.each, self.windows.runs.len());
        let runs = (runs as u64).max(1);
        first + numbers.start / runs..first + numbers.end.div_ceil(runs)
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]
mod tests {
    use super::*;
    use crate::samples::window_axis::WindowAxis;

    /// The rows of all files that a sample is made of, by its pieces.
    fn rows(windows: &Arc<SeriesWindows>, sample: u64) -> Vec<u64> {
        let mut found = Vec::new();
        windows.each_piece(sample, |piece| {
            let part = SeriesPart::new(Arc::clone(windows), piece.file);
            let span = part.rows_of(piece.number);
            assert_eq!(span.count, piece.rows);
            assert!(part.samples(piece.number..piece.number + 1).contains(&sample));
            assert!(piece.number < part.count());
            found.extend((0..span.count).map(|k| windows.files[piece.file] + span.start + k * span.step));
        });
        found
    }

    #[test]
    fn the_pieces_of_a_window_are_its_rows_whatever_files_they_lie_in() {
        let stretches = [vec![0..23], vec![0..9, 9..23], vec![0..4, 4..5, 8..23]];
        for (files, stretches) in [vec![7, 0, 1, 5, 10], vec![23], vec![1; 23]]
            .iter()
            .flat_map(|files| stretches.iter().map(move |stretches| (files, stretches)))
        {
            for offsets in [vec![0], vec![0, 1, 2], vec![0, 2, 4], vec![0, 1, 2, 4, 9], vec![3, 4]] {
                for stride in [1, 2, 5] {
                    let reach = offsets[offsets.len() - 1] + 1;
                    let shape = WindowShape {
                        rows: offsets.clone(),
                        reach,
                        stride,
                        inner: vec![],
                        each: 1,
                        has_whole_rows: true,
                    };
                    let windows = Arc::new(SeriesWindows::new(shape, files, stretches).unwrap());
                    let starts = stretches.iter().flat_map(|range| {
                        (range.start..range.end)
                            .step_by(usize::try_from(stride).unwrap())
                            .filter(|at| at + reach <= range.end)
                    });
                    let expected: Vec<Vec<u64>> =
                        starts.map(|start| offsets.iter().map(|offset| start + offset).collect()).collect();
                    let found: Vec<_> = (0..windows.sample_count()).map(|at| rows(&windows, at)).collect();
                    assert_eq!(found, expected, "{files:?} {stretches:?} {offsets:?} {stride}");
                    check_touching(&windows, &expected);
                    assert_eq!(windows.begins().iter().sum::<u64>(), windows.sample_count());
                }
            }
        }
    }

    fn check_touching(windows: &Arc<SeriesWindows>, expected: &[Vec<u64>]) {
        for file in 0..windows.files.len() - 1 {
            let part = SeriesPart::new(Arc::clone(windows), file);
            let (first, end) = (windows.files[file], windows.files[file + 1]);
            for row in first..end {
                let samples = part.samples(part.touching(row - first..row - first + 1));
                for (sample, rows) in (0..).zip(expected) {
                    assert!(!rows.contains(&row) || samples.contains(&sample), "row {row}, sample {sample}");
                }
            }
        }
    }

    #[test]
    fn boxes_of_the_other_axes_follow_each_other_within_a_window() {
        let inner = vec![WindowAxis { size: 2, step: 1, stride: 2, count: 3 }, WindowAxis::whole(4)];
        let (inner, each) = RepeatedAxis::all(&inner);
        let shape = WindowShape { rows: vec![0, 1], reach: 2, stride: 2, inner, each, has_whole_rows: false };
        let windows = Arc::new(SeriesWindows::new(shape, &[3, 3], &[0..6]).unwrap());
        assert_eq!((windows.sample_count(), windows.sample_shape()), (9, vec![2, 2, 4]));
        assert_eq!((0..9).map(|at| windows.origin(at)).nth(5), Some(vec![2, 4, 0]));
        let mut found = Vec::new();
        windows.each_piece(4, |piece| {
            let mut spans = vec![Span::range(0..0); 3];
            SeriesPart::new(Arc::clone(&windows), piece.file).spans(piece.number, &mut spans);
            found.push((piece.file, spans));
        });
        let spans = |row: u64| vec![Span::range(row..row + 1), Span::range(2..4), Span::range(0..4)];
        assert_eq!(found, [(0, spans(2)), (1, spans(0))]);
    }
}
