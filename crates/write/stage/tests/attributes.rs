//! Names, modes and access lists of new files: exclusive creation, default lists, directories that are replaced.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    cell::RefCell,
    ffi::OsStr,
    fs::{self, File, OpenOptions, Permissions},
    io::Write,
    ops::ControlFlow,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::{OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
    sync::Arc,
    thread,
    time::Duration,
};

use forebay_process::ErrorKind;
use forebay_scratch::disk::{self, Call, Watch};
use forebay_stage::{
    Area, AreaSettings, DrainProgress, RecoverOptions, Sealed, StageOptions, StagedFile, recover,
};
use rustix::fs::{Gid, Uid, XattrFlags};
use tempfile::TempDir;

const LIMIT: Option<Duration> = Some(Duration::from_secs(60));
const ACCESS_LIST: &str = "system.posix_acl_access";
const DEFAULT_LIST: &str = "system.posix_acl_default";

const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;
/// The user `bin`, who owns nothing here.
const BIN: u32 = 2;

fn on(_: DrainProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

struct Setting {
    _root: TempDir,
    fast: PathBuf,
    slow: PathBuf,
    area: Arc<Area>,
}

impl Setting {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        let (fast, slow) = (path.join("fast"), path.join("slow"));
        fs::create_dir(&slow).unwrap();
        let area = open_area(&fast);
        Self { _root: root, fast, slow, area }
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Sealed {
        seal(self.area.create(path, StageOptions::default()).unwrap(), bytes)
    }
}

/// An area of one process; two of them are as two processes.
fn open_area(fast: &Path) -> Arc<Area> {
    // Without threads of its own, what is sealed is durable when `seal` returns.
    let settings = AreaSettings { free_floor: 0, drainers: 0, ..AreaSettings::folder(fast) };
    Area::open(settings).unwrap()
}

fn seal(file: StagedFile, bytes: &[u8]) -> Sealed {
    file.write_at(0, bytes).unwrap();
    file.seal().unwrap()
}

fn exclusive() -> StageOptions {
    StageOptions { is_exclusive: true, ..StageOptions::default() }
}

/// An access list of entries with tag, rights and user.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, user) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&rights.to_le_bytes());
        bytes.extend_from_slice(&user.to_le_bytes());
    }
    bytes
}

fn set_list(path: &Path, name: &str, entries: &[(u16, u16, u32)]) -> bool {
    rustix::fs::setxattr(path, name, &list(entries), XattrFlags::empty()).is_ok()
}

/// Mode and access list of the file at `path`.
fn rights(path: &Path) -> (u32, Option<Vec<u8>>) {
    let list = disk::path_xattr(path, OsStr::new(ACCESS_LIST), 1000).unwrap();
    (fs::metadata(path).unwrap().permissions().mode() & 0o7777, list)
}

const NONE: u32 = u32::MAX;

#[test]
fn a_new_file_has_the_rights_that_a_plain_one_has_there() {
    let setting = Setting::new();
    let named: &[_] =
        &[(OWNER, 7, NONE), (USER, 6, BIN), (GROUP, 5, NONE), (MASK, 6, NONE), (OTHERS, 0, NONE)];
    // One that is all in the mode: a file that is created under it has no list of its own.
    let short: &[_] = &[(OWNER, 7, NONE), (GROUP, 5, NONE), (OTHERS, 0, NONE)];
    for default in [None, Some(named), Some(short)] {
        if default.is_some_and(|default| !set_list(&setting.slow, DEFAULT_LIST, default)) {
            eprintln!("there are no access lists here: default ones are not tested");
            return;
        }
        let (plain, staged) = (setting.slow.join("plain"), setting.slow.join("staged"));
        for path in [&plain, &staged] {
            let _ = fs::remove_file(path);
        }
        File::create(&plain).unwrap();
        assert!(setting.write(&staged, b"bytes").durable().wait(LIMIT).unwrap());
        assert_eq!(rights(&staged), rights(&plain), "with {default:?}");
        // Written anew, it keeps the rights that it has by then, and none of the directory's.
        fs::set_permissions(&staged, Permissions::from_mode(0o600)).unwrap();
        let before = rights(&staged);
        assert!(setting.write(&staged, b"more").durable().wait(LIMIT).unwrap());
        assert_eq!((rights(&staged), fs::read(&staged).unwrap()), (before, b"more".to_vec()));
    }
}

