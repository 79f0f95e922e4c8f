//! What comes back: heads, bodies, ends, and what becomes of them.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::binding::Client;
use super::challenge;
use super::config::{Why, text};
use super::exchange::{Events, Exchange, Failure, Gathered, Method, Phase, What};
use crate::ascii::AnyCase as _;
use crate::error::{CallError, HttpAnswer, HttpError};
use crate::head;
use crate::http::fields;
use crate::rpc::envelope::{self, Kind};
use crate::rpc::{RpcError, code};
use crate::slab::Key;

/// How often a redirect is followed for one request
const MAX_REDIRECTS: u8 = 3;
/// A body that is no message is read so far, for the error in it
const MAX_ERROR: usize = 64 << 10;
/// Answers to the first questions that are kept for the error
const MAX_ATTEMPTS: usize = 8;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What kind of body a head announces
#[derive(Clone, Copy, PartialEq, Eq)]
enum Media {
    Json,
    Events,
    Other,
}

fn media(head: &head::Response<'_>) -> Media {
    if encoding(head).is_some() {
        // Nothing is unpacked here, and nobody was asked to pack anything.
        return Media::Other;
    }
    let value = head::values(head.fields, fields::CONTENT_TYPE).next().unwrap_or_default();
    let kind = value.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    match () {
        () if kind.eq_any_case(super::JSON.as_bytes()) => Media::Json,
        () if kind.eq_any_case(super::EVENT_STREAM.as_bytes()) => Media::Events,
        () => Media::Other,
    }
}

/// How a body is packed, if it is
fn encoding<'a>(head: &head::Response<'a>) -> Option<&'a [u8]> {
    let mut all = head::values(head.fields, fields::CONTENT_ENCODING);
    all.find(|value| !value.is_empty() && !value.eq_any_case(b"identity"))
}

fn answer(head: &head::Response<'_>) -> HttpAnswer {
    let one = |name| head::values(head.fields, name).next();
    let seconds = |value: &[u8]| {
        let digits = value.len() <= 9 && !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        core::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
    };
    HttpAnswer {
        status: head.status,
        content_type: one(fields::CONTENT_TYPE).map(text),
        content_encoding: encoding(head).map(text),
        body: String::new(),
        error: None,
        retry_after: one(fields::RETRY_AFTER).and_then(seconds).map(Duration::from_secs),
        challenges: challenge::parse(head::values(head.fields, fields::WWW_AUTHENTICATE)),
    }
}

/// The error that a message carries
fn error_in(message: &Bytes, limits: &crate::Limits) -> Option<RpcError> {
    let envelope = envelope::parse(message, limits, None).ok()?;
    (envelope.kind == Kind::Response).then(|| envelope.outcome(message).err())?
}

