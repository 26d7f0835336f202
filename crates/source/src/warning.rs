//! What went well but not as the user may think, for the program in front of us to show.
//!
//! Below the front ends nothing is printed. A warning is kept until somebody takes it, each text once per process.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use crate::process::PerProcess;

/// More would not be read by anybody.
const MOST_WARNINGS: usize = 100;

/// A child begins with none: a thread of its parent may have held the lock when it forked.
static WARNINGS: PerProcess<Mutex<Warnings>> = PerProcess::empty();

#[derive(Debug, Default)]
struct Warnings {
    said: HashSet<String>,
    waiting: Vec<String>,
}

/// Keeps `text` until it is taken, unless this process has warned of it before.
pub fn warn(text: impl Into<String>) {
    let warnings = WARNINGS.get(Mutex::default);
    let mut warnings = warnings.lock().unwrap_or_else(PoisonError::into_inner);
    let text = text.into();
    if warnings.said.len() < MOST_WARNINGS && warnings.said.insert(text.clone()) {
        warnings.waiting.push(text);
    }
}

/// The warnings since this was last asked, to be shown.
pub fn take_warnings() -> Vec<String> {
    let Some(warnings) = WARNINGS.peek() else { return Vec::new() };
    std::mem::take(&mut warnings.lock().unwrap_or_else(PoisonError::into_inner).waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_given_once() {
        warn("this test warns");
        warn("this test warns");
        let ours = |texts: Vec<String>| texts.iter().filter(|text| *text == "this test warns").count();
        assert_eq!(ours(take_warnings()), 1);
        warn("this test warns");
        assert_eq!(ours(take_warnings()), 0);
    }
}
