//! What a plug-in says on stderr: once, as nobody asked it to speak.

use std::{
    fmt::Arguments,
    io::Write,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// A warning that is shown the first time only.
#[derive(Debug, Default)]
pub struct WarnOnce(AtomicBool);

impl WarnOnce {
    /// Nothing was said yet.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Writes `forebay: message` to stderr, unless this warning was shown before; a closed stderr is no error.
    pub fn say(&self, message: Arguments<'_>) {
        if self.0.swap(true, Relaxed) {
            return;
        }
        // One write, so that lines of several processes do not mix.
        let _closed = std::io::stderr().write_all(format!("forebay: {message}\n").as_bytes());
    }

    /// True once it was said.
    pub fn was_said(&self) -> bool {
        self.0.load(Relaxed)
    }
}
