//! Polls: their results, read event by event so that a bad one costs only itself, and the pause until the next one.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::{Instant, RawJson};
use serde::de::DeserializeOwned;

use super::{FollowError, Follower, State};
use crate::wire::{self, EventOccurrence};

/// Polls in a row without a pause.
pub(super) const BURST: u32 = 32;

impl Follower {
    /// Takes the outcome of a poll: its result as it was received, because one bad event must cost only itself.
    ///
    /// An event that cannot be read is reported as [`FollowError::Malformed`] with its place, and followed by a gap
    /// ([`GapReason::Malformed`](super::GapReason::Malformed)). A result that cannot be read otherwise is an error alone: there is no
    /// position to go on from.
    pub fn handle_polled(&mut self, now: Instant, outcome: Result<RawJson, FollowError>) {
        if self.state != State::Polling {
            return;
        }
        let read = outcome.and_then(|result| {
            ReadPoll::read(&result)
                .map_err(|error| FollowError::Malformed(format!("`{}`: {error}", wire::POLL)))
        });
        let ReadPoll { events, cursor, truncated, has_more, next_poll_ms } = match read {
            Ok(read) => read,
            Err(error) => return self.request_failed(now, error),
        };
        self.succeed();
        self.report_gap(truncated, cursor.as_ref(), !events.is_empty());
        let mut was_read = true;
        for event in events {
            match event {
                Ok(event) => {
                    was_read = true;
                    // The position of the result is behind the last one; another is none of the extension.
                    self.hand_out(EventOccurrence { cursor: None, ..event });
                }
                // One gap for several in a row.
                Err(text) => {
                    self.fail(FollowError::Malformed(text));
                    if core::mem::take(&mut was_read) {
                        // The position is behind events that follow.
                        self.report_lost_event(None);
                    }
                }
            }
        }
        let has_moved = cursor.is_some() && cursor != self.cursor;
        self.move_to(cursor);
        // A server that promises more at the same place has nothing.
        self.burst = if has_more && has_moved { self.burst + 1 } else { 0 };
        let pause = match self.burst {
            1..BURST => Duration::ZERO,
            _ if has_more => self.config.shortest_poll,
            _ => self.pause_between_polls(next_poll_ms),
        };
        if self.burst >= BURST {
            self.burst = 0;
        }
        self.wait_until(now + pause);
    }

    fn pause_between_polls(&self, next_poll_ms: Option<f64>) -> Duration {
        let (shortest, longest) = (self.config.shortest_poll, self.config.longest_poll);
        // Comparisons with what is no number are false, and the conversion takes numbers in range alone.
        match next_poll_ms {
            None => self.config.default_poll,
            Some(millis) if millis >= longest.as_secs_f64() * 1e3 => longest,
            Some(millis) if millis > shortest.as_secs_f64() * 1e3 => Duration::from_secs_f64(millis / 1e3),
            Some(_) => shortest,
        }
    }
}

/// Number of characters that are shown of a text of the server.
const SHOWN: usize = 256;

/// The result of a poll. What is wrong with an event stands in its place.
struct ReadPoll {
    events: Vec<Result<EventOccurrence, String>>,
    cursor: Option<String>,
    truncated: bool,
    has_more: bool,
    next_poll_ms: Option<f64>,
}

impl ReadPoll {
    /// Reads a result. Servers that leave an empty array out are understood.
    ///
    /// # Errors
    ///
    /// What is wrong with the result beside its events.
    fn read(result: &RawJson) -> Result<Self, String> {
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
