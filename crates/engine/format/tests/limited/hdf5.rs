//! HDF5 files whose sound structures lead to each other again and again.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use forebay_container::{Container, Selection};
use forebay_format::{Opened, describe};
use forebay_process::{Error, ErrorKind};
use forebay_source::{Locator, MemoryOrigin, Origin, Source, SourceId};

use crate::{
    play,
    skeleton::{self, Entry, Message, Name, Skeleton, Type, kind},
};

/// The description of a file, or why there is none.
fn described(bytes: Vec<u8>) -> Result<Container, Error> {
    describe(&MemoryOrigin::default().with("f.h5", bytes), &Locator::new("f.h5"))
}

fn open(bytes: Vec<u8>) -> Opened {
    let origin = Arc::new(MemoryOrigin::default().with("f.h5", bytes));
    let container = describe(&*origin, &Locator::new("f.h5")).unwrap();
    Opened::new(origin, Arc::new(container))
}

/// A group of `links`.
fn group(links: &[Message]) -> Vec<u8> {
    skeleton::header(links)
}

fn variable(dtype: &[u8], shape: &[u64], layout: Message) -> Vec<Message> {
    vec![
        Message::new(kind::DATASPACE, skeleton::space(shape)),
        Message::new(kind::DATATYPE, dtype.to_vec()),
        layout,
    ]
}

/// Each of 4,000 references leads to the same 4,000 references, three levels deep: 64 GB of values.
#[test]
fn sequences_of_sequences_that_lead_to_each_other_end_at_the_allowance() {
    play("nested sequences");
}

