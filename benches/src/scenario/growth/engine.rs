//! Server engines whose messages are written by hand: the growth of an operation is not hidden by a peer.

use alloc::sync::Arc;
use core::hint::black_box;

use bytes::Bytes;
use mcp_proto::model::CallToolResult;
use mcp_proto::server::{Call, Config, Engine, Event};
use mcp_proto::{Capabilities, Capability, ChannelId, Instant, Limits};

use super::super::{TEXT, TIME_STEP, advance};
use crate::wire::{INITIALIZED, text};

/// First request of a legacy client that answers forms.
pub(super) const INITIALIZE: &[u8] = br#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{}}},"clientInfo":{"name":"mcpdrive","version":"1.0.0"}}}"#;

/// Digits of a numbered message.
const DIGITS: usize = 10;

/// A message with a number of ten digits, so that all of a run have one length.
#[derive(Clone, Debug)]
pub(super) struct NumberedMessage {
    text: Vec<u8>,
    number_offset: usize,
}

impl NumberedMessage {
    /// Returns a message with a number in the place of `#`.
    pub(super) fn new(text: &str) -> Self {
        let number_offset = text.find('#').expect("a place for the number");
        Self { text: text.replacen('#', &"0".repeat(DIGITS), 1).into_bytes(), number_offset }
    }

    /// Returns `tools/call` of `echo` whose id is `id` with a number in the place of `#`.
    pub(super) fn call(id: &str) -> Self {
        let text = text(TEXT);
        Self::new(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"echo\",\
             \"arguments\":{{\"text\":\"{text}\"}}}}}}"
        ))
    }

    /// Returns the message with this number.
    pub(super) fn with(&mut self, number: u64) -> &[u8] {
        let mut rest = number;
        for digit in self.text[self.number_offset..self.number_offset + DIGITS].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        black_box(&self.text)
    }
}

/// Smallest number in use: all have ten digits.
pub(super) const FIRST_NUMBER: u64 = 4_000_000_000;

/// A server engine with a virtual clock.
#[derive(Debug)]
pub(super) struct MessageServer {
    pub(super) engine: Engine,
    pub(super) now: Instant,
}

impl MessageServer {
    pub(super) fn new(limits: Limits) -> Self {
        let capabilities = Capabilities::new()
            .with(Capability::Tools)
            .with(Capability::ToolsListChanged)
            .with(Capability::ResourceSubscriptions);
        let config = Config::new("echo", "1.0.0").capabilities(capabilities).limits(limits);
        Self { engine: Engine::new(Arc::new(config)), now: Instant::ZERO }
    }

    /// Opens a channel with a legacy session.
    pub(super) fn open_session(&mut self) -> ChannelId {
        let channel = self.engine.open_channel(self.now);
        self.deliver(channel, INITIALIZE);
        self.deliver(channel, INITIALIZED);
        while self.engine.poll_event(self.now).is_some() {}
        assert!(self.drain(channel) > 0, "an answer");
        channel
    }

    pub(super) fn deliver(&mut self, channel: ChannelId, message: &[u8]) {
        self.engine.handle_message(self.now, channel, Bytes::copy_from_slice(message));
    }

    /// Polls events up to the next call.
    pub(super) fn next_call(&mut self) -> Option<Call> {
        while let Some(event) = self.engine.poll_event(self.now) {
            if let Event::Call(call) = event {
                return Some(call);
            }
        }
        None
    }

    /// Delivers a request and returns its call.
    pub(super) fn deliver_call(&mut self, channel: ChannelId, message: &[u8]) -> Call {
        self.deliver(channel, message);
        self.next_call().expect("a call")
    }

    /// Answers a call and takes the answer from its channel.
    pub(super) fn complete(&mut self, call: &Call) {
        self.engine.complete(self.now, call.id(), &CallToolResult::text("done")).expect("an open call");
        assert!(self.drain(call.channel()) > 0, "an answer");
    }

    /// Advances the time by a step and handles the deadlines that are due, as an adapter does in each turn of its loop.
    pub(super) fn turn(&mut self) {
        advance(&mut self.now, TIME_STEP);
        while self.engine.poll_timeout().is_some_and(|at| at <= self.now) {
            self.engine.handle_timeout(self.now);
        }
    }

    /// Takes all output of a channel and returns its length.
    pub(super) fn drain(&mut self, channel: ChannelId) -> usize {
        let outbox = self.engine.outbox(channel).expect("a channel");
        let mut taken = 0;
        while let sent @ 1.. = outbox.transmit().len() {
            taken += black_box(sent);
            outbox.consume(sent);
        }
        taken
    }

    /// Takes the next message of a channel.
    pub(super) fn pop_message(&mut self, channel: ChannelId) -> Bytes {
        self.engine.outbox(channel).and_then(|outbox| outbox.pop_message()).expect("a message")
    }
}

/// Returns the number that follows `"id":` in a message.
pub(super) fn id_of(message: &[u8]) -> u64 {
    let at = memchr::memmem::find(message, b"\"id\":").expect("an id") + 5;
    let digits = message[at..].iter().take_while(|b| b.is_ascii_digit());
    digits.fold(0, |all, digit| all * 10 + u64::from(digit - b'0'))
}
