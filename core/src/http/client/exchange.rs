//! An exchange: a request that is to be sent, and how far its answer has come.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::config::{Reconnect, Why};
use super::url::Url;
use crate::error::{AuthChallenge, HttpAnswer};
use crate::frame::sse::SseDecoder;
use crate::head::Fields;
use crate::rpc::RequestId;
use crate::time::Instant;

crate::slab::key! {
    /// An exchange: one request, and its answer
    ///
    /// Stale once it has ended or was aborted; what is said of a stale one is ignored.
    ExchangeId
}

/// What whoever speaks HTTP is to do
#[derive(Debug)]
#[non_exhaustive]
pub enum Action {
    /// Send a request, and tell how it fares
    Open(Open),
    /// Give an exchange up: what it still brings is of no use to anybody
    Abort {
        /// Which one; stale from now on
        exchange: ExchangeId,
    },
}

/// A request that is to be sent
///
/// `Host`, `Content-Length` and whatever else belongs to the connection is added by whoever sends it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Open {
    /// By which its answer is told
    pub exchange: ExchangeId,
    /// `POST`, `GET` or `DELETE`
    pub method: &'static str,
    /// Where it goes
    pub url: Arc<Url>,
    /// Header fields
    pub fields: Fields,
    /// The whole body; empty where there is none
    pub body: Bytes,
    /// How long its connection may be in use
    pub class: Class,
    /// Whether to send it twice does no harm
    pub repeatable: bool,
}

/// How long an exchange may take, for whoever shares out connections
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Class {
    /// Answered at once, and perhaps waited for by exchanges of the other kinds: it must never wait for one of those
    Message,
    /// Answered when the server has worked it out
    Request,
    /// Open until somebody closes it
    Stream,
}

/// Why an exchange broke off
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whether the server may have seen anything of the request
    pub sent: bool,
    /// What happened, for people
    pub why: Box<str>,
}

impl Failure {
    /// There was no connection, or none of the request went out on it
    #[must_use]
    pub fn unsent(why: impl Into<Box<str>>) -> Self {
        Self { sent: false, why: why.into() }
    }

    /// The connection broke when some of the request may have been sent
    #[must_use]
    pub fn broken(why: impl Into<Box<str>>) -> Self {
        Self { sent: true, why: why.into() }
    }
}

/// A server wants to know who asks: give it a credential ([`Client::authorize`](super::Client::authorize)), or let the
/// request end ([`Client::refuse`](super::Client::refuse))
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// The key to answer with; further exchanges that meet a challenge meanwhile are held along with it
    pub exchange: ExchangeId,
    /// 401, or 403 when the scope does not suffice
    pub status: u16,
    /// What the server asks for
    pub challenges: Vec<AuthChallenge>,
    /// How many credentials were tried for this request before
    pub tried: u32,
}

/// What a request of ours is, as far as it matters here
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Method {
    /// `server/discover` or `initialize`, while it is not known what the server speaks
    Probe,
    Handshake,
    ListTools,
    CallTool,
    /// `subscriptions/listen`
    Listen,
    /// `logging/setLevel`
    Level,
    Other,
}

/// What an exchange is for
#[derive(Clone, Debug)]
pub(super) enum What {
    /// A request of the engine's
    Call { id: RequestId, method: Method },
    /// A notification or a response of the engine's
    Message { initialized: bool },
    /// The GET on which a legacy server speaks unasked
    Stream,
    /// A GET that goes on with the stream of a request
    Resume { id: RequestId },
    /// The GET of HTTP+SSE
    Sse,
    /// `initialize` for another session
    Renew,
    /// `notifications/initialized` for another session
    Renewed,
    /// `tools/list`, for the header fields of a call
    Tools(Box<Refresh>),
    /// The end of a session
    Delete,
}

impl What {
    /// The engine's request that waits for it
    pub(super) const fn request(&self) -> Option<&RequestId> {
        match self {
            Self::Call { id, .. } | Self::Resume { id } => Some(id),
            _ => None,
        }
    }

    pub(super) const fn class(&self) -> Class {
        match self {
            Self::Message { .. } | Self::Renew | Self::Renewed | Self::Delete => Class::Message,
            Self::Call { method: Method::Probe | Method::Handshake, .. } => Class::Message,
            Self::Call { method: Method::Listen, .. } | Self::Stream | Self::Sse => Class::Stream,
            Self::Call { .. } | Self::Resume { .. } | Self::Tools(_) => Class::Request,
        }
    }
}

/// A call that was refused for its header fields, while the tool is looked up
#[derive(Clone, Debug)]
pub(super) struct Refresh {
    pub(super) call: RequestId,
    pub(super) tool: Box<str>,
    /// What the call was refused with, for when looking it up does not help
    pub(super) answer: Bytes,
    pub(super) tries: Tries,
    pub(super) pages: u32,
}

/// How often something was tried for one request
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tries {
    pub(super) redirects: u8,
    pub(super) credentials: u32,
    pub(super) sessions: u8,
    pub(super) refreshes: u8,
    /// Lost, and sent again
    pub(super) repeats: u32,
}

#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) what: What,
    pub(super) url: Arc<Url>,
    /// What was sent, until it is certain that it need not be sent again
    pub(super) body: Bytes,
    pub(super) tries: Tries,
    /// In which session it was sent
    pub(super) session: u32,
    /// With which credential it was sent
    pub(super) credential: u32,
    pub(super) phase: Phase,
    /// When it goes on or ends by itself; requests of the engine's have a deadline there
    pub(super) due: Option<Instant>,
    pub(super) events: Option<Box<Events>>,
}

