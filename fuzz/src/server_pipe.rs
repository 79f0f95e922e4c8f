//! Fuzz target for a server on a byte stream that receives arbitrary input.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::pipe::{Pipe, Server};
use mcp_proto::server::{Call, Config, Event};
use mcp_proto::testing::Rng;
use mcp_proto::{CallId, Capabilities, Capability, Instant, Limits, Progress, RawJson, RpcError, VersionSet};

use super::input::{Chunking, FuzzInput};
use super::wire;

/// Feeds arbitrary input to a server and checks its invariants.
///
/// - Events and output do not depend on how the input is cut.
/// - The output consists of messages only.
/// - Each call ends exactly once, and live calls stay within the limits.
/// - The connection ends after the end of the input.
pub fn server_pipe(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let setup = ServerPipeSetup::draw(&mut choices);
    let cuts = Chunking::all(choices.byte());
    let input = choices.rest();
    let want = setup.run(input, Chunking::Whole);
    let messages = wire::messages(&want.sent);
    let max_requests = input.split(|b| *b == b'\n').count() * setup.limits.max_batch.max(1);
    assert!(wire::answers(&messages).values().sum::<usize>() <= max_requests, "more answers than requests");
    for cut in cuts {
        let seen = setup.run(input, cut);
        assert_eq!(seen.events, want.events, "{cut:?}");
        assert_eq!(wire::shown(&seen.sent), wire::shown(&want.sent), "{cut:?}");
    }
}

struct ServerPipeSetup {
    config: Arc<Config>,
    limits: Limits,
    /// Chooses the actions of the application.
    behavior: u8,
    /// Whether the end of the input comes together with its last piece.
    eof_with_last_piece: bool,
    shutdown: bool,
}

#[derive(Debug, Default)]
struct ServerPipeTrace {
    events: Vec<String>,
    sent: Vec<u8>,
}

impl ServerPipeSetup {
    fn draw(choices: &mut FuzzInput<'_>) -> Self {
        let flags = choices.byte();
        let mut limits = Limits::small();
        limits.max_frame = if flags & 1 == 0 { 8 << 10 } else { 192 };
        limits.max_live_calls = if flags & 2 == 0 { 8 } else { 2 };
        limits.outbox_high_water = if flags & 4 == 0 { 4 << 10 } else { 256 };
        limits.max_faulty_messages = (flags & 8 != 0).then_some(8);
        limits.max_waiting_bytes = if flags & 16 == 0 { 8 << 10 } else { 300 };
        limits.tap_records = if flags & 32 == 0 { 0 } else { 4 };
        limits.max_batch_bytes = if flags & 64 == 0 { 8 << 10 } else { 256 };
        limits.max_meta_cache = if flags & 128 == 0 { 512 } else { 0 };
        let versions = match choices.below(4) {
            0 => VersionSet::ALL,
            1 => VersionSet::LEGACY,
            2 => VersionSet::MODERN,
            _ => VersionSet::only(mcp_proto::Version::V2025_03_26),
        };
        let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::Resources);
        let config = Config::new("fuzz", "1")
            .capabilities(capabilities)
            .instructions("line\nbreak")
            .versions(versions)
            .custom_method("x/y")
            .redact_in_tap("secret")
            .limits(limits.clone());
        let behavior = choices.byte();
        Self {
            config: Arc::new(config),
            limits,
            behavior,
            eof_with_last_piece: behavior & 32 != 0,
            shutdown: behavior & 64 != 0,
        }
    }

    fn run(&self, input: &[u8], cut: Chunking) -> ServerPipeTrace {
        let mut run = ServerPipeRun {
            setup: self,
            server: Server::new(Arc::clone(&self.config), Instant::ZERO),
            now: Instant::ZERO,
            writes: Rng::new(input.len() as u64),
            live: BTreeSet::new(),
            held: VecDeque::new(),
            calls: 0,
            closed: false,
            trace: ServerPipeTrace::default(),
        };
        let pieces = cut.pieces(input);
        for (i, piece) in pieces.iter().enumerate() {
            run.server.handle_input(run.now, piece);
            if self.eof_with_last_piece && i + 1 == pieces.len() {
                run.server.handle_eof(run.now);
            }
            run.settle();
        }
        run.end();
        run.trace
    }
}

struct ServerPipeRun<'a> {
    setup: &'a ServerPipeSetup,
    server: Server,
    now: Instant,
    writes: Rng,
    /// Delivered calls that have not ended.
    live: BTreeSet<CallId>,
    /// Live calls that are answered later.
    held: VecDeque<CallId>,
    calls: usize,
    closed: bool,
    trace: ServerPipeTrace,
}

