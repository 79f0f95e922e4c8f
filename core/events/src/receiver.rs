//! Receiver of webhooks, without I/O: takes requests in, and says what to answer and what to forward.
//!
//! It needs no MCP connection: a web server calls [`Receiver::receive`] for each request to its callback path, with the raw
//! body. What a subscriber has to be told comes with a [`Receipt`]. The caller keeps it durably **first**, then calls
//! [`Receiver::confirm`], and sends the answer that this returns (EVT-123). Only then the message counts as seen.
//!
//! | request | answer |
//! |---|---|
//! | not POST, another media type, a body over the limit | 405, 415, 413 |
//! | a header field is missing, repeated or malformed | 400; 401 for signatures |
//! | a known subscription, and no signature fits | 401 |
//! | an unknown subscription | 503: the answer to `events/subscribe` may be on its way (EVT-124); 401 for a challenge of up to 4 KiB |
//! | older or newer than five minutes | 400 |
//! | a challenge whose signature fits | 200 with the echo; binds the id to a registration without one (EVT-126) |
//! | seen before | 204 |
//! | being confirmed | 503: whoever sent it tries again |
//! | a subscription that has ended or expired | 410 |
//! | new | what [`Receiver::confirm`] returns: 204, or 503 if it was not kept |
//!
//! Two servers may use one id, as it follows from the same key: each registration with the id is tried, and for a challenge
//! those without an id as well.
//!
//! Repetitions are found by the event id, or by `webhook-id` for control envelopes, within a subscription: two subscriptions of
//! one receiver may get the same event (EVT-122).
//!
//! ```
//! use mcp_events::receiver::{Limits, Outcome, Receiver, Request};
//! use mcp_events::webhook::{Secret, sign};
//!
//! let mut receiver = Receiver::new(Limits::default());
//! let secret = Secret::from_entropy([7; 32]);
//! let subscription = receiver.register(secret.clone()).unwrap();
//! receiver.bind(subscription, "sub_1").unwrap();
//!
//! let body = br#"{"eventId":"e","name":"n","timestamp":"2026-11-25T10:00:00Z","data":{}}"#;
//! let signature = sign([&secret], "e", 1_795_600_800, body);
//! let fields = [
//!     ("Content-Type", &b"application/json"[..]),
//!     ("webhook-id", b"e"),
//!     ("webhook-timestamp", b"1795600800"),
//!     ("webhook-signature", signature.as_bytes()),
//!     ("X-MCP-Subscription-Id", b"sub_1"),
//! ];
//! match receiver.receive(&Request { method: "POST", fields: &fields, body }, 1_795_600_801) {
//!     // … it is stored here …
//!     Outcome::Event { event, receipt, .. } => assert_eq!(receiver.confirm(receipt, true).status, 204),
//!     other => panic!("{other:?}"),
//! }
//! ```

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use mcp_proto::RawJson;
use mcp_proto::head::FieldLine;

use crate::seen::{MessageDigest, Seen, digest};
use crate::webhook::{
    MAX_BODY, MEDIA_TYPE, SUBSCRIPTION_ID, Secret, Signed, SignedHead, TOLERANCE, VerifyError, WEBHOOK_ID,
    WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP,
};
use crate::wire::{ChallengeEcho, Envelope, EventErrorObject, EventOccurrence, TerminatedEnvelope};

/// Size of the largest challenge, in bytes.
const MAX_CHALLENGE: usize = 4 << 10;

/// Number of older secrets of a registration; the oldest is forgotten first.
const OLDER_SECRETS: usize = 3;

/// Bounds of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Largest body in bytes; a larger one is answered with 413 (EVT-127). Default: [`MAX_BODY`].
    pub max_body: usize,
    /// Number of registrations; [`Receiver::register`] fails beyond it. Default: 1024.
    pub registrations: usize,
    /// Number of messages of a subscription that are remembered; the oldest is forgotten first, and would be forwarded
    /// again. 16 bytes each, twice. Default: 1024.
    pub remembered: usize,
    /// Number of messages of a subscription that wait for [`Receiver::confirm`]; further ones are answered with 503.
    /// Default: 64.
    pub unconfirmed: usize,
    /// Seconds after which a message counts as not kept without [`Receiver::confirm`]. Default: 60.
    pub confirm_secs: u64,
    /// Seconds in which older secrets are accepted after the first delivery that the newest one has signed (EVT-094).
    /// Default: 900.
    pub rotation_secs: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_body: MAX_BODY,
            registrations: 1024,
            remembered: 1024,
            unconfirmed: 64,
            confirm_secs: 60,
            rotation_secs: 900,
        }
    }
}

