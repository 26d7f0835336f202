//! Which groups and arrays there are: one document each, or all in one.

use std::collections::BTreeMap;

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::SourceId;
use serde_json::Value;

use super::{
    json::need,
    key_order::KeyOrder,
    store::{V2_ALL, V2_ARRAY, V2_ATTRIBUTES, V2_GROUP, V3, ZarrStore},
};

/// What the documents say of one group or array.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// `zarr.json`.
    pub(super) v3: Option<Value>,
    /// `.zarray`.
    pub(super) v2_array: Option<Value>,
    /// `.zgroup`.
    pub(super) v2_group: Option<Value>,
    /// `.zattrs`.
    pub(super) v2_attributes: Option<Value>,
    /// The order of its attributes.
    pub(super) attribute_order: KeyOrder,
    /// How many documents the one that has all of them names before; 0 where there is none.
    place: usize,
    /// Why a document of it cannot be read.
    pub(super) defect: Option<Error>,
}

/// All groups and arrays by their paths, and the document that stands for the store.
#[derive(Debug)]
pub(super) struct Hierarchy {
    pub(super) root: SourceId,
    pub(super) nodes: BTreeMap<String, Node>,
}

impl Hierarchy {
    /// Reads the documents of `store`, whose files are `files` where they are known.
    pub(super) fn read(store: &ZarrStore<'_>, files: Option<&[SourceId]>) -> Result<Self> {
        if let Some((root, document)) = store.document(V3)? {
            return Self::of_v3(store, files, root, document);
        }
        if let Some((root, (document, order))) = store.document(V2_ALL)? {
            let nodes = consolidated_v2(&document, order).map_err(|error| error.at(&root.locator))?;
            return Ok(Self { root, nodes });
        }
        let Some((root, array)) = store.document(V2_ARRAY)? else { return Self::of_v2(store, files) };
        let mut node = Node::default();
        node.add(V2_ARRAY, array);
        if let Some((_, attributes)) = store.document(V2_ATTRIBUTES)? {
            node.add(V2_ATTRIBUTES, attributes);
        }
        Ok(Self { root, nodes: BTreeMap::from([(String::new(), node)]) })
    }

    fn of_v3(
        store: &ZarrStore<'_>,
        files: Option<&[SourceId]>,
        root: SourceId,
        (document, mut order): (Value, KeyOrder),
    ) -> Result<Self> {
        let place = |error: Error| error.at(&root.locator);
        if need(&document, "zarr_format").map_err(place)?.as_u64() != Some(3) {
            let what = format!("version {} of the format", document["zarr_format"]);
            return Err(place(Error::unsupported(what)).hint("versions 2 and 3 are read"));
        }
        let mut nodes = BTreeMap::new();
        let consolidated = document.get("consolidated_metadata").and_then(|all| all.get("metadata"));
        match document.get("node_type").and_then(Value::as_str) {
            Some("array") => {}
            Some("group") => match consolidated.and_then(Value::as_object) {
                Some(all) => {
                    for (path, document) in all {
                        nodes.insert(clean(path), Node { v3: Some(document.clone()), ..Node::default() });
                    }
                    let members = order.take("consolidated_metadata").take("metadata").members();
                    for (place, (path, mut order)) in members.enumerate() {
                        if let Some(node) = nodes.get_mut(&clean(&path)) {
                            (node.place, node.attribute_order) = (place, order.take("attributes"));
                        }
                    }
                }
                None => nodes = listed(store, need_files(store, files)?, &[V3])?,
            },
            _ => return Err(place(Error::corrupt("neither an array nor a group"))),
        }
        let attribute_order = order.take("attributes");
        nodes.insert(String::new(), Node { v3: Some(document), attribute_order, ..Node::default() });
        Ok(Self { root, nodes })
    }

