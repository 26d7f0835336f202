//! JSON as named values: numbers, texts, and lists of either; whatever else there is, as its own text.

use serde_json::Value;

use forebay_container::{Array, Attribute, Dtype, Member, Number, Padding, Values};

/// The members of `document`, without those called one of `except`, sorted by name.
pub(super) fn of(document: Option<&Value>, except: &[&str]) -> Vec<Attribute> {
    let Some(Value::Object(members)) = document else { return Vec::new() };
    let members = members.iter().filter(|(name, _)| !except.contains(&name.as_str()));
    let mut attributes: Vec<_> =
        members.map(|(name, value)| Attribute { name: name.clone(), value: Ok(array(value)) }).collect();
    attributes.sort_by(|left, right| left.name.cmp(&right.name));
    attributes
}

/// The attribute `name` that is the text `text`.
pub(super) fn note(name: &str, text: &str) -> Attribute {
    Attribute { name: name.into(), value: Ok(texts(vec![], &[text])) }
}

fn array(value: &Value) -> Array {
    let list = match value {
        Value::Array(list) => list.as_slice(),
        single => std::slice::from_ref(single),
    };
    let shape = if value.is_array() { vec![list.len() as u64] } else { vec![] };
    values(shape, list).unwrap_or_else(|| texts(vec![], &[&value.to_string()]))
}

/// The values of `list`, if they are of one kind.
fn values(shape: Vec<u64>, list: &[Value]) -> Option<Array> {
    if list.is_empty() {
        return None;
    }
    if let Some(all) = list.iter().map(Value::as_bool).collect::<Option<Vec<bool>>>() {
        let member = |name: &str, value| Member { name: name.into(), value };
        let base = Box::new(Dtype::native(Number::U8));
        let dtype = Dtype::Enum { base, members: vec![member("FALSE", 0), member("TRUE", 1)] };
        return Some(fixed(dtype, shape, all.into_iter().map(u8::from).collect()));
    }
    if let Some(all) = list.iter().map(Value::as_i64).collect::<Option<Vec<i64>>>() {
        return Some(numbers(Number::I64, shape, all.into_iter().map(i64::to_le_bytes)));
    }
    if let Some(all) = list.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>() {
        return Some(numbers(Number::U64, shape, all.into_iter().map(u64::to_le_bytes)));
    }
    if let Some(all) = list.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>() {
        return Some(numbers(Number::F64, shape, all.into_iter().map(f64::to_le_bytes)));
    }
    let all = list.iter().map(Value::as_str).collect::<Option<Vec<&str>>>()?;
    let longest = all.iter().map(|text| text.len()).max()?;
    let total: usize = all.iter().map(|text| text.len()).sum();
    // One long text among many short ones would pad them all to its length.
    let is_even = longest.saturating_mul(all.len()) <= 4 * total + (64 << 10);
    is_even.then(|| texts(shape, &all))
}

fn numbers(number: Number, shape: Vec<u64>, values: impl Iterator<Item = [u8; 8]>) -> Array {
    fixed(Dtype::native(number), shape, values.flatten().collect())
}

fn fixed(dtype: Dtype, shape: Vec<u64>, bytes: Vec<u8>) -> Array {
    Array { dtype, shape, values: Values::Fixed(bytes) }
}

fn texts(shape: Vec<u64>, texts: &[&str]) -> Array {
    let len = texts.iter().map(|text| text.len()).max().unwrap_or(0).max(1);
    let mut bytes = Vec::with_capacity(len * texts.len());
    for text in texts {
        bytes.extend_from_slice(text.as_bytes());
        bytes.resize(bytes.len() + len - text.len(), 0);
    }
    fixed(Dtype::Text { len, padding: Padding::NulPadded, utf8: true }, shape, bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_one_kind_become_arrays_and_others_their_text() {
        let document =
            json!({"a": 1, "b": [1, 2.5], "c": "x", "d": ["x", "yz"], "e": {"f": null}, "g": [], "h": true});
        let all = of(Some(&document), &["a"]);
        let value = |name: &str| all.iter().find(|found| found.name == name)?.value.clone().ok();
        assert_eq!(value("a"), None);
        assert_eq!(value("b").unwrap().dtype, Dtype::native(Number::F64));
        assert_eq!(value("c").unwrap().texts().unwrap(), ["x"]);
        assert_eq!(value("d").unwrap().texts().unwrap(), ["x", "yz"]);
        assert_eq!(value("e").unwrap().texts().unwrap(), [r#"{"f":null}"#]);
        assert_eq!(value("g").unwrap().texts().unwrap(), ["[]"]);
        assert!(value("h").unwrap().dtype.is_bool());
    }

    #[test]
    fn one_long_text_does_not_pad_a_thousand_short_ones() {
        let mut list = vec![json!("x"); 1000];
        list.push(json!("y".repeat(1 << 20)));
        let all = of(Some(&json!({"a": list})), &[]);
        let Values::Fixed(bytes) = &all[0].value.as_ref().unwrap().values else { panic!("not fixed") };
        assert!(bytes.len() < 2 << 20);
    }
}
