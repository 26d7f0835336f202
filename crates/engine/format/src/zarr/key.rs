//! Which file a chunk lies in: keys from places in the grid, and back.

use forebay_container::Grid;

/// How the keys of an array's chunks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    /// `c/0/0` where true, `0/0` where not.
    pub(super) has_letter: bool,
    /// What stands between the numbers.
    pub(super) separator: char,
}

impl Keys {
    /// The key of the chunk at `at`.
    pub(super) fn name(self, at: &[u64]) -> String {
        let letter = self.has_letter.then(|| "c".to_owned());
        let steps: Vec<String> = letter.into_iter().chain(at.iter().map(u64::to_string)).collect();
        if steps.is_empty() {
            // A single value.
            return "0".to_owned();
        }
        steps.join(self.separator.encode_utf8(&mut [0; 4]))
    }

    /// The number in `grid` of the chunk whose key is `key`; `None` for what is no chunk, or lies beyond the border.
    pub(super) fn number(self, key: &str, grid: &Grid) -> Option<u64> {
        let rest = if self.has_letter {
            let rest = key.strip_prefix('c')?;
            if grid.shape.is_empty() {
                return rest.is_empty().then_some(0);
            }
            rest.strip_prefix(self.separator)?
        } else if grid.shape.is_empty() {
            return (key == "0").then_some(0);
        } else {
            key
        };
        let mut steps = rest.split(self.separator);
        let mut number = 0u64;
        for (len, chunk) in grid.shape.iter().zip(&grid.chunk) {
            let (at, count) = (index(steps.next()?)?, len.div_ceil(*chunk));
            if at >= count {
                return None;
            }
            number = number.checked_mul(count)?.checked_add(at)?;
        }
        steps.next().is_none().then_some(number)
    }
}

/// A number written in the one way that keys have it.
fn index(step: &str) -> Option<u64> {
    let is_plain = step == "0" || step.starts_with(|first: char| matches!(first, '1'..='9'));
    is_plain.then(|| step.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_numbers_are_each_others_inverse() {
        let grid = Grid { shape: vec![5, 7], chunk: vec![2, 3] };
        for has_letter in [true, false] {
            for separator in ['.', '/'] {
                let keys = Keys { has_letter, separator };
                for number in 0..grid.chunk_count() {
                    assert_eq!(keys.number(&keys.name(&grid.chunk_at(number)), &grid), Some(number));
                }
            }
        }
        assert_eq!(Keys { has_letter: true, separator: '/' }.name(&[1, 2]), "c/1/2");
    }

    #[test]
    fn other_files_are_no_chunks() {
        let grid = Grid { shape: vec![5, 7], chunk: vec![2, 3] };
        let keys = Keys { has_letter: false, separator: '.' };
        for key in
            ["0", "0.0.0", "00.0", "+1.0", "3.0", "a.b", "", ".", "0.", "0.99999999999999999999", "0/0"]
        {
            assert_eq!(keys.number(key, &grid), None, "{key}");
        }
    }

    #[test]
    fn a_single_value_has_one_key() {
        let grid = Grid::whole(vec![]);
        for (has_letter, key) in [(true, "c"), (false, "0")] {
            let keys = Keys { has_letter, separator: '/' };
            assert_eq!(keys.name(&[]), key);
            assert_eq!(keys.number(key, &grid), Some(0));
            assert_eq!(keys.number("1", &grid), None);
        }
    }
}
