//! From TOML to a layer, with the line of every value.

use std::{collections::BTreeMap, path::Path};

use forebay_source::{Error, ErrorKind, Result};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Amount, DISK_QUOTA, DiskTier, MEMORY_QUOTA, Surroundings, TierConfig, Whence,
    find::Text,
    layer::{Layer, Told, ToldTier, block, origin, thread_count},
    tier::{KINDS, folder, without_path},
    words::unknown,
};
use crate::size;

/// What the file tells; a relative origin is one below the file's folder.
pub(super) fn read(file: &Text, surroundings: &Surroundings<'_>) -> Result<Layer> {
    let beside = file.path.parent().unwrap_or(Path::new("/")).to_owned();
    let reader =
        Reader { file, surroundings: &Surroundings { variable: surroundings.variable, folder: beside } };
    reader.layer().map_err(|error| error.at(file.path.display()))
}

/// Reads one file.
struct Reader<'a> {
    file: &'a Text,
    surroundings: &'a Surroundings<'a>,
}

/// A table of the file, and what it is called.
struct Section<'a> {
    reader: &'a Reader<'a>,
    name: &'static str,
    table: &'a DeTable<'a>,
}

/// A value, and where it stands.
struct Item<'a> {
    value: &'a DeValue<'a>,
    line: usize,
    key: &'static str,
    section: &'static str,
}

impl Reader<'_> {
    fn layer(&self) -> Result<Layer> {
        let document = DeTable::parse(&self.file.text).map_err(|error| {
            let line = error.span().map_or(1, |span| self.line(span.start));
            Error::new(ErrorKind::Invalid, error.message().trim().replace('\n', ", ")).at(at_line(line))
        })?;
        let root = Section { reader: self, name: "", table: document.get_ref() };
        root.check_keys(&["origin", "tier", "placement"])?;
        let mut layer = Layer::default();
        if let Some(item) = root.get("origin") {
            let section = self.section("[origin]", item.table()?);
            section.check_keys(&["path"])?;
            layer.origin = section.told("path", |item| origin(item.text()?, self.surroundings))?;
        }
        if let Some(item) = root.get("placement") {
            self.placement(item.table()?, &mut layer)?;
        }
        if let Some(item) = root.get("tier") {
            layer.tiers = Some(self.tiers(&item)?);
        }
        Ok(layer)
    }

    fn placement(&self, table: &DeTable<'_>, layer: &mut Layer) -> Result<()> {
        let section = self.section("[placement]", table);
        section.check_keys(&["policy", "threads", "block", "whole_file", "ahead"])?;
        layer.policy = section.told("policy", |item| item.text()?.parse())?;
        layer.threads = section
            .told("threads", |item| thread_count(usize::try_from(item.whole()?).unwrap_or(usize::MAX)))?;
        layer.block = section.told("block", |item| block(item.bytes()?))?;
        layer.whole_file = section.told("whole_file", Item::boolean)?;
        layer.ahead = section.told("ahead", Item::bytes)?;
        Ok(())
    }

    fn tiers(&self, item: &Item<'_>) -> Result<Vec<ToldTier>> {
        let DeValue::Array(tables) = item.value else {
            return Err(item.place(item.wrong("a list of tables, each under [[tier]],")));
        };
        let one = |value: &Spanned<DeValue<'_>>| {
            let line = self.line(value.span().start);
            let item = Item { value: value.get_ref(), line, key: "tier", section: "" };
            let section = self.section("[[tier]]", item.table()?);
            section.tier(line)
        };
        tables.iter().map(one).collect()
    }

    fn section<'a>(&'a self, name: &'static str, table: &'a DeTable<'a>) -> Section<'a> {
        Section { reader: self, name, table }
    }

    fn line(&self, offset: usize) -> usize {
        self.file.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }
}

impl<'a> Section<'a> {
    /// Nothing but `known` may stand in the table.
    fn check_keys(&self, known: &[&str]) -> Result<()> {
        let stray = self.table.keys().find(|key| !known.contains(&key.get_ref().as_ref()));
        let Some(stray) = stray else { return Ok(()) };
        let error = unknown("key", stray.get_ref(), known);
        let error = if self.name.is_empty() { error } else { error.at(self.name) };
        Err(error.at(at_line(self.reader.line(stray.span().start))))
    }

