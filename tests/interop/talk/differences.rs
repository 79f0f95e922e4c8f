//! What the SDKs, and ours, do otherwise than the others

use super::{Pair, Sdk, Wire};

/// What differs from the file, at a step or a part of it
pub(super) struct Row {
    sdk: Sdk,
    /// Which side it is on
    role: &'static str,
    era: Option<&'static str>,
    wire: Option<Wire>,
    at: &'static str,
    /// `cannot`: the client reports that it has no way to do this; `ends badly`: the server fails; `outlives`: the
    /// server does not notice that its client is gone before its own time-out passes; `cut`: the server ends
    /// subscriptions in good order only together with the connection; `asks`:
    /// the server asks for what its client did not declare; `stays asked`: the client is not told that a question is
    /// given up together with the call that it belongs to; `cannot read`: the client fails on a question; `keeps the
    /// id`: the server's question has an id that the era does not have; `cancels twice`: the client sends a cancellation
    /// for what it ends by hanging up
    what: &'static str,
    pub(super) why: &'static str,
}

/// All that differs; a row that is wrong, also because a later version can do more, fails the test.
const DIFFERENCES: &[Row] = &[
    Row {
        sdk: Sdk::Ours,
        role: "client",
        era: None,
        wire: None,
        at: "given up by the client",
        what: "cannot",
        why: "mcp-blocking: handlers answer before anything else happens, and no time passes meanwhile (TIME-008)",
    },
    Row {
        sdk: Sdk::Typescript2,
        role: "client",
        era: Some("modern"),
        wire: None,
        at: "roots changed",
        what: "cannot",
        why: "2.4.0: the revision has no news of roots (ROOT-004)",
    },
    Row {
        sdk: Sdk::Python,
        role: "client",
        era: Some("modern"),
        wire: None,
        at: "roots changed",
        what: "cannot",
        why: "2.3.0: the revision has no news of roots (ROOT-004)",
    },
    Row {
        sdk: Sdk::Typescript1,
        role: "server",
        era: None,
        wire: Some(Wire::Stdio),
        at: "vanish",
        what: "outlives",
        why: "1.32.2: its transport does not look for the end of stdin, and a question that is open keeps it alive",
    },
    Row {
        sdk: Sdk::Typescript1,
        role: "server",
        era: None,
        wire: Some(Wire::Stdio),
        at: "vanish",
        what: "ends badly",
        why: "1.32.2: it takes its question back on a pipe that nobody reads any more, and fails with that",
    },
    Row {
        sdk: Sdk::Typescript2,
        role: "server",
        era: Some("modern"),
        wire: Some(Wire::Stdio),
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
        wire: Some(Wire::Stdio),
        at: "vanish",
        what: "ends badly",
        why: "2.3.0: it takes back its question, or ends a subscription, on a pipe that nobody reads any more",
    },
    Row {
        sdk: Sdk::Typescript2,
        role: "client",
        era: Some("modern"),
        wire: Some(Wire::Http),
        at: "unsubscribe",
        what: "cancels twice",
        why: "2.4.0: it hangs up on the subscription, and sends the cancellation that stdio has (CANC-016)",
    },
    Row {
        sdk: Sdk::Rmcp,
        role: "client",
        era: Some("legacy"),
        wire: Some(Wire::Http),
        at: "given up by the client",
        what: "stays asked",
        why: "3.8.0: it reads no more of the stream of a call that it gives up, which is where it is told",
    },
    Row {
        sdk: Sdk::Rmcp,
        role: "client",
        era: Some("modern"),
        wire: None,
        at: "given up by the client",
        what: "stays asked",
        why: "3.8.0: who is asked on behalf of a call is not told when that is given up",
    },
    Row {
        sdk: Sdk::Rmcp,
        role: "client",
        era: Some("modern"),
        wire: None,
        at: "roots changed",
        what: "cannot",
        why: "3.8.0: the revision has no news of roots (ROOT-004)",
    },
    Row { at: "form", ..RMCP_ASKS },
    Row { at: "page", ..RMCP_ASKS },
    Row { at: "sampling", ..RMCP_ASKS },
    Row { at: "sampling with tools", ..RMCP_ASKS },
    Row { at: "roots", ..RMCP_ASKS },
    Row { at: "page: accept", ..RMCP_CANNOT_READ },
    Row { at: "page: decline", ..RMCP_CANNOT_READ },
    Row { at: "page: cancel", ..RMCP_CANNOT_READ },
    Row { at: "page: error", ..RMCP_CANNOT_READ },
    Row { at: "page: accept", ..RMCP_KEEPS_THE_ID },
    Row { at: "page: decline", ..RMCP_KEEPS_THE_ID },
    Row { at: "page: cancel", ..RMCP_KEEPS_THE_ID },
    Row { at: "page: error", ..RMCP_KEEPS_THE_ID },
];

const RMCP_CANNOT_READ: Row = Row {
    sdk: Sdk::Rmcp,
    role: "client",
    era: Some("modern"),
    wire: None,
    at: "",
    what: "cannot read",
    why: "3.8.0: its type of a page to visit insists on the id that this era no longer has (ELIC-032)",
};

const RMCP_KEEPS_THE_ID: Row = Row { role: "server", what: "keeps the id", ..RMCP_CANNOT_READ };

const PYTHON_ASKS: Row = Row {
    sdk: Sdk::Python,
    role: "server",
    era: Some("modern"),
    wire: None,
    at: "",
    what: "asks",
    why: "2.3.0: the low-level server does not hold what it needs against what its client declared (MRTR-009)",
};

const RMCP_ASKS: Row = Row {
    sdk: Sdk::Rmcp,
    why: "3.8.0: the server does not hold what it needs against what its client declared (MRTR-009)",
    ..PYTHON_ASKS
};

impl Pair {
    pub(super) fn differs(self, what: &str, at: &str) -> Option<&'static Row> {
        DIFFERENCES.iter().find(|row| {
            let sdk = if row.role == "client" { self.client } else { self.server };
            let here =
                row.era.is_none_or(|era| era == self.era) && row.wire.is_none_or(|wire| wire == self.wire);
            row.what == what && row.at == at && row.sdk == sdk && here
        })
    }
}
