//! The header and the library say the same: functions with the types of their arguments, structures, codes and the version.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

use std::{collections::BTreeMap, fs};

/// A function: what it returns and what it takes, each argument as its name and its type.
#[derive(Debug, PartialEq, Eq)]
struct Signature {
    returns: String,
    arguments: Vec<(String, String)>,
}

/// The functions that `text` has behind `before`: for each what stands before its name on its line, in its brackets, and after them.
fn functions(text: &str, before: impl Fn(&str) -> bool) -> BTreeMap<String, [&str; 3]> {
    let mut found = BTreeMap::new();
    for (at, _) in text.match_indices("forebay_") {
        let name: String =
            text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let Some(rest) = text[at + name.len()..].strip_prefix('(') else { continue };
        if before(&text[..at]) {
            let line = text[..at].rsplit('\n').next().unwrap();
            let len = closing(rest);
            found.insert(name, [line, &rest[..len], &rest[len + 1..]]);
        }
    }
    found
}

/// Where the bracket is that closes.
fn closing(rest: &str) -> usize {
    let mut depth = 1;
    let closes = |c: char| {
        depth += i32::from("(<[".contains(c)) - i32::from(")>]".contains(c));
        depth == 0
    };
    rest.find(closes).unwrap()
}

/// `inside` cut at its commas, but for those within the arguments of a type.
fn parts(inside: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in inside.char_indices() {
        depth += i32::from("(<[".contains(c)) - i32::from(")>]".contains(c));
        if c == ',' && depth == 0 {
            found.push(inside[start..at].trim());
            start = at + 1;
        }
    }
    found.push(inside[start..].trim());
    found.retain(|part| !part.is_empty() && *part != "void");
    found
}

/// The C type of a Rust type, written as `c_type` writes those of the header.
fn type_of_rust(text: &str) -> String {
    let inside = |begin: &str, end: &str| text.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
    if let Some(result) = inside("OutArg<'_, ", ">") {
        return type_of_rust(result) + "*";
    }
    if let Some(handle) = inside("Option<Box<", "Handle>>").or(inside("Option<&", "Handle>")) {
        return format!("forebay_{}*", snake_case(handle));
    }
    if let Some(options) = inside("*const ", "Arguments") {
        return format!("forebay_{}_options*", snake_case(options));
    }
    if let Some(pointed) = text.strip_prefix("*const ") {
        let pointed = type_of_rust(pointed);
        return if pointed.ends_with('*') { pointed + "const*" } else { format!("const {pointed}*") };
    }
    if let Some(pointed) = text.strip_prefix("*mut ") {
        return type_of_rust(pointed) + "*";
    }
    let plain = match text {
        "" => "void",
        "TextArg" => "const char*",
        "c_char" => "char",
        "usize" => "size_t",
        "u8" => "uint8_t",
        "i32" => "int32_t",
        "u32" => "uint32_t",
        "i64" => "int64_t",
        "u64" => "uint64_t",
        "DLManagedTensorVersioned" => text,
        other => panic!("no C type is known for {other}"),
    };
    plain.to_owned()
}

fn snake_case(name: &str) -> String {
    let words = name.chars().enumerate().flat_map(|(index, c)| {
        let gap = (c.is_uppercase() && index > 0).then_some('_');
        gap.into_iter().chain([c.to_ascii_lowercase()])
    });
    words.collect()
}

/// A type of the header: without spaces around `*`; bytes may be `void`, and whether a handle is `const` is for the reader alone.
fn c_type(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.replace("struct ", "").replace(" *", "*").replace("* ", "*");
    text.replace("const forebay_", "forebay_").replace("void*", "uint8_t*")
}

/// A name and its type, as C declares them.
fn c_declared(text: &str) -> (String, String) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let at = text.trim_end().rfind(|c| !is_name(c)).unwrap() + 1;
    (text[at..].trim().to_owned(), c_type(&text[..at]))
}

/// A name and its type, as Rust declares them.
fn rust_declared(text: &str) -> (String, String) {
    let (name, kind) = text.split_once(':').unwrap();
    let name = name.trim_start_matches("pub(crate) ").trim();
    (name.to_owned(), type_of_rust(kind.trim()))
}

fn exported() -> BTreeMap<String, Signature> {
    let sources = sources();
    let found = functions(&sources, |before| before.ends_with("extern \"C\" fn "));
    let signature = |[_, inside, after]: [&str; 3]| {
        let returns = after.split_once('{').unwrap().0.trim().trim_start_matches("->").trim();
        let arguments = parts(inside).into_iter().map(rust_declared).collect();
        Signature { returns: type_of_rust(returns), arguments }
    };
    found.into_iter().map(|(name, parts)| (name, signature(parts))).collect()
}

fn declared() -> BTreeMap<String, Signature> {
    let header = code_of_header();
    let found = functions(&header, |before| {
        let line = before.rsplit('\n').next().unwrap();
        !line.starts_with("static") && !line.starts_with(' ')
    });
    let signature = |[returns, inside, _]: [&str; 3]| Signature {
        returns: c_type(returns.trim()),
        arguments: parts(inside).into_iter().map(c_declared).collect(),
    };
    found.into_iter().map(|(name, parts)| (name, signature(parts))).collect()
}

/// The members of the structure that `text` has behind `begin`, which end with `end` each.
fn members<'a>(text: &'a str, begin: &str, end: char) -> Vec<&'a str> {
    let (_, rest) = text.split_once(begin).unwrap();
    let (inside, _) = rest.split_once('}').unwrap();
    inside.split(end).map(str::trim).filter(|member| !member.is_empty()).collect()
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
fn every_function_is_declared_with_its_types_and_no_other() {
    let (exported, declared) = (exported(), declared());
    assert!(exported.len() > 40, "{exported:?}");
    assert_eq!(exported.keys().collect::<Vec<_>>(), declared.keys().collect::<Vec<_>>());
    for (name, signature) in exported {
        assert_eq!(signature, declared[&name], "{name}");
    }
}

#[test]
fn structures_of_options_have_the_members_of_the_header() {
    let (sources, header) = (sources(), code_of_header());
    for (ours, theirs) in
        [("DatasetArguments", "forebay_dataset_options"), ("LoaderArguments", "forebay_loader_options")]
    {
        let ours = members(&sources, &format!("struct {ours} {{"), ',').into_iter().map(rust_declared);
        let theirs = members(&header, &format!("struct {theirs} {{"), ';').into_iter().map(c_declared);
        assert_eq!(ours.collect::<Vec<_>>(), theirs.collect::<Vec<_>>());
    }
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
