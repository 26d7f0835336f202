//! Every function of the C library that has to do with files and that programs of the field use is hooked, or needs no hook.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::exported_names;

/// Functions that need no hook, by the reason.
const SAFE: &[(&str, &str)] = &[
    (
        "take a path: names are the origin's and lead to it",
        "chroot mkdtemp mkfifo mkfifoat mknod mknodat __xmknod __xmknodat __readlink_chk \
         __readlinkat_chk realpath __realpath_chk canonicalize_file_name link symlink symlinkat mkdir mkdirat rmdir pathconf \
         getcwd __getcwd_chk get_current_dir_name",
    ),
    (
        "change names alone: a copy belongs to a version of a file under its name, and what is open stays open",
        "rename renameat renameat2 remove unlink unlinkat",
    ),
    (
        "are about folders, of which there are no copies",
        "fdopendir closedir readdir readdir64 readdir_r readdir64_r rewinddir seekdir telldir dirfd scandir scandir64 scandirat \
         alphasort alphasort64 glob glob64 globfree globfree64 ftw ftw64 nftw nftw64 fts_open fts_read fts_close",
    ),
    (
        "write, by descriptors that are never managed",
        "ftruncate ftruncate64 fallocate fallocate64 \
         posix_fallocate posix_fallocate64 fsync fdatasync sync syncfs sync_file_range msync umask",
    ),
    (
        "read a stream, whose descriptor is open on a copy or on the origin",
        "fdopen fread fread_unlocked __fread_chk __fread_unlocked_chk fgetc fgetc_unlocked getc getc_unlocked _IO_getc fgets \
         fgets_unlocked __fgets_chk __fgets_unlocked_chk getline getdelim __getdelim ungetc fscanf __isoc99_fscanf \
         __isoc23_fscanf vfscanf __isoc99_vfscanf fseek fseeko fseeko64 ftell ftello ftello64 rewind fgetpos fgetpos64 fsetpos \
         fsetpos64 fflush fflush_unlocked fwrite fwrite_unlocked fputc fputs putc fputs_unlocked fileno fileno_unlocked feof ferror setvbuf setbuf \
         flockfile funlockfile ftrylockfile fputwc fgetwc getwc fgetws fopencookie fmemopen open_memstream popen pclose \
         tmpfile tmpfile64 tmpnam tempnam perror scanf __isoc99_scanf fwide clearerr __fpending __fsetlocking __uflow __overflow",
    ),
    (
        "make descriptors that are no files under the prefix; a slot that has the same number is compared with its file first",
        "shm_open shm_unlink eventfd_read eventfd_write timerfd_settime timerfd_gettime \
         inotify_add_watch inotify_rm_watch openpty forkpty ttyname ttyname_r posix_openpt ptsname ptsname_r mq_open mq_close pidfd_open userfaultfd",
    ),
    (
        "fork: handlers of a fork run, or the child is told by its token",
        "fork _Fork __register_atfork pthread_atfork",
    ),
    (
        "start another program: descriptors that it inherits are the kernel's, with one position for all who share them",
        "vfork posix_spawn posix_spawnp posix_spawn_file_actions_addclose posix_spawn_file_actions_adddup2 \
         posix_spawn_file_actions_addopen posix_spawn_file_actions_destroy posix_spawn_file_actions_init \
         posix_spawn_file_actions_addclosefrom_np posix_spawn_file_actions_addchdir_np posix_spawn_file_actions_addfchdir_np \
         posix_spawnattr_destroy posix_spawnattr_init posix_spawnattr_setflags posix_spawnattr_setpgroup \
         posix_spawnattr_setschedparam posix_spawnattr_setschedpolicy posix_spawnattr_setsigdefault posix_spawnattr_setsigmask \
         execl execle execlp system",
    ),
    (
        "read by the kernel past any hook: the origin's bytes, or those of a copy that is open",
        "splice tee vmsplice readahead io_submit io_setup syscall aio_read aio_read64 aio_error aio_return aio_suspend lio_listio",
    ),
    (
        "are about memory that is mapped, whichever file it shows",
        "madvise posix_madvise mincore mlock mlock2 mlockall munlock process_vm_readv",
    ),
    (
        "ask or set what does not depend on the bytes of a file",
        "fpathconf isatty select pselect poll ppoll epoll_ctl epoll_wait recvmsg getdtablesize",
    ),
    (
        "open files of the system's own",
        "dlopen dlmopen dlclose dladdr catopen catgets catclose openlog closelog setlocale newlocale getpwnam getpwuid \
         getpwuid_r getpwnam_r getpwent setpwent endpwent getspent getspnam getservbyname getservbyport getservbyname_r \
         getservbyport_r setmntent getmntent getmntent_r endmntent iconv_open iconv_close bindtextdomain",
    ),
];

