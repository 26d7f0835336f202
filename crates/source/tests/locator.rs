//! Names as people see them.

use forebay_source::Locator;

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
