//! Writes HDF5 structures whose checksums are right and whose references lead wherever they are told to.
//!
//! A structure is bytes without an address yet; [`Skeleton::push`] gives it one. Files that lie are made of sound
//! structures that several others lead to, so a parser gets as deep into them as into a true file.

/// An address that leads nowhere.
pub const UNDEFINED: u64 = u64::MAX;

/// Kinds of messages in object headers.
pub mod kind {
    pub const DATASPACE: u8 = 0x01;
    pub const LINK_INFO: u8 = 0x02;
    pub const DATATYPE: u8 = 0x03;
    pub const FILL: u8 = 0x05;
    pub const LINK: u8 = 0x06;
    pub const LAYOUT: u8 = 0x08;
    pub const PIPELINE: u8 = 0x0b;
    pub const ATTRIBUTE: u8 = 0x0c;
    pub const CONTINUATION: u8 = 0x10;
    pub const SYMBOL_TABLE: u8 = 0x11;
    pub const ATTRIBUTE_INFO: u8 = 0x15;
}

const SUPERBLOCK_LEN: usize = 48;

/// A file as it is written: structures one after the other behind a superblock.
#[derive(Debug)]
pub struct Skeleton {
    bytes: Vec<u8>,
}

impl Default for Skeleton {
    fn default() -> Self {
        Self { bytes: vec![0; SUPERBLOCK_LEN] }
    }
}

