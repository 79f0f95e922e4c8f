//! The messages of a session: shown as they pass, and kept to be checked; and a user who answers at once

use alloc::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_blocking::ClientHandler;
use mcp_proto::model::{ElicitParams, ElicitResult};
use mcp_proto::tap::{Direction, TapRecord};
use mcp_proto::{Change, RpcError};
use serde_json::Value;

use crate::news::{Item, News};
use crate::output;
use crate::paint::Paint;
use crate::trace;

/// Shared between the client, which fills it, and the tour, which looks at it
#[derive(Clone)]
pub(super) struct Wire {
    messages: Arc<Mutex<Vec<Message>>>,
    pub(super) news: News,
    paint: Paint,
}

pub(super) struct Message {
    pub(super) sent: bool,
    pub(super) json: Value,
}

impl Wire {
    pub(super) fn new(paint: Paint) -> Self {
        Self { messages: Arc::default(), news: News::default(), paint }
    }

    /// How many messages have passed
    pub(super) fn len(&self) -> usize {
        self.messages().len()
    }

    /// Methods that were sent, in order
    pub(super) fn sent_methods(&self) -> Vec<String> {
        let methods =
            |message: &Message| message.json["method"].as_str().filter(|_| message.sent).map(str::to_owned);
        self.messages().iter().filter_map(methods).collect()
    }

    /// The first message since `from` for which this holds
    pub(super) fn find(&self, from: usize, holds: impl Fn(&Message) -> bool) -> Option<Value> {
        self.messages().iter().skip(from).find(|message| holds(message)).map(|message| message.json.clone())
    }

    fn messages(&self) -> MutexGuard<'_, Vec<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientHandler for Wire {
    fn elicit(&mut self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        match params {
            ElicitParams::Form(form) if form.requested_schema.properties.get("name").is_some() => {
                Ok(ElicitResult::accept([("name", GUEST.into())]))
            }
            _ => Ok(ElicitResult::decline()),
        }
    }

    fn changed(&mut self, change: &Change) {
        self.news.add(Item::Changed(change.clone()));
    }

    fn tap(&mut self, record: &TapRecord) {
        // A closed stdout is noticed where the tour speaks.
        let _ = output::print(&format!(" {}\n", trace::short_line(record, self.paint, WIDTH)));
        if let Ok(json) = serde_json::from_slice(&record.bytes) {
            self.messages().push(Message { sent: record.direction == Direction::Out, json });
        }
    }
}

/// Who the user is
pub(super) const GUEST: &str = "Ada";
/// Characters of a message that are shown
const WIDTH: usize = 88;
