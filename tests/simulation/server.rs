//! A server against a random client.

use alloc::collections::BTreeSet;
use core::time::Duration;

use mcp_proto::server::{Config, Event};
use mcp_proto::{CallId, Capabilities, Capability, Progress, RpcError, VersionSet};
use mcp_tests::harness::build::{notification, raw};
use mcp_tests::harness::{Chunker, Rng, ServerHarness};
use serde_json::{Value, json};

use crate::simulation::hostile_input::{arbitrary_line, client_message, mutate};
use crate::simulation::{assert_bounded, for_each_seed, tight_limits};

struct ServerSimulation {
    rng: Rng,
    harness: ServerHarness,
    open_calls: Vec<CallId>,
    /// Ids of valid requests that are not cancelled and have no answer.
    unanswered: BTreeSet<String>,
    is_closed: bool,
    next_id: usize,
    /// Whether input of unknown effect was fed. From then on only the general invariants are checked.
    has_ambiguous_input: bool,
}

impl ServerSimulation {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5EED);
        let versions = *rng.pick(&[VersionSet::ALL, VersionSet::LEGACY, VersionSet::MODERN]);
        let mut limits = tight_limits(&mut rng);
        limits.max_faulty_messages = rng.percent(20).then_some(10);
        let config = Config::new("tide-server", "2.1.0")
            .versions(versions)
            .capabilities(Capabilities::new().with(Capability::Tools))
            .limits(limits);
        let chunker = *rng.pick(&[Chunker::Whole, Chunker::Seeded(seed), Chunker::Bytewise]);
        let mad = rng.percent(60);
        let harness = ServerHarness::server(config, chunker);
        Self {
            rng,
            harness,
            open_calls: Vec::new(),
            unanswered: BTreeSet::new(),
            is_closed: false,
            next_id: 0,
            has_ambiguous_input: mad,
        }
    }

    fn feed(&mut self) {
        let id = format!("r{}", self.next_id);
        self.next_id += 1;
        let message = client_message(&mut self.rng, &id);
        if self.has_ambiguous_input && self.rng.percent(30) {
            let line = mutate(&mut self.rng, &message.to_string());
            return self.harness.feed(line);
        }
        if self.has_ambiguous_input && self.rng.percent(20) {
            let line = arbitrary_line(&mut self.rng);
            return self.harness.feed(line);
        }
        // The members of a batch are answered only in a revision with batches.
        if let (Some(id), false) = (message["id"].as_str(), message["method"].is_null()) {
            self.unanswered.insert(id.to_owned());
        }
        self.harness.feed_message(&message);
    }

    fn cancel(&mut self) {
        let id = format!("r{}", self.rng.below(self.next_id + 1));
        self.unanswered.remove(&id);
        self.harness.feed_message(&notification("notifications/cancelled", json!({"requestId": id})));
    }

    fn run_handlers(&mut self) {
        if self.open_calls.is_empty() {
            return;
        }
        let at = self.rng.below(self.open_calls.len());
        let (id, now) = (self.open_calls[at], self.harness.now);
        let text = "z".repeat(self.rng.below(500));
        let result = json!({"content": [{"type": "text", "text": text}], "tools": []});
        let engine = self.harness.pipe.engine();
        let outcome = match self.rng.below(6) {
            0..=2 => {
                let value = self.rng.below(100) as f64;
                engine.progress(now, id, Progress::new(value)).expect("open");
                return;
            }
            3 => engine.complete(now, id, &result),
            4 => engine.complete_raw(now, id, &raw(&result)),
            _ => engine.fail(now, id, &RpcError::new(7, "no luck")),
        };
        outcome.expect("no event reported the end of the call");
        self.open_calls.remove(at);
    }

    /// Takes and checks events and messages.
    fn drain_events(&mut self) {
        self.harness.pump();
        while !self.harness.has_no_events() {
            assert!(!self.is_closed, "event after the end");
            match self.harness.expect_event() {
                Event::Call(call) => {
                    assert!(!self.open_calls.contains(&call.id()), "a call was delivered twice");
                    self.open_calls.push(call.id());
                }
                Event::Cancelled { call, .. } => {
                    let at = self.open_calls.iter().position(|id| *id == call);
                    self.open_calls.remove(at.expect("an open call"));
                }
                Event::Closed { .. } => self.is_closed = true,
                _ => {}
            }
        }
        for message in self.harness.take_sent() {
            let members = message.as_array().map_or_else(|| vec![message.clone()], Clone::clone);
            for member in members.iter().filter(|m| m.get("method").is_none()) {
                self.unanswered.remove(member["id"].as_str().unwrap_or_default());
            }
        }
    }

    fn random_step(&mut self) {
        match self.rng.below(100) {
            0..=44 => self.feed(),
            45..=52 => self.cancel(),
            53..=79 => self.run_handlers(),
            80..=83 => {
                self.harness.is_blocked = self.rng.percent(50);
            }
            84..=87 => {
                let n = self.rng.below(300);
                self.harness.read(n);
            }
            88..=97 => self.harness.advance(Duration::from_millis(self.rng.below(400) as u64)),
            _ => self.harness.advance(Duration::from_secs(self.rng.below(20) as u64)),
        }
        self.drain_events();
        if self.rng.percent(10) {
            assert_bounded(&self.harness.pipe);
        }
    }

    fn run(mut self) -> String {
        for _ in 0..30 + self.rng.below(150) {
            if self.is_closed {
                break;
            }
            self.random_step();
        }
        self.harness.is_blocked = false;
        self.drain_events();
        let finishes = self.rng.percent(70);
        while finishes && !self.open_calls.is_empty() && !self.is_closed {
            // A call that waited may be delivered now.
            let id = self.open_calls.remove(0);
            let result: Value = json!({"content": [], "tools": []});
            self.harness.pipe.engine().complete(self.harness.now, id, &result).expect("open");
            self.drain_events();
        }
        if finishes && !self.has_ambiguous_input && !self.is_closed {
            assert!(self.unanswered.is_empty(), "never answered: {:?}", self.unanswered);
        }
        if self.rng.percent(50) {
            self.harness.eof();
        } else {
            self.harness.pipe.shutdown(self.harness.now, Duration::from_secs(1));
        }
        self.drain_events();
        // A call that waits for a slot is still delivered. Each call ends by its maximum age.
        self.harness.advance(Duration::from_secs(1_000_000));
        self.drain_events();
        assert!(self.is_closed && self.open_calls.is_empty(), "everything has ended: {:?}", self.open_calls);
        assert!(mcp_proto::pipe::Pipe::is_drained(&self.harness.pipe));
        self.harness.advance(Duration::from_secs(10_000));
        self.harness.assert_idle();
        format!("{:#?}", self.harness.transcript)
    }
}

// covers: STDIO-011, BASE-033, CANC-014, CANC-020, ERR-023
#[test]
fn server_survives_random_client() {
    for_each_seed("server_survives_random_client", 300, |seed| ServerSimulation::new(seed).run());
}
