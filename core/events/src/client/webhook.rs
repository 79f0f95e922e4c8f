//! Webhook subscriptions over a connection: a machine of [`subscription`](crate::subscription), and its calls.

use alloc::string::String;
use core::time::Duration;
use std::sync::Mutex;
use std::time::SystemTime;

use mcp_proto::{Anchor, Instant};
use mcp_runtime::client::ClientBackend;
use mcp_std::sync::lock;
use serde::Serialize;

use super::follower::outcome_of;
use super::{BlockingEventsClient, Error, EventsClient, entropy, subscription};
use crate::receiver::Receiver;
use crate::subscription::{SubscriptionAction, SubscriptionConfig, SubscriptionEvent, WebhookSubscription};
use crate::wire::CallbackUrl;

/// Longest time until an end is noticed that a delivery told.
const END_CHECK: Duration = Duration::from_secs(5);

/// What is subscribed to with a webhook.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WebhookOptions {
    /// URL of the receiver: `https` (EVT-071).
    pub url: CallbackUrl,
    /// Bounds and times.
    pub config: SubscriptionConfig,
    /// Position that an earlier subscription had ([`Receiver::cursor`]); `None` for what happens from now on.
    pub cursor: Option<String>,
}

impl WebhookOptions {
    /// Creates the options for a receiver.
    #[must_use]
    pub fn new(url: impl Into<CallbackUrl>) -> Self {
        Self { url: url.into(), config: SubscriptionConfig::default(), cursor: None }
    }

