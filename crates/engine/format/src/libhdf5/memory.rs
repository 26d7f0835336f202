//! The type that values are read as: native, little-endian, made from the file's type by the library itself.

use std::ffi::{c_int, c_uint};

use forebay_process::{Error, ErrorKind, Result};

use super::library::LockedHdf5;
use forebay_container::{ByteOrder, Dtype, Field, Number, Padding};
use forebay_libhdf5::{OpenId, hdf5_types::hid_t};

/// Types nest; our own parser refuses deeper ones too.
const MOST_DEPTH: usize = 32;
/// Values in memory have pointers; this stands for the length of a reference.
const REFERENCE_LEN: usize = 16;

/// What the library writes for text of variable length: a pointer.
pub(super) const TEXT_LEN: usize = size_of::<usize>();
/// What it writes for a sequence (`hvl_t`): how many, and a pointer.
pub(super) const SEQUENCE_LEN: usize = 2 * size_of::<usize>();

const CLASS_COMPOUND: c_int = 6;
const ORDER_LITTLE: c_int = 0;
const ORDER_BIG: c_int = 1;
const SIGNED: c_int = 1;
const NUL_TERMINATED: c_int = 0;
const NUL_PADDED: c_int = 1;
const VARIABLE: usize = usize::MAX;

/// A type in memory, and what it is to us.
pub(super) struct MemoryType<'a> {
    pub(super) id: OpenId<'a>,
    /// Offsets in compounds are those in memory.
    pub(super) dtype: Dtype,
    /// Bytes of one element.
    pub(super) len: usize,
}

/// A number that holds every value of a float: the most bits of exponent and mantissa, and the highest bias.
const FLOATS: [(usize, usize, usize, Number); 3] =
    [(5, 10, 15, Number::F16), (8, 23, 127, Number::F32), (11, 52, 1023, Number::F64)];

impl<'a> MemoryType<'a> {
    /// The type to read the file's type `stored` as.
    pub(super) fn of(library: &'a LockedHdf5, stored: hid_t) -> Result<Self> {
        Make { library }.memory(stored, 0)
    }
}

struct Make<'a> {
    library: &'a LockedHdf5,
}

fn refused<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, what))
}