/// Key of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistrationKey(u64);

/// Reason why a command was refused; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiverError {
    /// [`Limits::registrations`] is reached.
    #[error("the receiver has no room for a registration")]
    Full,
    /// There is no such registration.
    #[error("the registration does not exist")]
    Stale,
}

/// A request to the callback URL.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a str,
    /// The field lines.
    pub fields: &'a [FieldLine<'a>],
    /// The body as it arrived: what is signed are these bytes, not the value in them. A caller may stop to read at
    /// [`Limits::max_body`] and one more byte.
    pub body: &'a [u8],
}

/// An HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body: JSON for a challenge, else empty.
    pub body: String,
}

impl Answer {
    /// Creates an answer without a body.
    #[must_use]
    pub const fn empty(status: u16) -> Self {
        Self { status, body: String::new() }
    }
}

/// Proof that a message was handed out once; for [`Receiver::confirm`].
#[derive(Debug, PartialEq)]
pub struct Receipt {
    key: RegistrationKey,
    message: MessageDigest,
    /// The position that the message tells.
    cursor: Option<String>,
    /// The epoch of the registration that the message ends, and the cause.
    ends: Option<(u64, EventErrorObject)>,
}

/// Outcome of a request.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// A new event: keep it, [confirm](Receiver::confirm) it, and send the answer of that.
    Event {
        /// Its subscription.
        subscription: RegistrationKey,
        /// The event, with the cursor to persist (EVT-125). Its content is untrusted (EVT-160).
        event: EventOccurrence,
        /// For [`Receiver::confirm`].
        receipt: Receipt,
    },
    /// Events were skipped: persist the cursor in place of the last one (EVT-146), and confirm.
    Gap {
        /// Its subscription.
        subscription: RegistrationKey,
        /// The position to resume from; `None` for a type without replay.
        cursor: Option<String>,
        /// For [`Receiver::confirm`].
        receipt: Receipt,
    },
    /// The subscription has ended: tell the application (EVT-153), and confirm.
    Terminated {
        /// Its subscription.
        subscription: RegistrationKey,
        /// The cause.
        error: EventErrorObject,
        /// For [`Receiver::confirm`].
        receipt: Receipt,
    },
    /// The server asked for proof: send this answer. It is not forwarded.
    Challenge {
        /// Its subscription.
        subscription: RegistrationKey,
        /// The answer with the echo.
        answer: Answer,
    },
    /// Known already, or a control envelope of an unknown type: send this answer.
    Acknowledged(Answer),
    /// The request is refused: send the status, without the reason.
    Refused {
        /// The status.
        status: u16,
        /// The reason, for logs.
        reason: RefusalReason,
    },
}

/// A message that is handed out for the first time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// An event, with the cursor to persist (EVT-125). Its content is untrusted (EVT-160).
    Event(EventOccurrence),
    /// Events were skipped (EVT-146).
    Gap {
        /// The position to resume from; `None` for a type without replay.
        cursor: Option<String>,
    },
    /// The subscription has ended (EVT-153).
    Terminated(EventErrorObject),
}

impl Outcome {
    /// Returns the message that is to be kept before its receipt is [confirmed](Receiver::confirm), with its subscription.
    ///
    /// # Errors
    ///
    /// The answer to send at once: there is nothing to keep.
    pub fn into_message(self) -> Result<(RegistrationKey, Message, Receipt), Answer> {
        match self {
            Self::Event { subscription, event, receipt } => {
                Ok((subscription, Message::Event(event), receipt))
            }
            Self::Gap { subscription, cursor, receipt } => {
                Ok((subscription, Message::Gap { cursor }, receipt))
            }
            Self::Terminated { subscription, error, receipt } => {
                Ok((subscription, Message::Terminated(error), receipt))
            }
            Self::Challenge { answer, .. } | Self::Acknowledged(answer) => Err(answer),
            Self::Refused { status, .. } => Err(Answer::empty(status)),
        }
    }
}