impl ServerPipeRun<'_> {
    /// Polls until nothing is left to do; answers the oldest call when the server waits for an answer.
    fn settle(&mut self) {
        loop {
            while let Some(event) = self.server.poll_event(self.now) {
                self.drain();
                self.handle_event(event);
            }
            let pending = !self.server.transmit().is_empty();
            self.drain();
            assert_eq!(self.server.engine().live_calls(), self.live.len());
            let channel = self.server.channel();
            let stalled = !self.closed && self.server.engine().is_stalled(channel);
            if stalled && !pending {
                let Some(call) = self.held.pop_front() else { return };
                self.answer(call);
            } else if !pending {
                return;
            }
        }
    }

    /// Takes all output, a few bytes at a time.
    fn drain(&mut self) {
        let limit = self.setup.limits.outbox_high_water
            + self.setup.limits.max_frame * 2
            + self.setup.limits.max_batch_bytes;
        let mut written = 0;
        loop {
            let bytes = self.server.transmit();
            if bytes.is_empty() {
                break;
            }
            let n = bytes.len().min(1 + self.writes.next_high() as usize % 100);
            self.trace.sent.extend_from_slice(&bytes[..n]);
            self.server.consume(n);
            written += n;
        }
        assert!(written <= limit, "{written} bytes of output");
    }

    fn handle_event(&mut self, event: Event) {
        assert!(!self.closed, "after the end: {event:?}");
        self.trace.events.push(format!("{event:?}"));
        match event {
            Event::Call(call) => self.handle_call(&call),
            Event::Cancelled { call, .. } => {
                assert!(self.live.remove(&call), "ended twice");
                self.held.retain(|c| *c != call);
                assert!(
                    self.server.engine().complete(self.now, call, &EmptyObject {}).is_err(),
                    "a stale key must be refused"
                );
            }
            Event::Closed { .. } => self.closed = true,
            _ => {}
        }
        let engine = self.server.engine();
        let limit = self.setup.limits.max_live_calls as usize;
        assert!(engine.live_calls() <= limit, "{} live calls", engine.live_calls());
        while engine.poll_tap().is_some_and(|r| r.bytes.len() <= self.setup.limits.tap_bytes) {}
    }

    fn handle_call(&mut self, call: &Call) {
        assert!(self.live.insert(call.id()), "delivered twice");
        self.calls += 1;
        let peer = self.server.engine().peer(call);
        assert!(peer.version == call.version() && peer.capabilities.is_object());
        let _ = call.tool_call().and_then(|t| t.parse::<serde::de::IgnoredAny>());
        match (self.calls + usize::from(self.setup.behavior)) % 5 {
            0 | 1 => self.held.push_back(call.id()),
            2 => {
                for step in [1.0, 1.0, 2.5, f64::NAN] {
                    let progress = Progress::new(step).with_total(3.0).with_message("\u{2028}so\nfar");
                    assert!(self.server.engine().progress(self.now, call.id(), progress).is_ok());
                }
                self.answer(call.id());
            }
            _ => {
                let echo = call.params().unwrap_or_else(|| RawJson::new("{}").expect("JSON"));
                match self.server.engine().complete_raw(self.now, call.id(), &echo) {
                    Ok(()) => {
                        self.live.remove(&call.id());
                    }
                    // The request had reserved metadata or an invalid result type: the call is still open.
                    Err(mcp_proto::UseError::ReservedKey(_) | mcp_proto::UseError::Encode(_)) => {
                        self.answer(call.id())
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    fn answer(&mut self, call: CallId) {
        assert!(self.live.remove(&call));
        let engine = self.server.engine();
        let done = match (self.calls + usize::from(self.setup.behavior)) % 3 {
            0 => engine.fail(self.now, call, &RpcError::internal("no\nluck")),
            1 => engine.complete(self.now, call, &EmptyObject {}),
            _ => engine.complete(self.now, call, &TextParams { text: "a\n\"b\"", meta: EmptyObject {} }),
        };
        assert!(done.is_ok());
        assert!(engine.fail(self.now, call, &RpcError::internal("again")).is_err(), "answered twice");
    }

    /// Ends the input, lets all deadlines pass, and checks that nothing is left.
    fn end(&mut self) {
        if self.setup.shutdown {
            self.server.shutdown(self.now, Duration::from_secs(1));
        } else {
            self.server.handle_eof(self.now);
        }
        self.settle();
        for _ in 0..200 {
            let Some(at) = self.server.poll_timeout() else { break };
            self.now = self.now.max(at);
            self.server.handle_timeout(self.now);
            assert!(
                self.server.poll_timeout().is_none_or(|next| next > self.now),
                "the deadline did not advance"
            );
            self.settle();
        }
        assert!(self.server.poll_timeout().is_none() && self.live.is_empty());
        assert!(self.closed && self.server.is_drained(), "not everything has ended");
    }
}

#[derive(serde::Serialize)]
struct EmptyObject {}

#[derive(serde::Serialize)]
struct TextParams<'a> {
    text: &'a str,
    #[serde(rename = "_meta")]
    meta: EmptyObject,
}
