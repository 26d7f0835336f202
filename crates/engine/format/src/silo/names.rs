//! Names of objects, and the lists and schemes that name the blocks of a multi-block object.

use forebay_process::{Error, ErrorKind, Result};

/// A block of a multi-block object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SiloBlock {
    /// A place that is left empty on purpose.
    Empty,
    /// An object, in this file or in the one called `file`.
    Named { file: Option<String>, name: String },
}

/// What stands for a block that is left empty on purpose.
pub(super) const EMPTY: &str = "EMPTY";

/// `name` as the object `from` means it: from the root, or from the folder that `from` stands in.
pub(super) fn resolve(from: &str, name: &str) -> String {
    let folder = match name.starts_with('/') {
        true => "",
        false => from.rsplit_once('/').map_or("", |(folder, _)| folder),
    };
    let mut steps: Vec<&str> = Vec::new();
    for step in folder.split('/').chain(name.split('/')) {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    steps.join("/")
}

/// One block's name: `EMPTY`, `/block0/rho`, `other.silo:/block0/rho`.
pub(super) fn block(name: &str) -> SiloBlock {
    if name == EMPTY || name.is_empty() {
        return SiloBlock::Empty;
    }
    match name.split_once(':') {
        Some((file, name)) => SiloBlock::Named {
            file: Some(file.to_owned()),
            name: format!("/{}", name.trim_start_matches('/')),
        },
        None => SiloBlock::Named { file: None, name: name.to_owned() },
    }
}

/// The names in a list that begins with what stands between them: `;/block0/rho;/block1/rho`.
pub(super) fn list(text: &str) -> impl Iterator<Item = &str> {
    let first = text.chars().next().unwrap_or(';');
    // Names begin with letters or slashes; older files have nothing before the first one.
    let (separator, rest) = match first {
        letter if letter.is_alphanumeric() || letter == '/' || letter == '_' => (';', text),
        other => (other, text.strip_prefix(other).unwrap_or(text)),
    };
    rest.strip_suffix(separator).unwrap_or(rest).split(separator).filter(move |_| !text.is_empty())
}

/// The name that `scheme` gives to number `n`: a format and, for each `%` of it, a formula: `@block%03d/rho@n%4@`.
pub(super) fn scheme(scheme: &str, n: i64) -> Result<String> {
    let refuse =
        |what: &str| Error::new(ErrorKind::Unsupported, format!("the name scheme {scheme:?} {what}"));
    let separator = scheme.chars().next().ok_or_else(|| refuse("is empty"))?;
    let mut parts = scheme[separator.len_utf8()..].split(separator);
    let format = parts.next().unwrap_or_default();
    let mut name = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        name.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            name.push('%');
            rest = after;
            continue;
        }
        let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        let (width, kind) = after.split_at(end);
        let Some(kind_rest) = kind.strip_prefix(['d', 'i']) else {
            return Err(refuse("has a part other than %d"));
        };
        let formula = parts.next().ok_or_else(|| refuse("has fewer formulas than parts"))?;
        let value = Formula { rest: formula, n, depth: 0 }
            .value()
            .ok_or_else(|| refuse("has a formula this build does not work out"))?;
        let len: usize = width.parse().unwrap_or(0);
        if len > 64 {
            return Err(refuse("asks for too many digits"));
        }
        let digits = if width.starts_with('0') { format!("{value:0len$}") } else { format!("{value:len$}") };
        name.push_str(&digits);
        rest = kind_rest;
    }
    name.push_str(rest);
    Ok(name)
}

/// A formula of whole numbers and `n`, with `+ - * / %` and brackets.
struct Formula<'a> {
    rest: &'a str,
    n: i64,
    depth: usize,
}

/// No one nests brackets deeper.
const MOST_DEPTH: usize = 32;

impl Formula<'_> {
    fn value(mut self) -> Option<i64> {
        let value = self.sum()?;
        self.rest.trim().is_empty().then_some(value)
    }

    fn next_of(&mut self, letters: &str) -> Option<char> {
        let rest = self.rest.trim_start();
        let letter = rest.chars().next().filter(|letter| letters.contains(*letter))?;
        self.rest = &rest[letter.len_utf8()..];
        Some(letter)
    }

    fn sum(&mut self) -> Option<i64> {
        let mut value = self.product()?;
        while let Some(sign) = self.next_of("+-") {
            let other = self.product()?;
            value = if sign == '+' { value.checked_add(other)? } else { value.checked_sub(other)? };
        }
        Some(value)
    }

    fn product(&mut self) -> Option<i64> {
        let mut value = self.atom()?;
        while let Some(sign) = self.next_of("*/%") {
            let other = self.atom()?;
            value = match sign {
                '*' => value.checked_mul(other)?,
                '/' => value.checked_div(other)?,
                _ => value.checked_rem(other)?,
            };
        }
        Some(value)
    }

    fn atom(&mut self) -> Option<i64> {
        if self.next_of("(").is_some() {
            self.depth += 1;
            if self.depth > MOST_DEPTH {
                return None;
            }
            let value = self.sum()?;
            return self.next_of(")").map(|_| value);
        }
        if self.next_of("n").is_some() {
            return Some(self.n);
        }
        let rest = self.rest.trim_start();
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let value = rest[..end].parse().ok()?;
        self.rest = &rest[end..];
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_meant_from_the_folder_of_who_names_them() {
        assert_eq!(resolve("deep/mesh", "zl"), "deep/zl");
        assert_eq!(resolve("deep/mesh", "/zl"), "zl");
        assert_eq!(resolve("deep/down/mesh", "../../../up/./zl"), "up/zl");
        assert_eq!(resolve("mesh", "zl"), "zl");
    }

    #[test]
    fn lists_name_blocks_here_elsewhere_and_nowhere() {
        let named = |file: Option<&str>, name: &str| SiloBlock::Named {
            file: file.map(Into::into),
            name: name.into(),
        };
        let list = |text| list(text).map(block).collect::<Vec<_>>();
        assert_eq!(
            list(";/a/x;EMPTY;b.silo:c/x;"),
            [named(None, "/a/x"), SiloBlock::Empty, named(Some("b.silo"), "/c/x")]
        );
        assert_eq!(list("a;b"), [named(None, "a"), named(None, "b")]);
        assert_eq!(list(""), []);
    }

    #[test]
    fn schemes_work_out_names_or_are_refused() {
        assert_eq!(scheme("@block%d/rho@n", 3).unwrap(), "block3/rho");
        assert_eq!(scheme("|f%03d_%d%%.silo|n/4|(n+1)%4*2|", 9).unwrap(), "f002_4%.silo");
        assert_eq!(scheme("@always", 9).unwrap(), "always");
        for bad in ["", "@%s@n", "@%d", "@%d@n/0", "@%d@#a[n]", "@%99999999999d@n"] {
            assert_eq!(scheme(bad, 1).unwrap_err().kind(), ErrorKind::Unsupported, "{bad}");
        }
        let deep = format!("@%d@{}n", "(".repeat(1 << 16));
        assert!(scheme(&deep, 1).is_err());
    }
}
