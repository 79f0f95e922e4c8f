//! A server on a byte stream, fed with anything.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::dice::{Cut, Dice, Random};
use super::wire;
use crate::pipe::{Pipe, Server};
use crate::server::{Call, Config, Event};
use crate::{CallId, Capabilities, Capability, Instant, Limits, Progress, RawJson, RpcError, VersionSet};

/// However the input is cut, the same events and the same bytes come out; all that is sent is messages, every call ends
/// once, no more is in work than the limits allow, and after the end of the input there is an end
pub fn server_pipe(data: &[u8]) {
    let mut dice = Dice::new(data);
    let stage = Stage::draw(&mut dice);
    let cuts = Cut::all(dice.byte());
    let input = dice.rest();
    let want = stage.play(input, Cut::Whole);
    let messages = wire::messages(&want.sent);
    let asked = input.split(|b| *b == b'\n').count() * stage.limits.max_batch.max(1);
    assert!(wire::answers(&messages).values().sum::<usize>() <= asked, "more answers than requests");
    for cut in cuts {
        let seen = stage.play(input, cut);
        assert_eq!(seen.events, want.events, "{cut:?}");
        assert_eq!(wire::shown(&seen.sent), wire::shown(&want.sent), "{cut:?}");
    }
}

struct Stage {
    config: Arc<Config>,
    limits: Limits,
    /// Chooses what the application does
    manner: u8,
    /// The end of the input comes together with its last piece
    eof_at_once: bool,
    shutdown: bool,
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
            max_waiting_bytes: if how & 16 == 0 { 8 << 10 } else { 300 },
            tap_records: if how & 32 == 0 { 0 } else { 4 },
            max_batch_bytes: if how & 64 == 0 { 8 << 10 } else { 256 },
            max_meta_cache: if how & 128 == 0 { 512 } else { 0 },
            ..Limits::small()
        };
        let versions = match dice.below(4) {
            0 => VersionSet::ALL,
            1 => VersionSet::LEGACY,
            2 => VersionSet::MODERN,
            _ => VersionSet::only(crate::Version::V2025_03_26),
        };
        let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::Resources);
        let config = Config::new("fuzz", "1")
            .capabilities(capabilities)
            .instructions("line\nbreak")
            .versions(versions)
            .custom_method("x/y")
            .hide_in_tap("secret")
            .limits(limits.clone());
        let manner = dice.byte();
        Self {
            config: Arc::new(config),
            limits,
            manner,
            eof_at_once: manner & 32 != 0,
            shutdown: manner & 64 != 0,
        }
    }

    fn play(&self, input: &[u8], cut: Cut) -> Seen {
        let mut play = Play {
            stage: self,
            server: Server::new(Arc::clone(&self.config), Instant::ZERO),
            now: Instant::ZERO,
            writes: Random::new(input.len() as u64),
            live: BTreeSet::new(),
            held: VecDeque::new(),
            calls: 0,
            closed: false,
            seen: Seen::default(),
        };
        let pieces = cut.pieces(input);
        for (i, piece) in pieces.iter().enumerate() {
            play.server.handle_input(play.now, piece);
            if self.eof_at_once && i + 1 == pieces.len() {
                play.server.handle_eof(play.now);
            }
            play.settle();
        }
        play.end();
        play.seen
    }
}

struct Play<'a> {
    stage: &'a Stage,
    server: Server,
    now: Instant,
    writes: Random,
    /// Calls handed out that have not ended
    live: BTreeSet<CallId>,
    /// Those of them that are answered later
    held: VecDeque<CallId>,
    calls: usize,
    closed: bool,
    seen: Seen,
}

