//! `events subscribe`: a webhook subscription, and its receiver with `--listen`.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use mcp_events::client::{Error, EventsClient, WebhookOptions};
use mcp_events::follow::FollowError;
use mcp_events::receiver::{Limits, Receiver};
use mcp_events::subscription::SubscriptionEvent;
use mcp_events::webhook::Secret;
use mcp_events::wire::{DeliveryMode, SubscribeEventsParams, SubscribeEventsResult, WebhookDelivery};
use mcp_proto::{RawJson, iso_8601};
use mcp_runtime::client::{AsyncCalls, ClientBackend};

use super::args::EventsSubscribeArgs;
use super::receive::{CHECK_INTERVAL, Received};
use super::{arguments, failure, follow, note_gap, webhook_secret};
use crate::client::ClientOperation;
use crate::escape;
use crate::failure::CommandFailure;
use crate::notes;
use crate::output::print;
use crate::session::ClientSession;
use crate::stop::StopSignal;

pub(super) fn run(args: &EventsSubscribeArgs) -> Result<(), CommandFailure> {
    let secret = webhook_secret(&args.secret)?;
    let stop = StopSignal::new().map_err(|error| CommandFailure::failed(error.to_string()))?;
    let session = ClientSession::open(&args.target, None)?;
    let outcome = match (secret, args.listen) {
        (None, Some(address)) => receive(&session, args, address, &stop),
        (Some(secret), _) => subscribe_once(&session, args, secret),
        // Of the options one is required.
        (None, None) => Ok(()),
    };
    session.close();
    outcome
}

struct SubscribeOnce<'a>(SubscribeEventsParams<'a>);

impl ClientOperation for SubscribeOnce<'_> {
    type Value = SubscribeEventsResult;

    async fn run<B: ClientBackend>(self, calls: &AsyncCalls<B>) -> Result<Self::Value, Error> {
        EventsClient::new(calls).subscribe(&self.0).await
    }
}

/// Subscribes for a receiver elsewhere.
fn subscribe_once(
    session: &ClientSession,
    args: &EventsSubscribeArgs,
    secret: Secret,
) -> Result<(), CommandFailure> {
    let delivery = WebhookDelivery::new(&*args.url, secret).mode(DeliveryMode::Webhook);
    let mut params =
        SubscribeEventsParams::new(&*args.event.name, delivery).arguments(arguments(session, &args.event)?);
    if let Some(cursor) = &args.event.cursor {
        params = params.cursor(cursor.clone());
    }
    let granted = session.client.run(SubscribeOnce(params)).map_err(|error| failure(session, &error))?;
    if granted.truncated == Some(true) {
        note_gap("the server has skipped some");
    }
    let until = granted.refresh_before.0.unwrap_or_else(|| "it is ended".into());
    print(&format!("{}\n", escape::line(&format!("subscribed as {} until {until}", granted.id))))
}

/// Subscribes, receives, and unsubscribes at the end.
fn receive(
    session: &ClientSession,
    args: &EventsSubscribeArgs,
    address: SocketAddr,
    stop: &StopSignal,
) -> Result<(), CommandFailure> {
    let arguments = arguments(session, &args.event)?;
    let receiver = Arc::new(Mutex::new(Receiver::new(Limits::default())));
    let path = args.url.splitn(4, '/').nth(3).and_then(|path| path.split(['?', '#']).next());
    let path = format!("/{}", path.unwrap_or_default());
    let until = args.end.time.map(|time| Instant::now() + time);
    let received = Received::start(address, &path, &receiver, args.end, args.json)?;
    stop.set_looping(true);
    let webhook = Webhook { args, arguments, receiver: &receiver, received: &received, until, stop };
    let outcome = session.client.run(webhook);
    stop.set_looping(false);
    received.finish();
    match outcome.map_err(|error| failure(session, &error))? {
        None => Ok(()),
        Some(error) => Err(CommandFailure::failed(format!("the subscription has ended: {error}"))),
    }
}

struct Webhook<'a> {
    args: &'a EventsSubscribeArgs,
    arguments: RawJson,
    receiver: &'a Mutex<Receiver>,
    received: &'a Received,
    until: Option<Instant>,
    stop: &'a StopSignal,
}

impl ClientOperation for Webhook<'_> {
    /// The reason why the server has ended the subscription; `None` if it was unsubscribed.
    type Value = Option<FollowError>;

    async fn run<B: ClientBackend>(self, calls: &AsyncCalls<B>) -> Result<Self::Value, Error> {
        let Self { args, arguments, receiver, received, until, stop } = self;
        let events = EventsClient::new(calls);
        let mut options = WebhookOptions::new(&*args.url);
        if let Some(cursor) = &args.event.cursor {
            options = options.cursor(cursor);
        }
        let mut webhook = events.webhook(&args.event.name, &arguments, options, receiver)?;
        let mut leaves = false;
        loop {
            if !leaves && (received.wait(Duration::ZERO, until) || stop.is_requested()) {
                leaves = true;
                webhook.unsubscribe();
            }
            let event = events.next_of_webhook_within(&mut webhook, receiver, CHECK_INTERVAL).await?;
            match event {
                Some(SubscriptionEvent::Granted { id, expires_at, .. }) => {
                    let until = expires_at.map_or_else(|| "it is ended".into(), iso_8601);
                    let text = format!("subscribed as {id} until {until}");
                    notes::print_stderr(&escape::line(&text));
                }
                Some(SubscriptionEvent::Gap(reason)) => note_gap(follow::describe(reason)),
                Some(SubscriptionEvent::ClockSkew { expires_at }) => notes::print_note(&format!(
                    "the subscription is granted until {}, which is over: the clocks differ",
                    iso_8601(expires_at)
                )),
                Some(SubscriptionEvent::Error(error)) => notes::print_note(&error.to_string()),
                Some(SubscriptionEvent::Ended(error)) => return Ok(error),
                Some(_) => {}
                None if webhook.has_ended() => return Ok(None),
                None => {}
            }
        }
    }
}
