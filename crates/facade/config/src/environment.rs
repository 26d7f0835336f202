//! The environment that settings are read in, and variables and `~` in paths.

use std::{env, fmt, path::PathBuf};

use forebay_process::{Error, ErrorKind, Result};

/// What the meaning of a path depends on: variables and the working directory.
pub struct Environment<'a> {
    /// The variables.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The working directory.
    pub folder: PathBuf,
}

impl fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Environment<'_> {
    /// The variables of this process, with `folder` as the working directory.
    pub fn of_process(folder: PathBuf) -> Self {
        Self { variable: &|name| env::var(name).ok(), folder }
    }

    /// A variable that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }
}

/// `text` with `$NAME`, `${NAME}` and a leading `~` replaced; `$$` is a dollar.
pub(crate) fn expand(text: &str, environment: &Environment<'_>) -> Result<String> {
    let mut path = String::with_capacity(text.len());
    let mut rest = text;
    if let Some(after) = text.strip_prefix('~') {
        if !after.is_empty() && !after.starts_with('/') {
            return Err(invalid(format!("'{text}' names another user's home")).hint("write the path in full"));
        }
        path += &get("HOME", text, environment)?;
        rest = after;
    }
    while let Some(at) = rest.find('$') {
        path += &rest[..at];
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            path.push('$');
            rest = after;
            continue;
        }
        let (name, after) = name_of(after).ok_or_else(|| {
            invalid(format!("no name after '$' in '{text}'")).hint("a plain dollar is '$$'")
        })?;
        path += &get(name, text, environment)?;
        rest = after;
    }
    path += rest;
    Ok(path)
}

/// `path` so that [`expand`] gives it back.
pub(crate) fn literal(path: &str) -> String {
    path.replace('$', "$$")
}

/// The name that follows a dollar, and what follows the name.
fn name_of(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = match text.strip_prefix('{') {
        Some(inside) => inside.split_once('}')?,
        None => {
            let end = text.find(|letter: char| !is_of_name(letter)).unwrap_or(text.len());
            text.split_at(end)
        }
    };
    let is_name = name.starts_with(|first: char| is_of_name(first) && !first.is_ascii_digit())
        && name.chars().all(is_of_name);
    is_name.then_some((name, rest))
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

fn get(name: &str, text: &str, environment: &Environment<'_>) -> Result<String> {
    environment.get(name).ok_or_else(|| {
        Error::new(ErrorKind::NotFound, format!("the variable {name} in '{text}' is not set"))
            .hint("set it, or write the path in full")
    })
}

fn invalid(what: String) -> Error {
    Error::new(ErrorKind::Invalid, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String> {
        let variable = |name: &str| match name {
            "USER" => Some("ada".to_owned()),
            "HOME" => Some("/home/ada".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        expand(text, &Environment { variable: &variable, folder: "/".into() })
    }

    #[test]
    fn variables_and_the_home_are_replaced() {
        for (text, path) in [
            ("/nvme/$USER", "/nvme/ada"),
            ("/nvme/${USER}_x/$USER/y", "/nvme/ada_x/ada/y"),
            ("~", "/home/ada"),
            ("~/cache", "/home/ada/cache"),
            ("/a/~b", "/a/~b"),
            ("/price$$5", "/price$5"),
        ] {
            assert_eq!(expanded(text).unwrap(), path);
        }
        assert_eq!(expanded(&literal("/a$USER$$/b")).unwrap(), "/a$USER$$/b");
    }

    #[test]
    fn what_is_not_set_is_named() {
        let error = expanded("/nvme/$NOBODY/x").unwrap_err().to_string();
        assert!(error.contains("the variable NOBODY in '/nvme/$NOBODY/x' is not set"), "{error}");
        assert!(expanded("/x/$EMPTY").is_err(), "an empty variable would name the folder above");
        for text in ["/a/$", "/a/$5", "/a/${USER", "/a/${}", "~bob/x"] {
            assert_eq!(expanded(text).unwrap_err().kind(), ErrorKind::Invalid, "{text}");
        }
    }
}
