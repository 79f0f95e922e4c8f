//! Events with the client of any adapter (feature `client`): lists, polls, and followers of what happens.
//!
//! [`EventsClient`] is for clients of futures, [`BlockingEventsClient`] for those that block. Both take a reference to the client.
//!
//! ```no_run
//! use mcp_events::client::BlockingEventsClient;
//! use mcp_events::follow::FollowEvent;
//! # fn example<B: mcp_runtime::client::ClientBackend>(
//! #     client: &mcp_runtime::client::BlockingCalls<B>,
//! # ) -> Result<(), mcp_events::client::Error> {
//!
//! let events = BlockingEventsClient::new(client);
//! for event in events.follow("build.finished", &serde_json::json!({"branch": "main"}))? {
//!     match event? {
//!         FollowEvent::Event(event) => println!("{}: {}", event.event_id, event.data),
//!         FollowEvent::Gap { .. } => println!("events may be missing"),
//!         FollowEvent::Error(error) => eprintln!("{error}"),
//!         FollowEvent::Ended(error) => eprintln!("the end: {error}"),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A follower uses a stream (`events/stream`) if the type and the connection have them, and polls otherwise; see [`follow`](crate::follow)
//! for what it does when they fail. Nothing is sent to a server that does not declare events (EVT-004).

mod follower;
mod webhook;

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use std::io;

use mcp_proto::client::Paginator;
use mcp_proto::model::RequestParams;
use mcp_proto::{CallError, CallOptions, EncodeError, Entropy, Era, RawJson};
use mcp_runtime::client::{AsyncCalls, BlockingCalls, ClientBackend};
use serde::Serialize;

pub use follower::{BlockingEventFollower, EventFollower};
pub use webhook::WebhookOptions;

use crate::follow::{FollowConfig, FollowError, Subscription};
use crate::receiver::ReceiverError;
use crate::wire::{
    self, EventType, EventsCapability, EventsErrorKind, ListEventsParams, PollEventsParams, PollEventsResult,
    SubscribeEventsParams, SubscribeEventsResult, UnsubscribeEventsParams,
};

/// Reason why an operation of events failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server does not declare events, so nothing was sent (EVT-004).
    #[error("the server does not declare events")]
    NotDeclared,
    /// The list of the server does not have the type.
    #[error("the server has no event type `{0}`")]
    UnknownType(String),
    /// The type cannot be followed.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// Arguments are no JSON object.
    #[error("the arguments cannot be written: {0}")]
    Arguments(#[from] EncodeError),
    /// The receiver of a webhook subscription has no room.
    #[error(transparent)]
    Receiver(#[from] ReceiverError),
    /// The operating system has no source of randomness.
    #[error("there is no randomness: {0}")]
    Entropy(io::Error),
    /// The call failed, or the connection has ended.
    #[error(transparent)]
    Client(#[from] mcp_runtime::Error),
}

impl Error {
    /// Returns the kind of error of the extension with which the server answered, if it did.
    #[must_use]
    pub fn kind(&self) -> Option<EventsErrorKind> {
        match self {
            Self::Client(mcp_runtime::Error::Call(CallError::Rpc(error))) => {
                EventsErrorKind::of_code(error.code)
            }
            _ => None,
        }
    }
}

/// How a type is followed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FollowOptions {
    /// Bounds and pauses.
    pub config: FollowConfig,
    /// Position that an earlier follower had ([`EventFollower::cursor`]); `None` for what happens from now on.
    pub cursor: Option<String>,
    /// True if the type is polled although the connection has streams. Default: false.
    pub only_polls: bool,
}

impl FollowOptions {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets bounds and pauses.
    #[must_use]
    pub const fn config(mut self, config: FollowConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the position to begin at.
    #[must_use]
    pub fn cursor(mut self, cursor: impl Into<String>) -> Self {
        self.cursor = Some(cursor.into());
        self
    }

    /// Polls the type, whatever the connection has.
    #[must_use]
    pub const fn only_polls(mut self) -> Self {
        self.only_polls = true;
        self
    }
}

/// Events of the server that a client of futures is connected to.
pub struct EventsClient<'a, B> {
    calls: &'a AsyncCalls<B>,
}

impl<B> Clone for EventsClient<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for EventsClient<'_, B> {}

impl<B> fmt::Debug for EventsClient<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventsClient")
    }
}

