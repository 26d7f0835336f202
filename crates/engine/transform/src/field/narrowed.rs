//! Fields whose numbers only become shorter ones, such as labels of 64 bits for a framework that computes in 32: short ones are cast where
//! they lie, without memory and steps of their own.

use forebay_batch::FieldArray;
use forebay_container::cast::Cast;

use crate::{
    field::piece,
    field_form::FieldForm,
    program::{FieldProgram, step::EndType},
};

/// A cast to numbers that take no more bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Narrowing(Cast);

/// Longer fields get memory of their own, as what they no longer need would be kept, and sent to a device, with the batch.
const MOST_BYTES: usize = 16 << 10;

/// Bytes that are set aside at a time while their place is written to: a multiple of every number's size.
const CHUNK: usize = 512;

impl Narrowing {
    /// The cast that is all of `program`, and the field it is done to; nothing where there is more to it.
    pub(crate) fn of(program: &FieldProgram, forms: &[FieldForm]) -> Option<(usize, Self)> {
        let (&[at], EndType::Number(to)) = (&program.sources[..], program.end) else { return None };
        let from = forms.get(at)?.number()?;
        let is_mere = program.is_in_place() && program.values.is_empty();
        let is_shorter = from != to && to.size() <= from.size();
        (is_mere && is_shorter && !piece::goes_by_floats(from, to))
            .then_some((at, Self(Cast { from, to, scale: None })))
    }

    /// True when `field` is cast where it lies.
    pub(crate) fn suits(self, field: &FieldArray) -> bool {
        field.bytes.len() <= MOST_BYTES
    }

    /// `field` as the field that `form` describes. Padding, which is zero, stays so.
    pub(crate) fn run(self, mut field: FieldArray, form: &FieldForm) -> FieldArray {
        let len = self.cast_in_place(&mut field.bytes);
        field.bytes.truncate(len);
        let FieldForm { name, dtype, kind, .. } = form.clone();
        FieldArray { name, dtype, kind, ..field }
    }

    /// Casts all of `bytes`; gives the bytes of the result.
    fn cast_in_place(self, bytes: &mut [u8]) -> usize {
        let Self(Cast { from, to, .. }) = self;
        let (mut chunk, mut written) = ([0; CHUNK], 0);
        for start in (0..bytes.len()).step_by(CHUNK) {
            let chunk = &mut chunk[..CHUNK.min(bytes.len() - start)];
            chunk.copy_from_slice(&bytes[start..start + chunk.len()]);
            let len = chunk.len() / from.size() * to.size();
            self.0.run(chunk, &mut bytes[written..written + len]);
            written += len;
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use forebay_container::Number;

    use super::*;

    #[test]
    fn numbers_that_are_cast_where_they_lie_are_those_that_are_cast_elsewhere() {
        use Number::{F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        for (from, to) in
            [(I64, I32), (U64, U32), (F64, F32), (I32, U8), (I64, I8), (U16, I16), (F64, F16), (F64, I64)]
        {
            let cast = Cast { from, to, scale: None };
            for count in [0, 1, 63, 64, 65, 200, 2048] {
                let mut bytes = vec![0; count * from.size()];
                let numbers: Vec<u8> =
                    (0..count).flat_map(|at| (at as i64 * 77 - 3000).to_ne_bytes()).collect();
                Cast { from: I64, to: from, scale: None }.run(&numbers, &mut bytes);
                let mut elsewhere = vec![0; count * to.size()];
                cast.run(&bytes, &mut elsewhere);
                let len = Narrowing(cast).cast_in_place(&mut bytes);
                assert!(bytes[..len] == elsewhere, "{from:?} to {to:?}, {count}");
            }
        }
    }
}
