//! What goes out: which request a message becomes, and its header fields.

use alloc::borrow::Cow;

use bytes::Bytes;

use super::binding::Client;
use super::exchange::{Action, Exchange, ExchangeId, Method, Open, Phase, Tries, What};
use super::session::Gate;
use crate::head::Fields;
use crate::http::fields;
use crate::json::{object_members, string};
use crate::meta;
use crate::rpc::RequestId;
use crate::version::Version;
use crate::vocab;

/// What a message of ours says that its head repeats
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    pub(super) id: Option<RequestId>,
    pub(super) method: Option<Cow<'a, str>>,
    /// The revision in its `_meta`
    pub(super) version: Option<Cow<'a, str>>,
    /// What it is about (HTTP-033, XHDR-036)
    pub(super) name: Option<Cow<'a, str>>,
    pub(super) arguments: Option<&'a [u8]>,
    /// The request that it cancels
    cancels: Option<RequestId>,
    /// It asks for a page that is not the first
    pub(super) cursor: bool,
}

impl<'a> Parts<'a> {
    /// Reads a message that was written here; nothing of a batch of answers
    pub(super) fn of(message: &'a [u8]) -> Self {
        let mut parts = Self::default();
        let mut params: &[u8] = &[];
        if message.first() != Some(&b'{') {
            return parts;
        }
        object_members(message, |name, value| match name {
            b"id" => parts.id = RequestId::from_json(value, value.len()),
            b"method" => parts.method = string(value),
            b"params" => params = value,
            _ => {}
        });
        let member = parts.method.as_deref().and_then(vocab::subject).unwrap_or_default();
        if params.is_empty() {
            return parts;
        }
        object_members(params, |name, value| match name {
            b"_meta" => object_members(value, |name, value| {
                if name == meta::PROTOCOL_VERSION.as_bytes() {
                    parts.version = string(value);
                }
            }),
            b"arguments" => parts.arguments = Some(value),
            b"requestId" => parts.cancels = RequestId::from_json(value, value.len()),
            b"cursor" => parts.cursor = true,
            name if name == member.as_bytes() => parts.name = string(value),
            _ => {}
        });
        parts
    }
}

/// Whether a message is an answer, or a notification of the protocol's own
fn is_known(message: &[u8]) -> bool {
    let method = Parts::of(message).method;
    let known = [vocab::INITIALIZED, vocab::CANCELLED, vocab::PROGRESS, vocab::ROOTS_CHANGED];
    method.is_none_or(|method| known.contains(&&*method))
}

impl Client {
    /// Sends a message of the engine's: each is a POST of its own (HTTP-009, HTTP-014, HTTP-016)
    pub(super) fn send(&mut self, message: Bytes) {
        let parts = Parts::of(&message);
        let method = parts.method.as_deref().unwrap_or_default();
        let mut cancelled = None;
        if let (vocab::CANCELLED, Some(id)) = (method, &parts.cancels) {
            if let Some(at) = self.unsent.iter().position(|unsent| unsent == id) {
                self.unsent.swap_remove(at);
                return;
            }
            cancelled = self.exchange_of(id).or_else(|| self.refresh_of(id));
            let held = |x: &Exchange| matches!(x.phase, Phase::Held { .. });
            let refused = cancelled.and_then(|key| self.exchanges.get(key)).is_some_and(held);
            if self.is_modern() || refused {
                // CANC-016: the end of the exchange says it all.
                if let Some(key) = cancelled {
                    self.abort(key);
                }
                return;
            }
        }
        let initialized = method == vocab::INITIALIZED;
        let what = match parts.id.clone().filter(|_| parts.method.is_some()) {
            None => What::Message { initialized },
            Some(id) => {
                let opening = self.engine.peer().is_none();
                let method = match method {
                    vocab::DISCOVER if opening => Method::Probe,
                    vocab::INITIALIZE => Method::Handshake,
                    vocab::TOOLS_LIST => Method::ListTools,
                    vocab::TOOLS_CALL => Method::CallTool,
                    vocab::SUBSCRIBE => Method::Listen,
                    vocab::SET_LEVEL => Method::Level,
                    _ => Method::Other,
                };
                What::Call { id, method }
            }
        };
        let carried = what.request().and_then(|id| self.carried.iter().position(|(other, _)| other == id));
        let tries = carried.map(|at| self.carried.swap_remove(at).1).unwrap_or_default();
        drop(parts);
        if let Some(id) = what.request().filter(|id| !self.engine.waits_for(self.channel, id)) {
            // Cancelled or overdue before it went out: it is never to be executed.
            return self.unsent.push(id.clone());
        }
        match &what {
            What::Call { method: Method::Handshake, id } => {
                self.session.handshake = Some((message.clone(), id.clone()));
            }
            What::Call { method: Method::Probe, .. } => self.session.probed = true,
            What::Message { initialized: true } => self.session.begin_gate(),
            // Each message goes its own way: a call that is sent next could be there first.
            What::Call { method: Method::Level, .. } => self.gate_for(Gate::Level),
            _ => {}
        }
        self.open(what, message, tries);
        // What is said goes out before what it is about is given up (HTTP-062, HTTP-063).
        if let Some(key) = cancelled {
            self.abort(key);
        }
    }

