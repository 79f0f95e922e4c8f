//! The terminal of the user.

use std::io::{self, IsTerminal, Write};

use crate::screen;

/// Shows text and reads lines.
pub(super) trait Terminal: Send {
    /// Shows text unescaped.
    fn show(&mut self, text: &str);

    /// Reads the next line without its line break. Returns `None` at the end of input, and if the user interrupts.
    fn read_line(&mut self) -> Option<String>;
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
        if !wait_for_input() {
            self.show("\n");
            return None;
        }
        let mut line = String::new();
        match io::stdin().read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end_matches(['\n', '\r']).to_owned()),
        }
    }
}

/// Waits for input. Returns `false` if the user interrupts instead.
#[cfg(unix)]
fn wait_for_input() -> bool {
    use core::time::Duration;
    use std::os::fd::AsFd as _;

    use mcp_std::poll::PollHandles;

    const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);
    loop {
        if screen::is_interrupted() {
            return false;
        }
        let stdin = io::stdin();
        // A terminal gives one line at a time, so none is left in the buffer of stdin.
        let handles = PollHandles { read: Some(stdin.as_fd()), ..PollHandles::default() };
        match handles.wait(Some(INTERRUPT_INTERVAL)) {
            Ok(outcome) if !outcome.read => {}
            // Reading tells what is wrong.
            _ => return !screen::is_interrupted(),
        }
    }
}

/// The same without signals.
#[cfg(not(unix))]
fn wait_for_input() -> bool {
    !screen::is_interrupted()
}