/// Parts of names by which a function has to do with files.
const ABOUT_FILES: &[&str] = &[
    "open",
    "read",
    "write",
    "stat",
    "seek",
    "mmap",
    "map",
    "dup",
    "close",
    "fcntl",
    "flock",
    "lockf",
    "advise",
    "rename",
    "link",
    "trunc",
    "sendfile",
    "copy_file",
    "splice",
    "fd",
    "dir",
    "xattr",
    "chmod",
    "chown",
    "utime",
    "sync",
    "fallocate",
    "ioctl",
    "spawn",
    "fork",
    "exec",
    "uring",
    "aio_",
    "temp",
    "access",
    "glob",
    "ftw",
    "fts_",
    "tmpfile",
    "getc",
    "gets",
    "fflush",
    "getline",
    "scanf",
    "umask",
    "chroot",
    "path",
];

/// Functions whose names have such a part and that have nothing to do with files.
const OTHERS: &[&str] = &[
    "pthread_",
    "sem_",
    "sched_",
    "strdup",
    "strndup",
    "__strdup",
    "__strndup",
    "wcsdup",
    "sscanf",
    "swscanf",
    "vsscanf",
    "trunc",
    "truncf",
    "truncl",
    "FD_",
    "__fdelt",
    "feupdateenv",
    "getcontext",
    "setcontext",
    "makecontext",
    "swapcontext",
    "fdim",
    "getsockopt",
    "res_",
    "ns_",
    "if_",
    "thrd_",
    "mtx_",
    "cnd_",
    "tss_",
    "atomic_",
    "__sched",
    "__pthread",
    "__isoc99_sscanf",
    "__isoc23_sscanf",
    "__isoc99_vsscanf",
    "__isoc99_swscanf",
    "lgamma",
    "__res",
    "__fread_chk",
    "uname",
    "getchar",
    "getsid",
    "getsockname",
    "gettimeofday",
    "malloc_stats",
    "fdimf",
    "fdiml",
    "backtrace_symbols_fd",
    "gnu_get",
];

fn is_about_files(name: &str) -> bool {
    let is_other = OTHERS.iter().any(|other| {
        if other.ends_with('_') || other.starts_with("__") { name.starts_with(other) } else { name == *other }
    });
    !name.starts_with("_Z") && !is_other && ABOUT_FILES.iter().any(|part| name.contains(part))
}

/// Libraries that one `nm` looks at: to start it takes longer than to look at most of them.
const AT_ONCE: usize = 200;

/// What `nm` lists of the dynamic symbols of libraries, each with its library.
fn symbols_of_all(kind: &str, libraries: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for some in libraries.chunks(AT_ONCE) {
        let output = Command::new("nm").args(["-D", "-A", kind]).args(some).output().unwrap();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Some((library, rest)) = line.split_once(':') else { continue };
            found.extend(rest.split_whitespace().last().map(|name| (library.into(), name.to_owned())));
        }
    }
    found
}

