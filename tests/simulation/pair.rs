//! A client against a server, with a random network and random applications.

use core::fmt::Write as _;
use core::time::Duration;

use mcp_proto::{
    CallKey, CallOptions, Capabilities, Capability, Progress, RpcError, UseError, Version, VersionSet,
    client, server,
};
use mcp_tests::harness::build::raw;
use mcp_tests::harness::{Chunker, LinkConfig, Pair, Rng};
use mcp_tests::schema::MessageDirection;
use serde_json::{Value, json};

use crate::simulation::{assert_bounded, for_each_seed, tight_limits};

/// Lines that our sides never emit, but that do not end a connection.
const HOSTILE_LINES: [&str; 12] = [
    "a banner",
    "",
    "{",
    "[1,2",
    "\u{feff}7",
    r#"{"jsonrpc":"2.0"}"#,
    r#"{"jsonrpc":"2.0","id":99999999,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":77777777,"progress":1}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/odd","params":{"a":[{}]}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#,
];

fn version_sets(rng: &mut Rng) -> VersionSet {
    match rng.below(4) {
        0 => VersionSet::ALL,
        1 => VersionSet::LEGACY,
        2 => VersionSet::MODERN,
        _ => VersionSet::only(*rng.pick(&Version::ALL)),
    }
}

fn link_config(rng: &mut Rng, seed: u64) -> LinkConfig {
    let chunker = *rng.pick(&[Chunker::Whole, Chunker::Seeded(seed), Chunker::Seeded(!seed)]);
    let capacity = *rng.pick(&[usize::MAX, 4_096, 64, 9]);
    LinkConfig { chunker, latency: Duration::from_millis(rng.below(30) as u64), capacity }
}

struct PairSimulation {
    rng: Rng,
    pair: Pair,
    call_count: usize,
    server_requests: Vec<CallKey>,
    server_request_count: usize,
}

