//! Colour, where the reader of the output wants it.

use std::io;

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};

/// When to colour the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorMode {
    /// On a terminal, unless NO_COLOR is set; anywhere if CLICOLOR_FORCE is.
    #[default]
    Auto,
    /// Also into files and pipes.
    Always,
    /// Nowhere.
    Never,
}

/// What a piece of output is, which decides how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextRole {
    Plain,
    Dim,
    Group,
    Name,
    Dtype,
    Good,
    Fair,
    Bad,
}

impl TextRole {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Dim => Style::new().dimmed(),
            Self::Group => AnsiColor::Blue.on_default().bold(),
            Self::Name => Style::new().bold(),
            Self::Dtype => AnsiColor::Cyan.on_default(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Fair => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
        }
    }
}

/// Colours text, or leaves it plain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    is_on: bool,
}

impl Paint {
    /// The paint for standard output.
    pub(crate) fn for_stdout(color: ColorMode) -> Self {
        let is_on = match color {
            ColorMode::Auto => AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never,
            ColorMode::Always => true,
            ColorMode::Never => false,
        };
        Self { is_on }
    }

    /// `text` in the colour of `role`.
    pub(crate) fn paint(self, role: TextRole, text: &str) -> String {
        if !self.is_on || role == TextRole::Plain || text.is_empty() {
            return text.to_owned();
        }
        let style = role.style();
        format!("{style}{text}{style:#}")
    }
}