    /// The root, then each node before what is in it, those of one group in the order of the document that has them all, else by name.
    pub(super) fn in_order(nodes: BTreeMap<String, Node>) -> Vec<(String, Node)> {
        let place = |path: &str| nodes.get(path).map_or(usize::MAX, |node| node.place);
        let key = |path: &str| -> Vec<(usize, String)> {
            let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
            let names = path.split('/').map(str::to_owned);
            ends.zip(names).map(|(end, name)| (place(&path[..end]), name)).collect()
        };
        let keys: Vec<_> = nodes.keys().map(|path| (!path.is_empty(), key(path))).collect();
        let mut nodes: Vec<_> = keys.into_iter().zip(nodes).collect();
        nodes.sort_by(|(left, _), (right, _)| left.cmp(right));
        nodes.into_iter().map(|(_, node)| node).collect()
    }

    fn of_v2(store: &ZarrStore<'_>, files: Option<&[SourceId]>) -> Result<Self> {
        let Some(root) = store.open(V2_GROUP)? else {
            return Err(Error::new(ErrorKind::NotFound, "no document of a Zarr store"));
        };
        let nodes = listed(store, need_files(store, files)?, &[V2_ARRAY, V2_GROUP, V2_ATTRIBUTES])?;
        Ok(Self { root: root.id().clone(), nodes })
    }
}

fn need_files<'f>(store: &ZarrStore<'_>, files: Option<&'f [SourceId]>) -> Result<&'f [SourceId]> {
    files.ok_or_else(|| {
        let what = format!("{store}: does not say which arrays it has");
        Error::unsupported(what).hint("consolidate the metadata of the store, or name an array in it")
    })
}

/// A path without slashes at its ends.
fn clean(path: &str) -> String {
    path.trim_matches('/').to_owned()
}

/// The nodes whose documents, called one of `names`, are among `files`.
fn listed(store: &ZarrStore<'_>, files: &[SourceId], names: &[&str]) -> Result<BTreeMap<String, Node>> {
    let split = |id: &SourceId| {
        let key = store.key(&id.locator)?;
        let (path, name) = key.rsplit_once('/').unwrap_or(("", key));
        names.contains(&name).then(|| (path.to_owned(), name.to_owned()))
    };
    let found: Vec<(String, String)> = files.iter().filter_map(split).collect();
    let documents = store.each(&found, |(path, name)| {
        let slash = if path.is_empty() { "" } else { "/" };
        store.document(&format!("{path}{slash}{name}"))
    })?;
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    for ((path, name), document) in found.into_iter().zip(documents) {
        let node = nodes.entry(path).or_default();
        match document {
            Ok(Some((_, document))) => node.add(&name, document),
            // Gone since the folder was read.
            Ok(None) => {}
            Err(error) if error.kind() == ErrorKind::Corrupt => node.defect = Some(error),
            Err(error) => return Err(error),
        }
    }
    Ok(nodes)
}

impl Node {
    fn add(&mut self, name: &str, (document, mut order): (Value, KeyOrder)) {
        match name {
            V3 => (self.v3, self.attribute_order) = (Some(document), order.take("attributes")),
            V2_ARRAY => self.v2_array = Some(document),
            V2_GROUP => self.v2_group = Some(document),
            _ => (self.v2_attributes, self.attribute_order) = (Some(document), order),
        }
    }

    /// True for an array.
    pub(super) fn is_array(&self) -> bool {
        let node_type =
            self.v3.as_ref().and_then(|document| document.get("node_type")).and_then(Value::as_str);
        self.v2_array.is_some() || node_type == Some("array")
    }

    /// The attributes, as a document.
    pub(super) fn attributes(&self) -> Option<&Value> {
        match &self.v3 {
            Some(document) => document.get("attributes"),
            None => self.v2_attributes.as_ref(),
        }
    }
}

/// The nodes of `.zmetadata`: documents by their keys.
fn consolidated_v2(document: &Value, mut order: KeyOrder) -> Result<BTreeMap<String, Node>> {
    let all = need(document, "metadata")?
        .as_object()
        .ok_or_else(|| Error::corrupt("'metadata' names no documents"))?;
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    for (place, (key, order)) in order.take("metadata").members().enumerate() {
        let (path, name) = key.rsplit_once('/').unwrap_or(("", &key));
        if let (Some(document), V2_ARRAY | V2_GROUP | V2_ATTRIBUTES) = (all.get(&key), name) {
            let node = nodes.entry(clean(path)).or_insert_with(|| Node { place, ..Node::default() });
            node.add(name, (document.clone(), order));
        }
    }
    Ok(nodes)
}
