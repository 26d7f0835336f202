//! Tables of text for people.

/// Columns side by side: words to the left, figures to the right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let column_count = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..column_count).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect()
}
