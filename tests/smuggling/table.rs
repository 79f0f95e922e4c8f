//! What a row of the tables says.

use mcp_proto::h1::Reason;

/// An input, and what has to come of it
pub(crate) struct Row {
    /// Says what the input is; parsers that differ are listed by it
    pub(crate) name: String,
    pub(crate) input: Vec<u8>,
    pub(crate) want: Want,
}

/// What has to come of an input
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    /// These messages and no more, with nothing left over
    Taken(&'static [&'static str]),
    /// A fault, with its offset: where this text stands last in the input; the text at the end for ""
    Refused(Reason, &'static str),
    /// A fault, with its offset
    RefusedAt(Reason, usize),
    /// As `Refused`, after these messages
    Then(&'static [&'static str], Reason, &'static str),
    /// Nothing yet: more has to come
    Waits,
}

pub(crate) const fn ok(messages: &'static [&'static str]) -> Want {
    Want::Taken(messages)
}

pub(crate) const fn no(reason: Reason, at: &'static str) -> Want {
    Want::Refused(reason, at)
}

impl Row {
    /// A row of `group`, named by the part of its input that matters
    pub(crate) fn new(group: &str, part: &[u8], input: Vec<u8>, want: Want) -> Self {
        let shown = part.escape_ascii().to_string();
        // Long ones differ in their length.
        let shown = match shown.len() {
            0..=90 => shown,
            n => format!("{}… ({n})", &shown[..60]),
        };
        Self { name: format!("{group}: {shown}"), input, want }
    }

    pub(crate) fn messages(&self) -> &'static [&'static str] {
        match self.want {
            Want::Taken(messages) | Want::Then(messages, ..) => messages,
            Want::Refused(..) | Want::RefusedAt(..) | Want::Waits => &[],
        }
    }

    pub(crate) fn fault(&self) -> Option<(Reason, u64)> {
        let (reason, at) = match self.want {
            Want::Refused(reason, at) | Want::Then(_, reason, at) => (reason, at),
            Want::RefusedAt(reason, offset) => return Some((reason, offset as u64)),
            Want::Taken(_) | Want::Waits => return None,
        };
        let offset = match at {
            "" => self.input.len(),
            at => self
                .input
                .windows(at.len())
                .rposition(|w| w == at.as_bytes())
                .unwrap_or_else(|| panic!("{}: {at:?} is not in it", self.name)),
        };
        Some((reason, offset as u64))
    }
}
