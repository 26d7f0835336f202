//! Markers of a JPEG file: sizes, components, tables, and where its scans are.

use forebay_process::{Error, ErrorKind, Result};

use super::huffman::Huffman;

/// What the markers before the pixels say.
#[derive(Clone, Debug)]
pub(crate) struct JpegHeader {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) is_progressive: bool,
    pub(crate) components: Vec<Component>,
    /// The greatest factors of all components.
    pub(crate) most: (usize, usize),
    pub(crate) color: ColorModel,
}

/// One component: grey, or one of several colours.
#[derive(Clone, Debug)]
pub(crate) struct Component {
    id: u8,
    /// How often it is sampled across and down where another is sampled most.
    pub(crate) factors: (usize, usize),
    pub(crate) table: usize,
    /// Samples that count.
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// Blocks across and down, up to the border of whole units.
    pub(crate) blocks: (usize, usize),
}

/// What components are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColorModel {
    Grey,
    YCbCr,
    Rgb,
    Cmyk,
    Ycck,
}

/// Tables that scans use; a later marker may change one.
#[derive(Clone, Debug, Default)]
pub(crate) struct JpegTables {
    pub(crate) quantization: [Option<[u16; 64]>; 4],
    pub(crate) dc: [Option<Huffman>; 4],
    pub(crate) ac: [Option<Huffman>; 4],
    /// Units between restarts; 0 for none.
    pub(crate) restart: usize,
}

/// One scan: which coefficients of which components follow.
#[derive(Clone, Debug)]
pub(crate) struct ScanHeader {
    /// Component, its table of DC codes and of AC codes.
    pub(crate) components: Vec<(usize, usize, usize)>,
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) high: u32,
    pub(crate) low: u32,
}

/// Takes scans as they come.
pub(crate) trait TakeScan {
    /// False where the header is all that is wanted.
    const READS: bool;

    /// Takes the scan whose data begins at `at`; gives where the next marker is.
    fn take(
        &mut self,
        data: &[u8],
        at: usize,
        found: (&JpegHeader, &JpegTables, &ScanHeader),
    ) -> Result<usize>;
}

/// Stops at the first scan.
pub(crate) struct Nothing;

impl TakeScan for Nothing {
    const READS: bool = false;

    fn take(&mut self, _: &[u8], at: usize, _: (&JpegHeader, &JpegTables, &ScanHeader)) -> Result<usize> {
        Ok(at)
    }
}

/// The order in which coefficients of a block are stored.
pub(crate) const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47, 55, 62, 63,
];

fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("JPEG: {what}"))
        .hint("write it as a baseline or progressive JPEG of 8 bits, or as PNG")
}

/// What segments before the frame say of colours.
#[derive(Default)]
struct Hints {
    is_jfif: bool,
    adobe: Option<u8>,
}

impl JpegHeader {
    /// Channels of the pixels.
    pub(crate) fn channels(&self) -> usize {
        if self.color == ColorModel::Grey { 1 } else { 3 }
    }

