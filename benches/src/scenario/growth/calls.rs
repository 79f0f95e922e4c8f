//! Calls at a server: in flight, parked, waiting, cancelled and expired, beside others.

use core::time::Duration;

use mcp_proto::model::{ElicitSchema, StringSchema};
use mcp_proto::server::{Call, Event, InputRequired};
use mcp_proto::{ChannelId, Fault};

use super::super::{Scenario, TIME_STEP};
use super::engine::{FIRST_NUMBER, MessageServer, NumberedMessage, id_of};
use super::{Scattered, limits, warmed_up};

/// The order of the ids of one channel.
#[derive(Clone, Copy, Debug)]
pub(super) enum IdOrder {
    Up,
    Down,
    Random,
    /// Strings, upward.
    Text,
}

impl IdOrder {
    /// Returns the id of the `index`th call.
    const fn id(self, index: u64) -> u64 {
        /// Odd and without the factor 5: a permutation of the numbers below a power of ten.
        const SCATTER: u64 = 2_654_435_761;
        match self {
            Self::Up | Self::Text => FIRST_NUMBER + index,
            Self::Down => FIRST_NUMBER - index,
            Self::Random => FIRST_NUMBER + (index * SCATTER) % 1_000_000_000,
        }
    }
}

/// A call on a channel with `n` calls in flight.
pub(super) struct CallBeside {
    server: MessageServer,
    channel: ChannelId,
    request: NumberedMessage,
    order: IdOrder,
    next: u64,
}

impl CallBeside {
    pub(super) fn new(order: IdOrder, n: usize) -> Self {
        let mut server = MessageServer::new(limits(n));
        let channel = server.open_session();
        let id = if matches!(order, IdOrder::Text) { "\"call-#\"" } else { "#" };
        let mut request = NumberedMessage::call(id);
        for index in 0..n as u64 {
            server.deliver_call(channel, request.with(order.id(index)));
        }
        warmed_up(Self { server, channel, request, order, next: n as u64 })
    }
}

impl Scenario for CallBeside {
    fn run_once(&mut self) {
        let id = self.order.id(self.next);
        self.next += 1;
        let call = self.server.deliver_call(self.channel, self.request.with(id));
        self.server.complete(&call);
        self.server.turn();
    }
}

/// A call on one of `n` sessions, each with a call in flight.
pub(super) struct CallOfSession {
    server: MessageServer,
    channels: Vec<ChannelId>,
    request: NumberedMessage,
    order: Scattered,
    next: u64,
}

impl CallOfSession {
    pub(super) fn new(n: usize) -> Self {
        let mut server = MessageServer::new(limits(n));
        let mut request = NumberedMessage::call("#");
        let mut channels = Vec::with_capacity(n);
        for _ in 0..n {
            let channel = server.open_session();
            server.deliver_call(channel, request.with(FIRST_NUMBER));
            channels.push(channel);
        }
        warmed_up(Self { server, channels, request, order: Scattered::new(n), next: FIRST_NUMBER })
    }
}

impl Scenario for CallOfSession {
    fn run_once(&mut self) {
        self.next += 1;
        let channel = self.channels[self.order.advance()];
        let call = self.server.deliver_call(channel, self.request.with(self.next));
        self.server.complete(&call);
        self.server.turn();
    }
}

/// The arrival of a call, and the cancellation of one of `n` that are in flight on its channel.
pub(super) struct CancelCall {
    server: MessageServer,
    channel: ChannelId,
    request: NumberedMessage,
    cancellation: NumberedMessage,
    ids: Vec<u64>,
    order: Scattered,
    next: u64,
}

/// Returns the cancellation of a call.
fn cancellation() -> NumberedMessage {
    NumberedMessage::new(
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":#}}",
    )
}

