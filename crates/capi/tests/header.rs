//! The header and the library say the same: functions, their number of arguments, codes and the version.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{collections::BTreeMap, fs};

/// The functions that `text` has behind `before`, each with the number of its arguments.
fn functions(text: &str, before: impl Fn(&str) -> bool) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for (at, _) in text.match_indices("forebay_") {
        let name: String =
            text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let Some(rest) = text[at + name.len()..].strip_prefix('(') else { continue };
        if before(&text[..at]) {
            found.insert(name, argument_count(rest));
        }
    }
    found
}

/// How many arguments there are before the bracket that closes.
fn argument_count(rest: &str) -> usize {
    let (mut depth, mut inside) = (1, String::new());
    for c in rest.chars() {
        depth += i32::from("(<[".contains(c)) - i32::from(")>]".contains(c));
        if depth == 0 {
            break;
        }
        // A comma within the arguments of a type parts nothing.
        inside.push(if c == ',' && depth > 1 { ' ' } else { c });
    }
    let inside = inside.trim().trim_end_matches(',');
    if inside.is_empty() || inside == "void" { 0 } else { inside.split(',').count() }
}

fn header() -> String {
    fs::read_to_string("include/forebay.h").unwrap()
}

/// The header without its comments.
fn code_of_header() -> String {
    let (mut code, header) = (String::new(), header());
    let mut rest = header.as_str();
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").unwrap().1;
    }
    code + rest
}

fn sources() -> String {
    let files = fs::read_dir("src").unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn every_function_is_declared_with_its_arguments_and_no_other() {
    let exported = functions(&sources(), |before| before.ends_with("extern \"C\" fn "));
    let declared = functions(&code_of_header(), |before| {
        let line = before.rsplit('\n').next().unwrap();
        !line.starts_with("static") && !line.starts_with(' ')
    });
    assert!(exported.len() > 40, "{exported:?}");
    assert_eq!(exported, declared);
}

#[test]
fn every_function_that_is_exported_is_called_by_its_name() {
    let sources = sources();
    let exported = sources.matches("#[unsafe(no_mangle)]").count();
    assert_eq!(exported, functions(&sources, |before| before.ends_with("extern \"C\" fn ")).len());
}

#[test]
fn codes_and_the_version_are_those_of_the_header() {
    let (header, status) = (code_of_header(), fs::read_to_string("src/status.rs").unwrap());
    let number = |name: &str| {
        let (_, rest) = header.split_once(&format!("#define FOREBAY_{name} ")).unwrap();
        rest.split_whitespace().next().unwrap().trim_matches(['(', ')']).parse::<i32>().unwrap()
    };
    let word = |kind: &str| match kind {
        "system" => "SYSTEM".to_owned(),
        kind => kind.to_uppercase(),
    };
    let rows: Vec<_> =
        status.lines().filter(|line| line.contains("(ErrorKind::") && line.contains("c\"")).collect();
    assert_eq!(rows.len(), 9);
    for row in rows {
        let parts: Vec<&str> = row.split(',').map(str::trim).collect();
        let name = parts[2].trim_start_matches("c\"").trim_end_matches([')', '"']);
        assert_eq!(parts[1].parse::<i32>().unwrap(), number(&word(name)), "{row}");
    }
    assert!(status.contains(&format!("const ABI_VERSION: u32 = {};", number("ABI_VERSION"))));
    for name in ["OK", "END", "TIMEOUT"] {
        assert!(status.contains(&format!("const {name}: i32 = {};", number(name))), "{name}");
    }
    let build = fs::read_to_string("build.rs").unwrap();
    assert!(build.contains(&format!("libforebay.so.{}", number("ABI_VERSION"))));
}
