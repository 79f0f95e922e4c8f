//! A client on a byte stream, fed with anything while it makes calls.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::dice::{Cut, Dice, Random};
use super::wire;
use crate::client::{Config, Event, InputId, Kind, SubscriptionKey, Verdict};
use crate::model::{LoggingLevel, SubscriptionFilter};
use crate::pipe::{Client, Pipe};
use crate::{
    CallId, CallKey, CallOptions, Capabilities, Capability, Instant, Limits, Progress, RawJson, RpcError,
    UseError, VersionSet,
};

/// However the input is cut, the same events and the same bytes come out; all that is sent is messages, and every
/// call ends once
pub fn client_pipe(data: &[u8]) {
    let mut dice = Dice::new(data);
    let stage = Stage::draw(&mut dice);
    let cuts = Cut::all(dice.byte());
    let input = dice.rest();
    let want = stage.play(input, Cut::Whole);
    wire::messages(&want.sent);
    for cut in cuts {
        let seen = stage.play(input, cut);
        assert_eq!(seen.events, want.events, "{cut:?}");
        assert_eq!(wire::shown(&seen.sent), wire::shown(&want.sent), "{cut:?}");
    }
}

struct Stage {
    config: Arc<Config>,
    limits: Limits,
    manner: u8,
    eof_at_once: bool,
}

#[derive(Debug, Default)]
struct Seen {
    events: Vec<String>,
    sent: Vec<u8>,
}

impl Stage {
    fn draw(dice: &mut Dice<'_>) -> Self {
        let how = dice.byte();
        let limits = Limits {
            max_frame: if how & 1 == 0 { 8 << 10 } else { 192 },
            max_live_calls: if how & 2 == 0 { 8 } else { 2 },
            outbox_mark: if how & 4 == 0 { 4 << 10 } else { 256 },
            max_faulty: (how & 8 != 0).then_some(8),
            max_queued_bytes: if how & 16 == 0 { 8 << 10 } else { 40 },
            max_pending_calls: if how & 32 == 0 { 8 } else { 3 },
            tap_records: if how & 64 == 0 { 0 } else { 4 },
            ..Limits::small()
        };
        let versions = match dice.below(4) {
            0 => VersionSet::ALL,
            1 => VersionSet::LEGACY,
            2 => VersionSet::MODERN,
            _ => VersionSet::only(crate::Version::V2025_03_26),
        };
        let verdict = match dice.below(3) {
            0 => None,
            1 => Some(Verdict::Modern),
            _ => Some(Verdict::Legacy),
        };
        let config = Config::new("fuzz", "1")
            .capabilities(
                Capabilities::new()
                    .with(Capability::Roots)
                    .with(Capability::Sampling)
                    .with(Capability::Elicitation),
            )
            .versions(versions)
            .verdict(verdict)
            .custom_method("x/y")
            .limits(limits.clone());
        let manner = dice.byte();
        Self { config: Arc::new(config), limits, manner, eof_at_once: manner & 32 != 0 }
    }

    fn play(&self, input: &[u8], cut: Cut) -> Seen {
        let mut play = Play {
            stage: self,
            client: Client::new(Arc::clone(&self.config), Instant::ZERO),
            now: Instant::ZERO,
            writes: Random::new(input.len() as u64),
            calls: BTreeMap::new(),
            requests: VecDeque::new(),
            inputs: VecDeque::new(),
            subscriptions: BTreeMap::new(),
            steps: 0,
            closed: false,
            seen: Seen::default(),
        };
        play.start_calls();
        let pieces = cut.pieces(input);
        for (i, piece) in pieces.iter().enumerate() {
            play.client.handle_input(play.now, piece);
            if self.eof_at_once && i + 1 == pieces.len() {
                play.client.handle_eof(play.now);
            }
            play.settle();
        }
        play.end();
        play.seen
    }
}

