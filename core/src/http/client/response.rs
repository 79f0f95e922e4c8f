//! Responses: heads, bodies and ends, and how they continue an exchange.

use alloc::string::String;
use core::time::Duration;

use bytes::Bytes;

use super::authorization;
use super::binding::{Client, MessageParts, max_frame};
use super::config::{ReconnectPolicy, lossy_text};
use super::events::{StreamYield, backoff, end_unanswered};
use super::exchange::{
    CallMethod, CollectedBody, ExchangeFailure, ExchangePhase, ExchangePurpose, NextStep, RetryCounts,
};
use super::exchange_table::{BodySink, ClientExchange};
use super::session::SendGate;
use super::tools::{has_draft_session, lacks_draft};
use crate::ascii::AsciiCaseExt as _;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, HttpError, HttpResponse};
use crate::head;
use crate::http::fields;
use crate::rpc::envelope::{self, Kind};
use crate::rpc::{RequestId, RpcError, code};
use crate::slab::Key;
use crate::time::Instant;

/// Largest number of redirects for one request.
const MAX_REDIRECTS: u8 = 3;
/// Largest number of nonces that a server may ask for in the proofs of one request.
const MAX_NONCES: u8 = 2;
/// Longest wait that a server can ask for: a wrong number must not end a stream for years.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3_600);
/// Bytes of a non-message body that are read for the error in it.
const MAX_ERROR_BODY: usize = 64 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The media type of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MediaType {
    Json,
    EventStream,
    Other,
}

fn media_type(head: &head::ResponseHead<'_>) -> MediaType {
    if encoding(head).is_some() {
        // Content codings are neither requested nor decoded.
        return MediaType::Other;
    }
    let value = head::values(head.fields, fields::CONTENT_TYPE).next().unwrap_or_default();
    let kind = value.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    match () {
        () if kind.eq_ignore_case(super::JSON.as_bytes()) => MediaType::Json,
        () if kind.eq_ignore_case(super::EVENT_STREAM.as_bytes()) => MediaType::EventStream,
        () => MediaType::Other,
    }
}

/// Returns the content coding of a body, if any.
fn encoding<'a>(head: &head::ResponseHead<'a>) -> Option<&'a [u8]> {
    let mut all = head::values(head.fields, fields::CONTENT_ENCODING);
    all.find(|value| !value.is_empty() && !value.eq_ignore_case(b"identity"))
}

fn response_from_head(head: &head::ResponseHead<'_>) -> HttpResponse {
    let one = |name| head::values(head.fields, name).next();
    // The field may also hold a date, which needs a clock that the core does not have.
    let seconds = |value: &[u8]| {
        let digits = value.len() <= 9 && !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        core::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
    };
    HttpResponse {
        status: head.status,
        content_type: one(fields::CONTENT_TYPE).map(lossy_text),
        content_encoding: encoding(head).map(lossy_text),
        body: String::new(),
        error: None,
        retry_after: one(fields::RETRY_AFTER).and_then(seconds).map(Duration::from_secs),
        challenges: authorization::parse_challenges(head::values(head.fields, fields::WWW_AUTHENTICATE)),
        asks_for_more: one(fields::WWW_AUTHENTICATE).is_some() || one(fields::RETRY_AFTER).is_some(),
    }
}

impl HttpResponse {
    /// Returns whether another credential may solve it: the status is 401, or 403 for a missing scope (AUTH-057).
    #[must_use]
    pub fn asks_for_credential(&self) -> bool {
        let lacks_scope = || self.challenges.iter().any(|c| c.param("error") == Some("insufficient_scope"));
        self.status == 401 || (self.status == 403 && lacks_scope())
    }
}

/// Returns the JSON-RPC error in a message.
fn parse_error(message: &Bytes, limits: &crate::Limits) -> Option<RpcError> {
    let envelope = envelope::parse(message, limits, None).ok()?;
    (envelope.kind == Kind::Response).then(|| envelope.outcome(message).err())?
}

