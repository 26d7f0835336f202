//! Checkpoints: files of the sizes that the workload says, written, synced, read back; through staged writes on request.

use std::{
    fs::{self, File},
    io::{Read, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use forebay::{
    Error, Result,
    stage::{Area, AreaSettings, StageOptions},
};
use forebay_workload::{
    CheckpointFile, CheckpointTimings, RankPosition, TimeDistribution, checkpoint,
    torch_archive::{self, TensorFill, TorchArchive},
};
use serde_json::json;

use crate::{interruption::is_interruption, progress::PhaseBar, ranks::rank_run::RankRun};

/// Tensors are written and read in pieces of this length.
const PIECE: usize = 8 << 20;

impl RankRun<'_> {
    /// Saves a checkpoint of this rank, and adds what it took to `timings`.
    pub(crate) fn checkpoint(
        &mut self,
        epoch: u32,
        step: u64,
        timings: &mut Vec<CheckpointTimings>,
    ) -> Result<()> {
        // What tensors hold is there before they are saved.
        let fill = tensor_fill(self.workload.checkpoint.randomize_tensor);
        let start_s = self.clock.now_s();
        let saved = self.save(&checkpoint::folder(epoch, step), &fill)?;
        let end_s = self.clock.now_s();
        let step_number = u32::try_from(step).unwrap_or(u32::MAX);
        let made = CheckpointTimings { is_load: false, step: step_number, start_s, end_s, ..saved };
        timings.push(made);
        self.trace_span(
            "save_checkpoint",
            "checkpoint",
            start_s,
            json!({ "epoch": epoch, "step": step, "size": made.bytes }),
        );
        if self.workload.checkpoint.rank_sync {
            self.barrier()?;
        }
        Ok(())
    }

    /// Saves and loads checkpoints without training; an interrupt ends it early, and is no error.
    pub(crate) fn checkpoint_alone(&mut self) -> Result<()> {
        let mut timings = Vec::new();
        let done = self.save_and_load(&mut timings);
        self.timings.checkpoints = timings;
        match done {
            Err(error) if is_interruption(&error) || self.is_over() => Ok(()),
            done => done,
        }
    }

    fn save_and_load(&mut self, timings: &mut Vec<CheckpointTimings>) -> Result<()> {
        let spec = self.workload.checkpoint.clone();
        let pause = TimeDistribution::Fixed { mean: spec.time_between_s.max(0.0) };
        for number in 1..=spec.writes {
            self.compute(pause);
            self.barrier()?;
            self.check()?;
            self.checkpoint(1, u64::from(number), timings)?;
        }
        for number in 1..=spec.reads {
            self.compute(pause);
            self.barrier()?;
            self.check()?;
            self.drain_checkpoints()?;
            let start_s = self.clock.now_s();
            // A run that only reads takes what an earlier one wrote, one after another.
            let step = if spec.writes > 0 { (number - 1) % spec.writes + 1 } else { number };
            let bytes = self.load(&checkpoint::folder(1, u64::from(step)))?;
            let end_s = self.clock.now_s();
            timings.push(CheckpointTimings { is_load: true, step, start_s, end_s, bytes, fsync_s: 0.0 });
            self.trace_span("load_checkpoint", "checkpoint", start_s, json!({ "step": step, "size": bytes }));
            if spec.rank_sync {
                self.barrier()?;
            }
        }
        Ok(())
    }

    fn folder(&self, name: &str) -> PathBuf {
        Path::new(&self.workload.storage.root).join(&self.workload.checkpoint.folder).join(name)
    }

    fn save(&mut self, name: &str, fill: &TensorFill) -> Result<CheckpointTimings> {
        let folder = self.folder(name);
        fs::create_dir_all(&folder).map_err(|error| Error::from_io(error).at(folder.display()))?;
        let area = self.stage_area()?;
        let mut timings = CheckpointTimings::default();
        let files = checkpoint::files(self.workload, self.at())?;
        let bar = self.progress.checkpoint(files.iter().map(CheckpointFile::byte_len).sum(), "save");
        for file in files {
            self.check()?;
            let path = folder.join(&file.name);
            let archive = TorchArchive::new(&file, fill)?;
            let writing = ArchiveWriting { path: &path, archive: &archive, fill };
            let written = match &area {
                Some(area) => writing.to_area(area, &|len| self.go_on(&bar, len)),
                None => writing.to_file(self.workload.checkpoint.fsync, &|len| self.go_on(&bar, len)),
            };
            let fsync = written.map_err(|error| error.at(path.display()))?;
            timings.fsync_s += fsync.as_secs_f64();
            timings.bytes += file.byte_len();
        }
        Ok(timings)
    }

    /// The staging area that checkpoints go through, if they do.
    fn stage_area(&mut self) -> Result<Option<Arc<Area>>> {
        if !self.workload.checkpoint.staged && self.options.stage.is_none() {
            return Ok(None);
        }
        if self.area.is_none() {
            let folder = self.options.stage.clone().ok_or_else(|| {
                Error::invalid("checkpoints are to be staged, and no folder is named")
                    .hint("name a folder on a fast disk: --stage /nvme/$USER")
            })?;
            self.area = Some(Area::open(AreaSettings::folder(folder))?);
        }
        Ok(self.area.clone())
    }

    /// Reads all files of this rank back, and gives their bytes.
    fn load(&mut self, name: &str) -> Result<u64> {
        let at = self.at();
        // As if the job had come back on other nodes: what a node has in memory does not help it.
        let shifted = RankPosition { rank: (at.rank + 1) % at.ranks.max(1), ..at };
        let from = if self.workload.checkpoint.recovery_rank_shift { shifted } else { at };
        let mut bytes = 0;
        let files = checkpoint::files(self.workload, from)?;
        let bar = self.progress.checkpoint(files.iter().map(CheckpointFile::byte_len).sum(), "load");
        for file in files {
            let path = self.folder(name).join(&file.name);
            read_file(&path, &file, &|len| self.go_on(&bar, len))
                .map_err(|error| error.at(path.display()))?;
            bytes += file.byte_len();
        }
        Ok(bytes)
    }

    /// Shows that `len` more bytes are on their way; an error when the user wants an end.
    fn go_on(&self, bar: &PhaseBar, len: usize) -> Result<()> {
        bar.add(len as u64);
        self.check()
    }

    /// Waits until staged checkpoints are where they belong: only then can they be loaded.
    fn drain_checkpoints(&self) -> Result<()> {
        let Some(area) = &self.area else { return Ok(()) };
        area.drain(&|_| if self.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })?;
        self.check()
    }
}

