//! A plan of an HDF5 file that a fuzzer may change at will: sound structures whose references are free.

use libfuzzer_sys::arbitrary::{self, Arbitrary};

use crate::skeleton::{self as to, Entry, Message, Name, Skeleton, Type, UNDEFINED, kind, summed};

/// Longer files are not tried: what a file may cost grows with its length.
const MOST_BYTES: usize = 1 << 20;

/// What a file consists of; the first structure is the root group.
#[derive(Arbitrary, Debug)]
pub struct Plan {
    structures: Vec<Structure>,
}

/// A structure that others lead to.
#[derive(Arbitrary, Debug)]
enum Structure {
    Header(Vec<Part>),
    Continuation(Vec<Part>),
    Heap(Vec<Object>),
    Text { letter: u8, len: u16 },
    TreeV1 { of_chunks: bool, level: u8, entries: Vec<(u16, Lead)> },
    Symbols(Vec<Times<(u16, Lead, bool)>>),
    LocalHeap { len: u16, data: Lead },
    TreeV2 { kind: u8, record_len: u8, depth: u8, count: u16, root: Lead },
    Node { is_leaf: bool, kind: u8, words: Vec<Times<Word>> },
    FractalHeap { id_len: u8, huge: Lead, width: u8, first: u8, most: u8, root: Lead, rows: u8 },
    FractalBlock { is_direct: bool, heap: Lead, words: Vec<Times<Word>> },
    FixedArray { filtered: bool, page_bits: u8, count: Size, data: Lead },
    FixedData { words: Vec<Times<Word>> },
    ExtensibleArray { filtered: bool, counts: [u8; 5], count: Size, index: Lead },
    ExtensibleBlock { part: u8, words: Vec<Times<Word>> },
}

/// A reference: to a structure, beside one, to nowhere, or past the end.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Lead {
    to: u8,
    beside: i8,
}

/// Something that is said several times over.
#[derive(Arbitrary, Clone, Debug)]
struct Times<T> {
    times: u16,
    what: T,
}

impl<T> Times<T> {
    fn each(&self) -> impl Iterator<Item = &T> {
        std::iter::repeat_n(&self.what, usize::from(self.times % 4096).max(1))
    }
}

/// A number of any size, mostly a small one.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Size {
    Small(u8),
    Middle(u16),
    Power(u8),
    Any(u64),
}

