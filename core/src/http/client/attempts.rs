//! Failed attempts of the negotiation, for the error that names them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::exchange::{CallMethod, ExchangePurpose};
use crate::error::quoted;
use crate::methods;
use crate::rpc::RpcError;

/// Number of error responses that are kept.
const MAX_ATTEMPTS: usize = 8;

/// Failed attempts of the negotiation, as text.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    failures: Vec<String>,
}

impl Attempts {
    /// Records the failure of an exchange of the negotiation.
    pub(super) fn record(&mut self, purpose: &ExchangePurpose, reason: &dyn core::fmt::Display) {
        self.failures.push(format!("{}: {reason}", name(purpose)));
    }

    /// Records an error response to a request of the negotiation.
    pub(super) fn record_error(&mut self, purpose: &ExchangePurpose, error: &RpcError) {
        if self.failures.len() < MAX_ATTEMPTS {
            let message = quoted(&error.message);
            self.record(purpose, &format_args!("{message} (code {})", error.code));
        }
    }

    /// Takes all failures.
    pub(super) fn take(&mut self) -> Vec<String> {
        core::mem::take(&mut self.failures)
    }
}

/// Returns the name of an attempt for messages.
fn name(purpose: &ExchangePurpose) -> String {
    match purpose {
        ExchangePurpose::Call { method: CallMethod::Probe, .. } => format!("`{}`", methods::DISCOVER),
        ExchangePurpose::Call { .. } => format!("`{}`", methods::INITIALIZE),
        _ => "GET for HTTP+SSE".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RequestId;

    #[test]
    fn errors_of_a_server_are_kept_up_to_a_limit() {
        let mut attempts = Attempts::default();
        let probe = ExchangePurpose::Call { id: RequestId::int(1), method: CallMethod::Probe };
        for _ in 0..100 {
            attempts.record_error(&probe, &RpcError::new(-32_601, "no"));
        }
        attempts.record(&ExchangePurpose::HttpSse, &"refused");
        let all = attempts.take();
        assert_eq!(all.len(), MAX_ATTEMPTS + 1);
        assert!(all[0].starts_with("`server/discover`: ") && all[0].ends_with("(code -32601)"), "{all:?}");
        assert_eq!(all[MAX_ATTEMPTS], "GET for HTTP+SSE: refused");
        assert!(attempts.take().is_empty());
    }
}
