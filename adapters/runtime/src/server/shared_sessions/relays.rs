//! Streams of calls that clients resume at another process than the one that has them.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::http::server::{ExchangeId, OpenedRelay, Server, SessionId};
use mcp_std::session_store::PROCESSES;

use super::message::{Message, RelayName, StreamPart};

/// The number of a part that follows none: the stream has a hole, so its response ends.
const HOLE: u32 = u32::MAX;

/// Time since a process was asked for a stream, by any other, in which its silence means that it has ended. After that it is
/// asked again: a message may have been lost.
const ENDED: Range<Duration> = Duration::from_secs(2)..Duration::from_secs(60);
/// Time after a gap in which a process that does not watch has perhaps lost its connection, too, and has no new one yet.
const RECONNECTING: Duration = Duration::from_secs(30);

/// The streams of other processes that clients resume here, and those here that they resume there.
pub(super) struct Relays {
    /// The requests that resume streams of other processes, by a number.
    resumed: BTreeMap<u32, Resumed>,
    last_resumed: u32,
    /// The streams that are open for other processes.
    open: Vec<Relay>,
    /// When the processes with these numbers were asked for a stream, of which nothing was heard since; up to [`PROCESSES`].
    asked: BTreeMap<u32, Instant>,
    /// When a gap in what others have said was noticed the last time.
    gap: Option<Instant>,
}

/// A request that resumes a stream of another process.
struct Resumed {
    id: SessionId,
    exchange: ExchangeId,
    /// The process that was asked.
    process: u32,
    /// The number of the part that comes next.
    next: u32,
}

/// A stream of a call that is open for the request of another process.
struct Relay {
    name: RelayName,
    exchange: ExchangeId,
    /// The number of the part that goes next.
    next: u32,
}

/// Returns the number that streams of a process have.
pub(super) const fn number_of(process: u32) -> u32 {
    process % PROCESSES
}

impl Relays {
    /// `begin` is random: a process that got the number of an earlier one does not take what was meant for that.
    pub(super) const fn new(begin: u32) -> Self {
        Self {
            resumed: BTreeMap::new(),
            last_resumed: begin,
            open: Vec::new(),
            asked: BTreeMap::new(),
            gap: None,
        }
    }

    /// Notes what a process has said to all.
    pub(super) fn hear(&mut self, now: Instant, process: u32, message: &Message) {
        self.asked.remove(&number_of(process));
        if let Message::Resume(_, to, ..) = message {
            let since = self.asked.entry(*to).or_insert(now);
            if now.saturating_duration_since(*since) >= ENDED.end {
                *since = now;
            }
        }
    }

    /// Returns whether the process with a number has ended, as far as is known here.
    ///
    /// Where processes end one after another, each may end before it has waited for the answer of the first one. So one knows
    /// whom the others have asked.
    pub(super) fn has_ended(&self, now: Instant, process: u32) -> bool {
        let since = self.asked.get(&process);
        since.is_some_and(|since| ENDED.contains(&now.saturating_duration_since(*since)))
    }

    /// Asks the process with a number for the stream of a call. `None` if it has ended: the call is lost.
    pub(super) fn resume(
        &mut self,
        now: Instant,
        server: &mut Server,
        exchange: ExchangeId,
        (id, process, after): (SessionId, u32, String),
    ) -> Option<Message> {
        if self.has_ended(now, process) {
            server.shared_sessions().call_is_lost(now, exchange);
            return None;
        }
        // Those whose clients are gone have no end of their own, and an earlier process that was asked does not matter any more.
        self.resumed
            .retain(|_, resumed| resumed.exchange != exchange && !server.is_finished(resumed.exchange));
        self.last_resumed = self.last_resumed.wrapping_add(1);
        self.resumed.insert(self.last_resumed, Resumed { id: id.clone(), exchange, process, next: 0 });
        Some(Message::Resume(id, process, self.last_resumed, after))
    }

    /// Returns whether no process was asked for a stream.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// Returns the number of processes that were asked, and of which nothing was heard since.
    #[cfg(test)]
    pub(super) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// Returns the number of the latest request.
    #[cfg(test)]
    pub(super) const fn last_request(&self) -> u32 {
        self.last_resumed
    }

    /// Ends a request to resume a stream that no process was asked for, so that its client asks again.
    pub(super) fn refuse(&mut self, now: Instant, server: &mut Server, request: u32) {
        if let Some(resumed) = self.resumed.remove(&request) {
            end(now, server, resumed.exchange);
        }
    }

    /// Ends all requests for streams of a process that watches no more: it has ended, and its silence need not be waited for.
    pub(super) fn end_process(&mut self, now: Instant, server: &mut Server, process: u32) {
        if self.gap.is_some_and(|gap| now.saturating_duration_since(gap) < RECONNECTING) {
            return;
        }
        self.resumed.retain(|_, resumed| {
            let is_lost = resumed.process == process && resumed.next == 0;
            if is_lost {
                server.shared_sessions().call_is_lost(now, resumed.exchange);
            }
            !is_lost
        });
    }

