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
