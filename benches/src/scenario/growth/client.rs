//! Client engines whose server is written by hand.

use alloc::sync::Arc;
use core::hint::black_box;

use bytes::Bytes;
use mcp_proto::client::{Config, Engine, Event, KnownEra};
use mcp_proto::{CallKey, CallOptions, Capabilities, Capability, ChannelId, Instant, Limits};

use super::super::{EchoArguments, TEXT, TIME_STEP, advance};
use super::engine::id_of;
use crate::wire::text;

/// Result of `server/discover`.
const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}},"ttlMs":0,"cacheScope":"private"}"#;
/// Result of `initialize`.
const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}},"serverInfo":{"name":"echo","version":"1.0.0"}}"#;

/// Result of a call.
pub(super) const CALL_RESULT: &str = r#"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#;

/// Returns the response to a request.
pub(super) fn response(id: u64, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

/// Returns the response to a request of the negotiation; `None` for other messages.
pub(super) fn negotiation_response(message: &[u8]) -> Option<String> {
    let asks = |method: &str| memchr::memmem::find(message, method.as_bytes()).is_some();
    let result = if asks("\"server/discover\"") {
        DISCOVERED
    } else if asks("\"initialize\"") {
        INITIALIZED
    } else {
        return None;
    };
    Some(response(id_of(message), result))
}

/// Returns the configuration of a client.
pub(super) fn config(era: KnownEra, limits: Limits) -> Arc<Config> {
    let capabilities = Capabilities::new().with(Capability::ElicitationForm).with(Capability::ElicitationUrl);
    let config = Config::new("mcpdrive", "1.0.0").capabilities(capabilities).known_era(Some(era));
    Arc::new(config.limits(limits))
}

/// The arguments of all calls.
#[derive(Debug)]
pub(super) struct EchoText(String);

impl EchoText {
    pub(super) fn new() -> Self {
        Self(text(TEXT))
    }

    /// Starts a call.
    pub(super) fn call(&self, engine: &mut Engine, now: Instant) -> CallKey {
        let arguments = EchoArguments { text: black_box(&self.0) };
        engine.call_tool(now, "echo", &arguments, &CallOptions::default()).expect("a call")
    }
}

/// A client engine with a virtual clock.
#[derive(Debug)]
pub(super) struct MessageClient {
    pub(super) engine: Engine,
    pub(super) channel: ChannelId,
    pub(super) now: Instant,
    pub(super) text: EchoText,
}

impl MessageClient {
    /// Returns a client that does not know its server yet.
    pub(super) fn unconnected(era: KnownEra, limits: Limits) -> Self {
        let mut engine = Engine::new(config(era, limits));
        let channel = engine.open_channel(Instant::ZERO);
        Self { engine, channel, now: Instant::ZERO, text: EchoText::new() }
    }

    /// Returns a client that is ready for calls.
    pub(super) fn connected(era: KnownEra, limits: Limits) -> Self {
        let mut client = Self::unconnected(era, limits);
        while let Some(message) = client.pop_message() {
            if let Some(response) = negotiation_response(&message) {
                client.deliver(&response);
            }
            while client.engine.poll_event(client.now).is_some() {}
        }
        assert!(client.engine.peer().is_some(), "connected");
        client
    }

    pub(super) fn deliver(&mut self, message: &str) {
        self.engine.handle_message(self.now, self.channel, Bytes::copy_from_slice(message.as_bytes()));
    }

    pub(super) fn pop_message(&mut self) -> Option<Bytes> {
        self.engine.outbox(self.channel)?.pop_message()
    }

    /// Starts a call and returns its key and the id of its request.
    pub(super) fn start_call(&mut self) -> (CallKey, u64) {
        let key = self.text.call(&mut self.engine, self.now);
        (key, id_of(&self.pop_message().expect("a request")))
    }

    /// Takes the end of a call.
    pub(super) fn expect_done(&mut self) {
        let event = self.engine.poll_event(self.now);
        assert!(matches!(event, Some(Event::Done { .. })), "the end of a call: {event:?}");
    }

    /// Drops all output.
    pub(super) fn discard(&mut self) {
        while self.pop_message().is_some() {}
    }

    /// Advances the time by a step and handles the deadlines that are due, as an adapter does in each turn of its loop.
    pub(super) fn turn(&mut self) {
        advance(&mut self.now, TIME_STEP);
        while self.engine.poll_timeout().is_some_and(|at| at <= self.now) {
            self.engine.handle_timeout(self.now);
        }
    }
}