/// What tensors hold: noise, or zeros.
fn tensor_fill(is_random: bool) -> TensorFill {
    let mut piece = vec![0; PIECE];
    if is_random {
        crate::generate::RandomBytes::new((1, 1), 1.0, 0).fill(&mut piece);
    }
    TensorFill::new(piece)
}

/// A checkpoint file on its way.
struct ArchiveWriting<'a> {
    path: &'a Path,
    archive: &'a TorchArchive,
    fill: &'a TensorFill,
}

impl ArchiveWriting<'_> {
    /// Writes the file under a temporary name and moves it into place; gives the time of syncing.
    fn to_file(&self, fsync: bool, go_on: &dyn Fn(usize) -> Result<()>) -> Result<Duration> {
        let part = self.path.with_extension("part");
        let write = || -> Result<Duration> {
            let mut out = File::create(&part).map_err(Error::from_io)?;
            self.archive.write(self.fill, |bytes| {
                go_on(bytes.len())?;
                out.write_all(bytes).map_err(Error::from_io)
            })?;
            let began = Instant::now();
            if fsync {
                out.sync_all().map_err(Error::from_io)?;
            }
            let took = if fsync { began.elapsed() } else { Duration::ZERO };
            fs::rename(&part, self.path).map_err(Error::from_io)?;
            Ok(took)
        };
        write().inspect_err(|_| {
            // Half of a checkpoint is worth nothing, and may take the room that is missing.
            let _ = fs::remove_file(&part);
        })
    }

    /// Writes the file to `area`, which moves it behind the training; gives the time of sealing.
    fn to_area(&self, area: &Arc<Area>, go_on: &dyn Fn(usize) -> Result<()>) -> Result<Duration> {
        let staged = area.create(self.path, StageOptions::default())?;
        let mut offset = 0;
        self.archive.write(self.fill, |bytes| {
            go_on(bytes.len())?;
            staged.write_at(offset, bytes)?;
            offset += bytes.len() as u64;
            Ok(())
        })?;
        let began = Instant::now();
        staged.seal()?;
        Ok(began.elapsed())
    }
}

/// Reads all of a checkpoint file.
fn read_file(path: &Path, file: &CheckpointFile, go_on: &dyn Fn(usize) -> Result<()>) -> Result<()> {
    let mut from = File::open(path).map_err(Error::from_io)?;
    let len = from.metadata().map_err(Error::from_io)?.len();
    let (mut piece, mut first, mut last) = (vec![0; PIECE], Vec::new(), Vec::new());
    let mut seen = 0;
    loop {
        let count = from.read(&mut piece).map_err(Error::from_io)?;
        go_on(count)?;
        if count == 0 {
            break;
        }
        if first.is_empty() {
            first.extend_from_slice(&piece[..count.min(END)]);
        }
        last.extend_from_slice(&piece[count.saturating_sub(END)..count]);
        last.drain(..last.len().saturating_sub(END));
        seen += count as u64;
    }
    torch_archive::check(file, seen.min(len), &first, &last)
}

/// Bytes of a file's start and end that are looked at.
const END: usize = 64;
