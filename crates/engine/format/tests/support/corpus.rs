//! The corpus of a fuzz target: its seeds, and the inputs that fuzzing found, which an archive holds.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;

/// Size of a header of tar, and of the unit that files are padded to.
const BLOCK: usize = 512;

/// An input of a fuzz target: the path it is called by, and its bytes.
pub(crate) type Input = (PathBuf, Vec<u8>);

/// Returns the seeds of `target`, by name: files that generators in `fuzz/` made.
pub(crate) fn seeds(target: &str) -> Vec<Input> {
    let directory = Path::new("../../../fuzz/corpus").join(target);
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    // A directory may also hold inputs that are not packed yet.
    let is_seed =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seed_"));
    let mut paths: Vec<_> = paths.filter(is_seed).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no seeds of '{target}'");
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Returns the inputs in the archive of `target`, which `fuzz/pack_corpus.sh` writes: most are damaged files.
pub(crate) fn found(target: &str) -> Vec<Input> {
    let archive = Path::new("../../../fuzz/corpus").join(format!("{target}.tar.gz"));
    let mut tar = Vec::new();
    GzDecoder::new(fs::File::open(&archive).unwrap()).read_to_end(&mut tar).unwrap();
    let mut inputs = Vec::new();
    let mut rest = &tar[..];
    // A block of zeros follows the last file.
    while rest[0] != 0 {
        let (header, after) = rest.split_at(BLOCK);
        assert_eq!(
            (&header[257..262], header[156]),
            (&b"ustar"[..], b'0'),
            "{archive:?} holds plain files only"
        );
        let len = usize::from_str_radix(text(&header[124..136]), 8).unwrap();
        inputs.push((archive.join(text(&header[..100])), after[..len].to_vec()));
        rest = &after[len.next_multiple_of(BLOCK)..];
    }
    assert!(!inputs.is_empty(), "no inputs in {archive:?}");
    inputs
}

/// The text of a field of a header, which zeros end.
fn text(field: &[u8]) -> &str {
    std::str::from_utf8(field.split(|byte| *byte == 0).next().unwrap()).unwrap()
}