#[test]
fn recover_gives_a_new_file_the_rights_that_a_plain_one_had() {
    recover_after(None);
    recover_after(Some(&[(OWNER, 7, NONE), (GROUP, 5, NONE), (OTHERS, 0, NONE)]));
}

fn recover_after(default: Option<&[(u16, u16, u32)]>) {
    let setting = Setting::new();
    if default.is_some_and(|default| !set_list(&setting.slow, DEFAULT_LIST, default)) {
        return;
    }
    let (plain, staged) = (setting.slow.join("plain"), setting.slow.join("staged"));
    File::create(&plain).unwrap();
    setting.area.pause();
    let sealed = setting.write(&staged, b"bytes");
    assert!(sealed.staged().is_set() && !staged.exists());
    setting.area.leave();
    // The lock of the process that has left it is still held here: its directory is copied to where nobody has it.
    let moved = setting.fast.with_file_name("moved");
    assert!(Command::new("cp").arg("-a").arg(&setting.fast).arg(&moved).status().unwrap().success());
    let recovered = recover(&moved, &RecoverOptions::default(), &on).unwrap();
    assert_eq!(recovered.finished.len(), 1, "{recovered:?}");
    assert_eq!((rights(&staged), fs::read(&staged).unwrap()), (rights(&plain), b"bytes".to_vec()));
}

/// The rights of a file after each call, as far as they are more than those it has in the end.
struct Widest {
    allowed: u32,
    seen: Vec<String>,
}

impl Watch for Widest {
    fn before(&mut self, _: &Call<'_>) -> rustix::io::Result<()> {
        Ok(())
    }

    fn after(&mut self, call: &Call<'_>, made: Option<BorrowedFd<'_>>) {
        let file = match (call, made) {
            (
                Call::SetMode { file, .. } | Call::SetXattr { file, .. } | Call::RemoveXattr { file, .. },
                _,
            ) => *file,
            (Call::Open { flags, .. }, Some(file)) if flags.contains(rustix::fs::OFlags::CREATE) => file,
            _ => return,
        };
        let mode = rustix::fs::fstat(file).unwrap().st_mode & 0o777;
        if mode & !self.allowed != 0 {
            self.seen.push(format!("{mode:o} after {call:?}"));
        }
    }
}

