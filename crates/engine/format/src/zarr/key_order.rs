//! In which order a JSON document has its members: a parsed one has them by name.
//!
//! Attributes of Zarr, and the arrays of a consolidated store, are listed in that order by other libraries.

use std::{collections::HashMap, fmt};

use forebay_container::Attribute;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// The names of a document's members as they follow each other, and those of the members inside; without any where it is no object.
#[derive(Debug, Default)]
pub(super) struct KeyOrder(Vec<(String, KeyOrder)>);

impl KeyOrder {
    /// The order of `bytes`; none where they are no document, which is for others to say.
    pub(super) fn of(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    /// Takes out what the member `name` has.
    pub(super) fn take(&mut self, name: &str) -> Self {
        let inside = self.0.iter_mut().find(|(known, _)| known == name);
        inside.map(|(_, inside)| std::mem::take(inside)).unwrap_or_default()
    }

    /// The members, first to last.
    pub(super) fn members(self) -> impl Iterator<Item = (String, Self)> {
        self.0.into_iter()
    }

    /// Sorts `attributes` as the document has them; others follow, in the order they are in.
    pub(super) fn arrange(&self, attributes: &mut [Attribute]) {
        let places: HashMap<&str, usize> =
            self.0.iter().enumerate().map(|(place, (name, _))| (name.as_str(), place)).collect();
        attributes
            .sort_by_key(|attribute| places.get(attribute.name.as_str()).copied().unwrap_or(usize::MAX));
    }
}

impl<'de> Deserialize<'de> for KeyOrder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = KeyOrder;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KeyOrder, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(KeyOrder(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<KeyOrder, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(KeyOrder::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<KeyOrder, E> {
        Ok(KeyOrder::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<KeyOrder, E> {
        Ok(KeyOrder::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<KeyOrder, E> {
        Ok(KeyOrder::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<KeyOrder, E> {
        Ok(KeyOrder::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<KeyOrder, E> {
        Ok(KeyOrder::default())
    }

    fn visit_unit<E>(self) -> Result<KeyOrder, E> {
        Ok(KeyOrder::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zarr::attributes;

    const TEXT: &str =
        r#"{"z": 1, "b": {"y": [1, {"k": 2}], "x": null, "w": "t"}, "a": true, "c": 2.5, "d": -1}"#;

    fn names(order: KeyOrder) -> Vec<String> {
        order.members().map(|(name, _)| name).collect()
    }

    #[test]
    fn members_are_listed_as_the_document_has_them() {
        assert_eq!(names(KeyOrder::of(TEXT.as_bytes())), ["z", "b", "a", "c", "d"]);
        assert_eq!(names(KeyOrder::of(TEXT.as_bytes()).take("b")), ["y", "x", "w"]);
        for nothing in ["[1]", "3", "not JSON"] {
            assert!(names(KeyOrder::of(nothing.as_bytes()).take("b")).is_empty());
        }
    }

    #[test]
    fn attributes_that_the_document_has_not_come_last() {
        let document = serde_json::from_str(TEXT).unwrap();
        let mut all = attributes::of(Some(&document), &["b"]);
        all.push(attributes::note("_FillValue", "x"));
        KeyOrder::of(TEXT.as_bytes()).arrange(&mut all);
        let names: Vec<&str> = all.iter().map(|attribute| attribute.name.as_str()).collect();
        assert_eq!(names, ["z", "a", "c", "d", "_FillValue"]);
    }
}
