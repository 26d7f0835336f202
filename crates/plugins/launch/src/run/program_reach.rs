//! Whether a preloaded library reaches a program, read from the program's file before it is started.
//!
//! The dynamic linker loads what `LD_PRELOAD` names: a static program has none, one that gains rights by its file (setuid, file
//! capabilities) ignores the variable, and Go makes its system calls without the C library.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use crate::exec::{find, interpreter};

/// Whether the hooks of a preloaded library see what a program does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramReach {
    /// They do, as far as its file tells.
    Reached,
    /// It has no dynamic linker.
    Static,
    /// It is written in Go.
    Go,
    /// It runs as another user or group.
    Setuid,
    /// It has file capabilities.
    Capabilities,
    /// It was built for another processor, or has 32 bits.
    OtherMachine,
    /// Its dynamic linker is not that of glibc.
    OtherLibc(String),
    /// Its file cannot be read, or is neither an ELF file nor a script.
    Unknown,
}

impl ProgramReach {
    /// What the user ought to know; nothing where the program is reached.
    pub fn why(&self) -> Option<String> {
        let why = match self {
            Self::Reached | Self::Unknown => return None,
            Self::Static => "it is a static program, which loads no libraries",
            Self::Go => "it is written in Go, which makes its system calls without the C library",
            Self::Setuid => "it is a setuid program, for which the system preloads no libraries",
            Self::Capabilities => "it has file capabilities, and the system preloads no libraries for it",
            Self::OtherMachine => "it was built for another processor than forebay",
            Self::OtherLibc(loader) => {
                return Some(format!("it is loaded by {loader}, not by that of glibc"));
            }
        };
        Some(why.to_owned())
    }

    /// How else files come from tiers for the program, or that they do not.
    pub fn other_way(&self) -> &'static str {
        match self {
            // The kernel asks for the user and group of the mount as the program's real, effective and saved ones.
            Self::Setuid => "nor does `forebay mount` serve it, which is for its own user and group alone",
            _ => "`forebay mount` reaches it",
        }
    }

    /// Whether preloading would keep the program from starting, so that it has to be left out.
    pub fn is_broken_by_preload(&self) -> bool {
        matches!(self, Self::OtherLibc(_))
    }
}

/// Scripts whose interpreters are scripts; the kernel follows no more.
const MOST_SCRIPTS: usize = 5;

/// The file that is run for `program`, with scripts followed to their interpreters, and whether it is reached.
pub fn program_reach(program: &OsStr) -> (PathBuf, ProgramReach) {
    let mut path = find(program).unwrap_or_else(|| program.into());
    for _ in 0..MOST_SCRIPTS {
        let Some(words) = interpreter(&path) else { break };
        let next = match &words[..] {
            // `env` looks its program up, after options and variables of its own.
            [first, rest @ ..] if Path::new(first).file_name() == Some(OsStr::new("env")) => {
                rest.iter().find(|word| !word.starts_with('-') && !word.contains('=')).unwrap_or(first)
            }
            [first, ..] => first,
            [] => break,
        };
        match find(OsStr::new(next)) {
            Some(found) => path = found,
            None => return (path, ProgramReach::Unknown),
        }
    }
    let reach = reach_of(&path).unwrap_or(ProgramReach::Unknown);
    (path, reach)
}

fn reach_of(path: &Path) -> io::Result<ProgramReach> {
    let facts = fs::metadata(path)?;
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let (setuid, setgid) = (facts.mode() & 0o4000 != 0, facts.mode() & 0o2010 == 0o2010);
    if (setuid && facts.uid() != user) || (setgid && facts.gid() != group) {
        return Ok(ProgramReach::Setuid);
    }
    let mut capability = [0; 64];
    if user != 0 && rustix::fs::getxattr(path, "security.capability", &mut capability).is_ok() {
        return Ok(ProgramReach::Capabilities);
    }
    reach_of_elf(&File::open(path)?)
}

/// The class, byte order and machine of this library's own ELF file.
const OWN_CLASS: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const OWN_MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
const INTERP: u32 = 3;
const NOTE: u32 = 4;
const PROGRAM_HEADER_LEN: usize = 56;
/// Notes and names of loaders are short; a file that says otherwise lies.
const MOST_BYTES: u64 = 1 << 16;

/// What the program headers of an ELF file say.
fn reach_of_elf(file: &File) -> io::Result<ProgramReach> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0)?;
    if !header.starts_with(b"\x7fELF") {
        return Ok(ProgramReach::Unknown);
    }
    if header[4] != OWN_CLASS
        || header[5] != LITTLE_ENDIAN
        || number::<2>(&header, 18) != u64::from(OWN_MACHINE)
    {
        return Ok(ProgramReach::OtherMachine);
    }
    let (start, len, count) = (number::<8>(&header, 32), number::<2>(&header, 54), number::<2>(&header, 56));
    let mut loader = None;
    for index in 0..count {
        let mut segment = [0; PROGRAM_HEADER_LEN];
        file.read_exact_at(&mut segment, start.saturating_add(index * len))?;
        let bytes = || segment_bytes(file, &segment);
        match u32::try_from(number::<4>(&segment, 0)).unwrap_or(0) {
            INTERP => loader = Some(bytes()?),
            NOTE if has_go_note(&bytes()?) => return Ok(ProgramReach::Go),
            _ => {}
        }
    }
    let Some(loader) = loader else { return Ok(ProgramReach::Static) };
    let loader =
        String::from_utf8_lossy(loader.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    let name = loader.rsplit('/').next().unwrap_or_default();
    if name.starts_with("ld-linux") || !name.starts_with("ld-") {
        return Ok(ProgramReach::Reached);
    }
    Ok(ProgramReach::OtherLibc(loader))
}

