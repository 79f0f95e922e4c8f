//! Finding out what the server speaks, as far as HTTP has a say: statuses as evidence, and HTTP+SSE of 2024-11-05.
//!
//! What to ask next is the engine's to know; here is known what a failed exchange says about the server.

use alloc::format;
use alloc::sync::Arc;

use bytes::Bytes;

use super::binding::Client;
use super::exchange::{Exchange, Method, Tries, What};
use crate::client::is_modern_error;
use crate::error::{CallError, Fault, HttpError, quoted};
use crate::slab::Key;
use crate::version::Version;
use crate::vocab;

/// What was tried, for people
pub(super) fn name(what: &What) -> alloc::string::String {
    match what {
        What::Call { method: Method::Probe, .. } => format!("`{}`", vocab::DISCOVER),
        What::Call { .. } => format!("`{}`", vocab::INITIALIZE),
        _ => "GET, for HTTP+SSE".into(),
    }
}

/// Whether a failed exchange says something about the era (VER-021, HTTP-088)
fn is_evidence(error: &HttpError) -> bool {
    match error {
        HttpError::Answer(answer) => {
            answer.status < 500 && !matches!(answer.status, 401 | 403 | 407 | 408 | 429)
        }
        // A success that carries no message: no MCP server that is known answers so, but an old one may (VER-020).
        HttpError::Unanswered { .. } => true,
        _ => false,
    }
}

impl Client {
    /// An exchange failed on which everything depends
    pub(super) fn opening_failed(&mut self, x: &Exchange, error: HttpError) {
        if self.engine.peer().is_some() {
            // The stream of HTTP+SSE is the connection (HTTPSSE-010).
            return self.engine.handle_eof(self.now, self.channel);
        }
        if !is_evidence(&error) && !matches!(x.what, What::Sse) {
            return self.engine.close_because(self.now, Fault::Http(error.into()));
        }
        self.attempts.push(format!("{}: {error}", name(&x.what)));
        let said = match &error {
            HttpError::Answer(answer) => answer.error.clone(),
            _ => None,
        };
        match &x.what {
            What::Call { id, method: Method::Probe } => {
                let modern = said.as_ref().is_some_and(is_modern_error);
                let legacy = !self.engine.config().legacy().is_empty();
                if !modern && (!legacy || self.session.handshake.is_some()) {
                    return self.no_server();
                }
                // VER-019, VER-030
                let error = said.map_or_else(|| error.into(), CallError::Rpc);
                self.engine.fail_request(self.now, self.channel, id, error);
            }
            What::Call { id, .. } => {
                if let Some(error) = said.filter(is_modern_error) {
                    return self.engine.fail_request(self.now, self.channel, id, CallError::Rpc(error));
                }
                let status = match &error {
                    HttpError::Answer(answer) => answer.status,
                    _ => 200,
                };
                // VER-031, HTTP-084 to HTTP-087
                let old = self.engine.config().get_versions().contains(Version::V2024_11_05);
                if status >= 400 && old && self.session.post_to.is_none() {
                    return self.open(What::Sse, Bytes::new(), Tries::default());
                }
                self.no_session();
            }
            _ => self.no_session(),
        }
    }

    /// A handshake came to nothing
    fn no_session(&mut self) {
        let config = self.engine.config();
        let modern = !config.modern().is_empty() && config.verdict.is_some();
        match self.session.handshake.clone() {
            // A remembered verdict that proved wrong: the engine asks what it would have asked first (VER-042).
            Some((_, id)) if !self.session.probed && modern && self.session.post_to.is_none() => {
                let why = "the handshake came to nothing".into();
                self.engine.fail_request(self.now, self.channel, &id, HttpError::Lost { why }.into());
            }
            _ => self.no_server(),
        }
    }

    fn no_server(&mut self) {
        let attempts = core::mem::take(&mut self.attempts);
        self.engine.close_because(self.now, Fault::NoServer { attempts });
    }

    /// The first event of HTTP+SSE: where to send to (HTTPSSE-002, HTTPSSE-013)
    pub(super) fn endpoint_in(&mut self, key: Key, kind: Option<&[u8]>, data: &[u8]) {
        let url = core::str::from_utf8(data).ok().filter(|_| kind == Some(b"endpoint"));
        let base = self.exchanges.get(key).map(|x| Arc::clone(&x.url));
        let resolved = base.zip(url).and_then(|(base, url)| base.resolve(url).ok());
        let same = resolved.as_ref().is_some_and(|url| url.origin() == self.config.endpoint.origin());
        match (resolved, self.session.handshake.clone()) {
            (Some(url), Some((body, id))) if same => {
                if let Some(x) = self.exchanges.get_mut(key) {
                    x.due = None;
                }
                self.session.post_to = Some(Arc::new(url));
                let what = What::Call { id, method: Method::Handshake };
                self.open(what, body, Tries::default());
            }
            (other, _) => {
                let why = match other {
                    // HTTPSSE-008
                    Some(url) => {
                        let origin = format!("{}", url.origin());
                        format!("its endpoint is at another origin, {}", quoted(&origin))
                    }
                    None => "its first event names no endpoint".into(),
                };
                self.abort(key);
                self.attempts.push(format!("{}: {why}", name(&What::Sse)));
                self.no_session();
            }
        }
    }
}