impl<'a> Make<'a> {
    fn memory(&self, stored: hid_t, depth: usize) -> Result<MemoryType<'a>> {
        if depth > MOST_DEPTH {
            return refused("a type nested too deep");
        }
        let calls = &self.library.calls;
        match calls.type_class(stored) {
            0 | 4 => self.integer(stored),
            1 => self.float(stored),
            2 => refused("HDF5's time type cannot be held by any tensor"),
            3 => self.text(stored),
            5 => {
                let (id, len) = (self.own(calls.type_copy(stored))?, calls.type_len(stored));
                Ok(MemoryType { id, dtype: Dtype::Opaque { len, tag: String::new() }, len })
            }
            CLASS_COMPOUND => self.compound(stored, depth),
            7 => refused("references point into the file and are not values"),
            8 => self.integer(self.own(calls.type_super(stored))?.id()),
            9 => {
                let item = self.below(stored, depth)?;
                let dtype = Dtype::Sequence { reference_len: REFERENCE_LEN, item: Box::new(item.dtype) };
                Ok(MemoryType { id: self.own(calls.type_sequence(item.id.id()))?, dtype, len: SEQUENCE_LEN })
            }
            10 => self.array(stored, depth),
            11 => self.complex(stored, depth),
            class => refused(format!("a type of class {class}, which this build does not know")),
        }
    }

    fn own(&self, id: hid_t) -> Result<OpenId<'a>> {
        self.library.own_type(id)
    }

    /// The type in memory of what `stored` is made of.
    fn below(&self, stored: hid_t, depth: usize) -> Result<MemoryType<'a>> {
        let below = self.own(self.library.calls.type_super(stored))?;
        self.memory(below.id(), depth + 1)
    }

    fn integer(&self, stored: hid_t) -> Result<MemoryType<'a>> {
        let calls = &self.library.calls;
        let stored_len = calls.type_len(stored);
        let Some(len) = [1, 2, 4, 8].into_iter().find(|len| stored_len <= *len) else {
            return refused(format!("an integer of {stored_len} bytes cannot be held by any tensor"));
        };
        let is_bits = calls.type_class(stored) == 4;
        let is_signed = !is_bits && calls.type_sign(stored) == SIGNED;
        // From one byte order to the other the library swaps bytes and takes padding bits for value; within one
        // order it converts. The bytes are swapped by us.
        let is_odd = calls.type_precision(stored) < 8 * stored_len;
        let is_big = is_odd && len > 1 && calls.type_order(stored) == ORDER_BIG;
        let letter = if is_bits {
            'B'
        } else if is_signed {
            'I'
        } else {
            'U'
        };
        let (order, ending) = if is_big { (ByteOrder::Big, "BE") } else { (ByteOrder::Little, "LE") };
        let name = format!("H5T_STD_{letter}{}{ending}_g", 8 * len);
        let id = self.own(calls.type_copy(calls.constant(&name)?))?;
        let number = Number::integer(len, is_signed)
            .ok_or_else(|| Error::new(ErrorKind::Bug, format!("no integer of {len} bytes")))?;
        Ok(MemoryType { id, dtype: Dtype::Number { number, order }, len })
    }

    fn float(&self, stored: hid_t) -> Result<MemoryType<'a>> {
        let calls = &self.library.calls;
        let (len, bias) = (calls.type_len(stored), calls.type_bias(stored));
        let fields = calls.type_fields(stored);
        if (len, bias, fields) == (2, 127, Some([15, 7, 8, 0, 7])) {
            let id = self.own(calls.type_copy(stored))?;
            self.library.check(calls.type_set_order(id.id(), ORDER_LITTLE), "no byte order")?;
            return Ok(MemoryType { id, dtype: Dtype::native(Number::Bf16), len });
        }
        let holds = |most: &(usize, usize, usize, Number)| {
            let [_, _, exponent, _, mantissa] = fields.unwrap_or([usize::MAX; 5]);
            exponent <= most.0 && mantissa <= most.1 && bias <= most.2 && len <= most.3.size()
        };
        let Some((.., number)) = FLOATS.into_iter().find(holds) else {
            let bits = calls.type_precision(stored);
            return refused(format!("a float of {bits} bits cannot be held by any tensor"));
        };
        let name = if number == Number::F64 { "H5T_IEEE_F64LE_g" } else { "H5T_IEEE_F32LE_g" };
        let id = self.own(calls.type_copy(calls.constant(name)?))?;
        if number == Number::F16 {
            // Only libraries from 1.14.4 on have this one ready-made.
            let id = id.id();
            self.library.check(calls.type_set_fields(id, 15, 10, 5, 0, 10), "no half precision")?;
            self.library.check(calls.type_set_precision(id, 16), "no half precision")?;
            self.library.check(calls.type_set_len(id, 2), "no half precision")?;
            self.library.check(calls.type_set_bias(id, 15), "no half precision")?;
        }
        Ok(MemoryType { id, dtype: Dtype::native(number), len: number.size() })
    }

    fn text(&self, stored: hid_t) -> Result<MemoryType<'a>> {
        let calls = &self.library.calls;
        let is_variable = calls.type_is_variable_text(stored) > 0;
        let stored_len = calls.type_len(stored);
        let charset = calls.type_charset(stored);
        let id = self.own(calls.type_copy(calls.constant("H5T_C_S1_g")?))?;
        let (len, padding) = if is_variable { (VARIABLE, NUL_TERMINATED) } else { (stored_len, NUL_PADDED) };
        self.library.check(calls.type_set_len(id.id(), len), "no such text")?;
        self.library.check(calls.type_set_padding(id.id(), padding), "no such text")?;
        self.library.check(calls.type_set_charset(id.id(), charset), "no such text")?;
        let utf8 = charset == 1;
        Ok(if is_variable {
            MemoryType { id, dtype: Dtype::VarText { reference_len: REFERENCE_LEN, utf8 }, len: TEXT_LEN }
        } else {
            MemoryType { id, dtype: Dtype::Text { len, padding: Padding::NulPadded, utf8 }, len }
        })
    }

    fn array(&self, stored: hid_t, depth: usize) -> Result<MemoryType<'a>> {
        let item = self.below(stored, depth)?;
        let shape = self.library.calls.type_array_shape(stored);
        let id = self.own(self.library.calls.type_array(item.id.id(), &shape))?;
        let len = self.library.calls.type_len(id.id());
        Ok(MemoryType { id, dtype: Dtype::Array { shape, item: Box::new(item.dtype) }, len })
    }

    fn complex(&self, stored: hid_t, depth: usize) -> Result<MemoryType<'a>> {
        let part = self.below(stored, depth)?;
        let Dtype::Number { number, order } = part.dtype else {
            return refused("a complex of something other than numbers");
        };
        let id = self.own(self.library.calls.type_complex(part.id.id())?)?;
        Ok(MemoryType { id, dtype: Dtype::Complex { part: number, order }, len: 2 * number.size() })
    }

    /// Members keep their places where they keep their lengths; otherwise they lie end to end.
    fn compound(&self, stored: hid_t, depth: usize) -> Result<MemoryType<'a>> {
        let calls = &self.library.calls;
        let count = c_uint::try_from(calls.type_member_count(stored)).unwrap_or(0);
        let mut members = Vec::new();
        let (mut end, mut is_same) = (0usize, true);
        for index in 0..count {
            let kind = self.own(calls.type_member(stored, index))?;
            let Some(name) = calls.type_member_name(stored, index) else {
                return refused("a member without a name");
            };
            let place = |error: Error| error.at(format!("member '{}'", name.to_string_lossy()));
            let memory = self.memory(kind.id(), depth + 1).map_err(place)?;
            is_same &= memory.len == calls.type_len(kind.id()) && !memory.dtype.is_variable();
            let packed = end;
            end = end.saturating_add(memory.len);
            members.push((name, memory, packed, calls.type_member_offset(stored, index)));
        }
        let len = if is_same { calls.type_len(stored) } else { end };
        let id = self.own(calls.type_create(CLASS_COMPOUND, len))?;
        let mut fields = Vec::new();
        for (name, memory, packed, original) in members {
            let offset = if is_same { original } else { packed };
            self.library
                .check(calls.type_insert(id.id(), &name, offset, memory.id.id()), "no such member")?;
            fields.push(Field { name: name.to_string_lossy().into_owned(), offset, dtype: memory.dtype });
        }
        Ok(MemoryType { id, dtype: Dtype::Compound { len, fields }, len })
    }
}
