//! YAML to a tree, with lines.

use std::collections::HashMap;

use forebay_process::{Error, ErrorKind, Result};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, SpannedEventReceiver};

use crate::config::node::{ConfigNode, NodeValue};

/// Values of a configuration at most, those that aliases repeat included: a few lines of aliases can stand for billions.
const MOST_NODES: usize = 100_000;

/// The tree of the first document of `text`; an empty mapping where there is none.
pub(super) fn parse(text: &str) -> Result<ConfigNode> {
    let mut tree = TreeBuilder::default();
    let parsed = Parser::new_from_str(text).load(&mut tree, false);
    parsed.map_err(|error| {
        let what = format!("line {}: {}", error.marker().line(), error.info());
        Error::new(ErrorKind::Invalid, what).hint("this is no YAML")
    })?;
    if let Some(error) = tree.error {
        return Err(error);
    }
    match tree.root {
        Some(ConfigNode { value: NodeValue::Null, .. }) | None => Ok(ConfigNode::empty_map()),
        Some(root) => Ok(root),
    }
}

/// Collections that are open, innermost last, and what was finished.
#[derive(Default)]
struct TreeBuilder {
    open: Vec<OpenNode>,
    anchors: HashMap<usize, ConfigNode>,
    root: Option<ConfigNode>,
    error: Option<Error>,
    node_count: usize,
}

/// A collection whose end was not seen yet.
struct OpenNode {
    node: ConfigNode,
    anchor: usize,
    /// The key whose value comes next.
    key: Option<String>,
}

impl<'input> SpannedEventReceiver<'input> for TreeBuilder {
    fn on_event(&mut self, event: Event<'input>, span: Span) {
        if self.error.is_some() {
            return;
        }
        let line = Some(span.start.line());
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let is_null =
                    style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let value = if is_null { NodeValue::Null } else { NodeValue::Text(text.into_owned()) };
                self.finish(ConfigNode { line, value }, anchor);
            }
            Event::SequenceStart(anchor, _) => self.begin(NodeValue::List(Vec::new()), anchor, line),
            Event::MappingStart(anchor, _) => self.begin(NodeValue::Map(Vec::new()), anchor, line),
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    self.finish(open.node, open.anchor);
                }
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(node) => self.finish(node, 0),
                None => self.fail(line, "an alias of something that comes later"),
            },
            _ => {}
        }
    }
}

impl TreeBuilder {
    fn begin(&mut self, value: NodeValue, anchor: usize, line: Option<usize>) {
        self.open.push(OpenNode { node: ConfigNode { line, value }, anchor, key: None });
    }

    fn finish(&mut self, node: ConfigNode, anchor: usize) {
        self.node_count += count(&node);
        let line = node.line;
        if self.node_count > MOST_NODES {
            return self.fail(line, "more values than any configuration has");
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root.get_or_insert(node);
            return;
        };
        match (&mut open.node.value, open.key.take()) {
            (NodeValue::Map(entries), Some(key)) if key == "<<" => merge(entries, node),
            (NodeValue::Map(entries), Some(key)) => match entries.iter().position(|(name, _)| *name == key) {
                Some(_) => self.fail(line, &format!("key '{key}' is given twice")),
                None => entries.push((key, node)),
            },
            (NodeValue::Map(_), None) => match node.value {
                NodeValue::Text(key) => open.key = Some(key),
                NodeValue::Null => open.key = Some(String::new()),
                _ => self.fail(line, "a key is a word"),
            },
            (NodeValue::List(items), _) => items.push(node),
            _ => {}
        }
    }

    fn fail(&mut self, line: Option<usize>, what: &str) {
        let place = line.map_or(String::new(), |line| format!("line {line}: "));
        self.error.get_or_insert(Error::new(ErrorKind::Invalid, format!("{place}{what}")));
    }
}

/// Adds what `<<` names, where the mapping has no such key of its own.
fn merge(entries: &mut Vec<(String, ConfigNode)>, from: ConfigNode) {
    match from.value {
        NodeValue::Map(more) => {
            let known: Vec<String> = entries.iter().map(|(name, _)| name.clone()).collect();
            entries.extend(more.into_iter().filter(|(name, _)| !known.contains(name)));
        }
        NodeValue::List(items) => items.into_iter().for_each(|item| merge(entries, item)),
        NodeValue::Null | NodeValue::Text(_) => {}
    }
}

/// A node and all it holds: what is nested counts once for each level, which no sane configuration notices.
fn count(node: &ConfigNode) -> usize {
    match &node.value {
        NodeValue::Null | NodeValue::Text(_) => 1,
        NodeValue::List(items) => 1 + items.iter().map(count).sum::<usize>(),
        NodeValue::Map(entries) => 1 + entries.iter().map(|(_, node)| count(node)).sum::<usize>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(node: Option<&ConfigNode>) -> Option<&str> {
        match &node?.value {
            NodeValue::Text(text) => Some(text),
            _ => None,
        }
    }

    #[test]
    fn values_keep_their_lines_and_aliases_are_followed() {
        let tree = parse("a: &x\n  b: 1\nc:\n  <<: *x\n  d: [1, 'two']\n").unwrap();
        assert_eq!(text(tree.get("c").and_then(|c| c.get("b"))), Some("1"));
        assert_eq!(tree.get("a").and_then(|a| a.get("b")).unwrap().line, Some(2));
        assert_eq!(parse("# nothing\n").unwrap(), ConfigNode::empty_map());
    }

    #[test]
    fn a_bomb_of_aliases_and_a_key_given_twice_are_errors() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let of = format!("*a{}", level - 1);
            bomb += &format!("a{level}: &a{level} [{}]\n", vec![of; 10].join(", "));
        }
        assert!(parse(&bomb).unwrap_err().to_string().contains("more values"));
        assert!(parse("a: 1\na: 2\n").unwrap_err().to_string().contains("line 2: key 'a' is given twice"));
        assert!(parse("a: [1\nb: 2").unwrap_err().to_string().contains("line"));
    }
}
