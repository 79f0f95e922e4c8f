//! The header fields of requests.

use alloc::borrow::Cow;

use super::config::{Config, Credential};
use super::exchange::{CallMethod, ExchangePurpose};
use super::exchange_table::ClientExchange;
use super::message_parts::MessageParts;
use super::session::{HttpClientSession, is_modern};
use super::tools::ToolHeaders;
use crate::client::Peer;
use crate::draft::{Deviation, Draft};
use crate::head::Fields;
use crate::http::fields;
use crate::methods;
use crate::version::Version;

/// Inputs of the header fields of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestFields<'c> {
    pub(super) config: &'c Config,
    pub(super) draft: Draft,
    /// The server, once it is known.
    pub(super) peer: Option<&'c Peer>,
    pub(super) session: &'c HttpClientSession,
    pub(super) tools: &'c ToolHeaders,
    pub(super) credential: Option<&'c Credential>,
}

impl RequestFields<'_> {
    /// Returns the fields of a request; `with_body` if it is a POST.
    pub(super) fn of(&self, x: &ClientExchange, with_body: bool) -> Fields {
        let mut out = Fields::new();
        // Values that do not fit into a field are omitted; only ids of the server could be such, and they were checked.
        let mut push = |name: &str, value: &[u8]| out.push(name, value);
        // Without it a server may encode an answer as it likes (RFC 9110, 12.5.3).
        push(fields::ACCEPT_ENCODING, b"identity");
        match x.purpose() {
            ExchangePurpose::DeleteSession => {}
            ExchangePurpose::GetStream | ExchangePurpose::Resume { .. } | ExchangePurpose::HttpSse => {
                push(fields::ACCEPT, super::EVENT_STREAM.as_bytes()); // HTTP-048
            }
            _ => {
                push(fields::CONTENT_TYPE, super::JSON.as_bytes()); // HTTP-012
                push(fields::ACCEPT, super::JSON_OR_EVENT_STREAM.as_bytes()); // HTTP-010
            }
        }
        if let Some(credential) = self.credential {
            push(fields::AUTHORIZATION, credential.value());
        }
        for (name, value) in self.config.fields.iter() {
            push(name, value);
        }
        let parts = if with_body { MessageParts::parse(&x.body) } else { MessageParts::default() };
        let is_modern = is_modern(self.peer);
        let is_modern_notification = parts.id.is_none() && parts.method.is_some() && is_modern;
        if parts.version.is_some() || is_modern_notification {
            self.push_modern_fields(&parts, &mut push);
            return out;
        }
        let opens_session = matches!(
            x.purpose(),
            ExchangePurpose::Call { method: CallMethod::Handshake | CallMethod::Probe, .. }
                | ExchangePurpose::RenewSession
                | ExchangePurpose::HttpSse
        );
        if opens_session {
            // DEC-026
            if self.draft.contains(Deviation::SentWithInitialize) && !self.session.is_http_sse() {
                self.push_mirrored_fields(&parts, &mut push);
            }
            return out;
        }
        let in_every_session = self.draft.contains(Deviation::SentVersion) && !self.session.is_http_sse();
        let names_version = |peer: &&Peer| in_every_session || peer.version >= Version::V2025_06_18;
        if let Some(peer) = self.peer.filter(names_version) {
            push(fields::PROTOCOL_VERSION, peer.version.as_str().as_bytes()); // HTTP-076, VER-039
        }
        if let Some(session) = self.session.id() {
            push(fields::SESSION_ID, session.value()); // HTTP-067
        }
        if self.session.mirrors_fields(self.config, self.draft, self.peer) {
            self.push_mirrored_fields(&parts, &mut push);
        }
        if let Some(events) = x.events.as_ref().filter(|e| !with_body && !e.last_event_id.is_empty()) {
            push(fields::LAST_EVENT_ID, &events.last_event_id); // SSE-021
        }
        out
    }

    /// Adds the fields of a modern request (HTTP-030 to HTTP-035, XHDR-031).
    fn push_modern_fields(&self, parts: &MessageParts<'_>, push: &mut impl FnMut(&str, &[u8]) -> bool) {
        let peer = self.peer.map(|p| Cow::Borrowed(p.version.as_str()));
        if let Some(version) = parts.version.clone().or(peer) {
            push(fields::PROTOCOL_VERSION, version.as_bytes());
        }
        self.push_mirrored_fields(parts, push);
    }

    /// Adds the fields that repeat method, name and arguments.
    fn push_mirrored_fields(&self, parts: &MessageParts<'_>, push: &mut impl FnMut(&str, &[u8]) -> bool) {
        if let Some(method) = &parts.method {
            push(fields::METHOD, fields::encode_value(&**method).as_bytes());
        }
        if let Some(name) = &parts.name {
            push(fields::NAME, fields::encode_value(&**name).as_bytes()); // XHDR-032
        }
        if parts.method.as_deref() == Some(methods::TOOLS_CALL) {
            self.tools.push_fields(parts, push);
        }
    }
}
