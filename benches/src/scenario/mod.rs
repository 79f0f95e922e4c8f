//! The work that is measured, one `op` at a time.

mod h1;
mod http;
mod large;
mod lists;
mod memory;
mod news;
mod pair;
mod parts;
mod router;
mod seal;
mod server;
mod sse;
mod talk;

pub use h1::{Ask, Door, Exchange, FloorHead, Head};
pub use http::{HttpCall, sessions};
pub use large::{FloorLarge, Large};
pub use lists::{FloorReadList, FloorWriteList, ReadList, WriteList};
pub use memory::{Held, client_in_flight, idle_client, idle_server, server_in_flight};
pub use news::{News, subscriptions};
pub use pair::RoundTrip;
pub use parts::{FloorEnvelope, FrameEnvelope};
pub use router::{Match, RawCall, RawList, TypedCall, TypedList};
pub use seal::{Open, Seal};
pub use server::{Core, FloorCore};
pub use sse::{FloorReadEvents, ReadEvents};
pub use talk::{Conversation, server_waiting};

use core::time::Duration;

use mcp_proto::Instant;
use serde::{Deserialize, Serialize};

use crate::wire::Era;

/// Work that can be done again and again
pub trait Scenario {
    /// Does it once
    fn op(&mut self);
}

/// The scenario of a name as `core-legacy`, or as `read-list` where it has no era
#[must_use]
pub fn named(name: &str) -> Option<Box<dyn Scenario>> {
    match name {
        "floor-h1-head" => return Some(Box::new(FloorHead(h1::HEAD))),
        "floor-http-door" => return Some(Box::new(FloorHead(h1::FROM_PAGE))),
        "http-door" => return Some(Box::new(Door::new())),
        "h1-head" => return Some(Box::new(Head::new())),
        "h1-server" => return Some(Box::new(Exchange::new())),
        "h1-client" => return Some(Box::new(Ask::new())),
        "news" => return Some(Box::new(News::new())),
        "seal" => return Some(Box::new(Seal::new())),
        "open" => return Some(Box::new(Open::new())),
        "read-list" => return Some(Box::new(ReadList::new())),
        "floor-read-list" => return Some(Box::new(FloorReadList::new())),
        "write-list" => return Some(Box::new(WriteList::new())),
        "floor-write-list" => return Some(Box::new(FloorWriteList::new())),
        _ => {}
    }
    if let Some(("match", rest)) = name.split_once('-') {
        let (templates, value) = rest.split_once('-')?;
        return Some(Box::new(Match::new(templates.parse().ok()?, value.parse().ok()?)));
    }
    if let Some(name) = name.strip_prefix("sse-") {
        return ReadEvents::named(name).map(|s| Box::new(s) as _);
    }
    if let Some(name) = name.strip_prefix("floor-sse-") {
        return FloorReadEvents::named(name).map(|s| Box::new(s) as _);
    }
    let (kind, era) = name.rsplit_once('-')?;
    let era = Era::BOTH.into_iter().find(|e| e.name() == era)?;
    Some(match kind {
        "floor-envelope" => Box::new(FloorEnvelope::new(era)),
        "envelope" => Box::new(FrameEnvelope::new(era)),
        "floor-core" => Box::new(FloorCore::new(era)),
        "core" => Box::new(Core::new(era)),
        "round-trip" => Box::new(RoundTrip::new(era)),
        "http" => Box::new(HttpCall::new(era)),
        "talk" => Box::new(Conversation::new(era)),
        "typed-call" => Box::new(TypedCall::new(era)),
        "raw-call" => Box::new(RawCall::new(era)),
        "typed-list" => Box::new(TypedList::new(era)),
        "raw-list" => Box::new(RawList::new(era)),
        "floor-large" => Box::new(FloorLarge::new(era)),
        "large" => Box::new(Large::new(era)),
        _ => return None,
    })
}

/// Bytes of text in a call
const TEXT: usize = 100;

/// Virtual time that passes per call, so that deadlines fire as often as they would at 100,000 calls per second
const STEP: Duration = Duration::from_micros(10);

/// Arguments of `echo`, borrowed: what a handler reads that wants to copy nothing
#[derive(Deserialize, Serialize)]
struct Echo<'a> {
    text: &'a str,
}

/// Moves virtual time on
fn pass(now: &mut Instant, time: Duration) {
    *now = *now + time;
}
