//! The session of a legacy server: its id, its loss, its end, and what has to wait meanwhile.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::binding::{Client, Timer};
use super::exchange::{Exchange, Method, Phase, Then, Tries, What};
use super::send::Parts;
use super::url::Url;
use crate::diagnostic::Diagnostic;
use crate::error::{Fault, HttpError};
use crate::head;
use crate::http::fields;
use crate::json::object_members;
use crate::rpc::envelope;
use crate::rpc::{RequestId, encode};
use crate::slab::Key;
use crate::time::Instant;
use crate::version::Era;
use crate::vocab;

/// Longest session id that is taken
const MAX_ID: usize = 1 << 10;

/// Whether messages of the engine may go out
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Gate {
    #[default]
    Open,
    /// `notifications/initialized` is to be accepted first
    Initialized,
    /// The GET stream is to be open first, or refused
    Listening,
    /// The server is to know first which level of logging is wanted
    Level,
    /// There is no session at the moment
    Renewing,
}

/// Who has it may speak in the session: never shown (HTTP-068, SEC-019)
pub(super) struct SessionId(Box<[u8]>);

impl SessionId {
    pub(super) fn value(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(…)")
    }
}

#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) id: Option<SessionId>,
    /// Which session that is
    pub(super) serial: u32,
    /// The `initialize` that was sent
    pub(super) handshake: Option<(Bytes, RequestId)>,
    /// `server/discover` was sent
    pub(super) probed: bool,
    pub(super) gate: Gate,
    pub(super) gate_until: Option<Instant>,
    /// Where messages go in HTTP+SSE
    pub(super) post_to: Option<Arc<Url>>,
    /// Sessions in a row that nothing was answered in
    pub(super) renewals: u32,
    /// When the last of them was lost
    renewed: Instant,
    /// Requests that were refused for the old session, to be sent in the new one
    waiting: Vec<Exchange>,
    /// Why nothing comes that the server says unasked, if that is so
    pub(super) unheard: Option<Box<str>>,
}

/// Whether a message is a notification of the application's own, which no session is about
fn is_applications(message: &[u8]) -> bool {
    let parts = Parts::of(message);
    parts.id.is_none() && parts.method.is_some_and(|method| !vocab::is_spec_notification(&method))
}

impl Session {
    pub(super) fn begin_gate(&mut self) {
        self.gate = Gate::Initialized;
    }
}

impl Client {
    /// Whether the server is known to be modern
    pub(super) fn is_modern(&self) -> bool {
        self.engine.peer().is_some_and(|p| p.era() == Era::Modern)
    }

    /// Whether the server is known to be legacy
    pub(super) fn is_legacy(&self) -> bool {
        self.engine.peer().is_some_and(|p| p.era() == Era::Legacy)
    }

    /// Takes the session id that a server assigns to what `initialize` opens (HTTP-064, HTTP-066)
    pub(super) fn note_session(&mut self, key: Key, head: &head::Response<'_>) {
        let opens = self
            .exchanges
            .get(key)
            .is_some_and(|x| matches!(x.what, What::Call { method: Method::Handshake, .. } | What::Renew));
        if !opens || self.session.post_to.is_some() {
            return;
        }
        let Some(id) = head::values(head.fields, fields::SESSION_ID).next() else { return };
        if !id.is_empty() && id.len() <= MAX_ID && id.iter().all(u8::is_ascii_graphic) {
            self.session.id = Some(SessionId(id.into()));
        } else {
            self.engine.note(Diagnostic::Http("the session id that the server assigns is none".into()));
        }
    }

    /// A notification or a response was accepted, or never will be
    pub(super) fn told(&mut self, x: &Exchange) {
        match x.what {
            What::Message { initialized: true } => self.listen(),
            What::Renewed => {
                self.engine.session_renewed(self.now);
                self.listen();
            }
            _ => {}
        }
    }

    /// Lets messages go out, first those that a lost session held up
    pub(super) fn open_gate(&mut self) {
        self.session.gate = Gate::Open;
        self.session.gate_until = None;
        for x in core::mem::take(&mut self.session.waiting) {
            self.resend(x);
        }
    }

    /// Sends something again as soon as anything may go out
    fn once_open(&mut self, x: Exchange) {
        if self.session.gate == Gate::Open {
            self.resend(x);
        } else {
            self.session.waiting.push(x);
        }
    }

    /// Lets nothing go out for a while at most
    pub(super) fn gate_for(&mut self, gate: Gate) {
        let until = self.now + self.config.listen_wait;
        self.session.gate = gate;
        self.session.gate_until = Some(until);
        self.arm(until, Timer::Gate);
    }

    /// An exchange is over: what had to wait for it goes out
    pub(super) fn ended(&mut self, x: &Exchange) {
        let is_level = matches!(x.what, What::Call { method: Method::Level, .. });
        if is_level && self.session.gate == Gate::Level {
            self.open_gate();
        }
    }

    // ---- loss ------------------------------------------------------------------------------------------------