    /// Sets bounds and times.
    #[must_use]
    pub const fn config(mut self, config: SubscriptionConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the position to begin at.
    #[must_use]
    pub fn cursor(mut self, cursor: impl Into<String>) -> Self {
        self.cursor = Some(cursor.into());
        self
    }
}

/// # Webhook subscriptions
impl<B: ClientBackend> EventsClient<'_, B> {
    /// Creates a webhook subscription to a type, and registers its secret at the receiver. Nothing is sent before
    /// [`next_of_webhook`](Self::next_of_webhook).
    ///
    /// # Errors
    ///
    /// [`Error::NotDeclared`], [`Error::Arguments`], [`Error::Entropy`], and [`Error::Receiver`] if it has no room.
    pub fn webhook<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
        options: WebhookOptions,
        receiver: &Mutex<Receiver>,
    ) -> Result<WebhookSubscription, Error> {
        if self.declared().is_none() {
            return Err(Error::NotDeclared);
        }
        let subscription = subscription(name, arguments)?;
        let (entropy, anchor) = (entropy()?, self.anchor());
        let WebhookOptions { url, config, cursor } = options;
        let mut receiver = lock(receiver);
        Ok(WebhookSubscription::new(config, subscription, url, cursor, &mut receiver, entropy, anchor)?)
    }

    /// Replaces the secret of a webhook subscription. The new one is sent by the next
    /// [`next_of_webhook`](Self::next_of_webhook); the receiver takes the old one for a while (EVT-094).
    pub fn rotate_webhook(&self, subscription: &mut WebhookSubscription, receiver: &Mutex<Receiver>) {
        subscription.set_anchor(self.anchor());
        subscription.rotate(self.calls.backend().now(), &mut lock(receiver));
    }

    /// Ties the instants of the connection to the clock of the system, as it is now.
    fn anchor(&self) -> Anchor {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Anchor::new(self.calls.backend().now(), unix.as_secs())
    }

    /// Subscribes, refreshes and unsubscribes when it is due, and waits for what happens next to a webhook subscription. Returns `None`
    /// after [`SubscriptionEvent::Ended`].
    ///
    /// Its events come to the receiver. Await this over and over: nothing is refreshed otherwise. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Client`] if the connection has ended, or does not take a call. Another connection may go on with the subscription.
    pub async fn next_of_webhook(
        &self,
        subscription: &mut WebhookSubscription,
        receiver: &Mutex<Receiver>,
    ) -> Result<Option<SubscriptionEvent>, Error> {
        self.next_of_webhook_until(subscription, receiver, None).await
    }

    /// Goes on as [`next_of_webhook`](Self::next_of_webhook) does, for `time` at most. Returns `None` if that passes, too: see
    /// [`WebhookSubscription::has_ended`].
    ///
    /// A request that was sent is awaited to its end, within the timeout of calls.
    ///
    /// # Errors
    ///
    /// As [`next_of_webhook`](Self::next_of_webhook).
    pub async fn next_of_webhook_within(
        &self,
        subscription: &mut WebhookSubscription,
        receiver: &Mutex<Receiver>,
        time: Duration,
    ) -> Result<Option<SubscriptionEvent>, Error> {
        let until = self.calls.backend().now() + time;
        self.next_of_webhook_until(subscription, receiver, Some(until)).await
    }

    async fn next_of_webhook_until(
        &self,
        subscription: &mut WebhookSubscription,
        receiver: &Mutex<Receiver>,
        until: Option<Instant>,
    ) -> Result<Option<SubscriptionEvent>, Error> {
        let backend = self.calls.backend();
        // The future of an earlier call was dropped, and its request with it.
        subscription.handle_abandoned(backend.now());
        loop {
            if let Some(event) = subscription.poll_event() {
                return Ok(Some(event));
            }
            if subscription.has_ended() {
                return Ok(None);
            }
            let now = backend.now();
            let action = subscription.poll_action(now, &mut lock(receiver));
            match action {
                Some(SubscriptionAction::Subscribe(params)) => {
                    let outcome = outcome_of(self.subscribe(&params).await)?;
                    subscription.set_anchor(self.anchor());
                    subscription.handle_subscribed(backend.now(), &mut lock(receiver), outcome);
                }
                Some(SubscriptionAction::Unsubscribe(params)) => {
                    let outcome = outcome_of(self.unsubscribe(&params).await)?;
                    subscription.handle_unsubscribed(&mut lock(receiver), outcome);
                }
                None if until.is_some_and(|until| until <= now) => return Ok(None),
                None => {
                    let due = subscription.poll_timeout().map_or(now, |at| at.min(now + END_CHECK));
                    let due = until.map_or(due, |until| until.min(due));
                    backend.pause(due.saturating_duration_since(now)).await?;
                }
            }
        }
    }
}

/// # Webhook subscriptions
impl<B: ClientBackend> BlockingEventsClient<'_, B> {
    /// Creates a webhook subscription, as [`EventsClient::webhook`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn webhook<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
        options: WebhookOptions,
        receiver: &Mutex<Receiver>,
    ) -> Result<WebhookSubscription, Error> {
        self.events().webhook(name, arguments, options, receiver)
    }

    /// Replaces the secret of a webhook subscription, as [`EventsClient::rotate_webhook`] does.
    pub fn rotate_webhook(&self, subscription: &mut WebhookSubscription, receiver: &Mutex<Receiver>) {
        self.events().rotate_webhook(subscription, receiver);
    }

    /// Waits for what happens next to a webhook subscription, as [`EventsClient::next_of_webhook`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn next_of_webhook(
        &self,
        subscription: &mut WebhookSubscription,
        receiver: &Mutex<Receiver>,
    ) -> Result<Option<SubscriptionEvent>, Error> {
        self.calls.block_on(self.events().next_of_webhook(subscription, receiver))
    }

    /// Goes on with a webhook subscription for `time` at most, as [`EventsClient::next_of_webhook_within`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn next_of_webhook_within(
        &self,
        subscription: &mut WebhookSubscription,
        receiver: &Mutex<Receiver>,
        time: Duration,
    ) -> Result<Option<SubscriptionEvent>, Error> {
        self.calls.block_on(self.events().next_of_webhook_within(subscription, receiver, time))
    }
}