impl HttpError {
    /// Returns whether the same request may succeed a little later.
    pub(super) const fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } => true,
            Self::Response(a) => match a.status {
                408 | 429 | 503 => true,
                // A JSON-RPC error means that the server processed the request.
                500 | 502 | 504 => a.error.is_none(),
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns whether a stream that failed to open may be tried again later; `again` if it was open before.
    pub(super) const fn allows_reopen(&self, again: bool) -> bool {
        match self {
            // The server may not have noticed yet that the old connection broke.
            Self::Response(a) if a.status == 409 => again,
            // Opening a stream executes nothing, so an error body does not matter.
            Self::Response(a) => matches!(a.status, 408 | 429 | 500 | 502..=504),
            _ => self.is_transient(),
        }
    }

    /// Returns whether the server refuses to go on from an event, if the request named one.
    pub(super) const fn refuses_resumption(&self) -> bool {
        matches!(self, Self::Response(a) if a.status == 400)
    }

    /// Returns whether the server certainly did not process the request.
    pub(super) const fn is_unprocessed(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Response(a) => matches!(a.status, 429 | 503),
            _ => false,
        }
    }

    /// Returns how long to wait as the server asks for, at most [`LONGEST_RETRY_AFTER`].
    pub(super) fn retry_after(&self) -> Duration {
        match self {
            Self::Response(answer) => answer.retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER),
            _ => Duration::ZERO,
        }
    }
}

impl Client {
    // ---- heads -----------------------------------------------------------------------------------------------

    pub(super) fn receive_head(&mut self, key: Key, head: &head::ResponseHead<'_>) {
        let Some(x) = self.exchanges.get(key) else { return };
        let success = (200..300).contains(&head.status);
        let media = media_type(head);
        // The body of a refusal may say more than its challenge. An event stream would have no end.
        let is_unread =
            media == MediaType::EventStream || matches!(x.purpose(), ExchangePurpose::DeleteSession);
        let refusal = (is_unread && matches!(head.status, 401 | 403))
            .then(|| response_from_head(head))
            .filter(HttpResponse::asks_for_credential);
        // `handle_head` is called first, because it stores the nonce of every response.
        if self.credentials.proofs.handle_head(head) && x.retries.nonces < MAX_NONCES {
            let Some(mut x) = self.conclude(key) else { return };
            x.retries.nonces += 1;
            return self.resend(x);
        }
        if let Some(answer) = refusal {
            let Some(x) = self.conclude(key) else { return };
            return self.authorization().hold_refused(x, answer);
        }
        if (300..400).contains(&head.status) {
            return self.follow_redirect(key, head);
        }
        if head.status == 404 && self.is_legacy() && !self.is_closing && self.session.is_lost_for(x) {
            return self.handle_session_gone(key);
        }
        // Taken from the head: the body may be a stream, and later requests need the id before its end.
        if success && x.purpose().opens_session() && !self.session.is_http_sse() {
            let id = head::values(head.fields, fields::SESSION_ID).next();
            if id.is_some_and(|id| !self.session.record_id(id)) {
                let note = "the server sent an invalid session id";
                self.engine.report_diagnostic(Diagnostic::Http(note.into()));
            }
        }
        continue_exchange(self, key, head, media);
    }

    /// Follows a redirect that keeps the method.
    ///
    /// Redirects to another origin are not followed, because that origin must not see the request.
    fn follow_redirect(&mut self, key: Key, head: &head::ResponseHead<'_>) {
        let Some(mut x) = self.conclude(key) else { return };
        let location = head::values(head.fields, fields::LOCATION).next();
        let to = location.and_then(|l| core::str::from_utf8(l).ok()).and_then(|l| x.url.resolve(l).ok());
        match to {
            Some(to)
                // The other statuses let a client turn a POST into a GET, which loses the message (RFC 9110, 15.4).
                if matches!(head.status, 307 | 308)
                    && self.config.may_lead_to(&to)
                    && x.retries.redirects < MAX_REDIRECTS =>
            {
                x.url = crate::sync::Arc::new(to);
                x.retries.redirects += 1;
                self.resend(x);
            }
            to => {
                let to = to.map(|to| alloc::format!("{to:?}")).unwrap_or_default();
                self.exchange_failed(x, HttpError::Redirected { status: head.status, to });
            }
        }
    }

    // ---- bodies ----------------------------------------------------------------------------------------------

