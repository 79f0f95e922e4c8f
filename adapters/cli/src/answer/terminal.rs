//! The terminal of the user.

use std::io::{self, IsTerminal, Write};

/// Shows text and reads lines.
pub(super) trait Terminal: Send {
    /// Shows text unescaped.
    fn show(&mut self, text: &str);

    /// Reads the next line without its line break. Returns `None` at the end of input.
    fn read_line(&mut self) -> Option<String>;
}

impl<T: Terminal + ?Sized> Terminal for Box<T> {
    fn show(&mut self, text: &str) {
        (**self).show(text);
    }

    fn read_line(&mut self) -> Option<String> {
        (**self).read_line()
    }
}

/// The terminal of this process. It shows text on stderr, because stdout is for results.
pub(super) struct Console(());

impl Console {
    /// Opens the terminal. Returns `None` if stdin or stderr is not a terminal.
    pub(super) fn open() -> Option<Self> {
        (io::stdin().is_terminal() && io::stderr().is_terminal()).then_some(Self(()))
    }
}

impl Terminal for Console {
    fn show(&mut self, text: &str) {
        let mut stderr = io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }

    fn read_line(&mut self) -> Option<String> {
        let mut line = String::new();
        match io::stdin().read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end_matches(['\n', '\r']).to_owned()),
        }
    }
}
