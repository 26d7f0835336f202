//! Files that programs write in the folder of a process by descriptors of their own: taken over, published, recovered.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    ffi::OsStr,
    fs::{self, File, Permissions},
    io::Write,
    ops::ControlFlow,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use forebay_stage::{
    Area, AreaSettings, DrainProgress, FolderKey, ImagesLeft, NameState, ProgramImage, ProgramImages,
    ProgramNames, RecoverOptions, recover,
};
use tempfile::TempDir;

struct Place {
    root: TempDir,
    area: Arc<Area>,
    images: ProgramImages,
}

fn on(_: DrainProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["area", "run", "out"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let settings = AreaSettings { free_floor: 0, ..AreaSettings::folder(root.path().join("area")) };
        let area = Area::open(settings).unwrap();
        let images = ProgramImages::open(Arc::clone(&area), &root.path().join("run")).unwrap();
        Self { root, area, images }
    }

    fn out(&self, name: &str) -> std::path::PathBuf {
        self.root.path().canonicalize().unwrap().join("out").join(name)
    }

    fn names(&self) -> ProgramNames {
        ProgramNames::of_run(&self.root.path().join("run"))
    }

    /// What a program does when it opens a new file.
    fn open(&self, name: &str) -> (File, ProgramImage) {
        let destination = self.out(name);
        let image = ProgramImage::new(self.images.folder(), &destination);
        let file = File::create(image.path()).unwrap();
        image.note_destination(&destination).unwrap();
        let key = FolderKey::at(destination.parent().unwrap()).unwrap();
        self.names().set(key, OsStr::new(name), &image.path()).unwrap();
        (file, image)
    }
}

#[test]
fn a_file_is_published_with_its_mode_and_times_once_nobody_writes_it() {
    let mut place = Place::new();
    let (mut file, _) = place.open("a");
    file.write_all(b"all of it").unwrap();
    assert_eq!(place.images.look(true), ImagesLeft { open: 1, draining: 0 });
    file.set_permissions(Permissions::from_mode(0o640)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    file.set_modified(time).unwrap();
    drop(file);
    place.images.finish(Duration::ZERO, &on).unwrap();
    let facts = fs::metadata(place.out("a")).unwrap();
    assert_eq!(fs::read(place.out("a")).unwrap(), b"all of it");
    assert_eq!((facts.permissions().mode() & 0o777, facts.modified().unwrap()), (0o640, time));
    assert_eq!(place.names().all(), []);
    assert_eq!((place.images.totals().files, place.images.totals().bytes), (1, 9));
    assert_eq!(place.area.items().unwrap(), []);
}

#[test]
fn a_file_that_was_just_closed_can_be_renamed_and_one_that_is_wanted_is_not_waited_for() {
    let mut place = Place::new();
    let (mut file, image) = place.open("a.tmp");
    file.write_all(b"checkpoint").unwrap();
    drop(file);
    assert_eq!(
        place.images.look(false),
        ImagesLeft { open: 1, draining: 0 },
        "it is left alone for a moment"
    );
    let renamed = image.also_for(&place.out("a")).unwrap();
    image.discard();
    let key = FolderKey::at(place.out("").as_path()).unwrap();
    place.names().set(key, OsStr::new("a"), &renamed.path()).unwrap();
    place.names().want(renamed.id()).unwrap();
    assert_eq!(place.images.look(false), ImagesLeft { open: 0, draining: 1 });
    assert!(!place.names().is_wanted(renamed.id()));
    place.images.finish(Duration::ZERO, &on).unwrap();
    assert_eq!(fs::read(place.out("a")).unwrap(), b"checkpoint");
    assert!(!place.out("a.tmp").exists());
}

#[test]
fn a_file_that_is_still_open_is_said_and_recover_takes_it_when_it_is_closed() {
    let mut place = Place::new();
    let (mut file, _) = place.open("log");
    file.write_all(b"so far").unwrap();
    let error = place.images.finish(Duration::ZERO, &on).unwrap_err().to_string();
    assert!(error.contains("still open for writing"), "{error}");
    let Place { root, area, images } = place;
    drop(images);
    area.close().unwrap();
    drop(area);
    let recovered = || recover(&root.path().join("area"), &RecoverOptions::default(), &on).unwrap();
    let refused = recovered().refused;
    assert!(
        refused.len() == 1 && refused[0].error.as_ref().unwrap().contains("still open for writing"),
        "{refused:?}"
    );
    drop(file);
    assert_eq!(recovered().finished.len(), 1);
    assert_eq!(fs::read(root.path().join("out/log")).unwrap(), b"so far");
    assert_eq!(recovered().finished.len(), 0);
}

#[test]
fn names_lead_to_a_file_until_it_is_at_its_destination() {
    let mut place = Place::new();
    place.area.pause();
    let (file, image) = place.open("a");
    drop(file);
    let key = FolderKey::at(place.out("").as_path()).unwrap();
    let state = |place: &Place| place.names().find(key, OsStr::new("a")).map(|found| found.state);
    assert_eq!(state(&place), Some(NameState::Open));
    place.images.look(true);
    assert_eq!(state(&place), Some(NameState::Sealed));
    assert!(Path::new(&image.path()).exists() && !place.out("a").exists());
    place.images.finish(Duration::ZERO, &on).unwrap();
    assert_eq!(state(&place), None);
    assert!(place.out("a").exists());
}
