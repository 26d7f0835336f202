//! Rare calls, calls that fail, and calls at odd moments give what they give without the library.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::support::{Set, c_program};

#[test]
fn rare_calls_and_calls_that_fail_give_what_they_give_without_the_library() {
    let files = ["a", "b", "c", "d", "e", "f", "g"].map(|name| (name, 200_000));
    let set = Set::new(&files);
    // A copy may not be run, and this one may.
    fs::set_permissions(set.path("e"), fs::Permissions::from_mode(0o755)).unwrap();
    set.settle();
    let paths = files.map(|(name, _)| set.path(name));
    set.same_each_anew(&c_program("edges"), &paths, &files);
}

#[test]
fn a_link_to_an_inherited_copy_is_one_to_the_origin() {
    let set = Set::new(&[("a", 200_000)]);
    set.place(&["a"]);
    let link = set.tier().join("link");
    let script = format!(
        "import os\ntry: os.link('/proc/self/fd/0', '{}', follow_symlinks=True); print('linked')\nexcept OSError as error: print(error.errno)",
        link.display()
    );
    let command = format!("python3 -c \"$0\" < {}", set.path("a").display());
    let arguments = ["-c", command.as_str(), script.as_str()];
    let plain = set.plain("sh").args(arguments).output().unwrap();
    assert_eq!(set.run("sh", &arguments).good(), String::from_utf8_lossy(&plain.stdout));
    assert!(!link.exists(), "the tier's own file was linked");
}
