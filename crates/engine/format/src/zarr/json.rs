//! Documents as Python writes them, and what is asked of them.

use forebay_process::{Error, Result};
use serde_json::Value;

use super::key_order::KeyOrder;

/// The document in `bytes`, and the order of its members.
///
/// Python writes numbers that JSON has no word for, `NaN` and `Infinity`, without quotes: they are read as texts.
pub(super) fn parse(bytes: &[u8]) -> Result<(Value, KeyOrder)> {
    let ordered = |bytes: &[u8]| Ok((serde_json::from_slice(bytes)?, KeyOrder::of(bytes)));
    ordered(bytes).or_else(|error: serde_json::Error| {
        ordered(&quoted(bytes)).map_err(|_| Error::corrupt(format!("not JSON: {error}")))
    })
}

/// The words of numbers that JSON has none for.
const WORDS: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];

/// The same document with bare words of numbers in quotes.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 64);
    let (mut rest, mut in_text) = (bytes, false);
    while let Some((first, after)) = rest.split_first() {
        let word = WORDS.iter().find(|word| !in_text && rest.starts_with(word));
        if let Some(word) = word {
            out.extend([b"\"", *word, b"\""].concat());
            rest = &rest[word.len()..];
            continue;
        }
        out.push(*first);
        rest = after;
        match first {
            b'"' => in_text = !in_text,
            b'\\' if in_text => {
                out.extend(rest.first());
                rest = rest.get(1..).unwrap_or_default();
            }
            _ => {}
        }
    }
    out
}

/// The member `name` of `document`.
pub(super) fn need<'a>(document: &'a Value, name: &str) -> Result<&'a Value> {
    document.get(name).ok_or_else(|| Error::corrupt(format!("'{name}' is missing")))
}

/// The lengths in member `name` of `document`.
pub(super) fn lengths(document: &Value, name: &str) -> Result<Vec<u64>> {
    let list = need(document, name)?.as_array();
    let lengths = list.and_then(|list| list.iter().map(length).collect::<Option<Vec<u64>>>());
    lengths.ok_or_else(|| Error::corrupt(format!("'{name}' is not a list of lengths")))
}

/// A whole number that is not negative; some writers give `4.0` for 4.
fn length(value: &Value) -> Option<u64> {
    let exact = |float: f64| (float >= 0.0 && float < 2f64.powi(53) && float.fract() == 0.0).then_some(float);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be exact")]
    value.as_u64().or_else(|| value.as_f64().and_then(exact).map(|float| float as u64))
}

/// A named thing with settings: `"name"` or `{"name": …, "configuration": {…}}`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    pub(super) settings: &'a Value,
}

impl<'a> Named<'a> {
    /// What `value` names; `what` it is, for messages.
    pub(super) fn of(value: &'a Value, what: &str) -> Result<Self> {
        if let Value::String(name) = value {
            return Ok(Self { name, settings: &Value::Null });
        }
        let name = value.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| Error::corrupt(format!("{what} without a name")))?;
        Ok(Self { name, settings: value.get("configuration").unwrap_or(&Value::Null) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use forebay_process::ErrorKind;

    use super::*;

    #[test]
    fn bare_words_of_numbers_are_read_and_texts_are_left_alone() {
        let (document, _) = parse(br#"{"a": NaN, "b": [-Infinity, Infinity], "c": "\"NaN NaN"}"#).unwrap();
        assert_eq!(document, json!({"a": "NaN", "b": ["-Infinity", "Infinity"], "c": "\"NaN NaN"}));
        assert_eq!(parse(b"{\"a\": NaNa}").unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(parse(b"\"\\").unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn lengths_are_whole_and_not_negative() {
        let document = json!({"a": [1, 2.0], "b": [-1], "c": [1.5], "d": "x"});
        assert_eq!(lengths(&document, "a").unwrap(), [1, 2]);
        for name in ["b", "c", "d", "e"] {
            assert!(lengths(&document, name).is_err(), "{name}");
        }
    }
}
