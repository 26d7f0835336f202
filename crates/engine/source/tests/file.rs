//! Files: descriptors stay within their budget, and a file that changes is an error.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{
    fs::{self, FileTimes, OpenOptions},
    io::Write,
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use forebay_process::{Error, ErrorKind};
use forebay_source::{ByteRange, FileOrigin, Fill, Locator, Origin, Source, SourceExt};
use tempfile::TempDir;

fn open(folder: &TempDir, name: &str) -> Arc<dyn Source> {
    FileOrigin::under(folder.path()).open(&Locator::new(name)).unwrap()
}

/// The kernel's clock ticks every 4 ms: waits until a change gets another stamp.
fn tick() {
    thread::sleep(Duration::from_millis(20));
}

/// Descriptors of this process on files under `folder`; other tests run beside this one.
fn descriptor_count(folder: &Path) -> usize {
    let links =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter(|target| target.starts_with(folder) && target != folder).count()
}

/// Fills and lends the whole of `source`, which must be refused both ways.
fn refusal(source: &dyn Source) -> Error {
    let range = ByteRange::at(0, source.id().len);
    let mut memory = vec![0; usize::try_from(range.len()).unwrap()];
    let error = source.fetch_into(&mut [Fill { range, into: &mut memory }]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    source.fetch_one(range).unwrap_err()
}

#[test]
fn sixty_four_files_are_read_by_eight_threads_through_four_descriptors() {
    const BUDGET: usize = 4;
    const THREADS: usize = 8;
    let folder = TempDir::new().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for index in 0..64_u8 {
        fs::write(root.join(format!("{index}.bin")), vec![index; 5000]).unwrap();
    }
    let origin = FileOrigin::under(&root).with_descriptor_budget(BUDGET);
    let open = |index: u8| origin.open(&Locator::new(format!("{index}.bin"))).unwrap();
    let sources: Vec<_> = (0..64_u8).map(open).collect();
    assert_eq!(descriptor_count(&root), BUDGET);
    let (running, most) = (AtomicUsize::new(THREADS), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (sources, running) = (&sources, &running);
            scope.spawn(move || {
                for round in 0..2000 {
                    let index = (round * 13 + thread * 29 + round / 7) % 64;
                    let read = sources[index].fetch_one(ByteRange::at(100, 4000)).unwrap();
                    assert!(read.len() == 4000 && read.iter().all(|byte| usize::from(*byte) == index));
                }
                running.fetch_sub(1, Relaxed);
            });
        }
        while running.load(Relaxed) > 0 {
            most.fetch_max(descriptor_count(&root), Relaxed);
        }
    });
    // Each thread may read by one that was just closed to others, and hold one that it just opened.
    let most = most.load(Relaxed);
    assert!(most > 0 && most <= BUDGET + 2 * THREADS, "{most} open");
    assert_eq!(descriptor_count(&root), BUDGET);
    drop(sources);
    assert_eq!(descriptor_count(&root), 0);
}

#[test]
fn one_descriptor_serves_all_who_open_an_unchanged_file() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::write(root.join("f.bin"), "old").unwrap();
    let origin = FileOrigin::under(&root);
    let open = || origin.open(&Locator::new("f.bin")).unwrap();
    let (one, two) = (open(), open());
    assert_eq!((one.id(), descriptor_count(&root)), (two.id(), 1));
    tick();
    fs::write(root.join("f.bin"), "new").unwrap();
    let three = open();
    assert_ne!(three.id().version, one.id().version);
    assert_eq!(three.fetch_one(ByteRange::at(0, 3)).unwrap(), "new");
    refusal(&*one);
}

#[test]
fn a_truncated_file_is_an_error_that_names_file_and_offset() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f.bin");
    fs::write(&path, vec![1; 10_000]).unwrap();
    let source = open(&folder, "f.bin");
    OpenOptions::new().write(true).open(&path).unwrap().set_len(6000).unwrap();
    let error = refusal(&*source).to_string();
    assert!(error.starts_with("f.bin: byte 6000: ends here"), "{error}");
    let pieces: &mut [[u8; 2000]] = &mut [[0; 2000]; 4];
    let fills = pieces
        .iter_mut()
        .zip(0..)
        .map(|(into, index)| Fill { range: ByteRange::at(2000 * index, 2000), into });
    let error = source.fetch_into(&mut fills.collect::<Vec<_>>()).unwrap_err();
    assert!(error.to_string().starts_with("f.bin: byte 6000: ends here"), "{error}");
}

