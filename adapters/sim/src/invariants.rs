//! Invariants of every world, as functions over its log.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::world::{Entry, Lane, What};

/// A statement that holds in every world.
#[derive(Clone, Copy, Debug)]
pub struct Invariant {
    /// Name, for messages.
    pub name: &'static str,
    /// The statement.
    pub sentence: &'static str,
    /// Finds the first entry of the log that violates it, or its length for what is missing at the end, and the reason.
    pub check: fn(&[Entry]) -> Option<(usize, String)>,
}

/// All invariants.
pub const INVARIANTS: [Invariant; 5] = [
    Invariant {
        name: "call_ends_once",
        sentence: "Each call of a client ends exactly once.",
        check: call_ends_once,
    },
    Invariant {
        name: "request_ends_once",
        sentence: "Each request that a server received is answered or cancelled exactly once.",
        check: request_ends_once,
    },
    Invariant {
        name: "result_reaches_its_call",
        sentence: "A call gets the result of its own request.",
        check: result_reaches_its_call,
    },
    Invariant {
        name: "end_is_last",
        sentence: "A side reports the end of its connection once, and nothing after it.",
        check: end_is_last,
    },
    Invariant {
        name: "rest_is_silent",
        sentence: "Nothing is sent after all has ended, and the memory of ended connections is free.",
        check: rest_is_silent,
    },
];

fn call_ends_once(log: &[Entry]) -> Option<(usize, String)> {
    let mut open = BTreeSet::new();
    for (at, entry) in log.iter().enumerate() {
        match &entry.what {
            What::Called { mark } => drop(open.insert(mark.as_str())),
            What::Ended { mark, .. } if !open.remove(mark.as_str()) => {
                return Some((at, format!("{mark} ended and was not open")));
            }
            _ => {}
        }
    }
    open.first().map(|mark| (log.len(), format!("{mark} has not ended")))
}

fn request_ends_once(log: &[Entry]) -> Option<(usize, String)> {
    let mut open = BTreeSet::new();
    for (at, entry) in log.iter().enumerate() {
        match &entry.what {
            What::Received { request } if !open.insert((entry.lane, request)) => {
                return Some((at, format!("{request} was received twice")));
            }
            What::Answered { request } | What::Cancelled { request }
                if !open.remove(&(entry.lane, request)) =>
            {
                return Some((at, format!("{request} ended and was not open")));
            }
            // What a process had begun ends with it.
            What::Died => open.retain(|(lane, _)| *lane != entry.lane),
            _ => {}
        }
    }
    open.first().map(|(_, request)| (log.len(), format!("{request} has not ended")))
}

fn result_reaches_its_call(log: &[Entry]) -> Option<(usize, String)> {
    log.iter().enumerate().find_map(|(at, entry)| match &entry.what {
        What::Ended { mark, mistake: Some(mistake), .. } => Some((at, format!("{mark}: {mistake}"))),
        _ => None,
    })
}

fn end_is_last(log: &[Entry]) -> Option<(usize, String)> {
    let mut is_ended: BTreeMap<Lane, bool> = BTreeMap::new();
    for (at, entry) in log.iter().enumerate() {
        let ended = is_ended.entry(entry.lane).or_default();
        match &entry.what {
            What::Started | What::Died => *ended = false,
            What::Closed { .. } | What::Received { .. } | What::Ended { .. } | What::Event { .. }
                if *ended =>
            {
                return Some((at, "an event after the end".to_owned()));
            }
            What::Closed { .. } => *ended = true,
            _ => {}
        }
    }
    None
}

fn rest_is_silent(log: &[Entry]) -> Option<(usize, String)> {
    let rest = log.iter().position(|entry| matches!(entry.what, What::Rest));
    let Some(rest) = rest else { return Some((log.len(), "the world does not come to rest".to_owned())) };
    log.iter().enumerate().skip(rest).find_map(|(at, entry)| match &entry.what {
        What::Sent { .. } => Some((at, "a message after the end".to_owned())),
        What::Released { memory } if *memory > 0 => Some((at, format!("{memory} bytes are still held"))),
        _ => None,
    })
}
