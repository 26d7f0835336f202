//! Two images of the same shape, mounted one after the other at the same place.
#![cfg(target_os = "linux")]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::SystemTime,
};

use forebay_source::{ByteRange, FileOrigin, Locator, Origin, SourceExt, SourceId};
use tempfile::TempDir;

fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    let quiet = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// The id and the bytes of a file that holds `bytes` on an image of all times 0; nothing where none can be mounted.
fn read_from_image(folder: &Path, bytes: &str) -> Option<(SourceId, Vec<u8>)> {
    let path = |name: &str| folder.join(name).to_str().expect("a name").to_owned();
    for name in ["content", "mounted"] {
        fs::create_dir_all(path(name)).expect("a folder");
    }
    fs::write(path("content/a.h5"), bytes).expect("a file");
    let (content, image, mounted) = (path("content"), path("image"), path("mounted"));
    let made = [&content, &image, "-all-time", "0", "-mkfs-time", "0", "-noappend", "-all-root"];
    if !runs("mksquashfs", &made) || !runs("mount", &["-o", "loop,ro", &image, &mounted]) {
        return None;
    }
    let source = FileOrigin::new().open(&Locator::new(path("mounted/a.h5")));
    let read = source.and_then(|source| {
        let all = source.fetch_one(ByteRange::at(0, source.id().len))?.to_vec();
        Ok((source.id().clone(), all))
    });
    assert!(runs("umount", &[&mounted]), "the image stays mounted at {mounted}");
    Some(read.expect("reads"))
}

/// Runs where images can be made and mounted: as root, with mksquashfs. What decides is tested everywhere in `file_stat.rs`
/// and `place.rs`.
#[test]
fn nothing_is_kept_of_an_image_for_the_next_one_may_have_the_same_id() {
    let folder = TempDir::new().expect("a folder");
    let Some((one, first)) = read_from_image(folder.path(), "one!") else { return };
    let Some((two, second)) = read_from_image(folder.path(), "two!") else { return };
    assert_eq!((&first[..], &second[..]), (&b"one!"[..], &b"two!"[..]));
    assert_eq!(one.version.full_tag(), two.version.full_tag(), "images of one tool differ after all");
    assert!(!one.version.is_settled(SystemTime::now()) && !two.version.is_settled(SystemTime::now()));
}
