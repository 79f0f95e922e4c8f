//! Fuzz target for a client on a byte stream that receives arbitrary input while it makes calls.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;

use mcp_proto::client::{Config, Event, InputId, KnownEra, SubscriptionKey, TaskRequest};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::pipe::{Client, Pipe};
use mcp_proto::testing::Rng;
use mcp_proto::{
    CallId, CallKey, CallOptions, Capabilities, Capability, EntryKind, Instant, Limits, Progress, RawJson,
    RpcError, UseError, VersionSet,
};

use super::input::{Chunking, FuzzInput};
use super::wire;

/// Feeds arbitrary input to a client and checks its invariants.
///
/// - Events and output do not depend on how the input is cut.
/// - The output consists of messages only.
/// - Each call ends exactly once.
pub fn client_pipe(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let setup = ClientPipeSetup::draw(&mut choices);
    let cuts = Chunking::all(choices.byte());
    let input = choices.rest();
    let want = setup.run(input, Chunking::Whole);
    wire::messages(&want.sent);
    for cut in cuts {
        let seen = setup.run(input, cut);
        assert_eq!(seen.events, want.events, "{cut:?}");
        assert_eq!(wire::shown(&seen.sent), wire::shown(&want.sent), "{cut:?}");
    }
}

struct ClientPipeSetup {
    config: Arc<Config>,
    limits: Limits,
    behavior: u8,
    eof_with_last_piece: bool,
}

#[derive(Debug, Default)]
struct ClientPipeTrace {
    events: Vec<String>,
    sent: Vec<u8>,
}

impl ClientPipeSetup {
    #[expect(deprecated, reason = "tested until its removal")]
    fn draw(choices: &mut FuzzInput<'_>) -> Self {
        let flags = choices.byte();
        let mut limits = Limits::small();
        limits.max_frame = if flags & 1 == 0 { 8 << 10 } else { 192 };
        limits.max_live_calls = if flags & 2 == 0 { 8 } else { 2 };
        limits.outbox_high_water = if flags & 4 == 0 { 4 << 10 } else { 256 };
        limits.max_faulty_messages = (flags & 8 != 0).then_some(8);
        limits.max_queued_bytes = if flags & 16 == 0 { 8 << 10 } else { 40 };
        limits.max_pending_calls = if flags & 32 == 0 { 8 } else { 3 };
        limits.tap_records = if flags & 64 == 0 { 0 } else { 4 };
        let versions = match choices.below(4) {
            0 => VersionSet::ALL,
            1 => VersionSet::LEGACY,
            2 => VersionSet::MODERN,
            _ => VersionSet::only(mcp_proto::Version::V2025_03_26),
        };
        let known_era = match choices.below(3) {
            0 => None,
            1 => Some(KnownEra::Modern),
            _ => Some(KnownEra::Legacy),
        };
        let config = Config::new("fuzz", "1")
            .capabilities(
                Capabilities::new()
                    .with(Capability::Roots)
                    .with(Capability::Sampling)
                    .with(Capability::Elicitation),
            )
            .versions(versions)
            .known_era(known_era)
            .custom_method("x/y")
            .tasks()
            .limits(limits.clone());
        let behavior = choices.byte();
        Self { config: Arc::new(config), limits, behavior, eof_with_last_piece: behavior & 32 != 0 }
    }

    fn run(&self, input: &[u8], cut: Chunking) -> ClientPipeTrace {
        let mut run = ClientPipeRun {
            setup: self,
            client: Client::new(Arc::clone(&self.config), Instant::ZERO),
            now: Instant::ZERO,
            writes: Rng::new(input.len() as u64),
            calls: BTreeMap::new(),
            requests: VecDeque::new(),
            inputs: VecDeque::new(),
            subscriptions: BTreeMap::new(),
            steps: 0,
            closed: false,
            trace: ClientPipeTrace::default(),
        };
        run.start_calls();
        let pieces = cut.pieces(input);
        for (i, piece) in pieces.iter().enumerate() {
            run.client.handle_input(run.now, piece);
            if self.eof_with_last_piece && i + 1 == pieces.len() {
                run.client.handle_eof(run.now);
            }
            run.settle();
        }
        run.end();
        run.trace
    }
}

struct ClientPipeRun<'a> {
    setup: &'a ClientPipeSetup,
    client: Client,
    now: Instant,
    writes: Rng,
    /// Outbound calls, and whether each has ended.
    calls: BTreeMap<CallKey, bool>,
    /// Requests of the server without an answer.
    requests: VecDeque<CallId>,
    /// Input requests of the server without an answer.
    inputs: VecDeque<InputId>,
    /// Subscriptions, and whether each has been acknowledged.
    subscriptions: BTreeMap<SubscriptionKey, bool>,
    steps: usize,
    closed: bool,
    trace: ClientPipeTrace,
}

