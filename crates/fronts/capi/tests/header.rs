//! The header and the library say the same: functions with the types of their arguments, structures, constants and the version.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

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
    if let Some(handle) = inside("Option<Box<", "Handle>>") {
        return format!("forebay_{}*", snake_case(handle));
    }
    if let Some(handle) = inside("Option<&", "Handle>") {
        return format!("{EITHER}forebay_{}*", snake_case(handle));
    }
    if let Some(options) = inside("*const ", "Arguments") {
        return format!("const forebay_{}_options*", snake_case(options));
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
        "u16" => "uint16_t",
        // Bytes, as the header's are here.
        "c_void" => "uint8_t",
        "Option<unsafe extern \"C\" fn(*mut Self)>" => "deleter",
        dlpack if dlpack.starts_with("DL") => dlpack,
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

/// Before a handle that a call borrows: whether it is `const` says to the reader whether it changes, and nothing to the library.
const EITHER: &str = "const? ";

/// True where the header's type is that of the library.
fn agrees(ours: &str, theirs: &str) -> bool {
    match ours.strip_prefix(EITHER) {
        Some(handle) => theirs.strip_prefix("const ").unwrap_or(theirs) == handle,
        None => ours == theirs,
    }
}

/// A type of the header: without spaces around `*`; bytes may be `void`.
fn c_type(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.replace("struct ", "").replace(" *", "*").replace("* ", "*");
    text.replace("void*", "uint8_t*")
}

/// A name and its type, as C declares them.
fn c_declared(text: &str) -> (String, String) {
    if text == "void (*deleter)(struct DLManagedTensorVersioned *self)" {
        return ("deleter".to_owned(), "deleter".to_owned());
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let at = text.trim_end().rfind(|c| !is_name(c)).unwrap() + 1;
    (text[at..].trim().to_owned(), c_type(&text[..at]))
}

/// A name and its type, as Rust declares them.
fn rust_declared(text: &str) -> (String, String) {
    let (name, kind) = text.split_once(':').unwrap();
    let name = name.trim_start_matches("pub(crate) ").trim_start_matches("pub ").trim();
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
    let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("no {begin}"));
    let (inside, _) = rest.split_once("\n}").unwrap();
    inside.split(end).map(str::trim).filter(|member| !member.is_empty()).collect()
}

/// The structure `ours` of `sources`, which C can see, and `theirs` of the header have the same members.
fn compare_structures(sources: &str, ours: &str, theirs: &str) {
    let (before, _) = sources.split_once(&format!("struct {ours} {{")).unwrap();
    let attributes = before.rsplit("\n\n").next().unwrap();
    assert!(attributes.contains("#[repr(C)]"), "{ours} is laid out as C does");
    let of_rust = members(sources, &format!("struct {ours} {{"), ',').into_iter().map(rust_declared);
    let header = code_of_header();
    let of_c = members(&header, &format!("typedef struct {theirs} {{"), ';').into_iter().map(c_declared);
    assert_eq!(of_rust.collect::<Vec<_>>(), of_c.collect::<Vec<_>>(), "{theirs}");
}

/// Every word after `before`, up to what no name has.
fn words_after<'a>(text: &'a str, before: &str) -> Vec<&'a str> {
    let word = |rest: &'a str| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap();
    text.match_indices(before).map(|(at, _)| word(&text[at + before.len()..])).collect()
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
    for (name, ours) in exported {
        let theirs = &declared[&name];
        let is_same = agrees(&ours.returns, &theirs.returns)
            && ours.arguments.len() == theirs.arguments.len()
            && std::iter::zip(&ours.arguments, &theirs.arguments)
                .all(|(ours, theirs)| ours.0 == theirs.0 && agrees(&ours.1, &theirs.1));
        assert!(is_same, "{name}: {ours:?} is declared as {theirs:?}");
    }
}

#[test]
fn structures_of_options_have_the_members_of_the_header() {
    let (sources, header) = (sources(), code_of_header());
    let ours = words_after(&sources, "\nunsafe impl VersionedArguments for ");
    let named: BTreeSet<_> = ours.iter().map(|name| options_of_header(name)).collect();
    let bodies =
        header.lines().filter(|line| line.starts_with("typedef struct forebay_") && line.ends_with('{'));
    let theirs: BTreeSet<_> = bodies.map(|line| words_after(line, "struct ")[0].to_owned()).collect();
    assert_eq!(named, theirs);
    for name in ours {
        compare_structures(&sources, name, &options_of_header(name));
    }
}

fn options_of_header(name: &str) -> String {
    format!("forebay_{}_options", snake_case(name.strip_suffix("Arguments").unwrap()))
}

#[test]
fn tensors_are_laid_out_as_the_header_declares_them() {
    let sources = fs::read_to_string("../../engine/batch/src/dlpack.rs").unwrap();
    let code: Vec<&str> = sources.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    for name in ["DLPackVersion", "DLDevice", "DLDataType", "DLTensor", "DLManagedTensorVersioned"] {
        compare_structures(&code, name, name);
    }
    assert_eq!(code_of_header().matches("typedef struct DL").count(), 5);
}

