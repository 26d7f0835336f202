//! Huffman codes of a JPEG file.

use forebay_process::{Error, Result};

use super::bits::EntropyBits;

/// Codes up to this long are looked up at once.
const LOOKUP_BITS: u32 = 10;

/// One table of codes.
#[derive(Clone, Debug)]
pub(crate) struct Huffman {
    /// By the next bits: length and symbol of the code they begin with, length 0 where it is longer.
    lookup: Box<[(u8, u8); 1 << LOOKUP_BITS]>,
    /// By length, the first code that is longer, its bits at the top of 16.
    limit: [u32; 17],
    /// By length, what is added to a code to find its symbol.
    offset: [i32; 17],
    symbols: Vec<u8>,
}

impl Huffman {
    /// The table of which `counts` says how many codes there are of each length from 1 on.
    pub(crate) fn new(counts: &[u8; 16], symbols: &[u8]) -> Result<Self> {
        let mut table = Self {
            lookup: Box::new([(0, 0); 1 << LOOKUP_BITS]),
            limit: [0; 17],
            offset: [0; 17],
            symbols: symbols.to_vec(),
        };
        let (mut code, mut first) = (0u32, 0usize);
        for (len, count) in (1u32..).zip(counts) {
            let count = usize::from(*count);
            let end = code + count as u32;
            if end > 1 << len {
                return Err(Error::corrupt("JPEG has more Huffman codes than there are"));
            }
            table.offset[len as usize] = first as i32 - code as i32;
            for (code, symbol) in (code..end).zip(&symbols[first..first + count]) {
                if len <= LOOKUP_BITS {
                    let start = (code << (LOOKUP_BITS - len)) as usize;
                    let same = 1usize << (LOOKUP_BITS - len);
                    table.lookup[start..start + same].fill((len as u8, *symbol));
                }
            }
            table.limit[len as usize] = end << (16 - len);
            first += count;
            code = end << 1;
        }
        Ok(table)
    }

    /// The next symbol.
    #[inline(always)]
    pub(crate) fn symbol(&self, bits: &mut EntropyBits<'_>) -> Result<u8> {
        bits.fill();
        let (len, symbol) = self.lookup[bits.peek(LOOKUP_BITS) as usize % self.lookup.len()];
        if len > 0 {
            bits.skip(u32::from(len));
            return Ok(symbol);
        }
        self.long_symbol(bits)
    }

    fn long_symbol(&self, bits: &mut EntropyBits<'_>) -> Result<u8> {
        let next = bits.peek(16);
        for len in LOOKUP_BITS + 1..=16 {
            if next < self.limit[len as usize] {
                bits.skip(len);
                let at = (next >> (16 - len)) as i32 + self.offset[len as usize];
                let symbol = usize::try_from(at).ok().and_then(|at| self.symbols.get(at));
                return symbol.copied().ok_or_else(|| Error::corrupt("JPEG has a code that is none"));
            }
        }
        bits.check()?;
        Err(Error::corrupt("JPEG has a code that is none"))
    }
}
