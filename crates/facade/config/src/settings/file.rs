//! From TOML to values, with the line of each.

use std::{collections::BTreeMap, path::Path};

use forebay_process::{Error, ErrorKind, Result, suggest::unknown};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    config::tier::{DISK_QUOTA, DiskConfig, KINDS, MEMORY_QUOTA, TierConfig, folder, without_path},
    environment::Environment,
    settings::{
        find::Text,
        given::{GivenValue, wrong},
        layers::{Layers, TierSetting},
        table,
        value_origin::ValueOrigin,
    },
};

/// Puts what the file says below what is in `layers`; a relative origin lies in the file's folder.
pub(crate) fn read(file: &Text, environment: &Environment<'_>, layers: &mut Layers) -> Result<()> {
    let folder = file.path.parent().unwrap_or(Path::new("/")).to_owned();
    let reader = ConfigReader { file, environment: &Environment { variable: environment.variable, folder } };
    reader.read(layers).map_err(|error| error.at(file.path.display()))
}

/// Reads one file.
struct ConfigReader<'a> {
    file: &'a Text,
    environment: &'a Environment<'a>,
}

/// A table of the file, and what it is called.
struct ConfigSection<'a> {
    reader: &'a ConfigReader<'a>,
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

/// The tables of settings of one value, with their names in messages.
const SECTIONS: [(&str, &str); 4] =
    [("origin", "[origin]"), ("placement", "[placement]"), ("stage", "[stage]"), ("hdf5", "[hdf5]")];

impl ConfigReader<'_> {
    fn read(&self, layers: &mut Layers) -> Result<()> {
        let document = DeTable::parse(&self.file.text).map_err(|error| {
            let line = error.span().map_or(1, |span| self.line(span.start));
            Error::new(ErrorKind::Invalid, error.message().trim().replace('\n', ", ")).at(at_line(line))
        })?;
        let root = ConfigSection { reader: self, name: "", table: document.get_ref() };
        root.check_keys(&["origin", "tier", "placement", "stage", "hdf5"])?;
        for (key, name) in SECTIONS {
            if let Some(item) = root.get(key) {
                self.settings(&self.section(name, item.table()?), key, layers)?;
            }
        }
        if let Some(item) = root.get("tier") {
            layers.set_tiers(self.tiers(&item)?);
        }
        Ok(())
    }

    /// The settings of one value that `section` has.
    fn settings(&self, section: &ConfigSection<'_>, key: &str, layers: &mut Layers) -> Result<()> {
        section.check_keys(&table::of_section(key).map(|setting| setting.key).collect::<Vec<_>>())?;
        for setting in table::of_section(key) {
            let Some(item) = section.get(setting.key) else { continue };
            let set =
                layers.set(setting, GivenValue::Toml(item.value), self.origin(item.line), self.environment);
            set.map_err(|error| item.place(error))?;
        }
        Ok(())
    }

    fn tiers(&self, item: &Item<'_>) -> Result<Vec<TierSetting>> {
        let DeValue::Array(tables) = item.value else {
            return Err(item.place(wrong(item.value, "a list of tables, each under [[tier]],")));
        };
        let one = |value: &Spanned<DeValue<'_>>| {
            let line = self.line(value.span().start);
            let item = Item { value: value.get_ref(), line, key: "tier", section: "" };
            self.section("[[tier]]", item.table()?).tier(line)
        };
        tables.iter().map(one).collect()
    }

    fn section<'a>(&'a self, name: &'static str, table: &'a DeTable<'a>) -> ConfigSection<'a> {
        ConfigSection { reader: self, name, table }
    }

    fn origin(&self, line: usize) -> ValueOrigin {
        ValueOrigin::File { path: self.file.path.clone(), line }
    }

    fn line(&self, offset: usize) -> usize {
        self.file.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }
}

impl<'a> ConfigSection<'a> {
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

    /// The tier whose table begins at `line`.
    fn tier(&self, line: usize) -> Result<TierSetting> {
        let mut origins = BTreeMap::new();
        let kind = self.value("kind", &mut origins, |given| {
            let word = given.text()?;
            KINDS.into_iter().find(|kind| *kind == word).ok_or_else(|| unknown("kind", word, &KINDS))
        })?;
        // A path says enough.
        let kind = kind.or_else(|| self.get("path").map(|_| "disk"));
        let Some(kind) = kind else {
            let error =
                Error::new(ErrorKind::Invalid, "a tier needs a kind").hint("it is memory, disk or peers");
            return Err(error.at(self.name).at(at_line(line)));
        };
        if kind != "disk" {
            self.check_memory_keys(kind)?;
            let quota = self.value("quota", &mut origins, GivenValue::amount)?.unwrap_or(MEMORY_QUOTA);
            let is_peers = kind == "peers";
            let tier = if is_peers { TierConfig::Peers { quota } } else { TierConfig::Memory { quota } };
            return Ok(TierSetting { tier, origins });
        }
        self.check_keys(&["kind", "path", "quota", "keep", "free", "network"])?;
        let path =
            self.value("path", &mut origins, |given| folder(given.text()?, self.reader.environment))?;
        let path = path.ok_or_else(|| without_path().at(self.name).at(at_line(line)))?;
        let tier = TierConfig::Disk(DiskConfig {
            path,
            quota: self.value("quota", &mut origins, GivenValue::amount)?.unwrap_or(DISK_QUOTA),
            keep: self.value("keep", &mut origins, GivenValue::boolean)?.unwrap_or(false),
            free: self.value("free", &mut origins, GivenValue::amount)?,
            network: self.value("network", &mut origins, GivenValue::boolean)?.unwrap_or(false),
        });
        Ok(TierSetting { tier, origins })
    }

    fn check_memory_keys(&self, kind: &str) -> Result<()> {
        for key in ["path", "keep", "free", "network"] {
            if let Some(item) = self.get(key) {
                let error = Error::new(ErrorKind::Invalid, format!("a {kind} tier has no such key"));
                return Err(item.place(error.hint("leave it out, or make the tier a disk")));
            }
        }
        self.check_keys(&["kind", "quota"])
    }

    /// The value called `key`, if there is one; its line goes into `origins`.
    fn value<T>(
        &self,
        key: &'static str,
        origins: &mut BTreeMap<&'static str, ValueOrigin>,
        read: impl Fn(GivenValue<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(item) = self.get(key) else { return Ok(None) };
        let value = read(GivenValue::Toml(item.value)).map_err(|error| item.place(error))?;
        origins.insert(key, self.reader.origin(item.line));
        Ok(Some(value))
    }
}

impl<'a> Item<'a> {
    fn table(&self) -> Result<&'a DeTable<'a>> {
        match self.value {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.place(wrong(self.value, "a table"))),
        }
    }

    /// `error`, with where the value stands.
    fn place(&self, error: Error) -> Error {
        error.at(format!("{} {}", self.section, self.key).trim()).at(at_line(self.line))
    }
}

fn at_line(line: usize) -> String {
    format!("line {line}")
}