/// Libraries below `folder`.
fn libraries(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_library = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => libraries(&path, found),
            Ok(kind) if kind.is_file() && is_library => found.push(path),
            _ => {}
        }
    }
}

/// Packages whose libraries are looked at, where an interpreter has them.
const PACKAGES: &str = "h5py torch pyarrow tensorflow numpy netCDF4 PIL tables safetensors";
/// Those that `make test` has, in environments of their own.
const FIELD: [&str; 4] = ["h5py", "torch", "pyarrow", "tensorflow"];
/// Interpreters that together have the packages of the field, as paths between colons. Without it: that of the tests, with h5py.
const PYTHONS: &str = "FOREBAY_SCANNED_PYTHONS";

/// An interpreter, its library and modules by the name "CPython", and the packages that it has by theirs.
fn programs_of(python: &str, found: &mut BTreeMap<String, Vec<PathBuf>>) {
    let script = "import sys, os, sysconfig as s, importlib.util as u\n\
        own = os.path.join(s.get_config_var('LIBDIR'), s.get_config_var('LDLIBRARY'))\n\
        for path in os.path.realpath(sys.executable), own, s.get_config_var('DESTSHARED'): print('CPython', path)\n\
        for name in sys.argv[1].split():\n\
        \x20   spec = u.find_spec(name)\n\
        \x20   if spec: print(name, os.path.dirname(spec.origin)); print(name, os.path.dirname(spec.origin).lower() + '.libs')\n";
    let output = Command::new(python).args(["-c", script, PACKAGES]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (name, path) = line.split_once(' ').unwrap();
        let (path, of_name) = (PathBuf::from(path), found.entry(name.to_owned()).or_default());
        if path.is_dir() {
            libraries(&path, of_name)
        } else if path.is_file() {
            of_name.push(path)
        }
    }
}

/// All of it that is looked at.
fn programs() -> Vec<PathBuf> {
    let mut found = BTreeMap::new();
    let named = std::env::var(PYTHONS);
    let wanted = if named.is_ok() { &FIELD[..] } else { &FIELD[..1] };
    let own = std::env::var("FOREBAY_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    named.unwrap_or(own).split(':').for_each(|python| programs_of(python, &mut found));
    for name in wanted.iter().chain(&["CPython"]) {
        assert!(found.get(*name).is_some_and(|paths| !paths.is_empty()), "there is no library of {name}");
    }
    found.into_values().flatten().collect()
}

#[test]
fn every_function_for_files_that_programs_of_the_field_import_is_hooked_or_safe() {
    let hooked: BTreeSet<String> = exported_names().into_iter().collect();
    let safe: BTreeSet<&str> = SAFE.iter().flat_map(|(_, names)| names.split_whitespace()).collect();
    let twice: Vec<_> = safe.iter().filter(|name| hooked.contains(**name)).collect();
    assert!(twice.is_empty(), "hooked and said to be safe: {twice:?}");
    let mut missing = BTreeMap::new();
    for (program, symbol) in symbols_of_all("--undefined-only", &programs()) {
        let Some((name, version)) = symbol.split_once('@') else { continue };
        let is_known = hooked.contains(name) || safe.contains(name);
        if version.trim_start_matches('@').starts_with("GLIBC_") && is_about_files(name) && !is_known {
            missing.entry(name.to_owned()).or_insert(program);
        }
    }
    assert!(
        missing.is_empty(),
        "neither hooked nor listed as safe, each with a library that imports it: {missing:#?}"
    );
}

#[test]
fn functions_for_files_are_told_from_others() {
    for name in
        ["open64", "preadv64v2", "copy_file_range", "fgets", "posix_spawn", "io_uring_setup", "__read_chk"]
    {
        assert!(is_about_files(name), "{name}");
    }
    for name in ["pthread_create", "strdup", "malloc", "truncf", "sscanf", "_ZNSi4readEPcl", "memcpy"] {
        assert!(!is_about_files(name), "{name}");
    }
}
