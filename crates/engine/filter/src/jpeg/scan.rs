//! Scans: entropy-coded coefficients, of all components in turn or of one alone, at once or bit by bit.

use forebay_process::{Error, Result};

use super::{
    bits::EntropyBits,
    header::{Component, JpegHeader, JpegTables, ScanHeader, TakeScan, ZIGZAG},
    huffman::Huffman,
    wide,
};

/// Samples of one component, up to the border of whole blocks.
#[derive(Debug, Default)]
pub(crate) struct Plane {
    pub(crate) samples: Vec<u8>,
    pub(crate) stride: usize,
    /// Coefficients of a progressive file, block by block.
    coefficients: Vec<i16>,
    /// How samples are scaled: the table that was in force when the component was first seen.
    table: Option<[u16; 64]>,
}

/// All scans of a file, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Scans {
    planes: Vec<Plane>,
    count: usize,
}

/// Encoders write ten or so. Each costs a pass over all blocks, however short it is.
const MOST_SCANS: usize = 500;

impl TakeScan for Scans {
    const READS: bool = true;

    fn take(
        &mut self,
        data: &[u8],
        at: usize,
        found: (&JpegHeader, &JpegTables, &ScanHeader),
    ) -> Result<usize> {
        let (header, tables, scan) = found;
        self.count += 1;
        if self.count > MOST_SCANS {
            return Err(Error::corrupt("JPEG has more scans than any encoder writes"));
        }
        if self.planes.is_empty() {
            let blocks: usize = header.components.iter().map(|one| one.blocks.0 * one.blocks.1).sum();
            // A block takes a bit at least.
            if blocks > data.len().saturating_mul(8) {
                return Err(Error::corrupt("JPEG ends early"));
            }
            self.planes = header.components.iter().map(|component| Plane::new(component, header)).collect();
        }
        for (number, ..) in &scan.components {
            let (plane, component) = (&mut self.planes[*number], &header.components[*number]);
            if plane.table.is_none() {
                plane.table = tables.quantization[component.table];
            }
            if plane.table.is_none() {
                return Err(Error::corrupt("JPEG lacks a quantization table"));
            }
        }
        let codes = scan.components.iter().map(|(_, dc, ac)| Codes::of(tables, scan, *dc, *ac));
        let codes = codes.collect::<Result<Vec<_>>>()?;
        let mut state = ScanState { bits: EntropyBits::new(data, at), last_dc: [0; 4], skipped: 0 };
        self.read(header, (scan, &codes), tables.restart, &mut state)?;
        state.bits.check()?;
        Ok(state.bits.marker_at())
    }
}

/// The codes of one component in a scan.
struct Codes<'a> {
    dc: Option<&'a Huffman>,
    ac: Option<&'a Huffman>,
}

impl<'a> Codes<'a> {
    fn of(tables: &'a JpegTables, scan: &ScanHeader, dc: usize, ac: usize) -> Result<Self> {
        let codes = Self { dc: tables.dc[dc].as_ref(), ac: tables.ac[ac].as_ref() };
        let needs_dc = scan.first == 0 && scan.high == 0;
        let needs_ac = scan.last > 0;
        if (needs_dc && codes.dc.is_none()) || (needs_ac && codes.ac.is_none()) {
            return Err(no_code());
        }
        Ok(codes)
    }
}

/// What goes from block to block.
struct ScanState<'a> {
    bits: EntropyBits<'a>,
    /// By component.
    last_dc: [i32; 4],
    /// Blocks that follow without coefficients of this scan.
    skipped: u32,
}

fn no_code() -> Error {
    Error::corrupt("JPEG lacks a Huffman table")
}

impl Plane {
    fn new(component: &Component, header: &JpegHeader) -> Self {
        let (across, down) = component.blocks;
        let coefficients = if header.is_progressive { vec![0; across * down * 64] } else { Vec::new() };
        Self { samples: vec![0; across * down * 64], stride: across * 8, coefficients, table: None }
    }

