//! Exchanges that led to nothing: what is tried again, and what a call ends with.

use super::binding::Client;
use super::exchange::{Brought, Exchange, Method, Phase, Then, Tries, What, back_off};
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, HttpError};
use crate::rpc::RequestId;
use crate::slab::Key;

impl Client {
    /// An exchange has led to nothing
    pub(super) fn failed(&mut self, mut x: Exchange, error: HttpError) {
        if self.engine.is_closed() {
            return;
        }
        match &x.what {
            What::Call { method: Method::Probe | Method::Handshake, .. } | What::Sse => {
                self.opening_failed(&x, error);
            }
            What::Call { id, method } => {
                let id = id.clone();
                if !self.engine.waits_for(self.channel, &id) {
                    return;
                }
                let again = *method == Method::Listen || self.engine.is_repeatable(self.channel, &id);
                let policy = &self.config.reconnect;
                if *method == Method::Listen {
                    let good_for = x.events.as_mut().map(|e| e.good_for(self.now, policy));
                    match good_for.unwrap_or(Brought::Nothing) {
                        Brought::News => x.tries.repeats = 0,
                        // Where nothing happens nothing is told; it is asked for ever, and ever less often.
                        Brought::Acknowledgment => {
                            x.tries.repeats = x.tries.repeats.min(policy.tries.saturating_sub(1));
                        }
                        Brought::Nothing => {}
                    }
                }
                if again && error.is_transient() && x.tries.repeats < policy.tries {
                    // SUB-016, HTTP-044
                    let until = self.now + back_off(policy, x.tries.repeats).max(error.retry_after());
                    self.park(Exchange { phase: Phase::Waiting(Then::Repeat), due: Some(until), ..x });
                    return;
                }
                self.call_failed(&id, error);
            }
            What::Resume { id } => {
                let id = id.clone();
                if x.session != self.session.serial {
                    return self.lost(x, &id, HttpError::SessionLost);
                }
                if error.passes(true) && self.pause(&mut x, false, error.retry_after()) {
                    self.park(x);
                    return;
                }
                let lost =
                    HttpError::Lost { why: alloc::format!("it cannot be gone on with: {error}").into() };
                self.lost(x, &id, lost);
            }
            What::Message { .. } | What::Renewed => {
                let policy = &self.config.reconnect;
                let waits = x.tries.repeats < policy.tries && error.retry_after() <= policy.most;
                if error.is_untaken() && waits && !self.is_full() {
                    let until = self.now + back_off(policy, x.tries.repeats).max(error.retry_after());
                    x.tries.repeats += 1;
                    self.park(Exchange { phase: Phase::Waiting(Then::Again), due: Some(until), ..x });
                    return;
                }
                let note = alloc::format!("a message was not accepted: {error}");
                self.engine.note(Diagnostic::Http(note));
                self.told(&x);
            }
            What::Stream => self.not_listening(x, &error),
            What::Renew => {
                let note = alloc::format!("there is no other session to be had: {error}");
                self.engine.note(Diagnostic::Http(note));
                self.renewal_failed();
            }
            What::Tools(_) => self.not_refreshed(x),
            What::Delete => {}
        }
    }

    /// A call ends with what came in the place of its answer
    fn call_failed(&mut self, id: &RequestId, error: HttpError) {
        let error = match error {
            // What a status says beyond it: where to log in, when to come back.
            HttpError::Answer(mut answer) if !matches!(answer.status, 401 | 403 | 407 | 408 | 429 | 503) => {
                match answer.error.take() {
                    Some(error) => CallError::Rpc(error),
                    None => HttpError::Answer(answer).into(),
                }
            }
            error => error.into(),
        };
        self.engine.fail_request(self.now, self.channel, id, error);
    }

    /// The stream of a call cannot be gone on with
    pub(super) fn lost(&mut self, x: Exchange, id: &RequestId, error: HttpError) {
        if self.engine.is_repeatable(self.channel, id) && x.tries.repeats < self.config.reconnect.tries {
            let until = self.now + back_off(&self.config.reconnect, x.tries.repeats);
            let phase = Phase::Waiting(Then::Repeat);
            self.park(Exchange { phase, due: Some(until), events: None, ..x });
        } else {
            self.engine.fail_request(self.now, self.channel, id, error.into());
        }
    }

    /// Sends a request again under a new id
    pub(super) fn repeat(&mut self, x: &Exchange) {
        let Some(id) = x.what.request() else { return };
        match self.engine.repeat_request(self.now, self.channel, id) {
            Some(again) => {
                let tries = Tries { repeats: x.tries.repeats + 1, ..x.tries };
                self.carried.push((again, tries));
            }
            None => {
                let why = "the exchange broke off, and the request could not be made again".into();
                self.engine.fail_request(self.now, self.channel, id, HttpError::Lost { why }.into());
            }
        }
    }

    /// The exchange that looks a tool up for a call
    pub(super) fn refresh_of(&self, id: &RequestId) -> Option<Key> {
        let is = |x: &Exchange| matches!(&x.what, What::Tools(refresh) if refresh.call == *id);
        self.exchanges.iter().find(|(_, x)| is(x)).map(|(key, _)| key)
    }
}
