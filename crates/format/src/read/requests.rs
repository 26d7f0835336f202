//! What a read asks of sources.

use forebay_container::SourceIndex;
use forebay_source::ByteRange;

/// Is called with each range, and the source it is of.
pub(super) type Each<'a> = dyn FnMut(SourceIndex, ByteRange) + 'a;
