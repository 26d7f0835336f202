//! Files that `forebay run --stage-writes` of earlier versions left in an area, with journals of version 4: `recover` does nothing with one
//! of them unless the user names it.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io::Write,
    ops::ControlFlow,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use forebay_process::ErrorKind;
use forebay_scratch::{boot_id, host_name, user_folder_name};
use forebay_stage::{
    Area, AreaSettings, DrainProgress, ItemState, ItemStatus, RecoverOptions, Recovered, StageOptions,
    recover,
};
use serde::Serialize;
use tempfile::TempDir;

const LEN: usize = 300_000;
const NEW: u8 = b'n';

/// The fields of a journal of version 4, in their order.
#[derive(Serialize)]
struct JournalV4 {
    kind: u32,
    state: u32,
    destination: Vec<u8>,
    pid: u32,
    created_ns: u64,
    sealed_ns: u64,
    host: String,
    boot: String,
    priority: i32,
    latest: Option<Vec<u8>>,
    mode: u32,
    read_back: bool,
    is_shared: bool,
    begun_as: Option<(u32, u32)>,
    log: u64,
    /// What the destination was when the file was sealed: not there.
    expected: Vec<Option<()>>,
    temporary: Option<Vec<u8>>,
    published: Option<()>,
    passed: Vec<(u64, u64)>,
    image: Option<ImageSumsV4>,
    error: Option<String>,
}

#[derive(Serialize)]
struct ImageSumsV4 {
    len: u64,
    held: Vec<(u64, u64)>,
    sums: Vec<(u64, u32)>,
}

impl JournalV4 {
    fn new(destination: &Path, sealed: Option<&[u8]>) -> Self {
        let image = sealed.map(|bytes| {
            let len = bytes.len() as u64;
            ImageSumsV4 { len, held: vec![(0, len)], sums: vec![(0, crc32c::crc32c(bytes))] }
        });
        let user = rustix::process::geteuid().as_raw();
        Self {
            kind: 0,
            state: u32::from(image.is_some()),
            destination: destination.as_os_str().as_bytes().to_vec(),
            pid: 4711,
            created_ns: 1_000,
            sealed_ns: if image.is_some() { 2_000 } else { 0 },
            host: host_name(),
            boot: boot_id(),
            priority: 0,
            latest: None,
            mode: 0o640,
            read_back: false,
            is_shared: true,
            begun_as: Some((user, rustix::process::getegid().as_raw())),
            log: 0,
            expected: if image.is_some() { vec![None] } else { Vec::new() },
            temporary: None,
            published: None,
            passed: Vec::new(),
            image,
            error: None,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let body = postcard::to_stdvec(self).unwrap();
        let mut bytes = b"FBSTAGE\0".to_vec();
        for number in [4, u32::try_from(body.len()).unwrap(), crc32c::crc32c(&body)] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&body);
        bytes
    }
}

/// An area with the directory of a process of an earlier version, which is gone.
struct OldArea {
    root: TempDir,
    process: PathBuf,
}

