//! Any bytes at all as what one rank sends another: frames of collective calls and the answers in them, requests for pieces of a
//! window and the headers of what is answered.
#![no_main]

use forebay_store::{FrameHeader, FrameReader, StarMessage};
use forebay_tcp::{MOST_PIECES, PieceRequest, check_answer};
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

/// The answer to a collective call of as many ranks as the first byte says.
fn part_answer(bytes: &[u8]) {
    let Some((count, bytes)) = bytes.split_first() else { return };
    let answer = StarMessage { bytes: bytes.to_vec(), descriptors: Vec::new() };
    if let Ok(messages) = answer.parted(usize::from(*count)) {
        assert_eq!(messages.len(), usize::from(*count));
        assert!(messages.iter().map(|message| message.bytes.len()).sum::<usize>() <= bytes.len());
    }
}

/// The header of what is answered to a read.
fn check_answers(bytes: &[u8]) {
    let Some(header) = bytes.first_chunk::<{ FrameHeader::LEN }>() else { return };
    if check_answer(header, 1, 5, 1000).is_ok() {
        assert!(FrameHeader::parse(header).is_ok_and(|header| (header.number, header.len) == (5, 1000)));
    }
}

fuzz_target!(|bytes: &[u8]| {
    read_frames(bytes);
    take_requests(bytes);
    part_answer(bytes);
    check_answers(bytes);
});
