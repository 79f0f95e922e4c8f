//! The measured work, in units of one `run_once`.

mod changes;
mod conversation;
mod events;
mod framing;
mod growth;
mod h1;
mod http;
mod large;
mod lists;
mod memory;
mod pair;
mod relay;
mod router;
mod seal;
mod server;
mod sharing;
mod sse;
mod tasks;
mod visibility;

pub use changes::{ChangeFanout, subscriptions};
pub use conversation::{InputRoundTrip, server_waiting_for_input};
pub use framing::{FloorEnvelope, FrameEnvelope};
pub use h1::{FloorHead, H1ClientExchange, H1ServerExchange, HeadParse, RequestChecks};
pub use http::{HttpCall, sessions};
pub use large::{FloorLarge, LargeCall};
pub use lists::{FloorReadList, FloorWriteList, ReadList, WriteList};
pub use memory::{Footprint, client_in_flight, idle_client, idle_server, server_in_flight};
pub use pair::RoundTrip;
pub use relay::RelayedEcho;
pub use router::{RawCall, RawList, TemplateMatch, TypedCall, TypedList};
pub use seal::{OpenState, SealState};
pub use server::{CoreCall, FloorCore};
pub use sharing::{Handshake, LoadSession, SaveSession, session_record};
pub use sse::{FloorReadEvents, ReadEvents};
pub use tasks::{TaskRoundTrip, waiting_tasks};
pub use visibility::VisibleTools;

use core::time::Duration;

use mcp_proto::Instant;
use serde::{Deserialize, Serialize};

use crate::wire::WireEra;

/// Repeatable work.
pub trait Scenario {
    /// Does the work once.
    fn run_once(&mut self);
}

/// Returns the scenario of a name, `core-legacy` for example, or `read-list` if it has no era.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Scenario>> {
    match name {
        "floor-h1-head" => return Some(Box::new(FloorHead(h1::HEAD))),
        "floor-http-door" => return Some(Box::new(FloorHead(h1::BROWSER_HEAD))),
        "http-door" => return Some(Box::new(RequestChecks::new())),
        "h1-head" => return Some(Box::new(HeadParse::new())),
        "h1-server" => return Some(Box::new(H1ServerExchange::new())),
        "h1-client" => return Some(Box::new(H1ClientExchange::new())),
        "http-client" => return Some(growth::http_client_call(None)),
        "http-client-token" => return Some(growth::http_client_call(Some(http::TOKEN))),
        "events-poll" => return Some(Box::new(events::QuietPoll::new())),
        "events-delivery" => return Some(Box::new(events::Webhooks::new(1))),
        "floor-events-delivery" => return Some(Box::new(events::FloorDelivery::new())),
        "handshake" => return Some(Box::new(Handshake::new())),
        "load-session" => return Some(Box::new(LoadSession::new())),
        "save-session" => return Some(Box::new(SaveSession::new())),
        "news" => return Some(Box::new(ChangeFanout::new())),
        "seal" => return Some(Box::new(SealState::new())),
        "open" => return Some(Box::new(OpenState::new())),
        "read-list" => return Some(Box::new(ReadList::new())),
        "floor-read-list" => return Some(Box::new(FloorReadList::new())),
        "write-list" => return Some(Box::new(WriteList::new())),
        "floor-write-list" => return Some(Box::new(FloorWriteList::new())),
        _ => {}
    }
    if let Some(("match", rest)) = name.split_once('-') {
        let (templates, value) = rest.split_once('-')?;
        return Some(Box::new(TemplateMatch::new(templates.parse().ok()?, value.parse().ok()?)));
    }
    if let Some(streams) = name.strip_prefix("events-streams-") {
        return Some(Box::new(events::Streams::new(streams.parse().ok()?)));
    }
    if let Some(webhooks) = name.strip_prefix("events-webhooks-") {
        return Some(Box::new(events::Webhooks::new(webhooks.parse().ok()?)));
    }
    if let Some(name) = name.strip_prefix("growth-") {
        return growth::by_name(name);
    }
    if let Some(name) = name.strip_prefix("sse-") {
        return ReadEvents::by_name(name).map(|s| Box::new(s) as _);
    }
    if let Some(name) = name.strip_prefix("floor-sse-") {
        return FloorReadEvents::by_name(name).map(|s| Box::new(s) as _);
    }
    let (kind, era) = name.rsplit_once('-')?;
    let era = WireEra::BOTH.into_iter().find(|e| e.name() == era)?;
    Some(match kind {
        "floor-envelope" => Box::new(FloorEnvelope::new(era)),
        "envelope" => Box::new(FrameEnvelope::new(era)),
        "floor-core" => Box::new(FloorCore::new(era)),
        "core" => Box::new(CoreCall::new(era)),
        "tasks" => Box::new(TaskRoundTrip::new(era)),
        "round-trip" => Box::new(RoundTrip::new(era)),
        // By the era of the client.
        "relay" => Box::new(RelayedEcho::new(era, era)),
        "translate" => Box::new(RelayedEcho::new(era, era.other())),
        "http" => Box::new(HttpCall::new(era)),
        "http-token" => Box::new(HttpCall::protected(era, true)),
        "http-token-turns" => Box::new(HttpCall::of_two_clients(era)),
        "http-token-event" => Box::new(HttpCall::protected(era, false)),
        "http-shared" => Box::new(HttpCall::shared(era)),
        "http-ignored-token" => Box::new(HttpCall::ignored_token(era)),
        "talk" => Box::new(InputRoundTrip::new(era)),
        "typed-call" => Box::new(TypedCall::new(era)),
        "raw-call" => Box::new(RawCall::new(era)),
        "typed-list" => Box::new(TypedList::new(era)),
        "raw-list" => Box::new(RawList::new(era)),
        "list-of-ten" => Box::new(VisibleTools::new(era, false, false)),
        "visible-list" => Box::new(VisibleTools::new(era, false, true)),
        "call-of-ten" => Box::new(VisibleTools::new(era, true, false)),
        "visible-call" => Box::new(VisibleTools::new(era, true, true)),
        "floor-large" => Box::new(FloorLarge::new(era)),
        "large" => Box::new(LargeCall::new(era)),
        _ => return None,
    })
}

/// Bytes of text in a call.
const TEXT: usize = 100;

/// Virtual time per call, so that deadlines fire as often as at 100,000 calls per second.
const TIME_STEP: Duration = Duration::from_micros(10);

/// Arguments of `echo`, borrowed, for a handler that copies nothing.
#[derive(Deserialize, Serialize)]
struct EchoArguments<'a> {
    text: &'a str,
}

/// Advances the virtual time.
fn advance(now: &mut Instant, time: Duration) {
    *now = *now + time;
}