    /// Reads all markers of `data`, and hands its scans to `scans`.
    pub(crate) fn read<S: TakeScan>(data: &[u8], scans: &mut S) -> Result<Self> {
        let mut tables = JpegTables::default();
        let mut hints = Hints::default();
        let mut header: Option<Self> = None;
        let mut at = 2;
        loop {
            let Some(marker) = next_marker(data, &mut at) else {
                // A baseline file whose pixels are all there lacks nothing but its end.
                let is_whole = header.as_ref().is_some_and(|header| !header.is_progressive);
                return header
                    .filter(|_| S::READS && is_whole)
                    .ok_or_else(|| Error::corrupt("JPEG ends early"));
            };
            if marker == 0xd9 {
                return header.filter(|_| S::READS).ok_or_else(|| Error::corrupt("JPEG without a picture"));
            }
            if matches!(marker, 0xd0..=0xd7 | 0x01) {
                continue;
            }
            let body = segment(data, &mut at)?;
            match marker {
                0xdb => tables.add_quantization(body)?,
                0xc4 => tables.add_codes(body)?,
                0xdd => tables.restart = usize::from(u16_at(body, 0)?),
                0xe0 => hints.is_jfif |= body.starts_with(b"JFIF\0"),
                0xee if body.starts_with(b"Adobe") => hints.adobe = body.get(11).copied().or(hints.adobe),
                0xc0..=0xc2 if header.is_some() => return Err(unsupported("several pictures in one")),
                0xc0..=0xc2 => {
                    let found = Self::of_frame(body, marker == 0xc2, &hints)?;
                    if !S::READS {
                        return Ok(found);
                    }
                    header = Some(found);
                }
                0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                    return Err(unsupported("neither baseline nor progressive"));
                }
                0xda => {
                    let header =
                        header.as_ref().ok_or_else(|| Error::corrupt("JPEG has pixels before their size"))?;
                    let scan = ScanHeader::of(body, header)?;
                    at = scans.take(data, at, (header, &tables, &scan))?;
                }
                _ => {}
            }
        }
    }

    fn of_frame(body: &[u8], is_progressive: bool, hints: &Hints) -> Result<Self> {
        let (height, width) = (usize::from(u16_at(body, 1)?), usize::from(u16_at(body, 3)?));
        let (bits, count) = (body[0], usize::from(*body.get(5).ok_or_else(ended)?));
        if bits != 8 {
            return Err(unsupported(&format!("{bits} bits")));
        }
        if height == 0 || width == 0 {
            return Err(unsupported("no height or no width"));
        }
        if !matches!(count, 1 | 3 | 4) {
            return Err(unsupported(&format!("{count} components")));
        }
        let listed = body.get(6..6 + 3 * count).ok_or_else(ended)?;
        let factors = |one: &[u8]| (usize::from(one[1] >> 4), usize::from(one[1] & 15));
        let most = listed.chunks_exact(3).map(factors).fold((1, 1), |m, f| (m.0.max(f.0), m.1.max(f.1)));
        let mut components = Vec::with_capacity(count);
        for one in listed.chunks_exact(3) {
            let (across, down) = factors(one);
            if !(1..=4).contains(&across) || !(1..=4).contains(&down) || one[2] > 3 {
                return Err(Error::corrupt("JPEG has a component that makes no sense"));
            }
            if most.0 % across != 0 || most.1 % down != 0 {
                return Err(unsupported("components of uneven sampling"));
            }
            let units = (width.div_ceil(8 * most.0), height.div_ceil(8 * most.1));
            components.push(Component {
                id: one[0],
                factors: (across, down),
                table: usize::from(one[2]),
                width: (width * across).div_ceil(most.0),
                height: (height * down).div_ceil(most.1),
                blocks: (units.0 * across, units.1 * down),
            });
        }
        let color = ColorModel::of(&components, hints);
        Ok(Self { height, width, is_progressive, components, most, color })
    }
}

impl ColorModel {
    /// As libjpeg guesses it.
    fn of(components: &[Component], hints: &Hints) -> Self {
        let ids: Vec<u8> = components.iter().map(|component| component.id).collect();
        match (components.len(), hints.adobe) {
            (1, _) => Self::Grey,
            (3, _) if hints.is_jfif => Self::YCbCr,
            (3, Some(0)) => Self::Rgb,
            (3, None) if ids == *b"RGB" => Self::Rgb,
            (3, _) => Self::YCbCr,
            (_, Some(2)) => Self::Ycck,
            _ => Self::Cmyk,
        }
    }
}

impl JpegTables {
    fn add_quantization(&mut self, mut body: &[u8]) -> Result<()> {
        while let Some((head, rest)) = body.split_first() {
            let len = if head >> 4 == 0 { 1 } else { 2 };
            let (listed, after) = rest.split_at_checked(64 * len).ok_or_else(ended)?;
            let slot = self.quantization.get_mut(usize::from(head & 15)).ok_or_else(ended)?;
            let mut table = [0; 64];
            for (value, place) in listed.chunks_exact(len).zip(ZIGZAG) {
                table[usize::from(place)] = value.iter().fold(0, |sum, byte| sum << 8 | u16::from(*byte));
            }
            *slot = Some(table);
            body = after;
        }
        Ok(())
    }