/// Reason why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The method is not POST.
    #[error("the method of the request is not POST")]
    Method,
    /// The media type is not `application/json`.
    #[error("the media type of the request is not application/json")]
    MediaType,
    /// The body is larger than [`Limits::max_body`].
    #[error("the body is larger than the limit")]
    TooLarge,
    /// A header field is missing, repeated, or not ASCII.
    #[error("the header field `{0}` is missing, repeated or malformed")]
    Field(&'static str),
    /// No registration has the id, and no secret without an id fits.
    #[error("no subscription has this id, and no secret fits")]
    UnknownId,
    /// A secret fits, but nobody has bound the id to its registration yet.
    #[error("the id of the subscription is not bound yet")]
    Unbound,
    /// The signature or the time is refused.
    #[error("{0}")]
    Verify(#[from] VerifyError),
    /// The signature fits, and the body is not a message.
    #[error("the body is not a message of the extension: {0}")]
    Body(String),
    /// The subscription has ended or expired.
    #[error("the subscription has ended")]
    Ended,
    /// The message waits for [`Receiver::confirm`], or [`Limits::unconfirmed`] is reached.
    #[error("the message is not confirmed yet")]
    Unconfirmed,
}

#[derive(Debug)]
struct Registration {
    secret: Secret,
    /// The secrets before rotations, the oldest first; at most [`OLDER_SECRETS`].
    older: Vec<Secret>,
    /// Unix time until which these are accepted; `None` while no delivery was signed by the newest secret.
    older_until: Option<u64>,
    id: Option<String>,
    /// Unix time after which it has expired.
    expires_at: Option<u64>,
    has_ended: bool,
    /// Whether a call of `events/subscribe` may be granted any moment.
    expects_grant: bool,
    /// Position behind what was kept, as the latest message told it (EVT-099).
    cursor: Option<String>,
    /// The cause of the end, until it is taken.
    end: Option<EventErrorObject>,
    /// Number of revivals: a termination of an earlier one ends nothing.
    epoch: u64,
    /// Digests of confirmed messages; `order` has the same ones, the oldest first. Bounded by `Limits::remembered`.
    seen: Seen,
    /// Messages that were handed out, and when. Bounded by `Limits::unconfirmed`.
    unconfirmed: BTreeMap<MessageDigest, u64>,
}

impl Registration {
    /// Returns whether a secret signed the body. The time is not checked.
    fn fits(&self, signed: &Signed<'_>, body: &[u8], unix_secs: u64) -> bool {
        let older = self.older.iter().filter(|_| self.older_until.is_none_or(|until| unix_secs <= until));
        core::iter::once(&self.secret).chain(older.rev()).any(|secret| signed.fits(secret, body))
    }

    /// Forgets older secrets after their time, which begins when the server signs with the newest one.
    fn settle(&mut self, signed: &Signed<'_>, body: &[u8], unix_secs: u64, rotation_secs: u64) {
        if self.older.is_empty() {
            return;
        }
        match self.older_until {
            Some(until) if unix_secs > until => self.older.clear(),
            None if signed.fits(&self.secret, body) => {
                self.older_until = Some(unix_secs.saturating_add(rotation_secs));
            }
            _ => {}
        }
    }
}

/// Receiver of the webhooks of several subscriptions.
#[derive(Debug)]
pub struct Receiver {
    limits: Limits,
    next: u64,
    registrations: BTreeMap<RegistrationKey, Registration>,
    /// Registrations by their ids; those of several servers may have one.
    by_id: BTreeMap<String, BTreeSet<RegistrationKey>>,
}

impl Receiver {
    /// Creates a receiver without registrations.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, next: 0, registrations: BTreeMap::new(), by_id: BTreeMap::new() }
    }

    /// Returns the bounds.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Registers a secret, before `events/subscribe` is sent with it: the challenge comes before the result.
    ///
    /// # Errors
    ///
    /// [`ReceiverError::Full`].
    pub fn register(&mut self, secret: Secret) -> Result<RegistrationKey, ReceiverError> {
        if self.registrations.len() >= self.limits.registrations {
            return Err(ReceiverError::Full);
        }
        let key = RegistrationKey(self.next);
        self.next += 1;
        let registration = Registration {
            secret,
            older: Vec::new(),
            older_until: None,
            id: None,
            expires_at: None,
            has_ended: false,
            expects_grant: false,
            cursor: None,
            end: None,
            epoch: 0,
            seen: Seen::default(),
            unconfirmed: BTreeMap::new(),
        };
        self.registrations.insert(key, registration);
        Ok(key)
    }

    /// Binds the `id` of the result of `events/subscribe`, in place of the one that a challenge had.
    ///
    /// # Errors
    ///
    /// [`ReceiverError::Stale`].
    pub fn bind(&mut self, key: RegistrationKey, id: impl Into<String>) -> Result<(), ReceiverError> {
        let id = id.into();
        let registration = self.registration(key)?;
        let previous = registration.id.replace(id.clone());
        self.unbind(key, previous);
        self.by_id.entry(id).or_default().insert(key);
        Ok(())
    }

    fn registration(&mut self, key: RegistrationKey) -> Result<&mut Registration, ReceiverError> {
        self.registrations.get_mut(&key).ok_or(ReceiverError::Stale)
    }

    fn unbind(&mut self, key: RegistrationKey, id: Option<String>) {
        let Some(id) = id else { return };
        if let Some(keys) = self.by_id.get_mut(&id) {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_id.remove(&id);
            }
        }
    }

    /// Notes that `events/subscribe` is sent, of whose answer [`set_expiry`](Self::set_expiry) takes the time.
    ///
    /// Until then a delivery of a subscription that has ended or expired is answered with 503: it may have been granted anew, and
    /// what is delivered before the answer arrives comes again (EVT-124).
    ///
    /// # Errors
    ///
    /// [`ReceiverError::Stale`].
    pub fn expect_grant(&mut self, key: RegistrationKey) -> Result<(), ReceiverError> {
        self.registration(key)?.expects_grant = true;
        Ok(())
    }

    /// Sets the Unix time of `refreshBefore`; deliveries that were sent after it are answered with 410. `None` for no expiry.
    /// Both times are those of the server, so its clock does not matter.
    ///
    /// A refresh revives a subscription that has expired or ended.
    ///
    /// # Errors
    ///
    /// [`ReceiverError::Stale`].
    pub fn set_expiry(&mut self, key: RegistrationKey, unix_secs: Option<u64>) -> Result<(), ReceiverError> {
        let registration = self.registration(key)?;
        registration.expires_at = unix_secs;
        (registration.has_ended, registration.expects_grant) = (false, false);
        registration.end = None;
        registration.epoch += 1;
        Ok(())
    }

    /// Replaces the secret, before the refresh that sends the new one (EVT-094). Up to three older ones are accepted until the
    /// server signs with the new one, and for [`Limits::rotation_secs`] from then on. The same secret again changes nothing.
    ///
    /// # Errors
    ///
    /// [`ReceiverError::Stale`].
    pub fn rotate(
        &mut self,
        key: RegistrationKey,
        secret: Secret,
        unix_secs: u64,
    ) -> Result<(), ReceiverError> {
        let registration = self.registration(key)?;
        if registration.secret == secret {
            return Ok(());
        }
        if registration.older_until.take().is_some_and(|until| unix_secs > until) {
            registration.older.clear();
        }
        registration.older.retain(|older| *older != secret);
        registration.older.push(core::mem::replace(&mut registration.secret, secret));
        if registration.older.len() > OLDER_SECRETS {
            registration.older.remove(0);
        }
        Ok(())
    }

    /// Forgets a registration, its secrets and its messages.
    pub fn remove(&mut self, key: RegistrationKey) {
        let id = self.registrations.remove(&key).and_then(|registration| registration.id);
        self.unbind(key, id);
    }

    /// Returns the id of a subscription, if it is known.
    #[must_use]
    pub fn id(&self, key: RegistrationKey) -> Option<&str> {
        self.registrations.get(&key)?.id.as_deref()
    }

    /// Returns the position behind what was confirmed, for the next `events/subscribe` (EVT-079): that of the latest event or gap
    /// that told one, or of [`set_cursor`](Self::set_cursor). `None` if there was none.
    #[must_use]
    pub fn cursor(&self, key: RegistrationKey) -> Option<&str> {
        self.registrations.get(&key)?.cursor.as_deref()
    }

    /// Sets the position, to that of a result of `events/subscribe` or of a store for example.
    ///
    /// # Errors
    ///
    /// [`ReceiverError::Stale`].
    pub fn set_cursor(&mut self, key: RegistrationKey, cursor: Option<String>) -> Result<(), ReceiverError> {
        self.registration(key)?.cursor = cursor;
        Ok(())
    }

    /// Returns the cause with which the server has ended the subscription, once.
    pub fn take_end(&mut self, key: RegistrationKey) -> Option<EventErrorObject> {
        self.registrations.get_mut(&key)?.end.take()
    }

    /// Takes a request in, at a Unix time (EVT-120 to EVT-128).
    #[must_use]
    pub fn receive(&mut self, request: &Request<'_>, unix_secs: u64) -> Outcome {
        match self.check(request, unix_secs) {
            Ok(outcome) => outcome,
            Err(reason) => Outcome::Refused { status: status(&reason), reason },
        }
    }

    /// Returns the answer for a message: 204 if it `is_kept`, so that it counts as seen; else 503, so that it comes again.
    pub fn confirm(&mut self, receipt: Receipt, is_kept: bool) -> Answer {
        let Some(registration) = self.registrations.get_mut(&receipt.key) else { return Answer::empty(410) };
        registration.unconfirmed.remove(&receipt.message);
        if !is_kept {
            return Answer::empty(503);
        }
        registration.seen.insert(receipt.message, self.limits.remembered);
        if receipt.cursor.is_some() {
            registration.cursor = receipt.cursor;
        }
        if let Some((_, error)) = receipt.ends.filter(|(epoch, _)| *epoch == registration.epoch) {
            (registration.has_ended, registration.end) = (true, Some(error));
        }
        Answer::empty(204)
    }

    fn check(&mut self, request: &Request<'_>, unix_secs: u64) -> Result<Outcome, RefusalReason> {
        if request.method != "POST" {
            return Err(RefusalReason::Method);
        }
        // 413 comes before the body is hashed.
        if request.body.len() > self.limits.max_body {
            return Err(RefusalReason::TooLarge);
        }
        let media_type = field(request.fields, "Content-Type").map_err(|_| RefusalReason::MediaType)?;
        if !media_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(MEDIA_TYPE) {
            return Err(RefusalReason::MediaType);
        }
        let head = SignedHead {
            id: field(request.fields, WEBHOOK_ID)?,
            timestamp: field(request.fields, WEBHOOK_TIMESTAMP)?,
            signature: field(request.fields, WEBHOOK_SIGNATURE)?,
        };
        let id = field(request.fields, SUBSCRIPTION_ID)?;
        let signed = Signed::new(&head)?;
        let bound = self.by_id.get(id);
        let fits = |key: &&RegistrationKey| {
            self.registrations.get(key).is_some_and(|r| r.fits(&signed, request.body, unix_secs))
        };
        match bound.into_iter().flatten().find(fits).copied() {
            Some(key) => self.check_known(key, &signed, request.body, unix_secs),
            None => self.check_unbound(id, bound.is_some(), &signed, request.body, unix_secs),
        }
    }

    /// Takes a message in whose signature fits.
    fn check_known(
        &mut self,
        key: RegistrationKey,
        signed: &Signed<'_>,
        body: &[u8],
        unix_secs: u64,
    ) -> Result<Outcome, RefusalReason> {
        let limits = self.limits;
        let registration = self.registrations.get_mut(&key).ok_or(RefusalReason::UnknownId)?;
        signed.check_time(unix_secs, TOLERANCE)?;
        registration.settle(signed, body, unix_secs, limits.rotation_secs);
        let envelope = read(body)?;
        if let Envelope::Verification(challenge) = envelope {
            return Ok(echo(key, challenge.challenge));
        }
        if registration.has_ended || registration.expires_at.is_some_and(|at| signed.unix_secs >= at) {
            return Err(if registration.expects_grant {
                RefusalReason::Unbound
            } else {
                RefusalReason::Ended
            });
        }
        let message = match &envelope {
            Envelope::Event(event) => digest(b"event", &event.event_id),
            Envelope::Unknown => return Ok(Outcome::Acknowledged(Answer::empty(204))),
            _ => digest(b"control", signed.id),
        };
        if registration.seen.contains(&message) {
            return Ok(Outcome::Acknowledged(Answer::empty(204)));
        }
        // Also if the clock was set back: the message is handed out again, which is better than never.
        registration.unconfirmed.retain(|_, at| unix_secs.abs_diff(*at) < limits.confirm_secs);
        if registration.unconfirmed.contains_key(&message)
            || registration.unconfirmed.len() >= limits.unconfirmed
        {
            return Err(RefusalReason::Unconfirmed);
        }
        registration.unconfirmed.insert(message, unix_secs);
        let receipt = |cursor, ends| Receipt { key, message, cursor, ends };
        Ok(match envelope {
            Envelope::Event(event) => {
                let cursor = event.cursor.as_ref().and_then(|cursor| cursor.0.clone());
                Outcome::Event { subscription: key, event, receipt: receipt(cursor, None) }
            }
            Envelope::Gap(gap) => {
                let cursor = gap.cursor.and_then(|cursor| cursor.0);
                Outcome::Gap { subscription: key, receipt: receipt(cursor.clone(), None), cursor }
            }
            Envelope::Terminated(TerminatedEnvelope { error, .. }) => {
                let receipt = receipt(None, Some((registration.epoch, error.clone())));
                Outcome::Terminated { subscription: key, error, receipt }
            }
            Envelope::Verification(_) | Envelope::Unknown => Outcome::Acknowledged(Answer::empty(204)),
        })
    }

    /// Checks a request against the registrations without an id (EVT-124, EVT-126): its id is unknown, or no secret of
    /// those with this id fits.
    fn check_unbound(
        &mut self,
        id: &str,
        is_known: bool,
        signed: &Signed<'_>,
        body: &[u8],
        unix_secs: u64,
    ) -> Result<Outcome, RefusalReason> {
        let unknown = if is_known { VerifyError::Mismatch.into() } else { RefusalReason::UnknownId };
        // Only a challenge can be answered, and each secret costs a hash of the body.
        if body.len() > MAX_CHALLENGE {
            return Err(unknown);
        }
        let mut unbound = self.registrations.iter().filter(|(_, registration)| registration.id.is_none());
        let Some((key, _)) = unbound.find(|(_, other)| other.fits(signed, body, unix_secs)) else {
            // 503 would be a false promise: a challenge has no second attempt.
            return Err(match read(body) {
                Ok(Envelope::Verification(_)) => VerifyError::Mismatch.into(),
                _ => unknown,
            });
        };
        let key = *key;
        signed.check_time(unix_secs, TOLERANCE)?;
        match read(body)? {
            Envelope::Verification(challenge) => {
                self.bind(key, id).map_err(|_| RefusalReason::UnknownId)?;
                Ok(echo(key, challenge.challenge))
            }
            _ => Err(RefusalReason::Unbound),
        }
    }
}