impl Size {
    fn get(self) -> u64 {
        match self {
            Self::Small(n) => n.into(),
            Self::Middle(n) => n.into(),
            Self::Power(n) => 1 << (n % 64),
            Self::Any(n) => n,
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Word {
    Lead(Lead),
    Number(Size),
    Byte(u8),
}

/// An object of a global heap.
#[derive(Arbitrary, Debug)]
enum Object {
    Values(Vec<Times<Value>>),
    Layout(Vec<Times<Mapped>>),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Value {
    Reference { count: u16, heap: Lead, object: u8 },
    Byte(u8),
}

/// An entry of a virtual layout.
#[derive(Arbitrary, Clone, Debug)]
struct Mapped {
    other_file: bool,
    name: NamePlan,
    from: Option<Vec<[Size; 4]>>,
    to: Option<Vec<[Size; 4]>>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum NamePlan {
    Short(u8),
    Long { letter: u8, len: u16 },
    AsIn(u8),
}

/// A type: of numbers, of others, or one that stands elsewhere.
#[derive(Arbitrary, Debug)]
enum TypePlan {
    Integer(u8),
    Text,
    Opaque(u16),
    Sequence(Box<TypePlan>),
    Array { shape: Vec<u8>, item: Box<TypePlan> },
    Compound(Vec<Times<TypePlan>>),
}

/// A message of an object header.
#[derive(Arbitrary, Debug)]
enum Part {
    Link { name: NamePlan, lead: Lead, times: u16 },
    Space { grows: bool, shape: Vec<Size> },
    Type(TypePlan),
    Shared { kind: u8, lead: Lead },
    Fill(u16),
    Contiguous { lead: Lead, len: Size },
    Compact(Vec<Times<Value>>),
    Chunked { index: u8, sizes: Vec<u8>, lead: Lead },
    Mapped { heap: Lead, object: u8 },
    Attribute { name: u8, dtype: TypePlan, shape: Vec<u8>, values: Vec<Times<Value>>, times: u8 },
    SharedAttribute { name: u8, lead: Lead, values: Vec<Times<Value>>, times: u8 },
    Continuation { lead: Lead, len: u16 },
    SymbolTable { tree: Lead, heap: Lead },
    Dense { of_links: bool, heap: Lead, tree: Lead },
    Pipeline(Vec<(u8, u8)>),
}

impl Plan {
    /// The file, unless it is too long.
    pub fn file(&self) -> Option<Vec<u8>> {
        let nowhere = vec![0; self.structures.len().max(1)];
        let mut addresses = Vec::new();
        let mut measured = Skeleton::default();
        for bytes in self.rendered(&nowhere)? {
            addresses.push(measured.push(&bytes));
        }
        if addresses.is_empty() {
            return None;
        }
        let mut file = Skeleton::default();
        for bytes in self.rendered(&addresses)? {
            file.push(&bytes);
        }
        Some(file.finish(addresses[0]))
    }

    fn rendered(&self, addresses: &[u64]) -> Option<Vec<Vec<u8>>> {
        let mut len = 0;
        let places = Places(addresses);
        let mut all = Vec::new();
        for structure in &self.structures {
            let bytes = places.structure(structure);
            len += bytes.len();
            if len > MOST_BYTES {
                return None;
            }
            all.push(bytes);
        }
        Some(all)
    }
}

/// Where structures lie.
struct Places<'a>(&'a [u64]);

impl Places<'_> {
    fn at(&self, lead: Lead) -> u64 {
        match lead.to {
            255 => UNDEFINED,
            254 => u64::MAX - 1 - lead.beside.unsigned_abs() as u64,
            to => self.0[usize::from(to) % self.0.len()].wrapping_add_signed(lead.beside.into()),
        }
    }

    fn words(&self, words: &[Times<Word>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in words.iter().flat_map(Times::each).take(MOST_BYTES / 8) {
            match word {
                Word::Lead(lead) => bytes.extend(self.at(*lead).to_le_bytes()),
                Word::Number(number) => bytes.extend(number.get().to_le_bytes()),
                Word::Byte(byte) => bytes.push(*byte),
            }
        }
        bytes
    }

    fn values(&self, values: &[Times<Value>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for value in values.iter().flat_map(Times::each).take(MOST_BYTES / 16) {
            match value {
                Value::Reference { count, heap, object } => {
                    bytes.extend(to::reference((*count).into(), self.at(*heap), (*object).into()));
                }
                Value::Byte(byte) => bytes.push(*byte),
            }
        }
        bytes
    }

    fn structure(&self, structure: &Structure) -> Vec<u8> {
        let leads = |leads: &[u64]| leads.iter().flat_map(|lead| lead.to_le_bytes()).collect::<Vec<u8>>();
        match structure {
            Structure::Header(parts) => to::header(&self.messages(parts)),
            Structure::Continuation(parts) => to::continuation(&self.messages(parts)),
            Structure::Heap(objects) => {
                let object = |object: &Object| match object {
                    Object::Values(values) => self.values(values),
                    Object::Layout(entries) => layout(entries),
                };
                to::heap(&objects.iter().map(object).collect::<Vec<_>>())
            }
            Structure::Text { letter, len } => vec![(*letter).max(1); (*len).into()],
            Structure::TreeV1 { of_chunks, level, entries } => {
                let count = u16::try_from(entries.len()).unwrap_or(u16::MAX);
                let mut bytes =
                    [b"TREE", &[u8::from(*of_chunks), level % 3][..], &count.to_le_bytes()].concat();
                bytes.extend(leads(&[UNDEFINED, UNDEFINED]));
                for (key, lead) in entries {
                    let key = u64::from(*key);
                    bytes.extend(if *of_chunks { leads(&[8, key, 0]) } else { leads(&[key]) });
                    bytes.extend(leads(&[self.at(*lead)]));
                }
                bytes.extend(leads(&[0, 0, 0]));
                bytes
            }
            Structure::Symbols(symbols) => {
                let symbols: Vec<_> = symbols.iter().flat_map(Times::each).take(usize::from(u16::MAX)).collect();
                let count = u16::try_from(symbols.len()).unwrap_or(u16::MAX);
                let mut bytes = [&b"SNOD\x01\0"[..], &count.to_le_bytes()].concat();
                for (name, lead, is_soft) in symbols {
                    let cache = if *is_soft { 2 } else { 0 };
                    bytes.extend(leads(&[(*name).into(), self.at(*lead), cache, (*name).into(), 0]));
                }
                bytes
            }
            Structure::LocalHeap { len, data } => {
                [b"HEAP\0\0\0\0", &leads(&[(*len).into(), UNDEFINED, self.at(*data)])[..]].concat()
            }
            _ => self.index(structure),
        }
    }

    /// The structures that lead to chunks, dense links and dense attributes.
    fn index(&self, structure: &Structure) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |part: &[u8]| bytes.extend_from_slice(part);
        match structure {
            Structure::TreeV2 { kind, record_len, depth, count, root } => {
                put(b"BTHD\0");
                put(&[kind % 12]);
                put(&512u32.to_le_bytes());
                put(&u16::from(*record_len).to_le_bytes());
                put(&u16::from(depth % 4).to_le_bytes());
                put(&[100, 40]);
                put(&self.at(*root).to_le_bytes());
                put(&count.to_le_bytes());
                put(&u64::from(*count).to_le_bytes());
            }
            Structure::Node { is_leaf, kind, words } => {
                put(if *is_leaf { b"BTLF\0" } else { b"BTIN\0" });
                put(&[kind % 12]);
                put(&self.words(words));
            }
            Structure::FractalHeap { id_len, huge, width, first, most, root, rows } => {
                put(b"FRHP\0");
                put(&u16::from(*id_len).to_le_bytes());
                put(&[0, 0, 0]);
                put(&4096u32.to_le_bytes());
                put(&0u64.to_le_bytes());
                put(&self.at(*huge).to_le_bytes());
                put(&[0; 8]);
                put(&UNDEFINED.to_le_bytes());
                put(&[0; 64]);
                put(&(1u16 << (width % 16)).to_le_bytes());
                put(&(1u64 << (first % 64)).to_le_bytes());
                put(&(1u64 << (most % 64)).to_le_bytes());
                put(&32u16.to_le_bytes());
                put(&[0, 0]);
                put(&self.at(*root).to_le_bytes());
                put(&u16::from(*rows).to_le_bytes());
            }
            Structure::FractalBlock { is_direct, heap, words } => {
                put(if *is_direct { b"FHDB\0" } else { b"FHIB\0" });
                put(&self.at(*heap).to_le_bytes());
                put(&0u32.to_le_bytes());
                put(&self.words(words));
            }
            Structure::FixedArray { filtered, page_bits, count, data } => {
                put(b"FAHD\0");
                put(&[u8::from(*filtered), if *filtered { 20 } else { 8 }, *page_bits]);
                put(&count.get().to_le_bytes());
                put(&self.at(*data).to_le_bytes());
            }
            Structure::FixedData { words } => {
                put(b"FADB\0\0");
                put(&[0; 8]);
                put(&self.words(words));
            }
            Structure::ExtensibleArray { filtered, counts, count, index } => {
                put(b"EAHD\0");
                put(&[u8::from(*filtered), if *filtered { 20 } else { 8 }]);
                put(counts);
                put(&[0; 32]);
                put(&count.get().to_le_bytes());
                put(&[0; 8]);
                put(&self.at(*index).to_le_bytes());
            }
            Structure::ExtensibleBlock { part, words } => {
                put([b"EAIB\0\0", b"EASB\0\0", b"EADB\0\0"][usize::from(part % 3)]);
                put(&[0; 8]);
                put(&self.words(words));
            }
            _ => {}
        }
        summed(bytes)
    }

    fn messages(&self, parts: &[Part]) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut left = MOST_BYTES;
        for part in parts {
            let (message, times) = self.message(part);
            let times = times.min(left / (message.body.len() + 4)).max(1);
            left = left.saturating_sub(times * (message.body.len() + 4));
            messages.extend(std::iter::repeat_n(message, times));
        }
        messages
    }

    fn message(&self, part: &Part) -> (Message, usize) {
        let shape = |shape: &[u8]| shape.iter().take(32).map(|n| u64::from(*n)).collect::<Vec<_>>();
        let once = |message| (message, 1);
        match part {
            Part::Link { name, lead, times } => {
                (to::link(&name.text(), self.at(*lead)), usize::from(times % 512))
            }
            Part::Space { grows, shape } => {
                let shape: Vec<u64> = shape.iter().take(32).map(|n| n.get()).collect();
                let body = if *grows { to::growing_space(&shape) } else { to::space(&shape) };
                once(Message::new(kind::DATASPACE, body))
            }
            Part::Type(dtype) => once(Message::new(kind::DATATYPE, type_of(dtype))),
            Part::Shared { kind, lead } => once(Message::shared(kind % 0x19, self.at(*lead))),
            Part::Fill(len) => {
                let body = [&[3, 0x20][..], &u32::from(*len).to_le_bytes(), &vec![1; (*len).into()]].concat();
                once(Message::new(kind::FILL, body))
            }
            Part::Contiguous { lead, len } => once(to::contiguous(self.at(*lead), len.get())),
            Part::Compact(values) => once(to::compact(&self.values(values))),
            Part::Chunked { index, sizes, lead } => {
                let sizes: Vec<u32> = sizes.iter().take(33).map(|n| u32::from(*n)).collect();
                once(to::chunked(index % 6, &sizes, self.at(*lead)))
            }
            Part::Mapped { heap, object } => once(to::mapped(self.at(*heap), (*object).into())),
            Part::Attribute { name, dtype, shape: axes, values, times } => {
                let dtype = type_of(dtype);
                let values = self.values(values);
                (to::attribute(&letters(*name), &Type::Own(&dtype), &shape(axes), &values), (*times).into())
            }
            Part::SharedAttribute { name, lead, values, times } => {
                let dtype = Type::Committed(self.at(*lead));
                (to::attribute(&letters(*name), &dtype, &[1], &self.values(values)), (*times).into())
            }
            Part::Continuation { lead, len } => {
                let body = [self.at(*lead), u64::from(*len)].map(u64::to_le_bytes).concat();
                once(Message::new(kind::CONTINUATION, body))
            }
            Part::SymbolTable { tree, heap } => {
                let body = [self.at(*tree), self.at(*heap)].map(u64::to_le_bytes).concat();
                once(Message::new(kind::SYMBOL_TABLE, body))
            }
            Part::Dense { of_links, heap, tree } => {
                let kind = if *of_links { kind::LINK_INFO } else { kind::ATTRIBUTE_INFO };
                let leads = [self.at(*heap), self.at(*tree)].map(u64::to_le_bytes).concat();
                once(Message::new(kind, [&[0, 0], &leads[..]].concat()))
            }
            Part::Pipeline(filters) => {
                let mut body = vec![2, u8::try_from(filters.len()).unwrap_or(u8::MAX)];
                for (id, param) in filters {
                    body.extend([*id, 0, 0, 0, 1, 0, *param, 0, 0, 0]);
                }
                once(Message::new(kind::PIPELINE, body))
            }
        }
    }
}

impl NamePlan {
    /// About how long the name is.
    fn len(self) -> usize {
        match self {
            Self::Long { len, .. } => 4 * usize::from(len % 8192),
            _ => 8,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Short(letter) | Self::AsIn(letter) => letters(letter),
            Self::Long { letter, len } => letters(letter).repeat((len % 8192).max(1).into()),
        }
    }
}

/// One of a few names, so that names meet.
fn letters(name: u8) -> String {
    ["a", "b", "c", "./a", "a/b", "%b", "DIMENSION_LIST", "CLASS"][usize::from(name % 8)].to_owned()
}

fn layout(entries: &[Times<Mapped>]) -> Vec<u8> {
    let mut left = MOST_BYTES;
    let fits = |entry: &&Mapped| {
        left = left.saturating_sub(40 + entry.name.len());
        left > 0
    };
    let entries: Vec<&Mapped> = entries.iter().flat_map(Times::each).take_while(fits).collect();
    let axes = |axes: &Option<Vec<[Size; 4]>>| -> Option<Vec<[u64; 4]>> {
        Some(axes.as_ref()?.iter().take(32).map(|axis| axis.map(Size::get)).collect())
    };
    let texts: Vec<_> =
        entries.iter().map(|entry| (entry.name.text(), axes(&entry.from), axes(&entry.to))).collect();
    let written = entries.iter().zip(&texts).map(|(entry, (text, from, to))| Entry {
        file: entry.other_file.then_some(Name::Own("other.h5")),
        variable: match entry.name {
            NamePlan::AsIn(index) => Name::AsIn(index.into()),
            _ => Name::Own(text),
        },
        from: from.as_deref(),
        to: to.as_deref(),
    });
    to::virtual_layout(&written.collect::<Vec<_>>())
}

/// More bytes than this do not fit the message that a type stands in.
const MOST_TYPE_BYTES: usize = 1 << 16;

/// A type and the length of an element.
fn type_of(plan: &TypePlan) -> Vec<u8> {
    let mut left = MOST_TYPE_BYTES;
    typed(plan, 0, &mut left).0
}

fn typed(plan: &TypePlan, depth: usize, left: &mut usize) -> (Vec<u8>, u32) {
    *left = left.saturating_sub(12);
    match plan {
        _ if depth > 40 => (to::integer(1), 1),
        TypePlan::Integer(len) => (to::integer(len % 9), (len % 9).into()),
        TypePlan::Text => (to::text(), 16),
        TypePlan::Opaque(len) => (to::opaque((*len).into()), (*len).into()),
        TypePlan::Sequence(item) => (to::sequence(&typed(item, depth + 1, left).0), 16),
        TypePlan::Array { shape, item } => {
            let (item, item_len) = typed(item, depth + 1, left);
            let shape: Vec<u32> = shape.iter().map(|n| u32::from(*n)).collect();
            let len = shape.iter().fold(item_len, |len, n| len.saturating_mul(*n));
            (to::array(&shape, &item, item_len), len)
        }
        TypePlan::Compound(members) => {
            let mut all: Vec<(String, Vec<u8>, u32)> = Vec::new();
            for member in members.iter().flat_map(Times::each) {
                if *left == 0 {
                    break;
                }
                let (dtype, len) = typed(member, depth + 1, left);
                all.push((format!("m{}", all.len()), dtype, len));
            }
            let len = all.iter().fold(0u32, |len, member| len.saturating_add(member.2));
            (to::compound(&all), len)
        }
    }
}