    /// Asks for an exchange to where everything goes
    pub(super) fn open(&mut self, what: What, body: Bytes, tries: Tries) {
        let url = match what {
            What::Stream | What::Resume { .. } | What::Sse | What::Delete => self.config.endpoint.clone(),
            _ => self.endpoint(),
        };
        let phase = match what {
            // Nothing follows from its answer.
            What::Delete => Phase::Drained { left: super::binding::DRAIN },
            _ => Phase::Sent,
        };
        let (session, credential) = (0, 0);
        self.dispatch(Exchange {
            what,
            url,
            body,
            tries,
            session,
            credential,
            phase,
            due: None,
            events: None,
        });
    }

    /// The same request once more, if anybody still waits for it
    pub(super) fn resend(&mut self, x: Exchange) {
        if self.is_gone(&x) {
            return self.unsent(x);
        }
        // What was said in another session has no meaning in this one.
        if matches!(x.what, What::Message { .. }) && x.session != self.session.serial {
            return;
        }
        self.dispatch(Exchange { phase: Phase::Sent, ..x });
    }

    pub(super) fn dispatch(&mut self, mut x: Exchange) {
        x.session = self.session.serial;
        x.credential = self.credentials;
        x.due = match x.what {
            What::Message { .. } | What::Renew | What::Renewed | What::Tools(_) => {
                Some(self.now + self.engine.config().get_limits().call_timeout)
            }
            What::Delete => Some(self.now + self.config.close_wait),
            // A server that speaks so says at once where to.
            What::Sse => Some(self.now + self.engine.config().get_limits().init_timeout / 2),
            _ => None,
        };
        let (method, with_body) = match x.what {
            What::Stream | What::Resume { .. } | What::Sse => ("GET", false),
            What::Delete => ("DELETE", false),
            _ => ("POST", true),
        };
        let fields = self.fields_of(&x, with_body);
        let body = if with_body { x.body.clone() } else { Bytes::new() };
        let (url, class) = (x.url.clone(), x.what.class());
        let repeatable = match &x.what {
            // A handshake that was read after all leaves a session behind that nobody uses. Whoever gets an answer or a
            // notification of the protocol twice knows the first one.
            What::Call { method: Method::Probe | Method::Handshake | Method::ListTools, .. }
            | What::Renew
            | What::Renewed
            | What::Tools(_) => true,
            What::Message { .. } => is_known(&x.body),
            What::Call { id, .. } => self.engine.is_repeatable(self.channel, id),
            _ => !with_body,
        };
        let key = self.park(x);
        let exchange = ExchangeId(key);
        self.actions.push_back(Action::Open(Open { exchange, method, url, fields, body, class, repeatable }));
    }

    fn fields_of(&self, x: &Exchange, with_body: bool) -> Fields {
        let mut out = Fields::new();
        // What does not fit into a field is left out; only an id of the server's can be like that, and is looked at
        // before.
        let mut push = |name: &str, value: &[u8]| out.push(name, value);
        match x.what {
            What::Delete => {}
            What::Stream | What::Resume { .. } | What::Sse => {
                push(fields::ACCEPT, super::EVENT_STREAM.as_bytes()); // HTTP-048
            }
            _ => {
                push(fields::CONTENT_TYPE, super::JSON.as_bytes()); // HTTP-012
                push(fields::ACCEPT, super::BOTH.as_bytes()); // HTTP-010
            }
        }
        if let Some(credential) = &self.credential {
            push(fields::AUTHORIZATION, credential.value());
        }
        for (name, value) in self.config.fields.iter() {
            push(name, value);
        }
        let parts = if with_body { Parts::of(&x.body) } else { Parts::default() };
        let notifies = parts.id.is_none() && parts.method.is_some() && self.is_modern();
        if parts.version.is_some() || notifies {
            self.modern_fields(&parts, &mut push);
            return out;
        }
        let opens = matches!(
            x.what,
            What::Call { method: Method::Handshake | Method::Probe, .. } | What::Renew | What::Sse
        );
        if opens {
            return out; // DEC-026
        }
        if let Some(peer) = self.engine.peer().filter(|p| p.version >= Version::V2025_06_18) {
            push(fields::PROTOCOL_VERSION, peer.version.as_str().as_bytes()); // HTTP-076, VER-039
        }
        if let Some(session) = &self.session.id {
            push(fields::SESSION_ID, session.value()); // HTTP-067
        }
        if let Some(events) = x.events.as_ref().filter(|e| !with_body && !e.last_id.is_empty()) {
            push(fields::LAST_EVENT_ID, &events.last_id); // SSE-021
        }
        out
    }

    /// HTTP-030 to HTTP-035, XHDR-031
    fn modern_fields(&self, parts: &Parts<'_>, push: &mut impl FnMut(&str, &[u8]) -> bool) {
        let peer = self.engine.peer().map(|p| Cow::Borrowed(p.version.as_str()));
        if let Some(version) = parts.version.clone().or(peer) {
            push(fields::PROTOCOL_VERSION, version.as_bytes());
        }
        if let Some(method) = &parts.method {
            push(fields::METHOD, fields::encode_value(&**method).as_bytes());
        }
        if let Some(name) = &parts.name {
            push(fields::NAME, fields::encode_value(&**name).as_bytes()); // XHDR-032
        }
        if parts.method.as_deref() == Some(vocab::TOOLS_CALL) {
            self.tools.fields(parts, push);
        }
    }
}