impl<'a, B: ClientBackend> EventsClient<'a, B> {
    /// Creates the events of a client, which dereferences to its calls.
    #[must_use]
    pub const fn new(calls: &'a AsyncCalls<B>) -> Self {
        Self { calls }
    }

    /// Returns what the server declares about events, in either place; `None` if nothing (EVT-001, EVT-004).
    #[must_use]
    pub fn declared(&self) -> Option<EventsCapability> {
        wire::declared(&self.calls.backend().peer().capabilities)
    }

    /// Returns all event types of the server, from all pages (EVT-010).
    ///
    /// Stops at a list that looks endless, and returns the types so far. The bounds are a repeated cursor,
    /// [`Paginator::MAX_PAGES`] pages, and four times [`Limits::max_frame`](mcp_proto::Limits) bytes.
    ///
    /// # Errors
    ///
    /// [`Error::NotDeclared`], and [`Error::Client`] if a call fails or a page cannot be read.
    pub async fn list(&self) -> Result<Vec<EventType>, Error> {
        let (mut types, mut cursors, mut bytes) = (Vec::new(), BTreeSet::new(), 0_usize);
        let mut params = ListEventsParams::new();
        for _ in 0..Paginator::MAX_PAGES {
            let result = self.request(&params).await?;
            bytes = bytes.saturating_add(result.as_bytes().len());
            let page = ListEventsParams::read(&result).map_err(|error| unreadable(wire::LIST, &error))?;
            types.extend(page.events);
            let Some(next) = page.next_cursor else { break };
            if bytes > self.calls.backend().max_list_bytes() || !cursors.insert(next.clone()) {
                break;
            }
            params = ListEventsParams::new().cursor(next);
        }
        Ok(types)
    }

    /// Polls once (EVT-040). A [follower](Self::follow) does that over and over.
    ///
    /// # Errors
    ///
    /// [`Error::NotDeclared`] or [`Error::Client`].
    pub async fn poll(&self, params: &PollEventsParams<'_>) -> Result<PollEventsResult, Error> {
        let result = self.request(params).await?;
        PollEventsParams::read(&result).map_err(|error| unreadable(wire::POLL, &error))
    }

    /// Follows the events of a type from now on. `arguments` must serialize as a JSON object.
    ///
    /// # Errors
    ///
    /// As [`follow_with`](Self::follow_with).
    pub async fn follow<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
    ) -> Result<EventFollower<'a, B>, Error> {
        self.follow_with(name, arguments, FollowOptions::new()).await
    }

    /// Follows the events of a type with options, for example from a position that was stored.
    ///
    /// The list of types is read first, to learn how the type is delivered.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownType`], [`Error::Follow`] with [`FollowError::NoMode`] (EVT-013), [`Error::Arguments`], and those of
    /// [`list`](Self::list).
    pub async fn follow_with<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
        options: FollowOptions,
    ) -> Result<EventFollower<'a, B>, Error> {
        let subscription = subscription(name, arguments)?;
        let described = self.find(name).await?.ok_or_else(|| Error::UnknownType(name.into()))?;
        EventFollower::new(*self, &described, subscription, options)
    }

    /// Makes or refreshes a webhook subscription (EVT-075).
    ///
    /// # Errors
    ///
    /// [`Error::NotDeclared`] or [`Error::Client`].
    pub async fn subscribe(
        &self,
        params: &SubscribeEventsParams<'_>,
    ) -> Result<SubscribeEventsResult, Error> {
        let result = self.request(params).await?;
        SubscribeEventsParams::read(&result).map_err(|error| unreadable(wire::SUBSCRIBE, &error))
    }

    /// Ends a webhook subscription (EVT-130).
    ///
    /// # Errors
    ///
    /// [`Error::NotDeclared`] or [`Error::Client`].
    pub async fn unsubscribe(&self, params: &UnsubscribeEventsParams<'_>) -> Result<(), Error> {
        self.request(params).await.map(drop)
    }

    /// Returns the description of a type; `None` if the list does not have it.
    async fn find(&self, name: &str) -> Result<Option<EventType>, Error> {
        Ok(self.list().await?.into_iter().find(|described| described.name == name))
    }

    /// Returns the number of changes of the list of types that the client was told of.
    fn list_changes(&self) -> u64 {
        self.calls.backend().result_cache().list_changes(wire::EVENTS_LIST)
    }

    /// Returns whether the connection has streams (EVT-008).
    fn has_streams(&self) -> bool {
        self.calls.backend().peer().era() == Era::Modern
    }

    async fn request<P: RequestParams>(&self, params: &P) -> Result<RawJson, Error> {
        if self.declared().is_none() {
            return Err(Error::NotDeclared);
        }
        Ok(self.calls.request(P::METHOD, params, &CallOptions::new()).await?)
    }
}