impl CancelCall {
    pub(super) fn new(n: usize) -> Self {
        let mut server = MessageServer::new(limits(n));
        let channel = server.open_session();
        let mut request = NumberedMessage::call("#");
        let ids: Vec<u64> = (FIRST_NUMBER..).take(n).collect();
        for id in &ids {
            server.deliver_call(channel, request.with(*id));
        }
        let (order, next) = (Scattered::new(n), FIRST_NUMBER + n as u64);
        let cancellation = cancellation();
        warmed_up(Self { server, channel, request, cancellation, ids, order, next })
    }
}

impl Scenario for CancelCall {
    fn run_once(&mut self) {
        self.server.deliver_call(self.channel, self.request.with(self.next));
        let cancelled = core::mem::replace(&mut self.ids[self.order.advance()], self.next);
        self.next += 1;
        self.server.deliver(self.channel, self.cancellation.with(cancelled));
        let event = self.server.engine.poll_event(self.server.now);
        assert!(matches!(event, Some(Event::Cancelled { .. })), "the end of a call");
        self.server.turn();
    }
}

/// The arrival of a call, and the end of the oldest of `n` by its deadline.
pub(super) struct ExpireCall {
    server: MessageServer,
    channel: ChannelId,
    request: NumberedMessage,
    next: u64,
}

impl ExpireCall {
    pub(super) fn new(n: usize) -> Self {
        let mut limits = limits(n);
        limits.max_call_age = TIME_STEP * u32::try_from(n).expect("a number of calls");
        let mut server = MessageServer::new(limits);
        let channel = server.open_session();
        let mut expire = Self { server, channel, request: NumberedMessage::call("#"), next: FIRST_NUMBER };
        for _ in 0..n {
            expire.deliver();
        }
        warmed_up(expire)
    }

    fn deliver(&mut self) {
        self.next += 1;
        self.server.deliver_call(self.channel, self.request.with(self.next));
        self.server.turn();
    }
}

impl Scenario for ExpireCall {
    fn run_once(&mut self) {
        self.deliver();
        let event = self.server.engine.poll_event(self.server.now);
        assert!(matches!(event, Some(Event::Cancelled { .. })), "the end of a call");
        assert!(self.server.drain(self.channel) > 0, "an error");
    }
}

/// The end of one of `n` sessions, and the begin of another.
pub(super) struct OpenSession {
    server: MessageServer,
    channels: Vec<ChannelId>,
    order: Scattered,
}

impl OpenSession {
    pub(super) fn new(n: usize) -> Self {
        let mut server = MessageServer::new(limits(n));
        let channels = (0..n).map(|_| server.open_session()).collect();
        warmed_up(Self { server, channels, order: Scattered::new(n) })
    }
}

impl Scenario for OpenSession {
    fn run_once(&mut self) {
        let fresh = self.server.open_session();
        let ended = core::mem::replace(&mut self.channels[self.order.advance()], fresh);
        self.server.engine.close_channel(self.server.now, ended, &Fault::Eof);
        while self.server.engine.poll_event(self.server.now).is_some() {}
        self.server.engine.release_channel(ended);
        self.server.turn();
    }
}

/// The end of a call, which admits the oldest of `n` waiting requests, and the arrival of another.
pub(super) struct WaitingCall {
    server: MessageServer,
    request: NumberedMessage,
    live: Call,
    next: u64,
}

impl WaitingCall {
    /// The requests wait on one channel, or on one channel each.
    pub(super) fn new(n: usize, apart: bool) -> Self {
        let mut limits = limits(n);
        limits.max_live_calls = 1;
        let mut server = MessageServer::new(limits);
        let mut request = NumberedMessage::call("#");
        let mut channel = server.open_session();
        let live = server.deliver_call(channel, request.with(FIRST_NUMBER));
        let mut waiting = Self { server, request, live, next: FIRST_NUMBER + 1 };
        for _ in 0..n {
            if apart {
                channel = waiting.server.open_session();
            }
            waiting.deliver(channel);
        }
        assert!(waiting.server.next_call().is_none(), "they wait");
        warmed_up(waiting)
    }

