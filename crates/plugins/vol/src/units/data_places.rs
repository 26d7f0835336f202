//! Where in the file the elements of a data set lie: in one piece, or in chunks without filters.

/// A data set all of whose bytes have a known place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataPlaces {
    /// In one piece, from this byte of the file on.
    Contiguous(u64),
    /// In chunks.
    Chunked(ChunkAddresses),
}

impl DataPlaces {
    /// Cuts `len` bytes of the data set, from byte `from` of it in C order, into pieces of the file, in that order.
    pub(crate) fn split(&self, from: u64, len: u64, mut each: impl FnMut(u64, u64)) {
        match self {
            Self::Contiguous(start) => each(start + from, len),
            Self::Chunked(chunks) => chunks.split(from, len, each),
        }
    }
}

/// The chunks of a data set: how they are cut, and where each lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkAddresses {
    shape: Vec<u64>,
    /// Extents of a chunk, which may be more than the data set has.
    chunk: Vec<u64>,
    /// Chunks along each dimension.
    counts: Vec<u64>,
    element_len: u64,
    /// The last dimension along which elements of one chunk do not lie as they do in the data set.
    divided: usize,
    /// Elements in one step along `divided`.
    inner: u64,
    /// Where each chunk begins in the file, in C order.
    addresses: Vec<u64>,
}

/// Stands for a chunk whose place is not known.
const NOWHERE: u64 = u64::MAX;
/// More chunks than this are not looked up: the table would take 128 MiB.
const MOST_CHUNKS: u64 = 1 << 24;

impl ChunkAddresses {
    /// A data set of `shape` in chunks of which none has a place yet; `None` where sizes do not fit.
    pub(crate) fn unplaced(shape: &[u64], chunk: &[u64], element_len: u64) -> Option<Self> {
        let is_cut = shape.len() == chunk.len() && !shape.is_empty();
        if !is_cut || shape.contains(&0) || chunk.contains(&0) || element_len == 0 {
            return None;
        }
        let product =
            |extents: &[u64]| extents.iter().try_fold(element_len, |len, extent| len.checked_mul(*extent));
        product(shape).zip(product(chunk))?;
        let counts: Vec<u64> =
            shape.iter().zip(chunk).map(|(extent, chunk)| extent.div_ceil(*chunk)).collect();
        let count = counts.iter().try_fold(1_u64, |count, next| count.checked_mul(*next))?;
        if count > MOST_CHUNKS {
            return None;
        }
        let divided = (0..shape.len()).rev().find(|axis| chunk[*axis] != shape[*axis]).unwrap_or(0);
        let inner = shape[divided + 1..].iter().product();
        let addresses = vec![NOWHERE; usize::try_from(count).ok()?];
        let (shape, chunk) = (shape.to_vec(), chunk.to_vec());
        Some(Self { shape, chunk, counts, element_len, divided, inner, addresses })
    }

    /// Bytes of a chunk.
    pub(crate) fn chunk_len(&self) -> u64 {
        self.chunk.iter().product::<u64>() * self.element_len
    }

    /// Extents of the data set.
    pub(crate) fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// Says that the chunk whose first element is `start` lies at `address`; false where there is no such chunk.
    pub(crate) fn place(&mut self, start: &[u64], address: u64) -> bool {
        let mut index = 0;
        for ((start, chunk), count) in start.iter().zip(&self.chunk).zip(&self.counts) {
            let place = start / chunk;
            if !start.is_multiple_of(*chunk) || place >= *count {
                return false;
            }
            index = index * count + place;
        }
        let place = usize::try_from(index).ok().and_then(|index| self.addresses.get_mut(index));
        place.is_some_and(|place| std::mem::replace(place, address) == NOWHERE && address != NOWHERE)
    }

    /// True when every chunk has a place.
    pub(crate) fn is_complete(&self) -> bool {
        !self.addresses.contains(&NOWHERE)
    }

    fn split(&self, from: u64, len: u64, mut each: impl FnMut(u64, u64)) {
        let (mut element, mut left) = (from / self.element_len, len / self.element_len);
        while left > 0 {
            let (at, count) = self.piece_at(element, left);
            each(at, count * self.element_len);
            element += count;
            left -= count;
        }
    }

