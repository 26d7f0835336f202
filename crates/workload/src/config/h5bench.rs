//! h5bench's files: how ranks are started, and a list of benchmarks of which `dlio`, `write` and `read` are run here.

mod kernel;
pub(super) mod measured;
mod training;

use forebay_source::{Error, ErrorKind, Result, suggest::unknown};

use crate::{
    config::{
        node::{ConfigNode, FromNode, NodeValue},
        options::ConfigOptions,
        overrides,
        section::Section,
    },
    suite::{LustreStripes, MpiLaunch, Suite, Task, VolChoice},
};

const BENCHMARKS: [&str; 3] = ["dlio", "write", "read"];

/// Those that h5bench has and that are not run here.
const OTHERS: [&str; 10] = [
    "write-unlimited",
    "overwrite",
    "append",
    "write_var_normal_dist",
    "metadata",
    "exerciser",
    "amrex",
    "openpmd",
    "e3sm",
    "macsio",
];

/// The suite of an h5bench file; overrides change the configuration of every benchmark.
pub(super) fn suite(tree: &mut ConfigNode, options: &ConfigOptions) -> Result<Suite> {
    let mut suite = Suite { is_h5bench: true, ..Suite::default() };
    if let NodeValue::List(entries) = &mut tree.entry("benchmarks").value {
        for entry in entries {
            overrides::apply(entry.entry("configuration"), &options.overrides)?;
        }
    }
    let mut top = Section::of(tree, "")?;
    suite.mpi = mpi(top.child(&["mpi"])?)?;
    suite.vol = vol(top.child(&["vol"])?)?;
    suite.stripes = stripes(top.child(&["file-system"])?)?;
    note_launch(&mut suite);
    top.set(&["directory"], &mut suite.directory)?;
    let Some((_, benchmarks)) = top.node(&["benchmarks"]) else { return top.finish().map(|()| suite) };
    let NodeValue::List(entries) = &benchmarks.value else {
        return Err(Error::new(ErrorKind::Invalid, "benchmarks: a list is meant here"));
    };
    for (number, entry) in entries.iter().enumerate() {
        let task = task(Section::of(entry, &format!("benchmarks[{number}]"))?, options, &mut suite.notes)?;
        suite.tasks.push(task);
    }
    top.ignore(&["metrics", "name", "description"], &mut suite.notes);
    top.finish()?;
    Ok(suite)
}

/// Says what of the launch is the user's own to do.
fn note_launch(suite: &mut Suite) {
    if suite.mpi.as_ref().is_some_and(|mpi| !mpi.command.is_empty() || mpi.arguments.is_some()) {
        let what = "mpi.command and mpi.configuration have no effect here but for the count of ranks (-np): ranks are processes of this node, or those of mpirun";
        suite.notes.push(what.to_owned());
    }
    if suite.stripes.is_some() {
        let what = "file-system.lustre has no effect here: set the stripes of the folder by lfs setstripe";
        suite.notes.push(what.to_owned());
    }
}

fn task(mut entry: Section<'_>, options: &ConfigOptions, notes: &mut Vec<String>) -> Result<Task> {
    let mut name = String::new();
    entry.set(&["benchmark"], &mut name)?;
    let mut file = None;
    entry.set(&["file"], &mut file)?;
    let configuration = entry.child(&["configuration"])?;
    let task = match &*name {
        "dlio" => Task::Training(Box::new(training::workload(configuration, options, notes)?)),
        "write" | "read" => Task::Kernel(Box::new(kernel::kernel(&name, configuration, file)?)),
        _ if OTHERS.contains(&&*name) => {
            let what = format!(
                "benchmark '{name}' of h5bench is not run here; those that are: {}",
                BENCHMARKS.join(", ")
            );
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        _ => return Err(unknown("benchmark", &name, &BENCHMARKS)),
    };
    entry.finish()?;
    Ok(task)
}

fn mpi(mut section: Section<'_>) -> Result<Option<MpiLaunch>> {
    if section.entries().is_empty() {
        return Ok(None);
    }
    let mut launch = MpiLaunch::default();
    section.set(&["command"], &mut launch.command)?;
    section.set(&["ranks"], &mut launch.ranks)?;
    section.set(&["configuration"], &mut launch.arguments)?;
    if launch.ranks.is_none() {
        launch.ranks = launch.arguments.as_deref().and_then(ranks_of);
    }
    section.finish()?;
    Ok(Some(launch))
}

/// The ranks that arguments of a launcher ask for: `-np 4`, `-n4`, `--ntasks=4`.
fn ranks_of(arguments: &str) -> Option<u32> {
    let mut words = arguments.split_whitespace();
    while let Some(word) = words.next() {
        let options = ["--ntasks", "-np", "-n"];
        let Some(option) = options.into_iter().find(|option| word.starts_with(option)) else { continue };
        let value = word[option.len()..].trim_start_matches('=');
        let value = if value.is_empty() { words.next()? } else { value };
        if let Ok(ranks) = value.parse() {
            return Some(ranks);
        }
    }
    None
}

fn vol(mut section: Section<'_>) -> Result<Option<VolChoice>> {
    if section.entries().is_empty() {
        return Ok(None);
    }
    let mut choice = VolChoice::default();
    section.set(&["library"], &mut choice.library)?;
    section.set(&["path"], &mut choice.path)?;
    section.set(&["connector"], &mut choice.connector)?;
    section.set(&["preload"], &mut choice.preload)?;
    section.finish()?;
    Ok(Some(choice))
}

fn stripes(mut section: Section<'_>) -> Result<Option<LustreStripes>> {
    let mut lustre = section.child(&["lustre"])?;
    let mut stripes = LustreStripes::default();
    if let Some((_, node)) = lustre.node(&["stripe-size"]) {
        stripes.stripe_bytes = Some(u64::from_node(node)?);
    }
    lustre.set(&["stripe-count"], &mut stripes.stripe_count)?;
    lustre.finish()?;
    section.finish()?;
    Ok((stripes != LustreStripes::default()).then_some(stripes))
}
