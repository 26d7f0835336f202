//! Names of sources: paths of any bytes, URLs, and what lies beside them.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use forebay_source::{Locator, path_of_text, text_of_path};
use proptest::{collection::vec, prelude::*};

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

proptest! {
    #[test]
    fn every_path_comes_back_from_its_text_and_no_two_share_one(
        one in vec(1..=255_u8, 0..12),
        other in vec(1..=255_u8, 0..12),
    ) {
        let texts = [&one, &other].map(|bytes| text_of_path(&path(bytes)));
        prop_assert_eq!(path_of_text(&texts[0]), path(&one));
        prop_assert_eq!(one == other, texts[0] == texts[1]);
        if let Ok(text) = std::str::from_utf8(&one) {
            prop_assert_eq!(&texts[0], text);
        }
    }
}

#[test]
fn steps_of_a_path_are_steps_of_its_text() {
    let text = text_of_path(&path(b"/d\xff/a\xc3\xa9.h5"));
    assert_eq!(text, "/d\0ff/aé.h5");
    assert_eq!(text.rsplit('/').next(), Some("aé.h5"));
    for kept in ["\0", "a\0zz", "\0FF", "\0f"] {
        assert_eq!(path_of_text(kept).as_os_str().as_bytes(), kept.as_bytes(), "{kept:?}");
    }
}

#[test]
fn beside_keeps_the_folder_and_lets_absolute_names_be() {
    assert_eq!(Locator::new("d/a.h5").beside("b.h5").as_str(), "d/b.h5");
    assert_eq!(Locator::new("a.h5").beside("b.h5").as_str(), "b.h5");
    assert_eq!(Locator::new("d/a.h5").beside("/b.h5").as_str(), "/b.h5");
    assert_eq!(Locator::new("/a.h5").beside("b.h5").as_str(), "/b.h5");
    assert_eq!(Locator::new("s3://bucket/d/a.h5").beside("e/b.h5").as_str(), "s3://bucket/d/e/b.h5");
}

#[test]
fn beside_a_url_nothing_leaves_the_bucket() {
    for (from, name, to) in [
        ("s3://bucket/d/a.h5", "../b.h5", "s3://bucket/b.h5"),
        ("s3://bucket/d/a.h5", "../../../other/b.h5", "s3://bucket/other/b.h5"),
        ("s3://bucket/d/a.h5", "/etc/passwd", "s3://bucket/etc/passwd"),
        ("s3://bucket/a.h5", "/../../etc/passwd", "s3://bucket/etc/passwd"),
        ("s3://bucket/a.h5", "file:///etc/passwd", "s3://bucket/file:/etc/passwd"),
        ("s3://bucket/a.h5", "http://169.254.169.254/a", "s3://bucket/http:/169.254.169.254/a"),
        ("https://host:80/d/a.h5", "../../b.h5", "https://host:80/b.h5"),
        ("s3://bucket", "b.h5", "s3://bucket/b.h5"),
    ] {
        let beside = Locator::new(from).beside(name);
        assert_eq!(beside.as_str(), to, "{from} {name}");
        assert!(beside.is_url());
    }
}

#[test]
fn a_path_that_is_not_utf8_is_kept_and_shown_with_its_bytes_written_out() {
    let path = PathBuf::from(OsStr::from_bytes(b"/d\xfe/a\xff.h5"));
    let at = Locator::from_path(&path);
    assert_eq!((&*at.to_path(), at.to_string()), (&*path, r"/d\xfe/a\xff.h5".to_owned()));
    let beside = at.beside("b.h5");
    assert_eq!(&*beside.to_path(), Path::new(OsStr::from_bytes(b"/d\xfe/b.h5")));
    let saved = serde_json::to_string(&at).unwrap();
    assert_eq!(serde_json::from_str::<Locator>(&saved).unwrap(), at);
}

#[test]
fn only_a_scheme_makes_a_url() {
    for (name, is_url) in [
        ("s3://bucket/a", true),
        ("gs://bucket", true),
        ("/data/a://b", false),
        ("a.h5", false),
        ("://a", false),
        ("c:/a", false),
        ("s3:/bucket/a", false),
    ] {
        assert_eq!(Locator::new(name).is_url(), is_url, "{name}");
    }
    assert!(!Locator::new("d/a.h5").beside("s3://bucket/b.h5").is_url(), "a local file names local files");
    assert!(!Locator::new("a.h5").beside("s3://bucket/b.h5").is_url());
}

#[test]
fn one_file_has_one_locator_however_it_is_reached() {
    for (from, name, to) in [
        ("d/a.h5", "./b.h5", "d/b.h5"),
        ("d/a.h5", "././b.h5", "d/b.h5"),
        ("d/a.h5", "../d/b.h5", "d/b.h5"),
        ("d/a.h5", "../b.h5", "b.h5"),
        ("a.h5", "./b.h5", "b.h5"),
        ("a.h5", "../b.h5", "../b.h5"),
        ("../a.h5", "../b.h5", "../../b.h5"),
        ("/d/a.h5", "../b.h5", "/b.h5"),
        ("d/a.h5", "/e/../b.h5", "/b.h5"),
    ] {
        assert_eq!(Locator::new(from).beside(name).as_str(), to, "{from} {name}");
    }
}

#[test]
fn a_password_in_a_web_address_is_not_shown() {
    for (url, shown) in [
        ("http://user:secret@host/a/b.h5", "http://...@host/a/b.h5"),
        ("https://user@se@host:80", "https://...@host:80"),
        ("https://host/a@b.h5", "https://host/a@b.h5"),
        ("abfs://container@account.net/x", "abfs://container@account.net/x"),
        ("/data/a@b.h5", "/data/a@b.h5"),
    ] {
        assert_eq!(Locator::new(url).to_string(), shown);
    }
}
