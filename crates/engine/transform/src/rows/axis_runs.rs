//! Where the indexes of one axis come from once it was cropped, flipped and rolled: runs of neighbours, forwards or backwards.

/// Neighbouring indexes of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexRun {
    /// The lowest.
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// True when the highest comes first.
    pub(crate) is_reversed: bool,
}

/// The indexes of one axis, in the order of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AxisRuns(Vec<IndexRun>);

impl AxisRuns {
    /// All of an axis.
    pub(crate) fn whole(len: usize) -> Self {
        Self(vec![IndexRun { start: 0, len, is_reversed: false }])
    }

    pub(crate) fn runs(&self) -> &[IndexRun] {
        &self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|run| run.len).sum()
    }

    /// Indexes `start..start + len` of what there is.
    pub(crate) fn crop(&self, start: usize, len: usize) -> Self {
        let mut runs = Vec::new();
        let mut at = 0;
        for run in &self.0 {
            let from = start.max(at);
            let to = (start + len).min(at + run.len);
            if from < to {
                let skipped = if run.is_reversed { at + run.len - to } else { from - at };
                runs.push(IndexRun { start: run.start + skipped, len: to - from, ..*run });
            }
            at += run.len;
        }
        Self(runs)
    }

    /// Back to front.
    pub(crate) fn flip(&self) -> Self {
        let turned = |run: &IndexRun| IndexRun { is_reversed: !run.is_reversed, ..*run };
        Self(self.0.iter().rev().map(turned).collect())
    }

    /// Shifted by `shift` towards higher indexes; what leaves at the end comes in at the start.
    pub(crate) fn roll(&self, shift: usize) -> Self {
        let len = self.len();
        let shift = shift.checked_rem(len).unwrap_or(0);
        if shift == 0 {
            return self.clone();
        }
        let mut runs = self.crop(len - shift, shift).0;
        runs.extend(self.crop(0, len - shift).0);
        Self(runs)
    }

    /// Every index, in the order of the output.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().flat_map(|run| {
            (0..run.len).map(|at| run.start + if run.is_reversed { run.len - 1 - at } else { at })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexes(runs: &AxisRuns) -> Vec<usize> {
        runs.indexes().collect()
    }

    #[test]
    fn any_sequence_of_changes_gives_what_it_gives_a_list() {
        for len in 1..7usize {
            for steps in 0..3usize.pow(5) {
                let (mut runs, mut list) = (AxisRuns::whole(len), (0..len).collect::<Vec<_>>());
                for step in 0..5u32 {
                    match steps / 3usize.pow(step) % 3 {
                        0 => {
                            runs = runs.flip();
                            list.reverse();
                        }
                        1 => {
                            let shift = (steps + step as usize) % (list.len() + 2);
                            runs = runs.roll(shift);
                            let by = shift % list.len();
                            list.rotate_right(by);
                        }
                        _ if list.len() > 1 => {
                            let start = steps % 2;
                            runs = runs.crop(start, list.len() - 1);
                            list = list[start..start + list.len() - 1].to_vec();
                        }
                        _ => {}
                    }
                }
                assert_eq!(indexes(&runs), list, "length {len}, steps {steps}");
                assert_eq!(runs.len(), list.len());
            }
        }
    }
}