#[test]
fn at_no_moment_may_more_users_open_a_file_than_in_the_end() {
    let setting = Setting::new();
    let path = setting.slow.join("file");
    let entries = [(OWNER, 6, NONE), (USER, 4, BIN), (GROUP, 0, NONE), (MASK, 4, NONE), (OTHERS, 0, NONE)];
    for (mode, has_list) in [(0o600, false), (0o640, false), (0o400, false), (0o640, true)] {
        let _ = fs::remove_file(&path);
        File::create(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        if has_list && !set_list(&path, ACCESS_LIST, &entries) {
            return;
        }
        let before = rights(&path);
        // The temporary file is written by its owner.
        let watch = Rc::new(RefCell::new(Widest { allowed: mode | 0o600, seen: Vec::new() }));
        disk::watch(Some(Rc::clone(&watch) as _));
        let sealed = setting.write(&path, b"private");
        disk::watch(None);
        assert!(sealed.durable().wait(LIMIT).unwrap());
        assert_eq!(rights(&path), before);
        assert!(watch.borrow().seen.is_empty(), "{:?}", watch.borrow().seen);
    }
}

/// Looks at each call before it is made, and may refuse it.
struct Hook<F>(F);

impl<F: FnMut(&Call<'_>) -> rustix::io::Result<()>> Watch for Hook<F> {
    fn before(&mut self, call: &Call<'_>) -> rustix::io::Result<()> {
        (self.0)(call)
    }

    fn after(&mut self, _: &Call<'_>, _: Option<BorrowedFd<'_>>) {}
}

/// Runs `body` while the calls of this thread are looked at.
fn hooked<T>(
    before: impl FnMut(&Call<'_>) -> rustix::io::Result<()> + 'static,
    body: impl FnOnce() -> T,
) -> T {
    disk::watch(Some(Rc::new(RefCell::new(Hook(before)))));
    let done = body();
    disk::watch(None);
    done
}

fn path_of(file: BorrowedFd<'_>) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap()
}

#[test]
fn a_file_that_is_made_private_while_its_next_version_is_synced_stays_private() {
    for is_recovered in [false, true] {
        let setting = Setting::new();
        let path = setting.slow.join("file");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let copy = setting.fast.with_file_name("copy");
        if is_recovered {
            setting.area.pause();
            setting.write(&path, b"new secret");
            assert!(Command::new("cp").arg("-a").arg(&setting.fast).arg(&copy).status().unwrap().success());
            setting.area.leave();
        }
        let destination = path.clone();
        let make_private = move |call: &Call<'_>| {
            if let Call::Sync { file } = call
                && path_of(*file).to_str().unwrap().contains(".file.forebay-")
            {
                fs::set_permissions(&destination, Permissions::from_mode(0o600)).unwrap();
            }
            Ok(())
        };
        hooked(make_private, || {
            if is_recovered {
                assert_eq!(recover(&copy, &RecoverOptions::default(), &on).unwrap().finished.len(), 1);
            } else {
                assert!(setting.write(&path, b"new secret").durable().is_set());
            }
        });
        assert_eq!((rights(&path).0, fs::read(&path).unwrap()), (0o600, b"new secret".to_vec()));
    }
}

/// Runs `body` as another user, in a thread of its own; false where this user may not.
fn as_user(user: u32, body: impl FnOnce() + Send + 'static) -> bool {
    if !rustix::process::geteuid().is_root() {
        eprintln!("only root becomes another user: nothing is tested");
        return false;
    }
    let run = thread::spawn(move || {
        // Of this thread alone.
        rustix::thread::set_thread_groups(&[]).unwrap();
        let group = Gid::from_raw(user);
        rustix::thread::set_thread_res_gid(group, group, group).unwrap();
        let user = Uid::from_raw(user);
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        body();
    });
    run.join().unwrap();
    true
}

/// Directories in which every user may make files.
fn open_to_all(setting: &Setting, slow_mode: u32) -> PathBuf {
    let fast = setting.fast.with_file_name("theirs");
    fs::create_dir(&fast).unwrap();
    let root = setting.slow.parent().unwrap();
    for (path, mode) in [(root, 0o755), (&setting.slow, slow_mode), (&fast, 0o1777)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    fast
}

const NOBODY: u32 = 65534;

#[test]
fn the_rights_of_a_group_are_at_no_moment_those_of_the_group_of_another_writer() {
    let setting = Setting::new();
    let fast = open_to_all(&setting, 0o777);
    let path = setting.slow.join("file");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o660)).unwrap();
    let entries = [(OWNER, 6, NONE), (USER, 6, NOBODY), (GROUP, 6, NONE), (MASK, 6, NONE), (OTHERS, 0, NONE)];
    if !set_list(&path, ACCESS_LIST, &entries) {
        return;
    }
    as_user(NOBODY, move || {
        let area = open_area(&fast);
        // What the owner may is for its owner in the end as well.
        let watch = Rc::new(RefCell::new(Widest { allowed: 0o600, seen: Vec::new() }));
        disk::watch(Some(Rc::clone(&watch) as _));
        let sealed = seal(area.create(&path, StageOptions::default()).unwrap(), b"private");
        disk::watch(None);
        assert!(sealed.durable().wait(LIMIT).unwrap());
        assert_eq!(rights(&path).0, 0o600);
        assert!(watch.borrow().seen.is_empty(), "{:?}", watch.borrow().seen);
    });
}