impl Skeleton {
    /// Where the next structure will lie.
    pub fn next(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Adds a structure and gives its address.
    pub fn push(&mut self, structure: &[u8]) -> u64 {
        let at = self.next();
        self.bytes.extend_from_slice(structure);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        at
    }

    /// Writes `structure` over what lies at `address`.
    pub fn replace(&mut self, address: u64, structure: &[u8]) {
        let at = usize::try_from(address).expect("an address of this file");
        self.bytes[at..at + structure.len()].copy_from_slice(structure);
    }

    /// The file, whose root group has its header at `root`.
    pub fn finish(mut self, root: u64) -> Vec<u8> {
        let mut superblock = b"\x89HDF\r\n\x1a\n\x03\x08\x08\x00".to_vec();
        for address in [0, UNDEFINED, self.next(), root] {
            superblock.extend(address.to_le_bytes());
        }
        self.bytes[..SUPERBLOCK_LEN].copy_from_slice(&summed(superblock));
        self.bytes
    }
}

/// `bytes` and their checksum.
pub fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = lookup3(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// One message of an object header.
#[derive(Clone, Debug)]
pub struct Message {
    pub kind: u8,
    /// 2 marks a body that says where the real one is.
    pub flags: u8,
    pub body: Vec<u8>,
}

impl Message {
    pub fn new(kind: u8, body: Vec<u8>) -> Self {
        Self { kind, flags: 0, body }
    }

    /// The message of `kind` that stands in the header at `address`.
    pub fn shared(kind: u8, address: u64) -> Self {
        Self { kind, flags: 2, body: shared(address) }
    }
}

/// Where a shared message stands.
pub fn shared(address: u64) -> Vec<u8> {
    [&[3, 2][..], &address.to_le_bytes()].concat()
}

fn laid_out(messages: &[Message]) -> Vec<u8> {
    let mut body = Vec::new();
    for message in messages {
        body.push(message.kind);
        body.extend(u16::try_from(message.body.len()).unwrap_or(u16::MAX).to_le_bytes());
        body.push(message.flags);
        body.extend(&message.body[..message.body.len().min(usize::from(u16::MAX))]);
    }
    body
}

/// An object header of version 2.
pub fn header(messages: &[Message]) -> Vec<u8> {
    let body = laid_out(messages);
    let mut bytes = b"OHDR\x02\x02".to_vec();
    bytes.extend(u32::try_from(body.len()).expect("a short header").to_le_bytes());
    bytes.extend(body);
    summed(bytes)
}

/// A block that a header goes on in.
pub fn continuation(messages: &[Message]) -> Vec<u8> {
    summed([b"OCHK", &laid_out(messages)[..]].concat())
}

/// A link called `name` to the object at `address`.
pub fn link(name: &str, address: u64) -> Message {
    let mut body = vec![1, 1];
    body.extend(u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes());
    body.extend(name.as_bytes());
    body.extend(address.to_le_bytes());
    Message::new(kind::LINK, body)
}

/// The shape of an array.
pub fn space(shape: &[u64]) -> Vec<u8> {
    let mut body = vec![2, u8::try_from(shape.len()).unwrap_or(u8::MAX), 0, 1];
    body.extend(shape.iter().flat_map(|n| n.to_le_bytes()));
    body
}

/// The shape of an array that may grow without end along its first axis.
pub fn growing_space(shape: &[u64]) -> Vec<u8> {
    let mut body = space(shape);
    body[2] = 1;
    let most = shape.iter().enumerate().map(|(axis, n)| if axis == 0 { UNDEFINED } else { *n });
    body.extend(most.flat_map(u64::to_le_bytes));
    body
}

fn datatype(class: u8, bits: u32, len: u32, rest: &[u8]) -> Vec<u8> {
    let mut body = vec![0x30 | class];
    body.extend(&bits.to_le_bytes()[..3]);
    body.extend(len.to_le_bytes());
    body.extend(rest);
    body
}

/// An integer of `len` bytes.
pub fn integer(len: u8) -> Vec<u8> {
    let precision = 8 * u16::from(len);
    datatype(0, 8, len.into(), &[&[0, 0][..], &precision.to_le_bytes()].concat())
}

/// Bytes without a meaning.
pub fn opaque(len: u32) -> Vec<u8> {
    datatype(5, 0, len, &[])
}

/// Any number of `item`s.
pub fn sequence(item: &[u8]) -> Vec<u8> {
    datatype(9, 0, 16, item)
}

/// Text of any length.
pub fn text() -> Vec<u8> {
    datatype(9, 0x101, 16, &integer(1))
}

/// A small array of `item`s, each `item_len` long.
pub fn array(shape: &[u32], item: &[u8], item_len: u32) -> Vec<u8> {
    let mut rest = vec![u8::try_from(shape.len()).unwrap_or(u8::MAX)];
    rest.extend(shape.iter().flat_map(|n| n.to_le_bytes()));
    rest.extend(item);
    let len = shape.iter().fold(item_len, |len, n| len.saturating_mul(*n));
    datatype(10, 0, len, &rest)
}

/// Named members, each a type and its length.
pub fn compound(members: &[(String, Vec<u8>, u32)]) -> Vec<u8> {
    let len = members.iter().fold(0u32, |len, member| len.saturating_add(member.2));
    let offset_len = (len.max(1).ilog2() / 8 + 1) as usize;
    let (mut rest, mut offset) = (Vec::new(), 0u32);
    for (name, dtype, member_len) in members {
        rest.extend(name.as_bytes());
        rest.push(0);
        rest.extend(&offset.to_le_bytes()[..offset_len]);
        rest.extend(dtype);
        offset = offset.saturating_add(*member_len);
    }
    datatype(6, u32::try_from(members.len()).unwrap_or(0) & 0xffff, len, &rest)
}

/// Where a variable-length value lies: `count` items in object `index` of the heap at `address`.
pub fn reference(count: u32, address: u64, index: u32) -> Vec<u8> {
    [&count.to_le_bytes()[..], &address.to_le_bytes(), &index.to_le_bytes()].concat()
}

/// A type that an attribute has or names.
pub enum Type<'a> {
    Own(&'a [u8]),
    Committed(u64),
}

/// An attribute.
pub fn attribute(name: &str, dtype: &Type<'_>, shape: &[u64], values: &[u8]) -> Message {
    let (flags, dtype) = match dtype {
        Type::Own(dtype) => (0, dtype.to_vec()),
        Type::Committed(address) => (1, shared(*address)),
    };
    let space = space(shape);
    let mut body = vec![3, flags];
    for len in [name.len() + 1, dtype.len(), space.len()] {
        body.extend(u16::try_from(len).unwrap_or(u16::MAX).to_le_bytes());
    }
    body.push(0);
    body.extend(name.as_bytes());
    body.push(0);
    body.extend(dtype);
    body.extend(space);
    body.extend(values);
    Message::new(kind::ATTRIBUTE, body)
}

/// A heap of collections: its objects are numbered from 1.
pub fn heap(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"GCOL\x01\0\0\0".to_vec();
    bytes.extend([0; 8]);
    for (index, object) in objects.iter().enumerate() {
        bytes.extend(u16::try_from(index + 1).unwrap_or(u16::MAX).to_le_bytes());
        bytes.extend([0; 6]);
        bytes.extend((object.len() as u64).to_le_bytes());
        bytes.extend(object);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes.extend([0; 16]);
    let len = bytes.len() as u64;
    bytes[8..16].copy_from_slice(&len.to_le_bytes());
    bytes
}

/// Values in one piece at `address`.
pub fn contiguous(address: u64, len: u64) -> Message {
    let body = [&[4, 1][..], &address.to_le_bytes(), &len.to_le_bytes()].concat();
    Message::new(kind::LAYOUT, body)
}

/// Values in the message itself.
pub fn compact(values: &[u8]) -> Message {
    let len = u16::try_from(values.len()).unwrap_or(u16::MAX);
    Message::new(kind::LAYOUT, [&[4, 0][..], &len.to_le_bytes(), values].concat())
}

/// Values in chunks, found by the index of `kind` at `address`; `sizes` ends with the element's length.
pub fn chunked(index: u8, sizes: &[u32], address: u64) -> Message {
    let mut body = vec![4, 2, 0, u8::try_from(sizes.len()).unwrap_or(u8::MAX), 4];
    body.extend(sizes.iter().flat_map(|n| n.to_le_bytes()));
    body.push(index);
    // What the writer of an index wished for, which its own header says again.
    let settings = match index {
        3 => 1,
        4 => 5,
        5 => 6,
        _ => 0,
    };
    body.resize(body.len() + settings, 1);
    body.extend(address.to_le_bytes());
    Message::new(kind::LAYOUT, body)
}

/// Values in other variables, listed in object `index` of the heap at `address`.
pub fn mapped(address: u64, index: u32) -> Message {
    let body = [&[4, 3][..], &address.to_le_bytes(), &index.to_le_bytes()].concat();
    Message::new(kind::LAYOUT, body)
}

/// A name in a virtual layout: itself, or that of an earlier entry.
#[derive(Clone, Debug)]
pub enum Name<'a> {
    Own(&'a str),
    AsIn(u64),
}

/// Which elements: per axis start, stride, count and block; `None` is all.
pub type Elements<'a> = Option<&'a [[u64; 4]]>;

/// One entry of a virtual layout.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// `None` is the file itself.
    pub file: Option<Name<'a>>,
    pub variable: Name<'a>,
    pub from: Elements<'a>,
    pub to: Elements<'a>,
}

fn selection(elements: Elements<'_>) -> Vec<u8> {
    let Some(axes) = elements else {
        return [&3u32.to_le_bytes()[..], &1u32.to_le_bytes(), &[0; 8]].concat();
    };
    let mut bytes = [&2u32.to_le_bytes()[..], &2u32.to_le_bytes(), &[1, 0, 0, 0, 0]].concat();
    bytes.extend(u32::try_from(axes.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(axes.iter().flatten().flat_map(|n| n.to_le_bytes()));
    bytes
}

/// The list of what a virtual data set is made of, for an object of a heap.
pub fn virtual_layout(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut bytes = vec![1];
    bytes.extend((entries.len() as u64).to_le_bytes());
    for entry in entries {
        let (file_flag, file) = match &entry.file {
            None => (4, Vec::new()),
            Some(Name::Own(name)) => (0, [name.as_bytes(), &[0]].concat()),
            Some(Name::AsIn(index)) => (1, index.to_le_bytes().to_vec()),
        };
        let (variable_flag, variable) = match &entry.variable {
            Name::Own(name) => (0, [name.as_bytes(), &[0]].concat()),
            Name::AsIn(index) => (2, index.to_le_bytes().to_vec()),
        };
        bytes.push(file_flag | variable_flag);
        bytes.extend(file);
        bytes.extend(variable);
        bytes.extend(selection(entry.from));
        bytes.extend(selection(entry.to));
    }
    summed(bytes)
}

/// Jenkins's lookup3 hash, the checksum of HDF5's metadata.
pub fn lookup3(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(u32::try_from(bytes.len()).unwrap_or(0));
    let [mut a, mut b, mut c] = [start; 3];
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    let mut rest = bytes;
    while rest.len() > 12 {
        a = a.wrapping_add(word(&rest[..4]));
        b = b.wrapping_add(word(&rest[4..8]));
        c = c.wrapping_add(word(&rest[8..12]));
        for (shift_a, shift_b, shift_c) in [(4, 6, 8), (16, 19, 4)] {
            a = a.wrapping_sub(c) ^ c.rotate_left(shift_a);
            c = c.wrapping_add(b);
            b = b.wrapping_sub(a) ^ a.rotate_left(shift_b);
            a = a.wrapping_add(c);
            c = c.wrapping_sub(b) ^ b.rotate_left(shift_c);
            b = b.wrapping_add(a);
        }
        rest = &rest[12..];
    }
    if rest.is_empty() {
        return c;
    }
    let part = |from: usize| word(&rest[from.min(rest.len())..(from + 4).min(rest.len())]);
    a = a.wrapping_add(part(0));
    b = b.wrapping_add(part(4));
    c = c.wrapping_add(part(8));
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}