    pub(super) fn receive_body(&mut self, key: Key, part: &[u8]) {
        let max = max_frame(&self.engine);
        match self.exchanges.body_sink(key, part.len()) {
            BodySink::Events(events) => {
                events.decoder.push(part);
                self.exchanges.queue_stream(key);
            }
            BodySink::Collected(collected) => {
                let limit = if collected.is_json && collected.response.status < 300 {
                    max
                } else {
                    max.min(MAX_ERROR_BODY)
                };
                if collected.body.len() + part.len() <= limit {
                    return collected.body.extend_from_slice(part);
                }
                if collected.is_json && collected.response.status < 300 {
                    if let Some(x) = self.abort(key) {
                        self.fail_too_large(x);
                    }
                } else {
                    // The beginning of an error is enough to show, so the rest is dropped.
                    let room = limit - collected.body.len();
                    collected.body.extend_from_slice(part.get(..room).unwrap_or(part));
                    // The text is cut, so it must not be read as JSON.
                    collected.is_json = false;
                    if let Some(x) = self.conclude(key) {
                        self.process_body(x);
                    }
                }
            }
            BodySink::Dropped { exceeded: true } => drop(self.abort(key)),
            BodySink::Dropped { exceeded: false } | BodySink::None => {}
        }
    }

    pub(super) fn receive_end(&mut self, key: Key) {
        let Some(x) = self.exchanges.get(key) else { return };
        match x.phase() {
            ExchangePhase::EventStream => self.exchanges.end_stream(key, Ok(())),
            ExchangePhase::CollectingBody(_) => {
                if let Some(x) = self.remove(key) {
                    self.process_body(x);
                }
            }
            ExchangePhase::Draining { .. } => drop(self.remove(key)),
            ExchangePhase::Sent => {
                self.receive_failure(key, ExchangeFailure::interrupted("the response ended before its head"))
            }
            ExchangePhase::AwaitingCredential { .. }
            | ExchangePhase::AwaitingGetStream
            | ExchangePhase::Scheduled(_) => {}
        }
    }

    pub(super) fn receive_failure(&mut self, key: Key, failure: ExchangeFailure) {
        let Some(x) = self.exchanges.get(key) else { return };
        match x.phase() {
            ExchangePhase::EventStream => self.exchanges.end_stream(key, Err(failure.reason)),
            ExchangePhase::Draining { .. } => drop(self.remove(key)),
            ExchangePhase::AwaitingCredential { .. }
            | ExchangePhase::AwaitingGetStream
            | ExchangePhase::Scheduled(_) => {}
            // What it says is known without the rest of its body.
            ExchangePhase::CollectingBody(collected) if collected.response.asks_for_credential() => {
                if let Some(x) = self.remove(key) {
                    self.process_body(x);
                }
            }
            ExchangePhase::Sent | ExchangePhase::CollectingBody(_) => {
                let Some(x) = self.remove(key) else { return };
                let reason = failure.reason;
                self.exchange_failed(
                    x,
                    if failure.may_have_been_sent {
                        HttpError::Lost { reason }
                    } else {
                        HttpError::Unreachable { reason }
                    },
                );
            }
        }
    }

    /// Processes a complete body that is not an event stream.
    pub(super) fn process_body(&mut self, x: ClientExchange) {
        let Some((x, collected)) = x.take_body() else { return };
        let CollectedBody { response: mut answer, is_json: json, body } = collected;
        let success = answer.status < 300;
        let mut body = Bytes::from(body);
        if let Some(rest) = body.strip_prefix(BYTE_ORDER_MARK) {
            body = body.slice_ref(rest);
        }
        // Only this can be an answer; what follows finds out why it is none.
        if json && success && !body.is_empty() {
            return self.process_json(x, answer.status, body);
        }
        if body.is_empty() && answer.content_type.is_none() && success {
            return self.exchange_failed(x, HttpError::Unanswered { status: answer.status });
        }
        let limits = self.engine.config().effective_limits();
        if !success {
            // Some servers send the error with another media type or id.
            answer.error = parse_error(&body, limits);
        }
        let kept = body.get(..limits.max_noise_bytes).unwrap_or(&body);
        let mut text = lossy_text(kept);
        if answer.error.is_none() {
            answer.body.clone_from(&text);
        }
        // It may quote the credential, and records are read by others.
        self.redact_text(&mut text);
        self.failed_body = Some(text).filter(|text| !text.is_empty());
        if answer.asks_for_credential() {
            return self.authorization().hold_refused(x, answer);
        }
        // XHDR-029
        let mismatch = answer.error.as_ref().is_some_and(|e| e.released_code() == code::HEADER_MISMATCH);
        if let Some(error) = answer.error.as_mut().filter(|_| lacks_draft(self, &x)) {
            error.name_draft();
        }
        let first = matches!(x.purpose(), ExchangePurpose::Call { method: CallMethod::CallTool, .. })
            && x.retries.refreshes == 0;
        // The released revisions of sessions do not define the error.
        let is_defined = self.is_modern() || has_draft_session(self);
        if mismatch && first && is_defined && self.begin_tool_refresh(&x, body) {
            return;
        }
        self.exchange_failed(x, HttpError::Response(answer));
    }