#[test]
fn a_file_of_another_user_in_a_sticky_directory_is_refused_when_it_is_opened() {
    let setting = Setting::new();
    let fast = open_to_all(&setting, 0o1777);
    let path = setting.slow.join("file");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    as_user(NOBODY, move || {
        assert!(OpenOptions::new().write(true).open(&path).is_ok(), "a plain write works");
        let area = open_area(&fast);
        let error = area.create(&path, StageOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        let own = path.with_file_name("own");
        for bytes in [b"one", b"two"] {
            let sealed = seal(area.create(&own, StageOptions::default()).unwrap(), bytes);
            assert!(sealed.durable().is_set());
        }
    });
}

/// The variable by which the test below runs itself in a user namespace, for the file in it.
const IN_NAMESPACE: &str = "FOREBAY_TEST_UNMAPPED_FILE";

#[test]
fn a_file_of_an_owner_without_a_number_in_this_user_namespace_is_replaced() {
    let name = "a_file_of_an_owner_without_a_number_in_this_user_namespace_is_replaced";
    if let Some(path) = std::env::var_os(IN_NAMESPACE) {
        let setting = Setting::new();
        let sealed = setting.write(Path::new(&path), b"new");
        assert!(sealed.durable().is_set(), "{:?}", sealed.durable().error());
        return;
    }
    let setting = Setting::new();
    let path = setting.slow.join("file");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let is_given = std::os::unix::fs::chown(&path, Some(1000), None).is_ok();
    let works = Command::new("unshare").args(["-U", "-r", "true"]).status();
    if !is_given || !works.is_ok_and(|status| status.success()) {
        eprintln!("there are no user namespaces here: nothing is tested");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let run = Command::new("unshare")
        .args(["-U", "-r"])
        .arg(program)
        .args(["--exact", name])
        .env(IN_NAMESPACE, &path)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn a_temporary_file_is_for_its_owner_alone_also_where_nothing_was_there_yet() {
    let setting = Setting::new();
    let path = setting.slow.join("file");
    let settings =
        AreaSettings { free_floor: 0, quota: 600, drainers: 0, ..AreaSettings::folder(&setting.fast) };
    let area = Area::open(settings).unwrap();
    let file = area.create(&path, StageOptions::default()).unwrap();
    file.write_at(0, &[b's'; 5000]).unwrap();
    let names: Vec<_> = fs::read_dir(&setting.slow).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names.len(), 1, "it went straight there");
    assert_eq!(rights(&names[0]).0, 0o600);
    // Another version comes first, and is made private.
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    assert!(file.seal().unwrap().durable().is_set());
    assert_eq!(rights(&path).0, 0o600);
}

#[test]
fn capabilities_and_set_id_bits_do_not_pass_to_other_bytes() {
    let setting = Setting::new();
    let path = setting.slow.join("program");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o4755)).unwrap();
    let has_attribute = rustix::fs::setxattr(&path, "user.kept", b"1", XattrFlags::empty()).is_ok();
    // `cap_net_raw+ep`, as root may set it.
    let capability = [[1, 0, 0, 2], [0, 32, 0, 0], [0; 4], [0; 4], [0; 4]].concat();
    let has_capability =
        rustix::fs::setxattr(&path, "security.capability", &capability, XattrFlags::empty()).is_ok();
    assert!(setting.write(&path, b"new").durable().wait(LIMIT).unwrap());
    assert_eq!(rights(&path).0, 0o755);
    let attribute = |name: &str| disk::path_xattr(&path, OsStr::new(name), 100).unwrap();
    assert_eq!(attribute("user.kept").is_some(), has_attribute);
    assert_eq!(attribute("security.capability"), None, "it had some before: {has_capability}");
}