impl ClientPipeRun<'_> {
    fn settle(&mut self) {
        loop {
            while let Some(event) = self.client.poll_event(self.now) {
                self.drain();
                self.handle_event(event);
            }
            if self.client.transmit().is_empty() {
                return;
            }
            self.drain();
        }
    }

    fn drain(&mut self) {
        loop {
            let bytes = self.client.transmit();
            if bytes.is_empty() {
                return;
            }
            let n = bytes.len().min(1 + self.writes.next_high() as usize % 100);
            self.trace.sent.extend_from_slice(&bytes[..n]);
            self.client.consume(n);
        }
    }

    fn note_call(&mut self, made: &Result<CallKey, UseError>) {
        if let Ok(key) = made {
            assert_eq!(self.calls.insert(*key, false), None, "key assigned twice");
        }
    }

    fn start_calls(&mut self) {
        let meta = RawJson::new("{\"traceparent\": \"00-1\"}").expect("JSON");
        let options = CallOptions::new().with_progress();
        let (now, engine) = (self.now, self.client.engine());
        let made = [
            engine.call_tool(now, "a\n\"b\"", &BTreeMap::from([("x", 1)]), &options),
            engine.call(now, "x/z", &BTreeMap::from([("y", "z")]), &CallOptions::new().with_meta(meta)),
            engine.list(now, EntryKind::Resource, Some("c"), &CallOptions::new()),
            engine.ping(now, &options),
            engine.call_tool_as_task(
                now,
                "t",
                &BTreeMap::<&str, u8>::new(),
                TaskRequest::followed(),
                &options,
            ),
        ];
        for made in &made {
            self.note_call(made);
        }
        let limit = self.setup.limits.max_pending_calls as usize;
        assert!(self.client.engine().pending_calls() <= limit);
        self.subscribe();
    }

    #[expect(deprecated, reason = "tested until its removal")]
    fn subscribe(&mut self) {
        let filter = SubscriptionFilter::new()
            .tools_list_changed(true)
            .resource_subscriptions(["a:b".into(), "c".into()]);
        let (now, engine) = (self.now, self.client.engine());
        let _ = engine.set_log_level(now, Some(LoggingLevel::Debug));
        if let Ok(key) = engine.subscribe(now, &filter) {
            assert_eq!(self.subscriptions.insert(key, false), None, "key assigned twice");
        }
        assert!(self.subscriptions.len() <= self.setup.limits.max_subscriptions);
    }

    #[expect(deprecated, reason = "tested until its removal")]
    fn handle_event(&mut self, event: Event) {
        assert!(!self.closed, "after the end: {event:?}");
        self.trace.events.push(format!("{event:?}"));
        self.steps += 1;
        match event {
            Event::Ready(peer) => {
                assert!(self.setup.config.effective_versions().contains(peer.version));
                self.start_calls();
            }
            Event::Done { call, .. } => {
                assert_eq!(self.calls.insert(call, true), Some(false), "the call is not open");
                assert!(
                    self.client.engine().cancel(self.now, call, None).is_err(),
                    "a stale key must be refused"
                );
            }
            Event::Progress { call, .. } | Event::Task { call, .. } => {
                assert_eq!(self.calls.get(&call), Some(&false), "the call is not open")
            }
            Event::Request(request) => {
                assert!(!self.requests.contains(&request.id), "delivered twice");
                self.requests.push_back(request.id);
                let progress = Progress::new(self.steps as f64);
                assert!(self.client.engine().progress(self.now, request.id, progress).is_ok());
            }
            Event::RequestCancelled(id) => {
                let before = self.requests.len();
                self.requests.retain(|r| *r != id);
                assert_eq!(self.requests.len() + 1, before, "the call is not open");
            }
            Event::Input(input) => {
                assert!(
                    input.call.is_none_or(|call| self.calls.get(&call) == Some(&false)),
                    "the call is not open"
                );
                self.inputs.push_back(input.id);
            }
            Event::InputWithdrawn(id) => {
                let before = self.inputs.len();
                self.inputs.retain(|i| *i != id);
                assert_eq!(self.inputs.len() + 1, before, "the input request is not open");
            }
            Event::Subscribed { key, .. } => {
                assert_eq!(
                    self.subscriptions.insert(key, true),
                    Some(false),
                    "the subscription is not pending"
                );
            }
            Event::Changed { key: Some(key), .. } => {
                assert_eq!(self.subscriptions.get(&key), Some(&true), "unknown subscription");
            }
            Event::SubscriptionEnded { key, .. } => {
                assert!(self.subscriptions.remove(&key).is_some(), "unknown subscription");
                assert!(
                    self.client.engine().unsubscribe(self.now, key).is_err(),
                    "a stale key must be refused"
                );
            }
            Event::Closed(_) => self.closed = true,
            Event::Log(_)
            | Event::ElicitationComplete(_)
            | Event::Changed { key: None, .. }
            | Event::Notification(_)
            | Event::Diagnostic(_) => {}
            other => panic!("unknown event: {other:?}"),
        }
        self.take_action();
    }

    /// Acts as the application; the action depends on the number of events so far.
    fn take_action(&mut self) {
        assert!(self.requests.len() <= self.setup.limits.max_live_calls as usize);
        if let (Some(id), true) = (self.inputs.front().copied(), self.steps % 2 == 0) {
            let result = BTreeMap::from([("action", "decline")]);
            let engine = self.client.engine();
            let done = match self.steps % 6 {
                0 => engine.refuse(self.now, id, &RpcError::internal("no")),
                _ => engine.answer(self.now, id, &result),
            };
            match done {
                Ok(()) => drop(self.inputs.pop_front()),
                // The request is of another kind: the answer is refused and nothing changes.
                Err(UseError::InvalidInputResponse { .. }) => {
                    let no = RpcError::internal("no");
                    assert_eq!(self.client.engine().refuse(self.now, id, &no), Ok(()));
                    self.inputs.pop_front();
                }
                Err(e) => assert_eq!(e, UseError::Stale),
            }
            assert!(self.client.engine().answer(self.now, id, &result).is_err(), "answered twice");
        }
        match (self.steps + usize::from(self.setup.behavior)) % 8 {
            0 => {
                let open = self.calls.iter().find(|(_, ended)| !**ended).map(|(key, _)| *key);
                if let Some(key) = open {
                    // Stale if the call has ended and its event is still unpolled.
                    let done = self.client.engine().cancel(self.now, key, Some("no\nmore"));
                    assert!(matches!(done, Ok(()) | Err(UseError::Stale)), "{done:?}");
                }
            }
            1 | 2 => {
                if let Some(id) = self.requests.front().copied() {
                    let result = BTreeMap::from([("roots", [0; 0])]);
                    let done = self.client.engine().respond(self.now, id, &result);
                    self.finish_request(done);
                    assert!(self.client.engine().respond(self.now, id, &result).is_err(), "answered twice");
                }
            }
            3 => {
                if let Some(id) = self.requests.front().copied() {
                    let done = self.client.engine().refuse(self.now, id, &RpcError::internal("no\nluck"));
                    self.finish_request(done);
                }
            }
            4 if self.steps < 40 => {
                let made = self.client.engine().call_tool(
                    self.now,
                    "t",
                    &BTreeMap::<&str, u8>::new(),
                    &CallOptions::new(),
                );
                self.note_call(&made);
            }
            6 => {
                let open = self.subscriptions.first_key_value().map(|(key, _)| *key);
                if let Some(key) = open {
                    if self.client.engine().unsubscribe(self.now, key).is_ok() {
                        self.subscriptions.remove(&key);
                    }
                    self.subscribe();
                }
            }
            5 => {
                let _ = self.client.engine().notify(
                    self.now,
                    "x/news",
                    Some(&BTreeMap::from([("n", self.steps)])),
                );
            }
            _ => {}
        }
    }

    /// Checks that the oldest request was answered, or had ended already while its event was unpolled.
    fn finish_request(&mut self, done: Result<(), UseError>) {
        match done {
            Ok(()) => drop(self.requests.pop_front()),
            Err(e) => assert_eq!(e, UseError::Stale),
        }
    }

    /// Ends the input, or lets time pass until no deadline is left, and checks that everything ends.
    fn end(&mut self) {
        for _ in 0..200 {
            if self.setup.behavior & 64 == 0 {
                break;
            }
            let Some(at) = self.client.poll_timeout() else { break };
            self.now = self.now.max(at);
            self.client.handle_timeout(self.now);
            assert!(
                self.client.poll_timeout().is_none_or(|next| next > self.now),
                "the deadline did not advance"
            );
            self.settle();
        }
        self.client.handle_eof(self.now);
        self.settle();
        assert!(self.closed && self.client.is_drained(), "not everything has ended");
        assert!(self.calls.values().all(|ended| *ended), "a call without an outcome");
        assert!(self.inputs.is_empty() && self.subscriptions.is_empty(), "not everything has ended");
        assert!(self.requests.is_empty() && self.client.engine().pending_calls() == 0);
        let made =
            self.client.engine().call(self.now, "x/z", &BTreeMap::from([("y", "z")]), &CallOptions::new());
        assert!(made.is_err(), "a call on a closed connection");
    }
}
