//! Where a run is, kept in a file.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::PathBuf,
    time::{Duration, Instant},
};

use forebay::{
    Error, ErrorKind, Loader, Result,
    plan::{LoaderState, Resumed, StateCheck},
};

use crate::partial_file::PartialFile;

/// A run that is killed loses about this much.
const INTERVAL: Duration = Duration::from_secs(1);

/// A state is a few hundred bytes; what is longer is none, and a device may have no end.
const MOST_BYTES: u64 = 64 << 10;

/// What is done about a file that is no state.
const ANEW: &str = "name another file, or remove it to begin anew";

/// A file that always holds where a run was a short while ago; it is the JSON of [`LoaderState`].
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    saved: Instant,
}

impl StateFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, saved: Instant::now() }
    }

    /// Lets `loader` go on from the file; false when there is none.
    pub(crate) fn resume(&self, loader: &Loader) -> Result<bool> {
        let place = |error| Error::from_io(error).at(self.path.display());
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(place)?,
        };
        let mut text = String::new();
        match file.take(MOST_BYTES).read_to_string(&mut text) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(self.no_state(error)),
            read => read.map_err(place)?,
        };
        let state = LoaderState::from_json(&text).map_err(|error| match error.kind() {
            ErrorKind::Invalid => error.hint(ANEW).at(self.path.display()),
            _ => error.at(self.path.display()),
        })?;
        let loaded = loader.load_state(&state, StateCheck::Strict);
        if loaded.map_err(|error| error.at(self.path.display()))? == Resumed::OtherFiles {
            let path = self.path.display();
            let _ = writeln!(
                io::stderr(),
                "warning: {path}: taken of files with other times of modification, such as copies"
            );
        }
        Ok(true)
    }

    fn no_state(&self, why: impl std::error::Error + Send + Sync + 'static) -> Error {
        let error = Error::new(ErrorKind::Invalid, "is not the state of a run").because(why);
        error.hint(ANEW).at(self.path.display())
    }

    /// True when it was not saved for a while.
    pub(crate) fn is_due(&self) -> bool {
        self.saved.elapsed() >= INTERVAL
    }

    /// Saves where `loader` is; a reader of the file meanwhile sees the state before or this one.
    pub(crate) fn save(&mut self, loader: &Loader) -> Result<()> {
        let text = serde_json::to_string(&loader.state()).map_err(|error| Error::from_io(error.into()))?;
        let mut part = PartialFile::create(&self.path)?;
        let place = |error| Error::from_io(error).at(self.path.display());
        part.write_all(text.as_bytes()).and_then(|()| part.write_all(b"\n")).map_err(place)?;
        part.finish()?;
        self.saved = Instant::now();
        Ok(())
    }
}
