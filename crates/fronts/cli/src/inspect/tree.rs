//! A file's groups and variables drawn as a tree.

use std::collections::BTreeMap;

use crate::{
    inspect::{
        facts::{AttributeFacts, AttributeValue, InspectedFile, SHOWN_COUNT, VariableFacts},
        verdict::{RandomRowCost, Verdict},
    },
    output::{
        color::{Paint, TextRole},
        layout::WrappedLine,
        show,
    },
};

/// Longer types (enumerations, compounds) and attributes are cut; JSON has them whole.
const MOST_LETTERS: usize = 160;

/// How a tree is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawing {
    pub(crate) paint: Paint,
    /// Letters per line; `None` where the output is not a terminal.
    pub(crate) width: Option<usize>,
    pub(crate) with_attributes: bool,
}

/// One name in the tree: its own line, and what stands below it.
#[derive(Debug, Default)]
struct TreeEntry {
    title: WrappedLine,
    details: Vec<WrappedLine>,
}

impl Drawing {
    /// The file as lines of text.
    pub(crate) fn draw(&self, facts: &InspectedFile) -> Vec<String> {
        let mut lines = vec![header(facts).draw(("", "  "), self.width, self.paint)];
        let mut entries: BTreeMap<Vec<&str>, TreeEntry> = BTreeMap::new();
        for group in &facts.groups {
            let details = match facts.format.as_str() {
                // What is read from a table depends on what was guessed of it.
                "csv" => shown(&group.attributes),
                _ => self.attributes(&group.attributes),
            };
            if group.name.is_empty() {
                lines.extend(details.iter().map(|line| line.draw(("  ", "    "), self.width, self.paint)));
                continue;
            }
            let title = WrappedLine::default().with(TextRole::Group, format!("{}/", last(&group.name)));
            entries.insert(path(&group.name), TreeEntry { title, details });
        }
        for variable in &facts.variables {
            let mut details = details(variable);
            details.extend(self.attributes(&variable.attributes));
            entries.insert(path(&variable.name), TreeEntry { title: title(variable), details });
        }
        for alias in &facts.aliases {
            let title = WrappedLine::default()
                .with(TextRole::Name, last(&alias.name))
                .with(TextRole::Dim, "->")
                .with(TextRole::Plain, show::visible(&alias.target));
            entries.insert(path(&alias.name), TreeEntry { title, details: Vec::new() });
        }
        for refused in &facts.refused {
            let word = if refused.corrupt { "corrupt:" } else { "refused:" };
            let line = |line: WrappedLine| {
                line.with(TextRole::Bad, word).words(TextRole::Plain, &show::visible(&refused.why))
            };
            match entries.get_mut(&path(&refused.name)) {
                // Another thing of that name can be read.
                Some(other) => other.details.push(line(WrappedLine::default())),
                None => {
                    let title = line(WrappedLine::default().with(TextRole::Name, last(&refused.name)));
                    entries.insert(path(&refused.name), TreeEntry { title, details: Vec::new() });
                }
            }
        }
        add_missing_groups(&mut entries);
        lines.extend(self.branches(&entries));
        lines
    }

    /// The entries with the lines that join them, drawn from the last to the first: only what comes later says
    /// whether a line goes on.
    fn branches(&self, entries: &BTreeMap<Vec<&str>, TreeEntry>) -> Vec<String> {
        let mut drawn = Vec::with_capacity(entries.len());
        let mut goes_on: Vec<bool> = Vec::new();
        for (path, entry) in entries.iter().rev() {
            let depth = path.len() - 1;
            goes_on.resize(depth + 1, false);
            let bars: String = goes_on[..depth].iter().map(|on| if *on { "│  " } else { "   " }).collect();
            let (fork, below) = if goes_on[depth] { ("├─ ", "│  ") } else { ("└─ ", "   ") };
            goes_on[depth] = true;
            let [first, rest] = [fork, below].map(|end| format!("{bars}{end}"));
            let further = format!("{rest}  ");
            let mut text = entry.title.draw((&first, &further), self.width, self.paint);
            for detail in &entry.details {
                let line = detail.draw((&further, &format!("{further}  ")), self.width, self.paint);
                text.push('\n');
                text.push_str(&line);
            }
            drawn.push(text);
        }
        drawn.reverse();
        drawn
    }

