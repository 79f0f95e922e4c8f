//! Our client against our server, with everything around them going as it pleases.

use core::fmt::Write as _;
use core::time::Duration;

use mcp_proto::{
    CallKey, CallOptions, Capabilities, Capability, Progress, RpcError, UseError, Version, VersionSet,
    client, server,
};
use mcp_tests::harness::build::raw;
use mcp_tests::harness::{Chunker, Line, Pair, Rng};
use mcp_tests::schema::Direction;
use serde_json::{Value, json};

use crate::{for_each_seed, stays_small, tight};

/// Lines that no side of ours would write, but that do not end a connection
const ODD: [&str; 12] = [
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

fn sets(rng: &mut Rng) -> VersionSet {
    match rng.below(4) {
        0 => VersionSet::ALL,
        1 => VersionSet::LEGACY,
        2 => VersionSet::MODERN,
        _ => VersionSet::only(*rng.pick(&Version::ALL)),
    }
}

fn line(rng: &mut Rng, seed: u64) -> Line {
    let cut = *rng.pick(&[Chunker::Whole, Chunker::Seeded(seed), Chunker::Seeded(!seed)]);
    let room = *rng.pick(&[usize::MAX, 4_096, 64, 9]);
    Line { cut, latency: Duration::from_millis(rng.below(30) as u64), room }
}

struct World {
    rng: Rng,
    pair: Pair,
    made: usize,
    asked: Vec<CallKey>,
    asked_in_all: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut ours = tight(&mut rng);
        // Two sides that both owe answers beyond their marks wait for each other: see `flow` in `protocol`.
        ours.outbox_mark = 1 << 20;
        let ours = client::Config::new("harbor-client", "0.3.0")
            .versions(sets(&mut rng))
            .capabilities(Capabilities::new().with(Capability::Roots))
            .custom_method("harbor/name")
            .limits(ours);
        let theirs = server::Config::new("tide-server", "2.1.0")
            .versions(sets(&mut rng))
            .capabilities(Capabilities::new().with(Capability::Tools))
            .custom_method("harbor/tide")
            .limits(tight(&mut rng));
        let line = line(&mut rng, seed);
        let pair = Pair::new(ours, theirs, line);
        Self { rng, pair, made: 0, asked: Vec::new(), asked_in_all: 0 }
    }

    fn options(&mut self) -> CallOptions {
        let mut options = CallOptions::new();
        options.progress = self.rng.chance(50);
        options.progress_resets = self.rng.chance(70);
        if self.rng.chance(30) {
            options = options.timeout(Duration::from_millis(self.rng.below(500) as u64));
        }
        if self.rng.chance(20) {
            options = options.total(Duration::from_millis(self.rng.below(2_000) as u64));
        }
        if self.rng.chance(20) {
            options = options.with_meta(raw(&json!({"traceparent": "00-1-2-01", "com.example/x": [1]})));
        }
        options
    }

    fn call(&mut self) {
        let options = self.options();
        let name = format!("call {}", self.made);
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
            self.made += 1;
        }
    }

    fn ping(&mut self) {
        if let Ok(key) = self.pair.client.engine().ping(self.pair.now, &CallOptions::new()) {
            self.pair.app.name(key, &format!("call {}", self.made));
            self.made += 1;
        }
    }

    fn cancel(&mut self) {
        if let Some(key) = self.pair.app.any_waiting(self.rng.below(100)) {
            let reason = self.rng.chance(50).then_some("on a whim");
            // Its end may stand in the queue of events already.
            match self.pair.client.engine().cancel(self.pair.now, key, reason) {
                Ok(()) | Err(UseError::Stale) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Something about a call that the server works on
    fn work(&mut self) {
        if self.pair.app.open.is_empty() {
            return;
        }
        let at = self.rng.below(self.pair.app.open.len());
        let id = self.pair.app.open[at].0;
        let (now, how) = (self.pair.now, self.rng.below(6));
        let engine = self.pair.server.engine();
        let text = "y".repeat(self.rng.below(800));
        let result = json!({"content": [{"type": "text", "text": text}]});
        let outcome = match how {
            0 | 1 => {
                let progress = Progress::new(self.rng.below(1_000) as f64 / 8.0).of(99.0).saying(text);
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
            Ok(()) => drop(self.pair.app.open.remove(at)),
            // Cancelled, and not yet looked at.
            Err(UseError::Stale) => {}
            other => panic!("{other:?}"),
        }
    }

    /// The server asks its client (legacy)
    fn ask(&mut self) {
        let Some(channel) = self.pair.app.channel else { return };
        let method = *self.rng.pick(&["ping", "harbor/name", "harbor/other"]);
        let options = self.options();
        let now = self.pair.now;
        if let Ok(key) = self.pair.server.engine().request(now, channel, method, &json!({}), &options) {
            self.asked.push(key);
            self.asked_in_all += 1;
        }
        if self.rng.chance(20) && !self.asked.is_empty() {
            let key = self.asked.swap_remove(self.rng.below(self.asked.len()));
            match self.pair.server.engine().cancel_request(now, key, None) {
                Ok(()) | Err(UseError::Stale) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The client answers one of these
    fn answer(&mut self) {
        let pair = &mut self.pair;
        if pair.app.asked.is_empty() {
            pair.app.client_waits = self.rng.chance(70);
            return;
        }
        let request = pair.app.asked.remove(self.rng.below(pair.app.asked.len()));
        let engine = pair.client.engine();
        let _ = engine.progress(pair.now, request.id, Progress::new(1.0));
        let outcome = match self.rng.chance(70) {
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
        let outcome = match (self.rng.chance(50), self.pair.app.channel) {
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
        let direction = *self.rng.pick(&[Direction::ClientToServer, Direction::ServerToClient]);
        let line = *self.rng.pick(&ODD);
        self.pair.inject(direction, line.as_bytes());
    }

    fn act(&mut self) {
        match self.rng.below(100) {
            0..=24 => self.call(),
            25..=29 => self.cancel(),
            30..=49 => self.work(),
            50..=54 => self.ask(),
            55..=61 => self.answer(),
            62..=65 => self.notify(),
            66..=68 => self.ping(),
            69..=71 => self.inject(),
            72..=73 => self.pair.client_reads = self.rng.chance(60),
            74..=75 => self.pair.server_reads = self.rng.chance(60),
            76 => self.pair.client_polls = self.rng.chance(60),
            77 => self.pair.server_polls = self.rng.chance(60),
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
            self.act();
            if step % 16 == 0 {
                stays_small(&self.pair.client);
                stays_small(&self.pair.server);
            }
        }
        match self.rng.below(4) {
            0 => self.pair.kill_server(),
            1 => self.pair.hang_up(),
            2 => self.pair.server.shutdown(self.pair.now, Duration::from_secs(self.rng.below(3) as u64)),
            _ => {}
        }
        let pair = &mut self.pair;
        (pair.client_reads, pair.server_reads) = (true, true);
        (pair.client_polls, pair.server_polls) = (true, true);
        pair.app.client_waits = false;
        // Nobody answers what is open: everything ends by its deadline.
        pair.drive();
        pair.hang_up();
        pair.drive();
        self.check();
        self.story()
    }

    fn check(&mut self) {
        let app = &self.pair.app;
        assert_eq!(app.waiting(), 0, "calls without an end");
        let ended =
            app.client_log.iter().filter(|l| l.starts_with("call ") && l.contains(" ended: ")).count();
        assert_eq!(ended, self.made, "each call once");
        let answered = app.server_log.iter().filter(|l| l.starts_with("client answered: ")).count();
        assert_eq!(answered, self.asked_in_all, "each request once");
        assert!(app.open.is_empty(), "calls that the server was told no end of: {:?}", app.open);
        assert!(app.client_end.is_some() && app.server_end.is_some(), "both sides know that it is over");
        stays_small(&self.pair.client);
        stays_small(&self.pair.server);
    }

    fn story(&self) -> String {
        let mut story = String::new();
        for message in &self.pair.watch.messages {
            let _ = writeln!(story, "{} {:?} {}", message.at, message.direction, message.value);
        }
        let app = &self.pair.app;
        let _ = writeln!(story, "{:#?}\n{:#?}", app.client_log, app.server_log);
        story
    }
}

// covers: BASE-033, CANC-013, STDIO-010, STDIO-028, TIME-001, PROG-007, PROG-012
#[test]
fn our_client_and_our_server() {
    for_each_seed("our_client_and_our_server", 200, |seed| World::new(seed).run());
}

/// Kept apart from the run above, whose lines are judged: a value that is no message
#[test]
fn the_odd_lines_are_odd() {
    let messages = ODD.iter().filter(|line| serde_json::from_str::<Value>(line).is_ok_and(|v| v.is_object()));
    assert_eq!(messages.count(), 7);
}
