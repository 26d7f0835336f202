//! The text behind a connector's name: `config=FILE;under_vol=NUMBER;under_info={TEXT}`.

use std::path::PathBuf;

/// What such a text says. Cache VOL's own texts are understood; what is missing has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InfoText {
    /// The settings file (`config=`).
    pub config: Option<String>,
    /// The connector below (`under_vol=`), by its number or name.
    pub under: Option<String>,
    /// What the connector below is told (`under_info={…}`).
    pub under_info: String,
    /// Whether reads are cached (`cache=on|off`).
    pub cache: Option<bool>,
}

impl InfoText {
    /// Reads a text; parts that mean nothing here are passed over, as HDF5's own connectors do.
    pub fn parse(text: &str) -> Self {
        let mut info = Self::default();
        for part in parts(text) {
            let Some((name, value)) = part.split_once('=') else { continue };
            let value = value.trim();
            match name.trim() {
                "config" => info.config = Some(value.to_owned()),
                "under_vol" => info.under = Some(value.to_owned()),
                "under_info" => info.under_info = inside_braces(value).to_owned(),
                "cache" => info.cache = switch(value),
                _ => {}
            }
        }
        info
    }

    /// The text of a connector above `under`, a connector's number.
    pub fn compose(config: Option<&str>, cache: Option<bool>, under: i32, under_info: &str) -> String {
        let config = config.map_or_else(String::new, |file| format!("config={file};"));
        let cache = match cache {
            Some(true) => "cache=on;",
            Some(false) => "cache=off;",
            None => "",
        };
        format!("{config}{cache}under_vol={under};under_info={{{under_info}}}")
    }
}

/// `yes` or `no` in the words that users write.
pub fn switch(value: &str) -> Option<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// The settings file that the value of `HDF5_VOL_CONNECTOR` names.
pub fn named_file(connector: &str) -> Option<PathBuf> {
    let (_, info) = connector.trim().split_once(char::is_whitespace)?;
    InfoText::parse(info).config.map(PathBuf::from)
}

/// The parts between semicolons, of which those inside braces belong to the part that opened them.
fn parts(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ';' if depth == 0 => {
                found.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[from..].trim());
    found
}

fn inside_braces(value: &str) -> &str {
    value.strip_prefix('{').map_or(value, |inner| inner.strip_suffix('}').unwrap_or(inner)).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_said_means_the_native_connector_and_the_settings_of_the_environment() {
        assert_eq!(InfoText::parse(""), InfoText::default());
        assert_eq!(InfoText::parse(";; nonsense ;"), InfoText::default());
    }

    #[test]
    fn the_text_of_cache_vol_is_understood_with_what_is_below_it_in_braces() {
        let text = "config=cache.cfg;under_vol=512;under_info={under_vol=0;under_info={}};";
        let info = InfoText::parse(text);
        assert_eq!(info.config.as_deref(), Some("cache.cfg"));
        assert_eq!(info.under.as_deref(), Some("512"));
        assert_eq!(info.under_info, "under_vol=0;under_info={}");
        assert_eq!(InfoText::parse(&info.under_info).under.as_deref(), Some("0"));
    }

    #[test]
    fn a_text_that_was_composed_is_read_back() {
        let text = InfoText::compose(Some("a.cfg"), Some(false), 1, "under_vol=0;under_info={}");
        let info = InfoText::parse(&text);
        assert_eq!((info.config.as_deref(), info.cache), (Some("a.cfg"), Some(false)));
        assert_eq!(
            (info.under.as_deref(), info.under_info.as_str()),
            (Some("1"), "under_vol=0;under_info={}")
        );
        assert_eq!(InfoText::parse(&InfoText::compose(None, None, 0, "")).under.as_deref(), Some("0"));
    }

    #[test]
    fn braces_that_do_not_match_end_with_the_text() {
        assert_eq!(InfoText::parse("under_vol=0;under_info={a;b").under_info, "a;b");
        assert_eq!(InfoText::parse("under_info=}x}").under_info, "}x}");
    }
}