    /// Processes a JSON body of a success response.
    fn process_json(&mut self, x: ClientExchange, status: u16, body: Bytes) {
        match x.purpose() {
            ExchangePurpose::Call { id, .. } | ExchangePurpose::Resume { id, .. } => {
                self.record_attempt(x.purpose(), &body);
                let body = if x.purpose().lists_tools() { self.learn_tools(body) } else { body };
                self.session.record_answer();
                self.deliver(body, Some(id));
                // The message was none for this request, and this response brings no other.
                if self.engine.awaits_response(id) {
                    end_unanswered(self, x, HttpError::Unanswered { status });
                }
            }
            ExchangePurpose::RenewSession => self.finish_renewal(&body),
            ExchangePurpose::RefreshTools(_) => self.process_tools_page(x, &body),
            _ => {}
        }
    }

    /// Records an error response to a request of the negotiation.
    pub(super) fn record_attempt(&mut self, purpose: &ExchangePurpose, body: &Bytes) {
        if !matches!(purpose, ExchangePurpose::Call { method: CallMethod::Probe | CallMethod::Handshake, .. })
        {
            return;
        }
        if let Some(error) = parse_error(body, self.engine.config().effective_limits()) {
            self.attempts.record_error(purpose, &error);
        }
    }

    pub(super) fn fail_too_large(&mut self, x: ClientExchange) {
        let limit = max_frame(&self.engine);
        match x.request_id() {
            Some(id) => self.engine.exchanges().fail_request(self.now, id, CallError::TooLarge { limit }),
            None => self.exchange_failed(
                x,
                HttpError::Lost { reason: "the response is longer than the limit".into() },
            ),
        }
    }
}

/// Continues an exchange whose response is neither a redirect nor taken by the authorization.
fn continue_exchange(client: &mut Client, key: Key, head: &head::ResponseHead<'_>, media: MediaType) {
    let success = (200..300).contains(&head.status);
    let Some(x) = client.exchanges.get(key) else { return };
    match x.purpose() {
        // Any success counts as acceptance, whatever its body is (HTTP-082).
        ExchangePurpose::Message { .. } | ExchangePurpose::ConfirmSession if success => {
            if let Some(x) = client.conclude(key) {
                client.message_accepted(&x);
            }
        }
        // The answer arrives on the event stream (HTTPSSE-007).
        ExchangePurpose::Call { .. } if success && client.session.is_http_sse() => drop(client.conclude(key)),
        ExchangePurpose::Call { .. } | ExchangePurpose::RenewSession | ExchangePurpose::RefreshTools(_)
            if matches!(head.status, 202 | 204) =>
        {
            let Some(x) = client.conclude(key) else { return };
            if head.status == 202 && client.may_answer_on_get_stream(&x) {
                client.await_get_stream(x);
            } else {
                client.exchange_failed(x, HttpError::Unanswered { status: head.status });
            }
        }
        // `handle_head` has noted a refusal. Nothing else depends on the response.
        ExchangePurpose::DeleteSession => drop(client.conclude(key)),
        _ if success && media == MediaType::EventStream => open_event_stream(client, key),
        purpose => {
            let has_no_answer = success
                && matches!(
                    purpose,
                    ExchangePurpose::GetStream | ExchangePurpose::HttpSse | ExchangePurpose::Message { .. }
                );
            let answer = response_from_head(head);
            // A login does not wait for a body without an end.
            let until = answer.asks_for_credential().then(|| client.now + client.config.close_timeout);
            client.exchanges.collect_body(key, answer, media == MediaType::Json && !has_no_answer, until);
        }
    }
}

