//! Invariants of every world, as functions over its log.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use crate::entry::{Lane, What};
use crate::events::{
    event_reaches_its_followers_once, events_are_handed_out, events_keep_their_order,
    forged_delivery_is_refused, gap_has_a_cause, secret_stays_with_its_client,
};
use crate::exchanges::{
    bytes_are_read, principals_are_apart, resumption_continues_its_stream, stream_carries_messages,
    stream_is_the_connection,
};
use crate::messages::{
    Log, answer_is_sent, cancelled_is_not_answered, handshake_precedes_calls, messages_are_sound,
    progress_is_lawful, progress_is_sent, updates_are_subscribed,
};
use crate::world::{CALL_TIMEOUT, CALL_TOTAL_TIMEOUT, CLOCK_JUMPS};

/// A statement that holds in every world.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Invariant {
    /// Name, for messages.
    pub name: &'static str,
    /// The statement.
    pub sentence: &'static str,
    /// Finds the first entry of the log that violates it, or its length for what is missing at the end, and the reason.
    pub check: fn(&Log<'_>) -> Option<(usize, String)>,
}

/// Makes each invariant of the name of its check and its statement.
macro_rules! invariants {
    ($($check:ident $sentence:literal)*) => {
        &[$(Invariant { name: stringify!($check), sentence: $sentence, check: $check }),*]
    };
}

/// All invariants.
pub const INVARIANTS: &[Invariant] = invariants! {
    call_ends_once "Each call of a client ends exactly once."
    request_ends_once "Each request that a server received is answered or cancelled exactly once."
    result_reaches_its_call "A call gets the result of its own request."
    end_is_last "A side reports the end of its connection once, and nothing after it."
    rest_is_silent "Nothing is sent after all has ended, and the memory of ended connections is free."
    call_keeps_its_time "A call ends at its deadline at the latest, and progress extends its timeout."
    progress_belongs_to_an_open_call "A client reports progress of open calls alone."
    cancelled_is_not_answered "A server sends no answer to a request that was cancelled."
    answer_is_sent "A server that lives sends the answer of each request that its application has answered."
    progress_is_lawful "Progress has the token of an open request, and increases."
    progress_is_sent "The last progress of an open request is sent once the link has no faults."
    handshake_precedes_calls "A server receives no call of a session before `initialize`."
    updates_are_subscribed "A session is told of a resource only while it is subscribed."
    reply_reaches_its_question "A request about which its client was asked comes back with the answer to this question."
    messages_are_sound "Each message is compact JSON that names no member twice, fits the session, and answers an open request if it is a response."
    resumption_continues_its_stream "A resumed event stream repeats each event that followed the last one that its client has."
    stream_carries_messages "Over HTTP+SSE all messages of a server come on the event stream, which names the URL for messages once."
    stream_is_the_connection "The end of the event stream of HTTP+SSE ends its client, its session and the requests there."
    bytes_are_read "What one end of HTTP/1.1 writes, the other one reads, wherever it is cut."
    memory_is_bounded "Servers hold no more for their clients than their limits allow."
    principals_are_apart "Nothing of one principal reaches another one."
    events_are_handed_out "A follower gets each event after its position, or is told that some are missing; a delivery is given up after its last attempt."
    event_reaches_its_followers_once "A follower gets events of its principal and its arguments alone, and each once."
    events_keep_their_order "Polls and streams hand events out in their order, and tell of one that is missing in its place."
    gap_has_a_cause "A follower is told of missing events only if some may be."
    forged_delivery_is_refused "A receiver of webhooks takes nothing that its server has not signed, and nothing old."
    secret_stays_with_its_client "The secret of a webhook is in requests of its client alone."
};

