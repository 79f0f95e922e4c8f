//! Reading what a server sends about events, member by member, so that one bad event costs only itself.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use mcp_proto::RawJson;
use serde::de::DeserializeOwned;

use crate::wire::{self, EventOccurrence};

/// Number of characters that are shown of a text of the server.
const SHOWN: usize = 256;

/// The result of a poll. What is wrong with an event stands in its place.
pub(super) struct ReadPoll {
    pub(super) events: Vec<Result<EventOccurrence, String>>,
    pub(super) cursor: Option<String>,
    pub(super) truncated: bool,
    pub(super) has_more: bool,
    pub(super) next_poll_ms: Option<f64>,
}

impl ReadPoll {
    /// Reads a result. Servers that leave an empty array out are understood.
    ///
    /// # Errors
    ///
    /// What is wrong with the result beside its events.
    pub(super) fn read(result: &RawJson) -> Result<Self, String> {
        if !result.is_object() {
            return Err("the result is no object".into());
        }
        let listed = match result.member("events").filter(|events| events.as_str() != "null") {
            None => Vec::new(),
            Some(events) => events.elements().ok_or("`events` is no array")?,
        };
        let count = listed.len();
        let place = |(index, text): (usize, RawJson)| {
            read_event(&text)
                .map_err(|error| format!("`{}`, event {} of {count}: {error}", wire::POLL, index + 1))
        };
        Ok(Self {
            events: listed.into_iter().enumerate().map(place).collect(),
            cursor: optional(result, "cursor")?,
            truncated: optional(result, "truncated")?.unwrap_or(false),
            has_more: optional(result, "hasMore")?.unwrap_or(false),
            // A hint: any other value than a number counts as absent.
            next_poll_ms: optional(result, "nextPollMs").ok().flatten(),
        })
    }
}

/// Reads an event.
///
/// # Errors
///
/// What is wrong with it, and its id if that can be read.
pub(super) fn read_event(text: &RawJson) -> Result<EventOccurrence, String> {
    let id = text.member("eventId").and_then(|id| id.string()).unwrap_or_default();
    match text.parse::<EventOccurrence>() {
        // Events without an id would be taken for repetitions of each other.
        Ok(event) if event.event_id.is_empty() => Err("`eventId` is empty".into()),
        Ok(event) => Ok(event),
        Err(error) if id.is_empty() => Err(clip(&error.to_string())),
        Err(error) => Err(clip(&format!("{error} (`eventId` is `{}`)", id.escape_debug()))),
    }
}

/// Reads a member that may be absent or `null`.
fn optional<T: DeserializeOwned>(object: &RawJson, name: &str) -> Result<Option<T>, String> {
    let Some(member) = object.member(name) else { return Ok(None) };
    member.parse().map_err(|error| clip(&format!("`{name}`: {error}")))
}

fn clip(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