/// Reads the events of a response.
fn open_event_stream(client: &mut Client, key: Key) {
    let max = max_frame(&client.engine);
    let Some(x) = client.exchanges.get_mut(key) else { return };
    let is_get_stream = matches!(x.purpose(), ExchangePurpose::GetStream);
    // The request will not be sent again. Of one that the engine does not know, the id is needed.
    use ExchangePurpose::{HttpSse, RefreshTools, RenewSession};
    if !matches!(x.purpose(), HttpSse | RenewSession | RefreshTools(_)) {
        x.body = Bytes::new();
    }
    client.exchanges.open_event_stream(key, client.now, max);
    if is_get_stream {
        client.session.clear_get_stream_error();
        if client.session.gate() == SendGate::AwaitingGetStream {
            client.open_gate();
        }
    }
}

// Failed exchanges: which requests are retried, and with which error a call ends.

impl HttpError {
    /// Returns the error with which a call ends.
    fn into_call_error(self) -> CallError {
        match self {
            // These statuses carry more than the error: where to log in, or when to retry.
            Self::Response(mut answer) if !matches!(answer.status, 401 | 403 | 407 | 408 | 429 | 503) => {
                match answer.error.take() {
                    Some(error) => CallError::Rpc(error),
                    None => Self::Response(answer).into(),
                }
            }
            error => error.into(),
        }
    }
}

impl Client {
    /// Handles a failed exchange.
    pub(super) fn exchange_failed(&mut self, x: ClientExchange, mut error: HttpError) {
        // All calls have ended, so only the end of the session is of interest.
        if self.engine.is_closed() {
            if let (ExchangePurpose::DeleteSession, HttpError::Redirected { status, .. }) =
                (x.purpose(), &error)
            {
                self.refused_end = Some(*status);
            }
            return;
        }
        // This precedes every use of the error: a response may quote the request, and errors are logged (SEC-019).
        match &mut error {
            HttpError::Response(answer) => self.redact(answer),
            HttpError::Authorization { refusal: Some(answer), .. } => self.redact(answer),
            _ => {}
        }
        match x.purpose() {
            ExchangePurpose::Call { method: CallMethod::Probe | CallMethod::Handshake, .. }
            | ExchangePurpose::HttpSse => {
                self.negotiation_failed(&x, error);
            }
            ExchangePurpose::Call { id, method } => {
                let (id, is_listen) = (id.clone(), *method == CallMethod::Listen);
                call_failed(self, x, &id, is_listen, error);
            }
            ExchangePurpose::Resume { id, .. } => {
                let id = id.clone();
                resumption_failed(self, x, &id, &error);
            }
            ExchangePurpose::Message { .. } | ExchangePurpose::ConfirmSession => {
                message_failed(self, x, &error)
            }
            ExchangePurpose::GetStream => self.get_stream_failed(x, &error),
            ExchangePurpose::RenewSession => {
                let note = alloc::format!("a new session could not be opened: {error}");
                self.engine.report_diagnostic(Diagnostic::Http(note));
                self.fail_renewal();
            }
            ExchangePurpose::RefreshTools(_) => self.fail_tool_refresh(x),
            ExchangePurpose::DeleteSession => {}
        }
    }

    /// Retries a call whose stream cannot be resumed, or ends it with `error`.
    pub(super) fn retry_or_fail(&mut self, mut x: ClientExchange, id: &RequestId, error: HttpError) {
        forgive_repeats(&mut x, self.now, &self.config.reconnect);
        let may_move =
            !matches!(error, HttpError::SessionLost) || !self.engine.exchanges().ends_with_session(id);
        if may_move && self.engine.is_idempotent(id) && x.retries.repeats < self.config.reconnect.max_attempts
        {
            let until = self.now + backoff(&self.config.reconnect, x.retries.repeats);
            // The repeated call gets a new stream, where the ids of this one mean nothing.
            x.events = None;
            self.exchanges.insert(x.scheduled(NextStep::RetryWithNewId, until));
        } else {
            self.engine.exchanges().fail_request(self.now, id, error.into());
        }
    }

