//! Symbols that a program does not export: those of a libhdf5 that is linked into it, read from the table in its file (ELF `.symtab`).
//!
//! The table is there unless the program was stripped, and is not loaded with it.

use std::{collections::HashMap, fs::File, os::unix::fs::FileExt};

/// The program that runs, whatever became of its file's name.
const PROGRAM: &str = "/proc/self/exe";
/// What names of HDF5 begin with.
const PREFIX: &[u8] = b"H5";
/// No table of a program is longer.
const MOST_BYTES: u64 = 1 << 30;

/// `SHT_SYMTAB`
const SYMBOLS: u32 = 2;
/// `ET_DYN`: addresses count from where the program was loaded.
const POSITION_INDEPENDENT: u16 = 3;
/// Bytes of the file's header, of a section's, and of a symbol.
const HEADER_LEN: usize = 64;
const SECTION_LEN: u64 = 64;
const SYMBOL_LEN: usize = 24;

/// Where the program has symbols of HDF5, by their names.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    addresses: HashMap<Vec<u8>, u64>,
}

impl SymbolTable {
    /// The symbols of the program, which was loaded at `base`; none where its file cannot be read or has no table.
    pub(crate) fn of_program(base: usize) -> Self {
        let addresses = File::open(PROGRAM).ok().and_then(|file| read(&file, base as u64));
        Self { addresses: addresses.unwrap_or_default() }
    }

    /// The address of `name`.
    pub(crate) fn find(&self, name: &[u8]) -> Option<u64> {
        self.addresses.get(name).copied()
    }
}

fn read(file: &File, base: u64) -> Option<HashMap<Vec<u8>, u64>> {
    let header = bytes(file, 0, HEADER_LEN as u64)?;
    // 64-bit numbers, the least significant byte first.
    if header.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let bias = if u16_at(&header, 16)? == POSITION_INDEPENDENT { base } else { 0 };
    let (sections, count) = (u64_at(&header, 40)?, u64::from(u16_at(&header, 60)?));
    let section = |index: u64| bytes(file, sections.checked_add(index * SECTION_LEN)?, SECTION_LEN);
    let table = (0..count).filter_map(section).find(|section| u32_at(section, 4) == Some(SYMBOLS))?;
    let content = |section: &[u8]| bytes(file, u64_at(section, 24)?, u64_at(section, 32)?);
    let names = content(&section(u64::from(u32_at(&table, 40)?))?)?;
    let mut found = HashMap::new();
    for symbol in content(&table)?.chunks_exact(SYMBOL_LEN) {
        let (name, is_defined) = (u32_at(symbol, 0)?, u16_at(symbol, 6)? != 0);
        let name = names.get(usize::try_from(name).ok()?..)?.split(|byte| *byte == 0).next()?;
        if is_defined && name.starts_with(PREFIX) {
            found.insert(name.to_vec(), bias.checked_add(u64_at(symbol, 8)?)?);
        }
    }
    Some(found)
}

fn bytes(file: &File, at: u64, len: u64) -> Option<Vec<u8>> {
    let mut found = vec![0; usize::try_from(len).ok().filter(|_| len <= MOST_BYTES)?];
    file.read_exact_at(&mut found, at).ok()?;
    Some(found)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|found| u16::from_le_bytes(*found))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|found| u32::from_le_bytes(*found))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|found| u64::from_le_bytes(*found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_program_of_this_kind_has_no_symbols() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for content in [&b""[..], b"#!/bin/sh\n", &[b"\x7fELF\x02\x01".as_slice(), &[0xff; 200]].concat()] {
            std::fs::write(&path, content).unwrap();
            assert!(read(&File::open(&path).unwrap(), 0).is_none_or(|found| found.is_empty()));
        }
    }
}
