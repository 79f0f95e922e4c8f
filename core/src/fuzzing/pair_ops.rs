//! A client and a server that talk to each other over two byte streams, driven by a list of operations.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::dice::Dice;
use super::wire;
use crate::client::{self, Kind};
use crate::pipe::{Client, Pipe, Server};
use crate::server;
use crate::{
    CallId, CallKey, CallOptions, Capabilities, Capability, Diagnostic, Fault, Instant, Limits, Progress,
    RpcError, UseError, Version, VersionSet,
};

/// Two ends of ours always come to terms if they have a revision in common; each call ends once; neither finds fault
/// with what the other says; and once everything is delivered and answered, nothing is left waiting
pub fn pair_ops(data: &[u8]) {
    let mut dice = Dice::new(data);
    let mut play = Play::draw(&mut dice);
    for _ in 0..300 {
        if dice.is_empty() {
            break;
        }
        play.step(&mut dice);
    }
    play.end();
}

struct Play {
    client: Client,
    server: Server,
    now: Instant,
    common: bool,
    /// Bytes on their way, and all that ever were
    up: Stream,
    down: Stream,
    calls: BTreeSet<CallKey>,
    requests: VecDeque<CallId>,
    live: Vec<CallId>,
    ours: BTreeSet<CallKey>,
    ready: bool,
    closed: bool,
}

#[derive(Default)]
struct Stream {
    bytes: VecDeque<u8>,
    all: Vec<u8>,
}

fn versions(dice: &mut Dice<'_>) -> VersionSet {
    let how = dice.below(8);
    match Version::ALL.get(how) {
        Some(version) => VersionSet::only(*version),
        None if how == 5 => VersionSet::LEGACY,
        None => VersionSet::ALL,
    }
}

impl Play {
    fn draw(dice: &mut Dice<'_>) -> Self {
        let (ours, theirs, how) = (versions(dice), versions(dice), dice.byte());
        let limits = Limits {
            max_live_calls: 1 + u32::from(how % 4),
            max_pending_calls: 8,
            outbox_mark: if how & 8 == 0 { 8 << 10 } else { 200 },
            // Time passes by leaps here; an answer must not be late because of one.
            call_timeout: Duration::from_secs(1 << 40),
            call_total: Duration::from_secs(1 << 40),
            max_call_age: Duration::from_secs(1 << 40),
            ..Limits::small()
        };
        let client = client::Config::new("c", "1").versions(ours).custom_method("x/y").limits(limits.clone());
        let server = server::Config::new("s", "1")
            .versions(theirs)
            .capabilities(Capabilities::new().with(Capability::Tools))
            .custom_method("x/z")
            .limits(limits);
        Self {
            client: Client::new(Arc::new(client), Instant::ZERO),
            server: Server::new(Arc::new(server), Instant::ZERO),
            now: Instant::ZERO,
            common: ours.iter().any(|v| theirs.contains(v)),
            up: Stream::default(),
            down: Stream::default(),
            calls: BTreeSet::new(),
            requests: VecDeque::new(),
            live: Vec::new(),
            ours: BTreeSet::new(),
            ready: false,
            closed: false,
        }
    }

    fn step(&mut self, dice: &mut Dice<'_>) {
        let nothing: Option<&BTreeMap<&str, u8>> = None;
        match dice.below(12) {
            0 | 1 => self.call(dice),
            2 => {
                if let Some(key) = self.calls.first().copied() {
                    // Stale when it has ended and the event that says so has not been taken yet.
                    let done = self.client.engine().cancel(self.now, key, dice.flag().then_some("r"));
                    assert!(matches!(done, Ok(()) | Err(UseError::Stale)), "{done:?}");
                }
            }
            3 => self.work(dice),
            4 => {
                let nth = dice.below(self.live.len());
                if let Some(call) = self.live.get(nth) {
                    let news = Progress::new(f64::from(dice.byte())).saying("x");
                    let _ = self.server.engine().progress(self.now, *call, news);
                }
            }
            5 => {
                let (channel, method) = (self.server.channel(), ["ping", "x/y"][dice.below(2)]);
                let params = BTreeMap::<&str, u8>::new();
                let made =
                    self.server.engine().request(self.now, channel, method, &params, &CallOptions::new());
                if let Ok(key) = made {
                    assert!(self.ours.insert(key));
                }
            }
            6 => {
                if let Some(id) = self.requests.pop_front() {
                    let _ = self.client.engine().respond(self.now, id, &BTreeMap::from([("ok", true)]));
                }
            }
            7 => {
                if let Some(key) = self.ours.first().copied() {
                    let _ = self.server.engine().cancel_request(self.now, key, None);
                }
            }
            8 => {
                let channel = self.server.channel();
                let _ = self.server.engine().notify(self.now, channel, "x/news", nothing);
                let _ = self.client.engine().notify(self.now, "x/news", nothing);
            }
            9 => {
                // Below the time after which the client stops waiting for an answer to its first question.
                self.now = self.now + Duration::from_millis(u64::from(dice.byte()));
                self.client.handle_timeout(self.now);
                self.server.handle_timeout(self.now);
            }
            _ => self.deliver(dice.byte().into(), dice.byte().into()),
        }
        if dice.flag() {
            self.poll();
        }
    }

