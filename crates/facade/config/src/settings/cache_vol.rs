//! The settings of HDF5's Cache VOL: the keys of its `.cfg` file and its variables, as settings of ours.
//!
//! | Cache VOL | forebay |
//! |---|---|
//! | `HDF5_CACHE_STORAGE_PATH`, `HDF5_CACHE_STORAGE_TYPE` | `stage.path` and `hdf5.cache` |
//! | `HDF5_CACHE_STORAGE_SIZE` | `hdf5.cache_quota`, less the write buffer |
//! | `HDF5_CACHE_WRITE_BUFFER_SIZE` | `stage.quota` |
//! | `HDF5_CACHE_STORAGE_SCOPE` | `hdf5.scope` |
//! | `HDF5_CACHE_REPLACEMENT_POLICY` | `hdf5.cache_policy` |
//! | `HDF5_CACHE_FUSION_THRESHOLD` | nothing: adjacent writes are always merged |
//! | `HDF5_CACHE_WR`, `HDF5_CACHE_RD` | `hdf5.write`, `hdf5.read`; all files are managed where no `hdf5.paths` are set |

use std::{
    fs,
    path::{Path, PathBuf},
};

use forebay_process::{Error, ErrorKind, Result, size, suggest::unknown};

use crate::{
    environment::{Environment, literal},
    settings::{given::GivenValue, layers::Layers, table, value_origin::ValueOrigin},
};

const SCOPE: &str = "HDF5_CACHE_STORAGE_SCOPE";
const PATH: &str = "HDF5_CACHE_STORAGE_PATH";
const SIZE: &str = "HDF5_CACHE_STORAGE_SIZE";
const TYPE: &str = "HDF5_CACHE_STORAGE_TYPE";
const BUFFER: &str = "HDF5_CACHE_WRITE_BUFFER_SIZE";
const POLICY: &str = "HDF5_CACHE_REPLACEMENT_POLICY";
const FUSION: &str = "HDF5_CACHE_FUSION_THRESHOLD";
const READ: &str = "HDF5_CACHE_RD";
const WRITE: &str = "HDF5_CACHE_WR";

/// The keys of a file.
const KEYS: [&str; 7] = [SCOPE, PATH, SIZE, TYPE, BUFFER, POLICY, FUSION];
/// The types of storage, but for the one that is refused.
const TYPES: [&str; 3] = ["SSD", "BURST_BUFFER", "MEMORY"];

/// A value that was given for one of Cache VOL's keys.
#[derive(Debug)]
struct CacheVolValue {
    key: &'static str,
    text: String,
    origin: ValueOrigin,
}

/// What was given for Cache VOL's keys, in one place.
#[derive(Debug, Default)]
struct CacheVolLayer {
    values: Vec<CacheVolValue>,
}

/// Puts what the `.cfg` file at `path` says below what is in `layers`.
pub(crate) fn add_file(path: &Path, environment: &Environment<'_>, layers: &mut Layers) -> Result<()> {
    let path = environment.folder.join(path);
    let text = fs::read_to_string(&path).map_err(|error| Error::from_io(error).at(path.display()))?;
    let layer = CacheVolLayer::of_file(&text, &path).map_err(|error| error.at(path.display()))?;
    layer.add(environment, layers)
}

/// Puts what the variables say below what is in `layers`.
pub(crate) fn add_environment(environment: &Environment<'_>, layers: &mut Layers) -> Result<()> {
    let all = KEYS.into_iter().chain([READ, WRITE]);
    let values = all.filter_map(|key| {
        Some(CacheVolValue { key, text: environment.get(key)?, origin: ValueOrigin::Variable(key) })
    });
    CacheVolLayer { values: values.collect() }.add(environment, layers)
}

/// Where one of the switches is on and nobody said which files are meant, all are, as Cache VOL has it; a switch that is
/// not set is off then.
pub(crate) fn finish(environment: &Environment<'_>, layers: &mut Layers) -> Result<()> {
    let switches = [(READ, "hdf5.read"), (WRITE, "hdf5.write")];
    let is_on = |key: &str| {
        environment.get(key).is_some_and(|text| GivenValue::Text(&text).boolean().is_ok_and(|is_on| is_on))
    };
    let Some((on, _)) = switches.into_iter().find(|(key, _)| is_on(key)) else { return Ok(()) };
    if layers.origins.contains_key("hdf5.paths") {
        return Ok(());
    }
    let origin = ValueOrigin::Variable(on);
    set("hdf5.paths", "/", &origin, environment, layers)?;
    for (_, name) in switches {
        set(name, "off", &origin, environment, layers)?;
    }
    Ok(())
}

