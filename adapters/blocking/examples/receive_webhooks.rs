//! Subscribes to events with a webhook, and prints what is delivered: `receive_webhooks SERVER TOKEN TYPE CALLBACK LISTEN`.
//!
//! `CALLBACK` is the `https` URL by which the server reaches this program: that of a proxy that has the certificate, and passes
//! requests on to the address `LISTEN`. The subscription is refreshed while the program runs, and expires after it.

extern crate alloc;

use alloc::sync::Arc;
use std::env;
use std::sync::Mutex;

use mcp_blocking::Client;
use mcp_blocking::mcp_proto::client::Config;
use mcp_blocking::mcp_proto::http::client::{Config as Http, Credential};
use mcp_events::client::{BlockingEventsClient, WebhookOptions};
use mcp_events::receive::ReceiverServer;
use mcp_events::receiver::{Limits, Message, Receiver};
use mcp_events::subscription::SubscriptionEvent;

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [server, token, name, callback, listen] = &arguments[..] else {
        return Err("usage: receive_webhooks SERVER TOKEN TYPE CALLBACK LISTEN".into());
    };
    let path = callback.splitn(4, '/').nth(3).unwrap_or_default();
    let receiver = Arc::new(Mutex::new(Receiver::new(Limits::default())));
    let hooks = ReceiverServer::bind(&**listen, receiver.clone())?.path(format!("/{path}"));
    let _running = hooks.start(|_, message| {
        // A program stores it here, durably, and returns whether it could.
        match message {
            Message::Event(event) => println!("{} {} {}", event.timestamp, event.event_id, event.data),
            Message::Gap { .. } => eprintln!("events may be missing"),
            other => eprintln!("{other:?}"),
        }
        true
    })?;

    let http = Http::new(server)?.credential(Credential::bearer(token)?);
    let client = Client::options(Config::new("receive-webhooks", "1.0")).connect_http(http)?;
    let events = BlockingEventsClient::new(&client);
    let options = WebhookOptions::new(&**callback);
    let mut webhook = events.webhook(name, &serde_json::json!({}), options, &receiver)?;
    while let Some(event) = events.next_of_webhook(&mut webhook, &receiver)? {
        match event {
            SubscriptionEvent::Granted { id, .. } => eprintln!("subscribed as {id}"),
            SubscriptionEvent::Ended(Some(error)) => return Err(error.into()),
            other => eprintln!("{other:?}"),
        }
    }
    Ok(())
}