    fn attributes(&self, attributes: &[AttributeFacts]) -> Vec<WrappedLine> {
        if self.with_attributes { shown(attributes) } else { Vec::new() }
    }
}

fn path(name: &str) -> Vec<&str> {
    name.split('/').collect()
}

fn last(name: &str) -> String {
    show::visible(name.rsplit('/').next().unwrap_or(name))
}

/// Groups that were left out but hold something that was not.
fn add_missing_groups(entries: &mut BTreeMap<Vec<&str>, TreeEntry>) {
    let parents: Vec<Vec<&str>> =
        entries.keys().flat_map(|path| (1..path.len()).map(|len| path[..len].to_vec())).collect();
    for parent in parents {
        let name = show::visible(parent.last().copied().unwrap_or_default());
        entries.entry(parent).or_insert_with(|| TreeEntry {
            title: WrappedLine::default().with(TextRole::Group, format!("{name}/")),
            details: Vec::new(),
        });
    }
}

fn shown(attributes: &[AttributeFacts]) -> Vec<WrappedLine> {
    attributes.iter().filter(|one| !one.is_internal).map(attribute).collect()
}

fn header(facts: &InspectedFile) -> WrappedLine {
    let groups = facts.groups.iter().filter(|group| !group.name.is_empty()).count();
    let mut counts = vec![
        facts.format.clone(),
        show::size(facts.bytes),
        show::count(groups, "group", "groups"),
        show::count(facts.variables.len(), "variable", "variables"),
    ];
    if !facts.aliases.is_empty() {
        counts.push(show::count(facts.aliases.len(), "alias", "aliases"));
    }
    if !facts.refused.is_empty() {
        counts.push(format!("{} refused", facts.refused.len()));
    }
    if facts.source_count > 1 {
        counts.push(format!("{} files", facts.source_count));
    }
    let line = WrappedLine::default()
        .with(TextRole::Name, format!("{}:", show::visible(&facts.file)))
        .words(TextRole::Plain, &counts.join(", "));
    match facts.swmr {
        true => line.words(TextRole::Bad, "(a SWMR writer has it open: this is how it is now)"),
        false => line,
    }
}

fn title(variable: &VariableFacts) -> WrappedLine {
    let lens = |shape: &[u64]| show::tuple(&shape.iter().map(u64::to_string).collect::<Vec<_>>());
    let mut line = WrappedLine::default()
        .with(TextRole::Name, last(&variable.name))
        .with(TextRole::Dtype, show::shortened(&show::visible(&variable.dtype), MOST_LETTERS))
        .with(TextRole::Plain, shape(variable));
    let can_grow = variable.max_shape.iter().zip(&variable.shape).any(|(most, len)| *most != Some(*len));
    if can_grow {
        let most = |len: &Option<u64>| len.map_or("inf".to_owned(), |len| len.to_string());
        let most: Vec<_> = variable.max_shape.iter().map(most).collect();
        line = line.with(TextRole::Dim, format!("of {}", show::tuple(&most)));
    }
    line = line.with(TextRole::Plain, variable.layout.clone());
    if let Some(chunks) = &variable.chunks {
        line = line
            .with(TextRole::Plain, lens(&chunks.shape))
            .with(TextRole::Dim, format!("{}/{} chunks", chunks.written_count, chunks.count));
    }
    if let Some(shards) = &variable.shards {
        line = line
            .with(TextRole::Plain, lens(&shards.shape))
            .with(TextRole::Dim, format!("{}/{} shards", shards.written_count, shards.count));
    }
    if variable.filters.is_empty() {
        line
    } else {
        line.with(TextRole::Plain, show::visible(&variable.filters.join(", ")))
    }
}

/// The length of each axis, after its name where it has one: `(time: 12, 64)`.
fn shape(variable: &VariableFacts) -> String {
    let lens = variable.shape.iter().enumerate().map(|(axis, len)| match variable.dimensions.get(axis) {
        Some(name) if !name.is_empty() => format!("{}: {len}", show::visible(name)),
        _ => len.to_string(),
    });
    let lens: Vec<String> = lens.collect();
    match (&lens[..], variable.dimensions.is_empty()) {
        // A comma tells a tuple of one from a number in brackets; a name does as well.
        ([one], false) => format!("({one})"),
        _ => show::tuple(&lens),
    }
}

