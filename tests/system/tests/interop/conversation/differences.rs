//! Known differences between the implementations.

use super::{Implementation, ImplementationPair, InteropTransport};

/// A difference from `talk.json`, at a step or a part of it.
pub(super) struct KnownDifference {
    sdk: Implementation,
    /// Role of the implementation: `client` or `server`.
    role: &'static str,
    era: Option<&'static str>,
    transport: Option<InteropTransport>,
    step: &'static str,
    /// Kind of difference:
    ///
    /// - `cannot`: the client reports that it has no means for this.
    /// - `ends badly`: the server exits with an error.
    /// - `outlives`: the server notices that its client is gone only after its own timeout.
    /// - `cut`: the server ends subscriptions gracefully only together with the connection.
    /// - `asks`: the server sends an input request that the client did not declare.
    /// - `stays asked`: an input request is not withdrawn together with its call.
    /// - `keeps the id`: the input request of the server has an id that the era does not have.
    /// - `empty id`: the client shows its handler an empty id in place of none.
    /// - `cancels twice`: the client cancels a request although it also hangs up.
    behaviour: &'static str,
    pub(super) reason: &'static str,
}

/// All known differences. A row that does not hold, for example with a later version, fails the test.
const DIFFERENCES: &[KnownDifference] = &[
    KnownDifference {
        sdk: Implementation::Own,
        role: "client",
        era: None,
        transport: None,
        step: "given up by the client",
        behaviour: "cannot",
        reason: "mcp-blocking: handlers run on the event loop, so no cancellation arrives while they run (TIME-008)",
    },
    KnownDifference {
        sdk: Implementation::Typescript2,
        role: "client",
        era: Some("modern"),
        transport: None,
        step: "roots changed",
        behaviour: "cannot",
        reason: "2.4.0: the revision has no change notification for roots (ROOT-004)",
    },
    KnownDifference {
        sdk: Implementation::Python,
        role: "client",
        era: Some("modern"),
        transport: None,
        step: "roots changed",
        behaviour: "cannot",
        reason: "2.3.0: the revision has no change notification for roots (ROOT-004)",
    },
    KnownDifference {
        sdk: Implementation::Typescript1,
        role: "server",
        era: None,
        transport: Some(InteropTransport::Stdio),
        step: "vanish",
        behaviour: "outlives",
        reason: "1.32.2: its transport does not watch for the end of stdin, and an open input request keeps it alive",
    },
    KnownDifference {
        sdk: Implementation::Typescript1,
        role: "server",
        era: None,
        transport: Some(InteropTransport::Stdio),
        step: "vanish",
        behaviour: "ends badly",
        reason: "1.32.2: it cancels its input request on a closed pipe, and fails",
    },
    KnownDifference {
        sdk: Implementation::Typescript2,
        role: "server",
        era: Some("modern"),
        transport: Some(InteropTransport::Stdio),
        step: "farewell",
        behaviour: "cut",
        reason: "2.4.0: only `close()` on the value of `serveStdio` ends subscriptions",
    },
    KnownDifference { step: "form", ..PYTHON_ASKS },
    KnownDifference { step: "page", ..PYTHON_ASKS },
    KnownDifference { step: "sampling", ..PYTHON_ASKS },
    KnownDifference { step: "sampling with tools", ..PYTHON_ASKS },
    KnownDifference { step: "roots", ..PYTHON_ASKS },
    KnownDifference {
        sdk: Implementation::Python,
        role: "server",
        era: None,
        transport: Some(InteropTransport::Stdio),
        step: "vanish",
        behaviour: "ends badly",
        reason: "2.3.0: it cancels its input request, or ends a subscription, on a closed pipe",
    },
    KnownDifference {
        sdk: Implementation::Typescript2,
        role: "client",
        era: Some("modern"),
        transport: Some(InteropTransport::Http),
        step: "unsubscribe",
        behaviour: "cancels twice",
        reason: "2.4.0: it hangs up on the subscription, and also sends the cancellation of stdio (CANC-016)",
    },
    KnownDifference {
        sdk: Implementation::Rmcp,
        role: "client",
        era: Some("legacy"),
        transport: Some(InteropTransport::Http),
        step: "given up by the client",
        behaviour: "stays asked",
        reason: "3.11.0: it stops reading the event stream of a cancelled call, on which the cancellation of the input request arrives",
    },
    KnownDifference {
        sdk: Implementation::Rmcp,
        role: "client",
        era: Some("modern"),
        transport: None,
        step: "given up by the client",
        behaviour: "stays asked",
        reason: "3.11.0: it does not cancel the input requests of a cancelled call",
    },
    KnownDifference {
        sdk: Implementation::Rmcp,
        role: "client",
        era: Some("modern"),
        transport: None,
        step: "roots changed",
        behaviour: "cannot",
        reason: "3.11.0: the revision has no change notification for roots (ROOT-004)",
    },
    KnownDifference { step: "form", ..RMCP_ASKS },
    KnownDifference { step: "page", ..RMCP_ASKS },
    KnownDifference { step: "sampling", ..RMCP_ASKS },
    KnownDifference { step: "sampling with tools", ..RMCP_ASKS },
    KnownDifference { step: "roots", ..RMCP_ASKS },
    KnownDifference { step: "page: accept", ..RMCP_SHOWS_ID },
    KnownDifference { step: "page: decline", ..RMCP_SHOWS_ID },
    KnownDifference { step: "page: cancel", ..RMCP_SHOWS_ID },
    KnownDifference { step: "page: error", ..RMCP_SHOWS_ID },
    KnownDifference { step: "page: accept", ..RMCP_KEEPS_ID },
    KnownDifference { step: "page: decline", ..RMCP_KEEPS_ID },
    KnownDifference { step: "page: cancel", ..RMCP_KEEPS_ID },
    KnownDifference { step: "page: error", ..RMCP_KEEPS_ID },
];

const RMCP_SHOWS_ID: KnownDifference = KnownDifference {
    sdk: Implementation::Rmcp,
    role: "client",
    era: Some("modern"),
    transport: None,
    step: "",
    behaviour: "empty id",
    reason: "3.11.0: its type of a URL elicitation has the id that this era does not have (ELIC-032)",
};

const RMCP_KEEPS_ID: KnownDifference =
    KnownDifference { role: "server", behaviour: "keeps the id", ..RMCP_SHOWS_ID };

const PYTHON_ASKS: KnownDifference = KnownDifference {
    sdk: Implementation::Python,
    role: "server",
    era: Some("modern"),
    transport: None,
    step: "",
    behaviour: "asks",
    reason: "2.3.0: the low-level server does not check the capabilities that its client declared (MRTR-009)",
};

const RMCP_ASKS: KnownDifference = KnownDifference {
    sdk: Implementation::Rmcp,
    reason: "3.11.0: the server does not check the capabilities that its client declared (MRTR-009)",
    ..PYTHON_ASKS
};

impl ImplementationPair {
    pub(super) fn known_difference(self, what: &str, at: &str) -> Option<&'static KnownDifference> {
        DIFFERENCES.iter().find(|row| {
            let sdk = if row.role == "client" { self.client } else { self.server };
            let is_in_scope = row.era.is_none_or(|era| era == self.era)
                && row.transport.is_none_or(|transport| transport == self.transport);
            row.behaviour == what && row.step == at && row.sdk == sdk && is_in_scope
        })
    }
}