    fn deliver(&mut self, channel: ChannelId) {
        self.server.deliver(channel, self.request.with(self.next));
        self.next += 1;
    }
}

impl Scenario for WaitingCall {
    fn run_once(&mut self) {
        self.deliver(self.live.channel());
        self.server.complete(&self.live);
        self.live = self.server.next_call().expect("the oldest request");
        self.server.turn();
    }
}

/// The arrival of a request that waits, and the cancellation of one of `n` that wait on its channel.
pub(super) struct CancelWaiting {
    server: MessageServer,
    channel: ChannelId,
    request: NumberedMessage,
    cancellation: NumberedMessage,
    ids: Vec<u64>,
    order: Scattered,
    next: u64,
}

impl CancelWaiting {
    pub(super) fn new(n: usize) -> Self {
        let mut limits = limits(n);
        limits.max_live_calls = 1;
        let mut server = MessageServer::new(limits);
        let channel = server.open_session();
        let mut request = NumberedMessage::call("#");
        server.deliver_call(channel, request.with(FIRST_NUMBER));
        let ids: Vec<u64> = (FIRST_NUMBER + 1..).take(n).collect();
        for id in &ids {
            server.deliver(channel, request.with(*id));
        }
        assert!(server.next_call().is_none(), "they wait");
        let (order, next) = (Scattered::new(n), FIRST_NUMBER + 1 + n as u64);
        let cancellation = cancellation();
        warmed_up(Self { server, channel, request, cancellation, ids, order, next })
    }
}

impl Scenario for CancelWaiting {
    fn run_once(&mut self) {
        self.server.deliver(self.channel, self.request.with(self.next));
        let cancelled = core::mem::replace(&mut self.ids[self.order.advance()], self.next);
        self.next += 1;
        self.server.deliver(self.channel, self.cancellation.with(cancelled));
        assert!(self.server.next_call().is_none(), "they wait");
        self.server.turn();
    }
}

/// A call with one input request, beside `n` parked calls.
pub(super) struct LegacyRound {
    server: MessageServer,
    channels: Vec<ChannelId>,
    request: NumberedMessage,
    order: Scattered,
    next: u64,
}

impl LegacyRound {
    /// The parked calls have one session, or one session each.
    pub(super) fn new(n: usize, apart: bool) -> Self {
        let mut limits = limits(n);
        limits.input_timeout = Duration::from_secs(3_600);
        let mut server = MessageServer::new(limits);
        let channels: Vec<ChannelId> =
            (0..if apart { n } else { 1 }).map(|_| server.open_session()).collect();
        let order = Scattered::new(channels.len());
        let mut round =
            Self { server, channels, request: NumberedMessage::call("#"), order, next: FIRST_NUMBER };
        for index in 0..n {
            let channel = round.channels[index % round.channels.len()];
            round.park(channel);
        }
        warmed_up(round)
    }

    /// Starts a call that needs input, and returns the id of its input request.
    fn park(&mut self, channel: ChannelId) -> u64 {
        let call = self.server.deliver_call(channel, self.request.with(self.next));
        self.next += 1;
        let mut input = InputRequired::new();
        let form = ElicitSchema::default().field("name", StringSchema::new().min_length(2u64));
        assert!(input.elicit(&call, "name", "Who is asking?", form).is_err(), "no answer yet");
        self.server.engine.require_input(self.server.now, &call, &input).expect("an open call");
        id_of(&self.server.pop_message(channel))
    }
}

impl Scenario for LegacyRound {
    fn run_once(&mut self) {
        let channel = self.channels[self.order.advance()];
        let input = self.park(channel);
        let answer = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{input},\"result\":{{\"action\":\"accept\",\"content\":{{\"name\":\"Alice\"}}}}}}"
        );
        let call = self.server.deliver_call(channel, answer.as_bytes());
        assert!(call.answer("name").is_some(), "an answer");
        self.server.complete(&call);
        self.server.turn();
    }
}