    /// Where `element` lies in the file, and how many of `most` lie behind it.
    fn piece_at(&self, element: u64, most: u64) -> (u64, u64) {
        let (within, mut rest) = (element % self.inner, element / self.inner);
        let place = rest % self.shape[self.divided];
        let chunk = self.chunk[self.divided];
        let end = ((place / chunk + 1) * chunk).min(self.shape[self.divided]);
        let count = ((end - place) * self.inner - within).min(most);
        // From the inside out: which chunk, and how far into it.
        let (mut index, mut chunks_inside, mut at, mut inside) = (0, 1, within, self.inner);
        for axis in (0..=self.divided).rev() {
            let place = rest % self.shape[axis];
            rest /= self.shape[axis];
            index += place / self.chunk[axis] * chunks_inside;
            chunks_inside *= self.counts[axis];
            at += place % self.chunk[axis] * inside;
            inside *= self.chunk[axis];
        }
        let address = self.addresses[usize::try_from(index).expect("a chunk in the table")];
        (address + at * self.element_len, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks of `shape` at addresses far apart, in another order than that of the data set.
    fn placed(shape: &[u64], chunk: &[u64], element_len: u64) -> ChunkAddresses {
        let mut places = ChunkAddresses::unplaced(shape, chunk, element_len).unwrap();
        let total = places.addresses.len() as u64;
        for index in 0..total {
            let (mut start, mut rest) = (vec![0; shape.len()], index);
            for axis in (0..shape.len()).rev() {
                start[axis] = rest % places.counts[axis] * chunk[axis];
                rest /= places.counts[axis];
            }
            assert!(!places.is_complete());
            assert!(places.place(&start, 1000 + (total - index) * 10_000));
        }
        assert!(places.is_complete());
        places
    }

    /// Where an element lies, found coordinate by coordinate.
    fn place_of(places: &ChunkAddresses, element: u64) -> u64 {
        let (mut rest, mut place) = (element, vec![0; places.shape.len()]);
        for axis in (0..places.shape.len()).rev() {
            place[axis] = rest % places.shape[axis];
            rest /= places.shape[axis];
        }
        let (mut index, mut at) = (0, 0);
        for (axis, place) in place.into_iter().enumerate() {
            index = index * places.counts[axis] + place / places.chunk[axis];
            at = at * places.chunk[axis] + place % places.chunk[axis];
        }
        places.addresses[usize::try_from(index).unwrap()] + at * places.element_len
    }

    #[test]
    fn every_element_goes_to_its_place_in_its_chunk() {
        let cases: [(&[u64], &[u64]); 6] = [
            (&[10], &[3]),
            (&[3], &[10]),
            (&[7, 5], &[2, 5]),
            (&[7, 5], &[3, 8]),
            (&[4, 6, 5], &[3, 2, 5]),
            (&[4, 6, 5], &[1, 6, 5]),
        ];
        for (shape, chunk) in cases {
            let places = placed(shape, chunk, 4);
            let total: u64 = shape.iter().product();
            for from in 0..total {
                for count in 1..=total - from {
                    let mut element = from;
                    places.split(from * 4, count * 4, |at, len| {
                        for step in 0..len / 4 {
                            assert_eq!(at + step * 4, place_of(&places, element), "{shape:?} {chunk:?}");
                            element += 1;
                        }
                    });
                    assert_eq!(element, from + count);
                }
            }
        }
    }

    #[test]
    fn a_chunk_that_is_not_one_of_the_data_set_or_comes_twice_is_refused() {
        let mut places = ChunkAddresses::unplaced(&[7, 5], &[3, 2], 4).unwrap();
        assert!(places.place(&[3, 2], 100));
        assert!(!places.place(&[3, 2], 100));
        assert!(!places.place(&[4, 2], 100));
        assert!(!places.place(&[9, 0], 100));
        assert!(ChunkAddresses::unplaced(&[7, 0], &[3, 2], 4).is_none());
    }
}
