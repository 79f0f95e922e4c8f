//! Seeded schedules of a follower at a [`Source`](crate::source::Source): lost streams and answers, restarts, logs that are too
//! short. Every event is handed out once and in order, or a gap stands where one is missing.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::{Entropy, Instant, RawJson};

use super::tests::{described, follower};
use super::*;
use crate::delivery::simulation::Random;
use crate::source::{Lane, LogLimits, Source, SourceConfig, StreamKey, StreamMessage};
use crate::wire::Profile;

struct World {
    random: Random,
    now: Instant,
    limits: LogLimits,
    modes: Vec<DeliveryMode>,
    source: Source,
    lane: Lane,
    /// Number of the next event.
    next: u64,
    /// Number of the last event before each restart: those that were not read are lost.
    starts: u64,
    follower: Follower,
    stream: Option<StreamKey>,
    /// What was handed out last, and whether a gap followed it.
    last: Option<u64>,
    has_gap: bool,
    handed_out: u64,
    gaps: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let modes = match random.below(3) {
            0 => [DeliveryMode::Poll].to_vec(),
            1 => [DeliveryMode::Push].to_vec(),
            _ => [DeliveryMode::Poll, DeliveryMode::Push].to_vec(),
        };
        let mut limits = LogLimits::default();
        limits.replays = random.is(80) || modes.first() == Some(&DeliveryMode::Poll);
        // A type without positions cannot tell that its log was too short (EVT-147).
        limits.events = if limits.replays && random.is(50) { 4 } else { 1_000 };
        let follower = follower(&modes, None);
        let mut world = Self {
            source: Source::new(SourceConfig::default(), Entropy::new([1; 32], 0)),
            random,
            now: Instant::ZERO + Duration::from_secs(1),
            limits,
            modes,
            lane: Source::new(SourceConfig::default(), Entropy::new([1; 32], 0)).add_lane(),
            next: 0,
            starts: 0,
            follower,
            stream: None,
            last: None,
            has_gap: false,
            handed_out: 0,
            gaps: 0,
        };
        world.restart();
        world
    }

    /// Loses the source with its log and its streams.
    fn restart(&mut self) {
        let next_poll = Duration::from_secs(self.random.below(20));
        let config = SourceConfig { next_poll, events_per_poll: 3, ..SourceConfig::default() };
        self.starts += 1;
        self.source = Source::new(config, Entropy::new([2; 32], self.starts));
        self.lane = self.source.add_lane();
        self.source.add(described(&self.modes), self.limits);
        if self.stream.take().is_some() {
            self.follower.handle_stream_end(self.now, Err(FollowError::Lost("restart".into())));
        }
    }

    fn publish(&mut self) {
        let data = RawJson::new("{}").expect("JSON");
        let event = EventOccurrence::new(self.next.to_string(), "build", "2026-11-25T10:00:00Z", data);
        self.next += 1;
        self.source.publish(self.now, event).expect("the type is there");
    }

    fn take_events(&mut self) {
        while let Some(event) = self.follower.poll_event() {
            match event {
                FollowEvent::Event(event) => {
                    let number: u64 = event.event_id.parse().expect("a number");
                    match self.last {
                        Some(last) if number == last + 1 => {}
                        Some(last) => {
                            assert!(number > last, "{number} comes behind {last}");
                            assert!(self.has_gap, "{last} is followed by {number} without a gap");
                        }
                        None => {}
                    }
                    (self.last, self.has_gap) = (Some(number), false);
                    self.handed_out += 1;
                }
                FollowEvent::Gap { .. } => {
                    self.has_gap = true;
                    self.gaps += 1;
                }
                FollowEvent::Error(FollowError::Lost(_) | FollowError::Silent) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn act(&mut self, has_faults: bool) {
        while let Some(action) = self.follower.poll_action(self.now) {
            let is_lost = has_faults && self.random.is(20);
            match action {
                FollowAction::Poll(params) => {
                    let outcome = self.source.poll(self.now, &params, |_| true);
                    let outcome = outcome
                        .map(|result| RawJson::encode(&result).expect("JSON"))
                        .map_err(|error| FollowError::Server(error.to_rpc(&Profile::SEP)));
                    // The answer is lost, which the server does not know.
                    let outcome = if is_lost { Err(FollowError::Lost("answer".into())) } else { outcome };
                    self.follower.handle_polled(self.now, outcome);
                }
                FollowAction::Open(params) => {
                    let all = Box::new(|_: &EventOccurrence| true);
                    let opened = self.source.open(self.now, self.lane, &params, None, all);
                    if let Some(given_up) = self.stream.replace(opened.expect("room")) {
                        self.source.close(given_up);
                    }
                    if is_lost {
                        self.lose_stream();
                    }
                }
                FollowAction::Close => {
                    if let Some(key) = self.stream.take() {
                        self.source.close(key);
                    }
                }
                FollowAction::List => panic!("the type does not change"),
            }
            self.take_events();
        }
    }

    fn lose_stream(&mut self) {
        if let Some(key) = self.stream.take() {
            self.source.close(key);
            let outcome =
                if self.random.is(50) { Ok(()) } else { Err(FollowError::Lost("connection".into())) };
            self.follower.handle_stream_end(self.now, outcome);
        }
    }

    /// Passes messages of the stream on, all or some of them.
    fn deliver(&mut self, most: u64) {
        self.source.handle_timeout(self.now, self.lane);
        let mut messages = VecDeque::new();
        while let Some((key, message)) = self.source.poll_message(self.now, self.lane) {
            assert_eq!(Some(key), self.stream);
            messages.push_back(message);
            if messages.len() as u64 >= most {
                break;
            }
        }
        for message in messages {
            let (method, params) = match message {
                StreamMessage::Active { cursor, truncated } => (
                    wire::ACTIVE,
                    RawJson::encode(&StreamActiveParams::new().cursor(Nullable(cursor)).truncated(truncated)),
                ),
                StreamMessage::Event(event) => (wire::EVENT, RawJson::encode(&event)),
                StreamMessage::Heartbeat { cursor } => {
                    (wire::HEARTBEAT, RawJson::encode(&StreamHeartbeatParams::new().cursor(Nullable(cursor))))
                }
                StreamMessage::Error(error) | StreamMessage::Terminated(error) => panic!("{error:?}"),
            };
            self.follower.handle_notification(self.now, method, Some(&params.expect("JSON")));
        }
        self.follower.handle_timeout(self.now);
        self.take_events();
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0..4 => (0..self.random.below(6)).for_each(|_| self.publish()),
            4 => self.lose_stream(),
            5 if self.random.is(10) => self.restart(),
            6 => self.follower.handle_abandoned(self.now),
            _ => {
                let millis = self.random.below(20_000);
                self.now = self.now + Duration::from_millis(millis);
            }
        }
        // Sometimes the network holds messages back, and a stream is silent.
        if !self.random.is(20) {
            let most = 1 + self.random.below(8);
            self.act(true);
            self.deliver(most);
        }
    }
}

// covers: EVT-065, EVT-145, EVT-146, EVT-150, EVT-151
#[test]
fn every_event_is_handed_out_once_or_a_gap_is_reported() {
    let (mut handed_out, mut gaps) = (0, 0);
    for seed in 0..400 {
        let mut world = World::new(seed);
        // Before the beginning nothing is promised.
        for _ in 0..20 {
            world.act(false);
            world.deliver(u64::MAX);
            world.now = world.now + Duration::from_secs(1);
        }
        for _ in 0..200 {
            world.step();
        }
        // The faults end, and the follower catches up.
        for _ in 0..100 {
            world.act(false);
            world.deliver(u64::MAX);
            world.now = world.now + Duration::from_secs(5);
        }
        world.publish();
        for _ in 0..100 {
            world.act(false);
            world.deliver(u64::MAX);
            world.now = world.now + Duration::from_secs(5);
        }
        let newest = world.next.checked_sub(1);
        assert_eq!(world.last, newest, "seed {seed}: the newest event is not handed out");
        handed_out += world.handed_out;
        gaps += world.gaps;
    }
    assert!(handed_out > 20_000 && gaps > 100, "{handed_out} events, {gaps} gaps");
}
