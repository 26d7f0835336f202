//! Names that integers stand for: classes of pictures, members of an enumeration, categories of a table.
//!
//! Every file counts its names by itself. A set has one table of them, joined by name, and the codes of a file that
//! counts otherwise are recoded.

use std::collections::{BTreeSet, HashMap};

use crate::{
    Number,
    dtype::{Dtype, Member},
    unpack::widest,
    values::recode::Recode,
};

/// What a missing category is stored as, in AnnData and pandas.
const MISSING: i64 = -1;

/// Where names of integers come from, which decides how tables of several files are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JoinRule {
    /// Members of an enumeration: they keep the values of the first file that has them.
    Enumeration,
    /// Folders of pictures: all of them count, in the order of their names.
    Classes,
    /// Categories beside their codes: those of the first file, then what others have besides, as pandas unites them.
    Categorical,
}

/// Names and the integers that stand for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Categories {
    rule: JoinRule,
    /// By code in a table of one file, and in one of all files.
    pub members: Vec<Member>,
}

impl Categories {
    /// The members of an enumeration.
    pub fn enumeration(members: Vec<Member>) -> Self {
        Self { rule: JoinRule::Enumeration, members }
    }

    /// The folders of pictures, by name.
    pub fn classes(names: Vec<String>) -> Self {
        Self::counted(JoinRule::Classes, names)
    }

    /// The categories of a column, in the order of their codes.
    pub fn categorical(names: Vec<String>) -> Self {
        Self::counted(JoinRule::Categorical, names)
    }

    /// Names that are counted from 0.
    fn counted(rule: JoinRule, names: Vec<String>) -> Self {
        Self { rule, members: (0..).zip(names).map(|(value, name)| Member { name, value }).collect() }
    }

    /// One table with all names of `tables`.
    pub fn joined(tables: &[Self]) -> Option<Self> {
        let (first, others) = tables.split_first()?;
        if others.iter().all(|other| other == first) {
            return Some(first.clone());
        }
        if first.rule == JoinRule::Classes {
            let names: BTreeSet<&String> =
                tables.iter().flat_map(|table| &table.members).map(|member| &member.name).collect();
            return Some(Self::counted(first.rule, names.into_iter().cloned().collect()));
        }
        let mut joined = first.clone();
        let mut known: BTreeSet<String> = first.members.iter().map(|member| member.name.clone()).collect();
        let mut taken: BTreeSet<i64> = first.members.iter().map(|member| member.value).collect();
        for member in others.iter().flat_map(|table| &table.members) {
            if known.insert(member.name.clone()) {
                let next = taken.last().map_or(0, |last| last.saturating_add(1));
                let is_kept = first.rule == JoinRule::Enumeration && !taken.contains(&member.value);
                let value = if is_kept { member.value } else { next };
                taken.insert(value);
                joined.members.push(Member { name: member.name.clone(), value });
            }
        }
        joined.members.sort_by_key(|member| member.value);
        Some(joined)
    }

    /// The type that holds all codes, where files store them as `stored`.
    pub fn holder(&self, stored: impl Iterator<Item = Number>) -> Option<Number> {
        let widest = stored.reduce(widest)?;
        let last = self.members.iter().map(|member| member.value).max().unwrap_or(0);
        let fits = |number: &Number| {
            let bits = 8 * number.size() - usize::from(number.is_signed_integer());
            i128::from(last) < 1i128 << bits
        };
        let is_signed = widest.is_signed_integer();
        let wider = [1, 2, 4, 8].into_iter().filter(|len| *len >= widest.size());
        wider.filter_map(|len| Number::integer(len, is_signed)).find(fits)
    }

    /// The type of elements of which these are the names, held by `number`.
    pub fn dtype(&self, number: Number) -> Dtype {
        let base = Dtype::native(number);
        match self.rule {
            JoinRule::Enumeration => Dtype::Enum { base: Box::new(base), members: self.members.clone() },
            JoinRule::Classes | JoinRule::Categorical => base,
        }
    }

    /// What makes codes of this table, in a file that stores `from`, those of `all`, held by `to`; nothing where they
    /// are the same.
    pub fn recode(&self, from: Number, all: &Self, to: Number) -> Option<Recode> {
        let codes: HashMap<&str, i64> =
            all.members.iter().map(|member| (member.name.as_str(), member.value)).collect();
        let code = |member: &Member| Some((member.value, *codes.get(member.name.as_str())?));
        let mut pairs: Vec<(i64, i64)> = self.members.iter().filter_map(code).collect();
        if from == to && pairs.iter().all(|(own, joined)| own == joined) {
            return None;
        }
        if self.rule == JoinRule::Categorical {
            pairs.push((MISSING, MISSING));
        }
        Some(Recode::new(from, to, pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rule: JoinRule, members: &[(&str, i64)]) -> Categories {
        let member = |(name, value): &(&str, i64)| Member { name: (*name).to_owned(), value: *value };
        Categories { rule, members: members.iter().map(member).collect() }
    }

    fn joined(rule: JoinRule, tables: &[&[(&str, i64)]]) -> Vec<(String, i64)> {
        let tables: Vec<_> = tables.iter().map(|members| table(rule, members)).collect();
        let joined = Categories::joined(&tables).unwrap();
        joined.members.into_iter().map(|member| (member.name, member.value)).collect()
    }

    fn named(members: &[(&str, i64)]) -> Vec<(String, i64)> {
        members.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn classes_are_counted_in_the_order_of_all_names() {
        let all = joined(JoinRule::Classes, &[&[("dog", 0), ("emu", 1)], &[("cat", 0), ("emu", 1)]]);
        assert_eq!(all, named(&[("cat", 0), ("dog", 1), ("emu", 2)]));
    }

    #[test]
    fn categories_of_the_first_file_keep_their_codes_and_others_follow() {
        let all = joined(JoinRule::Categorical, &[&[("T", 0), ("B", 1)], &[("NK", 0), ("B", 1)]]);
        assert_eq!(all, named(&[("T", 0), ("B", 1), ("NK", 2)]));
    }

    #[test]
    fn members_of_an_enumeration_keep_their_values_unless_they_are_taken() {
        let all = joined(JoinRule::Enumeration, &[&[("A", 0), ("B", 1)], &[("A", 1), ("C", 7), ("D", 0)]]);
        assert_eq!(all, named(&[("A", 0), ("B", 1), ("C", 7), ("D", 8)]));
    }

    #[test]
    fn codes_are_widened_when_all_names_together_need_it() {
        let names: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let all = Categories::counted(JoinRule::Categorical, names);
        assert_eq!(all.holder([Number::I8, Number::I8].into_iter()), Some(Number::I16));
        let own = table(JoinRule::Categorical, &[("199", 0), ("3", 1)]);
        let recode = own.recode(Number::I8, &all, Number::I16).unwrap();
        let mut out = [0; 6];
        recode.run(&[0, 1, 255], &mut out).unwrap();
        let codes: Vec<i16> =
            out.chunks_exact(2).map(|code| i16::from_ne_bytes([code[0], code[1]])).collect();
        assert_eq!(codes, [199, 3, -1], "a missing one stays missing");
        assert!(recode.run(&[2], &mut [0; 2]).is_err(), "a code without a name is no name of another file");
    }
}