impl HttpError {
    /// Whether the same request may fare better a little later
    pub(super) const fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } => true,
            Self::Answer(a) => match a.status {
                408 | 429 | 503 => true,
                // Who answers with an error of the protocol has done its work.
                500 | 502 | 504 => a.error.is_none(),
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether a stream that could not be opened may be asked for again a little later; `again`: it was open before
    pub(super) const fn passes(&self, again: bool) -> bool {
        match self {
            // A server that has not seen yet that it broke.
            Self::Answer(a) if a.status == 409 => again,
            // Nothing was done, whatever is said of it.
            Self::Answer(a) => matches!(a.status, 408 | 429 | 500 | 502..=504),
            _ => self.is_transient(),
        }
    }

    /// Whether it is certain that the server has done nothing with the request
    pub(super) const fn is_untaken(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Answer(a) => matches!(a.status, 429 | 503),
            _ => false,
        }
    }

    /// How long the server wants to be left alone
    pub(super) fn retry_after(&self) -> Duration {
        match self {
            Self::Answer(answer) => answer.retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
}

impl Client {
    // ---- heads -----------------------------------------------------------------------------------------------

    pub(super) fn head_in(&mut self, key: Key, head: &head::Response<'_>) {
        let Some(x) = self.exchanges.get(key) else { return };
        let success = (200..300).contains(&head.status);
        let refused = match head.status {
            401 => true,
            // A step up; otherwise nothing that a credential would change.
            403 => answer(head).challenges.iter().any(|c| c.param("error") == Some("insufficient_scope")),
            _ => false,
        };
        if refused {
            let Some(x) = self.conclude(key) else { return };
            let answer = answer(head);
            if let Some(x) = self.hold(x, Box::new(answer.clone())) {
                self.failed(x, HttpError::Answer(answer));
            }
            return;
        }
        if (300..400).contains(&head.status) {
            return self.redirected(key, head);
        }
        if head.status == 404 && self.is_session_gone(x) {
            return self.session_gone(key);
        }
        let media = media(head);
        if success {
            self.note_session(key, head);
        }
        let Some(x) = self.exchanges.get_mut(key) else { return };
        let (max, now) = (self.engine.config().get_limits().frame(), self.now);
        match &x.what {
            What::Message { .. } | What::Renewed if success => {
                if let Some(x) = self.conclude(key) {
                    self.told(&x);
                }
            }
            // The answer comes on the stream (HTTPSSE-007).
            What::Call { .. } if success && self.session.post_to.is_some() => drop(self.conclude(key)),
            What::Call { .. } | What::Renew | What::Tools(_) if matches!(head.status, 202 | 204) => {
                if let Some(x) = self.conclude(key) {
                    self.failed(x, HttpError::Unanswered { status: head.status });
                }
            }
            What::Delete => drop(self.conclude(key)),
            _ if success && media == Media::Events => {
                // It need not be sent again.
                if !matches!(x.what, What::Sse) {
                    x.body = Bytes::new();
                }
                let events = x.events.get_or_insert_with(|| Box::new(Events::new(max)));
                events.reopen(now, max);
                x.phase = Phase::Events;
                let is_stream = matches!(x.what, What::Stream);
                if is_stream {
                    self.listening();
                }
            }
            _ => {
                let json = media == Media::Json
                    && !matches!(x.what, What::Stream | What::Sse | What::Message { .. });
                let json = json || (media == Media::Json && !success);
                let answer = answer(head);
                x.phase = Phase::Body(Box::new(Gathered { answer, json, body: Vec::new() }));
            }
        }
    }

    /// Redirects are followed where they keep the method, and never to another origin, which is not to see what is
    /// sent here
    fn redirected(&mut self, key: Key, head: &head::Response<'_>) {
        let Some(x) = self.conclude(key) else { return };
        let location = head::values(head.fields, fields::LOCATION).next();
        let to = location.and_then(|l| core::str::from_utf8(l).ok()).and_then(|l| x.url.resolve(l).ok());
        match to {
            Some(to)
                if matches!(head.status, 307 | 308)
                    && to.origin() == x.url.origin()
                    && x.tries.redirects < MAX_REDIRECTS =>
            {
                let mut x = Exchange { url: alloc::sync::Arc::new(to), ..x };
                x.tries.redirects += 1;
                self.resend(x);
            }
            to => {
                let to = to.map(|to| alloc::format!("{to:?}")).unwrap_or_default();
                self.failed(x, HttpError::Redirected { status: head.status, to });
            }
        }
    }

    // ---- bodies ----------------------------------------------------------------------------------------------

    pub(super) fn body_in(&mut self, key: Key, part: &[u8]) {
        let max = self.max_frame();
        let Some(x) = self.exchanges.get_mut(key) else { return };
        match &mut x.phase {
            Phase::Events => {
                let Some(events) = &mut x.events else { return };
                events.decoder.push(part);
                if !events.queued {
                    events.queued = true;
                    self.ready.push_back(key);
                }
            }
            Phase::Body(gathered) => {
                let most =
                    if gathered.json && gathered.answer.status < 300 { max } else { max.min(MAX_ERROR) };
                if gathered.body.len() + part.len() <= most {
                    return gathered.body.extend_from_slice(part);
                }
                if gathered.json && gathered.answer.status < 300 {
                    if let Some(x) = self.abort(key) {
                        self.too_large(x);
                    }
                } else {
                    let room = most - gathered.body.len();
                    gathered.body.extend_from_slice(part.get(..room).unwrap_or(part));
                    gathered.json = false;
                    if let Some(x) = self.conclude(key) {
                        self.gathered(x);
                    }
                }
            }
            Phase::Drained { left } => match left.checked_sub(part.len()) {
                Some(rest) => *left = rest,
                None => drop(self.abort(key)),
            },
            _ => {}
        }
    }

    pub(super) fn end_in(&mut self, key: Key) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        match &mut x.phase {
            Phase::Events => self.stream_over(key, Ok(())),
            Phase::Body(_) => {
                if let Some(x) = self.remove(key) {
                    self.gathered(x);
                }
            }
            Phase::Drained { .. } => drop(self.remove(key)),
            Phase::Sent => self.failure_in(key, Failure::broken("the answer ended before it began")),
            Phase::Held { .. } | Phase::Waiting(_) => {}
        }
    }

    pub(super) fn failure_in(&mut self, key: Key, failure: Failure) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        match x.phase {
            Phase::Events => self.stream_over(key, Err(failure.why)),
            Phase::Drained { .. } => drop(self.remove(key)),
            Phase::Held { .. } | Phase::Waiting(_) => {}
            Phase::Sent | Phase::Body(_) => {
                let Some(x) = self.remove(key) else { return };
                let why = failure.why;
                self.failed(
                    x,
                    if failure.sent { HttpError::Lost { why } } else { HttpError::Unreachable { why } },
                );
            }
        }
    }

    fn stream_over(&mut self, key: Key, how: Result<(), Why>) {
        let Some(events) = self.exchanges.get_mut(key).and_then(|x| x.events.as_mut()) else { return };
        events.ended = Some(how);
        if !events.queued {
            events.queued = true;
            self.ready.push_back(key);
        }
    }

    /// A body is complete that is no event stream
    fn gathered(&mut self, mut x: Exchange) {
        let Phase::Body(gathered) = core::mem::replace(&mut x.phase, Phase::Sent) else { return };
        let Gathered { mut answer, json, body } = *gathered;
        let success = answer.status < 300;
        let mut body = Bytes::from(body);
        if let Some(rest) = body.strip_prefix(BYTE_ORDER_MARK) {
            body = body.slice_ref(rest);
        }
        if json && success && !body.is_empty() {
            return self.answered(x, answer.status, body);
        }
        if body.is_empty() && answer.content_type.is_none() && success {
            return self.failed(x, HttpError::Unanswered { status: answer.status });
        }
        let limits = self.engine.config().get_limits();
        if !success {
            // Whatever type and id it has: some servers name another one, or none, when they refuse a request.
            answer.error = error_in(&body, limits);
        }
        if answer.error.is_none() {
            let kept = body.get(..limits.max_noise).unwrap_or(&body);
            answer.body = text(kept);
        }
        // XHDR-029
        let mismatch = answer.error.as_ref().is_some_and(|e| e.code == code::HEADER_MISMATCH);
        let first = matches!(x.what, What::Call { method: Method::CallTool, .. }) && x.tries.refreshes == 0;
        if mismatch && first && self.refresh(&x, body) {
            return;
        }
        self.failed(x, HttpError::Answer(answer));
    }

    /// A JSON body that was sent as a success
    fn answered(&mut self, x: Exchange, status: u16, body: Bytes) {
        match &x.what {
            What::Call { id, .. } | What::Resume { id } => {
                self.note_attempt(&x.what, &body);
                let lists = matches!(x.what, What::Call { method: Method::ListTools, .. });
                let body = if lists { self.learn(body) } else { body };
                self.session.renewals = 0;
                self.engine.take_message(self.now, self.channel, body, Some(id));
                if self.engine.waits_for(self.channel, id) {
                    self.failed(x, HttpError::Unanswered { status });
                }
            }
            What::Renew => self.renewed(&body),
            What::Tools(_) => self.refreshed(x, &body),
            _ => {}
        }
    }

    /// Takes note of an error in answer to the first questions
    pub(super) fn note_attempt(&mut self, what: &What, body: &Bytes) {
        if !matches!(what, What::Call { method: Method::Probe | Method::Handshake, .. }) {
            return;
        }
        if self.attempts.len() >= MAX_ATTEMPTS {
            return;
        }
        if let Some(error) = error_in(body, self.engine.config().get_limits()) {
            let said = crate::error::quoted(&error.message);
            let what = super::opening::name(what);
            self.attempts.push(alloc::format!("{what}: {said} (code {})", error.code));
        }
    }

    pub(super) fn too_large(&mut self, x: Exchange) {
        let limit = self.max_frame();
        match x.what.request() {
            Some(id) => self.engine.fail_request(self.now, self.channel, id, CallError::TooLarge { limit }),
            None => self.failed(x, HttpError::Lost { why: "it is longer than the limit".into() }),
        }
    }
}
