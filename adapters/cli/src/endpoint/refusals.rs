//! Notes about clients of a server of this program: deviations from the protocol, and requests that are refused because of their host or
//! origin, with the option that lets them in.

use alloc::collections::BTreeSet;

use std::sync::Mutex;

use mcp_proto::Diagnostic;
use mcp_std::sync::lock;

use crate::notes::{LimitedNotes, NO_FURTHER_NOTES, print_note};

/// Notes about what clients do.
pub(crate) struct ClientNotes {
    pub(crate) deviations: Mutex<LimitedNotes>,
    refusals: Mutex<RefusalNotes>,
}

impl ClientNotes {
    pub(crate) fn new() -> Self {
        Self { deviations: Mutex::new(LimitedNotes(20)), refusals: Mutex::default() }
    }

    /// Prints a note if the client is at fault, or was refused.
    pub(crate) fn note(&self, diagnostic: &Diagnostic) {
        // Neither side is at fault: a cancellation crossed the response, or overtook its request.
        let usual = matches!(
            diagnostic,
            Diagnostic::UnknownCancellation(_)
                | Diagnostic::EarlyCancellation(_)
                | Diagnostic::LateResponse(_)
        );
        if !usual && !lock(&self.refusals).note(diagnostic) {
            lock(&self.deviations).note(&format!("the client deviated from the protocol: {diagnostic}"));
        }
    }
}

/// Names that were refused. There is one note for each, because a client or a page tries again and again.
#[derive(Default)]
struct RefusalNotes(BTreeSet<String>);

impl RefusalNotes {
    /// Prints a note if the diagnostic is such a refusal of a name that is new. Returns whether it is a refusal.
    ///
    /// After [`MAX_NAMES`] names no further ones are noted.
    fn note(&mut self, diagnostic: &Diagnostic) -> bool {
        let note = match diagnostic {
            Diagnostic::RefusedHost { host } if host.is_empty() => {
                "a request with no `Host`, or with several, was refused: what is between the client and this server?".into()
            }
            Diagnostic::RefusedHost { host } => format!(
                "a request for the host `{host}` was refused: {} lets it in, if this server is meant",
                option("--allow-host", host)
            ),
            Diagnostic::RefusedOrigin { origin } => format!(
                "a request of a web page of `{origin}` was refused: {} lets it in, if you trust that page",
                option("--allow-origin", origin)
            ),
            _ => return false,
        };
        if self.0.len() < MAX_NAMES && self.0.insert(note.to_ascii_lowercase()) {
            print_note(&note);
            if self.0.len() == MAX_NAMES {
                print_note(NO_FURTHER_NOTES);
            }
        }
        true
    }
}

/// Returns an option with its value. One that a shell would read otherwise is left out: any client can send it.
fn option(name: &str, value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '/' | '[' | ']');
    if value.chars().all(is_plain) { format!("{name} {value}") } else { name.to_owned() }
}

/// Maximum number of names that are noted.
const MAX_NAMES: usize = 100;
