//! A whole run: the ranks agree on a clock, do their phases, and rank 0 gathers what all recorded.

use std::{
    fs::{self, File},
    io::{self, IsTerminal, Write},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::{Duration, Instant},
};

use forebay::{
    Error, ErrorKind, Origins, Result,
    store::{Comm, Wait},
    tier::Tiered,
};
use forebay_workload::{Mt19937, RankTimings, RunTimings, Workload};

use crate::{
    dataset_files,
    interruption::is_interruption,
    phases::generation_record,
    progress::ProgressView,
    ranks::{
        clock::{RunClock, unix_now_s},
        digest::SampleDigest,
        host,
        rank_run::{RankRun, RunOptions},
    },
    reading::subfiling,
    trace::TraceFile,
};

/// What a run works with besides its options.
pub(crate) struct RunPlace<'a> {
    pub(crate) origins: &'a Origins,
    /// The tiers that they are read through.
    pub(crate) tiers: Option<&'a Tiered>,
    pub(crate) progress: ProgressView,
    pub(crate) comm: &'a dyn Comm,
    pub(crate) is_interrupted: &'a (dyn Fn() -> bool + Sync),
    /// Where results go: interrupted ranks leave theirs here for rank 0.
    pub(crate) folder: &'a Path,
    /// Where the trace goes.
    pub(crate) trace: Option<&'a Path>,
    /// Whether the files of the data set are removed at the end.
    pub(crate) removes_files: bool,
}

/// What a run came to.
#[derive(Debug, Default)]
pub(crate) struct RunOutcome {
    /// On rank 0, what all ranks recorded, and what samples were read with: of a run that failed, what was done before.
    pub(crate) recorded: Option<(RunTimings, String)>,
    /// Why the run ended early, unless that was an interrupt.
    pub(crate) failed: Option<Error>,
    /// What could not be written besides the results.
    pub(crate) not_written: Option<Error>,
}

/// Runs `workload` on this rank.
pub(crate) fn run(workload: &Workload, options: &RunOptions, place: &RunPlace<'_>) -> Result<RunOutcome> {
    let (began, cpu_before_s) = (Instant::now(), host::cpu_s());
    let wait = Wait::while_ranks_live();
    let started = place.comm.broadcast(0, unix_now_s().to_le_bytes().to_vec(), &wait)?;
    let started = <[u8; 8]>::try_from(started).map(f64::from_le_bytes);
    let started_unix_s = started.map_err(|_| Error::new(ErrorKind::Bug, "rank 0 has no time"))?;
    let clock = RunClock::since(started_unix_s);
    let number = u32::try_from(place.comm.rank()).unwrap_or(u32::MAX);
    // One that an earlier run left too late is none of this one's.
    let _ = fs::remove_file(left_by(place, place.comm.rank()));
    let trace = place.trace.map(|path| TraceFile::create(path, number, started_unix_s)).transpose()?;
    let mut rank = RankRun {
        workload,
        options,
        origins: place.origins,
        tiers: place.tiers,
        progress: place.progress,
        comm: place.comm,
        is_interrupted: place.is_interrupted,
        has_agreed_to_end: AtomicBool::new(false),
        is_training_over: Arc::default(),
        clock,
        trace,
        random: Mt19937::seeded(workload.train.seed.wrapping_add(number)),
        timings: RankTimings { rank: number, host: host::facts(), ..RankTimings::default() },
        reads_with: String::new(),
        digest: options.digest.then(SampleDigest::default),
        area: None,
    };
    let done = phases(&mut rank, place.removes_files);
    let is_complete = done.is_ok() && !rank.is_over();
    // An error of the trace is reported after the results are written.
    let traced = rank.trace.take().map_or(Ok(()), |trace| trace.finish().map(drop));
    let not_written = traced.and_then(|()| check_log(options, number)).err();
    let failed = done.err().filter(|error| !is_interruption(error) && !rank.is_over());
    rank.timings.cpu_s = host::cpu_s() - cpu_before_s;
    if let Some(digest) = rank.digest.filter(|_| is_complete) {
        rank.reads_with.push_str(&format!(", digest {}", digest.of_all(place.comm)?));
    }
    let gathered = match &failed {
        Some(_) if !has_results(&rank.timings) => None,
        // The error is reported, whatever becomes of the results.
        Some(_) => gather(rank.timings.clone(), false, place).unwrap_or_default(),
        None => gather(rank.timings.clone(), is_complete, place)?,
    };
    let timings = gathered.map(|ranks| RunTimings {
        workload: workload.clone(),
        engine: options.engine.as_str().to_owned(),
        started_unix_s,
        wall_s: began.elapsed().as_secs_f64(),
        complete: is_complete,
        ranks,
    });
    Ok(RunOutcome { recorded: timings.map(|timings| (timings, rank.reads_with)), failed, not_written })
}

/// True when a rank has measured something.
fn has_results(timings: &RankTimings) -> bool {
    let mut blocks = timings.epochs.iter().flat_map(|epoch| &epoch.blocks);
    blocks.any(|block| !block.steps.is_empty()) || !timings.checkpoints.is_empty()
}

