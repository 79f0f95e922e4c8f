//! Fuzz target for a server engine with several channels, driven by a list of operations: messages, commands, time.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;
use mcp_proto::internals::check_server;
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::tap::ChannelId;
use mcp_proto::{
    CallId, CallKey, CallOptions, Capabilities, Capability, Fault, Instant, Limits, Progress, RpcError,
    UseError,
};

use super::input::FuzzInput;
use super::wire;

/// Runs a list of operations and checks the invariants of the engine.
///
/// - Each inbound and each outbound call ends once.
/// - No id gets more answers than it had requests.
/// - A channel ends once and has no events afterwards.
/// - No deadline stays in the past, and nothing is left at the end.
pub fn server_ops(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let how = choices.byte();
    let mut limits = Limits::small();
    limits.max_live_calls = 1 + u32::from(how % 4);
    limits.max_pending_calls = 3;
    limits.max_waiting_requests = usize::from(how >> 2) % 3;
    limits.tap_records = usize::from(how >> 7);
    let config = Config::new("fuzz", "1")
        .capabilities(Capabilities::new().with(Capability::Tools))
        .custom_method("x/y")
        .limits(limits);
    let mut run = ServerRun { engine: Engine::new(Arc::new(config)), ..ServerRun::default() };
    run.open();
    // Longer lists of operations find nothing more.
    for _ in 0..300 {
        if choices.is_empty() {
            break;
        }
        run.step(&mut choices);
    }
    run.end();
}

/// Expected state of one channel.
#[derive(Default)]
struct ChannelModel {
    /// Number of requests received per id.
    request_ids: BTreeMap<String, usize>,
    /// Maximum number of messages received in texts that are not JSON; an answer has the id that was found in one.
    malformed: usize,
    sent: Vec<u8>,
    closed: bool,
    /// Whether the channel was closed here, together with its unsent output.
    dropped: bool,
    released: bool,
}

struct ServerRun {
    engine: Engine,
    now: Instant,
    channels: BTreeMap<ChannelId, ChannelModel>,
    live: BTreeMap<CallId, ChannelId>,
    ended: BTreeSet<CallId>,
    outbound_calls: BTreeSet<CallKey>,
    is_shut_down: bool,
}

impl Default for ServerRun {
    fn default() -> Self {
        Self {
            engine: Engine::new(Arc::new(Config::new("", ""))),
            now: Instant::ZERO,
            channels: BTreeMap::new(),
            live: BTreeMap::new(),
            ended: BTreeSet::new(),
            outbound_calls: BTreeSet::new(),
            is_shut_down: false,
        }
    }
}

const IDS: [&str; 6] = ["1", "2", "1.0", "\"a\"", "\"\\u0061\"", "null"];
const METHODS: [&str; 7] =
    ["tools/call", "tools/list", "ping", "server/discover", "x/y", "prompts/get", "no/such"];
const MODERN: &str = concat!(
    "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",",
    "\"io.modelcontextprotocol/clientCapabilities\":{}"
);