#[test]
fn texts_and_handles_are_as_wide_as_pointers() {
    let sources = sources();
    assert!(
        sources.contains("#[repr(transparent)]\n#[derive(Clone, Copy, Debug)]\npub(crate) struct TextArg(")
    );
    let header = code_of_header();
    let mut opaque = words_after(&header, "\ntypedef struct ");
    opaque.retain(|name| name.starts_with("forebay_") && !name.ends_with("_options"));
    let mut handles: Vec<_> = words_after(&sources, "\npub(crate) struct ");
    handles.retain(|name| name.ends_with("Handle"));
    let handles: BTreeSet<_> = handles
        .iter()
        .map(|name| format!("forebay_{}", snake_case(name.strip_suffix("Handle").unwrap())))
        .collect();
    assert_eq!(handles, opaque.into_iter().map(str::to_owned).collect());
}

#[test]
fn every_function_that_is_exported_is_called_by_its_name() {
    let sources = sources();
    let exported = sources.matches("#[unsafe(no_mangle)]").count();
    assert_eq!(exported, functions(&sources, |before| before.ends_with("extern \"C\" fn ")).len());
}

/// What the library takes each constant of the header for.
fn constants() -> BTreeMap<String, String> {
    let (status, arguments) = (source("status.rs"), source("loader_arguments.rs"));
    let mut found = BTreeMap::new();
    let rows: Vec<_> =
        status.lines().filter(|line| line.contains("(ErrorKind::") && line.contains("c\"")).collect();
    assert_eq!(rows.len(), 9);
    for row in rows {
        let parts: Vec<&str> = row.split(',').map(str::trim).collect();
        let name = parts[2].trim_start_matches("c\"").trim_end_matches([')', '"']);
        found.insert(name.to_uppercase(), parts[1].to_owned());
    }
    for name in ["OK", "END", "TIMEOUT", "ABI_VERSION"] {
        found.insert(name.to_owned(), constant(&status, name));
    }
    for (choice, listed) in
        [("SHUFFLE", "Shuffle::None,"), ("TAIL", "None, Some(Tail::Short)"), ("ON_ERROR", "OnError::Raise,")]
    {
        let at = arguments.find(&format!("&[{listed}")).unwrap_or_else(|| panic!("no list of {choice}"));
        let (list, _) = arguments[at + 2..].split_once(']').unwrap();
        for (number, name) in list.split(", ").enumerate() {
            let name = name.rsplit("::").next().unwrap().trim_end_matches(')');
            let name = if name == "None" && choice == "TAIL" { "DEFAULT" } else { name };
            found.insert(format!("{choice}_{}", name.to_uppercase()), number.to_string());
        }
    }
    found.insert("NO_PREFETCH".to_owned(), constant(&arguments, "NO_PREFETCH"));
    let milestones = constant(&source("stage.rs"), "MILESTONES");
    for (number, name) in milestones.trim_matches(['[', ']']).split(", ").enumerate() {
        found.insert(name.trim_start_matches("Sealed::").to_uppercase(), number.to_string());
    }
    // The epochs of a start are counted up to them.
    assert!(arguments.contains("epochs: u64,"));
    found.insert("ENDLESS".to_owned(), "u64::MAX".to_owned());
    found
}

/// What `text` says after the `=` of a constant.
fn constant(text: &str, name: &str) -> String {
    let (_, rest) = text.split_once(&format!("const {name}: ")).unwrap_or_else(|| panic!("no {name}"));
    let (value, _) = rest.split_once(" = ").unwrap().1.split_once(';').unwrap();
    value.to_owned()
}

fn source(name: &str) -> String {
    fs::read_to_string(format!("src/{name}")).unwrap()
}

#[test]
fn every_constant_of_the_header_has_the_value_that_the_library_takes_it_for() {
    let header = code_of_header();
    let rust = |value: &str| match value.trim_matches(['(', ')']) {
        "UINT32_MAX" => "u32::MAX".to_owned(),
        "UINT64_MAX" => "u64::MAX".to_owned(),
        number => number.to_owned(),
    };
    let defined =
        header.lines().filter_map(|line| line.strip_prefix("#define FOREBAY_")?.trim().split_once(' '));
    let defined: BTreeMap<_, _> =
        defined.map(|(name, value)| (name.to_owned(), rust(value.trim()))).collect();
    assert_eq!(constants(), defined);
    let build = fs::read_to_string("build.rs").unwrap();
    assert!(build.contains(&format!("libforebay.so.{}", defined["ABI_VERSION"])));
}

#[test]
fn nothing_of_the_header_is_switched_off() {
    let header = code_of_header();
    let conditions: Vec<_> =
        header.lines().filter(|line| line.starts_with("#if") || line.starts_with("#el")).collect();
    let known = [
        "#ifndef FOREBAY_H",
        "#ifdef __cplusplus",
        "#if !defined(DLPACK_DLPACK_H_) && !defined(FOREBAY_NO_DLPACK)",
        "#elif defined(FOREBAY_NO_DLPACK)",
        "#ifdef __cplusplus",
    ];
    assert_eq!(conditions, known);
    assert!(!header.contains("//"), "comments are those of C90");
}