fn subscription<A: Serialize + ?Sized>(name: &str, arguments: &A) -> Result<Subscription, EncodeError> {
    let arguments = RawJson::encode(arguments)?;
    if !arguments.is_object() {
        return Err(EncodeError::NotAnObject);
    }
    Ok(Subscription { name: name.into(), arguments: Some(arguments) })
}

fn entropy() -> Result<Entropy, Error> {
    Ok(Entropy::new(mcp_std::entropy::seed().map_err(Error::Entropy)?, mcp_std::entropy::nonce()))
}

fn unreadable(method: &str, error: &serde_json::Error) -> Error {
    let text = alloc::format!("the result of `{method}` cannot be read: {error}");
    mcp_runtime::Error::UnexpectedResult(text).into()
}

/// Events of the server that a client that blocks is connected to.
pub struct BlockingEventsClient<'a, B> {
    calls: &'a BlockingCalls<B>,
}

impl<B> Clone for BlockingEventsClient<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for BlockingEventsClient<'_, B> {}

impl<B> fmt::Debug for BlockingEventsClient<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlockingEventsClient")
    }
}

impl<'a, B: ClientBackend> BlockingEventsClient<'a, B> {
    /// Creates the events of a client, which dereferences to its calls.
    #[must_use]
    pub const fn new(calls: &'a BlockingCalls<B>) -> Self {
        Self { calls }
    }

    const fn events(&self) -> EventsClient<'a, B> {
        EventsClient::new(self.calls.as_async())
    }

    /// Returns what the server declares about events, in either place; `None` if nothing (EVT-001, EVT-004).
    #[must_use]
    pub fn declared(&self) -> Option<EventsCapability> {
        self.events().declared()
    }

    /// Returns all event types, as [`EventsClient::list`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn list(&self) -> Result<Vec<EventType>, Error> {
        self.calls.block_on(self.events().list())
    }

    /// Polls once, as [`EventsClient::poll`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn poll(&self, params: &PollEventsParams<'_>) -> Result<PollEventsResult, Error> {
        self.calls.block_on(self.events().poll(params))
    }

    /// Follows the events of a type from now on, as [`EventsClient::follow`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn follow<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
    ) -> Result<BlockingEventFollower<'a, B>, Error> {
        self.follow_with(name, arguments, FollowOptions::new())
    }

    /// Follows the events of a type, as [`EventsClient::follow_with`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn follow_with<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
        options: FollowOptions,
    ) -> Result<BlockingEventFollower<'a, B>, Error> {
        let follower = self.calls.block_on(self.events().follow_with(name, arguments, options))?;
        Ok(BlockingEventFollower::new(self.calls, follower))
    }

    /// Makes or refreshes a webhook subscription, as [`EventsClient::subscribe`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn subscribe(&self, params: &SubscribeEventsParams<'_>) -> Result<SubscribeEventsResult, Error> {
        self.calls.block_on(self.events().subscribe(params))
    }

    /// Ends a webhook subscription, as [`EventsClient::unsubscribe`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn unsubscribe(&self, params: &UnsubscribeEventsParams<'_>) -> Result<(), Error> {
        self.calls.block_on(self.events().unsubscribe(params))
    }
}