impl ServerRun {
    fn step(&mut self, choices: &mut FuzzInput<'_>) {
        match choices.below(20) {
            0..=3 => {
                let (channel, text) = (self.channel(choices), Self::request(choices));
                self.message(channel, text.as_bytes());
            }
            4 => self.handshake(choices),
            5 => {
                let (channel, n) = (self.channel(choices), choices.below(64));
                let garbage = choices.take(n);
                self.message(channel, garbage);
            }
            6 => {
                let (channel, batch) =
                    (self.channel(choices), (0..choices.below(4)).map(|_| Self::request(choices)));
                let text = format!("[{}]", batch.collect::<Vec<_>>().join(","));
                self.message(channel, text.as_bytes());
            }
            7 => {
                let (channel, id) = (self.channel(choices), IDS[choices.below(IDS.len())]);
                let text = format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"r"}}}}"#
                );
                self.message(channel, text.as_bytes());
            }
            8 => {
                let (channel, id) = (self.channel(choices), choices.below(5));
                let body = ["\"result\":{}", "\"error\":{\"code\":1,\"message\":\"m\"}", "\"result\":1"]
                    [choices.below(3)];
                self.message(channel, format!(r#"{{"jsonrpc":"2.0","id":{id},{body}}}"#).as_bytes());
            }
            9..=11 => self.answer(choices),
            12 => self.progress(choices),
            13 => self.command(choices),
            14 => self.advance_time(choices),
            15 => self.write(choices),
            16 => {
                let channel = self.channel(choices);
                self.engine.handle_eof(self.now, channel);
            }
            17 => self.close(choices),
            18 => self.open(),
            _ if choices.below(8) == 0 => {
                self.poll();
                self.is_shut_down = true;
                self.engine.shutdown(self.now, Duration::from_secs(2));
            }
            _ => {}
        }
        // Several operations may happen between two polls.
        if choices.boolean() {
            self.poll();
        }
    }

    fn channel(&self, choices: &mut FuzzInput<'_>) -> ChannelId {
        let nth = choices.below(self.channels.len());
        *self.channels.keys().nth(nth).expect("a channel")
    }

    fn open(&mut self) {
        if self.channels.len() < 4 {
            let channel = self.engine.open_channel(self.now);
            assert!(self.channels.insert(channel, ChannelModel::default()).is_none(), "key assigned twice");
        }
    }

    /// Returns a request of either era, valid or not.
    fn request(choices: &mut FuzzInput<'_>) -> String {
        let (id, method, how) =
            (IDS[choices.below(IDS.len())], METHODS[choices.below(METHODS.len())], choices.byte());
        let token = if how & 1 == 0 { "\"other\":1" } else { "\"progressToken\":7" };
        let comma = if how & 2 == 0 { "" } else { "," };
        let era = if how & 2 == 0 { "" } else { MODERN };
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"name":"t","_meta":{{{token}{comma}{era}}}}}}}"#
        )
    }

    fn handshake(&mut self, choices: &mut FuzzInput<'_>) {
        let version = ["2024-11-05", "2025-03-26", "2025-11-25", "1999-01-01"][choices.below(4)];
        let channel = self.channel(choices);
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":9,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
        );
        self.message(channel, text.as_bytes());
        self.message(channel, br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    fn message(&mut self, channel: ChannelId, text: &[u8]) {
        let known = self.channels.get_mut(&channel).expect("an open channel");
        match wire::ids(text) {
            Some(ids) => ids.iter().for_each(|id| *known.request_ids.entry(id.to_string()).or_default() += 1),
            None => known.malformed += text.iter().filter(|b| **b == b'{').count(),
        }
        self.engine.handle_message(self.now, channel, Bytes::copy_from_slice(text));
    }

    fn answer(&mut self, choices: &mut FuzzInput<'_>) {
        let nth = choices.below(self.live.len().max(1));
        let Some(call) = self.live.keys().nth(nth).copied() else { return };
        // The call may have been cancelled while its event is unpolled.
        let result = BTreeMap::from([("text", "a\nb")]);
        let done = match choices.below(3) {
            0 => self.engine.fail(self.now, call, &RpcError::internal("no")),
            1 => self.engine.complete(self.now, call, &result),
            _ => {
                let refused = self.engine.complete(self.now, call, &1);
                assert!(matches!(refused, Err(UseError::Encode(_) | UseError::Stale)), "{refused:?}");
                return;
            }
        };
        match done {
            Ok(()) => {
                self.live.remove(&call);
                self.ended.insert(call);
            }
            Err(e) => assert_eq!(e, UseError::Stale),
        }
    }

    fn progress(&mut self, choices: &mut FuzzInput<'_>) {
        let nth = choices.below(self.live.len().max(1));
        if let Some(call) = self.live.keys().nth(nth).copied() {
            let _ = self.engine.progress(
                self.now,
                call,
                Progress::new(f64::from(choices.byte())).with_message("so far"),
            );
        }
        if let Some(call) = self.ended.first().copied() {
            assert_eq!(self.engine.progress(self.now, call, Progress::new(1e9)), Err(UseError::Stale));
            assert_eq!(self.engine.fail(self.now, call, &RpcError::internal("again")), Err(UseError::Stale));
        }
    }

    fn command(&mut self, choices: &mut FuzzInput<'_>) {
        let channel = self.channel(choices);
        match choices.below(4) {
            0 => {
                let _ = self.engine.notify(self.now, channel, "x/news", Some(&BTreeMap::from([("n", 1)])));
            }
            1 => {
                let method = ["ping", "x/z", "tools/call"][choices.below(3)];
                let options =
                    CallOptions::new().timeout(Duration::from_millis(u64::from(choices.byte()) * 20));
                if let Ok(key) =
                    self.engine.request(self.now, channel, method, &BTreeMap::<&str, u8>::new(), &options)
                {
                    assert!(self.outbound_calls.insert(key), "key assigned twice");
                }
            }
            _ => {
                if let Some(key) = self.outbound_calls.first().copied() {
                    let _ = self.engine.cancel_request(self.now, key, Some("no more"));
                }
            }
        }
    }

    /// Advances time by milliseconds up to hours.
    fn advance_time(&mut self, choices: &mut FuzzInput<'_>) {
        let millis = 1u64 << (choices.byte() % 23);
        // Others may wait while the time passes.
        self.poll_once();
        self.now = self.now + Duration::from_millis(millis);
        self.engine.handle_timeout(self.now);
        assert!(
            self.engine.poll_timeout().is_none_or(|next| next > self.now),
            "the deadline did not advance"
        );
    }

    fn write(&mut self, choices: &mut FuzzInput<'_>) {
        let (channel, n) = (self.channel(choices), 1 + usize::from(choices.byte()) * 4);
        let (Some(outbox), Some(known)) = (self.engine.outbox(channel), self.channels.get_mut(&channel))
        else {
            return;
        };
        let mut n = n.min(outbox.len());
        while n > 0 {
            let part = outbox.transmit();
            let part = &part[..part.len().min(n)];
            known.sent.extend_from_slice(part);
            let written = part.len();
            outbox.consume(written);
            n -= written;
        }
    }

    fn close(&mut self, choices: &mut FuzzInput<'_>) {
        let channel = self.channel(choices);
        let Some(known) = self.channels.get_mut(&channel) else { return };
        if choices.boolean() {
            known.dropped = true;
            self.engine.close_channel(self.now, channel, &Fault::Closed);
        } else if known.closed && !known.released {
            self.flush(channel);
            self.engine.release_channel(channel);
            let known = self.channels.get_mut(&channel).expect("an open channel");
            known.released = true;
            assert!(self.engine.outbox(channel).is_none(), "released channel still exists");
        }
    }

    fn poll(&mut self) {
        while self.poll_once() {}
        assert_eq!(self.engine.live_calls(), self.live.len());
        check_server(&self.engine);
    }

    /// Takes one event. Returns whether there was one.
    fn poll_once(&mut self) -> bool {
        let Some(event) = self.engine.poll_event(self.now) else { return false };
        let channel = match &event {
            Event::Call(call) => Some(call.channel()),
            Event::SessionOpened { channel, .. } | Event::Diagnostic { channel, .. } => Some(*channel),
            Event::Notification(n) => Some(n.channel),
            _ => None,
        };
        let closed = channel.is_some_and(|c| self.channels[&c].closed);
        assert!(!closed, "after the end: {event:?}");
        match event {
            Event::Call(call) => {
                assert!(!self.is_shut_down, "a call after the shutdown");
                assert!(!self.ended.contains(&call.id()), "key assigned twice");
                assert!(self.live.insert(call.id(), call.channel()).is_none(), "delivered twice");
            }
            Event::Cancelled { call, .. } => {
                assert!(self.live.remove(&call).is_some(), "ended twice");
                self.ended.insert(call);
            }
            Event::Done { call, .. } => assert!(self.outbound_calls.remove(&call), "ended twice"),
            Event::Closed { channel, .. } => {
                assert!(!self.live.values().any(|c| *c == channel), "closed before its calls ended");
                let known = self.channels.get_mut(&channel).expect("an open channel");
                assert!(!core::mem::replace(&mut known.closed, true), "closed twice");
            }
            _ => {}
        }
        true
    }

    fn flush(&mut self, channel: ChannelId) {
        let Some(known) = self.channels.get_mut(&channel) else { return };
        while let Some(outbox) = self.engine.outbox(channel).filter(|o| !o.is_empty()) {
            let part = outbox.transmit();
            let n = part.len();
            known.sent.extend_from_slice(part);
            outbox.consume(n);
        }
    }

    /// Ends all inputs, lets all deadlines pass, and checks that nothing is left.
    fn end(&mut self) {
        self.poll();
        for channel in self.channels.keys().copied().collect::<Vec<_>>() {
            self.engine.handle_eof(self.now, channel);
        }
        self.poll();
        for _ in 0..1_000 {
            let Some(at) = self.engine.poll_timeout() else { break };
            self.now = self.now.max(at);
            self.engine.handle_timeout(self.now);
            assert!(
                self.engine.poll_timeout().is_none_or(|next| next > self.now),
                "the deadline did not advance"
            );
            self.poll();
        }
        assert!(self.engine.poll_timeout().is_none() && self.engine.live_calls() == 0);
        assert!(self.live.is_empty() && self.outbound_calls.is_empty(), "calls are left");
        for channel in self.channels.keys().copied().collect::<Vec<_>>() {
            self.flush(channel);
            let known = &self.channels[&channel];
            assert!(known.closed, "a channel without an end");
            if known.dropped {
                continue;
            }
            let mut malformed = known.malformed;
            for (id, times) in wire::answers(&wire::messages(&known.sent)) {
                let asked = known.request_ids.get(&id).copied().unwrap_or_default();
                let excess = times.saturating_sub(asked);
                assert!(excess <= malformed, "{id} used {asked} times and answered {times} times");
                malformed -= excess;
            }
        }
    }
}
