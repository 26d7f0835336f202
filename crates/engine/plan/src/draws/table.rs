//! At which positions of an epoch each number is drawn, in compressed rows.

#[derive(Clone, Debug)]
pub(super) struct PositionTable {
    /// Where the positions of each number begin, and after the last their number.
    starts: Vec<u32>,
    positions: Vec<u32>,
}

impl PositionTable {
    /// The table of `drawn` numbers, which are below `population`.
    pub(super) fn new(population: u64, drawn: impl Iterator<Item = u64> + Clone) -> Self {
        let mut starts = vec![0u32; index(population) + 1];
        drawn.clone().for_each(|number| starts[index(number) + 1] += 1);
        let mut count = 0;
        for start in &mut starts {
            count += *start;
            *start = count;
        }
        let mut next = starts.clone();
        let mut positions = vec![0; index(u64::from(count))];
        for (number, position) in drawn.zip(0..) {
            let at = &mut next[index(number)];
            positions[*at as usize] = position;
            *at += 1;
        }
        Self { starts, positions }
    }

    /// The positions of `number`, rising.
    pub(super) fn positions(&self, number: u64) -> &[u32] {
        let bounds = self.starts.get(index(number)).zip(self.starts.get(index(number).saturating_add(1)));
        let range = bounds.map_or(0..0, |(start, end)| *start as usize..*end as usize);
        self.positions.get(range).unwrap_or_default()
    }
}

fn index(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
