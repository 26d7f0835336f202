//! A configuration as a tree of text, whatever it was written in.

use std::fmt;

use forebay_process::{Error, ErrorKind, Result};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// What a value of a configuration can become.
pub(super) trait FromNode: Sized {
    fn from_node(node: &ConfigNode) -> Result<Self>;
}

/// A value of a configuration, and the line it stands in where that is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConfigNode {
    pub(super) line: Option<usize>,
    pub(super) value: NodeValue,
}

/// What a value of a configuration is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NodeValue {
    Null,
    /// A number, a word or a string.
    Text(String),
    List(Vec<ConfigNode>),
    Map(Vec<(String, ConfigNode)>),
}

impl ConfigNode {
    pub(super) fn new(value: NodeValue) -> Self {
        Self { line: None, value }
    }

    pub(super) fn empty_map() -> Self {
        Self::new(NodeValue::Map(Vec::new()))
    }

    /// The text of a value that is no list and no mapping.
    pub(super) fn text(&self) -> Result<&str> {
        match &self.value {
            NodeValue::Text(text) => Ok(text.trim()),
            NodeValue::Null => Ok(""),
            NodeValue::List(_) | NodeValue::Map(_) => {
                Err(Error::new(ErrorKind::Invalid, "one value is meant here, not several"))
            }
        }
    }

    /// The value of `key`, where this is a mapping that has one.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            NodeValue::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The value of `key`, a new empty mapping where there is none; anything else here becomes a mapping.
    pub(super) fn entry(&mut self, key: &str) -> &mut Self {
        if !matches!(self.value, NodeValue::Map(_)) {
            self.value = NodeValue::Map(Vec::new());
        }
        let NodeValue::Map(entries) = &mut self.value else { unreachable!("it was made a mapping") };
        let at = entries.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
            entries.push((key.to_owned(), Self::empty_map()));
            entries.len() - 1
        });
        &mut entries[at].1
    }

    /// Takes `key` out, where this is a mapping that has it.
    pub(super) fn remove(&mut self, key: &str) -> Option<Self> {
        let NodeValue::Map(entries) = &mut self.value else { return None };
        let at = entries.iter().position(|(name, _)| name == key)?;
        Some(entries.remove(at).1)
    }
}

impl<'de> Deserialize<'de> for ConfigNode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NodeVisitor)
    }
}

/// A value as it would be written.
fn written(value: impl ToString) -> ConfigNode {
    ConfigNode::new(NodeValue::Text(value.to_string()))
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = ConfigNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<ConfigNode, E> {
        Ok(written(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<ConfigNode, E> {
        Ok(written(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<ConfigNode, E> {
        Ok(written(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<ConfigNode, E> {
        Ok(written(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<ConfigNode, E> {
        Ok(written(value))
    }

    fn visit_string<E>(self, value: String) -> Result<ConfigNode, E> {
        Ok(written(value))
    }

    fn visit_unit<E>(self) -> Result<ConfigNode, E> {
        Ok(ConfigNode::new(NodeValue::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<ConfigNode, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(ConfigNode::new(NodeValue::List(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<ConfigNode, A::Error> {
        let mut entries: Vec<(String, ConfigNode)> = Vec::new();
        while let Some((key, node)) = from.next_entry::<String, ConfigNode>()? {
            if entries.iter().any(|(name, _)| *name == key) {
                return Err(serde::de::Error::custom(format!("key '{key}' is given twice")));
            }
            entries.push((key, node));
        }
        Ok(ConfigNode::new(NodeValue::Map(entries)))
    }
}
