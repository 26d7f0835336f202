//! The INI files of AWS: sections, settings, settings nested one level deep.

use std::collections::HashMap;

/// The settings of one section: names in lower case, nested ones as `s3.endpoint_url`.
pub(super) type IniSection = HashMap<String, String>;

/// A file of sections. A line that makes no sense is passed over, as other tools do that share the file.
#[derive(Default, PartialEq)]
pub(super) struct Ini(HashMap<String, IniSection>);

impl Ini {
    /// What `text` says; of a setting given twice the last counts.
    pub(super) fn parse(text: &str) -> Self {
        let mut reader = IniReader::default();
        for line in text.trim_start_matches('\u{feff}').lines() {
            reader.take(line);
        }
        Self(reader.sections)
    }

    /// The section `name`, in which words are parted by one space: `profile a`.
    pub(super) fn section(&self, name: &str) -> Option<&IniSection> {
        self.0.get(name)
    }
}

#[derive(Default)]
struct IniReader {
    sections: HashMap<String, IniSection>,
    /// None where a header was not understood: what follows belongs nowhere.
    section: Option<String>,
    /// The setting that deeper lines continue, and how deep it stands.
    setting: Option<(String, usize)>,
}

impl IniReader {
    fn take(&mut self, line: &str) {
        let depth = line.len() - line.trim_start().len();
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            return;
        }
        if let Some(header) = line.strip_prefix('[') {
            self.section = header.split_once(']').map(|(name, _)| section_name(name));
            self.setting = None;
            if let Some(name) = &self.section {
                self.sections.entry(name.clone()).or_default();
            }
            return;
        }
        let Some(section) = self.section.as_ref().and_then(|name| self.sections.get_mut(name)) else {
            return;
        };
        if let Some((parent, _)) = self.setting.as_ref().filter(|(_, at)| depth > *at) {
            continue_setting(section, parent, line);
        } else if let Some((name, value)) = setting(line) {
            self.setting = Some((name.clone(), depth));
            section.insert(name, value);
        }
    }
}

/// Takes `line` as a setting nested in `parent`, which says nothing itself, else as more of its value.
fn continue_setting(section: &mut IniSection, parent: &str, line: &str) {
    let says_nothing = section.get(parent).is_none_or(String::is_empty);
    match setting(line).filter(|_| says_nothing) {
        Some((name, value)) => {
            section.insert(format!("{parent}.{name}"), value);
        }
        None => {
            let value = section.entry(parent.to_owned()).or_default();
            value.push('\n');
            value.push_str(without_comment(line));
        }
    }
}

fn setting(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim().to_lowercase();
    (!name.is_empty()).then(|| (name, without_comment(value).to_owned()))
}

/// `value` up to a `#` or `;` that follows a space.
fn without_comment(value: &str) -> &str {
    let starts_comment =
        |(at, _): &(usize, &str)| value[..*at].is_empty() || value[..*at].ends_with([' ', '\t']);
    let comment = value.match_indices(['#', ';']).find(starts_comment);
    comment.map_or(value, |(at, _)| &value[..at]).trim()
}

/// The words of a header, one space between them; a name may stand in quotes.
fn section_name(header: &str) -> String {
    let (kind, name) = header.trim().split_once(char::is_whitespace).unwrap_or((header.trim(), ""));
    let name = name.trim();
    let bare = ['"', '\''].iter().find_map(|quote| name.strip_prefix(*quote)?.strip_suffix(*quote));
    format!("{kind} {}", bare.unwrap_or(name)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn get(text: &str, section: &str, name: &str) -> Option<String> {
        Ini::parse(text).section(section)?.get(name).cloned()
    }

    #[test]
    fn settings_are_found_however_they_are_written() {
        let text = "\u{feff}; a comment\r\n[default] # ours\r\nREGION=eu-west-1 ; near\r\n\r\n[ profile  \"two words\" ]\n\
                    \tkey = a=b#c\n\tnext= x \n[profile plain]\nkey = first\nkey = last\nempty =\n";
        assert_eq!(get(text, "default", "region").as_deref(), Some("eu-west-1"));
        assert_eq!(get(text, "profile two words", "key").as_deref(), Some("a=b#c"));
        assert_eq!(get(text, "profile two words", "next").as_deref(), Some("x"));
        assert_eq!(get(text, "profile plain", "key").as_deref(), Some("last"));
        assert_eq!(get(text, "profile plain", "empty").as_deref(), Some(""));
        assert!(Ini::parse("[a]\n[b]").section("a").is_some());
    }

    #[test]
    fn deeper_lines_are_nested_settings_or_more_of_a_value() {
        let text = "[services local]\ns3 =\n  endpoint_url = http://host\n  # a comment\n  other = 1\nsts =\n endpoint_url = x\nlong = a\n  b = c\n";
        let at = |name| get(text, "services local", name);
        assert_eq!(at("s3.endpoint_url").as_deref(), Some("http://host"));
        assert_eq!(at("s3.other").as_deref(), Some("1"));
        assert_eq!(at("sts.endpoint_url").as_deref(), Some("x"));
        assert_eq!(at("long").as_deref(), Some("a\nb = c"));
        assert_eq!(at("endpoint_url"), None);
    }

    #[test]
    fn what_makes_no_sense_is_passed_over_and_belongs_to_no_other_section() {
        let text = "key = before any section\n[a]\nkey = 1\n[broken\nkey = 2\n=\n = 3\nwords\n[b]\nkey = 4";
        assert_eq!(get(text, "a", "key").as_deref(), Some("1"));
        assert_eq!(get(text, "b", "key").as_deref(), Some("4"));
        assert_eq!(get(text, "", "key"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic_and_holds_no_more_than_was_there(text in "[\\[\\]=#; \t\na-c\"é\u{feff}]{0,200}") {
            let read = Ini::parse(&text);
            let held: usize = read.0.values().flatten().map(|(_, value)| value.len()).sum();
            prop_assert!(held <= text.len());
        }
    }
}
