//! Somebody to talk to

use std::io::{self, IsTerminal, Write};

/// Shows texts and reads lines
pub(super) trait Terminal: Send {
    /// Shows a text as it is
    fn show(&mut self, text: &str);

    /// What is typed next, without the line's end; none when there is nothing more to come
    fn line(&mut self) -> Option<String>;
}

impl<T: Terminal + ?Sized> Terminal for Box<T> {
    fn show(&mut self, text: &str) {
        (**self).show(text);
    }

    fn line(&mut self) -> Option<String> {
        (**self).line()
    }
}

/// The terminal that this program runs on: stdout is for what it is asked for
pub(super) struct Console(());

impl Console {
    /// None when nobody is there
    pub(super) fn open() -> Option<Self> {
        (io::stdin().is_terminal() && io::stderr().is_terminal()).then_some(Self(()))
    }
}

impl Terminal for Console {
    fn show(&mut self, text: &str) {
        let mut stderr = io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match io::stdin().read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end_matches(['\n', '\r']).to_owned()),
        }
    }
}
