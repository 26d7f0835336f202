//! No panic leaves a callback: it would end the program that called.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::warning::WarnOnce;

static PANICKED: WarnOnce = WarnOnce::new();

/// What `body` gives, or `failure` where it panics, which is told once.
///
/// State that `body` changes must be sound at every point where it might panic.
pub fn guard<R>(failure: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        PANICKED.say(format_args!("a fault inside forebay ended one HDF5 call; please report it"));
        failure
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_the_answer_for_failure() {
        assert_eq!(guard(-1, || 0), 0);
        assert_eq!(guard(-1, || panic!("on purpose")), -1);
    }
}
