//! What formats write into a description themselves: containers of one group, texts, offsets.

use std::collections::{BTreeSet, HashSet};

use forebay_source::SourceId;

use crate::{
    Number,
    container::{
        Container, Group,
        variable::{Attribute, Variable},
    },
    dtype::{Dtype, Padding},
    extents::Extents,
    values::array::{Array, Values},
};

/// A container of one group, whose `variables` are in the order of the file.
pub fn container(format: &str, sources: Vec<SourceId>, variables: Vec<Variable>) -> Container {
    let groups = vec![Group { name: String::new(), attributes: Vec::new() }];
    let mut container =
        Container { format: format.into(), sources, groups, variables, ..Container::default() };
    container.sort_variables();
    container
}

/// One text as an attribute.
pub fn text_attribute(name: &str, text: &str) -> Attribute {
    let (dtype, bytes) = padded(&[text]);
    Attribute { name: name.into(), value: Ok(Array { dtype, shape: vec![], values: Values::Fixed(bytes) }) }
}

/// Texts as a variable that stands in the description.
pub fn texts(name: &str, texts: &[&str]) -> Variable {
    let (dtype, bytes) = padded(texts);
    let mut variable = Variable::new(name, dtype, vec![texts.len() as u64]);
    variable.layout = "inline".into();
    variable.extents = Extents::Inline(bytes);
    variable
}

/// Texts one after the other, each as long as the longest.
fn padded(texts: &[&str]) -> (Dtype, Vec<u8>) {
    let len = texts.iter().map(|text| text.len()).max().unwrap_or(0).max(1);
    let mut bytes = Vec::with_capacity(len.saturating_mul(texts.len()));
    for text in texts {
        bytes.extend_from_slice(text.as_bytes());
        bytes.resize(bytes.len() + len - text.len(), 0);
    }
    (Dtype::Text { len, padding: Padding::NulPadded, utf8: true }, bytes)
}

/// The variable `name@offsets`: where each of the stretches of `lens` starts when they are laid end to end, and at last
/// where they end.
pub fn offsets(name: &str, lens: impl Iterator<Item = u64>) -> Variable {
    let mut bytes = 0u64.to_le_bytes().to_vec();
    let mut end = 0u64;
    for len in lens {
        end = end.saturating_add(len);
        bytes.extend_from_slice(&end.to_le_bytes());
    }
    let shape = vec![bytes.len() as u64 / 8];
    let mut variable = Variable::new(format!("{name}@offsets"), Dtype::native(Number::I64), shape);
    variable.layout = "inline".into();
    variable.extents = Extents::Inline(bytes);
    variable
}

/// The names that stand more than once among `names`: which of them is meant cannot be known.
pub fn names_given_twice<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut seen = HashSet::new();
    names.filter(|name| !seen.insert(*name)).map(str::to_owned).collect()
}