    fn get(&self, key: &'static str) -> Option<Item<'a>> {
        let (name, value) = self.table.iter().find(|(name, _)| name.get_ref() == key)?;
        // A table's own span may begin behind its name.
        let line = self.reader.line(name.span().start);
        Some(Item { value: value.get_ref(), line, key, section: self.name })
    }

    fn told<T>(&self, key: &'static str, read: impl Fn(&Item<'a>) -> Result<T>) -> Result<Option<Told<T>>> {
        let Some(item) = self.get(key) else { return Ok(None) };
        let value = read(&item).map_err(|error| item.place(error))?;
        let whence = Whence::File { path: self.reader.file.path.clone(), line: item.line };
        Ok(Some(Told { value, whence }))
    }

    /// The tier whose table begins at `line`.
    fn tier(&self, line: usize) -> Result<ToldTier> {
        let mut whences = BTreeMap::new();
        let kind = self.noted("kind", &mut whences, |item| {
            let word = item.text()?;
            KINDS.into_iter().find(|kind| *kind == word).ok_or_else(|| unknown("kind", word, &KINDS))
        })?;
        // A path says enough.
        let kind = kind.or_else(|| self.get("path").map(|_| "disk"));
        let Some(kind) = kind else {
            let error = Error::new(ErrorKind::Invalid, "a tier needs a kind").hint("it is memory or disk");
            return Err(error.at(self.name).at(at_line(line)));
        };
        if kind == "memory" {
            self.check_memory_keys()?;
            let quota = self.noted("quota", &mut whences, Item::amount)?.unwrap_or(MEMORY_QUOTA);
            return Ok(ToldTier { tier: TierConfig::Memory { quota }, whences });
        }
        self.check_keys(&["kind", "path", "quota", "keep", "free", "network"])?;
        let path = self.noted("path", &mut whences, |item| folder(item.text()?, self.reader.surroundings))?;
        let path = path.ok_or_else(|| without_path().at(self.name).at(at_line(line)))?;
        let tier = TierConfig::Disk(DiskTier {
            path,
            quota: self.noted("quota", &mut whences, Item::amount)?.unwrap_or(DISK_QUOTA),
            keep: self.noted("keep", &mut whences, Item::boolean)?.unwrap_or(false),
            free: self.noted("free", &mut whences, Item::amount)?,
            network: self.noted("network", &mut whences, Item::boolean)?.unwrap_or(false),
        });
        Ok(ToldTier { tier, whences })
    }

    fn check_memory_keys(&self) -> Result<()> {
        for key in ["path", "keep", "free", "network"] {
            if let Some(item) = self.get(key) {
                let error = Error::new(ErrorKind::Invalid, "a memory tier has no such key");
                return Err(item.place(error.hint("leave it out, or make the tier a disk")));
            }
        }
        self.check_keys(&["kind", "quota"])
    }

    fn noted<T>(
        &self,
        key: &'static str,
        whences: &mut BTreeMap<&'static str, Whence>,
        read: impl Fn(&Item<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(Told { value, whence }) = self.told(key, read)? else { return Ok(None) };
        whences.insert(key, whence);
        Ok(Some(value))
    }
}

impl<'a> Item<'a> {
    fn table(&self) -> Result<&'a DeTable<'a>> {
        match self.value {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.place(self.wrong("a table"))),
        }
    }

    fn text(&self) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.wrong("text in quotes"))
    }

    fn boolean(&self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    fn whole(&self) -> Result<u64> {
        let number = self.value.as_integer();
        let number = number.and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
        number.ok_or_else(|| self.wrong("a whole number from 0 up"))
    }

    fn bytes(&self) -> Result<u64> {
        match self.value {
            DeValue::String(text) => size::parse(text).map_err(|what| Error::new(ErrorKind::Invalid, what)),
            DeValue::Integer(_) => self.whole(),
            _ => Err(self.wrong("a size such as \"64MiB\" or 1048576")),
        }
    }

    fn amount(&self) -> Result<Amount> {
        match self.value {
            DeValue::String(text) => text.parse(),
            DeValue::Integer(_) => self.whole().map(Amount::Bytes),
            _ => Err(self.wrong("a size such as \"64MiB\" or 1048576, or a share such as \"50%\"")),
        }
    }

    fn wrong(&self, wanted: &str) -> Error {
        let found = self.value.type_str();
        let article = if found.starts_with(['a', 'i']) { "an" } else { "a" };
        Error::new(ErrorKind::Invalid, format!("{wanted} is wanted here, not {article} {found}"))
    }

    /// `error`, with where the value stands.
    fn place(&self, error: Error) -> Error {
        error.at(format!("{} {}", self.section, self.key).trim()).at(at_line(self.line))
    }
}

fn at_line(line: usize) -> String {
    format!("line {line}")
}
