//! Colours, for those who want them

use core::fmt;
use std::env;
use std::io::{self, IsTerminal};

/// Whether to colour, decided per output stream
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// Without any
    pub(crate) const PLAIN: Self = Self { on: false };

    /// For stdout: only when a person looks at it, and has not asked for plain text (<https://no-color.org>)
    pub(crate) fn for_stdout() -> Self {
        Self::new(io::stdout().is_terminal())
    }

    /// For stderr
    pub(crate) fn for_stderr() -> Self {
        Self::new(io::stderr().is_terminal())
    }

    fn new(terminal: bool) -> Self {
        let plain = env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { on: terminal && !plain && !dumb }
    }

    pub(crate) const fn bold<T>(self, text: T) -> Painted<T> {
        self.with("1", text)
    }

    pub(crate) const fn dim<T>(self, text: T) -> Painted<T> {
        self.with("2", text)
    }

    pub(crate) const fn good<T>(self, text: T) -> Painted<T> {
        self.with("32", text)
    }

    pub(crate) const fn bad<T>(self, text: T) -> Painted<T> {
        self.with("1;31", text)
    }

    pub(crate) const fn note<T>(self, text: T) -> Painted<T> {
        self.with("33", text)
    }

    pub(crate) const fn name<T>(self, text: T) -> Painted<T> {
        self.with("36", text)
    }

    const fn with<T>(self, code: &'static str, text: T) -> Painted<T> {
        Painted { code: if self.on { code } else { "" }, text }
    }
}

/// A text in a colour
pub(crate) struct Painted<T> {
    code: &'static str,
    text: T,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, text } = self;
        if code.is_empty() { text.fmt(f) } else { write!(f, "\x1b[{code}m{text}\x1b[0m") }
    }
}