    fn transform(&mut self, place: (usize, usize), block: &[i16; 64]) {
        let Some(table) = &self.table else { return };
        let start = place.1 * 8 * self.stride + place.0 * 8;
        wide::transform(block, table, &mut self.samples[start..], self.stride);
    }
}

impl Scans {
    fn read(
        &mut self,
        header: &JpegHeader,
        (scan, codes): (&ScanHeader, &[Codes<'_>]),
        restart: usize,
        state: &mut ScanState<'_>,
    ) -> Result<()> {
        let alone = if let [(number, ..)] = scan.components[..] { Some(number) } else { None };
        let (across, down) = match alone {
            Some(number) => {
                let component = &header.components[number];
                (component.width.div_ceil(8), component.height.div_ceil(8))
            }
            None => (header.width.div_ceil(8 * header.most.0), header.height.div_ceil(8 * header.most.1)),
        };
        let mut restarts = 0u8;
        for unit in 0..across * down {
            if restart > 0 && unit > 0 && unit % restart == 0 {
                state.bits.restart(restarts)?;
                restarts = restarts.wrapping_add(1);
                (state.last_dc, state.skipped) = ([0; 4], 0);
            }
            let (x, y) = (unit % across, unit / across);
            for ((number, ..), codes) in scan.components.iter().zip(codes) {
                let (h, v) = if alone.is_some() { (1, 1) } else { header.components[*number].factors };
                for place in (0..h * v).map(|at| (x * h + at % h, y * v + at / h)) {
                    self.block(header, (scan, codes), *number, place, state)?;
                }
            }
            state.bits.check()?;
        }
        Ok(())
    }

    #[inline]
    fn block(
        &mut self,
        header: &JpegHeader,
        (scan, codes): (&ScanHeader, &Codes<'_>),
        number: usize,
        place: (usize, usize),
        state: &mut ScanState<'_>,
    ) -> Result<()> {
        let plane = &mut self.planes[number];
        if !header.is_progressive {
            let mut block = [0; 64];
            whole_block(&mut block, codes, &mut state.last_dc[number], &mut state.bits)?;
            plane.transform(place, &block);
            return Ok(());
        }
        let start = 64 * (place.1 * header.components[number].blocks.0 + place.0);
        let Some(block) = plane.coefficients.get_mut(start..).and_then(<[i16]>::first_chunk_mut) else {
            return Err(Error::corrupt("JPEG has a block past its border"));
        };
        match (scan.first, scan.high) {
            (0, 0) => {
                let diff = dc_difference(codes, &mut state.bits)?;
                let last = &mut state.last_dc[number];
                *last = last.wrapping_add(diff);
                block[0] = (*last << scan.low) as i16;
            }
            (0, _) => block[0] |= (state.bits.get(1) << scan.low) as i16,
            (_, 0) => first_bits(block, scan, codes, state)?,
            _ => next_bit(block, scan, codes, state)?,
        }
        Ok(())
    }

    /// The samples of all components, once all scans were taken.
    pub(crate) fn finish(mut self, header: &JpegHeader) -> Result<Vec<Plane>> {
        if self.planes.is_empty() || self.planes.iter().any(|plane| plane.table.is_none()) {
            return Err(Error::corrupt("JPEG lacks a component"));
        }
        for (plane, component) in self.planes.iter_mut().zip(&header.components) {
            let coefficients = std::mem::take(&mut plane.coefficients);
            for (at, block) in coefficients.as_chunks::<64>().0.iter().enumerate() {
                plane.transform((at % component.blocks.0, at / component.blocks.0), block);
            }
        }
        Ok(self.planes)
    }
}

fn dc_difference(codes: &Codes<'_>, bits: &mut EntropyBits<'_>) -> Result<i32> {
    let len = u32::from(codes.dc.ok_or_else(no_code)?.symbol(bits)?);
    if len > 15 {
        return Err(Error::corrupt("JPEG has a coefficient that is too long"));
    }
    Ok(bits.number(len))
}

/// All coefficients of a block of a baseline file.
fn whole_block(
    block: &mut [i16; 64],
    codes: &Codes<'_>,
    last: &mut i32,
    bits: &mut EntropyBits<'_>,
) -> Result<()> {
    *last = last.wrapping_add(dc_difference(codes, bits)?);
    block[0] = *last as i16;
    let ac = codes.ac.ok_or_else(no_code)?;
    let mut at = 1;
    while at < 64 {
        let symbol = ac.symbol(bits)?;
        let (run, len) = (usize::from(symbol >> 4), u32::from(symbol & 15));
        if len == 0 {
            if run < 15 {
                break;
            }
            at += 16;
            continue;
        }
        at += run;
        let place =
            *ZIGZAG.get(at).ok_or_else(|| Error::corrupt("JPEG has a block of too many coefficients"))?;
        block[usize::from(place)] = bits.number(len) as i16;
        at += 1;
    }
    Ok(())
}

/// Coefficients of a progressive file, all but their last bits.
fn first_bits(
    block: &mut [i16; 64],
    scan: &ScanHeader,
    codes: &Codes<'_>,
    state: &mut ScanState<'_>,
) -> Result<()> {
    if state.skipped > 0 {
        state.skipped -= 1;
        return Ok(());
    }
    let ac = codes.ac.ok_or_else(no_code)?;
    let mut at = scan.first;
    while at <= scan.last {
        let symbol = ac.symbol(&mut state.bits)?;
        let (run, len) = (usize::from(symbol >> 4), u32::from(symbol & 15));
        if len == 0 && run < 15 {
            state.skipped = (1 << run) - 1 + state.bits.get(run as u32);
            break;
        }
        at += run;
        if len > 0 {
            let place =
                *ZIGZAG.get(at).ok_or_else(|| Error::corrupt("JPEG has a block of too many coefficients"))?;
            block[usize::from(place)] = (state.bits.number(len) << scan.low) as i16;
        }
        at += 1;
    }
    Ok(())
}

/// One more bit of coefficients of a progressive file, and those that this bit makes more than zero.
fn next_bit(
    block: &mut [i16; 64],
    scan: &ScanHeader,
    codes: &Codes<'_>,
    state: &mut ScanState<'_>,
) -> Result<()> {
    let ac = codes.ac.ok_or_else(no_code)?;
    let bit = 1i16 << scan.low;
    let mut at = scan.first;
    if state.skipped == 0 {
        while at <= scan.last {
            let symbol = ac.symbol(&mut state.bits)?;
            let (run, len) = (usize::from(symbol >> 4), symbol & 15);
            let fresh = match len {
                0 if run < 15 => {
                    state.skipped = (1 << run) + state.bits.get(run as u32);
                    break;
                }
                0 => 0,
                1 if state.bits.get(1) == 1 => bit,
                1 => -bit,
                _ => return Err(Error::corrupt("JPEG has a coefficient that is too long")),
            };
            at = refine(block, (at, scan.last, run), bit, &mut state.bits);
            if fresh != 0 && at <= scan.last {
                block[usize::from(ZIGZAG[at])] = fresh;
            }
            at += 1;
        }
    }
    if state.skipped > 0 {
        refine(block, (at, scan.last, usize::MAX), bit, &mut state.bits);
        state.skipped -= 1;
    }
    Ok(())
}

/// Adds a bit to coefficients that are not zero, past `run` that are; gives where the next zero is.
fn refine(
    block: &mut [i16; 64],
    (mut at, last, mut run): (usize, usize, usize),
    bit: i16,
    bits: &mut EntropyBits<'_>,
) -> usize {
    while at <= last {
        let value = &mut block[usize::from(ZIGZAG[at])];
        if *value == 0 {
            if run == 0 {
                break;
            }
            run -= 1;
        } else if bits.get(1) == 1 && *value & bit == 0 {
            *value = value.wrapping_add(if *value > 0 { bit } else { -bit });
        }
        at += 1;
    }
    at
}
