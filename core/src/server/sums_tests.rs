//! Seeded simulation of calls that park: after every step, each sum of the engine equals what it sums.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Call, Config, Engine, Event};
use crate::error::Fault;
use crate::identity::Capabilities;
use crate::limits::Limits;
use crate::methods::Capability;
use crate::model::{ElicitParams, ElicitSchema, InputRequest, InputRequests};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::testing::{Rng, rounds};
use crate::time::Instant;

struct Simulation {
    engine: Engine,
    now: Instant,
    rng: Rng,
    /// Sessions with their streams.
    sessions: Vec<(ChannelId, Vec<ChannelId>)>,
    calls: Vec<Call>,
    /// Ids of input requests, with the session that they were sent to.
    requests: Vec<(ChannelId, i64)>,
    next_id: u32,
    redelivered: usize,
}

impl Simulation {
    fn parked_calls(&self) -> usize {
        self.engine.parked.as_ref().map_or(0, |parked| parked.len())
    }

    fn new(seed: u64) -> Self {
        let limits = Limits { max_retained_bytes: 20_000, max_pending_calls: 60, ..Limits::small() };
        let limits = Limits { max_live_calls: 12, max_waiting_requests: 3, ..limits };
        let config =
            Config::new("x", "1").limits(limits).capabilities(Capabilities::new().with(Capability::Tools));
        let (calls, requests) = (Vec::new(), Vec::new());
        let (engine, rng) = (Engine::new(Arc::new(config)), Rng::new(seed));
        let (now, sessions) = (Instant::ZERO, Vec::new());
        Self { engine, now, rng, sessions, calls, requests, next_id: 0, redelivered: 0 }
    }

    fn send(&mut self, channel: ChannelId, text: String) {
        self.engine.handle_message(self.now, channel, text.into());
    }

    fn open_session(&mut self) {
        let channel = self.engine.open_channel(self.now);
        self.send(
            channel,
            "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\
             \"capabilities\":{\"elicitation\":{\"form\":{}}},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}"
                .into(),
        );
        if self.rng.percent(80) {
            self.initialized(channel);
        }
        self.sessions.push((channel, Vec::new()));
    }

    fn initialized(&mut self, channel: ChannelId) {
        self.send(channel, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}".into());
    }

