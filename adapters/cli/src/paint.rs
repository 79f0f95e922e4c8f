//! Colours of the output.

use core::fmt;
use std::env;
use std::io::{self, IsTerminal};

/// Whether one output stream is coloured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    is_enabled: bool,
}

impl Paint {
    /// No colours.
    pub(crate) const PLAIN: Self = Self { is_enabled: false };

    /// Returns the setting for stdout: colours on a terminal, unless disabled (<https://no-color.org>).
    pub(crate) fn for_stdout() -> Self {
        Self::new(io::stdout().is_terminal())
    }

    /// Returns the setting for stderr.
    pub(crate) fn for_stderr() -> Self {
        Self::new(io::stderr().is_terminal())
    }

    fn new(terminal: bool) -> Self {
        let plain = env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { is_enabled: terminal && !plain && !dumb }
    }

    pub(crate) const fn bold<T>(self, text: T) -> Painted<T> {
        self.wrap("1", text)
    }

    pub(crate) const fn dim<T>(self, text: T) -> Painted<T> {
        self.wrap("2", text)
    }

    pub(crate) const fn good<T>(self, text: T) -> Painted<T> {
        self.wrap("32", text)
    }

    pub(crate) const fn bad<T>(self, text: T) -> Painted<T> {
        self.wrap("1;31", text)
    }

    pub(crate) const fn note<T>(self, text: T) -> Painted<T> {
        self.wrap("33", text)
    }

    pub(crate) const fn name<T>(self, text: T) -> Painted<T> {
        self.wrap("36", text)
    }

    const fn wrap<T>(self, code: &'static str, text: T) -> Painted<T> {
        Painted { code: if self.is_enabled { code } else { "" }, text }
    }
}

/// A text with a colour.
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