    /// Sends a request again under a new id.
    pub(super) fn retry_with_new_id(&mut self, x: &ClientExchange) {
        let Some(id) = x.request_id() else { return };
        if x.session_serial != self.session.serial() && self.engine.exchanges().ends_with_session(id) {
            return self.engine.exchanges().fail_request(self.now, id, HttpError::SessionLost.into());
        }
        match self.engine.exchanges().resend_request(self.now, id) {
            Some(again) => {
                let tries = RetryCounts { repeats: x.retries.repeats + 1, ..x.retries };
                self.exchanges.requests().record_repeat(&again, tries);
            }
            None => {
                let reason = "the exchange failed and the request could not be sent again".into();
                self.engine.exchanges().fail_request(self.now, id, HttpError::Lost { reason }.into());
            }
        }
    }
}

/// Repeats a call that may be made twice, or ends it.
fn call_failed(
    client: &mut Client,
    mut x: ClientExchange,
    id: &RequestId,
    is_listen: bool,
    error: HttpError,
) {
    if !client.engine.awaits_response(id) {
        return;
    }
    let may_repeat = is_listen || client.engine.is_idempotent(id);
    let policy = &client.config.reconnect;
    forgive_repeats(&mut x, client.now, policy);
    if may_repeat && error.is_transient() && x.retries.repeats < policy.max_attempts {
        // SUB-016, HTTP-044
        let until = client.now + backoff(policy, x.retries.repeats).max(error.retry_after());
        client.exchanges.insert(x.scheduled(NextStep::RetryWithNewId, until));
        return;
    }
    client.engine.exchanges().fail_request(client.now, id, error.into_call_error());
}

/// Counts the attempts of a request that stays open anew, if its last connection was productive: it may lose one each day for years.
fn forgive_repeats(x: &mut ClientExchange, now: Instant, policy: &ReconnectPolicy) {
    if !x.purpose().stays_open() {
        return;
    }
    let stream_yield = x.events.as_mut().map(|events| events.take_yield(now, policy));
    match stream_yield.unwrap_or(StreamYield::Nothing) {
        StreamYield::Messages => x.retries.repeats = 0,
        // A quiet subscription is retried without limit, at growing intervals.
        StreamYield::Acknowledgment => {
            x.retries.repeats = x.retries.repeats.min(policy.max_attempts.saturating_sub(1));
        }
        StreamYield::Nothing => {}
    }
}

/// Opens the stream of a call again, or gives it up.
fn resumption_failed(client: &mut Client, x: ClientExchange, id: &RequestId, error: &HttpError) {
    // The event id is one of a lost session, which the new one does not know.
    if x.session_serial != client.session.serial() {
        return client.retry_or_fail(x, id, HttpError::SessionLost);
    }
    let x = if error.allows_reopen(true) {
        client.schedule_reconnect(x, false, error.retry_after())
    } else {
        Some(x)
    };
    let Some(x) = x else { return };
    let reason = alloc::format!("the event stream could not be resumed: {error}").into();
    client.retry_or_fail(x, id, HttpError::Lost { reason });
}

/// Sends a message again that the server has not processed, or gives it up.
///
/// An answer is also sent again if the server may have processed it: a request takes its first answer, and the server ignores
/// another one. A call of the server would otherwise wait for a lost answer until its timeout.
fn message_failed(client: &mut Client, mut x: ClientExchange, error: &HttpError) {
    let policy = &client.config.reconnect;
    // Without a session there is no telling whether another process, which has been started since, asks with the same id.
    let is_of_session = client.session.id().is_some() || client.session.is_http_sse();
    let may_repeat = error.is_transient() && is_of_session;
    let is_harmless = error.is_unprocessed() || (may_repeat && MessageParts::parse(&x.body).method.is_none());
    let may_resend = x.retries.repeats < policy.max_attempts && error.retry_after() <= policy.max_delay;
    if is_harmless && may_resend && client.exchanges.has_room_for_resend() {
        let until = client.now + backoff(policy, x.retries.repeats).max(error.retry_after());
        x.retries.repeats += 1;
        client.exchanges.insert(x.scheduled(NextStep::Resend, until));
        return;
    }
    let note = alloc::format!("the server did not accept a message: {error}");
    client.engine.report_diagnostic(Diagnostic::Http(note));
    // What waits for this message goes on all the same. It would otherwise wait without end.
    client.message_accepted(&x);
}
