//! The kinds of disturbances.

use serde::Serialize;

use super::filter::HUGE_BYTES;

/// What can become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// It comes late, and so does what follows.
    Late,
    /// It comes twice.
    Twice,
    /// It ends in the middle, and so does the stream.
    Cut,
    /// It comes after the next message.
    OutOfOrder,
    /// It answers a request that was never sent.
    WrongId,
    /// It is larger than a client takes.
    Huge,
    /// It does not come.
    Silent,
    /// It has both `result` and `error`.
    Both,
    /// Its id is a string.
    StringId,
    /// Its id is null.
    NullId,
    /// It is not UTF-8.
    InvalidUtf8,
    /// It comes after a line of a log.
    LogLine,
    /// It comes after a blank line.
    BlankLine,
    /// It comes in a batch.
    Batch,
    /// It ends in the middle.
    Truncated,
    /// It is followed by progress.
    LateProgress,
    /// It has a number that is too large.
    BigNumber,
    /// It has a member that is nested too deep.
    Deep,
}

/// A row of the table of kinds.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The name of the kind.
    pub kind: &'static str,
    /// What it does.
    pub does: String,
    /// The rules that it violates.
    pub rules: &'static [&'static str],
    /// What a client should do.
    pub client: &'static str,
}

impl Kind {
    /// Returns all kinds, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// Returns the kind of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|kind| kind.name() == name)
    }

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        TABLE.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// Returns whether only a response can be disturbed like that.
    #[must_use]
    pub const fn is_for_responses(self) -> bool {
        matches!(self, Self::WrongId | Self::Both | Self::StringId | Self::NullId | Self::LateProgress)
    }

    /// Returns the table of kinds.
    #[must_use]
    pub fn table() -> Vec<Row> {
        let huge = format!("{} MiB", HUGE_BYTES >> 20);
        let row = |(_, kind, does, rules, client)| Row {
            kind,
            does: str::replace(does, "HUGE", &huge),
            rules,
            client,
        };
        TABLE.into_iter().map(row).collect()
    }

    /// Returns the table as text, three lines for each kind.
    #[must_use]
    pub fn list() -> String {
        let line = |Row { kind, does, rules, client }: Row| {
            let rules = if rules.is_empty() { "none".into() } else { rules.join(", ") };
            format!("{kind:<14} {does}\n{:<14} violates {rules}\n{:<14} client: {client}\n", "", "")
        };
        Self::table().into_iter().map(line).collect()
    }
}

/// The table: what each kind is called, what it does, which rules it violates, and what a client should do.
#[rustfmt::skip]
const TABLE: [(Kind, &str, &str, &[&str], &str); 18] = [
    (Kind::Late, "late", "comes after --chaos-delay, and so does what follows", &[],
        "wait; after its own limit time out and cancel"),
    (Kind::Twice, "twice", "comes twice", &[], "take the first, drop the second"),
    (Kind::Cut, "cut", "ends in the middle, and so does the stream", &["STDIO-028"],
        "end; fail what waits at once"),
    (Kind::OutOfOrder, "out-of-order", "comes after the next message, or before the end", &[],
        "match by id (STDIO-010)"),
    (Kind::WrongId, "wrong-id", "is a response to a request that was never sent", &["BASE-008"],
        "drop it; time out"),
    (Kind::Huge, "huge", "grows by a member of HUGE, above a limit of 16 MiB", &[],
        "fail that request without storing it (STDIO-012)"),
    (Kind::Silent, "silent", "does not come", &[], "time out and cancel"),
    (Kind::Both, "both", "has both result and error", &["BASE-009"], "fail that request"),
    (Kind::StringId, "string-id", "has its id as a string", &["BASE-008"], "drop it; time out"),
    (Kind::NullId, "null-id", "has the id null", &["BASE-008"], "drop it; time out"),
    (Kind::InvalidUtf8, "invalid-utf8", "contains bytes that are not UTF-8", &["BASE-002"],
        "fail that request, or time out"),
    (Kind::LogLine, "log-line", "comes after a line of a log", &["STDIO-005"],
        "ignore the line (STDIO-011), take the message"),
    (Kind::BlankLine, "blank-line", "comes after a blank line", &["STDIO-005"],
        "ignore the line (STDIO-011)"),
    (Kind::Batch, "batch", "comes in a batch (2025-03-26 has them)", &["STDIO-002"],
        "in other revisions drop it; time out"),
    (Kind::Truncated, "truncated", "ends in the middle; the stream goes on", &["STDIO-005"],
        "fail that request, or time out"),
    (Kind::LateProgress, "late-progress", "is followed by progress of it, or of the last that had any", &["PROG-011"],
        "drop it (PROG-012)"),
    (Kind::BigNumber, "big-number", "has a member with the number 1e400", &[],
        "ignore it, or fail that request"),
    (Kind::Deep, "deep", "has a member that is nested 1,000 deep", &[],
        "fail that request, or ignore the member; never overflow"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_fits_into_80_columns() {
        let list = Kind::list();
        assert_eq!(list.lines().count(), 3 * TABLE.len());
        assert_eq!(list.lines().find(|line| line.len() > 80), None);
    }
}