    /// Whether a 404 to this says that its session is gone (HTTP-071, HTTP-072)
    ///
    /// Not for the first GET: a server that has no such stream may say so in this way.
    pub(super) fn is_session_gone(&self, x: &Exchange) -> bool {
        let sent = self.session.id.is_some() || x.session != self.session.serial;
        sent && self.is_legacy()
            && match x.what {
                What::Call { method, .. } => method != Method::Handshake,
                What::Message { .. } | What::Resume { .. } | What::Renewed => true,
                What::Stream => x.events.as_ref().is_some_and(|e| e.was_open),
                _ => false,
            }
    }

    /// A request was refused because its session is gone: it was not executed
    pub(super) fn session_gone(&mut self, key: Key) {
        let Some(mut x) = self.conclude(key) else { return };
        let current = x.session == self.session.serial;
        let lasted = self.now.saturating_duration_since(self.session.renewed);
        if current && self.session.renewals > 0 && lasted < self.config.reconnect.most {
            // The new one did not last until its first answer.
            if let Some(id) = x.what.request() {
                self.engine.fail_request(self.now, self.channel, id, HttpError::SessionLost.into());
            }
            return self.engine.close_because(self.now, Fault::Http(HttpError::SessionLost.into()));
        }
        if current {
            self.renew();
        }
        match &x.what {
            What::Call { id, .. } if x.tries.sessions == 0 && !self.engine.is_errand(self.channel, id) => {
                x.tries.sessions += 1;
                self.once_open(x);
            }
            What::Call { id, .. } | What::Resume { id } => {
                let id = id.clone();
                self.lost(x, &id, HttpError::SessionLost);
            }
            What::Message { .. } if x.tries.sessions == 0 && is_applications(&x.body) => {
                x.tries.sessions += 1;
                x.session = self.session.serial;
                self.once_open(x);
            }
            // What else was to be said was about the old session.
            _ => {}
        }
    }

    /// Opens another session (HTTP-072)
    fn renew(&mut self) {
        let Some((handshake, _)) = self.session.handshake.clone() else { return };
        self.session.id = None;
        self.session.serial += 1;
        self.session.renewals += 1;
        self.session.renewed = self.now;
        self.session.gate = Gate::Renewing;
        self.session.gate_until = None;
        self.engine.session_lost(self.now);
        let gone = |x: &Exchange| match x.what {
            What::Stream | What::Resume { .. } => !matches!(x.phase, Phase::Drained { .. }),
            What::Call { .. } => matches!(x.phase, Phase::Waiting(Then::Reconnect)),
            _ => false,
        };
        let keys: Vec<Key> = self.exchanges.iter().filter(|(_, x)| gone(x)).map(|(key, _)| key).collect();
        for key in keys {
            let Some(x) = self.abort(key) else { continue };
            if let Some(id) = x.what.request().cloned() {
                self.lost(x, &id, HttpError::SessionLost);
            }
        }
        self.open(What::Renew, handshake, Tries::default());
    }

    /// The answer to the `initialize` of another session
    pub(super) fn renewed(&mut self, body: &Bytes) {
        let answer = envelope::parse(body, self.engine.config().get_limits(), None);
        let result = answer.ok().and_then(|envelope| envelope.outcome(body).ok());
        let mut version = None;
        if let Some(result) = &result {
            object_members(result.as_bytes(), |name, value| {
                if name == b"protocolVersion" {
                    version = crate::json::string(value);
                }
            });
        }
        let same = self.engine.peer().is_some_and(|p| version.as_deref() == Some(p.version.as_str()));
        if !same {
            let note =
                "there is no other session to be had: the server's answer is none of the same revision";
            self.engine.note(Diagnostic::Http(note.into()));
            return self.renewal_failed();
        }
        let mut message = Vec::new();
        encode::notification_head(&mut message, vocab::INITIALIZED);
        encode::end(&mut message);
        message.pop();
        self.open(What::Renewed, message.into(), Tries::default());
    }

    /// There is no other session to be had
    pub(super) fn renewal_failed(&mut self) {
        for x in core::mem::take(&mut self.session.waiting) {
            if let Some(id) = x.what.request() {
                self.engine.fail_request(self.now, self.channel, id, HttpError::SessionLost.into());
            }
        }
        self.engine.close_because(self.now, Fault::Http(HttpError::SessionLost.into()));
    }

    // ---- end -------------------------------------------------------------------------------------------------

    /// Says that the session is of no more use (HTTP-073); what is on its way may still arrive
    pub(super) fn end_session(&mut self) {
        let until = self.now + self.config.close_wait;
        let left = super::binding::DRAIN;
        let keys: Vec<Key> = self.exchanges.iter().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(x) = self.exchanges.get_mut(key).filter(|x| !matches!(x.phase, Phase::Drained { .. }))
            {
                (x.phase, x.due) = (Phase::Drained { left }, Some(until));
                self.arm(until, Timer::Exchange(key));
            }
        }
        if self.session.id.is_some() {
            self.open(What::Delete, Bytes::new(), Tries::default());
        }
        self.session.id = None;
        self.session.waiting.clear();
    }
}
