//! The keys of a mapping, taken one by one; those that are left at the end are unknown.

use forebay_process::{Error, ErrorKind, Result, suggest::unknown};

use crate::{
    config::node::{ConfigNode, FromNode, NodeValue},
    distribution::TimeDistribution,
    workload::Compression,
};

/// A mapping of a configuration that is being read.
pub(super) struct Section<'a> {
    path: String,
    entries: &'a [(String, ConfigNode)],
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// The mapping `node`, known in messages by `path`.
    pub(super) fn of(node: &'a ConfigNode, path: &str) -> Result<Self> {
        match &node.value {
            NodeValue::Map(entries) => Ok(Self { path: path.to_owned(), entries, known: Vec::new() }),
            NodeValue::Null => Ok(Self { path: path.to_owned(), entries: &[], known: Vec::new() }),
            _ => Err(at(node, path, Error::new(ErrorKind::Invalid, "a mapping of keys is meant here"))),
        }
    }

    /// The mapping under the first of `keys` that is there; an empty one where none is.
    pub(super) fn child(&mut self, keys: &[&'static str]) -> Result<Section<'a>> {
        match self.node(keys) {
            Some((key, node)) => Section::of(node, &self.path_of(key)),
            None => Ok(Section { path: self.path_of(keys[0]), entries: &[], known: Vec::new() }),
        }
    }

    /// The value of the first of `keys` that is there, and its key; all become known.
    pub(super) fn node(&mut self, keys: &[&'static str]) -> Option<(&'a str, &'a ConfigNode)> {
        self.known.extend(keys);
        let entries = self.entries;
        entries.iter().find(|(name, _)| keys.contains(&&**name)).map(|(name, node)| (&**name, node))
    }

    /// Puts the value of the first of `keys` that is there into `field`; `null` leaves it as it is.
    pub(super) fn set<T: FromNode>(&mut self, keys: &[&'static str], field: &mut T) -> Result<bool> {
        let Some((key, node)) = self.node(keys).filter(|(_, node)| node.value != NodeValue::Null) else {
            return Ok(false);
        };
        *field = T::from_node(node).map_err(|error| at(node, &self.path_of(key), error))?;
        Ok(true)
    }

    /// Puts a number of bytes into `field`, rounded: DLIO's own workloads have fractions of bytes (`114660.07`).
    pub(super) fn set_bytes(&mut self, keys: &[&'static str], field: &mut u64) -> Result<bool> {
        let Some((key, node)) = self.node(keys).filter(|(_, node)| node.value != NodeValue::Null) else {
            return Ok(false);
        };
        let mean =
            f64::from_node(node).ok().filter(|bytes| bytes.fract() != 0.0 && (0.0..9e18).contains(bytes));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 63 bits")]
        let rounded = mean.map(|bytes| bytes.round() as u64);
        *field = match rounded {
            Some(bytes) => bytes,
            None => u64::from_node(node).map_err(|error| at(node, &self.path_of(key), error))?,
        };
        Ok(true)
    }

    /// Puts a time into `field`, with the standard deviation that older files have in a key of its own.
    pub(super) fn set_time(
        &mut self,
        key: &'static str,
        stdev_key: &'static str,
        field: &mut TimeDistribution,
    ) -> Result<()> {
        self.set(&[key], field)?;
        let Some((_, node)) = self.node(&[stdev_key]) else { return Ok(()) };
        let stdev = node.text()?.parse::<f64>().map_err(|_| self.error(stdev_key, "this is no number"))?;
        let checked = field.with_stdev(stdev).checked();
        *field = checked.map_err(|what| self.error(stdev_key, what))?;
        Ok(())
    }

    /// Puts a value into `field` that nothing here depends on, and notes it where it is not what `field` had.
    pub(super) fn set_unused<T: FromNode + PartialEq + Clone>(
        &mut self,
        key: &'static str,
        field: &mut T,
        notes: &mut Vec<String>,
    ) -> Result<()> {
        let before = field.clone();
        if self.set(&[key], field)? && *field != before {
            notes.push(format!("{} has no effect here", self.path_of(key)));
        }
        Ok(())
    }

    /// Puts the name of a file into `field`: one name, not a path.
    pub(super) fn set_file_name(&mut self, key: &'static str, field: &mut String) -> Result<()> {
        self.set(&[key], field)?;
        match field.is_empty() || field.contains(['/', '\0']) {
            true => {
                Err(self.error(key, format!("'{field}' is no name of a file: results lie in one folder")))
            }
            false => Ok(()),
        }
    }

    /// Puts a compression into `field`: its name, or as h5bench has it true for gzip.
    pub(super) fn set_compression(&mut self, key: &'static str, field: &mut Compression) -> Result<()> {
        let Some((_, node)) = self.node(&[key]).filter(|(_, node)| node.value != NodeValue::Null) else {
            return Ok(());
        };
        if node.text()?.eq_ignore_ascii_case("lzo") {
            let what = "the LZO library is under the GPL, so its filter is not used; lz4 is of the same kind";
            return Err(self.error(key, what));
        }
        match bool::from_node(node) {
            Ok(true) => *field = Compression::Gzip,
            Ok(false) => *field = Compression::None,
            Err(_) => drop(self.set(&[key], field)?),
        }
        Ok(())
    }

    /// Makes keys known that have no effect here, and notes those that are given.
    pub(super) fn ignore(&mut self, keys: &[&'static str], notes: &mut Vec<String>) {
        self.known.extend(keys);
        let given = self.entries.iter().filter(|(name, _)| keys.contains(&&**name));
        notes.extend(given.map(|(name, _)| format!("{} has no effect here", self.path_of(name))));
    }

    /// All entries, for mappings whose keys are the user's own.
    pub(super) fn entries(&self) -> &'a [(String, ConfigNode)] {
        self.entries
    }

    /// The error for `what` at the value of `key`.
    pub(super) fn error(&self, key: &str, what: impl Into<String>) -> Error {
        let error = Error::new(ErrorKind::Invalid, what);
        match self.entries.iter().find(|(name, _)| name == key) {
            Some((_, node)) => at(node, &self.path_of(key), error),
            None => in_place(None, &self.path_of(key), error),
        }
    }

    /// An error where a key is left that nobody asked for.
    pub(super) fn finish(self) -> Result<()> {
        let Some((stray, node)) = self.entries.iter().find(|(name, _)| !self.known.contains(&&**name)) else {
            return Ok(());
        };
        let mut known = self.known;
        known.sort_unstable();
        known.dedup();
        Err(in_place(node.line, &self.path, unknown("key", stray, &known)))
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

fn at(node: &ConfigNode, path: &str, error: Error) -> Error {
    in_place(node.line, path, error)
}

/// `error` with the line and the path in front of it.
fn in_place(line: Option<usize>, path: &str, error: Error) -> Error {
    let line = line.map_or(String::new(), |line| format!("line {line}: "));
    let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
    Error::new(error.kind(), format!("{line}{path}{error}"))
}
