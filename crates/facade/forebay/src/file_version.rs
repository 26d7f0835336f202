//! By what a file is known again in another process: the versions of all its sources, and what they describe.

use forebay_container::Container;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Names the state of all that `container` describes, the same on every node. It differs once the file, one of a store's files or
/// one that an HDF5 file refers to was changed. Nothing where a SWMR writer goes on changing it.
pub fn file_version(container: &Container) -> Option<String> {
    if container.swmr {
        return None;
    }
    let mut hash = Sha256::new();
    for source in &container.sources {
        add(&mut hash, &(source.len, &source.version.tag));
    }
    // Arrays of a Zarr store say in files of their own what they are, and those are no sources.
    for group in &container.groups {
        add(&mut hash, group);
    }
    for variable in container.variables.iter().chain(&container.parts) {
        add(&mut hash, &(&variable.name, variable.dtype.to_string(), &variable.grid.shape));
        add(&mut hash, &variable.attributes);
    }
    Some(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

/// Plain data always has a text; its end is a byte that no text has, so that two do not run together.
fn add(hash: &mut Sha256, part: &impl Serialize) {
    hash.update(serde_json::to_vec(part).unwrap_or_default());
    hash.update([0xff]);
}

#[cfg(test)]
mod tests {
    use forebay_container::{Container, Group};
    use forebay_source::{FileState, Locator, SourceId, Version};

    use super::file_version;

    fn described(tag: &str, inode: u64) -> Container {
        let file = Some(FileState { inode, changed_ns: 7 });
        let version = Version { file, ..Version::named(tag) };
        let sources = vec![SourceId { locator: Locator::new("a.nc"), len: 100, version }];
        Container { sources, ..Container::default() }
    }

    #[test]
    fn a_version_is_the_same_on_every_node_and_another_once_anything_was_changed() {
        let before = described("monday", 5);
        assert_eq!(
            file_version(&before),
            file_version(&described("monday", 6)),
            "another node numbers it otherwise"
        );
        let mut others = [described("tuesday", 5), before.clone(), before.clone()];
        others[1].sources[0].len = 101;
        others[2].groups.push(Group { name: "late".to_owned(), attributes: Vec::new() });
        for other in others {
            assert_ne!(file_version(&other), file_version(&before));
        }
        assert_eq!(file_version(&Container { swmr: true, ..before }), None, "it is meant to change");
    }
}
