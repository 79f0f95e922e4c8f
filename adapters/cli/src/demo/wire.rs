//! Recorded messages of a session, which are also shown, and a user who answers immediately.

use alloc::sync::Arc;
use std::sync::{Mutex, MutexGuard};

use mcp_blocking::ClientHandler;
use mcp_proto::model::{ElicitParams, ElicitResult};
use mcp_proto::tap::{Direction, TapRecord};
use mcp_proto::{Change, RpcError};
use serde_json::Value;

use crate::changes::{ChangeEvent, ReceivedChanges};
use crate::output;
use crate::paint::Paint;
use crate::trace;

/// Recorded messages, shared between the client, which adds them, and the tour, which checks them.
#[derive(Clone)]
pub(super) struct WireLog {
    messages: Arc<Mutex<Vec<WireMessage>>>,
    pub(super) changes: ReceivedChanges,
    paint: Paint,
}

pub(super) struct WireMessage {
    pub(super) is_sent: bool,
    pub(super) json: Value,
}

impl WireLog {
    pub(super) fn new(paint: Paint) -> Self {
        Self { messages: Arc::default(), changes: ReceivedChanges::default(), paint }
    }

    /// Returns the number of messages.
    pub(super) fn len(&self) -> usize {
        self.messages().len()
    }

    /// Returns the methods of sent messages, in order.
    pub(super) fn sent_methods(&self) -> Vec<String> {
        let methods = |message: &WireMessage| {
            message.json["method"].as_str().filter(|_| message.is_sent).map(str::to_owned)
        };
        self.messages().iter().filter_map(methods).collect()
    }

    /// Returns the first matching message since `from`.
    pub(super) fn find(&self, from: usize, holds: impl Fn(&WireMessage) -> bool) -> Option<Value> {
        self.messages().iter().skip(from).find(|message| holds(message)).map(|message| message.json.clone())
    }

    fn messages(&self) -> MutexGuard<'_, Vec<WireMessage>> {
        mcp_std::sync::lock(&self.messages)
    }
}

impl ClientHandler for WireLog {
    fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        match params {
            ElicitParams::Form(form) if form.requested_schema.properties.get("name").is_some() => {
                Ok(ElicitResult::accept([("name", USER_NAME.into())]))
            }
            _ => Ok(ElicitResult::decline()),
        }
    }

    fn changed(&self, change: &Change) {
        self.changes.add(ChangeEvent::Changed(change.clone()));
    }

    fn tap(&self, record: &TapRecord) {
        // A closed stdout is detected where the tour prints.
        let _ = output::print(&format!(
            " {}\n",
            trace::format_short_record(record, self.paint, MAX_MESSAGE_CHARS)
        ));
        if let Ok(json) = serde_json::from_slice(&record.bytes) {
            self.messages().push(WireMessage { is_sent: record.direction == Direction::Out, json });
        }
    }
}

/// Name of the user.
pub(super) const USER_NAME: &str = "Ada";
/// Maximum number of characters shown of a message.
/// With time and direction a line fits into 80 columns, even if a few characters take two of them.
const MAX_MESSAGE_CHARS: usize = 64;
