//! Checkpoints: files of the sizes that the workload says, written, synced, read back; through staged writes on request.

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use forebay::{
    Error, ErrorKind, Result,
    stage::{Area, AreaSettings, StageOptions},
};
use forebay_workload::{CheckpointFile, CheckpointTimings, RankPosition, TimeDistribution, checkpoint};
use serde_json::json;

use crate::rank_run::{RankRun, is_interruption};

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
        let start_s = self.clock.now_s();
        let saved = self.save(&checkpoint::folder(epoch, step))?;
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

    fn save(&mut self, name: &str) -> Result<CheckpointTimings> {
        let folder = self.folder(name);
        fs::create_dir_all(&folder).map_err(|error| Error::from_io(error).at(folder.display()))?;
        let area = self.stage_area()?;
        let mut timings = CheckpointTimings::default();
        for file in checkpoint::files(self.workload, self.at())? {
            let path = folder.join(&file.name);
            let is_random = self.workload.checkpoint.randomize_tensor;
            let written = match &area {
                Some(area) => write_staged(area, &path, &file, is_random),
                None => write_file(&path, &file, is_random, self.workload.checkpoint.fsync),
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
        if let Some(area) = &self.area {
            area.drain(&|_| std::ops::ControlFlow::Continue(()))?;
        }
        let mut bytes = 0;
        for file in checkpoint::files(self.workload, from)? {
            let path = self.folder(name).join(&file.name);
            bytes += read_file(&path, &file).map_err(|error| error.at(path.display()))?;
        }
        Ok(bytes)
    }
}

/// What tensors hold: noise, or zeros.
fn piece(is_random: bool) -> Vec<u8> {
    let mut piece = vec![0; PIECE];
    if is_random {
        crate::generate::RandomBytes::new(1, 1, 1.0).fill(&mut piece);
    }
    piece
}

/// Writes the tensors one after another under a temporary name, and gives the time of syncing.
fn write_file(path: &Path, file: &CheckpointFile, is_random: bool, fsync: bool) -> Result<Duration> {
    let part = path.with_extension("part");
    let write = || -> std::io::Result<Duration> {
        let mut out = File::create(&part)?;
        let piece = piece(is_random);
        let mut left = file.byte_len();
        while left > 0 {
            let len = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            out.write_all(&piece[..len])?;
            left -= len as u64;
        }
        let began = Instant::now();
        if fsync {
            out.sync_all()?;
        }
        fs::rename(&part, path)?;
        Ok(if fsync { began.elapsed() } else { Duration::ZERO })
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&part);
        Error::from_io(error)
    })
}

/// Writes the tensors to `area`, which moves them behind the training.
fn write_staged(area: &Arc<Area>, path: &Path, file: &CheckpointFile, is_random: bool) -> Result<Duration> {
    let staged = area.create(path, StageOptions::default())?;
    let piece = piece(is_random);
    let (mut offset, end) = (0, file.byte_len());
    while offset < end {
        let len = usize::try_from(end - offset).unwrap_or(PIECE).min(PIECE);
        staged.write_at(offset, &piece[..len])?;
        offset += len as u64;
    }
    let began = Instant::now();
    staged.seal()?;
    Ok(began.elapsed())
}

fn read_file(path: &Path, file: &CheckpointFile) -> Result<u64> {
    let mut from = File::open(path).map_err(Error::from_io)?;
    let (mut piece, mut bytes) = (vec![0; PIECE], 0);
    loop {
        match from.read(&mut piece).map_err(Error::from_io)? {
            0 => break,
            len => bytes += len as u64,
        }
    }
    if bytes != file.byte_len() {
        let what = format!("has {bytes} bytes, and its tensors have {}", file.byte_len());
        return Err(Error::new(ErrorKind::Corrupt, what).hint("it is of another model: save it anew"));
    }
    Ok(bytes)
}