#[test]
fn of_two_that_create_a_file_exclusively_the_second_is_refused_when_it_opens_it() {
    let setting = Setting::new();
    let other = open_area(&setting.fast);
    let path = setting.slow.join("claim");
    let file = setting.area.create(&path, exclusive()).unwrap();
    for area in [&setting.area, &other] {
        let error = area.create(&path, exclusive()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::EXIST.raw_os_error()), "{error}");
    }
    let plain = OpenOptions::new().write(true).create_new(true).open(&path);
    assert_eq!(plain.unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    assert!(seal(file, b"mine").durable().wait(LIMIT).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    assert!(other.create(&path, exclusive()).is_err());
    // A link has the name too, wherever it leads.
    let link = setting.slow.join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    assert!(setting.area.create(&link, exclusive()).is_err());
}

#[test]
fn a_name_that_was_taken_exclusively_is_free_again_when_the_file_is_given_up() {
    let setting = Setting::new();
    let path = setting.slow.join("claim");
    drop(setting.area.create(&path, exclusive()).unwrap());
    assert!(!path.exists());
    // What somebody has written there meanwhile is theirs.
    let file = setting.area.create(&path, exclusive()).unwrap();
    fs::write(&path, "theirs").unwrap();
    drop(file);
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
    fs::remove_file(&path).unwrap();
    let file = setting.area.create(&path, exclusive()).unwrap();
    fs::write(&path, "theirs").unwrap();
    let sealed = seal(file, b"mine");
    assert!(sealed.durable().error().is_some(), "it is not replaced");
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
}

#[test]
fn links_in_a_row_that_lead_nowhere_yet_are_all_followed() {
    let setting = Setting::new();
    fs::create_dir(setting.slow.join("deep")).unwrap();
    for (link, target) in [("one", "deep/two"), ("deep/two", "../three"), ("three", "real")] {
        std::os::unix::fs::symlink(target, setting.slow.join(link)).unwrap();
    }
    assert!(setting.write(&setting.slow.join("one"), b"bytes").durable().is_set());
    assert_eq!(fs::read(setting.slow.join("real")).unwrap(), b"bytes");
    for link in ["one", "deep/two", "three"] {
        assert!(fs::symlink_metadata(setting.slow.join(link)).unwrap().is_symlink());
    }
}

#[test]
fn recover_removes_the_empty_file_of_an_exclusive_creation_and_none_of_others() {
    // The kill comes at each of the calls: others make an empty file then, unless the name is taken.
    let mut taken = Vec::new();
    for at in 0.. {
        let setting = Setting::new();
        let path = setting.slow.join("file");
        let (fast, copy) = (setting.fast.clone(), setting.fast.with_file_name("copy"));
        let (mut calls, killed) = (0, Rc::new(RefCell::new(false)));
        let out = Rc::clone(&killed);
        let kill = move |_: &Call<'_>| {
            calls += 1;
            if calls == at + 1 {
                *out.borrow_mut() = true;
                if fast.exists() {
                    assert!(Command::new("cp").arg("-a").arg(&fast).arg(&copy).status().unwrap().success());
                }
            }
            // The process is dead from then on.
            if calls > at { Err(rustix::io::Errno::IO) } else { Ok(()) }
        };
        let create = || {
            let file = setting.area.create(&path, exclusive())?;
            file.write_at(0, b"x").map(|()| file)
        };
        let made = hooked(kill, create);
        if !*killed.borrow() {
            drop(made);
            break;
        }
        let is_taken = path.exists();
        taken.push(is_taken);
        let others = OpenOptions::new().write(true).create_new(true).open(&path);
        assert_eq!(others.is_ok(), !is_taken);
        let copy = setting.fast.with_file_name("copy");
        let recovered = recover(&copy, &RecoverOptions::default(), &on).unwrap();
        assert!(recovered.refused.is_empty(), "{recovered:?}");
        assert_eq!(path.exists(), !is_taken, "killed at call {at}");
        assert_eq!(fs::read_dir(&setting.slow).unwrap().count(), usize::from(!is_taken));
    }
    assert!(taken.contains(&true) && taken.contains(&false), "{taken:?}");
}

