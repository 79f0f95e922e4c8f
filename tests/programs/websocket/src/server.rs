//! The binding of a server engine.

use std::collections::{BTreeMap, VecDeque};

use mcp_proto::server::{Engine, ExchangeToken};
use mcp_proto::{ChannelId, Instant};

use crate::frame::{self, SESSION};

/// Largest number of exchanges of a connection. A client that opens more violates the protocol of this binding.
pub const MAX_EXCHANGES: usize = 256;

/// A client of the server: one WebSocket connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConnectionId(u32);

/// A connection is to be closed, because its client sent what is not a frame of this binding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ViolatedProtocol(pub &'static str);

#[derive(Debug)]
struct Connection {
    session: ChannelId,
    exchanges: BTreeMap<u32, Exchange>,
    last_number: u32,
    /// Exchanges with output, which may be named twice.
    ready: VecDeque<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Exchange {
    channel: ChannelId,
    /// The client has ended the exchange, so its output is dropped.
    is_abandoned: bool,
}

/// One engine for all connections.
#[derive(Debug)]
pub struct Server {
    engine: Engine,
    connections: BTreeMap<ConnectionId, Connection>,
    last_connection: u32,
}

fn token(connection: ConnectionId, number: u32) -> ExchangeToken {
    ExchangeToken(u64::from(connection.0) << 32 | u64::from(number))
}

impl Server {
    pub fn new(engine: Engine) -> Self {
        Self { engine, connections: BTreeMap::new(), last_connection: 0 }
    }

    /// Returns the engine, for its events, timeouts and commands.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Adds a connection.
    pub fn accept(&mut self, now: Instant) -> ConnectionId {
        self.last_connection += 1;
        let id = ConnectionId(self.last_connection);
        let session = self.engine.exchanges().open_session(now, Some(token(id, SESSION)));
        let (exchanges, ready) = (BTreeMap::new(), VecDeque::new());
        self.connections.insert(id, Connection { session, exchanges, last_number: SESSION, ready });
        id
    }

    /// Returns whether the server has no connection, and the engine nothing of one.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.engine.live_calls() == 0
    }

    /// Returns whether reading from a connection should pause.
    pub fn is_stalled(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_none_or(|connection| self.engine.is_stalled(connection.session))
    }

    /// Returns whether a connection is to be closed: the engine has ended its session, and its exchanges are over.
    pub fn is_closed(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_none_or(|connection| {
            connection.exchanges.is_empty() && self.engine.exchange_status(connection.session).is_closed
        })
    }

    /// Takes a frame of a client.
    pub fn handle_frame(
        &mut self,
        now: Instant,
        id: ConnectionId,
        text: &str,
    ) -> Result<(), ViolatedProtocol> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let (number, message) = frame::parse(text).ok_or(ViolatedProtocol("not a frame"))?;
        let Some(message) = message else {
            if let Some(exchange) = connection.exchanges.get_mut(&number) {
                exchange.is_abandoned = true;
                if !self.engine.exchanges().handle_disconnect(now, exchange.channel) {
                    connection.exchanges.remove(&number);
                    // A client that reads nothing must not fill the queue with exchanges that it ended.
                    connection.ready.retain(|ready| *ready != number);
                }
            }
            return Ok(());
        };
        if number <= connection.last_number {
            return Err(ViolatedProtocol("a number of an exchange was used again"));
        }
        if connection.exchanges.len() >= MAX_EXCHANGES {
            return Err(ViolatedProtocol("too many exchanges at once"));
        }
        connection.last_number = number;
        let message = bytes::Bytes::copy_from_slice(message.as_bytes());
        let channel = self.engine.exchanges().open(now, Some(connection.session), token(id, number), message);
        connection.exchanges.insert(number, Exchange { channel, is_abandoned: false });
        // An exchange that needs no answer never has output.
        connection.ready.push_back(number);
        Ok(())
    }

    /// Removes a connection and cancels its calls.
    pub fn close(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.connections.remove(&id) else { return };
        for exchange in connection.exchanges.into_values() {
            self.engine.exchanges().close(now, exchange.channel);
        }
        self.engine.exchanges().close(now, connection.session);
    }

    /// Returns the next frame to send to a client. Frames that are not taken stay in the engine, which bounds them.
    pub fn poll_frame(&mut self, now: Instant, id: ConnectionId) -> Option<String> {
        while let Some(ExchangeToken(token)) = self.engine.exchanges().poll_ready() {
            let (connection, number) = (ConnectionId((token >> 32) as u32), token as u32);
            let connection = self.connections.get_mut(&connection);
            let is_open = |c: &&mut Connection| number == SESSION || c.exchanges.contains_key(&number);
            if let Some(connection) = connection.filter(is_open) {
                connection.ready.push_back(number);
            }
        }
        let connection = self.connections.get_mut(&id)?;
        while let Some(number) = connection.ready.pop_front() {
            let (channel, is_abandoned) = match connection.exchanges.get(&number) {
                Some(exchange) => (exchange.channel, exchange.is_abandoned),
                None if number == SESSION => (connection.session, false),
                None => continue,
            };
            let Some(output) = self.engine.exchanges().output(channel) else { continue };
            let is_over = number != SESSION && !output.status.is_open;
            if let Some(message) = output.outbox.pop_message() {
                connection.ready.push_front(number);
                if !is_abandoned {
                    return Some(frame::message(number, &message));
                }
            } else if is_over {
                self.engine.exchanges().close(now, channel);
                connection.exchanges.remove(&number);
                if !is_abandoned {
                    return Some(frame::end(number));
                }
            }
        }
        None
    }
}
