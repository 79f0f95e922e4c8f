//! Invariants of exchanges over HTTP, and of the principals that make them.

use alloc::collections::BTreeMap;

use crate::messages::Log;
use crate::world::{Lane, What};

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
