//! JPEG files: a grey picture for each file, baseline, of quality 75 as Pillow writes by default.

use std::{fs, io, path::Path};

use super::{content::RandomBytes, file::GeneratedFile};

/// The order in which the coefficients of a block are stored.
const ZIGZAG: [usize; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// The steps of luminance of Annex K.1 at quality 75: half of the table, rounded.
const QUANTA: [u8; 64] = [
    8, 6, 5, 8, 12, 20, 26, 31, 6, 6, 7, 10, 13, 29, 30, 28, 7, 7, 8, 12, 20, 29, 35, 28, 7, 9, 11, 15, 26,
    44, 40, 31, 9, 11, 19, 28, 34, 55, 52, 39, 12, 18, 28, 32, 41, 52, 57, 46, 25, 32, 39, 44, 52, 61, 60,
    51, 36, 46, 48, 49, 56, 50, 52, 50,
];

/// How many codes there are of each length, and their values: Annex K.3, luminance.
const DC_COUNTS: [u8; 16] = [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0];
const DC_VALUES: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
const AC_COUNTS: [u8; 16] = [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d];
const AC_VALUES: [u8; 162] = [
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22,
    0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33,
    0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x34,
    0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55,
    0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76,
    0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96,
    0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5,
    0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4,
    0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1,
    0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
];

/// Writes a square picture of as many pixels as a sample of `file` has bytes.
pub(super) fn write_jpeg(path: &Path, file: &GeneratedFile) -> io::Result<()> {
    let side = |len: u64| {
        u16::try_from(len).map_err(|_| io::Error::other("a JPEG is at most 65535 pixels wide and high"))
    };
    let (height, width) = (side(file.side())?, side(file.side())?);
    let mut bytes = RandomBytes::new(file.seed, file.number, file.compress_ratio);
    let mut pixels = vec![0; usize::from(height) * usize::from(width)];
    bytes.fill(&mut pixels);
    fs::write(path, encode(&pixels, height, width))
}

fn encode(pixels: &[u8], height: u16, width: u16) -> Vec<u8> {
    let mut out = vec![0xff, 0xd8];
    segment(&mut out, 0xe0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0");
    segment(&mut out, 0xdb, &[&[0][..], &ZIGZAG.map(|at| QUANTA[at])].concat());
    let (height_bytes, width_bytes) = (height.to_be_bytes(), width.to_be_bytes());
    segment(&mut out, 0xc0, &[&[8][..], &height_bytes, &width_bytes, &[1, 1, 0x11, 0]].concat());
    segment(&mut out, 0xc4, &[&[0][..], &DC_COUNTS, &DC_VALUES].concat());
    segment(&mut out, 0xc4, &[&[0x10][..], &AC_COUNTS, &AC_VALUES].concat());
    segment(&mut out, 0xda, &[1, 1, 0, 0, 63, 0]);
    let (dc_codes, ac_codes) = (codes(&DC_COUNTS, &DC_VALUES), codes(&AC_COUNTS, &AC_VALUES));
    let mut bits = BitWriter { out, word: 0, count: 0 };
    let (height, width) = (usize::from(height), usize::from(width));
    let cosines = cosines();
    let mut before = 0;
    for top in (0..height).step_by(8) {
        for left in (0..width).step_by(8) {
            let block = std::array::from_fn(|at| {
                let (y, x) = ((top + at / 8).min(height - 1), (left + at % 8).min(width - 1));
                f32::from(pixels[y * width + x]) - 128.0
            });
            let quantised = transform(&block, &cosines);
            write_block(&mut bits, &quantised, before, &dc_codes, &ac_codes);
            before = quantised[0];
        }
    }
    bits.finish()
}

fn segment(out: &mut Vec<u8>, marker: u8, bytes: &[u8]) {
    out.extend([0xff, marker]);
    out.extend(u16::try_from(bytes.len() + 2).unwrap_or(u16::MAX).to_be_bytes());
    out.extend(bytes);
}

/// Code and length of each value.
fn codes(counts: &[u8; 16], values: &[u8]) -> [(u16, u8); 256] {
    let mut codes = [(0, 0); 256];
    let (mut code, mut values) = (0, values.iter());
    for (len, count) in (1..).zip(counts) {
        for value in values.by_ref().take(usize::from(*count)) {
            codes[usize::from(*value)] = (code, len);
            code += 1;
        }
        code <<= 1;
    }
    codes
}

/// The cosine transform's table, frequency by place.
fn cosines() -> [[f32; 8]; 8] {
    std::array::from_fn(|frequency| {
        std::array::from_fn(|place| {
            let scale = if frequency == 0 { (0.125f32).sqrt() } else { 0.5 };
            let angle = (2 * place + 1) as f32 * frequency as f32 * std::f32::consts::PI / 16.0;
            scale * angle.cos()
        })
    })
}

/// The coefficients of a block, quantised, in the order they are stored.
fn transform(block: &[f32; 64], cosines: &[[f32; 8]; 8]) -> [i16; 64] {
    let mut rows = [0.0; 64];
    for y in 0..8 {
        for frequency in 0..8 {
            rows[y * 8 + frequency] = (0..8).map(|x| block[y * 8 + x] * cosines[frequency][x]).sum();
        }
    }
    ZIGZAG.map(|at| {
        let (vertical, horizontal) = (at / 8, at % 8);
        let value: f32 = (0..8).map(|y| rows[y * 8 + horizontal] * cosines[vertical][y]).sum();
        #[expect(clippy::cast_possible_truncation, reason = "coefficients of 8-bit pixels are below 2048")]
        let quantised = (value / f32::from(QUANTA[at])).round() as i16;
        quantised
    })
}

type HuffmanCodes = [(u16, u8); 256];

fn write_block(bits: &mut BitWriter, block: &[i16; 64], before: i16, dc: &HuffmanCodes, ac: &HuffmanCodes) {
    let difference = block[0] - before;
    let len = magnitude_len(difference);
    bits.put_code(dc[usize::from(len)]);
    bits.put_magnitude(difference, len);
    let mut zeros = 0u8;
    for value in &block[1..] {
        if *value == 0 {
            zeros += 1;
            continue;
        }
        while zeros > 15 {
            bits.put_code(ac[0xf0]);
            zeros -= 16;
        }
        let len = magnitude_len(*value);
        bits.put_code(ac[usize::from(zeros << 4 | len)]);
        bits.put_magnitude(*value, len);
        zeros = 0;
    }
    if zeros > 0 {
        bits.put_code(ac[0]);
    }
}

/// How many bits a value takes.
fn magnitude_len(value: i16) -> u8 {
    u8::try_from(16 - value.unsigned_abs().leading_zeros()).unwrap_or(16)
}

/// Bits, the highest first, a zero byte after each byte of ones.
struct BitWriter {
    out: Vec<u8>,
    word: u32,
    count: u8,
}

impl BitWriter {
    fn put_code(&mut self, (code, len): (u16, u8)) {
        self.put(code, len);
    }

    /// The bits of a value below zero are those of the value less one.
    fn put_magnitude(&mut self, value: i16, len: u8) {
        let raised = if value < 0 { value.wrapping_sub(1) } else { value };
        self.put(raised.cast_unsigned() & (((1u32 << len) - 1) & 0xffff) as u16, len);
    }

    fn put(&mut self, bits: u16, len: u8) {
        self.word = self.word << len | u32::from(bits);
        self.count += len;
        while self.count >= 8 {
            self.count -= 8;
            let byte = ((self.word >> self.count) & 0xff) as u8;
            self.out.push(byte);
            if byte == 0xff {
                self.out.push(0);
            }
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let rest = (8 - self.count) % 8;
        self.put((1u16 << rest) - 1, rest);
        self.out.extend([0xff, 0xd9]);
        self.out
    }
}
