//! Hash table of blocks in a shard, which the ranks that place blocks in it write and all ranks of the job read.
//!
//! ```text
//! word 0: slots that are taken │ entries, 64 bytes each, twice as many as slots │ slots
//! ```
//!
//! An entry is claimed by a compare-and-swap of its state, filled in, and then marked as written; written ones never change. The
//! layout has no version and uses the byte order of the machine: a table lives no longer than its job, whose ranks run one build.

#![expect(unsafe_code, reason = "words in memory that other processes read and write at the same time")]

use std::{
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use forebay_process::Result;
use forebay_store::ShardMemory;

use crate::block_digest::BlockDigest;

/// Bytes of an entry: a cache line.
pub(crate) const ENTRY_LEN: usize = 64;
const ENTRY_WORDS: usize = ENTRY_LEN / 8;
/// Entries that a block may stand in, one after the other: of a table that is half full, one block of 10,000 finds none.
pub(crate) const PROBED: usize = 8;
/// Slots begin on a page.
const PAGE: u64 = 4096;
/// Bytes of a block that are compared at a time.
const COMPARED_STEP: usize = 16 << 10;
const CLAIMED: u64 = 1;
const WRITTEN: u64 = 2;
const STATUS_BITS: u32 = 2;
const TIME_BITS: u32 = 32;

/// How many slots a table has, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableShape {
    pub(crate) slots: u64,
    pub(crate) slot_len: u64,
}

impl TableShape {
    /// As many slots as `quota` bytes have room for.
    pub(crate) fn new(quota: u64, slot_len: u64) -> Self {
        let slot_len = slot_len.max(1);
        Self { slots: quota / slot_len, slot_len }
    }

    fn entries(self) -> u64 {
        self.slots.saturating_mul(2)
    }

    /// Bytes that blocks may take.
    pub(crate) fn quota(self) -> u64 {
        self.slots * self.slot_len
    }

    /// Bytes of the whole.
    pub(crate) fn byte_len(self) -> u64 {
        if self.slots == 0 {
            0
        } else {
            self.slot_at(0).saturating_add(self.slots.saturating_mul(self.slot_len))
        }
    }

    /// The entries that a block may stand in, as ranges that lie side by side: two where it begins near the end.
    pub(crate) fn probed(self, name: BlockDigest) -> impl Iterator<Item = u64> + Clone {
        let (entries, first) = (self.entries(), name.place.checked_rem(self.entries()).unwrap_or(0));
        (0..(PROBED as u64).min(entries)).map(move |step| (first + step) % entries)
    }

    /// Where `entry` lies in the shard.
    pub(crate) fn entry_at(self, entry: u64) -> u64 {
        (entry + 1).saturating_mul(ENTRY_LEN as u64)
    }

    /// Where `slot` lies in the shard.
    pub(crate) fn slot_at(self, slot: u64) -> u64 {
        let entries = self.entry_at(self.entries()).next_multiple_of(PAGE);
        entries.saturating_add(slot.saturating_mul(self.slot_len))
    }
}

/// Where the bytes of a block lie in a shard, and what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotPlace {
    pub(crate) slot: u64,
    pub(crate) len: u64,
    pub(crate) checksum: u32,
    /// The process that placed it.
    pub(crate) placer: u32,
}

/// Whether a block may be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryClaim {
    /// By the caller, in this entry.
    Held(u64),
    /// Another process is placing it.
    Busy,
    /// It is there.
    Here,
    /// There is no entry for it, or one that was abandoned.
    Full,
}

/// A table in memory that this process has mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockTable<'a> {
    memory: &'a ShardMemory,
    shape: TableShape,
}

impl<'a> BlockTable<'a> {
    /// The table in `memory`; `None` where that is too short for it.
    pub(crate) fn of(memory: &'a ShardMemory, shape: TableShape) -> Option<Self> {
        (shape.slots > 0 && memory.len() >= shape.byte_len()).then_some(Self { memory, shape })
    }

