//! The images that programs write in the folder of this process: taken over once nobody has them open for writing, and drained.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    ops::ControlFlow,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_scratch::OwnFolder;
use forebay_source::{Error, ErrorKind, Result};

use crate::{
    area::Area,
    drainers::Forced,
    image_state::image_name,
    journal::Journal,
    program_image::open_image,
    program_names::{FolderKey, NameState, ProgramNames},
    program_room::RoomPublisher,
    staged_file::Sealed,
    status::DrainProgress,
    survey::{item_ids, read_journal},
    writer_lease::has_writers,
};

/// How long an image that nobody writes is left alone: programs close a file and rename it.
const GRACE: Duration = Duration::from_millis(150);
/// How often the end looks again.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The images that programs write in the folder of this process.
#[derive(Debug)]
pub struct ProgramImages {
    area: Arc<Area>,
    names: ProgramNames,
    folder: Arc<OwnFolder>,
    seen: HashMap<String, SeenImage>,
    draining: Vec<DrainingImage>,
    is_full: bool,
    /// Whether the program has ended.
    is_closed: bool,
    room: RoomPublisher,
    /// Held while somebody waits for a file: it is drained though drains are paused.
    forced: Option<Forced>,
    /// Why a file could not be taken over at the last look.
    trouble: Option<Error>,
    totals: ImageTotals,
}

/// What was taken over so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageTotals {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What is left in the area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImagesLeft {
    /// Files that are open for writing, or were a moment ago.
    pub open: usize,
    /// Files on their way to their destinations.
    pub draining: usize,
}

/// An image that was not taken over yet.
#[derive(Debug, Default)]
struct SeenImage {
    free_since: Option<Instant>,
    /// Bytes that it takes on the disk.
    used: u64,
    /// Bytes that are reserved for it: fewer where the area is full.
    reserved: u64,
}

impl SeenImage {
    fn unreserved(&self) -> u64 {
        self.used.saturating_sub(self.reserved)
    }
}

#[derive(Debug)]
struct DrainingImage {
    id: String,
    image: PathBuf,
    name: Option<(FolderKey, OsString)>,
    sealed: Sealed,
    is_wanted: bool,
    /// Bytes of it for which nothing is reserved.
    unreserved: u64,
}

impl ProgramImages {
    /// Those in `area`, a folder, with the names of the run whose folder is `run`.
    pub fn open(area: Arc<Area>, run: &Path) -> Result<Self> {
        let folder = area.own_folder()?;
        let probe = image_name("probe");
        let made = folder.create_new(&probe);
        let written = made.and_then(|writer| {
            let is_known = has_writers(&folder.open_to_read(&probe)?)?;
            drop(writer);
            Ok(is_known && !has_writers(&folder.open_to_read(&probe)?)?)
        });
        let _ = folder.remove_file(&probe);
        if !written? {
            let what = "does not say whether a file is open for writing (no leases)";
            let error = Error::unsupported(what).hint("name a folder on another file system by --stage");
            return Err(error.at(folder.path().display()));
        }
        let names = ProgramNames::of_run(run);
        names.create()?;
        let room = RoomPublisher::create(names.room(folder.path()), run)?;
        let mut images = Self {
            area,
            names,
            folder,
            seen: HashMap::new(),
            draining: Vec::new(),
            is_full: false,
            is_closed: false,
            room,
            forced: None,
            trouble: None,
            totals: ImageTotals::default(),
        };
        // Programs that begin now find out how much room there is.
        images.tell_room(images.room.taken());
        Ok(images)
    }

    /// The folder in which programs make images.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Whether there is no room for another file.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// What was taken over so far.
    pub fn totals(&self) -> ImageTotals {
        self.totals
    }

    /// Takes over the images that nobody writes any more; with `hurry` also those that were just closed.
    pub fn look(&mut self, hurry: bool) -> ImagesLeft {
        let taken_room = self.room.taken();
        self.forget_durable();
        let known: HashSet<String> = self.draining.iter().map(|image| image.id.clone()).collect();
        let mut ids = item_ids(&self.folder);
        ids.retain(|id| !known.contains(id));
        self.forget_removed(&ids);
        let wanted: HashSet<String> = self.names.wanted().into_iter().collect();
        let mut ready: Vec<(u64, String)> = Vec::new();
        for id in &ids {
            if self.is_ready(id, hurry || wanted.contains(id))
                && let Ok(journal) = read_journal(&self.folder, id)
            {
                ready.push((journal.created_ns, id.clone()));
            }
        }
        ready.sort();
        let before = self.draining.len();
        self.trouble = None;
        for (_, id) in ready {
            // What cannot be taken over now is looked at again; it stays in the area.
            if let Err(error) = self.take_over(&id) {
                self.trouble = Some(error);
            }
        }
        self.tell_wanted(&wanted, |id| known.contains(id) || ids.contains(id));
        self.tell_room(taken_room);
        let taken = self.draining.len() - before;
        ImagesLeft { open: ids.len() - taken, draining: self.draining.len() }
    }

    /// Has what somebody waits for drained, and says that it was looked at.
    fn tell_wanted(&mut self, wanted: &HashSet<String>, is_ours: impl Fn(&String) -> bool) {
        for image in self.draining.iter_mut().filter(|image| wanted.contains(&image.id)) {
            image.is_wanted = true;
        }
        let is_waited_for =
            |image: &DrainingImage| image.is_wanted && image.sealed.durable().error().is_none();
        if !self.draining.iter().any(is_waited_for) {
            self.forced = None;
        } else if self.forced.is_none() {
            self.forced = Some(self.area.force());
        }
        wanted.iter().filter(|id| is_ours(id)).for_each(|id| self.names.unwant(id));
    }

