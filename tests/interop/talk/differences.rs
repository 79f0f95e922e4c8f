//! What the SDKs, and ours, do otherwise than the others

use super::{Pair, Sdk};

/// What differs from the file, at a step or a part of it
pub(super) struct Row {
    sdk: Sdk,
    /// Which side it is on
    role: &'static str,
    era: Option<&'static str>,
    at: &'static str,
    /// `cannot`: the client reports that it has no way to do this; `ends badly`: the server fails; `outlives`: the
    /// server does not notice that its client is gone before its own time-out passes; `cut`: the server ends
    /// subscriptions in good order only together with the connection; `asks`:
    /// the server asks for what its client did not declare
    what: &'static str,
    pub(super) why: &'static str,
}

/// All that differs; a row that is wrong, also because a later version can do more, fails the test.
const DIFFERENCES: &[Row] = &[
    Row {
        sdk: Sdk::Ours,
        role: "client",
        era: None,
        at: "given up by the client",
        what: "cannot",
        why: "mcp-blocking: handlers answer before anything else happens, and no time passes meanwhile (TIME-008)",
    },
    Row {
        sdk: Sdk::Typescript2,
        role: "client",
        era: Some("modern"),
        at: "roots changed",
        what: "cannot",
        why: "2.4.0: the revision has no news of roots (ROOT-004)",
    },
    Row {
        sdk: Sdk::Python,
        role: "client",
        era: Some("modern"),
        at: "roots changed",
        what: "cannot",
        why: "2.3.0: the revision has no news of roots (ROOT-004)",
    },
    Row {
        sdk: Sdk::Typescript1,
        role: "server",
        era: None,
        at: "vanish",
        what: "outlives",
        why: "1.32.2: its transport does not look for the end of stdin, and a question that is open keeps it alive",
    },
    Row {
        sdk: Sdk::Typescript1,
        role: "server",
        era: None,
        at: "vanish",
        what: "ends badly",
        why: "1.32.2: it takes its question back on a pipe that nobody reads any more, and fails with that",
    },
    Row {
        sdk: Sdk::Typescript2,
        role: "server",
        era: Some("modern"),
        at: "farewell",
        what: "cut",
        why: "2.4.0: `close()` of what `serveStdio` returns is the only way",
    },
    Row { at: "form", ..PYTHON_ASKS },
    Row { at: "page", ..PYTHON_ASKS },
    Row { at: "sampling", ..PYTHON_ASKS },
    Row { at: "sampling with tools", ..PYTHON_ASKS },
    Row { at: "roots", ..PYTHON_ASKS },
    Row {
        sdk: Sdk::Python,
        role: "server",
        era: None,
        at: "vanish",
        what: "ends badly",
        why: "2.3.0: it takes back its question, or ends a subscription, on a pipe that nobody reads any more",
    },
];

const PYTHON_ASKS: Row = Row {
    sdk: Sdk::Python,
    role: "server",
    era: Some("modern"),
    at: "",
    what: "asks",
    why: "2.3.0: the low-level server does not hold what it needs against what its client declared (MRTR-009)",
};

impl Pair {
    pub(super) fn differs(self, what: &str, at: &str) -> Option<&'static Row> {
        DIFFERENCES.iter().find(|row| {
            let sdk = if row.role == "client" { self.client } else { self.server };
            row.what == what && row.at == at && row.sdk == sdk && row.era.is_none_or(|era| era == self.era)
        })
    }
}