impl OldArea {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("out")).unwrap();
        let area = root.path().join("fast").join(user_folder_name("stage"));
        let process = area.join(format!("p-{}-{:016x}@{}", boot_id(), 7, host_name()));
        DirBuilder::new().recursive(true).mode(0o700).create(&process).unwrap();
        let area = Self { root, process };
        ["lock", "usage", "alive"].iter().for_each(|name| area.write(name, &0_u64.to_le_bytes()));
        area
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.process.join(name);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        file.unwrap().write_all(bytes).unwrap();
    }

    fn out(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("out").join(name)
    }

    fn image(&self, id: &str) -> PathBuf {
        self.process.join(format!("{id}.data"))
    }

    /// An item for the destination `name`: its image holds `bytes`, and it was sealed with the bytes of `sealed`.
    fn add(&self, name: &str, bytes: &[u8], sealed: Option<&[u8]>) -> String {
        self.add_journal(name, bytes, &JournalV4::new(&self.out(name), sealed))
    }

    fn add_journal(&self, name: &str, bytes: &[u8], journal: &JournalV4) -> String {
        let destination = self.out(name);
        let sum = crc32c::crc32c(destination.as_os_str().as_bytes());
        let id = format!("{sum:08x}-{:016x}", journal.created_ns);
        self.write(&format!("{id}.data"), bytes);
        fs::set_permissions(self.image(&id), Permissions::from_mode(0o640)).unwrap();
        self.write(&format!("{id}.journal"), &journal.bytes());
        id
    }

    fn recover_until(
        &self,
        options: &RecoverOptions,
        progress: &dyn Fn(DrainProgress) -> ControlFlow<()>,
    ) -> forebay_process::Result<Recovered> {
        recover(&self.root.path().join("fast"), options, progress)
    }

    fn recover(&self, options: &RecoverOptions) -> Recovered {
        self.recover_until(options, &|_| ControlFlow::Continue(())).unwrap()
    }

    /// Names and bytes of all files of the area and at the destinations.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.root.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path)
                } else {
                    drop(found.insert(path.clone(), fs::read(path).unwrap()))
                }
            }
        }
        found
    }
}

/// Bytes of a file, each block of them another.
fn bytes(salt: u8) -> Vec<u8> {
    (0..LEN).map(|at| salt.wrapping_add(u8::try_from(at / 1000 % 251).unwrap())).collect()
}

fn apply(id: &str) -> RecoverOptions {
    RecoverOptions { apply: vec![id.to_owned()], ..RecoverOptions::default() }
}

fn error_of(status: &ItemStatus) -> &str {
    status.error.as_deref().unwrap_or_default()
}