#[test]
fn a_file_that_grows_or_changes_in_place_is_an_error() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f.bin");
    fs::write(&path, vec![1; 100]).unwrap();
    let source = open(&folder, "f.bin");
    tick();
    OpenOptions::new().append(true).open(&path).unwrap().write_all(&[2]).unwrap();
    assert_eq!(
        refusal(&*source).to_string(),
        "f.bin: changed since it was opened; open it again once nobody writes to it"
    );

    let source = open(&folder, "f.bin");
    tick();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[3], 50).unwrap();
    refusal(&*source);
    // To set the time of modification back hides the change from who has it open, and from nobody else.
    let modified = source.id().version.modified.unwrap();
    file.set_times(FileTimes::new().set_modified(modified)).unwrap();
    let reopened = open(&folder, "f.bin");
    assert_ne!(reopened.id(), source.id());
    assert_ne!(reopened.id().version.full_tag(), source.id().version.full_tag());
}

#[test]
fn a_new_mode_link_or_name_of_a_file_does_not_end_its_reading() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let acts: [(&str, &dyn Fn()); 4] = [
        ("mode", &|| fs::set_permissions(path("f.bin"), fs::Permissions::from_mode(0o640)).unwrap()),
        ("the same mode", &|| fs::set_permissions(path("f.bin"), fs::Permissions::from_mode(0o640)).unwrap()),
        ("link", &|| fs::hard_link(path("f.bin"), path("link.bin")).unwrap()),
        ("name", &|| fs::rename(path("f.bin"), path("moved.bin")).unwrap()),
    ];
    fs::write(path("f.bin"), vec![7; 100_000]).unwrap();
    fs::write(path("other.bin"), "other").unwrap();
    let source = open(&folder, "f.bin");
    // One descriptor for two files: this one is opened anew for each read.
    let narrow = FileOrigin::under(folder.path()).with_descriptor_budget(1);
    let [reopened, other] = ["f.bin", "other.bin"].map(|name| narrow.open(&Locator::new(name)).unwrap());
    let mut memory = vec![0; 100_000];
    // Several times, for a file is mapped at its second read.
    let mut read_all = |source: &dyn Source, what: &str| {
        for _ in 0..4 {
            memory.fill(0);
            let mut fills = [Fill { range: ByteRange::at(0, 100_000), into: &mut memory }];
            source.fetch_into(&mut fills).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(memory.iter().all(|byte| *byte == 7), "{what}");
        }
    };
    read_all(&*source, "nothing");
    for (what, act) in acts {
        tick();
        act();
        read_all(&*source, what);
        if what != "name" {
            read_all(&*reopened, what);
            assert_eq!(other.fetch_one(ByteRange::at(0, 5)).unwrap(), "other");
            let again = open(&folder, "f.bin");
            assert!(source.id().is_unchanged(again.id()) && source.id() != again.id(), "{what}");
        }
    }
}

#[test]
fn a_file_that_was_removed_or_whose_name_is_anothers_is_an_error_though_its_bytes_are_there() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let made = || {
        fs::write(path("f.bin"), vec![7; 5000]).unwrap();
        let source = open(&folder, "f.bin");
        assert_eq!(source.fetch_one(ByteRange::at(0, 1)).unwrap()[..], [7]);
        tick();
        source
    };
    let source = made();
    fs::remove_file(path("f.bin")).unwrap();
    assert!(refusal(&*source).to_string().starts_with("f.bin: removed or replaced since it was opened"));
    let source = made();
    fs::hard_link(path("f.bin"), path("old.bin")).unwrap();
    fs::write(path("next"), vec![8; 5000]).unwrap();
    fs::rename(path("next"), path("f.bin")).unwrap();
    assert!(refusal(&*source).to_string().starts_with("f.bin: replaced since it was opened"));
}

#[test]
fn a_file_replaced_under_its_readers_never_mixes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f.bin");
    let write = |byte: u8| {
        fs::write(folder.path().join("next"), vec![byte; 1 << 20]).unwrap();
        fs::rename(folder.path().join("next"), &path).unwrap();
    };
    write(0);
    // Two files and one descriptor, so that the readers also reopen by path.
    fs::write(folder.path().join("other.bin"), "other").unwrap();
    let origin = FileOrigin::under(folder.path()).with_descriptor_budget(1);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    origin.open(&Locator::new("other.bin")).unwrap().fetch_one(ByteRange::at(0, 5)).unwrap();
                    let source = origin.open(&Locator::new("f.bin")).unwrap();
                    for _ in 0..5 {
                        let ranges = [
                            ByteRange::at(0, 4096),
                            ByteRange::at(500_000, 4096),
                            ByteRange::at((1 << 20) - 9, 9),
                        ];
                        let Ok(read) = source.fetch(&ranges) else { break };
                        assert!(read.iter().flatten().all(|byte| *byte == read[0][0]), "mixed");
                    }
                }
            });
        }
        for byte in 1..60 {
            write(byte);
        }
        done.store(true, Relaxed);
    });
}

