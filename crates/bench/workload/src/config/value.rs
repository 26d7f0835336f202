//! From the text of a configuration to numbers, times and words.

use std::path::PathBuf;

use forebay_process::{Error, ErrorKind, Result, size, suggest::unknown};

use crate::{
    config::{
        node::{ConfigNode, FromNode, NodeValue},
        section::Section,
    },
    distribution::TimeDistribution,
    words::ConfigWord,
};

fn invalid(what: String) -> Error {
    Error::new(ErrorKind::Invalid, what)
}

impl FromNode for String {
    fn from_node(node: &ConfigNode) -> Result<Self> {
        node.text().map(str::to_owned)
    }
}

impl FromNode for PathBuf {
    fn from_node(node: &ConfigNode) -> Result<Self> {
        node.text().map(Self::from)
    }
}

impl FromNode for bool {
    fn from_node(node: &ConfigNode) -> Result<Self> {
        let word = node.text()?;
        match &*word.to_ascii_lowercase() {
            "true" | "yes" | "on" | "1" => Ok(true),
            "false" | "no" | "off" | "0" => Ok(false),
            _ => Err(invalid(format!("'{word}' is neither true nor false"))),
        }
    }
}

impl FromNode for f64 {
    fn from_node(node: &ConfigNode) -> Result<Self> {
        let word = node.text()?;
        let number = word.replace('_', "").parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| invalid(format!("'{word}' is no number")))
    }
}

/// A whole number: digits, a size such as `64MiB`, or a number without a fraction (`4.0`, `1e6`).
fn whole(word: &str) -> Option<i128> {
    let plain = word.replace('_', "");
    if let Ok(number) = plain.parse() {
        return Some(number);
    }
    if let Ok(number) = plain.parse::<f64>() {
        let fits = number.is_finite() && number.abs() < 9e18 && number.fract() == 0.0;
        #[expect(clippy::cast_possible_truncation, reason = "within 64 bits")]
        return fits.then_some(number as i128);
    }
    size::parse(word).ok().map(i128::from)
}

fn unsigned<T: TryFrom<i128>>(node: &ConfigNode) -> Result<T> {
    let word = node.text()?;
    let number = whole(word).ok_or_else(|| invalid(format!("'{word}' is no whole number")))?;
    T::try_from(number).map_err(|_| invalid(format!("'{word}' is out of range")))
}

impl FromNode for u64 {
    fn from_node(node: &ConfigNode) -> Result<Self> {
        unsigned(node)
    }
}

impl FromNode for u32 {
    fn from_node(node: &ConfigNode) -> Result<Self> {
        unsigned(node)
    }
}

impl FromNode for u8 {
    fn from_node(node: &ConfigNode) -> Result<Self> {
        unsigned(node)
    }
}

impl FromNode for i32 {
    fn from_node(node: &ConfigNode) -> Result<Self> {
        unsigned(node)
    }
}

/// Negative numbers are how DLIO and h5bench say "none".
fn is_none(node: &ConfigNode) -> bool {
    match &node.value {
        NodeValue::Null => true,
        NodeValue::Text(text) => {
            text.is_empty() || text == "None" || whole(text).is_some_and(|number| number < 0)
        }
        NodeValue::List(_) | NodeValue::Map(_) => false,
    }
}

macro_rules! optional {
    ($($type:ty),+) => {$(
        impl FromNode for Option<$type> {
            fn from_node(node: &ConfigNode) -> Result<Self> {
                if is_none(node) { Ok(None) } else { FromNode::from_node(node).map(Some) }
            }
        }
    )+};
}
optional!(u64, u32, i32, String, PathBuf);

impl FromNode for Vec<u64> {
    fn from_node(node: &ConfigNode) -> Result<Self> {
        match &node.value {
            NodeValue::List(items) => items.iter().map(u64::from_node).collect(),
            NodeValue::Null => Ok(Self::new()),
            _ => u64::from_node(node).map(|number| vec![number]),
        }
    }
}

impl<W: ConfigWord> FromNode for W {
    fn from_node(node: &ConfigNode) -> Result<Self> {
        let word = node.text()?;
        W::of_word(word).ok_or_else(|| unknown(W::WHAT, word, W::ALL))
    }
}

impl FromNode for TimeDistribution {
    fn from_node(node: &ConfigNode) -> Result<Self> {
        if !matches!(node.value, NodeValue::Map(_)) {
            return Self::Fixed { mean: f64::from_node(node)? }.checked().map_err(invalid);
        }
        let mut section = Section::of(node, "")?;
        let mut kind = String::new();
        section.set(&["type"], &mut kind)?;
        let mut number = |key: &'static str| {
            let mut value = 0.0;
            section.set(&[key], &mut value).map(|given| given.then_some(value))
        };
        let needed =
            |value: Option<f64>, key: &str| value.ok_or_else(|| invalid(format!("a {key} is missing")));
        let distribution = match &*kind {
            "" | "normal" => match (number("mean")?, number("stdev")?) {
                (mean, None) => Self::Fixed { mean: mean.unwrap_or(0.0) },
                (mean, Some(stdev)) => Self::Normal { mean: mean.unwrap_or(0.0), stdev },
            },
            "uniform" => {
                Self::Uniform { min: needed(number("min")?, "min")?, max: needed(number("max")?, "max")? }
            }
            "gamma" => Self::Gamma {
                shape: needed(number("shape")?, "shape")?,
                scale: needed(number("scale")?, "scale")?,
            },
            "exponential" => Self::Exponential { scale: needed(number("scale")?, "scale")? },
            "poisson" => Self::Poisson { lam: needed(number("lam")?, "lam")? },
            _ => {
                let known = ["normal", "uniform", "gamma", "exponential", "poisson"];
                return Err(unknown("distribution", &kind, &known));
            }
        };
        section.finish()?;
        distribution.checked().map_err(invalid)
    }
}
