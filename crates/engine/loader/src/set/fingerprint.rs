//! By what a set of samples is known again: what it is, and which versions of the files it is read from.

use forebay_source::SourceId;
use sha2::{Digest, Sha256};

use crate::{set::column::Column, spec::SampleSpec};

/// By what a set of samples is known again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprints {
    /// The spec, and names, lengths, types and counts of the files: the same for a copy, wherever it lies.
    pub(crate) content: String,
    /// The same with the version of each file that names its bytes on every node: a file written anew has another.
    pub(crate) version: String,
}

impl Fingerprints {
    pub(crate) fn of(spec: &SampleSpec, columns: &[Column]) -> Self {
        let root = common_root(columns);
        let mut content = Sha256::new();
        let mut version = Sha256::new();
        // A spec is plain data, which always has a text.
        content.update(serde_json::to_vec(spec).unwrap_or_default());
        // Names of codes are part of a set that joined them; of one file they go without saying.
        let joined = columns.iter().filter(|column| column.parts.len() > 1);
        for member in joined.filter_map(|column| column.categories.as_ref()).flat_map(|all| &all.members) {
            add_text(&mut content, &member.name);
            content.update(member.value.to_le_bytes());
        }
        for part in columns.iter().flat_map(|column| &column.parts) {
            for id in &part.opened.container().sources {
                add_text(&mut content, id.locator.as_str().get(root..).unwrap_or_default());
                content.update(id.len.to_le_bytes());
                add_text(&mut version, &id.version.tag);
            }
            let variable = part.variable();
            add_text(&mut content, &variable.dtype.to_string());
            for len in &variable.grid.shape {
                content.update(len.to_le_bytes());
            }
            content.update(part.index.count().to_le_bytes());
        }
        let content = text(content);
        add_text(&mut version, &content);
        Self { content, version: text(version) }
    }
}

/// Text and an end that no text has, so that two do not run together.
fn add_text(hash: &mut Sha256, text: &str) {
    hash.update(text.as_bytes());
    hash.update([0xff]);
}

fn text(hash: Sha256) -> String {
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// How long the name of the folder is that all sources lie under: a copy of it has another.
fn common_root(columns: &[Column]) -> usize {
    let parts = columns.iter().flat_map(|column| &column.parts);
    let mut names = parts.flat_map(|part| &part.opened.container().sources).map(name);
    let Some(first) = names.next() else { return 0 };
    let shared = names.fold(first.as_bytes(), |shared, name| {
        let same = shared.iter().zip(name.as_bytes()).take_while(|(one, other)| one == other).count();
        &shared[..same]
    });
    shared.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)
}

fn name(id: &SourceId) -> &str {
    id.locator.as_str()
}
