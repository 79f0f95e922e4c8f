//! Rows of the tables.

use mcp_proto::h1::Reason;

/// An input and its expected outcome.
pub(crate) struct ParseCase {
    /// Name of the input, by which `differences.tsv` lists it.
    pub(crate) name: String,
    pub(crate) input: Vec<u8>,
    pub(crate) expectation: ParseExpectation,
}

/// Expected outcome of an input.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ParseExpectation {
    /// These messages, without remaining bytes.
    Accepted(&'static [&'static str]),
    /// A fault. Its offset is the last position of this text in the input, or the end of the input for "".
    Refused(Reason, &'static str),
    /// A fault at this offset.
    RefusedAt(Reason, usize),
    /// These messages, and then as `Refused`.
    AcceptedThenRefused(&'static [&'static str], Reason, &'static str),
    /// No outcome before more input.
    Incomplete,
}

pub(crate) const fn accepted(messages: &'static [&'static str]) -> ParseExpectation {
    ParseExpectation::Accepted(messages)
}

pub(crate) const fn refused(reason: Reason, at: &'static str) -> ParseExpectation {
    ParseExpectation::Refused(reason, at)
}

impl ParseCase {
    /// Returns a row of `group`, named by the significant part of its input.
    pub(crate) fn new(group: &str, part: &[u8], input: Vec<u8>, expectation: ParseExpectation) -> Self {
        let label = part.escape_ascii().to_string();
        // Long names are distinguished by their length.
        let label = match label.len() {
            0..=90 => label,
            n => format!("{}… ({n})", &label[..60]),
        };
        Self { name: format!("{group}: {label}"), input, expectation }
    }

    pub(crate) fn messages(&self) -> &'static [&'static str] {
        match self.expectation {
            ParseExpectation::Accepted(messages) | ParseExpectation::AcceptedThenRefused(messages, ..) => {
                messages
            }
            ParseExpectation::Refused(..)
            | ParseExpectation::RefusedAt(..)
            | ParseExpectation::Incomplete => &[],
        }
    }

    pub(crate) fn fault(&self) -> Option<(Reason, u64)> {
        let (reason, at) = match self.expectation {
            ParseExpectation::Refused(reason, at) | ParseExpectation::AcceptedThenRefused(_, reason, at) => {
                (reason, at)
            }
            ParseExpectation::RefusedAt(reason, offset) => return Some((reason, offset as u64)),
            ParseExpectation::Accepted(_) | ParseExpectation::Incomplete => return None,
        };
        let offset = match at {
            "" => self.input.len(),
            at => self
                .input
                .windows(at.len())
                .rposition(|w| w == at.as_bytes())
                .unwrap_or_else(|| panic!("{}: {at:?} does not occur in the input", self.name)),
        };
        Some((reason, offset as u64))
    }
}