    /// A word of the shard, `at` bytes from its start.
    fn word(self, at: u64) -> &'a AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.shape.slot_at(0), "a word before the slots");
        let at = usize::try_from(at).expect("a place in a mapping");
        // SAFETY: a word of a mapping, aligned as the mapping is to a page, that lives as long as the reference; `of` has compared
        // the lengths. All use of these words is atomic.
        unsafe { AtomicU64::from_ptr(self.memory.address().add(at).cast::<u64>()) }
    }

    fn entry_word(self, entry: u64, index: u64) -> &'a AtomicU64 {
        self.word(self.shape.entry_at(entry) + index * 8)
    }

    /// Slots that are taken.
    pub(crate) fn taken(self) -> u64 {
        self.word(0).load(Relaxed).min(self.shape.slots)
    }

    /// True while a slot is free.
    pub(crate) fn has_room(self) -> bool {
        self.taken() < self.shape.slots
    }

    /// True while an entry is free in which `name` may stand.
    pub(crate) fn has_entry(self, name: BlockDigest) -> bool {
        self.shape.probed(name).any(|entry| self.entry_word(entry, 0).load(Relaxed) == 0)
    }

    /// Where the block `name` lies, if it is here.
    pub(crate) fn find(self, name: BlockDigest) -> Option<SlotPlace> {
        self.shape.probed(name).find_map(|entry| {
            let state = self.entry_word(entry, 0).load(Acquire);
            if state & 3 != WRITTEN || tag_of(state) != tag(name) {
                return None;
            }
            let words = std::array::from_fn(|index| self.entry_word(entry, index as u64).load(Relaxed));
            EntryWords(words).place_of(name)
        })
    }

    /// Claims an entry for `name`. A claim of another process that is older than `abandoned_s` seconds was left behind.
    pub(crate) fn claim(self, name: BlockDigest, abandoned_s: u64) -> EntryClaim {
        if self.find(name).is_some() {
            return EntryClaim::Here;
        }
        let mine = tag(name) << (STATUS_BITS + TIME_BITS) | now_s() << STATUS_BITS | CLAIMED;
        // Each time around another process has taken an entry: there are few.
        for _ in 0..=PROBED {
            let mut free = None;
            for entry in self.shape.probed(name) {
                let state = self.entry_word(entry, 0).load(Acquire);
                match state & 3 {
                    0 => free = free.or(Some(entry)),
                    CLAIMED if tag_of(state) == tag(name) => {
                        let age = now_s().wrapping_sub(state >> STATUS_BITS & u64::from(u32::MAX));
                        return if age <= abandoned_s { EntryClaim::Busy } else { EntryClaim::Full };
                    }
                    // It was placed since it was looked for.
                    WRITTEN if tag_of(state) == tag(name) && self.find(name).is_some() => {
                        return EntryClaim::Here;
                    }
                    _ => {}
                }
            }
            let Some(entry) = free.filter(|_| self.has_room()) else { return EntryClaim::Full };
            if self.entry_word(entry, 0).compare_exchange(0, mine, Acquire, Relaxed).is_ok() {
                return EntryClaim::Held(entry);
            }
        }
        EntryClaim::Full
    }

    /// Places `bytes` of `name` and fills in `entry`, which the caller has claimed; `None` where no slot is left.
    pub(crate) fn place(self, entry: u64, name: BlockDigest, bytes: &[u8]) -> Option<SlotPlace> {
        let (slots, len) = (self.shape.slots, bytes.len() as u64);
        if len > self.shape.slot_len {
            return None;
        }
        let taken = self.word(0).fetch_update(Relaxed, Relaxed, |next| (next < slots).then_some(next + 1));
        let slot = taken.ok()?;
        self.memory.write(self.shape.slot_at(slot), bytes).ok()?;
        let place = SlotPlace { slot, len, checksum: crc32c::crc32c(bytes), placer: std::process::id() };
        let EntryWords(words) = EntryWords::of(name, place);
        for (index, word) in words.into_iter().enumerate().skip(1) {
            self.entry_word(entry, index as u64).store(word, Relaxed);
        }
        // Who reads this state reads what was written before it.
        self.entry_word(entry, 0).store(words[0], Release);
        Some(place)
    }

    /// Gives back `entry`, which the caller has claimed and not filled in.
    pub(crate) fn release(self, entry: u64) {
        self.entry_word(entry, 0).store(0, Release);
    }

    /// True when the block at `place` is what its checksum says.
    pub(crate) fn is_right(self, place: SlotPlace) -> bool {
        let (mut at, mut sum, mut buffer) = (0, 0, [0; COMPARED_STEP]);
        while at < place.len {
            let part = usize::try_from(place.len - at).unwrap_or(COMPARED_STEP).min(COMPARED_STEP);
            if self.copy_to(place, at, &mut buffer[..part]).is_err() {
                return false;
            }
            sum = crc32c::crc32c_append(sum, &buffer[..part]);
            at += part as u64;
        }
        sum == place.checksum
    }

    /// Copies bytes of the block at `place`, from byte `from` of it on.
    pub(crate) fn copy_to(self, place: SlotPlace, from: u64, into: &mut [u8]) -> Result<()> {
        self.memory.copy_to(self.shape.slot_at(place.slot) + from, into)
    }
}

/// The words of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryWords([u64; ENTRY_WORDS]);

impl EntryWords {
    fn of(name: BlockDigest, place: SlotPlace) -> Self {
        let state = tag(name) << (STATUS_BITS + TIME_BITS) | WRITTEN;
        let mut words = [state, name.place, name.rest, place.slot, place.len, 0, 0, 0];
        words[5] = u64::from(place.checksum) | u64::from(place.placer) << 32;
        words[6] = Self(words).own_checksum();
        Self(words)
    }