    fn call(&mut self, dice: &mut Dice<'_>) {
        let how = dice.byte();
        let options = if how & 1 == 0 { CallOptions::new() } else { CallOptions::new().with_progress() };
        let (now, engine) = (self.now, self.client.engine());
        let made = match how >> 1 & 3 {
            0 => engine.call_tool(now, "t", &BTreeMap::from([("x", how)]), &options),
            1 => engine.list(now, [Kind::Tool, Kind::Prompt][usize::from(how >> 7)], None, &options),
            2 => engine.ping(now, &options),
            _ => engine.call(now, "x/z", &BTreeMap::from([("x", how)]), &options),
        };
        if let Ok(key) = made {
            assert!(self.calls.insert(key), "a key given out twice");
        }
    }

    /// The server's application answers a call
    fn work(&mut self, dice: &mut Dice<'_>) {
        let nth = dice.below(self.live.len());
        if nth >= self.live.len() {
            return;
        }
        let call = self.live.remove(nth);
        let done = match dice.below(3) {
            0 => self.server.engine().fail(self.now, call, &RpcError::internal("no")),
            _ => self.server.engine().complete(self.now, call, &BTreeMap::from([("n", dice.byte())])),
        };
        // Stale when its cancellation has come and nobody has looked.
        assert!(matches!(done, Ok(()) | Err(UseError::Stale)), "{done:?}");
    }

    /// Moves up to so many bytes each way
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
            self.client_event(event);
        }
        while let Some(event) = self.server.poll_event(self.now) {
            self.server_event(event);
        }
    }

    fn client_event(&mut self, event: client::Event) {
        use client::Event;
        assert!(!self.closed, "after the end: {event:?}");
        match event {
            Event::Ready(_) => assert!(self.common && !core::mem::replace(&mut self.ready, true)),
            Event::Done { call, .. } => assert!(self.calls.remove(&call), "ended twice"),
            Event::Progress { call, .. } => assert!(self.calls.contains(&call), "not in work"),
            Event::Request(request) => self.requests.push_back(request.id),
            Event::RequestCancelled(id) => self.requests.retain(|r| *r != id),
            Event::Closed(fault) => {
                self.closed = true;
                assert!(self.ready || !self.common || fault == Fault::Closed, "{fault}");
            }
            Event::Diagnostic(diagnostic) => tolerable(&diagnostic),
            _ => {}
        }
    }

    fn server_event(&mut self, event: server::Event) {
        use server::Event;
        match event {
            Event::Call(call) => self.live.push(call.id()),
            Event::Cancelled { call, .. } => self.live.retain(|c| *c != call),
            Event::Done { call, .. } => assert!(self.ours.remove(&call), "ended twice"),
            Event::Diagnostic { diagnostic, .. } => tolerable(&diagnostic),
            _ => {}
        }
    }

    /// Everything is delivered and answered; then the client leaves
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
        assert!(self.ready || !self.common, "no handshake");
        assert!(self.calls.is_empty(), "calls are left waiting");
        assert!(self.closed || self.ours.is_empty(), "requests are left waiting");
        self.client.engine().close(self.now);
        self.deliver(usize::MAX, usize::MAX);
        self.server.handle_eof(self.now);
        self.poll();
        assert!(self.closed && self.calls.is_empty() && self.ours.is_empty());
        wire::messages(&self.up.all);
        wire::messages(&self.down.all);
    }
}

/// What the other end may be told apart from nothing: what crossed with an end or a cancellation
fn tolerable(diagnostic: &Diagnostic) {
    let crossed = matches!(
        diagnostic,
        Diagnostic::LateResponse(_) | Diagnostic::UnknownCancel(_) | Diagnostic::UnknownProgress
    );
    assert!(crossed, "{diagnostic:?}");
}

fn pump(from: &mut impl Pipe, to: &mut Stream) {
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
