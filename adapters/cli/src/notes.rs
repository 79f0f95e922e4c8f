//! What is said on stderr beside results: lines, and notes, of which a peer cannot cause too many.

use alloc::collections::BTreeSet;
use std::io::{self, IsTerminal};

use mcp_proto::Diagnostic;

use crate::escape;
use crate::paint::Paint;
use crate::screen;
use crate::stop;
use mcp_proto_trace::masked;

/// Prints a note on stderr.
pub(crate) fn print_note(text: &str) {
    stop::park_if_ending();
    let paint = Paint::for_stderr();
    print_stderr(&format!("{} {}", paint.note("note:"), escape::indented(text)));
}

/// Prints what a command that speaks on stdin expects, if stdin is a terminal.
pub(crate) fn hint_at_terminal(command: &str) {
    if io::stdin().is_terminal() {
        print_note(&format!(
            "`mcp-probe {command}` is for MCP clients: it reads their messages from stdin, one JSON-RPC message per line, and \
             answers on stdout. Ctrl-D ends it; `mcp-probe {command} --help` shows how clients start it"
        ));
    }
}

/// Prints a line on stderr. Errors are ignored, since they cannot be reported.
pub(crate) fn print_stderr(line: &str) {
    screen::print_line(line);
}

/// Notes of one kind, up to a maximum number.
pub(crate) struct LimitedNotes(pub(crate) u32);

impl LimitedNotes {
    pub(crate) fn note(&mut self, text: &str) {
        if let Some(left) = self.0.checked_sub(1) {
            print_note(&masked(text));
            self.0 = left;
            if left == 0 {
                print_note(NO_FURTHER_NOTES);
            }
        }
    }
}

/// Notes about entries that were left out of lists. Each is printed once, because lists are read again and again.
#[derive(Default)]
pub(crate) struct OmissionNotes(BTreeSet<String>);

impl OmissionNotes {
    /// Prints a note if the diagnostic is about such entries (XHDR-012). Returns whether it is.
    ///
    /// After [`MAX_OMISSIONS`] no further ones are printed.
    pub(crate) fn note(&mut self, diagnostic: &Diagnostic) -> bool {
        let is_omission = matches!(
            diagnostic,
            Diagnostic::InvalidTool { .. }
                | Diagnostic::UnreadableEntry { .. }
                | Diagnostic::MoreUnreadableEntries { .. }
        );
        if is_omission {
            self.note_text(&diagnostic.to_string());
        }
        is_omission
    }

    /// Prints a sentence once.
    pub(crate) fn note_text(&mut self, note: &str) {
        if self.0.len() < MAX_OMISSIONS && self.0.insert(note.into()) {
            print_note(&escape::line(note));
            if self.0.len() == MAX_OMISSIONS {
                print_note(NO_FURTHER_NOTES);
            }
        }
    }
}

/// Maximum number of notes about entries that were left out: those of a hostile server do not fill the memory.
const MAX_OMISSIONS: usize = 10_000;
pub(crate) const NO_FURTHER_NOTES: &str = "further notes of this kind are not shown";
