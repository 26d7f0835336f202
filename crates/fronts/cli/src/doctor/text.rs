//! The report for people.

use forebay::config::candidates::Suitability;

use super::report::Report;
use crate::{
    hdf5_env,
    output::{
        color::{Paint, TextRole},
        show,
    },
};

/// The report, line by line.
pub(super) fn lines(report: &Report, paint: Paint) -> Vec<String> {
    let mut lines = vec![format!("forebay {} on {}", report.version, show::visible(&report.machine.system))];
    for warning in &report.warnings {
        let what = show::message(&warning.what);
        lines.push(format!("{} {what}", paint.paint(TextRole::Fair, "warning:")));
        lines.push(format!("         {}", show::message(&warning.remedy)));
    }
    let sections = [
        ("machine", machine(report)),
        ("configuration", configuration(report)),
        ("places for copies", places(report)),
        ("data", paths(report)),
        ("system", system(report)),
        ("HDF5 plug-ins", plugins(report)),
    ];
    for (title, rows) in sections {
        if !rows.is_empty() {
            lines.extend([String::new(), paint.paint(TextRole::Name, title)]);
            lines.extend(aligned(&rows));
        }
    }
    lines
}

type TableRows = Vec<Vec<String>>;

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| show::message(cell)).collect()
}

fn machine(report: &Report) -> TableRows {
    let machine = &report.machine;
    let cores = if machine.cores == machine.cores_of_machine {
        format!("{}, all of the machine", machine.cores)
    } else {
        format!("{} of {}, limited by {}", machine.cores, machine.cores_of_machine, machine.cores_by)
    };
    let memory = format!(
        "{} for forebay, of {} that {} allows",
        show::size(machine.memory_budget_bytes),
        show::size(machine.memory_limit_bytes),
        machine.memory_limit_by
    );
    vec![row(&["cores", &cores]), row(&["memory", &memory])]
}

fn configuration(report: &Report) -> TableRows {
    let Some(settings) = &report.settings else { return vec![row(&["cannot be used"])] };
    let mut rows = vec![row(&["file", settings.file.as_deref().unwrap_or("none")])];
    if let Some(path) = &settings.config.origin.path {
        rows.push(row(&["origin", path]));
    }
    if report.tiers.is_empty() {
        rows.push(row(&["tiers", "none: files are read where they lie"]));
    }
    for (index, tier) in report.tiers.iter().enumerate() {
        let what = match tier.verdict {
            Suitability::Used => format!("{}: {}", tier.tier, show::size(tier.quota_bytes)),
            _ => format!("{}: not used, {}", tier.tier, tier.why),
        };
        rows.push(row(&[&format!("tier {}", index + 1), &what]));
    }
    let placement = &settings.config.placement;
    let threads = show::count(placement.threads, "thread", "threads");
    let policy = format!("{}, {threads}, blocks of {}", placement.policy.word(), show::size(placement.block));
    rows.push(row(&["policy", &policy]));
    rows
}

fn places(report: &Report) -> TableRows {
    let head = row(&["path", "device", "file system", "free", "a tier gets", "", "why"]);
    let mut rows = vec![head];
    for place in &report.places {
        let verdict = match place.verdict {
            Suitability::Used => "used",
            Suitability::Refused => "refused",
            Suitability::Suitable => "suitable",
            Suitability::Unfit => "no",
        };
        let quota = if place.quota_bytes > 0 { show::size(place.quota_bytes) } else { "-".to_owned() };
        rows.push(row(&[
            &place.path.display().to_string(),
            place.device.word(),
            place.file_system.as_deref().unwrap_or("unknown"),
            &show::size(place.free_bytes),
            &quota,
            verdict,
            &place.why,
        ]));
    }
    if rows.len() == 1 {
        rows = vec![row(&["none was found"])];
    }
    if let Some(tier) = &report.suggestion {
        rows.push(row(&[&format!("to use the best: --tier {tier}")]));
    }
    rows
}

fn paths(report: &Report) -> TableRows {
    let mut rows = Vec::new();
    for path in &report.paths {
        let near = path.near.map_or("", |near| if near { "near" } else { "far" });
        let device = path.device.map_or("", |device| device.word());
        let file_system = path.file_system.as_deref().unwrap_or("");
        let format = path.format.as_deref().unwrap_or("");
        rows.push(row(&[&path.path, near, device, file_system, format, &path.why]));
    }
    rows
}

fn system(report: &Report) -> TableRows {
    let kernel = &report.kernel;
    let yes_or_no = |is: bool, why: &str| format!("{}: {why}", if is { "yes" } else { "no" });
    let limit = |files: Option<u64>| files.map_or_else(|| "any number".to_owned(), |files| files.to_string());
    let files = format!(
        "{}, may be raised to {}, which forebay does",
        limit(kernel.open_files),
        limit(kernel.open_files_most)
    );
    let mut rows = vec![
        row(&["copies from mappings", &yes_or_no(kernel.mapping, kernel.mapping_why)]),
        row(&["mounting by FUSE", &yes_or_no(kernel.fuse, kernel.fuse_why)]),
        row(&["open files", &files]),
    ];
    for library in &report.libraries {
        let found = library.found.as_deref().or(library.why.as_deref()).unwrap_or("not found");
        rows.push(row(&[library.name, found]));
    }
    rows
}

fn plugins(report: &Report) -> TableRows {
    let plugins = &report.hdf5_plugins;
    let mut rows = Vec::new();
    if let Some(folder) = &plugins.folder {
        rows.push(row(&["folder", &folder.display().to_string()]));
    }
    if let Some(why) = &plugins.why {
        rows.push(row(&["not tried", why]));
    }
    if plugins.why.is_none() && plugins.libraries.is_empty() {
        rows.push(row(&["not tried", "no libhdf5 was found"]));
    }
    rows.extend(plugins.libraries.iter().map(|found| row(&["tried", &hdf5_env::line(found)])));
    rows
}

/// Columns side by side, indented; a row of one cell stands for itself.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().filter(|row| row.len() > 1).filter_map(|row| row.get(column));
        cells.map(|cell| unicode_width::UnicodeWidthStr::width(cell.as_str())).max().unwrap_or(0)
    };
    let line = |row: &Vec<String>| {
        let mut line = String::from(" ");
        for (column, cell) in row.iter().enumerate() {
            let len = unicode_width::UnicodeWidthStr::width(cell.as_str());
            let is_last = column + 1 == row.len();
            line += &format!(" {cell}{}", " ".repeat(if is_last { 0 } else { width(column) - len + 1 }));
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