/// The bytes of a segment in the file.
fn segment_bytes(file: &File, segment: &[u8]) -> io::Result<Vec<u8>> {
    let (start, len) = (number::<8>(segment, 8), number::<8>(segment, 32).min(MOST_BYTES));
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// Whether one of the notes is that of Go's linker.
fn has_go_note(notes: &[u8]) -> bool {
    let mut rest = notes;
    while rest.len() >= 12 {
        let (name_len, text_len) = (number::<4>(rest, 0), number::<4>(rest, 4));
        let name = &rest[12..];
        if name_len == 4 && name.starts_with(b"Go\0\0") {
            return true;
        }
        let whole = name_len.next_multiple_of(4) + text_len.next_multiple_of(4);
        rest = usize::try_from(whole).ok().and_then(|whole| name.get(whole..)).unwrap_or_default();
    }
    false
}

/// The number of `N` bytes at `at`, which lies in `bytes`.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + N].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// An ELF file of this machine with these segments.
    fn elf(segments: &[(u32, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + segments.len() * 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18..20].copy_from_slice(&OWN_MACHINE.to_le_bytes());
        bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&u16::try_from(segments.len()).unwrap().to_le_bytes());
        for (index, (kind, content)) in segments.iter().enumerate() {
            let (at, offset) = (64 + index * 56, bytes.len() as u64);
            bytes[at..at + 4].copy_from_slice(&kind.to_le_bytes());
            bytes[at + 8..at + 16].copy_from_slice(&offset.to_le_bytes());
            bytes[at + 32..at + 40].copy_from_slice(&(content.len() as u64).to_le_bytes());
            bytes.extend_from_slice(content);
        }
        bytes
    }

    fn program(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn static_go_and_foreign_programs_are_told_from_those_that_are_reached() {
        let folder = tempfile::tempdir().unwrap();
        let go = b"\x04\0\0\0\x04\0\0\0\x04\0\0\0Go\0\0abcd";
        let gnu = b"\x04\0\0\0\x04\0\0\0\x03\0\0\0GNU\0abcd";
        let glibc = (INTERP, &b"/lib64/ld-linux-x86-64.so.2\0"[..]);
        let mut foreign = elf(&[]);
        foreign[4] = 1;
        let two_notes = [&gnu[..], &go[..]].concat();
        for (name, bytes, expected) in [
            ("reached", elf(&[(NOTE, &gnu[..]), glibc]), ProgramReach::Reached),
            ("static", elf(&[(NOTE, &gnu[..])]), ProgramReach::Static),
            ("go", elf(&[(NOTE, &go[..])]), ProgramReach::Go),
            ("cgo", elf(&[glibc, (NOTE, &two_notes[..])]), ProgramReach::Go),
            ("foreign", foreign, ProgramReach::OtherMachine),
            (
                "musl",
                elf(&[(INTERP, &b"/lib/ld-musl-x86_64.so.1\0"[..])]),
                ProgramReach::OtherLibc("/lib/ld-musl-x86_64.so.1".to_owned()),
            ),
            ("text", b"hello".repeat(20), ProgramReach::Unknown),
            ("empty", Vec::new(), ProgramReach::Unknown),
        ] {
            let path = program(&folder, name, &bytes);
            assert_eq!(program_reach(path.as_os_str()), (path.clone(), expected), "{name}");
        }
    }

    #[test]
    fn scripts_are_followed_to_what_runs_them() {
        let folder = tempfile::tempdir().unwrap();
        let inner = program(&folder, "static", &elf(&[]));
        let script = program(&folder, "script", format!("#!{} -u\n", inner.display()).as_bytes());
        let outer = program(&folder, "outer", format!("#! {}\n", script.display()).as_bytes());
        assert_eq!(program_reach(outer.as_os_str()), (inner, ProgramReach::Static));
        let env = program(&folder, "env-script", b"#!/usr/bin/env -S A=1 sh -e\n");
        let (found, reach) = program_reach(env.as_os_str());
        assert_eq!((found.file_name(), reach), (Some(OsStr::new("sh")), ProgramReach::Reached));
        let circle = folder.path().join("circle");
        program(&folder, "circle", format!("#!{}\n", circle.display()).as_bytes());
        assert_eq!(program_reach(circle.as_os_str()).1, ProgramReach::Unknown);
    }

    #[test]
    fn a_program_that_runs_as_another_user_is_not_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = program(&folder, "own", &elf(&[]));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(program_reach(path.as_os_str()).1, ProgramReach::Static, "it stays this user's");
        if !rustix::process::geteuid().is_root() {
            return;
        }
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        let reach = program_reach(path.as_os_str()).1;
        assert_eq!(reach, ProgramReach::Setuid);
        assert!(reach.other_way().starts_with("nor does"), "its ids are not those of a mount");
        assert!(ProgramReach::Static.other_way().contains("reaches it"));
    }

    #[test]
    fn a_file_that_lies_about_its_parts_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = elf(&[(INTERP, b"/lib64/ld-linux-x86-64.so.2\0")]);
        bytes[64 + 8..64 + 16].copy_from_slice(&u64::MAX.to_le_bytes());
        let path = program(&folder, "lies", &bytes);
        assert_eq!(program_reach(path.as_os_str()).1, ProgramReach::Unknown);
        assert!(!has_go_note(&[0xff; 40]), "lengths beyond the end");
    }
}
