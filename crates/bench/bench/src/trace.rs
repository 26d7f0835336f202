//! A trace of a run in DFTracer's form: one JSON object for each line, compressed, which Perfetto opens too.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use forebay::{Error, Result};
use serde_json::{Map, Value, json};

/// A trace in the making: it has its name only when it is whole.
pub(crate) struct TraceFile {
    out: GzEncoder<BufWriter<File>>,
    path: PathBuf,
    part: PartFile,
    process: u32,
    started_unix_s: f64,
    count: u64,
    /// The first error of writing, reported at the end.
    failed: Option<std::io::Error>,
}

impl std::fmt::Debug for TraceFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "trace at {}", self.path.display())
    }
}

/// A file under a temporary name, which goes with this.
struct PartFile(PathBuf);

impl Drop for PartFile {
    fn drop(&mut self) {
        // Where it was moved there is none.
        let _ = fs::remove_file(&self.0);
    }
}

/// Something that took time.
#[derive(Debug)]
pub(crate) struct TraceEvent<'a> {
    /// What was done, such as `read_sample`.
    pub(crate) name: &'a str,
    /// The part of the program, such as `reader`.
    pub(crate) category: &'a str,
    /// The worker, from 1; 0 for the rank itself.
    pub(crate) worker: u32,
    /// When it began, in seconds since the start of the run.
    pub(crate) start_s: f64,
    /// How long it took.
    pub(crate) took_s: f64,
    /// What else is known.
    pub(crate) arguments: Map<String, Value>,
}

impl TraceFile {
    /// A new trace of `rank` at `path`; those of other ranks than 0 have their number in the name.
    pub(crate) fn create(path: &Path, rank: u32, started_unix_s: f64) -> Result<Self> {
        let path = of_rank(path, rank);
        let mut part = OsString::from(&path);
        part.push(".part");
        let part = PartFile(part.into());
        let file = File::create(&part.0).map_err(|error| Error::from_io(error).at(path.display()))?;
        let mut out = GzEncoder::new(BufWriter::new(file), Compression::fast());
        let failed = out.write_all(b"[\n").err();
        Ok(Self { out, path, part, process: std::process::id(), started_unix_s, count: 0, failed })
    }

    /// Adds an event.
    pub(crate) fn add(&mut self, event: TraceEvent<'_>) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times end long before")]
        let micros = |seconds: f64| (seconds * 1e6).round() as u64;
        let line = json!({
            "id": self.count, "name": event.name, "cat": event.category, "pid": self.process,
            "tid": self.process + event.worker, "ts": micros(self.started_unix_s + event.start_s),
            "dur": micros(event.took_s), "ph": "X", "args": event.arguments,
        });
        self.count += 1;
        let written = writeln!(self.out, "{line}");
        self.failed = self.failed.take().or(written.err());
    }

    /// Ends the trace: all of it is in the file.
    pub(crate) fn finish(mut self) -> Result<PathBuf> {
        let place = |error| Error::from_io(error).at(self.path.display());
        if let Some(error) = self.failed.take() {
            return Err(place(error));
        }
        self.out.write_all(b"]\n").map_err(place)?;
        let out = self.out.finish().map_err(place)?;
        out.into_inner().map_err(|error| place(error.into_error()))?;
        fs::rename(&self.part.0, &self.path).map_err(place)?;
        Ok(self.path)
    }
}

/// `out.pfw.gz` of rank 0, `out-3.pfw.gz` of rank 3.
fn of_rank(path: &Path, rank: u32) -> PathBuf {
    if rank == 0 { path.to_owned() } else { with_part(path, &rank.to_string()) }
}

/// `out-hdf5.pfw.gz` for `out.pfw.gz` and `hdf5`.
pub(crate) fn with_part(path: &Path, part: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (stem, rest) = name.split_once('.').unwrap_or((&name, ""));
    path.with_file_name(if rest.is_empty() {
        format!("{stem}-{part}")
    } else {
        format!("{stem}-{part}.{rest}")
    })
}

/// What an event is known by besides.
pub(crate) fn arguments(values: Value) -> Map<String, Value> {
    match values {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn every_line_of_a_trace_is_an_event_and_ranks_have_files_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let mut trace = TraceFile::create(&folder.path().join("out.pfw.gz"), 3, 1_000.0).unwrap();
        let arguments = arguments(json!({ "epoch": 1 }));
        trace.add(TraceEvent {
            name: "compute",
            category: "train",
            worker: 0,
            start_s: 0.5,
            took_s: 0.25,
            arguments,
        });
        assert!(!folder.path().join("out-3.pfw.gz").exists(), "it has its name only when it is whole");
        let path = trace.finish().unwrap();
        assert_eq!(path, folder.path().join("out-3.pfw.gz"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let mut text = String::new();
        flate2::read::GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[2], lines.len()), ("[", "]", 3));
        let event: Value = serde_json::from_str(lines[1]).unwrap();
        assert_eq!(
            (&event["name"], &event["ts"], &event["dur"]),
            (&json!("compute"), &json!(1_000_500_000), &json!(250_000))
        );
        assert_eq!(event["args"]["epoch"], 1);
    }

    #[test]
    fn a_trace_that_cannot_be_written_has_no_name_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pfw.gz");
        let mut trace = TraceFile::create(&path, 0, 0.0).unwrap();
        trace.failed = Some(std::io::ErrorKind::StorageFull.into());
        let error = trace.finish().unwrap_err();
        assert!(error.to_string().contains("out.pfw.gz"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
