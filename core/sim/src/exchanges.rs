//! Invariants of exchanges over HTTP, and of the principals that make them.

use alloc::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::entry::{Lane, What};
use crate::messages::Log;

/// Events of streams that were resumed, in the order of their stream.
#[derive(Default)]
struct Streams<'l> {
    /// The id and the message of each event.
    streams: Vec<Vec<(&'l str, &'l str)>>,
    /// The stream of an event, and its place there.
    places: BTreeMap<&'l str, (usize, usize)>,
    /// The stream of an exchange, and the place of its next event.
    next: BTreeMap<usize, (usize, usize)>,
}

impl<'l> Streams<'l> {
    fn write(&mut self, exchange: usize, id: &'l str, line: &'l str) -> Result<(), String> {
        let new = self.streams.len();
        let (stream, place) = *self.next.entry(exchange).or_insert((new, 0));
        if stream == new {
            self.streams.push(Vec::new());
        }
        self.next.insert(exchange, (stream, place + 1));
        match self.streams[stream].get(place) {
            // What a broken exchange has not written is sent again, as another event.
            Some((_, before)) if *before == line => {
                self.places.insert(id, (stream, place));
                Ok(())
            }
            Some((before, _)) => Err(format!("event {id} is where {before} was, and has another message")),
            None => {
                self.streams[stream].push((id, line));
                self.places.insert(id, (stream, place));
                Ok(())
            }
        }
    }

    fn finish(&self, exchange: usize) -> Result<(), String> {
        let Some((stream, place)) = self.next.get(&exchange) else { return Ok(()) };
        let missing = self.streams[*stream].get(*place);
        missing.map_or(Ok(()), |(id, _)| Err(format!("event {id} is not repeated")))
    }
}

pub(crate) fn resumption_continues_its_stream(log: &Log<'_>) -> Option<(usize, String)> {
    let mut streams = Streams::default();
    let mut resumed = BTreeMap::new();
    for (at, entry) in log.iter().enumerate() {
        let outcome = match &entry.what {
            What::Requested { exchange, resumes: Some(id), .. } => {
                resumed.insert(exchange, id.as_str());
                Ok(())
            }
            What::Responded { exchange, status: 200 } => {
                let place = resumed.get(exchange).and_then(|id| streams.places.get(id));
                if let Some((stream, place)) = place.copied() {
                    streams.next.insert(*exchange, (stream, place + 1));
                }
                Ok(())
            }
            What::Streamed { exchange, id, line } => streams.write(*exchange, id, line),
            What::Finished { exchange } => streams.finish(*exchange),
            _ => Ok(()),
        };
        if let Err(reason) = outcome {
            return Some((at, reason));
        }
    }
    None
}

pub(crate) fn stream_carries_messages(log: &Log<'_>) -> Option<(usize, String)> {
    // The streams of HTTP+SSE, and the clients that have one.
    let (mut streams, mut targets, mut lanes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (at, entry) in log.iter().enumerate() {
        let lane = entry.lane;
        match &entry.what {
            What::Endpoint { exchange, target } => {
                lanes.insert(lane);
                if !streams.insert(exchange) {
                    return Some((at, format!("exchange {exchange} has another URL for messages, {target}")));
                }
                if !targets.insert(target) {
                    return Some((at, format!("another stream has the URL {target}")));
                }
            }
            What::Streamed { exchange, id, .. } if streams.contains(exchange) => {
                return Some((at, format!("the event {id} of a stream that is never resumed")));
            }
            // The body of a response is written when it is complete.
            What::Finished { exchange } if lanes.contains(&lane) && !streams.contains(exchange) => {
                let Some(before) = at.checked_sub(1).filter(|before| log[*before].lane == lane) else {
                    continue;
                };
                let is_named = |message: &Value| message.get("id").is_some_and(|id| !id.is_null());
                if log.messages(before).iter().any(is_named) {
                    return Some((before, format!("a message in the response of exchange {exchange}")));
                }
            }
            _ => {}
        }
    }
    None
}

pub(crate) fn stream_is_the_connection(log: &Log<'_>) -> Option<(usize, String)> {
    // The clients by their open streams, and those whose stream has ended.
    let (mut open, mut ended) = (BTreeMap::new(), BTreeSet::new());
    for (at, entry) in log.iter().enumerate() {
        match (&entry.what, entry.lane) {
            (What::Endpoint { exchange, .. }, Lane::Server(n)) => drop(open.insert(exchange, n)),
            (What::Lost { exchange, .. }, _) => ended.extend(open.remove(exchange)),
            (What::Requested { head, .. }, Lane::Client(n))
                if ended.contains(&n) && head.starts_with("GET") =>
            {
                return Some((at, "the stream is asked for again".to_owned()));
            }
            // What ends calls may have waited.
            (What::Sent { line }, Lane::Client(n)) if ended.contains(&n) => {
                let begins_call = |message: &Value| {
                    message.get("id").is_some()
                        && message["method"].as_str().is_some_and(|method| method != "tasks/cancel")
                };
                if log.messages(at).iter().any(begins_call) {
                    return Some((at, format!("{line} is sent after the end of the stream")));
                }
            }
            (What::Idle { sessions, .. }, _) if *sessions > 0 => {
                return Some((at, format!("{sessions} sessions are left without a stream")));
            }
            // The run of a task goes on.
            (What::Answered { request }, Lane::Server(n))
                if ended.contains(&n) && request.starts_with("request ") =>
            {
                return Some((at, format!("{request} is answered after the end of the stream")));
            }
            _ => {}
        }
    }
    None
}

pub(crate) fn bytes_are_read(log: &Log<'_>) -> Option<(usize, String)> {
    log.iter().enumerate().find_map(|(at, entry)| match &entry.what {
        What::Unreadable { exchange, fault } => Some((at, format!("exchange {exchange}: {fault}"))),
        _ => None,
    })
}

/// Prefixes of names that have the number of a client behind them.
const NAMES: [&str; 4] = ["principal-", "mark-", "change-", "event-"];

/// Returns a name in a text that belongs to another client than `lane`, or to any if that is none.
fn foreign_name(text: &str, lane: Option<usize>) -> Option<String> {
    NAMES.iter().find_map(|prefix| {
        let is_word = |(at, _): &(usize, &str)| !text[..*at].ends_with(char::is_alphanumeric);
        text.match_indices(prefix).filter(is_word).find_map(|(at, _)| {
            let number: String = text[at + prefix.len()..].chars().take_while(char::is_ascii_digit).collect();
            let owner = number.parse::<usize>().ok()?;
            (Some(owner) != lane).then(|| format!("{prefix}{number}"))
        })
    })
}

pub(crate) fn principals_are_apart(log: &Log<'_>) -> Option<(usize, String)> {
    log.iter().enumerate().find_map(|(at, entry)| {
        let lane = match entry.lane {
            Lane::Client(n) | Lane::Server(n) => Some(n),
            Lane::World => None,
        };
        let text = match (&entry.what, entry.lane) {
            (What::Overheard { text, granted: Some(n) }, _) => {
                return Some((at, format!("a stranger used what is of principal-{n}: {text}")));
            }
            (What::Overheard { text, .. }, _) => text,
            (_, Lane::World) => return None,
            (What::Sent { line: text } | What::Streamed { line: text, .. }, _) => text,
            (What::Posted { body: text, .. }, _) => text,
            (What::Event { text } | What::Ended { outcome: text, .. }, _) => text,
            _ => return None,
        };
        let name = foreign_name(text, lane)?;
        Some((at, format!("{name} in {text}")))
    })
}