#[test]
fn a_file_goes_to_the_directory_that_it_was_opened_in() {
    let setting = Setting::new();
    let path = setting.slow.join("file");
    setting.area.pause();
    let sealed = setting.write(&path, b"bytes");
    let moved = setting.slow.with_file_name("moved");
    fs::rename(&setting.slow, &moved).unwrap();
    fs::create_dir(&setting.slow).unwrap();
    setting.area.drain(&on).unwrap();
    assert!(sealed.durable().is_set());
    assert_eq!(fs::read(moved.join("file")).unwrap(), b"bytes");
    assert_eq!(fs::read_dir(&setting.slow).unwrap().count(), 0);
}

#[test]
fn a_file_goes_to_a_directory_that_was_renamed_though_nothing_has_its_path() {
    for is_sealed_before in [true, false] {
        let setting = Setting::new();
        setting.area.pause();
        let file = setting.area.create(&setting.slow.join("file"), StageOptions::default()).unwrap();
        let moved = setting.slow.with_file_name("moved");
        let sealed = if is_sealed_before {
            let sealed = seal(file, b"bytes");
            fs::rename(&setting.slow, &moved).unwrap();
            sealed
        } else {
            fs::rename(&setting.slow, &moved).unwrap();
            seal(file, b"bytes")
        };
        setting.area.drain(&on).unwrap();
        assert!(sealed.durable().is_set());
        assert_eq!(fs::read(moved.join("file")).unwrap(), b"bytes");
    }
}

#[test]
fn the_link_to_the_latest_file_stays_with_a_directory_that_was_renamed() {
    for is_replaced in [false, true] {
        let setting = Setting::new();
        let options = StageOptions { latest: Some(setting.slow.join("latest")), ..StageOptions::default() };
        let file = setting.area.create(&setting.slow.join("file"), options).unwrap();
        let moved = setting.slow.with_file_name("moved");
        fs::rename(&setting.slow, &moved).unwrap();
        if is_replaced {
            fs::create_dir(&setting.slow).unwrap();
        }
        assert!(seal(file, b"bytes").durable().wait(LIMIT).unwrap());
        assert_eq!(fs::read(moved.join("latest")).unwrap(), b"bytes");
        assert!(!is_replaced || fs::read_dir(&setting.slow).unwrap().count() == 0);
    }
}

#[test]
fn a_link_elsewhere_is_not_moved_to_a_path_that_its_file_does_not_have() {
    let setting = Setting::new();
    let links = setting.slow.with_file_name("links");
    fs::create_dir(&links).unwrap();
    let options = || StageOptions { latest: Some(links.join("latest")), ..StageOptions::default() };
    let first = setting.area.create(&setting.slow.join("first"), options()).unwrap();
    assert!(seal(first, b"first").durable().wait(LIMIT).unwrap());
    assert_eq!(fs::read(links.join("latest")).unwrap(), b"first");
    let second = setting.area.create(&setting.slow.join("second"), options()).unwrap();
    fs::rename(&setting.slow, setting.slow.with_file_name("moved")).unwrap();
    assert!(seal(second, b"second").durable().wait(LIMIT).unwrap());
    assert_eq!(fs::read_link(links.join("latest")).unwrap(), setting.slow.join("first"));
}

#[test]
fn a_directory_that_another_node_removed_and_made_again_gets_the_file() {
    let setting = Setting::new();
    setting.area.pause();
    let sealed = setting.write(&setting.slow.join("file"), b"bytes");
    // As a network file system says of the descriptor of a directory that its server has no more.
    fs::rename(&setting.slow, setting.slow.with_file_name("gone")).unwrap();
    fs::create_dir(&setting.slow).unwrap();
    let mut is_first = true;
    let stale = move |call: &Call<'_>| match call {
        Call::Look { what: "fstat" } if std::mem::take(&mut is_first) => Err(rustix::io::Errno::STALE),
        _ => Ok(()),
    };
    hooked(stale, || setting.area.drain(&on).unwrap());
    assert!(sealed.durable().is_set());
    assert_eq!(fs::read(setting.slow.join("file")).unwrap(), b"bytes");
}

