//! h5bench's files: how ranks are started, and a list of benchmarks of which the `dlio` entries are run here.

pub(super) mod measured;
mod training;

use forebay_process::{
    Error, ErrorKind, Result,
    suggest::{nearest, unknown},
};

use crate::{
    config::{
        node::{ConfigNode, FromNode, NodeValue},
        options::ConfigOptions,
        overrides,
        section::Section,
    },
    suite::{LustreStripes, MpiLaunch, Suite, UnsupportedEntry, VolChoice},
};

/// The benchmark of h5bench that is run here.
const DLIO: &str = "dlio";

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
    for (index, node) in entries.iter().enumerate() {
        let entry = Section::of(node, &format!("benchmarks[{index}]"))?;
        add_entry(&mut suite, entry, index + 1, options)?;
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

/// Adds the entry at position `number` to `suite`: its workload, or the name of the benchmark that is not run here.
fn add_entry(
    suite: &mut Suite,
    mut entry: Section<'_>,
    number: usize,
    options: &ConfigOptions,
) -> Result<()> {
    let mut benchmark = String::new();
    entry.set(&["benchmark"], &mut benchmark)?;
    if benchmark.is_empty() {
        return Err(entry.error("benchmark", "expected the name of a benchmark, got none"));
    }
    if benchmark != DLIO {
        // A slip such as `dilo` is not another benchmark of h5bench.
        if nearest(&benchmark, &[DLIO]).is_some() {
            return Err(unknown("benchmark", &benchmark, &[DLIO]));
        }
        suite.unsupported.push(UnsupportedEntry { number, benchmark });
        return Ok(());
    }
    let configuration = entry.child(&["configuration"])?;
    suite.workloads.push(training::workload(configuration, options, &mut suite.notes)?);
    entry.ignore(&["file"], &mut suite.notes);
    entry.finish()
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