    /// Ends all requests that resume streams after a gap: parts of these may be lost.
    pub(super) fn end_all(&mut self, now: Instant, server: &mut Server) {
        self.gap = Some(now);
        self.asked.clear();
        for resumed in core::mem::take(&mut self.resumed).into_values() {
            end(now, server, resumed.exchange);
        }
    }

    /// Opens the stream of a call for a request of another process. Returns what to tell it, if anything.
    pub(super) fn open(
        &mut self,
        now: Instant,
        server: &mut Server,
        name: RelayName,
        after: &str,
    ) -> Option<Message> {
        if self.open.iter().any(|relay| relay.name == name) {
            // The store may deliver a message twice.
            return None;
        }
        let opened = server.shared_sessions().open_relay(now, &name.id, after);
        // A stream that is open may be silent for long.
        let part = match opened {
            OpenedRelay::Open(exchange) => {
                self.open.push(Relay { name: name.clone(), exchange, next: 1 });
                StreamPart::More
            }
            OpenedRelay::EventIsGone => StreamPart::EventIsGone,
            OpenedRelay::Unknown => StreamPart::Unknown,
        };
        Some(Message::Stream(name, 0, part, Vec::new()))
    }

    /// Takes a part of a stream of another process. Returns what to tell it, if anything.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        server: &mut Server,
        name: RelayName,
        (number, part, bytes): (u32, StreamPart, Vec<u8>),
    ) -> Option<Message> {
        let request = name.request;
        let Some(resumed) = self.resumed.get_mut(&request).filter(|resumed| resumed.id == name.id) else {
            // Its client is gone, or it was ended here.
            return (part == StreamPart::More).then(|| Message::StopStream(name));
        };
        if number < resumed.next {
            // The store may deliver a message twice.
            return None;
        }
        let exchange = resumed.exchange;
        let has_hole = number > resumed.next;
        resumed.next = resumed.next.saturating_add(1);
        if has_hole || part != StreamPart::More {
            self.resumed.remove(&request);
        }
        if has_hole {
            // The client resumes it, and gets what is missing.
            end(now, server, exchange);
            return (part == StreamPart::More).then(|| Message::StopStream(name));
        }
        let mut sessions = server.shared_sessions();
        match part {
            StreamPart::Unknown => sessions.call_is_lost(now, exchange),
            StreamPart::EventIsGone => sessions.event_is_gone(now, exchange),
            StreamPart::More | StreamPart::Last => {
                let goes_on = sessions.relay(now, exchange, &bytes.into(), part == StreamPart::Last);
                if !goes_on {
                    self.resumed.remove(&request);
                    return (part == StreamPart::More).then(|| Message::StopStream(name));
                }
            }
        }
        None
    }

    /// Ends a stream that a request of another process does not need any more.
    pub(super) fn stop(&mut self, now: Instant, server: &mut Server, name: &RelayName) {
        if let Some(at) = self.open.iter().position(|relay| relay.name == *name) {
            server.handle_gone(now, self.open.swap_remove(at).exchange);
        }
    }

    /// Ends a stream one of whose parts may not have arrived. Returns what to tell the other process, if anything.
    pub(super) fn lose_part(
        &mut self,
        now: Instant,
        server: &mut Server,
        name: RelayName,
        number: u32,
    ) -> Option<Message> {
        self.stop(now, server, &name);
        (number != HOLE).then(|| Message::Stream(name, HOLE, StreamPart::Last, Vec::new()))
    }

    /// Returns whether a stream is open for another process.
    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Passes on what the streams have that are open for other processes. Returns whether there was anything.
    ///
    /// `tell` returns whether it has taken a message.
    pub(super) fn drive(
        &mut self,
        now: Instant,
        server: &mut Server,
        tell: impl Fn(Message) -> bool,
    ) -> bool {
        let mut any = false;
        self.open.retain_mut(|relay| {
            loop {
                let bytes = server.transmit(now, relay.exchange).to_vec();
                server.consume(relay.exchange, bytes.len());
                let is_last = server.is_finished(relay.exchange);
                if bytes.is_empty() && !is_last {
                    return true;
                }
                any = true;
                let part = if is_last { StreamPart::Last } else { StreamPart::More };
                let told = tell(Message::Stream(relay.name.clone(), relay.next, part, bytes));
                relay.next = relay.next.saturating_add(1);
                if !told || is_last {
                    // Without a part the stream has no meaning: it ends, and its client resumes it.
                    server.release(now, relay.exchange);
                    return false;
                }
            }
        });
        any
    }
}

/// Ends a response, or refuses the request for it, after which its client resumes the stream again.
fn end(now: Instant, server: &mut Server, exchange: ExchangeId) {
    let mut sessions = server.shared_sessions();
    sessions.unavailable(now, exchange);
    sessions.relay(now, exchange, &[].as_slice().into(), true);
}
