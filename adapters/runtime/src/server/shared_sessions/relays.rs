//! Streams of calls that clients resume at another process than the one that has them.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use mcp_proto::Instant;
use mcp_proto::http::server::{ExchangeId, Server, SessionId};

use super::message::{Message, StreamPart};

/// Number of processes whose streams have different numbers (see [`mcp_proto::http::server::SharedSessions::begin`]).
const PROCESSES: u32 = 1024;

/// The streams of other processes that clients resume here, and those here that they resume there.
#[derive(Default)]
pub(super) struct Relays {
    /// The requests that resume streams of other processes, by a number.
    resumed: BTreeMap<u32, ExchangeId>,
    last_resumed: u32,
    /// The streams that are open for other processes.
    open: Vec<Relay>,
}

/// A stream of a call that is open for the request of another process.
struct Relay {
    exchange: ExchangeId,
    process: u32,
    request: u32,
}

impl Relay {
    fn part(&self, part: StreamPart, bytes: Vec<u8>) -> Message {
        Message::Stream(number_of(self.process), self.request, part, bytes)
    }
}

/// Returns the number that streams of a process have.
pub(super) const fn number_of(process: u32) -> u32 {
    process % PROCESSES
}

impl Relays {
    /// Asks the process with a number for the stream of a call.
    pub(super) fn resume(
        &mut self,
        server: &Server,
        exchange: ExchangeId,
        (id, process, after): (SessionId, u32, String),
    ) -> Message {
        // Those whose clients are gone have no end of their own.
        self.resumed.retain(|_, exchange| !server.is_finished(*exchange));
        self.last_resumed = self.last_resumed.wrapping_add(1);
        self.resumed.insert(self.last_resumed, exchange);
        Message::Resume(id, process, self.last_resumed, after)
    }

    /// Opens the stream of a call for a request of another process.
    pub(super) fn open(
        &mut self,
        now: Instant,
        server: &mut Server,
        (process, request): (u32, u32),
        (id, after): (&SessionId, &str),
    ) -> Message {
        let opened = server.shared_sessions().open_relay(now, id, after);
        // A stream that is open may be silent for long.
        let part = if opened.is_some() { StreamPart::More } else { StreamPart::Unknown };
        self.open.extend(opened.map(|exchange| Relay { exchange, process, request }));
        Message::Stream(number_of(process), request, part, Vec::new())
    }

    /// Takes a part of a stream of another process. Returns what to tell it, if anything.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        server: &mut Server,
        (process, request): (u32, u32),
        (part, bytes): (StreamPart, Vec<u8>),
    ) -> Option<Message> {
        let exchange = self.resumed.get(&request).copied()?;
        if part != StreamPart::More {
            self.resumed.remove(&request);
        }
        let mut sessions = server.shared_sessions();
        if part == StreamPart::Unknown {
            sessions.call_is_lost(now, exchange);
            return None;
        }
        let goes_on = sessions.relay(now, exchange, &bytes.into(), part == StreamPart::Last);
        (!goes_on).then(|| Message::StopStream(number_of(process), request))
    }

    /// Ends a stream that a request of another process does not need any more.
    pub(super) fn stop(&mut self, now: Instant, server: &mut Server, process: u32, request: u32) {
        let is_it = |relay: &Relay| relay.process == process && relay.request == request;
        if let Some(at) = self.open.iter().position(is_it) {
            server.handle_gone(now, self.open.swap_remove(at).exchange);
        }
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
        self.open.retain(|relay| {
            loop {
                let bytes = server.transmit(now, relay.exchange).to_vec();
                server.consume(relay.exchange, bytes.len());
                let is_last = server.is_finished(relay.exchange);
                if bytes.is_empty() && !is_last {
                    return true;
                }
                any = true;
                let part = if is_last { StreamPart::Last } else { StreamPart::More };
                if !tell(relay.part(part, bytes)) || is_last {
                    // Without a part the stream has no meaning: it ends, and its client resumes it.
                    server.release(now, relay.exchange);
                    return false;
                }
            }
        });
        any
    }
}