/// Asserts that the item `id` alone is there, and is refused with the two ways to go on.
fn assert_refused(recovered: &Recovered, id: &str) {
    let Recovered { finished, discarded, refused, in_use } = recovered;
    assert!(finished.is_empty() && discarded.is_empty() && in_use.is_empty(), "{recovered:?}");
    assert_eq!(refused.iter().map(|status| &*status.id).collect::<Vec<_>>(), [id]);
    let error = error_of(&refused[0]);
    for part in [
        "'forebay run --stage-writes' of an earlier version",
        &format!("--apply {id}"),
        &format!("--discard {id}"),
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn an_item_of_an_earlier_version_is_left_as_it_is_until_the_user_chooses() {
    for (sealed, is_published) in
        [(None, false), (Some(bytes(0)), false), (Some(bytes(1)), false), (Some(bytes(0)), true)]
    {
        let old = OldArea::new();
        if is_published {
            fs::write(old.out("a"), bytes(0)).unwrap();
        }
        let id = old.add("a", &bytes(0), sealed.as_deref());
        let before = old.files();
        let dry_run = RecoverOptions { dry_run: true, ..RecoverOptions::default() };
        for options in [&RecoverOptions::default(), &dry_run, &RecoverOptions::default()] {
            assert_refused(&old.recover(options), &id);
            assert!(old.files() == before, "a file was changed");
        }
    }
}

#[test]
fn an_item_that_the_user_applies_is_sealed_and_published_once() {
    for sealed in [None, Some(bytes(0))] {
        let old = OldArea::new();
        fs::write(old.out("a"), [NEW; 10]).unwrap();
        let id = old.add("a", &bytes(0), sealed.as_deref());
        let before = old.files();
        let dry_run = old.recover(&RecoverOptions { dry_run: true, ..apply(&id) });
        assert_eq!((dry_run.finished.len(), old.files() == before), (1, true), "{dry_run:?}");
        let recovered = old.recover(&apply(&id));
        assert_eq!(
            (recovered.finished.len(), recovered.finished[0].error.as_deref()),
            (1, None),
            "{recovered:?}"
        );
        assert!(fs::read(old.out("a")).unwrap() == bytes(0));
        assert_eq!(fs::metadata(old.out("a")).unwrap().permissions().mode() & 0o7777, 0o640);
        assert!(!old.process.exists(), "nothing is left of it");
        assert_eq!(old.recover(&RecoverOptions::default()), Recovered::default());
        let again = old.recover_until(&apply(&id), &|_| ControlFlow::Continue(())).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::NotFound, "{again}");
    }
}

#[test]
fn bytes_that_were_changed_after_the_seal_are_sealed_again_when_the_user_applies_them() {
    let longer = [bytes(0), vec![1; 10]].concat();
    let shorter = &bytes(0)[..LEN - 1];
    for changed in [&bytes(1)[..], &longer, shorter] {
        let old = OldArea::new();
        let id = old.add("a", changed, Some(&bytes(0)));
        let before = old.files();
        for dry_run in [true, false] {
            let recovered = old.recover(&RecoverOptions { dry_run, ..apply(&id) });
            assert_eq!(recovered.finished.len(), 1, "{recovered:?}");
            let said = error_of(&recovered.finished[0]);
            assert!(
                said.contains("changed after they were sealed") && said.contains("sealed again"),
                "{said}"
            );
            assert!(!dry_run || old.files() == before, "a dry run changed a file");
        }
        assert!(fs::read(old.out("a")).unwrap() == changed);
        assert_eq!(old.recover(&RecoverOptions::default()), Recovered::default());
    }
}

#[test]
fn bytes_that_were_written_to_a_hole_after_the_seal_are_a_change() {
    const HOLE: u64 = 8 << 20;
    let old = OldArea::new();
    let mut journal = JournalV4::new(&old.out("a"), Some(&bytes(0)));
    journal.image.as_mut().unwrap().len = HOLE;
    for (is_changed, id) in [false, true].map(|is_changed| {
        journal.created_ns += 1;
        (is_changed, old.add_journal("a", &bytes(0), &journal))
    }) {
        let image = OpenOptions::new().write(true).open(old.image(&id)).unwrap();
        image.set_len(HOLE).unwrap();
        if is_changed {
            image.write_all_at(b"x", HOLE / 2).unwrap();
        }
        drop(image);
        let recovered = old.recover(&RecoverOptions { dry_run: true, ..apply(&id) });
        assert_eq!(recovered.finished[0].error.is_some(), is_changed, "{recovered:?}");
    }
}

#[test]
fn an_item_that_is_open_for_writing_is_published_after_it_was_closed() {
    for sealed in [None, Some(bytes(0))] {
        let old = OldArea::new();
        let id = old.add("a", &bytes(0), sealed.as_deref());
        let writer = OpenOptions::new().write(true).open(old.image(&id)).unwrap();
        let before = old.files();
        assert_refused(&old.recover(&RecoverOptions::default()), &id);
        let recovered = old.recover(&apply(&id));
        assert_eq!((recovered.refused.len(), old.files() == before), (1, true), "{recovered:?}");
        let error = error_of(&recovered.refused[0]);
        assert!(error.contains("still open for writing") && error.contains("after its end"), "{error}");
        writer.write_all_at(b"the end", 0).unwrap();
        drop(writer);
        assert_eq!(old.recover(&apply(&id)).finished.len(), 1);
        assert_eq!(fs::read(old.out("a")).unwrap()[..8], *b"the end\0");
    }
}

#[test]
fn an_application_that_was_broken_off_is_finished_by_the_next_and_by_no_other_call() {
    for sealed in [None, Some(bytes(1))] {
        let old = OldArea::new();
        let id = old.add("a", &bytes(0), sealed.as_deref());
        let error = old.recover_until(&apply(&id), &|_| ControlFlow::Break(())).unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
        assert_refused(&old.recover(&RecoverOptions::default()), &id);
        assert!(!old.out("a").exists());
        assert_eq!(old.recover(&apply(&id)).finished.len(), 1);
        assert!(fs::read(old.out("a")).unwrap() == bytes(0));
        assert_eq!(fs::read_dir(old.out("")).unwrap().count(), 1, "a temporary file is left");
    }
}

#[test]
fn an_item_that_the_user_discards_is_removed() {
    for sealed in [None, Some(bytes(0)), Some(bytes(1))] {
        let old = OldArea::new();
        let id = old.add("a", &bytes(0), sealed.as_deref());
        let before = old.files();
        for dry_run in [true, false] {
            let options = RecoverOptions { discard: vec![id.clone()], dry_run, ..RecoverOptions::default() };
            assert_eq!(old.recover(&options).discarded.len(), 1);
            assert!(!dry_run || old.files() == before, "a dry run changed a file");
        }
        assert!(!old.process.exists() && !old.out("a").exists());
        assert_eq!(old.recover(&RecoverOptions::default()), Recovered::default());
    }
}

#[test]
fn an_item_without_its_image_can_only_be_discarded() {
    let old = OldArea::new();
    let id = old.add("a", &bytes(0), None);
    fs::remove_file(old.image(&id)).unwrap();
    assert_refused(&old.recover(&RecoverOptions::default()), &id);
    let refused = old.recover(&apply(&id)).refused;
    assert!(error_of(&refused[0]).contains(&format!("--discard {id}")), "{refused:?}");
    let options = RecoverOptions { discard: vec![id], ..RecoverOptions::default() };
    assert_eq!(old.recover(&options).discarded.len(), 1);
}

#[test]
fn a_later_version_that_recover_publishes_does_not_remove_an_item_of_an_earlier_version() {
    let old = OldArea::new();
    let id = old.add("a", &bytes(0), Some(&bytes(0)));
    let later = JournalV4 {
        created_ns: 3_000,
        sealed_ns: 4_000,
        is_shared: false,
        begun_as: None,
        ..JournalV4::new(&old.out("a"), Some(&bytes(2)))
    };
    old.add_journal("a", &bytes(2), &later);
    for _ in 0..2 {
        let recovered = old.recover(&RecoverOptions::default());
        assert_eq!(recovered.refused.iter().map(|status| &*status.id).collect::<Vec<_>>(), [&*id]);
        assert!(
            recovered.discarded.is_empty() && fs::read(old.out("a")).unwrap() == bytes(2),
            "{recovered:?}"
        );
    }
    assert!(fs::read(old.image(&id)).unwrap() == bytes(0));
}

#[test]
fn writers_of_the_destination_and_of_a_full_area_remove_no_item_of_an_earlier_version() {
    const QUOTA: u64 = 8 << 20;
    let old = OldArea::new();
    let ids = [old.add("open", &bytes(0), None), old.add("sealed", &bytes(0), Some(&bytes(0)))];
    old.write("usage", &QUOTA.to_le_bytes());
    let fast = old.root.path().join("fast");
    let area =
        Area::open(AreaSettings { quota: QUOTA, free_floor: 0, ..AreaSettings::folder(fast) }).unwrap();
    let item = |id: &String| area.items().unwrap().into_iter().find(|item| item.id == *id).unwrap();
    assert_eq!(ids.each_ref().map(|id| item(id).state), [ItemState::Open, ItemState::Sealed]);
    let error = area.discard(&old.out("sealed")).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Unavailable && error.to_string().contains("'forebay recover "),
        "{error}"
    );
    area.discard(&old.out("open")).unwrap();
    // There is no room: the area looks for what it may remove.
    let file = area.create(&old.out("other"), StageOptions::default()).unwrap();
    file.write_at(0, &bytes(3)).unwrap();
    file.seal().unwrap();
    area.close().unwrap();
    assert!(fs::read(old.out("other")).unwrap() == bytes(3));
    for id in &ids {
        assert!(fs::read(old.image(id)).unwrap() == bytes(0) && item(id).is_deserted);
    }
    assert_eq!(old.recover(&RecoverOptions::default()).refused.len(), 2);
}
