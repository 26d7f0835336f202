//! Integers that stand for names, recoded from the table of one file to the table of all.

use forebay_process::{Error, ErrorKind, Result};

use crate::{
    Number,
    values::cast::{CastNumber, with_element},
};

/// Integers of one type as integers of another, by a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recode {
    from: Number,
    to: Number,
    /// Each code and what it becomes, sorted.
    pairs: Vec<(i64, i64)>,
}

impl Recode {
    /// Makes of each first integer of `pairs`, stored as `from`, the second, stored as `to`.
    pub fn new(from: Number, to: Number, mut pairs: Vec<(i64, i64)>) -> Self {
        pairs.sort_unstable();
        Self { from, to, pairs }
    }

    /// The type codes become.
    pub fn to(&self) -> Number {
        self.to
    }

    /// Recodes all of `from` into `to`.
    pub fn run(&self, from: &[u8], to: &mut [u8]) -> Result<()> {
        with_element!(self.from, A => self.run_from::<A>(from, to))
    }

    fn run_from<A: CastNumber>(&self, from: &[u8], to: &mut [u8]) -> Result<()> {
        with_element!(self.to, B => self.run_pair::<A, B>(from, to))
    }

    fn run_pair<A: CastNumber, B: CastNumber>(&self, from: &[u8], to: &mut [u8]) -> Result<()> {
        let pairs = from.chunks_exact(size_of::<A>()).zip(to.chunks_exact_mut(size_of::<B>()));
        for (from, to) in pairs {
            let own = A::read(from).to_bits();
            let found = self.pairs.binary_search_by_key(&own, |(own, _)| *own);
            let Ok(at) = found else {
                let what = format!("code {own} stands for none of the names this file has");
                return Err(Error::new(ErrorKind::Corrupt, what));
            };
            B::from_bits(self.pairs[at].1).write(to);
        }
        Ok(())
    }
}