impl Exchange {
    /// Whether whoever speaks HTTP still has something to tell that is waited for
    pub(super) fn is_under_way(&self) -> bool {
        let ended = self.events.as_ref().is_some_and(|e| e.ended.is_some());
        matches!(self.phase, Phase::Sent | Phase::Body(_)) || (matches!(self.phase, Phase::Events) && !ended)
    }
}

#[derive(Debug)]
pub(super) enum Phase {
    /// Nothing has come yet
    Sent,
    /// An event stream, read by [`Exchange::events`]
    Events,
    /// A body that is gathered to its end
    Body(Box<Gathered>),
    /// Sent again once there is a credential
    Held { since: Instant, answer: Box<HttpAnswer> },
    /// Goes on when the time has come
    Waiting(Then),
    /// Nobody is interested any more; so many bytes may come until the end
    Drained { left: usize },
}

/// What follows a pause
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    /// A GET that goes on where the stream broke off, or anew
    Reconnect,
    /// The request under a new id
    Repeat,
    /// The same message, of which nothing was taken
    Again,
}

/// A body, and what its head said
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) answer: HttpAnswer,
    pub(super) json: bool,
    pub(super) body: Vec<u8>,
}

/// How many ids of events are remembered, to tell events that come again
const RECENT: usize = 32;

/// An event stream, over all its connections
#[derive(Debug)]
pub(super) struct Events {
    pub(super) decoder: SseDecoder,
    /// There may be an event to take out
    pub(super) queued: bool,
    /// How it ended, once it did
    pub(super) ended: Option<Result<(), Why>>,
    /// Where to go on
    pub(super) last_id: Box<[u8]>,
    recent: VecDeque<Box<[u8]>>,
    /// What came before the connection broke may be coming again
    replayed: bool,
    pub(super) retry: Option<Duration>,
    /// It has been open
    pub(super) was_open: bool,
    /// When it was opened, until its end was looked at
    opened: Option<Instant>,
    /// What it has brought since
    pub(super) brought: Brought,
    /// It has brought an id since
    advanced: bool,
    /// Connections in a row that brought nothing
    failures: u32,
}

/// What a connection was good for
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Brought {
    Nothing,
    /// That a subscription begins
    Acknowledgment,
    News,
}

impl Events {
    pub(super) fn new(max: usize) -> Self {
        Self {
            decoder: SseDecoder::new(max),
            queued: false,
            ended: None,
            last_id: Box::default(),
            recent: VecDeque::new(),
            replayed: false,
            retry: None,
            was_open: false,
            opened: None,
            brought: Brought::Nothing,
            advanced: false,
            failures: 0,
        }
    }

    /// Begins to read another connection
    pub(super) fn reopen(&mut self, now: Instant, max: usize) {
        self.decoder = SseDecoder::new(max);
        self.ended = None;
        self.replayed = self.was_open;
        self.was_open = true;
        self.opened = Some(now);
        self.brought = Brought::Nothing;
        self.advanced = false;
    }

    /// Takes note of what the stream said besides messages
    pub(super) fn note(&mut self) {
        let id = self.decoder.last_event_id();
        if *id != *self.last_id && (!id.is_empty() || self.advanced) {
            // What no header field can hold is of no use.
            let trimmed = id.trim_ascii().len() == id.len();
            let fits = trimmed && id.iter().all(|b| *b >= b' ' && *b != 0x7f);
            self.last_id = if fits { id.into() } else { Box::default() };
            self.advanced = true;
        }
        self.retry = self.decoder.retry().or(self.retry);
    }

    /// Whether an event that was just taken out came before; `before` is the id that the decoder knew then
    ///
    /// Only what comes first on another connection can be that: nothing is lost to a server that uses an id twice.
    pub(super) fn is_known(&mut self, before: &[u8]) -> bool {
        let id = self.decoder.last_event_id();
        // Without an id of its own an event is always new.
        if id.is_empty() || id == before {
            return false;
        }
        if self.recent.iter().any(|known| **known == *id) {
            return self.replayed;
        }
        self.replayed = false;
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(id.into());
        false
    }

    /// What the connection that has ended was good for; one that was open for long counts as one that brought news
    ///
    /// Each is looked at once: those that are not made after it are good for nothing.
    pub(super) fn good_for(&mut self, now: Instant, policy: &Reconnect) -> Brought {
        let lived = self.opened.take().map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let brought = core::mem::replace(&mut self.brought, Brought::Nothing);
        if lived >= policy.most { Brought::News } else { brought }
    }

    /// How long to wait before the stream is opened again; none when it was tried often enough
    ///
    /// `polled`: the server may end the stream on purpose again and again, and something else bounds how long that goes
    /// on; then an id is something, too (SSE-017).
    pub(super) fn pause(&mut self, now: Instant, policy: &Reconnect, polled: bool) -> Option<Duration> {
        let advanced = core::mem::take(&mut self.advanced);
        if self.good_for(now, policy) == Brought::News || (polled && advanced) {
            self.failures = 0;
        }
        if self.failures >= policy.tries {
            return None;
        }
        self.failures += 1;
        Some(match self.retry {
            Some(retry) => {
                let more = self.failures.checked_sub(2).map_or(Duration::ZERO, |n| back_off(policy, n));
                retry.max(more).max(Duration::from_millis(50))
            }
            None => back_off(policy, self.failures - 1),
        })
    }
}

/// The pause after so many tries (SSE-026)
pub(super) fn back_off(policy: &Reconnect, tries: u32) -> Duration {
    policy.first.saturating_mul(1 << tries.min(20)).min(policy.most)
}