pub(crate) fn nested_sequences() {
    let mut file = Skeleton::default();
    let heap = file.next();
    file.push(&skeleton::heap(&[skeleton::reference(4000, heap, 1).repeat(4000)]));
    let dtype = skeleton::sequence(&skeleton::sequence(&skeleton::sequence(&skeleton::integer(1))));
    let value = skeleton::reference(4000, heap, 1);
    let at = file.push(&value);
    let attribute = skeleton::attribute("a", &Type::Own(&dtype), &[1], &value);
    let variable = file.push(&skeleton::header(&variable(&dtype, &[1], skeleton::contiguous(at, 16))));
    let root = file.push(&group(&[skeleton::link("v", variable), attribute]));
    let bytes = file.finish(root);
    assert!(bytes.len() < 70_000);
    let opened = open(bytes);
    let value = &opened.container().groups[0].attributes[0].value;
    assert!(value.as_ref().unwrap_err().contains("values of more than"), "{value:?}");
    let error = opened.read(&opened.container().variables[0], &Selection::all(&[1])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
}

/// 20,000 entries of 41 bytes that all have the name of the first, which is a megabyte long.
#[test]
fn a_long_name_that_many_virtual_entries_share_is_not_kept_for_each() {
    play("names of entries");
}

pub(crate) fn names_of_entries() {
    let long = "x".repeat(1 << 20);
    let own = Entry { file: None, variable: Name::Own(&long), from: None, to: None };
    let like = Entry { variable: Name::AsIn(0), ..own.clone() };
    let entries: Vec<_> = std::iter::once(own).chain(std::iter::repeat_n(like, 20_000)).collect();
    let mut file = Skeleton::default();
    let heap = file.push(&skeleton::heap(&[skeleton::virtual_layout(&entries)]));
    let virtual_one = variable(&skeleton::integer(4), &[1], skeleton::mapped(heap, 1));
    let virtual_one = file.push(&skeleton::header(&virtual_one));
    let root = file.push(&group(&[skeleton::link("v", virtual_one)]));
    let container = described(file.finish(root)).unwrap();
    assert!(container.refused[0].why.contains("names of sources far longer"), "{:?}", container.refused);
}

/// 10,000 entries that 5,000 virtual data sets have in common.
#[test]
fn one_list_of_entries_does_not_serve_any_number_of_virtual_data_sets() {
    play("entries of many");
}

pub(crate) fn entries_of_many() {
    let entry = Entry { file: None, variable: Name::Own("s"), from: None, to: None };
    let mut file = Skeleton::default();
    let heap = file.push(&skeleton::heap(&[skeleton::virtual_layout(&vec![entry; 10_000])]));
    let plain = variable(&skeleton::integer(4), &[1], skeleton::compact(&[0; 4]));
    let plain = file.push(&skeleton::header(&plain));
    let mut links = vec![skeleton::link("s", plain)];
    for number in 0..5_000 {
        let one = variable(&skeleton::integer(4), &[1], skeleton::mapped(heap, 1));
        links.push(skeleton::link(&format!("v{number}"), file.push(&skeleton::header(&one))));
    }
    let root = file.push(&group(&links));
    let container = described(file.finish(root)).unwrap();
    assert!(container.refused.len() > 4_000, "{} refused", container.refused.len());
}

/// One type of 3,000 members, 330 KB in memory, is that of 20,000 variables with an attribute each.
#[test]
fn a_committed_type_does_not_serve_any_number_of_variables_without_values() {
    play("committed types");
}

pub(crate) fn committed_types() {
    let member = |number: u32| (format!("m{number:04}"), skeleton::integer(1), 1);
    let dtype = skeleton::compound(&(0..3_000).map(member).collect::<Vec<_>>());
    let mut file = Skeleton::default();
    let committed = file.push(&skeleton::header(&[Message::new(kind::DATATYPE, dtype)]));
    let links: Vec<_> = (0..20_000)
        .map(|number| {
            let one = [
                Message::new(kind::DATASPACE, skeleton::space(&[1])),
                Message::shared(kind::DATATYPE, committed),
                skeleton::contiguous(skeleton::UNDEFINED, 0),
                skeleton::attribute("a", &Type::Committed(committed), &[0], &[]),
            ];
            skeleton::link(&number.to_string(), file.push(&skeleton::header(&one)))
        })
        .collect();
    let root = file.push(&group(&links));
    let bytes = file.finish(root);
    assert!(bytes.len() < 4 << 20);
    let container = described(bytes).unwrap();
    assert!(!container.variables.is_empty());
    assert!(container.refused.len() > 19_000, "{} refused", container.refused.len());
    assert!(container.refused[0].why.contains("shared far more often"), "{:?}", container.refused[0]);
}

/// One fill value of 60,000 bytes is that of 20,000 variables.
#[test]
fn a_fill_value_that_many_variables_share_counts_for_each() {
    play("shared fill values");
}

pub(crate) fn shared_fill_values() {
    let mut file = Skeleton::default();
    let fill = [&[3, 0x20][..], &60_000u32.to_le_bytes(), &[7; 60_000]].concat();
    let fill = file.push(&skeleton::header(&[Message::new(kind::FILL, fill)]));
    let links: Vec<_> = (0..20_000)
        .map(|number| {
            let mut one =
                variable(&skeleton::opaque(60_000), &[1], skeleton::contiguous(skeleton::UNDEFINED, 0));
            one.push(Message::shared(kind::FILL, fill));
            skeleton::link(&number.to_string(), file.push(&skeleton::header(&one)))
        })
        .collect();
    let root = file.push(&group(&links));
    let container = described(file.finish(root)).unwrap();
    assert!(container.refused.len() > 10_000, "{} refused", container.refused.len());
}

/// 50,000 symbols whose names all stand at the same place of the local heap: a megabyte of text.
#[test]
fn a_long_name_that_many_symbols_share_is_not_kept_for_each() {
    play("names of symbols");
}

pub(crate) fn names_of_symbols() {
    let mut file = Skeleton::default();
    let text = file.push(&vec![b'x'; 1 << 20]);
    let len = 1u64 << 20;
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let heap = file.push(&[&b"HEAP\0\0\0\0"[..], &words(&[len, u64::MAX, text])].concat());
    let plain = variable(&skeleton::integer(4), &[1], skeleton::compact(&[0; 4]));
    let plain = file.push(&skeleton::header(&plain));
    let symbol = words(&[0, plain, 0, 0, 0]);
    let symbols = [&b"SNOD\x01\0"[..], &50_000u16.to_le_bytes(), &symbol.repeat(50_000)].concat();
    let symbols = file.push(&symbols);
    let node = words(&[skeleton::UNDEFINED, skeleton::UNDEFINED, 0, symbols, 0]);
    let tree = file.push(&[&b"TREE\0\0\x01\0"[..], &node].concat());
    let root = file.push(&group(&[Message::new(kind::SYMBOL_TABLE, words(&[tree, heap]))]));
    let error = described(file.finish(root)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

/// 40,000 links to an object whose first name has 60,000 letters.
#[test]
fn the_name_of_an_object_is_not_repeated_for_any_number_of_others() {
    play("names of aliases");
}

pub(crate) fn names_of_aliases() {
    let mut file = Skeleton::default();
    let plain = variable(&skeleton::integer(4), &[1], skeleton::compact(&[0; 4]));
    let plain = file.push(&skeleton::header(&plain));
    // Links are met by name, and this one is before all digits.
    let mut links = vec![skeleton::link(&"!".repeat(60_000), plain)];
    links.extend((0..40_000).map(|number| skeleton::link(&number.to_string(), plain)));
    let root = file.push(&group(&links));
    let error = described(file.finish(root)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

/// Seven levels of 50 mappings each of the whole below them: 50⁷ reads of one number.
#[test]
fn virtual_data_sets_that_multiply_reads_are_refused_when_described() {
    play("nested virtual");
}

pub(crate) fn nested_virtual() {
    let mut file = Skeleton::default();
    let plain = variable(&skeleton::integer(4), &[1], skeleton::compact(&[9, 0, 0, 0]));
    let mut links = vec![skeleton::link("0", file.push(&skeleton::header(&plain)))];
    for level in 1..8 {
        let below = (level - 1).to_string();
        let entry = Entry { file: None, variable: Name::Own(&below), from: None, to: None };
        let heap = file.push(&skeleton::heap(&[skeleton::virtual_layout(&vec![entry; 50])]));
        let one = variable(&skeleton::integer(4), &[1], skeleton::mapped(heap, 1));
        links.push(skeleton::link(&level.to_string(), file.push(&skeleton::header(&one))));
    }
    let root = file.push(&group(&links));
    let opened = open(file.finish(root));
    let container = opened.container();
    let names: Vec<_> = container.refused.iter().map(|refused| refused.name.as_str()).collect();
    assert_eq!(names, ["2", "3", "4", "5", "6", "7"]);
    let why = &container.refused[0].why;
    assert!(why.contains("read more than 64 times"), "{why}");
    for variable in &container.variables {
        let array = opened.read(variable, &Selection::all(&variable.grid.shape)).unwrap();
        assert_eq!(array.values, forebay_container::Values::Fixed(vec![9, 0, 0, 0]));
    }
}

/// 20,000 texts, each in a heap of its own, which all have the same 60,000 objects behind their first.
#[test]
fn heaps_that_lie_over_each_other_are_not_read_any_number_of_times() {
    play("many collections");
}

pub(crate) fn many_collections() {
    const COUNT: u64 = 20_000;
    let mut file = Skeleton::default();
    let first = file.next();
    let objects = skeleton::heap(&vec![Vec::new(); 60_000]);
    let end = first + 32 * COUNT + objects.len() as u64;
    let mut heads = Vec::new();
    for number in 0..COUNT {
        let at = first + 32 * number;
        heads.extend(b"GCOL\x01\0\0\0");
        heads.extend((end - at).to_le_bytes());
        // An object over all heads that follow.
        heads.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        heads.extend((32 * (COUNT - number - 1)).to_le_bytes());
    }
    file.push(&[&heads[..], &objects[16..], &[0; 16]].concat());
    let references: Vec<u8> =
        (0..COUNT - 1).flat_map(|number| skeleton::reference(1, first + 32 * number, 1)).collect();
    let at = file.push(&references);
    let layout = skeleton::contiguous(at, references.len() as u64);
    let texts = file.push(&skeleton::header(&variable(&skeleton::text(), &[COUNT - 1], layout)));
    let root = file.push(&group(&[skeleton::link("v", texts)]));
    let opened = open(file.finish(root));
    let error = opened.read(&opened.container().variables[0], &Selection::all(&[COUNT - 1])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

/// 2,000 arrays of 100,000 chunks that all lie over the same bytes, and need no index to say so.
#[test]
fn chunks_that_need_no_index_count_all_the_same() {
    play("implicit chunks");
}

pub(crate) fn implicit_chunks() {
    let mut file = Skeleton::default();
    let at = file.push(&[0; 100_000]);
    let links: Vec<_> = (0..2_000)
        .map(|number| {
            let one = variable(&skeleton::integer(1), &[100_000], skeleton::chunked(2, &[1, 1], at));
            skeleton::link(&number.to_string(), file.push(&skeleton::header(&one)))
        })
        .collect();
    let root = file.push(&group(&links));
    let container = described(file.finish(root)).unwrap();
    assert!(!container.variables.is_empty());
    assert!(container.refused.len() > 1_900, "{} refused", container.refused.len());
}

/// A heap whose ids have no bytes: one less than none wrapped, and was taken for the length of a key.
#[test]
fn a_heap_whose_ids_have_no_bytes_is_corrupt() {
    let mut file = Skeleton::default();
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let record = [0, 0, 0, 0, 0x10, 1, 0, 0, 0, 0, 0];
    let leaf = file.push(&skeleton::summed([&b"BTLF\0\x05"[..], &record].concat()));
    let tree = [&b"BTHD\0\x05"[..], &512u32.to_le_bytes(), &[11, 0, 0, 0, 100, 40], &words(&[leaf]), &[1, 0]];
    let tree = [&tree.concat()[..], &words(&[1])].concat();
    let tree = file.push(&skeleton::summed(tree));
    let head = [&b"FRHP\0"[..], &[0; 5], &4096u32.to_le_bytes(), &words(&[0, skeleton::UNDEFINED, 0])];
    let rows = [&words(&[skeleton::UNDEFINED])[..], &[0; 64], &[4, 0], &words(&[512, 4096]), &[32, 0, 0, 0]];
    let root = [&words(&[skeleton::UNDEFINED])[..], &[0, 0]];
    let heap = file.push(&skeleton::summed([head.concat(), rows.concat(), root.concat()].concat()));
    let info = [&[0, 0], &words(&[heap, tree])[..]].concat();
    let root = file.push(&group(&[Message::new(kind::LINK_INFO, info)]));
    let error = described(file.finish(root)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("ids of no bytes"), "{error}");
}

/// Counts how often what is not there was asked for.
#[derive(Debug)]
struct Asked {
    origin: MemoryOrigin,
    misses: AtomicUsize,
}

impl Origin for Asked {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>, Error> {
        let opened = self.origin.open(at);
        self.misses.fetch_add(usize::from(opened.is_err()), Ordering::Relaxed);
        opened
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>, Error> {
        self.origin.list(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>, Error> {
        self.origin.survey(under)
    }
}

/// Each entry asked for it anew: far away that takes longer than any one waits.
#[test]
fn a_source_that_is_not_there_is_asked_for_once() {
    let entry = |to| Entry { file: Some(Name::Own("gone.h5")), variable: Name::Own("x"), from: None, to };
    let rows: Vec<[[u64; 4]; 1]> = (0..1_000).map(|row| [[row, 1, 1, 1]]).collect();
    let entries: Vec<_> = rows.iter().map(|row| entry(Some(&row[..]))).collect();
    let mut file = Skeleton::default();
    let heap = file.push(&skeleton::heap(&[skeleton::virtual_layout(&entries)]));
    let one = variable(&skeleton::integer(4), &[1_000], skeleton::mapped(heap, 1));
    let one = file.push(&skeleton::header(&one));
    let root = file.push(&group(&[skeleton::link("v", one)]));
    let origin = MemoryOrigin::default().with("f.h5", file.finish(root));
    let asked = Asked { origin, misses: AtomicUsize::new(0) };
    let container = describe(&asked, &Locator::new("f.h5")).unwrap();
    assert_eq!(container.absent, [Locator::new("gone.h5")]);
    assert_eq!((container.variables.len(), asked.misses.into_inner()), (1, 1));
}

/// A heap block of 64 MB out of 64 KB, which every record of a tree of links leads to, beside one just as long.
#[test]
fn a_heap_block_is_not_decoded_any_number_of_times() {
    play("filtered heap");
}

pub(crate) fn filtered_heap() {
    const LEN: u64 = 1 << 26;
    let mut file = Skeleton::default();
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut zeros = vec![0; usize::try_from(LEN).unwrap()];
    zeros[..4].copy_from_slice(b"FHDB");
    let link = skeleton::link("a", 48).body;
    zeros[64..64 + link.len()].copy_from_slice(&link);
    let mut deflater = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut stored = vec![0; deflater.zlib_compress_bound(zeros.len())];
    let stored_len = deflater.zlib_compress(&zeros, &mut stored).unwrap();
    let blocks = [0, 1].map(|_| file.push(&stored[..stored_len]));
    // Records in turn in the first and in the second block.
    let id = |number: u64| [&[0][..], &(number % 2 * LEN + 64).to_le_bytes()[..4], &[13, 0, 0]].concat();
    let records: Vec<u8> = (0..40).flat_map(|number| [&[0; 4], &id(number)[..]].concat()).collect();
    let leaf = file.push(&skeleton::summed([&b"BTLF\0\x05"[..], &records].concat()));
    let tree =
        [&b"BTHD\0\x05"[..], &512u32.to_le_bytes(), &[12, 0, 0, 0, 100, 40], &words(&[leaf]), &[40, 0]];
    let tree = file.push(&skeleton::summed([&tree.concat()[..], &words(&[40])].concat()));
    let entry = |block: u64| [&words(&[block, stored_len as u64])[..], &[0; 4]].concat();
    let indirect = [&b"FHIB\0"[..], &[0; 12], &entry(blocks[0]), &entry(blocks[1])].concat();
    let indirect = file.push(&skeleton::summed(indirect));
    let head =
        [&b"FRHP\0"[..], &[8, 0, 10, 0, 0], &4096u32.to_le_bytes(), &words(&[0, skeleton::UNDEFINED, 0])];
    let rows = [&words(&[skeleton::UNDEFINED])[..], &[0; 64], &[2, 0], &words(&[LEN, LEN]), &[32, 0, 0, 0]];
    let root = [&words(&[indirect])[..], &[1, 0], &words(&[0]), &[0; 4], &[2, 1, 1, 0, 0, 0, 0, 0, 0, 0]];
    let heap = file.push(&skeleton::summed([head.concat(), rows.concat(), root.concat()].concat()));
    let info = [&[0, 0], &words(&[heap, tree])[..]].concat();
    let root = file.push(&group(&[Message::new(kind::LINK_INFO, info)]));
    let error = described(file.finish(root)).unwrap_err();
    assert!(error.to_string().contains("many times longer than the file"), "{error}");
}

/// 60,000 dense attributes that are not there, of each of 400 variables: every one leaves a reason behind.
#[test]
fn attributes_that_are_not_there_count_all_the_same() {
    play("unreadable attributes");
}

pub(crate) fn unreadable_attributes() {
    const COUNT: u16 = 60_000;
    let mut file = Skeleton::default();
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let records = vec![0; 17 * usize::from(COUNT)];
    let leaf = file.push(&skeleton::summed([&b"BTLF\0\x08"[..], &records].concat()));
    let node_len = u32::try_from(records.len()).unwrap() + 10;
    let tree =
        [&b"BTHD\0\x08"[..], &node_len.to_le_bytes(), &[17, 0, 0, 0, 100, 40], &words(&[leaf])].concat();
    let tree = [&tree[..], &COUNT.to_le_bytes(), &words(&[COUNT.into()])].concat();
    let tree = file.push(&skeleton::summed(tree));
    let head =
        [&b"FRHP\0"[..], &[8, 0, 0, 0, 0], &4096u32.to_le_bytes(), &words(&[0, skeleton::UNDEFINED, 0])];
    let rows = [&words(&[skeleton::UNDEFINED])[..], &[0; 64], &[4, 0], &words(&[512, 4096]), &[32, 0, 0, 0]];
    let root = [&words(&[skeleton::UNDEFINED])[..], &[0, 0]];
    let heap = file.push(&skeleton::summed([head.concat(), rows.concat(), root.concat()].concat()));
    let info = [&[0, 0], &words(&[heap, tree])[..]].concat();
    let links: Vec<_> = (0..400)
        .map(|number| {
            let mut one = variable(&skeleton::integer(4), &[1], skeleton::compact(&[0; 4]));
            one.push(Message::new(kind::ATTRIBUTE_INFO, info.clone()));
            skeleton::link(&number.to_string(), file.push(&skeleton::header(&one)))
        })
        .collect();
    let root = file.push(&group(&links));
    let container = described(file.finish(root)).unwrap();
    assert!(container.refused.len() > 300, "{} refused", container.refused.len());
}