#[test]
fn a_staged_file_is_found_by_the_new_path_of_its_directory_and_not_by_the_old_one() {
    let setting = Setting::new();
    let other = open_area(&setting.fast);
    let path = setting.slow.join("file");
    setting.area.pause();
    setting.write(&path, b"bytes");
    let moved = setting.slow.with_file_name("moved");
    fs::rename(&setting.slow, &moved).unwrap();
    fs::create_dir(&setting.slow).unwrap();
    for area in [&setting.area, &other] {
        assert!(area.open_staged(&path).unwrap().is_none() && area.pending(&path).unwrap().is_none());
        drop(area.create(&path, exclusive()).unwrap());
        let renamed = moved.join("file");
        assert!(area.open_staged(&renamed).unwrap().is_some() && area.pending(&renamed).unwrap().is_some());
        assert!(area.create(&renamed, exclusive()).is_err());
    }
    setting.area.drain(&on).unwrap();
    assert_eq!(fs::read(moved.join("file")).unwrap(), b"bytes");
}

#[test]
fn recover_keeps_an_exclusive_creation_whose_directory_has_another_path_until_it_is_told() {
    for is_replaced in [false, true] {
        let setting = Setting::new();
        let path = setting.slow.join("file");
        let file = setting.area.create(&path, exclusive()).unwrap();
        let copy = setting.fast.with_file_name("copy");
        assert!(Command::new("cp").arg("-a").arg(&setting.fast).arg(&copy).status().unwrap().success());
        let moved = setting.slow.with_file_name("moved");
        fs::rename(&setting.slow, &moved).unwrap();
        if is_replaced {
            fs::create_dir(&setting.slow).unwrap();
            File::create(&path).unwrap();
        }
        let refused = recover(&copy, &RecoverOptions::default(), &on).unwrap().refused;
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(
            refused[0].error.as_ref().unwrap().contains("was renamed, replaced or removed"),
            "{refused:?}"
        );
        assert_eq!(path.exists(), is_replaced, "others made it");
        if is_replaced {
            fs::remove_dir_all(&setting.slow).unwrap();
        }
        fs::rename(&moved, &setting.slow).unwrap();
        assert_eq!(recover(&copy, &RecoverOptions::default(), &on).unwrap().discarded.len(), 1);
        assert!(!path.exists());
        drop(file);
    }
}

#[test]
fn recover_asks_where_another_directory_has_the_path() {
    let setting = Setting::new();
    let path = setting.slow.join("file");
    setting.area.pause();
    assert!(setting.write(&path, b"bytes").staged().is_set());
    setting.area.leave();
    let copy = setting.fast.with_file_name("copy");
    assert!(Command::new("cp").arg("-a").arg(&setting.fast).arg(&copy).status().unwrap().success());
    fs::rename(&setting.slow, setting.slow.with_file_name("moved")).unwrap();
    fs::create_dir(&setting.slow).unwrap();
    let refused = recover(&copy, &RecoverOptions::default(), &on).unwrap().refused;
    assert_eq!(refused.len(), 1);
    assert!(refused[0].error.as_ref().unwrap().contains("its directory was replaced"), "{refused:?}");
    let apply = RecoverOptions { apply: vec![refused[0].id.clone()], ..RecoverOptions::default() };
    assert_eq!(recover(&copy, &apply, &on).unwrap().finished.len(), 1);
    assert_eq!(fs::read(&path).unwrap(), b"bytes");
}

#[test]
fn a_program_that_is_durable_can_be_run() {
    let setting = Setting::new();
    let program = fs::read("/bin/true").unwrap();
    for number in 0..20 {
        let path = setting.slow.join(format!("program-{number}"));
        let mut made =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o755).open(&path).unwrap();
        made.write_all(b"#!").unwrap();
        drop(made);
        let threads = AreaSettings { free_floor: 0, ..AreaSettings::folder(&setting.fast) };
        let area = Area::open(threads).unwrap();
        let sealed = seal(area.create(&path, StageOptions::default()).unwrap(), &program);
        assert!(sealed.durable().wait(LIMIT).unwrap());
        let status = Command::new(&path).status();
        assert!(status.is_ok_and(|status| status.success()), "the kernel refuses what is open for writing");
    }
}
