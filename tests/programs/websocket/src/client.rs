//! The binding of a client engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcp_proto::client::{Config, Engine};
use mcp_proto::{CallError, Era, Fault, Instant, RequestId};

use crate::frame;

/// A client on one WebSocket connection.
#[derive(Debug)]
pub struct Client {
    engine: Engine,
    /// Open exchanges of requests. Nothing is awaited in that of a notification or a response.
    exchanges: BTreeMap<u32, RequestId>,
    /// Requests that repeat a lost one, and are not repeated again.
    repetitions: BTreeSet<RequestId>,
    last_number: u32,
    is_closed: bool,
}

impl Client {
    /// Creates a client that begins the negotiation.
    pub fn new(config: Arc<Config>, now: Instant) -> Self {
        let mut engine = Engine::with_exchanges(config);
        engine.open_channel(now);
        Self {
            engine,
            exchanges: BTreeMap::new(),
            repetitions: BTreeSet::new(),
            last_number: frame::SESSION,
            is_closed: false,
        }
    }

    /// Returns the engine, for its events, timeouts and commands.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Returns the number of open exchanges.
    pub fn open_exchanges(&self) -> usize {
        self.exchanges.len()
    }

    /// Takes a frame of the server. Frames of exchanges that this client ended meanwhile have no effect.
    pub fn handle_frame(&mut self, now: Instant, text: &str) {
        let Some((number, message)) = frame::parse(text) else {
            let reason = "the server sent what is not a frame";
            return self.close(now, Fault::Transport { reason: reason.into() });
        };
        match (message, self.exchanges.get(&number)) {
            (Some(message), request) if request.is_some() || number == frame::SESSION => {
                let message = bytes::Bytes::copy_from_slice(message.as_bytes());
                self.engine.exchanges().handle_message(now, message, request);
            }
            (None, Some(_)) => {
                if let Some(request) = self.exchanges.remove(&number) {
                    self.request_ended(now, &request);
                }
            }
            _ => {}
        }
    }

    /// Repeats a request without an answer, or reports that there is none.
    fn request_ended(&mut self, now: Instant, request: &RequestId) {
        // A server that ends each exchange would get the request for ever.
        let is_repeatable = !self.repetitions.remove(request) && self.engine.is_idempotent(request);
        let repetition =
            is_repeatable.then(|| self.engine.exchanges().resend_request(now, request)).flatten();
        if let Some(repetition) = repetition {
            self.repetitions.insert(repetition);
        } else {
            let reason = "the server ended the exchange without an answer".into();
            self.engine.exchanges().fail_request(now, request, CallError::Transport { reason });
        }
    }

    /// Returns whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Handles the end of the connection.
    pub fn handle_close(&mut self, now: Instant) {
        self.close(now, Fault::Eof);
    }

    fn close(&mut self, now: Instant, fault: Fault) {
        self.is_closed = true;
        self.engine.exchanges().close(now, fault);
    }

    /// Returns the next frame to send.
    pub fn poll_frame(&mut self) -> Option<String> {
        loop {
            let message = self.engine.exchanges().poll_message()?;
            let is_modern = self.engine.peer().is_some_and(|peer| peer.era() == Era::Modern);
            if let Some(cancelled) = message.cancels {
                self.repetitions.remove(&cancelled);
                let number = self.exchanges.iter().find(|(_, id)| **id == cancelled).map(|(n, _)| *n);
                // Without an exchange, the request was cancelled before it was sent.
                let Some(number) = number else { continue };
                self.exchanges.remove(&number);
                if is_modern {
                    return Some(frame::end(number));
                }
            }
            self.last_number += 1;
            if let Some(request) = message.request {
                self.exchanges.insert(self.last_number, request);
            }
            return Some(frame::message(self.last_number, &message.text));
        }
    }
}
