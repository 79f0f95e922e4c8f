//! What stands on the terminal below the lines of the program: a progress bar, or a line that the user edits.
//!
//! Lines of all threads go through here, so that they are printed above it and never into it.

use alloc::collections::VecDeque;
use core::mem;
use core::time::Duration;
use std::io::{self, Write as _};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use indicatif::ProgressBar;

use crate::stop::Interrupts;

/// The terminal of this process.
static SCREEN: Screen = Screen {
    content: Mutex::new(Content {
        bar: None,
        is_editing: false,
        dialogues: 0,
        interrupts: None,
        lines: VecDeque::new(),
        dropped: 0,
    }),
    changed: Condvar::new(),
};

struct Screen {
    content: Mutex<Content>,
    changed: Condvar,
}

struct Content {
    bar: Option<ProgressBar>,
    is_editing: bool,
    /// Dialogues that have the terminal, or wait for it.
    dialogues: u32,
    /// Interrupts of a program that runs one call after another.
    interrupts: Option<Interrupts>,
    /// Lines to be printed above the line that is edited.
    lines: VecDeque<String>,
    /// Lines that were dropped because there were too many.
    dropped: usize,
}

impl Content {
    fn push_line(&mut self, line: &str) {
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(line.to_owned());
    }

    /// Takes all lines as one text, which ends in a line break.
    fn take_lines(&mut self) -> Option<String> {
        let mut text = String::new();
        if mem::take(&mut self.dropped) > 0 {
            text.push_str("(some lines are left out)\n");
        }
        for line in self.lines.drain(..) {
            text.push_str(&line);
            text.push('\n');
        }
        (!text.is_empty()).then_some(text)
    }
}

fn content() -> MutexGuard<'static, Content> {
    mcp_std::sync::lock(&SCREEN.content)
}

/// Prints a line on stderr, above whatever stands there. Errors are ignored, since they cannot be reported.
pub(crate) fn print_line(line: &str) {
    print(
        || {
            let _ = writeln!(io::stderr(), "{line}");
        },
        line,
    );
}

/// Prints a text by `write`, above whatever stands there. While a line is edited, `text` is printed above it instead.
pub(crate) fn print(write: impl FnOnce(), text: &str) {
    let mut content = content();
    if content.is_editing {
        content.push_line(text.strip_suffix('\n').unwrap_or(text));
        SCREEN.changed.notify_all();
    } else if let Some(bar) = &content.bar {
        bar.suspend(write);
    } else {
        write();
    }
}

// ---- progress ------------------------------------------------------------------------------------------------------

/// Shows a bar. While a dialogue has the terminal, it is dropped instead, and `false` is returned.
pub(crate) fn show_bar(bar: &ProgressBar) -> bool {
    let mut content = content();
    let is_shown = content.dialogues == 0 && !content.is_editing;
    if is_shown {
        content.bar = Some(bar.clone());
    }
    is_shown
}

/// Removes the bar.
pub(crate) fn clear_bar() {
    if let Some(bar) = content().bar.take() {
        bar.finish_and_clear();
    }
}

// ---- dialogues -----------------------------------------------------------------------------------------------------

/// The terminal, given to a dialogue until this is dropped.
pub(crate) struct Dialogue(());

impl Dialogue {
    /// Takes the terminal: the bar is removed, and a line that is edited is waited for, after `ask` is printed above it.
    pub(crate) fn begin(ask: &str) -> Self {
        let mut content = content();
        content.dialogues += 1;
        if let Some(bar) = content.bar.take() {
            bar.finish_and_clear();
        }
        if content.is_editing {
            content.push_line(ask);
            SCREEN.changed.notify_all();
        }
        while content.is_editing {
            content = SCREEN.changed.wait(content).unwrap_or_else(PoisonError::into_inner);
        }
        Self(())
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        content().dialogues -= 1;
        SCREEN.changed.notify_all();
    }
}

/// Sets what ends dialogues of this program.
pub(crate) fn set_interrupts(interrupts: &Interrupts) {
    content().interrupts = Some(interrupts.clone());
}

/// Returns whether the user interrupts the call that a dialogue is for.
pub(crate) fn is_interrupted() -> bool {
    content().interrupts.as_ref().is_some_and(Interrupts::is_requested)
}

// ---- the line that is edited -----------------------------------------------------------------------------------------

/// The terminal, given to the editor of a line until this is dropped.
pub(crate) struct Editing(());

impl Editing {
    /// Takes the terminal as soon as no dialogue has it.
    pub(crate) fn begin() -> Self {
        let mut content = content();
        while content.dialogues > 0 {
            content = SCREEN.changed.wait(content).unwrap_or_else(PoisonError::into_inner);
        }
        content.is_editing = true;
        Self(())
    }
}

impl Drop for Editing {
    fn drop(&mut self) {
        let mut content = content();
        content.is_editing = false;
        // What came too late for the line goes below it.
        if let Some(text) = content.take_lines() {
            let _ = io::stderr().write_all(text.as_bytes());
        }
        SCREEN.changed.notify_all();
    }
}

/// Ends the mode in which the editor has what is pasted marked, if it is on. For the end of the program by a signal: waits for nothing.
pub(crate) fn end_editing() {
    let is_editing = SCREEN.content.try_lock().is_ok_and(|content| content.is_editing);
    if is_editing {
        let _ = io::stdout().write_all(b"\x1b[?2004l").and_then(|()| io::stdout().flush());
    }
}

/// Prints lines above the line that is edited, by `draw`, whenever there are some and `has_room` says that it can be drawn again.
/// Other lines are printed at the end of the line. Does not return.
pub(crate) fn print_above(has_room: impl Fn() -> bool, draw: impl Fn(&str)) -> ! {
    let mut content = content();
    loop {
        while content.lines.is_empty() || !content.is_editing {
            content = SCREEN.changed.wait(content).unwrap_or_else(PoisonError::into_inner);
        }
        // A flood of lines is printed in few pieces: each draws the edited line again.
        drop(content);
        thread::sleep(BATCH_TIME);
        content = self::content();
        if content.is_editing && has_room() {
            if let Some(text) = content.take_lines() {
                // The end of the edited line waits for the lock.
                draw(&text);
            }
        }
    }
}

/// Maximum number of lines that wait to be printed above the edited line. Beyond that the oldest ones are dropped.
const MAX_LINES: usize = 1_000;
/// Time in which lines are collected.
const BATCH_TIME: Duration = Duration::from_millis(30);