fn call_ends_once(log: &Log<'_>) -> Option<(usize, String)> {
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

fn request_ends_once(log: &Log<'_>) -> Option<(usize, String)> {
    let mut open = BTreeSet::new();
    for (at, entry) in log.iter().enumerate() {
        match &entry.what {
            What::Received { request } if !open.insert((entry.lane, request)) => {
                return Some((at, format!("{request} was received twice")));
            }
            What::Answered { request } | What::Cancelled { request } | What::Postponed { request }
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

fn result_reaches_its_call(log: &Log<'_>) -> Option<(usize, String)> {
    log.iter().enumerate().find_map(|(at, entry)| match &entry.what {
        What::Ended { mark, mistake: Some(mistake), .. } => Some((at, format!("{mark}: {mistake}"))),
        _ => None,
    })
}

fn reply_reaches_its_question(log: &Log<'_>) -> Option<(usize, String)> {
    log.iter().enumerate().find_map(|(at, entry)| match &entry.what {
        What::Replied { request, mistake: Some(mistake) } => Some((at, format!("{request}: {mistake}"))),
        _ => None,
    })
}

fn end_is_last(log: &Log<'_>) -> Option<(usize, String)> {
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

fn rest_is_silent(log: &Log<'_>) -> Option<(usize, String)> {
    let rest = log.iter().position(|entry| matches!(entry.what, What::Rest));
    let Some(rest) = rest else { return Some((log.len(), "the world does not come to rest".to_owned())) };
    log.iter().enumerate().skip(rest).find_map(|(at, entry)| match &entry.what {
        What::Sent { .. } => Some((at, "a message after the end".to_owned())),
        What::Idle { exchanges, sessions } if *exchanges + *sessions > 0 => {
            Some((at, format!("{exchanges} exchanges and {sessions} sessions are left")))
        }
        What::Released { memory } if *memory > 0 => Some((at, format!("{memory} bytes are still held"))),
        _ => None,
    })
}

fn memory_is_bounded(log: &Log<'_>) -> Option<(usize, String)> {
    log.iter().enumerate().find_map(|(at, entry)| match &entry.what {
        What::Held { most, bound } if most > bound => {
            Some((at, format!("{most} bytes were held, and {bound} are allowed")))
        }
        _ => None,
    })
}

/// Longest time of a negotiation: a request to a modern server, and two of a handshake.
const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(3 * 60);

fn call_keeps_its_time(log: &Log<'_>) -> Option<(usize, String)> {
    // Start, and the last progress, of each open call.
    let mut open = BTreeMap::new();
    // Calls wait until their client is ready, and their time begins then.
    let mut ready = BTreeSet::new();
    for (at, entry) in log.iter().enumerate() {
        match &entry.what {
            What::Started => drop(ready.remove(&entry.lane)),
            What::Called { mark } => drop(open.insert(mark, (entry.lane, entry.at, entry.at))),
            What::Ready { .. } => {
                ready.insert(entry.lane);
                let waiting = open.values_mut().filter(|(lane, ..)| *lane == entry.lane);
                waiting.for_each(|(_, start, progress)| (*start, *progress) = (entry.at, entry.at));
            }
            What::Progressed { mark } => {
                if let Some((.., progress)) = open.get_mut(mark) {
                    *progress = entry.at;
                }
            }
            // Whoever sleeps is late.
            What::Fault { text } if text == CLOCK_JUMPS => open.clear(),
            What::Ended { mark, outcome, .. } => {
                let Some((_, start, progress)) = open.remove(mark) else { continue };
                let is_sent = ready.contains(&entry.lane);
                if entry.at > start + if is_sent { CALL_TOTAL_TIMEOUT } else { NEGOTIATION_TIMEOUT } {
                    return Some((at, format!("{mark} ended after its total time")));
                }
                let is_timeout = *outcome == mcp_proto::CallError::TimedOut.to_string();
                if is_timeout && entry.at < progress + CALL_TIMEOUT {
                    return Some((at, format!("{mark} ended before its time")));
                }
            }
            _ => {}
        }
    }
    None
}

fn progress_belongs_to_an_open_call(log: &Log<'_>) -> Option<(usize, String)> {
    let mut open = BTreeSet::new();
    for (at, entry) in log.iter().enumerate() {
        match &entry.what {
            What::Called { mark } => drop(open.insert(mark)),
            What::Ended { mark, .. } => drop(open.remove(mark)),
            What::Progressed { mark } if !open.contains(mark) => {
                return Some((at, format!("progress of {mark}, which is not open")));
            }
            _ => {}
        }
    }
    None
}