    fn pick(&mut self) -> Option<(usize, ChannelId)> {
        let at = self.rng.below(self.sessions.len());
        let (session, streams) = self.sessions.get(at)?;
        let all: Vec<ChannelId> = core::iter::once(*session).chain(streams.iter().copied()).collect();
        Some((at, *self.rng.pick(&all)))
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0 | 1 if self.sessions.len() < 4 => self.open_session(),
            2 => {
                let Some((at, _)) = self.pick() else { return };
                let (root, streams) = &mut self.sessions[at];
                let owner = Key { slot: 0, generation: 0 };
                let key = self.engine.exchanges().open_channel(self.now, Some(root.0), owner, <_>::default());
                streams.push(ChannelId(key));
            }
            3..=7 => {
                let Some((_, channel)) = self.pick() else { return };
                self.next_id += 1;
                let id = if self.rng.percent(90) { self.next_id } else { self.next_id / 2 };
                let text = "x".repeat(self.rng.below(60));
                self.send(
                    channel,
                    format!(
                        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{text}\"}}}}"
                    ),
                );
            }
            8..=11 if !self.calls.is_empty() => self.answer_or_park(),
            12..=14 if !self.requests.is_empty() => {
                let at = self.rng.below(self.requests.len());
                let (session, id) = self.requests.swap_remove(at);
                let length = self.rng.below(200);
                let text = format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"action\":\"accept\",\"content\":{{\"a\":\"{}\"}}}}}}",
                    "y".repeat(length)
                );
                self.send(session, text);
            }
            15 => {
                let state = format!("s{}", self.rng.below(4));
                self.engine.withdraw_input(self.now, state.as_bytes(), None);
            }
            16 => {
                let Some((_, channel)) = self.pick() else { return };
                let id = self.next_id.saturating_sub(u32::try_from(self.rng.below(6)).unwrap_or(0));
                let cancelled = "notifications/cancelled";
                let text = format!(
                    "{{\"jsonrpc\":\"2.0\",\"method\":\"{cancelled}\",\"params\":{{\"requestId\":{id}}}}}"
                );
                self.send(channel, text);
            }
            17 => {
                let Some((at, _)) = self.pick() else { return };
                let session = self.sessions[at].0;
                self.initialized(session);
            }
            18 if self.rng.percent(40) => self.end_something(),
            _ => {
                self.now = self.now + Duration::from_millis(200 << self.rng.below(14));
                self.engine.handle_timeout(self.now);
            }
        }
    }

    fn answer_or_park(&mut self) {
        let at = self.rng.below(self.calls.len());
        let call = self.calls.swap_remove(at);
        if self.rng.percent(30) {
            let _ = self.engine.complete(self.now, call.id(), &serde_json::json!({}));
            return;
        }
        let mut requests = InputRequests::new();
        for name in ["one", "two"].into_iter().take(self.rng.below(3)) {
            let form = ElicitParams::form("m".repeat(self.rng.below(80)), ElicitSchema::default());
            requests.insert(name, InputRequest::Elicit(form));
        }
        let state = format!("s{}", self.rng.below(4));
        let state = if self.rng.percent(50) { state.as_bytes() } else { b"" };
        if self.engine.need_input(self.now, &call, &requests, state).is_err() {
            self.calls.push(call);
        }
    }

    fn end_something(&mut self) {
        let Some((at, channel)) = self.pick() else { return };
        if self.sessions[at].0 != channel {
            self.sessions[at].1.retain(|other| *other != channel);
            if self.rng.percent(50) {
                self.engine.exchanges().set_unreachable(self.now, channel.0, true);
            }
            self.engine.exchanges().remove(self.now, channel.0);
        } else {
            let (session, streams) = self.sessions.swap_remove(at);
            if self.rng.percent(50) {
                self.engine.close_channel(self.now, session, &Fault::Closed);
            }
            for stream in streams {
                self.engine.exchanges().remove(self.now, stream.0);
            }
            self.engine.exchanges().remove(self.now, session.0);
        }
    }

    fn settle(&mut self) {
        while let Some(event) = self.engine.poll_event(self.now) {
            if let Event::Call(call) = event {
                self.redelivered += usize::from(call.attempt() > 0);
                self.calls.push(call);
            }
        }
        for (session, streams) in &self.sessions {
            for channel in core::iter::once(session).chain(streams) {
                while let Some(message) = self.engine.outbox(*channel).and_then(|o| o.pop_message()) {
                    let message: serde_json::Value = serde_json::from_slice(&message).expect("JSON");
                    if message.get("method").is_some_and(|m| m == "elicitation/create") {
                        self.requests.push((*session, message["id"].as_i64().expect("an id")));
                    }
                }
            }
        }
    }
}

#[test]
fn sums_equal_a_recomputation_after_every_step() {
    let (mut redelivered, mut parked) = (0, 0);
    for seed in 0..rounds(60) {
        let mut simulation = Simulation::new(seed);
        for _ in 0..400 {
            simulation.step();
            simulation.engine.check_sums();
            simulation.settle();
            simulation.engine.check_sums();
            parked = parked.max(simulation.parked_calls());
        }
        redelivered += simulation.redelivered;
        while let Some((session, streams)) = simulation.sessions.pop() {
            for stream in streams {
                simulation.engine.exchanges().remove(simulation.now, stream.0);
            }
            simulation.engine.exchanges().remove(simulation.now, session.0);
            simulation.engine.check_sums();
        }
        assert_eq!((simulation.parked_calls(), simulation.engine.live_calls()), (0, 0));
    }
    assert!(redelivered > 100 && parked > 5, "{redelivered} calls were delivered again, {parked} parked");
}