    /// As they were read from another host.
    pub(crate) fn from_bytes(bytes: &[u8; ENTRY_LEN]) -> Self {
        let word = |index: usize| {
            u64::from_ne_bytes(bytes[index * 8..index * 8 + 8].try_into().expect("eight bytes"))
        };
        Self(std::array::from_fn(word))
    }

    fn own_checksum(self) -> u64 {
        let sum = self.0[..6].iter().fold(0, |sum, word| crc32c::crc32c_append(sum, &word.to_ne_bytes()));
        u64::from(sum) | 1 << 32
    }

    /// Where the block `name` lies, if this is its entry and all of it was written.
    pub(crate) fn place_of(self, name: BlockDigest) -> Option<SlotPlace> {
        let Self([state, place, rest, slot, len, sums, own, _]) = self;
        let is_it = state & 3 == WRITTEN && place == name.place && rest == name.rest;
        let low = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        (is_it && own == self.own_checksum()).then(|| SlotPlace {
            slot,
            len,
            checksum: low(sums),
            placer: low(sums >> 32),
        })
    }
}

/// The bits of a name that stand in the state of its entry.
fn tag(name: BlockDigest) -> u64 {
    name.rest >> (STATUS_BITS + TIME_BITS)
}

fn tag_of(state: u64) -> u64 {
    state >> (STATUS_BITS + TIME_BITS)
}

/// Seconds of a clock that all processes of a host read alike.
fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    now & u64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use forebay_store::ShardPlace;

    use super::*;

    fn name(number: u64) -> BlockDigest {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        BlockDigest { place: mixed, rest: mixed.rotate_left(31) ^ number }
    }

    #[test]
    fn all_slots_are_used_and_each_block_is_found_again() {
        let shape = TableShape::new(100 * 64, 64);
        let memory = ShardMemory::new(shape.byte_len(), &ShardPlace::Memory).unwrap();
        let table = BlockTable::of(&memory, shape).unwrap();
        let mut kept = Vec::new();
        for number in 0..200 {
            match table.claim(name(number), 30) {
                EntryClaim::Held(entry) => {
                    assert_eq!(table.claim(name(number), 30), EntryClaim::Busy);
                    let bytes = [u8::try_from(number).unwrap(); 64];
                    kept.extend(table.place(entry, name(number), &bytes).map(|place| (number, place)));
                }
                other => assert_eq!(other, EntryClaim::Full),
            }
        }
        assert!(kept.len() >= 98 && table.taken() == kept.len() as u64, "{}", kept.len());
        for (number, place) in kept {
            assert_eq!(table.find(name(number)), Some(place));
            assert_eq!(table.claim(name(number), 30), EntryClaim::Here);
            let mut bytes = [0; 10];
            table.copy_to(place, 5, &mut bytes).unwrap();
            assert_eq!(bytes, [u8::try_from(number).unwrap(); 10]);
        }
        assert_eq!(table.find(name(1000)), None);
    }

    #[test]
    fn a_claim_that_is_given_up_frees_its_entry_and_takes_no_slot() {
        let shape = TableShape::new(64, 64);
        let memory = ShardMemory::new(shape.byte_len(), &ShardPlace::Memory).unwrap();
        let table = BlockTable::of(&memory, shape).unwrap();
        for _ in 0..10 {
            let EntryClaim::Held(entry) = table.claim(name(1), 30) else { unreachable!("it is free") };
            table.release(entry);
        }
        assert!(table.has_room() && table.find(name(1)).is_none());
        assert!(BlockTable::of(&memory, TableShape::new(1 << 20, 64)).is_none());
    }

    #[test]
    fn an_entry_that_is_just_being_written_is_none() {
        let place = SlotPlace { slot: 3, len: 64, checksum: 7, placer: 9 };
        let EntryWords(words) = EntryWords::of(name(1), place);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let parsed = |bytes: &[u8]| EntryWords::from_bytes(bytes.try_into().unwrap()).place_of(name(1));
        assert_eq!(parsed(&bytes), Some(place));
        assert_eq!(EntryWords::from_bytes(&bytes[..].try_into().unwrap()).place_of(name(2)), None);
        for at in 0..56 {
            let mut torn = bytes.clone();
            torn[at] ^= 0x10;
            assert_eq!(parsed(&torn), None, "byte {at}");
        }
    }

    #[test]
    fn threads_that_claim_the_same_blocks_place_each_once() {
        let shape = TableShape::new(512 * 64, 64);
        let memory = ShardMemory::new(shape.byte_len(), &ShardPlace::Memory).unwrap();
        let placed: usize = std::thread::scope(|scope| {
            let work = || {
                let table = BlockTable::of(&memory, shape).unwrap();
                let claim = |number: u64| match table.claim(name(number), 30) {
                    EntryClaim::Held(entry) => table.place(entry, name(number), &[1; 64]).is_some(),
                    _ => false,
                };
                (0..256).filter(|number| claim(*number)).count()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(placed, 256);
    }
}
