//! Negotiation over HTTP: statuses as evidence of the era, and HTTP+SSE of 2024-11-05.
//!
//! The engine decides the next request. This module decides what a failed exchange shows about the server.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use super::binding::Client;
use super::exchange::{CallMethod, ExchangePurpose, RetryCounts};
use super::exchange_table::ClientExchange;
use crate::client::{decides_handshake, is_modern_error};
use crate::deprecation::DeprecatedFeature;
use crate::draft::Deviation;
use crate::error::{CallError, Fault, HttpError, UNTRIED_HANDSHAKE, quoted};
use crate::methods;
use crate::rpc::RpcError;
use crate::slab::Key;
use crate::sync::Arc;
use crate::version::Version;

/// Returns whether a failed exchange is evidence of the era (VER-021, HTTP-088).
fn is_evidence(error: &HttpError) -> bool {
    match error {
        HttpError::Response(answer) => {
            // A 403 or 429 that asks for nothing comes from servers and gateways that refuse what they do not know, too.
            let is_refusal = matches!(answer.status, 401 | 407 | 408)
                || (matches!(answer.status, 403 | 429) && answer.asks_for_more);
            answer.status < 500 && !is_refusal
        }
        // A success without a message: a server of another protocol revision may answer so (VER-020).
        HttpError::Unanswered { .. } => true,
        _ => false,
    }
}

impl Client {
    /// Handles the failure of an exchange of the negotiation.
    pub(super) fn negotiation_failed(&mut self, x: &ClientExchange, error: HttpError) {
        if self.engine.peer().is_some() {
            // The stream of HTTP+SSE is the connection (HTTPSSE-010).
            return self.engine.handle_eof(self.now, self.channel);
        }
        // Every failure of the GET of HTTP+SSE counts: that transport is not there.
        if !is_evidence(&error) && !matches!(x.purpose(), ExchangePurpose::HttpSse) {
            return self.engine.exchanges().close(self.now, Fault::Http(error.into()));
        }
        self.attempts.record(x.purpose(), &error);
        let rpc_error = match &error {
            HttpError::Response(answer) => answer.error.clone(),
            _ => None,
        };
        match x.purpose() {
            ExchangePurpose::Call { id, method: CallMethod::Probe } => {
                let modern = rpc_error.as_ref().is_some_and(is_modern_error);
                let legacy = !self.engine.config().legacy_versions().is_empty();
                // Only `initialize` is left to try, and the client does not speak it, or has sent it before. What answers with
                // an error of JSON-RPC is a server, though: of older revisions (VER-034).
                if !modern && (!legacy && rpc_error.is_none() || self.session.handshake().is_some()) {
                    return self.fail_no_server();
                }
                // VER-019, VER-030
                let error = rpc_error.map_or_else(|| error.into(), CallError::Rpc);
                self.engine.exchanges().fail_request(self.now, id, error);
            }
            ExchangePurpose::Call { id, .. } => {
                if let Some(error) = rpc_error.filter(decides_handshake) {
                    return self.engine.exchanges().fail_request(self.now, id, CallError::Rpc(error));
                }
                let status = match &error {
                    HttpError::Response(answer) => answer.status,
                    _ => 200,
                };
                // VER-031, HTTP-084 to HTTP-087
                let allows_http_sse =
                    self.engine.config().effective_versions().contains(Version::V2024_11_05);
                let may_fall_back = match status {
                    400 | 404 | 405 => true,
                    status => {
                        let draft = self.engine.config().settings.draft;
                        status >= 400 && !draft.contains(Deviation::FallbackStatuses)
                    }
                };
                if may_fall_back && allows_http_sse && !self.session.is_http_sse() {
                    return self.open_exchange(
                        ExchangePurpose::HttpSse,
                        Bytes::new(),
                        RetryCounts::default(),
                    );
                }
                self.handshake_failed();
            }
            _ => self.handshake_failed(),
        }
    }

    /// Handles a failed handshake.
    fn handshake_failed(&mut self) {
        let config = self.engine.config();
        let modern = !config.modern_versions().is_empty() && config.known_era.is_some();
        match self.session.handshake().cloned() {
            // The known era was wrong: the engine probes now (VER-042).
            Some((_, id)) if !self.session.was_probed() && modern && !self.session.is_http_sse() => {
                let reason = "the handshake failed".into();
                self.engine.exchanges().fail_request(self.now, &id, HttpError::Lost { reason }.into());
            }
            _ => self.fail_no_server(),
        }
    }

    fn fail_no_server(&mut self) {
        let mut attempts = self.attempts.take();
        if self.engine.config().legacy_versions().is_empty() {
            attempts.push(UNTRIED_HANDSHAKE.into());
        }
        self.engine.exchanges().close(self.now, Fault::NoServer { attempts });
    }

    /// Handles the first event of HTTP+SSE, which names the URL for messages (HTTPSSE-002, HTTPSSE-013).
    pub(super) fn receive_endpoint(&mut self, key: Key, kind: Option<&[u8]>, data: &[u8]) {
        let url = core::str::from_utf8(data).ok().filter(|_| kind == Some(b"endpoint"));
        let base = self.exchanges.get(key).map(|x| Arc::clone(&x.url));
        let resolved = base.zip(url).and_then(|(base, url)| base.resolve(url).ok());
        // Messages with the credential go to this URL, so another origin must not name itself.
        let may_lead = resolved.as_ref().is_some_and(|url| self.config.may_lead_to(url));
        match (resolved, self.session.handshake().cloned()) {
            (Some(url), Some((body, id))) if may_lead => {
                // The deadline was that of this first event. The stream itself lasts as long as the session.
                self.exchanges.clear_deadline(key);
                self.session.set_message_endpoint(Arc::new(url));
                self.engine.report_deprecated(DeprecatedFeature::HttpSse);
                let purpose = ExchangePurpose::Call { id, method: CallMethod::Handshake };
                self.open_exchange(purpose, body, RetryCounts::default());
            }
            (other, _) => {
                let reason = match other {
                    Some(url) if url.origin() == self.config.endpoint.origin() => {
                        "the `endpoint` event names a path that is not allowed".into()
                    }
                    // HTTPSSE-008
                    Some(url) => {
                        let origin = format!("{}", url.origin());
                        format!("the `endpoint` event names another origin, {}", quoted(&origin))
                    }
                    None => "the first event is not a valid `endpoint` event".into(),
                };
                self.abort(key);
                self.attempts.record(&ExchangePurpose::HttpSse, &reason);
                self.handshake_failed();
            }
        }
    }
}

// Failed attempts of the negotiation, for the error that names them.

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
        // One stream can bring any number of error responses. Failed exchanges are few.
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