impl Play<'_> {
    /// Polls until nothing is left to do; where the server waits for answers it gets the oldest one
    fn settle(&mut self) {
        loop {
            while let Some(event) = self.server.poll_event(self.now) {
                self.drain();
                self.event(event);
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

    /// Writes everything, some bytes at a time
    fn drain(&mut self) {
        let most = self.stage.limits.outbox_mark
            + self.stage.limits.max_frame * 2
            + self.stage.limits.max_batch_bytes;
        let mut written = 0;
        loop {
            let bytes = self.server.transmit();
            if bytes.is_empty() {
                break;
            }
            let n = bytes.len().min(1 + self.writes.next() as usize % 100);
            self.seen.sent.extend_from_slice(&bytes[..n]);
            self.server.consume(n);
            written += n;
        }
        assert!(written <= most, "{written} bytes were waiting to be written");
    }

    fn event(&mut self, event: Event) {
        assert!(!self.closed, "after the end: {event:?}");
        self.seen.events.push(format!("{event:?}"));
        match event {
            Event::Call(call) => self.call(&call),
            Event::Cancelled { call, .. } => {
                assert!(self.live.remove(&call), "ended twice");
                self.held.retain(|c| *c != call);
                assert!(self.server.engine().complete(self.now, call, &Nothing {}).is_err(), "a stale key");
            }
            Event::Closed { .. } => self.closed = true,
            _ => {}
        }
        let engine = self.server.engine();
        let most = self.stage.limits.max_live_calls as usize;
        assert!(engine.live_calls() <= most, "{} calls in work", engine.live_calls());
        while engine.poll_tap().is_some_and(|r| r.bytes.len() <= self.stage.limits.tap_bytes) {}
    }

    fn call(&mut self, call: &Call) {
        assert!(self.live.insert(call.id()), "handed out twice");
        self.calls += 1;
        let peer = self.server.engine().peer(call);
        assert!(peer.version == call.version() && peer.capabilities.is_object());
        let _ = call.tool().and_then(|t| t.parse::<serde::de::IgnoredAny>());
        match (self.calls + usize::from(self.stage.manner)) % 5 {
            0 | 1 => self.held.push_back(call.id()),
            2 => {
                for step in [1.0, 1.0, 2.5, f64::NAN] {
                    let news = Progress::new(step).of(3.0).saying("\u{2028}so\nfar");
                    assert!(self.server.engine().progress(self.now, call.id(), news).is_ok());
                }
                self.answer(call.id());
            }
            _ => {
                let echo = call.params().unwrap_or_else(|| RawJson::new("{}").expect("JSON"));
                match self.server.engine().complete_raw(self.now, call.id(), &echo) {
                    Ok(()) => {
                        self.live.remove(&call.id());
                    }
                    // Metadata of a request, or a type of result that is none: the call is still open.
                    Err(crate::UseError::ReservedKey(_) | crate::UseError::Encode(_)) => {
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
        let done = match (self.calls + usize::from(self.stage.manner)) % 3 {
            0 => engine.fail(self.now, call, &RpcError::internal("no\nluck")),
            1 => engine.complete(self.now, call, &Nothing {}),
            _ => engine.complete(self.now, call, &Something { text: "a\n\"b\"", meta: Nothing {} }),
        };
        assert!(done.is_ok());
        assert!(engine.fail(self.now, call, &RpcError::internal("again")).is_err(), "answered twice");
    }

    /// The input ends, and all that is due comes to pass
    fn end(&mut self) {
        if self.stage.shutdown {
            self.server.shutdown(self.now, Duration::from_secs(1));
        } else {
            self.server.handle_eof(self.now);
        }
        self.settle();
        for _ in 0..200 {
            let Some(at) = self.server.poll_timeout() else { break };
            self.now = self.now.max(at);
            self.server.handle_timeout(self.now);
            assert!(self.server.poll_timeout().is_none_or(|next| next > self.now), "a deadline that stays");
            self.settle();
        }
        assert!(self.server.poll_timeout().is_none() && self.live.is_empty());
        assert!(self.closed && self.server.is_drained(), "no end");
    }
}

#[derive(serde::Serialize)]
struct Nothing {}

#[derive(serde::Serialize)]
struct Something<'a> {
    text: &'a str,
    #[serde(rename = "_meta")]
    meta: Nothing,
}
