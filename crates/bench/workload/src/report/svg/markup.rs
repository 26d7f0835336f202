//! Text that is safe in a page, and legends.

/// How many colours the style sheet has for series.
pub(in crate::report) const COLOURS: usize = 8;

/// `text` as it may stand in HTML and SVG.
pub(in crate::report) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are not allowed in a document, whatever a file was called.
            _ if letter.is_control() && letter != '\n' => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}

/// The legend of a plot, where it has more than one entry.
pub(in crate::report) fn legend(entries: &[(usize, &str)]) -> String {
    if entries.len() < 2 {
        return String::new();
    }
    let items = entries.iter().map(|(colour, name)| {
        format!("<li><span class=\"key c{}\"></span>{}</li>", colour % COLOURS, escaped(name))
    });
    format!("<ul class=\"legend\">{}</ul>", items.collect::<String>())
}