/// An error where there is no room for the records of HDF5's Log VFD: neither libhdf5 nor a sink of records says so.
fn check_log(options: &RunOptions, rank: u32) -> Result<()> {
    let Some(path) = options.environment.of_rank(rank, 1).of_worker(0).log_vfd else { return Ok(()) };
    let place = |error| Error::from_io(error).at(path.display());
    let full = || place(io::ErrorKind::StorageFull.into()).hint("records are missing in it");
    // Where nothing was read there are no records; a pipe has a reader of its own.
    let Ok(kind) = fs::metadata(&path).map(|metadata| metadata.file_type()) else { return Ok(()) };
    if !kind.is_file() && !kind.is_char_device() {
        return Ok(());
    }
    let mut file = File::options().append(true).open(&path).map_err(place)?;
    if file.is_terminal() {
        return Ok(());
    }
    let len = file.metadata().map_err(place)?.len();
    // About what the driver writes at once: what has room for it now had room before.
    let written = file.write_all(&[b'\n'; 4096]);
    let restored = if kind.is_file() { file.set_len(len) } else { Ok(()) };
    match written {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Err(full()),
        written => written.and(restored).map_err(place),
    }
}

fn phases(rank: &mut RankRun<'_>, removes_files: bool) -> Result<()> {
    let phases = rank.workload.phases;
    if phases.generate {
        rank.generate()?;
    }
    rank.barrier()?;
    match (phases.train, phases.checkpoint) {
        (true, _) => rank.train()?,
        (false, true) => rank.checkpoint_alone()?,
        (false, false) => {}
    }
    if let Some(area) = rank.area.take() {
        let is_over = || rank.is_over();
        area.drain(&|_| {
            if is_over() { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
        })?;
        area.close()?;
    }
    if removes_files && !rank.is_over() {
        rank.barrier()?;
        remove_files(rank)?;
    }
    Ok(())
}

/// Removes the files of the data set that this rank generates, with their indexes.
fn remove_files(rank: &RankRun<'_>) -> Result<()> {
    let (at, folder) = (rank.at(), dataset_files::data_folder(rank.workload));
    if at.rank == 0 {
        generation_record::forget(&folder, rank.workload)?;
    }
    let setup = dataset_files::generate_setup(rank.workload)?;
    for file in dataset_files::generated(rank.workload) {
        if forebay_workload::layout::generator_of(file.number, at.ranks) != at.rank {
            continue;
        }
        let removed = if rank.workload.hdf5.subfiling {
            subfiling::remove(&file.path)
        } else if file.path.is_dir() {
            fs::remove_dir_all(&file.path)
        } else {
            setup.indexes_of(&file.path).iter().for_each(|index| drop(fs::remove_file(index)));
            fs::remove_file(&file.path)
        };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::from_io(error).at(file.path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What all ranks recorded, on rank 0.
fn gather(mine: RankTimings, is_complete: bool, place: &RunPlace<'_>) -> Result<Option<Vec<RankTimings>>> {
    let comm = place.comm;
    if comm.size() == 1 {
        return Ok(Some(vec![mine]));
    }
    if !is_complete {
        return gather_files(mine, place);
    }
    let encoded = serde_json::to_vec(&mine)
        .map_err(|error| Error::new(ErrorKind::Bug, "timings cannot be encoded").because(error))?;
    let all = comm.all_gather(encoded, &Wait::while_ranks_live())?;
    if comm.rank() != 0 {
        return Ok(None);
    }
    let decode = |bytes: &Vec<u8>| {
        serde_json::from_slice(bytes)
            .map_err(|error| Error::corrupt("timings of a rank cannot be decoded").because(error))
    };
    all.iter().map(decode).collect::<Result<_>>().map(Some)
}

/// Where an interrupted rank leaves what it recorded.
fn left_by(place: &RunPlace<'_>, rank: usize) -> PathBuf {
    place.folder.join(format!(".interrupted-{rank}.json"))
}

/// How long rank 0 waits for what interrupted ranks recorded.
const PATIENCE: Duration = Duration::from_secs(3);

/// The same after an interrupt, when ranks may have left any collective call: by files in the folder of results.
fn gather_files(mine: RankTimings, place: &RunPlace<'_>) -> Result<Option<Vec<RankTimings>>> {
    let path = |rank: usize| left_by(place, rank);
    if place.comm.rank() != 0 {
        let encoded = serde_json::to_vec(&mine).unwrap_or_default();
        let (part, whole) = (path(place.comm.rank()).with_extension("part"), path(place.comm.rank()));
        let _ = fs::create_dir_all(place.folder);
        let written = fs::write(&part, encoded).and_then(|()| fs::rename(&part, &whole));
        written.map_err(|error| Error::from_io(error).at(whole.display()))?;
        return Ok(None);
    }
    let until = Instant::now() + PATIENCE;
    let mut ranks = vec![mine];
    for rank in 1..place.comm.size() {
        while !path(rank).exists() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        let read = fs::read(path(rank)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        ranks.extend(read);
        let _ = fs::remove_file(path(rank));
    }
    Ok(Some(ranks))
}
