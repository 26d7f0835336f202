//! Keys that can be sent.

use object_store::aws::AwsCredential;

use forebay_process::{Error, ErrorKind, Result};

/// `keys`, unless they hold letters that no header can, which the crate does not expect.
pub(super) fn usable(keys: AwsCredential) -> Result<AwsCredential> {
    let is_text = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    for (name, text) in [
        ("access key", Some(&keys.key_id)),
        ("secret access key", Some(&keys.secret_key)),
        ("session token", keys.token.as_ref()),
    ] {
        if text.is_some_and(|text| !is_text(text)) {
            let what =
                format!("the {name} is empty, or holds a space, a line break or a letter outside of ASCII");
            return Err(Error::new(ErrorKind::Denied, what).hint("copy it anew"));
        }
    }
    Ok(keys)
}
