//! What was recorded beside what is said now.

pub(crate) mod comparison;
pub(crate) mod relation;
pub(crate) mod steps;
pub(crate) mod translation;

use core::fmt;

/// What a replay found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Replayed {
    /// Messages that came out with the same bytes.
    pub identical: usize,
    /// Messages that came out with the same value: with members in another order, other spaces, or an id, a progress token or a state
    /// that was allotted anew.
    pub equal: usize,
    /// Messages that differ only in words for people, or in members that only tell more: texts of errors, reasons.
    pub reworded: usize,
    /// Messages that an engine has no command for, by their record: what else follows from them is not compared either.
    pub unplayed: Vec<(usize, String)>,
    /// Messages that did not come out as they were recorded. The replay of an engine ends with the first one.
    pub differences: Vec<Difference>,
}

impl Replayed {
    /// Returns the first difference.
    #[must_use]
    pub fn difference(&self) -> Option<&Difference> {
        self.differences.first()
    }

    /// Returns the number of messages that were compared.
    #[must_use]
    pub const fn compared(&self) -> usize {
        self.identical + self.equal + self.reworded
    }
}

/// A difference between what was recorded and what an engine says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Index of the record in the trace; `None` for a message that was not recorded.
    pub record: Option<usize>,
    /// Time in microseconds since the recording began.
    pub at: u64,
    /// What was recorded, if anything.
    pub recorded: Option<String>,
    /// What the engine says, if anything.
    pub replayed: Option<String>,
    /// Where they differ, or why there is no counterpart.
    pub reason: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}.{:06} s", self.at / 1_000_000, self.at % 1_000_000)?;
        if let Some(record) = self.record {
            // The header is the first line.
            write!(f, ", line {} of the trace", record + 2)?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl Difference {
    /// Returns whether another difference has the same cause: messages of the same kinds, errors of the same code, the same reason
    /// or the same member, and values of the same types, whatever they are.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let kind = |difference: &Self| {
            let of = |text: &Option<String>| text.as_ref().map(|text| relation::kind(text));
            let reason = difference.reason.split(": recorded ").next().unwrap_or_default().to_owned();
            let path = reason.trim_matches('`').to_owned();
            let type_in = |text: &Option<String>| relation::type_at(text.as_deref()?, &path);
            let types = (type_in(&difference.recorded), type_in(&difference.replayed));
            (of(&difference.recorded), of(&difference.replayed), reason, types)
        };
        kind(self) == kind(other)
    }
}