    fn add_codes(&mut self, mut body: &[u8]) -> Result<()> {
        while let Some((head, rest)) = body.split_first() {
            let (counts, rest) = rest.split_first_chunk::<16>().ok_or_else(ended)?;
            let total = counts.iter().map(|count| usize::from(*count)).sum();
            let (symbols, after) = rest.split_at_checked(total).ok_or_else(ended)?;
            let tables = if head >> 4 == 0 { &mut self.dc } else { &mut self.ac };
            let slot = tables.get_mut(usize::from(head & 15)).ok_or_else(ended)?;
            *slot = Some(Huffman::new(counts, symbols)?);
            body = after;
        }
        Ok(())
    }
}

impl ScanHeader {
    fn of(body: &[u8], header: &JpegHeader) -> Result<Self> {
        let count = usize::from(*body.first().ok_or_else(ended)?);
        let listed = body.get(1..1 + 2 * count).ok_or_else(ended)?;
        let rest = body.get(1 + 2 * count..4 + 2 * count).ok_or_else(ended)?;
        let mut components: Vec<(usize, usize, usize)> = Vec::with_capacity(count);
        for one in listed.chunks_exact(2) {
            let found = header.components.iter().position(|component| component.id == one[0]);
            let number =
                found.ok_or_else(|| Error::corrupt("JPEG has a scan of a component that is not there"))?;
            let is_twice = components.iter().any(|(known, ..)| *known == number);
            if one[1] >> 4 > 3 || one[1] & 15 > 3 || is_twice {
                return Err(Error::corrupt("JPEG has a scan that makes no sense"));
            }
            components.push((number, usize::from(one[1] >> 4), usize::from(one[1] & 15)));
        }
        let (first, last) = (usize::from(rest[0]), usize::from(rest[1]));
        let (high, low) = (u32::from(rest[2] >> 4), u32::from(rest[2] & 15));
        let scan = match header.is_progressive {
            true => Self { components, first, last, high, low },
            false => Self { components, first: 0, last: 63, high: 0, low: 0 },
        };
        let is_one_kind = !header.is_progressive || (scan.first == 0) == (scan.last == 0);
        let is_alone = !header.is_progressive || scan.first == 0 || count == 1;
        let is_sound = scan.first <= scan.last && scan.last < 64 && scan.low <= 13 && is_one_kind && is_alone;
        if count == 0 || !is_sound || (scan.high != 0 && scan.high != scan.low + 1) {
            return Err(Error::corrupt("JPEG has a scan that makes no sense"));
        }
        Ok(scan)
    }
}

fn ended() -> Error {
    Error::corrupt("JPEG has a segment that is too short")
}

/// The code of the next marker, whose segment begins at `at`.
fn next_marker(data: &[u8], at: &mut usize) -> Option<u8> {
    while let Some(two) = data.get(*at..*at + 2) {
        if two[0] == 0xff && !matches!(two[1], 0 | 0xff) {
            *at += 2;
            return Some(two[1]);
        }
        *at += 1;
    }
    None
}

/// The segment at `at`, without its length.
fn segment<'a>(data: &'a [u8], at: &mut usize) -> Result<&'a [u8]> {
    let len = usize::from(u16_at(data, *at)?);
    let body = data.get(*at + 2..*at + len).ok_or_else(|| Error::corrupt("JPEG ends early"))?;
    *at += len;
    Ok(body)
}

fn u16_at(data: &[u8], at: usize) -> Result<u16> {
    let two = data.get(at..at + 2).ok_or_else(|| Error::corrupt("JPEG ends early"))?;
    Ok(u16::from_be_bytes([two[0], two[1]]))
}
