//! Settings as a file that can be read back, with where each value comes from.

use std::{collections::BTreeMap, path::Path};

use crate::{
    config::{Config, tier::TierConfig},
    environment::literal,
    settings::{setting::quoted, table, value_origin::ValueOrigin},
};

/// One line: what is set, and where it comes from.
struct PrintedLine {
    text: String,
    comment: String,
}

/// Prints a configuration and the origins of its values.
struct Printer<'a> {
    config: &'a Config,
    origins: &'a BTreeMap<String, ValueOrigin>,
    lines: Vec<PrintedLine>,
}

/// The configuration as TOML; `file` is the one that was read, and `origins` are those of its values.
pub(crate) fn toml(config: &Config, file: Option<&Path>, origins: &BTreeMap<String, ValueOrigin>) -> String {
    let mut printer = Printer { config, origins, lines: Vec::new() };
    let file = file.map_or_else(|| "none".to_owned(), |path| path.display().to_string());
    printer.plain(format!("# file: {}", one_line(&file)));
    printer.section("origin");
    for index in 0..config.tiers.len() {
        printer.tier(index);
    }
    for section in ["placement", "stage", "hdf5"] {
        printer.section(section);
    }
    aligned(printer.lines)
}

/// The lines, with their comments below each other.
fn aligned(lines: Vec<PrintedLine>) -> String {
    let commented = lines.iter().filter(|line| !line.comment.is_empty());
    let width = commented.map(|line| line.text.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for PrintedLine { text: set, comment } in lines {
        if comment.is_empty() {
            text += &set;
        } else {
            text += &format!("{set:<width$}  # {comment}");
        }
        text.push('\n');
    }
    text
}

impl Printer<'_> {
    fn section(&mut self, section: &str) {
        self.plain("");
        self.plain(format!("[{section}]"));
        for setting in table::of_section(section) {
            match (setting.toml)(self.config) {
                Some(value) => self.set(section, setting.key, &value),
                None => self.plain(format!("# {} is not set: {}", setting.key, setting.absent)),
            }
        }
    }

    fn tier(&mut self, index: usize) {
        let tier = &self.config.tiers[index];
        let section = format!("tier.{index}");
        self.plain("");
        self.plain("[[tier]]");
        self.set(&section, "kind", &quoted(tier.kind()));
        if let TierConfig::Disk(disk) = tier {
            self.set(&section, "path", &quoted(&literal(&disk.path.to_string_lossy())));
        }
        self.set(&section, "quota", &quoted(&tier.quota().to_string()));
        if let TierConfig::Disk(disk) = tier {
            self.set(&section, "keep", &disk.keep.to_string());
            match disk.free {
                Some(free) => self.set(&section, "free", &quoted(&free.to_string())),
                None => {
                    self.plain("# free is not set: 5% of the disk, at least 1GiB and at most 4GiB, stay free")
                }
            }
            if disk.network {
                self.set(&section, "network", "true");
            }
        }
    }

    /// A line that sets `key`, with where its value comes from.
    fn set(&mut self, section: &str, key: &str, value: &str) {
        let origin = self.origins.get(&format!("{section}.{key}")).unwrap_or(&ValueOrigin::Default);
        let comment = one_line(&origin.to_string());
        self.lines.push(PrintedLine { text: format!("{key} = {value}"), comment });
    }

    fn plain(&mut self, text: impl Into<String>) {
        self.lines.push(PrintedLine { text: text.into(), comment: String::new() });
    }
}

/// A comment ends with its line, so a file's name may not.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}
