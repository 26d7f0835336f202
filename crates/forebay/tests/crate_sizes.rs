//! No crate grows beyond what one person keeps in mind: 9,000 lines of source, 15,000 for the many formats.

use std::{fs, path::Path};

fn lines_below(folder: &Path) -> usize {
    let paths =
        fs::read_dir(folder).expect("a folder of sources").map(|entry| entry.expect("an entry").path());
    let lines = paths.map(|path| match path.is_dir() {
        true => lines_below(&path),
        false => fs::read_to_string(&path).expect("a source file").lines().count(),
    });
    lines.sum()
}

#[test]
fn no_crate_is_longer_than_it_may_be() {
    for entry in fs::read_dir("../../crates").expect("the crates") {
        let folder = entry.expect("an entry").path();
        let most = if folder.ends_with("format") { 15_000 } else { 9_000 };
        let lines = lines_below(&folder.join("src"));
        assert!(lines > 0 && lines <= most, "{} has {lines} lines, and may have {most}", folder.display());
    }
}
