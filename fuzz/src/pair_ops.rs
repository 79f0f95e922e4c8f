//! Fuzz target for a client and a server connected by two byte streams, driven by a list of operations.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::{
    CallId, CallKey, CallOptions, Capabilities, Capability, Diagnostic, EntryKind, Fault, Instant, Limits,
    Progress, RpcError, UseError, Version, VersionSet, client, server,
};

use super::input::FuzzInput;
use super::wire;

/// Runs a list of operations on both ends and checks the invariants of the pair.
///
/// - The handshake succeeds if both have a revision in common.
/// - Each call ends once.
/// - Neither end reports an error of the other.
/// - Nothing is pending after all bytes are delivered and all calls are answered.
pub fn pair_ops(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let mut run = PairRun::draw(&mut choices);
    for _ in 0..300 {
        if choices.is_empty() {
            break;
        }
        run.step(&mut choices);
    }
    run.end();
}

struct PairRun {
    client: Client,
    server: Server,
    now: Instant,
    has_common_version: bool,
    /// Bytes in flight, and all bytes that were ever sent.
    up: PairStream,
    down: PairStream,
    calls: BTreeSet<CallKey>,
    requests: VecDeque<CallId>,
    live: Vec<CallId>,
    server_calls: BTreeSet<CallKey>,
    ready: bool,
    closed: bool,
}

#[derive(Default)]
struct PairStream {
    bytes: VecDeque<u8>,
    all: Vec<u8>,
}

fn versions(choices: &mut FuzzInput<'_>) -> VersionSet {
    let how = choices.below(8);
    match Version::ALL.get(how) {
        Some(version) => VersionSet::only(*version),
        None if how == 5 => VersionSet::LEGACY,
        None => VersionSet::ALL,
    }
}

impl PairRun {
    fn draw(choices: &mut FuzzInput<'_>) -> Self {
        let (client_versions, server_versions, how) = (versions(choices), versions(choices), choices.byte());
        let mut limits = Limits::small();
        limits.max_live_calls = 1 + u32::from(how % 4);
        limits.max_pending_calls = 8;
        limits.outbox_high_water = if how & 8 == 0 { 8 << 10 } else { 200 };
        // Time advances in leaps here; a call must not time out because of one.
        limits.call_timeout = Duration::from_secs(1 << 40);
        limits.call_total_timeout = Duration::from_secs(1 << 40);
        limits.max_call_age = Duration::from_secs(1 << 40);
        let client = client::Config::new("c", "1")
            .versions(client_versions)
            .custom_method("x/y")
            .limits(limits.clone());
        let server = server::Config::new("s", "1")
            .versions(server_versions)
            .capabilities(Capabilities::new().with(Capability::Tools))
            .custom_method("x/z")
            .limits(limits);
        Self {
            client: Client::new(Arc::new(client), Instant::ZERO),
            server: Server::new(Arc::new(server), Instant::ZERO),
            now: Instant::ZERO,
            has_common_version: client_versions.iter().any(|v| server_versions.contains(v)),
            up: PairStream::default(),
            down: PairStream::default(),
            calls: BTreeSet::new(),
            requests: VecDeque::new(),
            live: Vec::new(),
            server_calls: BTreeSet::new(),
            ready: false,
            closed: false,
        }
    }

    fn step(&mut self, choices: &mut FuzzInput<'_>) {
        let nothing: Option<&BTreeMap<&str, u8>> = None;
        match choices.below(12) {
            0 | 1 => self.call(choices),
            2 => {
                if let Some(key) = self.calls.first().copied() {
                    // Stale if the call has ended and its event is still unpolled.
                    let done = self.client.engine().cancel(self.now, key, choices.boolean().then_some("r"));
                    assert!(matches!(done, Ok(()) | Err(UseError::Stale)), "{done:?}");
                }
            }
            3 => self.answer_call(choices),
            4 => {
                let nth = choices.below(self.live.len());
                if let Some(call) = self.live.get(nth) {
                    let progress = Progress::new(f64::from(choices.byte())).with_message("x");
                    let _ = self.server.engine().progress(self.now, *call, progress);
                }
            }
            5 => {
                let (channel, method) = (self.server.channel(), ["ping", "x/y"][choices.below(2)]);
                let params = BTreeMap::<&str, u8>::new();
                let made =
                    self.server.engine().request(self.now, channel, method, &params, &CallOptions::new());
                if let Ok(key) = made {
                    assert!(self.server_calls.insert(key));
                }
            }
            6 => {
                if let Some(id) = self.requests.pop_front() {
                    let _ = self.client.engine().respond(self.now, id, &BTreeMap::from([("ok", true)]));
                }
            }
            7 => {
                if let Some(key) = self.server_calls.first().copied() {
                    let _ = self.server.engine().cancel_request(self.now, key, None);
                }
            }
            8 => {
                let channel = self.server.channel();
                let _ = self.server.engine().notify(self.now, channel, "x/news", nothing);
                let _ = self.client.engine().notify(self.now, "x/news", nothing);
            }
            9 => {
                // Below the probe timeout of the client.
                self.now = self.now + Duration::from_millis(u64::from(choices.byte()));
                self.client.handle_timeout(self.now);
                self.server.handle_timeout(self.now);
            }
            _ => self.deliver(choices.byte().into(), choices.byte().into()),
        }
        if choices.boolean() {
            self.poll();
        }
    }