    /// Whether nobody writes the image, for long enough.
    fn is_ready(&mut self, id: &str, is_wanted: bool) -> bool {
        let Ok(image) = open_image(&self.folder, id) else { return false };
        let seen = self.seen.entry(id.to_owned()).or_default();
        let used = image.metadata().map_or(0, |facts| facts.blocks() * 512);
        seen.used = used;
        if used < seen.reserved {
            self.area.release(seen.reserved - used);
            seen.reserved = used;
        } else if used > seen.reserved && self.area.reserve(used - seen.reserved) {
            seen.reserved = used;
        }
        if has_writers(&image).unwrap_or(true) {
            seen.free_since = None;
            return false;
        }
        let since = *seen.free_since.get_or_insert_with(Instant::now);
        is_wanted || since.elapsed() >= GRACE
    }

    fn take_over(&mut self, id: &str) -> Result<()> {
        let _lock = self.names.lock()?;
        // Renamed or removed meanwhile where it is gone.
        let journal = read_journal(&self.folder, id)?;
        let image = open_image(&self.folder, id)?;
        if has_writers(&image)? {
            return Ok(());
        }
        let (name, path) = (name_of(&journal), self.folder.path().join(image_name(id)));
        let older = match &name {
            Some((folder, name)) => self.names.seal(*folder, name, &path)?,
            None => None,
        };
        let bytes = image.metadata().map_err(Error::from_io)?.len();
        let reserved = self.seen.get(id).map_or(0, |seen| seen.reserved);
        let taken = self.area.take_over(id, journal, image, reserved);
        if let (Err(_), Some((folder, name))) = (&taken, &name) {
            self.names.unseal(*folder, name, &path, older.as_deref());
        }
        let sealed = taken?;
        let seen = self.seen.remove(id).unwrap_or_default();
        let (id, unreserved) = (id.to_owned(), seen.unreserved());
        self.draining.push(DrainingImage { id, image: path, name, sealed, is_wanted: false, unreserved });
        self.totals.files += 1;
        self.totals.bytes += bytes;
        Ok(())
    }

    /// Forgets images that programs have removed or renamed.
    fn forget_removed(&mut self, ids: &[String]) {
        let there: HashSet<&String> = ids.iter().collect();
        let area = &self.area;
        self.seen.retain(|id, seen| {
            let is_there = there.contains(id);
            if !is_there {
                area.release(seen.reserved);
            }
            is_there
        });
    }

    /// Forgets what is at its destination, and the names that led to it.
    fn forget_durable(&mut self) {
        let is_durable = |image: &DrainingImage| image.sealed.durable().is_set();
        if !self.draining.iter().any(is_durable) {
            return;
        }
        // Where others hold the lock, names that lead nowhere are removed at the next look.
        let Ok(_lock) = self.names.lock() else { return };
        let names = &self.names;
        self.draining.retain(|image| {
            let is_over = is_durable(image);
            if let (true, Some((folder, name))) = (is_over, &image.name) {
                names.remove_name(NameState::Sealed, *folder, name, &image.image);
            }
            !is_over
        });
    }

    /// Tells programs how much more they may write, who had taken `taken` before the images were looked at.
    fn tell_room(&mut self, taken: u64) {
        let open: u64 = self.seen.values().map(SeenImage::unreserved).sum();
        let draining: u64 = self.draining.iter().map(|image| image.unreserved).sum();
        let left = self.area.room_left(open + draining);
        self.room.publish(taken, left);
        let is_full = self.is_closed || left < self.area.least_room();
        if is_full != self.is_full {
            self.names.set_full(self.folder.path(), is_full);
            self.is_full = is_full;
        }
    }

    /// Takes no more files: names are locked while one is begun, so that none is begun unseen.
    fn close(&mut self) {
        let _lock = self.names.lock();
        self.names.set_full(self.folder.path(), true);
        self.is_closed = true;
    }

    /// Brings all to their destinations, after the program has ended; what is still open for writing is waited for as long as
    /// `patience`. `progress` is called now and then and may break off the wait.
    pub fn finish(
        &mut self,
        patience: Duration,
        progress: &dyn Fn(DrainProgress) -> ControlFlow<()>,
    ) -> Result<()> {
        let began = Instant::now();
        self.close();
        let mut left = self.look(true);
        while left.open > 0 && began.elapsed() < patience {
            let state =
                DrainProgress { items_left: (left.open + left.draining) as u64, ..DrainProgress::default() };
            if progress(state).is_break() {
                return Err(Error::new(ErrorKind::Unavailable, "drain was interrupted"));
            }
            thread::sleep(LOOK_EVERY);
            left = self.look(true);
        }
        let drained = self.area.drain(progress);
        self.forget_durable();
        drained?;
        if left.open == 0 {
            return Ok(());
        }
        let what = format!("{} staged files are still open for writing by processes that go on", left.open);
        Err(self.trouble.take().unwrap_or_else(|| Error::new(ErrorKind::Unavailable, what)))
    }
}

/// The folder and the name that an item is for.
fn name_of(journal: &Journal) -> Option<(FolderKey, OsString)> {
    let destination = journal.destination();
    Some((FolderKey::at(destination.parent()?).ok()?, destination.file_name()?.to_owned()))
}
