//! Every file-system call of the crate goes through `forebay_scratch::disk`, or the tests of crashes would not see it.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Calls that change nothing on a disk and that no crash test has to see: locks, positions, memory, free space.
const FREE: [&str; 6] = ["flock", "seek", "fstatvfs", "memfd_create", "makedev", "read_to_string"];
/// Memory that is written to a destination with one call, and the close of a second descriptor: neither is used in an area on disk.
const OTHER_FILES: [&str; 2] = ["memory_map.rs", "close_error.rs"];
/// Methods of files that are calls.
const METHODS: [&str; 10] = [
    ".write_all_at(",
    ".read_exact_at(",
    ".read_at(",
    ".set_len(",
    ".sync_all(",
    ".sync_data(",
    ".metadata(",
    ".read_to_end(",
    ".set_permissions(",
    ".exists(",
];

/// The calls in a line that pass the seam by.
fn calls(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, path) in line.match_indices("fs::") {
        let name: String = line[at + path.len()..]
            .chars()
            .take_while(|one| one.is_ascii_lowercase() || *one == '_')
            .collect();
        let is_call = line[at + path.len() + name.len()..].starts_with('(');
        if is_call && !FREE.contains(&name.as_str()) {
            found.push(name);
        }
    }
    for opens in ["File::open(", "File::create(", "File::options(", "OpenOptions::new("] {
        found.extend(line.contains(opens).then(|| opens.to_owned()));
    }
    found
}

/// The files below `directory`.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn no_file_system_call_passes_the_seam_by() {
    let mut looked_at = 0;
    for path in sources(Path::new("src")) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if OTHER_FILES.contains(&name.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("mod tests {").next().unwrap();
        for (number, line) in code.lines().enumerate() {
            let found = calls(line);
            assert!(found.is_empty(), "{name}:{}: {found:?}", number + 1);
            // Methods of our own have these names too.
            let is_ours = line.contains("file.read_at(") || line.contains("state()?.set_len(");
            let method = METHODS.iter().find(|method| line.contains(**method) && !is_ours);
            assert_eq!(method, None, "{name}:{}: {line}", number + 1);
        }
        looked_at += 1;
    }
    assert!(looked_at > 45, "{looked_at} files");
    assert_eq!(calls("let a = fs::rename(b, c);"), ["rename"]);
    assert_eq!(calls("let made = File::options().open(path)"), ["File::options("]);
}