/// Returns the status of a refusal.
const fn status(reason: &RefusalReason) -> u16 {
    match reason {
        RefusalReason::Method => 405,
        RefusalReason::MediaType => 415,
        RefusalReason::TooLarge => 413,
        RefusalReason::Field(_) | RefusalReason::Body(_) => 400,
        RefusalReason::Verify(VerifyError::Mismatch | VerifyError::NoSignature | VerifyError::Malformed) => {
            401
        }
        RefusalReason::Verify(_) => 400,
        RefusalReason::UnknownId | RefusalReason::Unbound | RefusalReason::Unconfirmed => 503,
        RefusalReason::Ended => 410,
    }
}

/// Returns the value of a field that is there once.
fn field<'a>(fields: &[FieldLine<'a>], name: &'static str) -> Result<&'a str, RefusalReason> {
    let mut values = fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let value = values.next().map(|(_, value)| *value).filter(|value| value.is_ascii() && !value.is_empty());
    // A second one could be read by whoever stands in between.
    if values.next().is_some() {
        return Err(RefusalReason::Field(name));
    }
    value.and_then(|value| core::str::from_utf8(value).ok()).ok_or(RefusalReason::Field(name))
}

fn read(body: &[u8]) -> Result<Envelope, RefusalReason> {
    let body = RawJson::new(Vec::from(body)).map_err(|_| RefusalReason::Body("it is not JSON".into()))?;
    let envelope = Envelope::read(&body).map_err(|error| RefusalReason::Body(alloc::format!("{error}")))?;
    match &envelope {
        Envelope::Event(event) if event.event_id.is_empty() => {
            Err(RefusalReason::Body("`eventId` is empty".into()))
        }
        _ => Ok(envelope),
    }
}

fn echo(subscription: RegistrationKey, challenge: String) -> Outcome {
    let echo = RawJson::encode(&ChallengeEcho::new(challenge));
    let body = echo.map(|json| json.as_str().into()).unwrap_or_default();
    Outcome::Challenge { subscription, answer: Answer { status: 200, body } }
}

#[cfg(test)]
mod tests;