#[test]
fn a_file_overwritten_in_place_under_its_readers_never_mixes() {
    /// A write is stamped when it begins: only a file opened this long after is known to be whole.
    const SETTLED: Duration = Duration::from_millis(200);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f.bin");
    fs::write(&path, vec![0; 1 << 20]).unwrap();
    let origin = FileOrigin::under(folder.path());
    let (done, caught) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let (range, mut memory) = (ByteRange::at(0, 1 << 20), vec![0; 1 << 20]);
            while !done.load(Relaxed) {
                let source = origin.open(&Locator::new("f.bin")).unwrap();
                if source.id().version.modified.unwrap() + SETTLED > SystemTime::now() {
                    continue;
                }
                while !done.load(Relaxed) {
                    let Ok(()) = source.fetch_into(&mut [Fill { range, into: &mut memory }]) else {
                        caught.fetch_add(1, Relaxed);
                        break;
                    };
                    assert!(memory.iter().all(|byte| *byte == memory[0]), "mixed");
                }
            }
        });
        for byte in 1..6 {
            thread::sleep(SETTLED + SETTLED / 2);
            OpenOptions::new().write(true).open(&path).unwrap().write_all(&vec![byte; 1 << 20]).unwrap();
        }
        tick();
        done.store(true, Relaxed);
    });
    assert!(caught.load(Relaxed) > 0, "no reader saw a write");
}

#[test]
fn what_is_not_a_regular_file_is_refused_at_once() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let origin = FileOrigin::new();
    let began = Instant::now();
    let refused = [(pipe.to_str().unwrap(), "is a pipe"), ("/dev/null", "is a device"), ("/", "is a folder")];
    for (at, what) in refused {
        let error = origin.open(&Locator::new(at)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.to_string(), format!("{at}: {what}, not a regular file"));
    }
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn an_origin_under_a_folder_cannot_be_left() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("root")).unwrap();
    fs::write(folder.path().join("secret"), "").unwrap();
    let origin = FileOrigin::under(folder.path().join("root"));
    for at in ["../secret", "a/../../secret", "/etc/passwd"] {
        assert_eq!(origin.open(&Locator::new(at)).unwrap_err().kind(), ErrorKind::Invalid, "{at}");
        assert_eq!(origin.list(&Locator::new(at)).unwrap_err().kind(), ErrorKind::Invalid, "{at}");
    }
}

#[test]
fn a_list_follows_links_once_and_skips_what_does_not_open() {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/b/f.bin"), "f").unwrap();
    symlink(root, root.join("a/up")).unwrap();
    symlink("b/f.bin", root.join("a/link.bin")).unwrap();
    symlink("nowhere", root.join("a/broken.bin")).unwrap();
    symlink("b/f.bin/nothing", root.join("a/below-a-file.bin")).unwrap();
    symlink("self", root.join("self")).unwrap();
    let origin = FileOrigin::under(root);
    let names = |under: &str| {
        let listed = origin.list(&Locator::new(under)).unwrap();
        listed.into_iter().map(|at| at.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["a/b/f.bin", "a/link.bin"]);
    assert_eq!(names("a/link.bin"), ["a/link.bin"]);
    assert_eq!(origin.list(&Locator::new("missing")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
#[cfg(target_os = "linux")]
fn files_whose_names_are_not_utf8_are_listed_opened_and_named_in_errors() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let folder = TempDir::new().unwrap();
    let path = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
    fs::create_dir(path(b"\xfd")).unwrap();
    let names = [&b"a.bin"[..], b"\xfd/b.bin", b"\xfe.bin", b"\xff.bin"];
    for name in names {
        fs::write(path(name), name).unwrap();
    }
    for (origin, root) in
        [(FileOrigin::under(folder.path()), Path::new("")), (FileOrigin::new(), folder.path())]
    {
        let under = Locator::from_path(root);
        let listed = origin.list(&under).unwrap();
        let expected = names.map(|name| Locator::from_path(root.join(OsStr::from_bytes(name))));
        let sorted = |names: &[Locator]| names.iter().cloned().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(sorted(&listed), sorted(&expected));
        assert!(listed.is_sorted());
        for (at, name) in expected.iter().zip(names) {
            let read = origin.open(at).unwrap().fetch_one(ByteRange::at(0, name.len() as u64)).unwrap();
            assert_eq!(read, name);
        }
        let ids = origin.survey(&under).unwrap();
        assert_eq!(ids.iter().map(|id| id.locator.clone()).collect::<Vec<_>>(), listed);
    }
    let error = FileOrigin::under(folder.path())
        .open(&Locator::from_path(OsStr::from_bytes(b"\xfd/none")))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().starts_with(r"\xfd/none: "), "{error}");
}
