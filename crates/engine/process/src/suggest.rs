//! Unknown words, and the nearest known one (by Damerau-Levenshtein distance).

use crate::error::{Error, ErrorKind};

/// The error for an unknown `what`, with the nearest of the `known` ones as a hint.
pub fn unknown(what: &str, word: &str, known: &[&str]) -> Error {
    let error = Error::new(ErrorKind::Invalid, format!("unknown {what} '{word}'"));
    match nearest(word, known) {
        Some(near) => error.hint(format!("did you mean '{near}'?")),
        None => error.hint(format!("it is one of {}", known.join(", "))),
    }
}

/// The one of `known` that is nearest to `word`; none where all are far.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    let by_distance =
        known.iter().map(|known| (strsim::damerau_levenshtein(&known.to_lowercase(), &word), *known));
    let (_, near) = by_distance.min().filter(|(distance, _)| *distance <= word.len() / 3)?;
    Some(near)
}
