//! A file is read by the origin of its own side, whatever it names.

use std::fs;

use forebay::{ErrorKind, Locator, Origins};
use tempfile::TempDir;

#[test]
fn what_reads_remote_files_opens_no_file_of_this_machine() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("secret.h5");
    fs::write(&path, "secret").unwrap();
    let origins = Origins::new();
    let here = Locator::new(path.to_str().unwrap());
    origins.of(&here).open(&here).unwrap();
    let remote = Locator::new("s3://bucket/set/a.h5");
    let far = origins.of(&remote);
    let url = Locator::new(format!("file://{here}"));
    for at in [&here, &url, &Locator::new("/etc/passwd")] {
        let error = far.open(at).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported), "{error}");
        assert!(remote.beside(at.as_str()).as_str().starts_with("s3://bucket/"));
    }
}

#[test]
fn what_reads_files_of_this_machine_asks_no_server() {
    let origins = Origins::new();
    let here = Locator::new("/data/set/a.h5");
    let named = here.beside("s3://bucket/b.h5");
    assert_eq!(named.as_str(), "/data/set/s3:/bucket/b.h5");
    assert_eq!(origins.of(&named).open(&named).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn urls_are_themselves_and_a_wildcard_needs_a_bucket() {
    let named = ["s3://bucket/a.h5".to_owned(), "https://host/a%20b.h5".to_owned()];
    assert_eq!(forebay::expand(&named).unwrap(), named);
    for (pattern, kind) in
        [("s3://*/a.h5", ErrorKind::Invalid), ("https://host/*.h5", ErrorKind::Unsupported)]
    {
        let error = forebay::expand(&[pattern.to_owned()]).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[test]
fn a_folder_that_is_of_a_format_counts_as_one_file_and_notes_beside_data_do_not_count() {
    let npy = |shape: &str, len: usize| {
        let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}\n");
        let start = [b"\x93NUMPY\x01\x00", &u16::try_from(header.len()).unwrap().to_le_bytes()[..]].concat();
        [start, header.into_bytes(), vec![7; len]].concat()
    };
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("samples")).unwrap();
    for (name, bytes) in [
        ("samples/a.npy", npy("(3,)", 3)),
        ("samples/b.npy", npy("(3,)", 3)),
        ("other.npy", npy("(2,)", 2)),
        ("notes.csv", b"a,b\n1,2\n".to_vec()),
        ("notes.txt", b"words".to_vec()),
    ] {
        fs::write(path(name), bytes).unwrap();
    }
    let expand = |name: &str| forebay::expand(&[path(name)]).unwrap();
    assert_eq!(expand("samples"), [path("samples")]);
    assert_eq!(expand(""), [path("other.npy"), path("samples")]);
    assert_eq!(expand("sam*"), [path("samples")]);
    assert_eq!(expand("samples/*.npy"), [path("samples/a.npy"), path("samples/b.npy")]);
    let files = forebay::expand_to_files(&[path("samples")]).unwrap();
    assert_eq!(files, [path("samples/a.npy"), path("samples/b.npy")]);
}

/// `path`, which is absolute, as seen from the working directory.
fn relative(path: &str) -> String {
    let depth = std::env::current_dir().expect("a working folder").components().count() - 1;
    format!("{}{}", "../".repeat(depth), path.trim_start_matches('/'))
}

#[test]
fn a_file_has_one_name_however_it_is_spelled() {
    let folder = TempDir::new().unwrap();
    let real = fs::canonicalize(folder.path()).unwrap();
    let path = |name: &str| real.join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("set")).unwrap();
    for name in ["set/a.h5", "set/b.h5"] {
        fs::write(path(name), "x").unwrap();
    }
    std::os::unix::fs::symlink(path("set"), path("link")).unwrap();
    let both = [path("set/a.h5"), path("set/b.h5")];
    for spelled in [path("set/a.h5"), path("link/a.h5"), path("link/../set/./a.h5")] {
        for spelled in [relative(&spelled), spelled] {
            assert_eq!(forebay::expand(std::slice::from_ref(&spelled)).unwrap(), both[..1], "{spelled}");
            assert_eq!(Origins::new().locate(&spelled).unwrap().as_str(), both[0], "{spelled}");
        }
    }
    for pattern in
        [path("set/*.h5"), path("link/*.h5"), relative(&path("set/?.h5")), relative(&path("link/*"))]
    {
        assert_eq!(forebay::expand(std::slice::from_ref(&pattern)).unwrap(), both, "{pattern}");
    }
    let url = "s3://bucket/../a.h5";
    assert_eq!(Origins::new().locate(url).unwrap().as_str(), url);
}

#[test]
fn variables_and_the_home_in_a_path_are_written_out() {
    let home = std::env::var("HOME").unwrap();
    let named = ["~/no-such.h5", "$HOME/no-such.h5", "${HOME}/no-such.h5"].map(str::to_owned);
    let written = format!("{}/no-such.h5", fs::canonicalize(home).unwrap().display());
    assert_eq!(forebay::expand(&named).unwrap(), [written.clone(), written.clone(), written]);
    let error = forebay::expand(&["$FOREBAY_NO_SUCH/a.h5".to_owned()]).unwrap_err();
    assert!(error.to_string().contains("the variable FOREBAY_NO_SUCH"), "{error}");
}