impl CacheVolLayer {
    /// Lines of `KEY: value`, or `KEY value` as older versions have it; what follows a `#` is a comment.
    fn of_file(text: &str, path: &Path) -> Result<Self> {
        let mut values = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let at = |error: Error| error.at(format!("line {}", index + 1));
            let (key, value) =
                line.split_once(|letter: char| letter == ':' || letter.is_whitespace()).ok_or_else(|| {
                    at(Error::new(ErrorKind::Invalid, format!("no value after '{line}'"))
                        .hint("write KEY: value"))
                })?;
            let known = KEYS.into_iter().find(|known| *known == key.trim());
            let key = known.ok_or_else(|| at(unknown("key", key.trim(), &KEYS)))?;
            let value = value.trim_start_matches([':', ' ', '\t']).trim();
            let origin = ValueOrigin::File { path: path.to_owned(), line: index + 1 };
            values.push(CacheVolValue { key, text: value.to_owned(), origin });
        }
        Ok(Self { values })
    }

    fn get(&self, key: &str) -> Option<&CacheVolValue> {
        self.values.iter().find(|value| value.key == key)
    }

    fn add(&self, environment: &Environment<'_>, layers: &mut Layers) -> Result<()> {
        let mut put = |name: &str, text: &str, value: &CacheVolValue| {
            set(name, text, &value.origin, environment, layers).map_err(|error| value.place(error))
        };
        if let Some((place, value)) = self.place(environment)? {
            put("stage.path", &place, value)?;
            put("hdf5.cache", &place, value)?;
        }
        let size = self.bytes(SIZE)?;
        let buffer = self.bytes(BUFFER)?;
        if let Some((bytes, value)) = buffer {
            put("stage.quota", &size::exact(bytes), value)?;
        }
        if let Some((bytes, value)) = size {
            let buffer = buffer.map_or(0, |(bytes, _)| bytes);
            let left = bytes.checked_sub(buffer).ok_or_else(|| {
                let what = format!("{bytes} bytes are less than the {buffer} of {BUFFER}");
                value.place(Error::new(ErrorKind::Invalid, what).hint("make the write buffer smaller"))
            })?;
            put("hdf5.cache_quota", &size::exact(left), value)?;
        }
        for (key, name) in [(SCOPE, "hdf5.scope"), (POLICY, "hdf5.cache_policy")] {
            if let Some(value) = self.get(key) {
                put(name, &value.text.to_ascii_lowercase(), value)?;
            }
        }
        for (key, name) in [(READ, "hdf5.read"), (WRITE, "hdf5.write")] {
            if let Some(value) = self.get(key) {
                put(name, &value.text, value)?;
            }
        }
        // It is checked, and has nothing to decide here.
        self.bytes(FUSION).map(|_| ())
    }

    /// The place that path and type name, and which of the two says so.
    fn place(&self, environment: &Environment<'_>) -> Result<Option<(String, &CacheVolValue)>> {
        if let Some(value) = self.get(TYPE) {
            match value.text.as_str() {
                "MEMORY" => return Ok(Some(("memory".to_owned(), value))),
                "GPU" => {
                    let what = "storage of type GPU is not supported: copies are kept in memory or on disks";
                    let error = Error::new(ErrorKind::Unsupported, what);
                    return Err(value.place(error.hint("set it to MEMORY, SSD or BURST_BUFFER")));
                }
                known if TYPES.contains(&known) => {}
                other => return Err(value.place(unknown("type of storage", other, &TYPES))),
            }
        }
        let value = self.get(PATH).filter(|value| value.text != "NULL");
        Ok(value.map(|value| {
            // As Cache VOL reads it: letter by letter, and counted from the working directory.
            let path: PathBuf = environment.folder.join(&value.text);
            (literal(&path.to_string_lossy()), value)
        }))
    }

    /// The bytes given for `key`: a number as C reads it, such as `1e9`, or a size such as `4GiB`.
    fn bytes(&self, key: &str) -> Result<Option<(u64, &CacheVolValue)>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.text.parse::<f64>().ok().filter(|number| (0.0..1e18).contains(number));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was looked at"
        )]
        let bytes = match number {
            // A whole number beyond 2^53 is not one that a float holds.
            Some(number) => value.text.parse().unwrap_or(number as u64),
            None => {
                size::parse(&value.text).map_err(|what| value.place(Error::new(ErrorKind::Invalid, what)))?
            }
        };
        Ok(Some((bytes, value)))
    }
}

impl CacheVolValue {
    /// `error`, with where the value stands.
    fn place(&self, error: Error) -> Error {
        match &self.origin {
            ValueOrigin::File { path, line } => {
                error.at(self.key).at(format!("line {line}")).at(path.display())
            }
            _ => error.at(self.key),
        }
    }
}

/// Puts `text` in force as the setting called `name`, unless a layer above has set it.
fn set(
    name: &str,
    text: &str,
    origin: &ValueOrigin,
    environment: &Environment<'_>,
    layers: &mut Layers,
) -> Result<()> {
    let setting = table::named(name).expect("the names above stand in the table");
    layers.set(setting, GivenValue::Text(text), origin.clone(), environment)
}