impl PairSimulation {
    #[expect(deprecated, reason = "tested until its removal")]
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut client_limits = tight_limits(&mut rng);
        // Two sides that both owe answers beyond their high-water marks would wait for each other: see
        // `protocol/back_pressure.rs`.
        client_limits.outbox_high_water = 1 << 20;
        let client_config = client::Config::new("harbor-client", "0.3.0")
            .versions(version_sets(&mut rng))
            .capabilities(Capabilities::new().with(Capability::Roots))
            .custom_method("harbor/name")
            .limits(client_limits);
        let server_config = server::Config::new("tide-server", "2.1.0")
            .versions(version_sets(&mut rng))
            .capabilities(Capabilities::new().with(Capability::Tools))
            .custom_method("harbor/tide")
            .limits(tight_limits(&mut rng));
        let link = link_config(&mut rng, seed);
        let pair = Pair::new(client_config, server_config, link);
        Self { rng, pair, call_count: 0, server_requests: Vec::new(), server_request_count: 0 }
    }

    fn options(&mut self) -> CallOptions {
        let mut options = CallOptions::new();
        options.wants_progress = self.rng.percent(50);
        options.progress_resets_timeout = self.rng.percent(70);
        if self.rng.percent(30) {
            options = options.timeout(Duration::from_millis(self.rng.below(500) as u64));
        }
        if self.rng.percent(20) {
            options = options.total_timeout(Duration::from_millis(self.rng.below(2_000) as u64));
        }
        if self.rng.percent(20) {
            options = options.with_meta(raw(&json!({"traceparent": "00-1-2-01", "com.example/x": [1]})));
        }
        options
    }

    fn call(&mut self) {
        let options = self.options();
        let name = format!("call {}", self.call_count);
        let tool = *self.rng.pick(&["echo", "count", "fail", "slow", "slow", "slow", "meta"]);
        let arguments = json!({"text": "x".repeat(self.rng.below(600)), "to": self.rng.below(25)});
        let mut params = json!({"name": tool});
        params["arguments"] = arguments;
        let method = *self.rng.pick(&[
            "tools/call",
            "tools/call",
            "tools/call",
            "tools/list",
            "harbor/tide",
            "prompts/list",
        ]);
        let params = if method == "tools/call" { params } else { json!({}) };
        let pair = &mut self.pair;
        if pair.app.call(pair.now, &mut pair.client, &name, method, &params, &options).is_ok() {
            self.call_count += 1;
        }
    }

    fn ping(&mut self) {
        if let Ok(key) = self.pair.client.engine().ping(self.pair.now, &CallOptions::new()) {
            self.pair.app.name(key, &format!("call {}", self.call_count));
            self.call_count += 1;
        }
    }

    fn cancel(&mut self) {
        if let Some(key) = self.pair.app.nth_pending(self.rng.below(100)) {
            let reason = self.rng.percent(50).then_some("on a whim");
            // The end of the call may be a queued event already.
            match self.pair.client.engine().cancel(self.pair.now, key, reason) {
                Ok(()) | Err(UseError::Stale) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Performs a random operation on an open call as the server.
    fn run_handlers(&mut self) {
        if self.pair.app.open_calls.is_empty() {
            return;
        }
        let at = self.rng.below(self.pair.app.open_calls.len());
        let id = self.pair.app.open_calls[at].0;
        let (now, operation) = (self.pair.now, self.rng.below(6));
        let engine = self.pair.server.engine();
        let text = "y".repeat(self.rng.below(800));
        let result = json!({"content": [{"type": "text", "text": text}]});
        let outcome = match operation {
            0 | 1 => {
                let progress =
                    Progress::new(self.rng.below(1_000) as f64 / 8.0).with_total(99.0).with_message(text);
                return match engine.progress(now, id, progress) {
                    Ok(_) | Err(UseError::Stale) => {}
                    other => panic!("{other:?}"),
                };
            }
            2 | 3 => engine.complete(now, id, &result),
            4 => engine.complete_raw(now, id, &raw(&result)),
            _ => engine.fail(now, id, &RpcError::new(7, "no luck")),
        };
        match outcome {
            Ok(()) => drop(self.pair.app.open_calls.remove(at)),
            // The call was cancelled, and its event has not been polled yet.
            Err(UseError::Stale) => {}
            other => panic!("{other:?}"),
        }
    }

    /// Sends a request of the server (legacy).
    fn request_client(&mut self) {
        let Some(channel) = self.pair.app.channel else { return };
        let method = *self.rng.pick(&["ping", "harbor/name", "harbor/other"]);
        let options = self.options();
        let now = self.pair.now;
        if let Ok(key) = self.pair.server.engine().request(now, channel, method, &json!({}), &options) {
            self.server_requests.push(key);
            self.server_request_count += 1;
        }
        if self.rng.percent(20) && !self.server_requests.is_empty() {
            let key = self.server_requests.swap_remove(self.rng.below(self.server_requests.len()));
            match self.pair.server.engine().cancel_request(now, key, None) {
                Ok(()) | Err(UseError::Stale) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Answers a server request as the client.
    fn answer(&mut self) {
        let pair = &mut self.pair;
        if pair.app.pending_requests.is_empty() {
            pair.app.defers_client_answers = self.rng.percent(70);
            return;
        }
        let request = pair.app.pending_requests.remove(self.rng.below(pair.app.pending_requests.len()));
        let engine = pair.client.engine();
        let _ = engine.progress(pair.now, request.id, Progress::new(1.0));
        let outcome = match self.rng.percent(70) {
            true => engine.respond(pair.now, request.id, &json!({"name": "Mara"})),
            false => engine.refuse(pair.now, request.id, &RpcError::new(7, "no luck")),
        };
        match outcome {
            Ok(()) | Err(UseError::Stale) => {}
            other => panic!("{other:?}"),
        }
    }

    fn notify(&mut self) {
        let params = json!({"text": "z".repeat(self.rng.below(300))});
        let now = self.pair.now;
        let outcome = match (self.rng.percent(50), self.pair.app.channel) {
            (true, Some(channel)) => {
                self.pair.server.engine().notify(now, channel, "notifications/harbor/wave", Some(&params))
            }
            _ => self.pair.client.engine().notify(now, "notifications/harbor/wind", Some(&params)),
        };
        match outcome {
            Ok(()) | Err(UseError::NotReady | UseError::Closed | UseError::Full(_)) => {}
            other => panic!("{other:?}"),
        }
    }

    fn inject(&mut self) {
        let direction = *self.rng.pick(&[MessageDirection::ClientToServer, MessageDirection::ServerToClient]);
        let line = *self.rng.pick(&HOSTILE_LINES);
        self.pair.inject(direction, line.as_bytes());
    }

    fn random_step(&mut self) {
        match self.rng.below(100) {
            0..=24 => self.call(),
            25..=29 => self.cancel(),
            30..=49 => self.run_handlers(),
            50..=54 => self.request_client(),
            55..=61 => self.answer(),
            62..=65 => self.notify(),
            66..=68 => self.ping(),
            69..=71 => self.inject(),
            72..=73 => self.pair.client_reads_input = self.rng.percent(60),
            74..=75 => self.pair.server_reads_input = self.rng.percent(60),
            76 => self.pair.client_polls_events = self.rng.percent(60),
            77 => self.pair.server_polls_events = self.rng.percent(60),
            78..=84 => self.pair.drive_bounded(Duration::from_millis(self.rng.below(100) as u64)),
            85 => self.pair.drive_bounded(Duration::from_secs(self.rng.below(40) as u64)),
            _ => {
                for _ in 0..self.rng.below(30) {
                    self.pair.step();
                }
            }
        }
    }

    fn run(mut self) -> String {
        let steps = 20 + self.rng.below(150);
        for step in 0..steps {
            self.random_step();
            if step % 16 == 0 {
                assert_bounded(&self.pair.client);
                assert_bounded(&self.pair.server);
            }
        }
        match self.rng.below(4) {
            0 => self.pair.kill_server(),
            1 => self.pair.hang_up(),
            2 => self.pair.server.shutdown(self.pair.now, Duration::from_secs(self.rng.below(3) as u64)),
            _ => {}
        }
        let pair = &mut self.pair;
        (pair.client_reads_input, pair.server_reads_input) = (true, true);
        (pair.client_polls_events, pair.server_polls_events) = (true, true);
        pair.app.defers_client_answers = false;
        // Open calls are not answered from here on: each ends by its deadline.
        pair.drive();
        pair.hang_up();
        pair.drive();
        self.check();
        self.transcript()
    }

    fn check(&mut self) {
        let app = &self.pair.app;
        assert_eq!(app.pending_count(), 0, "calls that did not end");
        let ended =
            app.client_log.iter().filter(|l| l.starts_with("call ") && l.contains(" ended: ")).count();
        assert_eq!(ended, self.call_count, "each call ends once");
        let answered = app.server_log.iter().filter(|l| l.starts_with("client answered: ")).count();
        assert_eq!(answered, self.server_request_count, "each request ends once");
        assert!(app.open_calls.is_empty(), "calls without an event for their end: {:?}", app.open_calls);
        assert!(app.client_fault.is_some() && app.server_fault.is_some(), "both sides report the end");
        assert_bounded(&self.pair.client);
        assert_bounded(&self.pair.server);
    }

    fn transcript(&self) -> String {
        let mut story = String::new();
        for message in &self.pair.observer.messages {
            let _ = writeln!(story, "{} {:?} {}", message.at, message.direction, message.value);
        }
        let app = &self.pair.app;
        let _ = writeln!(story, "{:#?}\n{:#?}", app.client_log, app.server_log);
        story
    }
}

// covers: BASE-033, CANC-013, STDIO-010, STDIO-028, TIME-001, PROG-007, PROG-012
#[test]
fn pair_survives_random_schedule() {
    for_each_seed("pair_survives_random_schedule", 200, |seed| PairSimulation::new(seed).run());
}

/// The injected lines are checked here, so that the run above may ignore their effects.
#[test]
fn hostile_lines_are_as_declared() {
    let messages =
        HOSTILE_LINES.iter().filter(|line| serde_json::from_str::<Value>(line).is_ok_and(|v| v.is_object()));
    assert_eq!(messages.count(), 7);
}
