//! Filter 32013: a ZFP stream whose header stands in the parameters, behind a word with versions.

use crate::error::{too_long, unsupported};
use forebay_process::{Error, Result};
use zfp_rs::{
    ZfpBitStream, ZfpConfig, ZfpDecompressionError, ZfpFieldMut, ZfpHeaderMask, ZfpScalar, ZfpScalarType,
};

/// Words a header takes at most; what follows is not read.
const HEADER_WORDS: usize = 5;

pub(crate) fn decode(client_values: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    let words = client_values.get(1..).unwrap_or_default();
    let words = &words[..words.len().min(HEADER_WORDS)];
    let header =
        match ZfpHeader::parse(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()) {
            Some(header) => header,
            // A big-endian writer leaves its header's words, and its numbers, the other way round.
            None => ZfpHeader::parse(&words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>())
                .map(|header| ZfpHeader { is_big_endian: true, ..header })
                .ok_or_else(|| unsupported("header is damaged or of another codec version"))?,
        };
    header.decode_any(input, out)
}

/// What a ZFP header says.
pub(crate) struct ZfpHeader {
    pub(crate) scalar: ZfpScalarType,
    /// The fastest axis first.
    pub(crate) shape: [usize; 4],
    pub(crate) config: ZfpConfig,
    pub(crate) is_big_endian: bool,
}

impl ZfpHeader {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let header = ZfpBitStream::from_bytes(bytes).ok()?.read_header(ZfpHeaderMask::FULL).ok()?;
        let metadata = header.metadata?;
        Some(Self {
            scalar: metadata.scalar_type,
            shape: metadata.dims,
            config: header.config?,
            is_big_endian: false,
        })
    }

    /// Decodes a stream of which this is the header.
    pub(crate) fn decode_any(&self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        match self.scalar {
            ZfpScalarType::I32 => self.decode::<i32, 4>(input, out, i32::to_le_bytes),
            ZfpScalarType::I64 => self.decode::<i64, 8>(input, out, i64::to_le_bytes),
            ZfpScalarType::F32 => self.decode::<f32, 4>(input, out, f32::to_le_bytes),
            ZfpScalarType::F64 => self.decode::<f64, 8>(input, out, f64::to_le_bytes),
        }
    }

    fn decode<T: ZfpScalar + Default + Copy, const LEN: usize>(
        &self,
        input: &[u8],
        out: &mut [u8],
        to_bytes: impl Fn(T) -> [u8; LEN],
    ) -> Result<usize> {
        // Dimensions not in use are zero.
        let count =
            self.shape.iter().filter(|&&len| len > 0).try_fold(1usize, |count, len| count.checked_mul(*len));
        let len = count
            .and_then(|count| count.checked_mul(LEN))
            .filter(|&len| len <= out.len())
            .ok_or_else(too_long)?;
        let mut numbers = vec![T::default(); len / LEN];
        let mut field = ZfpFieldMut::new(&mut numbers, self.shape).map_err(damaged)?;
        let mut stream = ZfpBitStream::from_bytes(input).map_err(damaged)?;
        stream.decompress(&self.config, &mut field).map_err(|error: ZfpDecompressionError| damaged(error))?;
        for (place, number) in out[..len].chunks_exact_mut(LEN).zip(numbers) {
            place.copy_from_slice(&to_bytes(number));
            if self.is_big_endian {
                place.reverse();
            }
        }
        Ok(len)
    }
}

fn damaged(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::corrupt("stream is damaged").because(cause)
}
