//! Sizes and unknown words as people write them.

use forebay_process::{
    size::{exact, parse},
    suggest::unknown,
};

#[test]
fn sizes_are_read_as_they_are_meant() {
    let sizes = ["1048576", "0", "64MiB", "64m", "2GB", "1.5 KiB", " 3 kb ", "7B", "2PiB"];
    let bytes = [1 << 20, 0, 64 << 20, 64 << 20, 2_000_000_000, 1536, 3000, 7, 2 << 50];
    assert_eq!(sizes.map(|size| parse(size).unwrap()), bytes);
}

#[test]
fn what_is_no_size_says_what_one_looks_like() {
    for text in ["", "MiB", "12 apples", "-1", "1.2.3", "1é", "5kibs"] {
        assert!(parse(text).unwrap_err().contains("look like 64MiB"), "{text}");
    }
    assert!(parse("99999999999G").unwrap_err().contains("more than can be counted"));
    assert!(parse("20000.5PiB").unwrap_err().contains("more than can be counted"));
}

#[test]
fn an_exact_size_is_short_and_read_back() {
    let sizes = [0, 7, 1024, 1536, 64 << 20, 3 << 50, u64::MAX];
    assert_eq!(sizes.map(exact)[..5], ["0", "7", "1KiB", "1536", "64MiB"]);
    assert_eq!(sizes.map(|bytes| parse(&exact(bytes)).unwrap()), sizes);
}

#[test]
fn a_slip_is_put_right_and_an_unknown_word_gets_the_list() {
    let known = ["kind", "path", "quota"];
    assert_eq!(unknown("key", "quotta", &known).to_string(), "unknown key 'quotta'; did you mean 'quota'?");
    assert_eq!(
        unknown("key", "sise", &known).to_string(),
        "unknown key 'sise'; it is one of kind, path, quota"
    );
}
