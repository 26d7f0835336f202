//! Any bytes at all as what one rank sends another: frames of collective calls, and requests for pieces of a window.
#![no_main]

use forebay_store::FrameReader;
use forebay_tcp::{MOST_PIECES, PieceRequest};
use libfuzzer_sys::fuzz_target;

/// Frames as they arrive in steps, each as long as the first byte says.
fn read_frames(bytes: &[u8]) {
    let (step, mut bytes) = bytes.split_first().map_or((1, bytes), |(step, rest)| (usize::from(*step).max(1), rest));
    let mut reader = FrameReader::new(1 << 20);
    while !bytes.is_empty() {
        let space = reader.space();
        assert!(!space.is_empty() && space.len() <= 1 << 20, "memory for what a header claims");
        let len = space.len().min(step).min(bytes.len());
        space[..len].copy_from_slice(&bytes[..len]);
        bytes = &bytes[len..];
        match reader.advance(len) {
            Ok(Some(frame)) => assert_eq!(frame.header.len, frame.message.len() as u64),
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

/// Requests, as the server takes them from its buffer.
fn take_requests(mut bytes: &[u8]) {
    while let Ok(Some((_, request, len))) = PieceRequest::take(bytes) {
        assert!(request.pieces.len() <= MOST_PIECES && len <= bytes.len());
        if let Some(total) = request.total(1000) {
            assert!(total <= 1000 * request.pieces.len() as u64);
            assert!(request.pieces.iter().all(|(offset, piece)| offset + piece <= 1000));
        }
        bytes = &bytes[len..];
    }
}

fuzz_target!(|bytes: &[u8]| {
    read_frames(bytes);
    take_requests(bytes);
});
