//! Settings as a file that can be read back, with where each value comes from.

use toml::Value;

use super::{Settings, TierConfig, paths::literal};
use crate::size;

/// One line: what is set, and where it comes from.
struct Line {
    text: String,
    comment: String,
}

/// The settings as TOML.
pub(super) fn toml(settings: &Settings) -> String {
    let mut lines = Vec::new();
    head(settings, &mut lines);
    origin(settings, &mut lines);
    for index in 0..settings.config.tiers.len() {
        tier(settings, index, &mut lines);
    }
    placement(settings, &mut lines);
    let width =
        lines.iter().filter(|line| !line.comment.is_empty()).map(|line| line.text.chars().count()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    for Line { text: set, comment } in lines {
        if comment.is_empty() {
            text += &set;
        } else {
            text += &format!("{set:<width$}  # {comment}");
        }
        text.push('\n');
    }
    text
}

fn head(settings: &Settings, lines: &mut Vec<Line>) {
    let file = settings.file.as_ref().map(|path| path.display().to_string());
    let file = file.unwrap_or_else(|| "none".to_owned());
    lines.push(plain(format!("# file: {}", one_line(&file))));
}

fn origin(settings: &Settings, lines: &mut Vec<Line>) {
    lines.extend([plain(""), plain("[origin]")]);
    match &settings.config.origin.path {
        Some(path) => lines.push(set(settings, "origin", "path", &quoted(&literal(path)))),
        None => lines.push(plain("# path is not set: paths stand for themselves")),
    }
}

fn tier(settings: &Settings, index: usize, lines: &mut Vec<Line>) {
    let tier = &settings.config.tiers[index];
    let section = format!("tier.{index}");
    let line = |key: &str, value: &str| set(settings, &section, key, value);
    lines.extend([plain(""), plain("[[tier]]"), line("kind", &quoted(tier.kind()))]);
    if let TierConfig::Disk(disk) = tier {
        lines.push(line("path", &quoted(&literal(&disk.path.to_string_lossy()))));
    }
    lines.push(line("quota", &quoted(&tier.quota().to_string())));
    if let TierConfig::Disk(disk) = tier {
        lines.push(line("keep", &disk.keep.to_string()));
        match disk.free {
            Some(free) => lines.push(line("free", &quoted(&free.to_string()))),
            None => lines.push(plain("# free is not set: 5% of the disk, at least 1GiB, stay free")),
        }
        if disk.network {
            lines.push(line("network", "true"));
        }
    }
}

fn placement(settings: &Settings, lines: &mut Vec<Line>) {
    let placement = &settings.config.placement;
    let line = |key: &str, value: &str| set(settings, "placement", key, value);
    lines.extend([
        plain(""),
        plain("[placement]"),
        line("policy", &quoted(placement.policy.word())),
        line("threads", &placement.threads.to_string()),
        line("block", &quoted(&size::exact(placement.block))),
        line("whole_file", &placement.whole_file.to_string()),
        line("ahead", &quoted(&size::exact(placement.ahead))),
    ]);
}

fn set(settings: &Settings, section: &str, key: &str, value: &str) -> Line {
    let whence = settings.whence(&format!("{section}.{key}")).to_string();
    Line { text: format!("{key} = {value}"), comment: one_line(&whence) }
}

fn plain(text: impl Into<String>) -> Line {
    Line { text: text.into(), comment: String::new() }
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// A comment ends with its line, so a file's name may not.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}
