//! Our server against a client that does as it pleases.

use alloc::collections::BTreeSet;
use core::time::Duration;

use mcp_proto::server::{Config, Event};
use mcp_proto::{CallId, Capabilities, Capability, Progress, RpcError, VersionSet};
use mcp_tests::harness::build::{note, raw};
use mcp_tests::harness::{Chunker, LoneServer, Rng};
use serde_json::{Value, json};

use crate::hostile::{from_client, mad, mutate};
use crate::{for_each_seed, stays_small, tight};

struct World {
    rng: Rng,
    lone: LoneServer,
    open: Vec<CallId>,
    /// Ids of requests that were fed in good order, are not cancelled, and have no answer
    unanswered: BTreeSet<String>,
    closed: bool,
    next: usize,
    /// Something was fed whose effect cannot be told: from then on only the general rules are checked
    mad: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5EED);
        let versions = *rng.pick(&[VersionSet::ALL, VersionSet::LEGACY, VersionSet::MODERN]);
        let mut limits = tight(&mut rng);
        limits.max_faulty = rng.chance(20).then_some(10);
        let config = Config::new("tide-server", "2.1.0")
            .versions(versions)
            .capabilities(Capabilities::new().with(Capability::Tools))
            .limits(limits);
        let cut = *rng.pick(&[Chunker::Whole, Chunker::Seeded(seed), Chunker::Bytewise]);
        let mad = rng.chance(60);
        let lone = LoneServer::server(config, cut);
        Self { rng, lone, open: Vec::new(), unanswered: BTreeSet::new(), closed: false, next: 0, mad }
    }

    fn feed(&mut self) {
        let id = format!("r{}", self.next);
        self.next += 1;
        let message = from_client(&mut self.rng, &id);
        if self.mad && self.rng.chance(30) {
            let line = mutate(&mut self.rng, &message.to_string());
            return self.lone.feed(line);
        }
        if self.mad && self.rng.chance(20) {
            let line = mad(&mut self.rng);
            return self.lone.feed(line);
        }
        // The members of a batch have an answer only where there are batches.
        if let (Some(id), false) = (message["id"].as_str(), message["method"].is_null()) {
            self.unanswered.insert(id.to_owned());
        }
        self.lone.tell(&message);
    }

    fn cancel(&mut self) {
        let id = format!("r{}", self.rng.below(self.next + 1));
        self.unanswered.remove(&id);
        self.lone.tell(&note("notifications/cancelled", json!({"requestId": id})));
    }

    fn work(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let at = self.rng.below(self.open.len());
        let (id, now) = (self.open[at], self.lone.now);
        let text = "z".repeat(self.rng.below(500));
        let result = json!({"content": [{"type": "text", "text": text}], "tools": []});
        let engine = self.lone.pipe.engine();
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
        outcome.expect("it was not told that the call is over");
        self.open.remove(at);
    }

    /// Takes what has come out, and checks it
    fn look(&mut self) {
        self.lone.pump();
        while !self.lone.is_quiet() {
            assert!(!self.closed, "after the end");
            match self.lone.event() {
                Event::Call(call) => {
                    assert!(!self.open.contains(&call.id()), "told twice");
                    self.open.push(call.id());
                }
                Event::Cancelled { call, .. } => {
                    let at = self.open.iter().position(|id| *id == call);
                    self.open.remove(at.expect("a call that is open"));
                }
                Event::Closed { .. } => self.closed = true,
                _ => {}
            }
        }
        for message in self.lone.sent() {
            let members = message.as_array().map_or_else(|| vec![message.clone()], Clone::clone);
            for member in members.iter().filter(|m| m.get("method").is_none()) {
                self.unanswered.remove(member["id"].as_str().unwrap_or_default());
            }
        }
    }

    fn act(&mut self) {
        match self.rng.below(100) {
            0..=44 => self.feed(),
            45..=52 => self.cancel(),
            53..=79 => self.work(),
            80..=83 => {
                self.lone.blocked = self.rng.chance(50);
            }
            84..=87 => {
                let n = self.rng.below(300);
                self.lone.read(n);
            }
            88..=97 => self.lone.pass(Duration::from_millis(self.rng.below(400) as u64)),
            _ => self.lone.pass(Duration::from_secs(self.rng.below(20) as u64)),
        }
        self.look();
        if self.rng.chance(10) {
            stays_small(&self.lone.pipe);
        }
    }

    fn run(mut self) -> String {
        for _ in 0..30 + self.rng.below(150) {
            if self.closed {
                break;
            }
            self.act();
        }
        self.lone.blocked = false;
        self.look();
        let finishes = self.rng.chance(70);
        while finishes && !self.open.is_empty() && !self.closed {
            // More may come up that has waited.
            let id = self.open.remove(0);
            let result: Value = json!({"content": [], "tools": []});
            self.lone.pipe.engine().complete(self.lone.now, id, &result).expect("open");
            self.look();
        }
        if finishes && !self.mad && !self.closed {
            assert!(self.unanswered.is_empty(), "never answered: {:?}", self.unanswered);
        }
        if self.rng.chance(50) {
            self.lone.eof();
        } else {
            self.lone.pipe.shutdown(self.lone.now, Duration::from_secs(1));
        }
        self.look();
        // What was read already still waits for its place; each call ends by its age at the latest.
        self.lone.pass(Duration::from_secs(1_000_000));
        self.look();
        assert!(self.closed && self.open.is_empty(), "all is over: {:?}", self.open);
        assert!(mcp_proto::pipe::Pipe::is_drained(&self.lone.pipe));
        self.lone.pass(Duration::from_secs(10_000));
        self.lone.still();
        format!("{:#?}", self.lone.transcript)
    }
}

// covers: STDIO-011, BASE-033, CANC-014, CANC-020, ERR-023
#[test]
fn our_server_and_any_client() {
    for_each_seed("our_server_and_any_client", 300, |seed| World::new(seed).run());
}
