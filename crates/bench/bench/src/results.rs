//! What a command leaves behind: the report of each run, and of all together.

use std::{
    fs,
    path::{Path, PathBuf},
};

use forebay::{Error, ErrorKind, Result};
use forebay_workload::{
    RunTimings,
    metrics::summarise,
    report::{self, ReportFile},
};

/// The file that a run is known by.
const REPORT: &str = "report.json";

/// Writes the reports of `runs` to `folder`: of one run there, of several in a folder for each and one page for all.
///
/// What an earlier command left there goes: of more ranks, or of other engines, it would be taken for results of this one.
pub(crate) fn write(runs: &[RunTimings], folder: &Path) -> Result<()> {
    if runs.is_empty() {
        return Ok(());
    }
    clear(folder)?;
    if let [run] = runs {
        return write_files(&report::files(run)?, folder);
    }
    folders_of_runs(folder)?.iter().filter(|run| is_of_engine(run)).try_for_each(|run| clear(run))?;
    for (number, run) in runs.iter().enumerate() {
        write_files(&report::files(run)?, &folder.join(run_name(runs, number)))?;
    }
    let summaries: Vec<_> = runs.iter().map(summarise).collect();
    write_file(folder, "report.html", &report::html(&summaries))
}

/// True for folders of the names that [`run_name`] gives.
fn is_of_engine(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let rest = ["hdf5", "forebay"].iter().find_map(|engine| name.strip_prefix(engine));
    rest.is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix('-').is_some_and(|number| number.parse::<usize>().is_ok())
    })
}

/// Removes the results of one run from `folder`, where there are some.
fn clear(folder: &Path) -> Result<()> {
    if !folder.join(REPORT).exists() {
        return Ok(());
    }
    let place = |error| Error::from_io(error).at(folder.display());
    for entry in fs::read_dir(folder).map_err(place)? {
        let entry = entry.map_err(place)?;
        if entry.file_name().to_str().is_some_and(is_of_a_run) {
            fs::remove_file(entry.path()).map_err(place)?;
        }
    }
    Ok(())
}

/// True for the names of reports: those of a rank have its number before them.
fn is_of_a_run(name: &str) -> bool {
    let of_rank = name.trim_start_matches(|letter: char| letter.is_ascii_digit());
    [REPORT, "report.html", "summary.json"].contains(&name)
        || of_rank != name && ["_per_epoch_stats.json", "_output.json"].contains(&of_rank)
}

/// The folders in `folder` that have results of a run, in order.
fn folders_of_runs(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| Error::from_io(error).at(folder.display()))?,
    };
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.join(REPORT).exists());
    folders.sort();
    Ok(folders)
}

/// The engine, with a number where a suite has several runs of it.
fn run_name(runs: &[RunTimings], number: usize) -> String {
    let engine = &runs[number].engine;
    engine_name(engine, runs[..number].iter().filter(|run| run.engine == *engine).count())
}

/// The engine of a run, with a number where there were runs of it `before`.
pub(crate) fn engine_name(engine: &str, before: usize) -> String {
    if before == 0 { engine.to_owned() } else { format!("{engine}-{}", before + 1) }
}

fn write_files(files: &[ReportFile], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| Error::from_io(error).at(folder.display()))?;
    files.iter().try_for_each(|file| write_file(folder, &file.name, &file.text))
}

/// Writes a file under a temporary name and moves it into place.
pub(crate) fn write_file(folder: &Path, name: &str, text: &str) -> Result<()> {
    let (part, whole) = (folder.join(format!(".{name}.part")), folder.join(name));
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &whole));
    written.map_err(|error| {
        let _ = fs::remove_file(&part);
        Error::from_io(error).at(whole.display())
    })
}

/// The runs whose reports lie at `path`: a folder of results, one that has a folder for each of several engines, or a `report.json`.
pub(crate) fn read_all(path: &Path) -> Result<Vec<RunTimings>> {
    if !path.is_dir() || path.join(REPORT).exists() {
        return read(path).map(|run| vec![run]);
    }
    let folders = folders_of_runs(path)?;
    match folders.is_empty() {
        true => read(path).map(|run| vec![run]),
        false => {
            let mut runs = folders.iter().map(|folder| read(folder)).collect::<Result<Vec<RunTimings>>>()?;
            // In the order in which engines were named.
            runs.sort_by(|one, two| one.started_unix_s.total_cmp(&two.started_unix_s));
            Ok(runs)
        }
    }
}

fn read(path: &Path) -> Result<RunTimings> {
    let file: PathBuf = if path.is_dir() { path.join(REPORT) } else { path.to_owned() };
    let text = fs::read_to_string(&file).map_err(|error| {
        let kind =
            if error.kind() == std::io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
        Error::new(kind, "no results of a run").at(file.display()).because(error)
    })?;
    report::read_json(&text).map_err(|error| error.at(file.display()))
}