fn details(variable: &VariableFacts) -> Vec<WrappedLine> {
    let mut lines = vec![sizes(variable)];
    if let Some(count) = variable.mapping_count {
        let text = format!("made of {} of other variables", show::count(count, "part", "parts"));
        lines.push(WrappedLine::default().words(TextRole::Plain, &text));
    }
    if let Some(count) = variable.block_count {
        let text = format!("written in {}", show::count(count, "block", "blocks"));
        lines.push(WrappedLine::default().words(TextRole::Plain, &text));
    }
    if let Some(library) = &variable.library {
        let why = show::visible(&library.why);
        lines.push(match &library.found {
            Some(found) => {
                let text = format!("left to {}, one read at a time: {why}", show::visible(found));
                WrappedLine::default().words(TextRole::Fair, &text)
            }
            None => WrappedLine::default()
                .with(TextRole::Bad, "unreadable:")
                .words(TextRole::Plain, &format!("{why}, and no {} was found", library.name)),
        });
    }
    if let Some(why) = &variable.unreadable {
        lines.push(
            WrappedLine::default()
                .with(TextRole::Bad, "unreadable:")
                .words(TextRole::Plain, &show::visible(why)),
        );
    }
    if let Some(row) = &variable.row {
        lines.push(cost(row));
        if let Some(hint) = &row.hint {
            lines.push(WrappedLine::default().with(TextRole::Fair, "hint:").words(TextRole::Plain, hint));
        }
    }
    lines
}

fn sizes(variable: &VariableFacts) -> WrappedLine {
    let logical = show::size(variable.logical_bytes);
    let text = match (variable.stored_bytes, variable.ratio) {
        (Some(stored), Some(ratio)) => format!("{logical}, stored in {} ({ratio:.1}x)", show::size(stored)),
        (Some(0), None) if variable.logical_bytes > 0 => format!("{logical}, never written"),
        (Some(stored), None) if stored > 0 => format!("{logical}, stored in {}", show::size(stored)),
        _ => logical,
    };
    WrappedLine::default().words(TextRole::Dim, &text)
}

fn cost(row: &RandomRowCost) -> WrappedLine {
    let role = match row.verdict {
        Verdict::Good => TextRole::Good,
        Verdict::Fair => TextRole::Fair,
        Verdict::Poor => TextRole::Bad,
    };
    let line = WrappedLine::default()
        .with(TextRole::Plain, "random access")
        .with(role, format!("{}:", row.verdict.word()));
    if row.kept {
        let once = show::size(row.read_bytes.max(row.decoded_bytes));
        return line.words(TextRole::Dim, &format!("so small that the {once} are decoded once and kept"));
    }
    let times = |bytes: u64, factor: f64| format!("{} ({factor:.1}x)", show::size(bytes));
    let mut text = format!(
        "a row of {} takes {} read",
        show::size(row.used_bytes),
        times(row.read_bytes, row.read_factor)
    );
    if row.decoded_bytes > 0 {
        text.push_str(&format!(", {} decoded", times(row.decoded_bytes, row.decode_factor)));
    }
    line.words(TextRole::Dim, &text)
}

fn attribute(attribute: &AttributeFacts) -> WrappedLine {
    let line = WrappedLine::default().with(TextRole::Dim, format!("@{}", show::visible(&attribute.name)));
    match &attribute.value {
        AttributeValue::Error { error } => {
            line.with(TextRole::Bad, "unreadable:").words(TextRole::Plain, &show::visible(error))
        }
        AttributeValue::Values { shape, shown, values, .. } => {
            let text = match (&shape[..], &shown[..]) {
                ([], [one]) => one.clone(),
                _ if values.len() > SHOWN_COUNT => {
                    format!("[{}, … {} in all]", shown.join(", "), values.len())
                }
                _ => format!("[{}]", shown.join(", ")),
            };
            line.with(TextRole::Dim, "=").words(TextRole::Plain, &show::shortened(&text, MOST_LETTERS))
        }
    }
}
