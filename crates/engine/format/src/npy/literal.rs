//! The Python literals that NumPy writes into headers: dicts, tuples, lists, texts, whole numbers, True and False.

use std::{iter::Peekable, str::Chars};

use forebay_process::{Error, Result};

/// A Python literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    Dict(Vec<(Literal, Literal)>),
    /// A tuple or a list: headers mean the same by both.
    Items(Vec<Literal>),
    Text(String),
    Number(i128),
    Bool(bool),
    None,
}

/// Types of members nest; no header nests deeper than people think.
const MOST_DEPTH: usize = 32;

/// Reads `text`, which is one literal.
pub(super) fn parse(text: &str) -> Result<Literal> {
    let mut parser = Parser { rest: text.chars().peekable() };
    let literal = parser.value(0)?;
    parser.skip_space();
    match parser.rest.next() {
        None => Ok(literal),
        Some(letter) => Err(Error::corrupt(format!("{letter:?} after its end"))),
    }
}

/// The whole numbers of a tuple, or of a number that stands for a tuple of one.
pub(super) fn whole_numbers(literal: &Literal) -> Option<Vec<u64>> {
    let whole = |literal: &Literal| match literal {
        Literal::Number(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    match literal {
        Literal::Items(items) => items.iter().map(whole).collect(),
        single => whole(single).map(|number| vec![number]),
    }
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Parser<'_> {
    fn skip_space(&mut self) {
        while self.rest.next_if(|letter| letter.is_ascii_whitespace()).is_some() {}
    }

    fn value(&mut self, depth: usize) -> Result<Literal> {
        if depth > MOST_DEPTH {
            return Err(Error::corrupt("nests too deep"));
        }
        self.skip_space();
        match self.rest.peek().copied() {
            Some('{') => self.dict(depth),
            Some('(') => self.items(')', depth),
            Some('[') => self.items(']', depth),
            Some('\'' | '"') => self.text().map(Literal::Text),
            Some(letter) if letter.is_ascii_digit() || letter == '-' => self.number(),
            Some(letter) if letter.is_ascii_alphabetic() => self.word(),
            Some(letter) => Err(Error::corrupt(format!("{letter:?} starts no value"))),
            None => Err(Error::corrupt("ends early")),
        }
    }

    /// True when the next letter is `wanted`, which is then passed.
    fn passes(&mut self, wanted: char) -> bool {
        self.skip_space();
        self.rest.next_if_eq(&wanted).is_some()
    }

    fn need(&mut self, wanted: char) -> Result<()> {
        if self.passes(wanted) { Ok(()) } else { Err(Error::corrupt(format!("{wanted:?} is missing"))) }
    }

    fn dict(&mut self, depth: usize) -> Result<Literal> {
        self.rest.next();
        let mut pairs = Vec::new();
        while !self.passes('}') {
            let key = self.value(depth + 1)?;
            self.need(':')?;
            pairs.push((key, self.value(depth + 1)?));
            if !self.passes(',') {
                self.need('}')?;
                break;
            }
        }
        Ok(Literal::Dict(pairs))
    }

    fn items(&mut self, end: char, depth: usize) -> Result<Literal> {
        self.rest.next();
        let mut items = Vec::new();
        let mut has_comma = false;
        while !self.passes(end) {
            items.push(self.value(depth + 1)?);
            if !self.passes(',') {
                self.need(end)?;
                break;
            }
            has_comma = true;
        }
        match <[Literal; 1]>::try_from(items) {
            // A pair of parentheses around one value is no tuple.
            Ok([single]) if end == ')' && !has_comma => Ok(single),
            Ok(single) => Ok(Literal::Items(single.into())),
            Err(items) => Ok(Literal::Items(items)),
        }
    }

    fn number(&mut self) -> Result<Literal> {
        let mut digits = String::new();
        while let Some(letter) = self.rest.next_if(|letter| letter.is_ascii_digit() || *letter == '-') {
            digits.push(letter);
        }
        // Python 2 marked long numbers.
        let _ = self.rest.next_if_eq(&'L');
        digits.parse().map(Literal::Number).map_err(|_| Error::corrupt(format!("'{digits}' is no number")))
    }

    fn word(&mut self) -> Result<Literal> {
        let mut word = String::new();
        while let Some(letter) = self.rest.next_if(char::is_ascii_alphanumeric) {
            word.push(letter);
        }
        match (word.as_str(), self.rest.peek()) {
            ("True", _) => Ok(Literal::Bool(true)),
            ("False", _) => Ok(Literal::Bool(false)),
            ("None", _) => Ok(Literal::None),
            ("u" | "b", Some('\'' | '"')) => self.text().map(Literal::Text),
            _ => Err(Error::corrupt(format!("'{word}' is no value"))),
        }
    }

    fn text(&mut self) -> Result<String> {
        let quote = self.rest.next();
        let mut text = String::new();
        loop {
            match self.rest.next() {
                None => return Err(Error::corrupt("a text without its end")),
                letter if letter == quote => return Ok(text),
                Some('\\') => text.push(self.escaped()?),
                Some(letter) => text.push(letter),
            }
        }
    }

    fn escaped(&mut self) -> Result<char> {
        let len = match self.rest.next() {
            Some('n') => return Ok('\n'),
            Some('t') => return Ok('\t'),
            Some('r') => return Ok('\r'),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some(letter @ ('\\' | '\'' | '"')) => return Ok(letter),
            _ => return Err(Error::corrupt("an escape of an unknown kind")),
        };
        let digits: String = self.rest.by_ref().take(len).collect();
        let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == len);
        code.and_then(char::from_u32).ok_or_else(|| Error::corrupt(format!("'{digits}' is no letter")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_python_writes_is_read() {
        let number = Literal::Number;
        let text = |text: &str| Literal::Text(text.into());
        for (written, read) in [
            ("(3,)", Literal::Items(vec![number(3)])),
            ("(3)", number(3)),
            ("()", Literal::Items(vec![])),
            ("[('a', '<i4'), ]", Literal::Items(vec![Literal::Items(vec![text("a"), text("<i4")])])),
            (r#"{u'a\'b\x41': "c", }"#, Literal::Dict(vec![(text("a'bA"), text("c"))])),
            ("-12L", number(-12)),
        ] {
            assert_eq!(parse(written).unwrap(), read, "{written}");
        }
    }

    #[test]
    fn what_is_no_literal_ends_with_an_error() {
        let deep = "(".repeat(100_000);
        for written in ["", "{", "{1", "(1 2)", "'a", "import", "1 1", "'\\q'", "'\\xé1'", "--1", &deep] {
            assert!(parse(written).is_err(), "{written}");
        }
    }
}