    fn call(&mut self, choices: &mut FuzzInput<'_>) {
        let how = choices.byte();
        let options = if how & 1 == 0 { CallOptions::new() } else { CallOptions::new().with_progress() };
        let (now, engine) = (self.now, self.client.engine());
        let made = match how >> 1 & 3 {
            0 => engine.call_tool(now, "t", &BTreeMap::from([("x", how)]), &options),
            1 => {
                engine.list(now, [EntryKind::Tool, EntryKind::Prompt][usize::from(how >> 7)], None, &options)
            }
            2 => engine.ping(now, &options),
            _ => engine.call(now, "x/z", &BTreeMap::from([("x", how)]), &options),
        };
        if let Ok(key) = made {
            assert!(self.calls.insert(key), "key assigned twice");
        }
    }

    /// Answers a call as the application of the server.
    fn answer_call(&mut self, choices: &mut FuzzInput<'_>) {
        let nth = choices.below(self.live.len());
        if nth >= self.live.len() {
            return;
        }
        let call = self.live.remove(nth);
        let done = match choices.below(3) {
            0 => self.server.engine().fail(self.now, call, &RpcError::internal("no")),
            _ => self.server.engine().complete(self.now, call, &BTreeMap::from([("n", choices.byte())])),
        };
        // Stale if its cancellation has arrived and is still unpolled.
        assert!(matches!(done, Ok(()) | Err(UseError::Stale)), "{done:?}");
    }

    /// Moves up to the given number of bytes in each direction.
    fn deliver(&mut self, up: usize, down: usize) {
        pump(&mut self.client, &mut self.up);
        pump(&mut self.server, &mut self.down);
        if self.server.wants_input() {
            let n = up.min(self.up.bytes.len());
            let bytes: Vec<u8> = self.up.bytes.drain(..n).collect();
            self.server.handle_input(self.now, &bytes);
        }
        if self.client.wants_input() {
            let n = down.min(self.down.bytes.len());
            let bytes: Vec<u8> = self.down.bytes.drain(..n).collect();
            self.client.handle_input(self.now, &bytes);
        }
    }

    fn poll(&mut self) {
        while let Some(event) = self.client.poll_event(self.now) {
            self.handle_client_event(event);
        }
        while let Some(event) = self.server.poll_event(self.now) {
            self.handle_server_event(event);
        }
    }

    fn handle_client_event(&mut self, event: client::Event) {
        use client::Event;
        assert!(!self.closed, "after the end: {event:?}");
        match event {
            Event::Ready(_) => assert!(self.has_common_version && !core::mem::replace(&mut self.ready, true)),
            Event::Done { call, .. } => assert!(self.calls.remove(&call), "ended twice"),
            Event::Progress { call, .. } => assert!(self.calls.contains(&call), "the call is not open"),
            Event::Request(request) => self.requests.push_back(request.id),
            Event::RequestCancelled(id) => self.requests.retain(|r| *r != id),
            Event::Closed(fault) => {
                self.closed = true;
                assert!(self.ready || !self.has_common_version || fault == Fault::Closed, "{fault}");
            }
            Event::Diagnostic(diagnostic) => assert_tolerable(&diagnostic),
            _ => {}
        }
    }

    fn handle_server_event(&mut self, event: server::Event) {
        use server::Event;
        match event {
            Event::Call(call) => self.live.push(call.id()),
            Event::Cancelled { call, .. } => self.live.retain(|c| *c != call),
            Event::Done { call, .. } => assert!(self.server_calls.remove(&call), "ended twice"),
            Event::Diagnostic { diagnostic, .. } => assert_tolerable(&diagnostic),
            _ => {}
        }
    }

    /// Delivers and answers everything, closes the client, and checks that nothing is pending.
    fn end(&mut self) {
        for _ in 0..10_000 {
            self.poll();
            self.deliver(64, 64);
            self.poll();
            let answered = !self.live.is_empty() || !self.requests.is_empty();
            while let Some(call) = self.live.pop() {
                let _ = self.server.engine().complete(self.now, call, &BTreeMap::from([("n", 1)]));
            }
            while let Some(id) = self.requests.pop_front() {
                let _ = self.client.engine().respond(self.now, id, &BTreeMap::from([("n", 1)]));
            }
            let written = self.client.transmit().is_empty() && self.server.transmit().is_empty();
            if written && !answered && self.up.bytes.is_empty() && self.down.bytes.is_empty() {
                break;
            }
        }
        assert!(self.ready || !self.has_common_version, "handshake did not complete");
        assert!(self.calls.is_empty(), "calls are pending");
        assert!(self.closed || self.server_calls.is_empty(), "requests are pending");
        self.client.engine().close(self.now);
        self.deliver(usize::MAX, usize::MAX);
        self.server.handle_eof(self.now);
        self.poll();
        assert!(self.closed && self.calls.is_empty() && self.server_calls.is_empty());
        wire::messages(&self.up.all);
        wire::messages(&self.down.all);
    }
}

/// Checks that a diagnostic reports only messages that crossed an answer or a cancellation, or a deprecated feature.
fn assert_tolerable(diagnostic: &Diagnostic) {
    let crossed = matches!(
        diagnostic,
        Diagnostic::LateResponse(_)
            | Diagnostic::UnknownCancellation(_)
            | Diagnostic::UnknownProgress
            | Diagnostic::DeprecatedFeature { .. }
    );
    assert!(crossed, "{diagnostic:?}");
}

fn pump(from: &mut impl Pipe, to: &mut PairStream) {
    loop {
        let bytes = from.transmit();
        if bytes.is_empty() {
            return;
        }
        to.bytes.extend(bytes);
        to.all.extend_from_slice(bytes);
        let n = bytes.len();
        from.consume(n);
    }
}
