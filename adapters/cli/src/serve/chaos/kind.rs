//! The kinds of disturbances.

use clap::ValueEnum;
use serde::Serialize;

use super::filter::HUGE_BYTES;

/// What can become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    Late,
    Twice,
    Cut,
    OutOfOrder,
    WrongId,
    Huge,
    Silent,
    Both,
    StringId,
    NullId,
    InvalidUtf8,
    LogLine,
    BlankLine,
    Batch,
    Truncated,
    LateProgress,
    BigNumber,
    Deep,
}

/// Row of the table that `--list` prints.
#[derive(Serialize)]
pub(super) struct Row {
    kind: String,
    does: String,
    rules: &'static [&'static str],
    client: &'static str,
}

impl Kind {
    /// All kinds, in the order of the table.
    pub(super) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Returns the name on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns whether only a response can be disturbed like that.
    pub(super) const fn is_for_responses(self) -> bool {
        matches!(self, Self::WrongId | Self::Both | Self::StringId | Self::NullId | Self::LateProgress)
    }

    pub(super) fn table() -> Vec<Row> {
        let row = |kind: &Self| {
            let (does, rules, client) = kind.describe();
            let does = does.replace("HUGE", &format!("{} MiB", HUGE_BYTES >> 20));
            Row { kind: kind.name(), does, rules, client }
        };
        Self::all().iter().map(row).collect()
    }

    /// Returns the table as text, three lines for each kind.
    pub(super) fn list() -> String {
        let line = |Row { kind, does, rules, client }: Row| {
            let rules = if rules.is_empty() { "none".into() } else { rules.join(", ") };
            format!("{kind:<14} {does}\n{:<14} violates {rules}\n{:<14} client: {client}\n", "", "")
        };
        Self::table().into_iter().map(line).collect()
    }

    /// Returns what it does, which rules it violates, and what a client should do.
    const fn describe(self) -> (&'static str, &'static [&'static str], &'static str) {
        match self {
            Self::Late => (
                "comes after --chaos-delay, and so does what follows",
                &[],
                "wait; after its own limit time out and cancel",
            ),
            Self::Twice => ("comes twice", &[], "take the first, drop the second"),
            Self::Cut => {
                ("ends in the middle, and so does the stream", &["STDIO-028"], "end; fail what waits at once")
            }
            Self::OutOfOrder => {
                ("comes after the next message, or before the end", &[], "match by id (STDIO-010)")
            }
            Self::WrongId => {
                ("is a response to a request that was never sent", &["BASE-008"], "drop it; time out")
            }
            Self::Huge => (
                "grows by a member of HUGE, above a limit of 16 MiB",
                &[],
                "fail that request without storing it (STDIO-012)",
            ),
            Self::Silent => ("does not come", &[], "time out and cancel"),
            Self::Both => ("has both result and error", &["BASE-009"], "fail that request"),
            Self::StringId => ("has its id as a string", &["BASE-008"], "drop it; time out"),
            Self::NullId => ("has the id null", &["BASE-008"], "drop it; time out"),
            Self::InvalidUtf8 => {
                ("contains bytes that are not UTF-8", &["BASE-002"], "fail that request, or time out")
            }
            Self::LogLine => (
                "comes after a line of a log",
                &["STDIO-005"],
                "ignore the line (STDIO-011), take the message",
            ),
            Self::BlankLine => ("comes after a blank line", &["STDIO-005"], "ignore the line (STDIO-011)"),
            Self::Batch => (
                "comes in a batch (2025-03-26 has them)",
                &["STDIO-002"],
                "in other revisions drop it; time out",
            ),
            Self::Truncated => {
                ("ends in the middle; the stream goes on", &["STDIO-005"], "fail that request, or time out")
            }
            Self::LateProgress => (
                "is followed by progress of it, or of the last that had any",
                &["PROG-011"],
                "drop it (PROG-012)",
            ),
            Self::BigNumber => ("has a member with the number 1e400", &[], "ignore it, or fail that request"),
            Self::Deep => (
                "has a member that is nested 1,000 deep",
                &[],
                "fail that request, or ignore the member; never overflow",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_fits_into_80_columns() {
        let list = Kind::list();
        assert_eq!(list.lines().count(), 3 * Kind::all().len());
        assert_eq!(list.lines().find(|line| line.len() > 80), None);
    }
}