struct Play<'a> {
    stage: &'a Stage,
    client: Client,
    now: Instant,
    writes: Random,
    /// Our calls, and whether each has ended
    calls: BTreeMap<CallKey, bool>,
    /// Requests of the server that have no answer yet
    requests: VecDeque<CallId>,
    /// What the server needs and has not been given
    inputs: VecDeque<InputId>,
    /// Our subscriptions, and whether each was acknowledged
    subscriptions: BTreeMap<SubscriptionKey, bool>,
    steps: usize,
    closed: bool,
    seen: Seen,
}

impl Play<'_> {
    fn settle(&mut self) {
        loop {
            while let Some(event) = self.client.poll_event(self.now) {
                self.drain();
                self.event(event);
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
            let n = bytes.len().min(1 + self.writes.next() as usize % 100);
            self.seen.sent.extend_from_slice(&bytes[..n]);
            self.client.consume(n);
        }
    }

    fn note(&mut self, made: &Result<CallKey, UseError>) {
        if let Ok(key) = made {
            assert_eq!(self.calls.insert(*key, false), None, "a key given out twice");
        }
    }

    fn start_calls(&mut self) {
        let meta = RawJson::new("{\"traceparent\": \"00-1\"}").expect("JSON");
        let asking = CallOptions::new().with_progress();
        let (now, engine) = (self.now, self.client.engine());
        let made = [
            engine.call_tool(now, "a\n\"b\"", &BTreeMap::from([("x", 1)]), &asking),
            engine.call(now, "x/z", &BTreeMap::from([("y", "z")]), &CallOptions::new().with_meta(meta)),
            engine.list(now, Kind::Resource, Some("c"), &CallOptions::new()),
            engine.ping(now, &asking),
        ];
        for made in &made {
            self.note(made);
        }
        let limit = self.stage.limits.max_pending_calls as usize;
        assert!(self.client.engine().pending_calls() <= limit);
        self.subscribe();
    }

    fn subscribe(&mut self) {
        let filter = SubscriptionFilter::new()
            .tools_list_changed(true)
            .resource_subscriptions(["a:b".into(), "c".into()]);
        let (now, engine) = (self.now, self.client.engine());
        let _ = engine.set_log_level(now, Some(LoggingLevel::Debug));
        if let Ok(key) = engine.subscribe(now, &filter) {
            assert_eq!(self.subscriptions.insert(key, false), None, "a key given out twice");
        }
        assert!(self.subscriptions.len() <= self.stage.limits.max_subscriptions);
    }

    fn event(&mut self, event: Event) {
        assert!(!self.closed, "after the end: {event:?}");
        self.seen.events.push(format!("{event:?}"));
        self.steps += 1;
        match event {
            Event::Ready(peer) => {
                assert!(self.stage.config.get_versions().contains(peer.version));
                self.start_calls();
            }
            Event::Done { call, .. } => {
                assert_eq!(self.calls.insert(call, true), Some(false), "not in work");
                assert!(self.client.engine().cancel(self.now, call, None).is_err(), "a stale key");
            }
            Event::Progress { call, .. } => assert_eq!(self.calls.get(&call), Some(&false), "not in work"),
            Event::Request(request) => {
                assert!(!self.requests.contains(&request.id), "handed out twice");
                self.requests.push_back(request.id);
                let news = Progress::new(self.steps as f64);
                assert!(self.client.engine().progress(self.now, request.id, news).is_ok());
            }
            Event::RequestCancelled(id) => {
                let before = self.requests.len();
                self.requests.retain(|r| *r != id);
                assert_eq!(self.requests.len() + 1, before, "not in work");
            }
            Event::Input(input) => {
                assert!(input.call.is_none_or(|call| self.calls.get(&call) == Some(&false)), "not in work");
                self.inputs.push_back(input.id);
            }
            Event::InputGone(id) => {
                let before = self.inputs.len();
                self.inputs.retain(|i| *i != id);
                assert_eq!(self.inputs.len() + 1, before, "not open");
            }
            Event::Subscribed { key, .. } => {
                assert_eq!(self.subscriptions.insert(key, true), Some(false), "not waiting");
            }
            Event::Changed { key: Some(key), .. } => {
                assert_eq!(self.subscriptions.get(&key), Some(&true), "unheard of");
            }
            Event::SubscriptionEnded { key, .. } => {
                assert!(self.subscriptions.remove(&key).is_some(), "unheard of");
                assert!(self.client.engine().unsubscribe(self.now, key).is_err(), "a stale key");
            }
            Event::Closed(_) => self.closed = true,
            Event::Log(_)
            | Event::ElicitationComplete(_)
            | Event::Changed { key: None, .. }
            | Event::Notification(_)
            | Event::Diagnostic(_) => {}
        }
        self.act();
    }

    /// What the application does after an event depends on how many there were
    fn act(&mut self) {
        assert!(self.requests.len() <= self.stage.limits.max_live_calls as usize);
        if let (Some(id), true) = (self.inputs.front().copied(), self.steps % 2 == 0) {
            let result = BTreeMap::from([("action", "decline")]);
            let engine = self.client.engine();
            let done = match self.steps % 6 {
                0 => engine.refuse(self.now, id, &RpcError::internal("no")),
                _ => engine.answer(self.now, id, &result),
            };
            match done {
                Ok(()) => drop(self.inputs.pop_front()),
                // It is of another kind: nothing is given, nothing changed.
                Err(UseError::BadAnswer { .. }) => {
                    let no = RpcError::internal("no");
                    assert_eq!(self.client.engine().refuse(self.now, id, &no), Ok(()));
                    self.inputs.pop_front();
                }
                Err(e) => assert_eq!(e, UseError::Stale),
            }
            assert!(self.client.engine().answer(self.now, id, &result).is_err(), "answered twice");
        }
        match (self.steps + usize::from(self.stage.manner)) % 8 {
            0 => {
                let open = self.calls.iter().find(|(_, ended)| !**ended).map(|(key, _)| *key);
                if let Some(key) = open {
                    // Stale when it has ended and the event that says so has not been taken yet.
                    let done = self.client.engine().cancel(self.now, key, Some("no\nmore"));
                    assert!(matches!(done, Ok(()) | Err(UseError::Stale)), "{done:?}");
                }
            }
            1 | 2 => {
                if let Some(id) = self.requests.front().copied() {
                    let result = BTreeMap::from([("roots", [0; 0])]);
                    let done = self.client.engine().respond(self.now, id, &result);
                    self.answered(done);
                    assert!(self.client.engine().respond(self.now, id, &result).is_err(), "answered twice");
                }
            }
            3 => {
                if let Some(id) = self.requests.front().copied() {
                    let done = self.client.engine().refuse(self.now, id, &RpcError::internal("no\nluck"));
                    self.answered(done);
                }
            }
            4 if self.steps < 40 => {
                let made = self.client.engine().call_tool(
                    self.now,
                    "t",
                    &BTreeMap::<&str, u8>::new(),
                    &CallOptions::new(),
                );
                self.note(&made);
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

    /// The oldest request has its answer, unless it has ended and the event that says so has not been taken yet
    fn answered(&mut self, done: Result<(), UseError>) {
        match done {
            Ok(()) => drop(self.requests.pop_front()),
            Err(e) => assert_eq!(e, UseError::Stale),
        }
    }

    /// The input ends, or time passes until nothing is left to wait for
    fn end(&mut self) {
        for _ in 0..200 {
            if self.stage.manner & 64 == 0 {
                break;
            }
            let Some(at) = self.client.poll_timeout() else { break };
            self.now = self.now.max(at);
            self.client.handle_timeout(self.now);
            assert!(self.client.poll_timeout().is_none_or(|next| next > self.now), "a deadline that stays");
            self.settle();
        }
        self.client.handle_eof(self.now);
        self.settle();
        assert!(self.closed && self.client.is_drained(), "no end");
        assert!(self.calls.values().all(|ended| *ended), "a call without an outcome");
        assert!(self.inputs.is_empty() && self.subscriptions.is_empty(), "no end");
        assert!(self.requests.is_empty() && self.client.engine().pending_calls() == 0);
        let made =
            self.client.engine().call(self.now, "x/z", &BTreeMap::from([("y", "z")]), &CallOptions::new());
        assert!(made.is_err(), "a call on a closed connection");
    }
}
