//! Random schedules of both bindings: every call has one outcome, and nothing is left behind.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::model::CallToolResult;
use mcp_proto::server::{self, Engine, Event};
use mcp_proto::{
    CallId, CallKey, CallOptions, Capabilities, Capability, Change, Era, Instant, Progress, VersionSet,
    client,
};
use mcp_websocket::client::Client;
use mcp_websocket::server::{ConnectionId, Server};
use serde_json::json;

const SEEDS: u64 = 300;
const STEPS: u32 = 400;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

struct Peer {
    client: Client,
    id: ConnectionId,
    to_server: VecDeque<String>,
    to_client: VecDeque<String>,
    open: Vec<CallKey>,
    outcomes: BTreeMap<CallKey, usize>,
    is_closed: bool,
}

struct World {
    rng: Rng,
    now: Instant,
    server: Server,
    peers: Vec<Peer>,
    running: Vec<CallId>,
    delivered: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut limits = mcp_proto::Limits::default();
        limits.max_live_calls = if seed.is_multiple_of(3) { 4 } else { 1_024 };
        let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
        let config = server::Config::new("server", "1").capabilities(capabilities).limits(limits);
        let server = Server::new(Engine::new(Arc::new(config)));
        Self {
            rng: Rng(seed),
            now: Instant::ZERO,
            server,
            peers: Vec::new(),
            running: Vec::new(),
            delivered: 0,
        }
    }

    fn connect(&mut self) {
        let mut config = client::Config::new("client", "1");
        if self.rng.below(2) == 0 {
            config = config.versions(VersionSet::ALL.era(Era::Legacy));
        }
        self.peers.push(Peer {
            client: Client::new(Arc::new(config), self.now),
            id: self.server.accept(self.now),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            open: Vec::new(),
            outcomes: BTreeMap::new(),
            is_closed: false,
        });
    }

    fn step(&mut self) {
        let now = self.now;
        let at = self.rng.below(self.peers.len());
        match self.rng.below(16) {
            0 if self.peers.len() < 4 => self.connect(),
            1..=3 => {
                let mut options = CallOptions::new().with_progress();
                if self.rng.below(2) == 0 {
                    options = options.idempotent();
                }
                let peer = &mut self.peers[at];
                if let Ok(key) = peer.client.engine().call_tool(now, "t", &json!({}), &options) {
                    peer.open.push(key);
                    peer.outcomes.insert(key, 0);
                }
            }
            4 => {
                let peer = &mut self.peers[at];
                if !peer.open.is_empty() {
                    let key = peer.open.swap_remove(self.rng.below(peer.open.len()));
                    let _ = peer.client.engine().cancel(now, key, None);
                }
            }
            5 | 6 if !self.running.is_empty() => {
                let call = self.running.swap_remove(self.rng.below(self.running.len()));
                let _ = self.server.engine().complete(now, call, &CallToolResult::text("done"));
            }
            7 if !self.running.is_empty() => {
                let call = self.running[self.rng.below(self.running.len())];
                let _ = self.server.engine().progress(now, call, Progress::new(1.0));
            }
            8 => _ = self.server.engine().publish(now, &Change::Tools),
            // An exchange is lost at one side or at both; the number may name none.
            9 => {
                let number = (1 + self.rng.below(30)).to_string();
                let side = self.rng.below(3);
                let peer = &mut self.peers[at];
                if side != 0 {
                    peer.to_client.push_back(number.clone());
                }
                if side != 1 {
                    self.server.handle_frame(now, peer.id, &number).expect("an end is valid");
                }
            }
            10 if self.rng.below(20) == 0 => self.disconnect(at),
            11 => {
                let millis = self.rng.below(2_000) as u64;
                self.now = now + Duration::from_millis(millis);
                self.server.engine().handle_timeout(self.now);
                for peer in &mut self.peers {
                    peer.client.engine().handle_timeout(self.now);
                }
            }
            _ => _ = self.exchange_frames(at, 3),
        }
        self.take_events();
    }

    /// Moves up to `n` frames in each direction of a connection.
    fn exchange_frames(&mut self, at: usize, n: usize) -> bool {
        let (now, peer) = (self.now, &mut self.peers[at]);
        let mut is_quiet = true;
        for _ in 0..n {
            if let Some(frame) = peer.client.poll_frame() {
                peer.to_server.push_back(frame);
            }
            if let Some(frame) = (!peer.is_closed).then(|| self.server.poll_frame(now, peer.id)).flatten() {
                peer.to_client.push_back(frame);
            }
            if let Some(frame) = peer.to_server.pop_front().filter(|_| !peer.is_closed) {
                self.server.handle_frame(now, peer.id, &frame).expect("the client keeps to the protocol");
                is_quiet = false;
            }
            if let Some(frame) = peer.to_client.pop_front() {
                peer.client.handle_frame(now, &frame);
                is_quiet = false;
            }
        }
        is_quiet
    }

    fn disconnect(&mut self, at: usize) {
        let (now, peer) = (self.now, &mut self.peers[at]);
        self.server.close(now, peer.id);
        peer.client.handle_close(now);
        peer.is_closed = true;
    }

    fn take_events(&mut self) {
        while let Some(event) = self.server.engine().poll_event(self.now) {
            match event {
                Event::Call(call) => {
                    self.delivered += 1;
                    self.running.push(call.id());
                }
                Event::Cancelled { call, .. } => self.running.retain(|other| *other != call),
                _ => {}
            }
        }
        for peer in &mut self.peers {
            while let Some(event) = peer.client.engine().poll_event(self.now) {
                if let client::Event::Done { call, .. } = event {
                    *peer.outcomes.get_mut(&call).expect("a call of this client") += 1;
                    peer.open.retain(|other| *other != call);
                }
            }
        }
    }

    /// Answers everything, or ends every connection.
    fn finish(&mut self) {
        for at in 0..self.peers.len() {
            if self.rng.below(2) == 0 {
                self.disconnect(at);
            }
        }
        self.take_events();
        loop {
            while let Some(call) = self.running.pop() {
                let _ = self.server.engine().complete(self.now, call, &CallToolResult::text("done"));
            }
            let is_quiet =
                (0..self.peers.len()).map(|at| self.exchange_frames(at, 8)).fold(true, |a, b| a & b);
            self.take_events();
            if is_quiet && self.running.is_empty() {
                // What an exchange lost on one side only ends by its timeout.
                let next =
                    |peer: &mut Peer| (!peer.open.is_empty()).then(|| peer.client.engine().poll_timeout());
                let Some(at) = self.peers.iter_mut().filter_map(next).flatten().min() else { return };
                self.now = self.now.max(at);
                for peer in &mut self.peers {
                    peer.client.engine().handle_timeout(self.now);
                }
                self.take_events();
            }
        }
    }
}

#[test]
fn every_call_has_one_outcome_and_nothing_is_left() {
    let (mut calls, mut delivered) = (0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.connect();
        for _ in 0..STEPS {
            world.step();
        }
        world.finish();
        for peer in &world.peers {
            assert!(peer.outcomes.values().all(|count| *count == 1), "seed {seed}: {:?}", peer.outcomes);
            calls += peer.outcomes.len();
        }
        assert_eq!(world.server.engine().live_calls(), 0, "seed {seed}");
        for at in 0..world.peers.len() {
            if !world.peers[at].is_closed {
                world.disconnect(at);
            }
        }
        world.take_events();
        assert!(world.server.is_empty(), "seed {seed}: an exchange or a session is left");
        delivered += world.delivered;
    }
    assert!(calls > 10_000 && delivered > 5_000, "{calls} calls, {delivered} delivered");
}

#[test]
fn arbitrary_frames_break_nothing() {
    let pieces = [
        "1",
        "2",
        "3",
        "0",
        " ",
        "{",
        "}",
        "[",
        "]",
        "\"id\":1",
        "\"jsonrpc\":\"2.0\"",
        ",",
        "\"method\":\"ping\"",
        "\"method\":\"initialize\"",
        "\u{feff}",
        "null",
        "\"params\":{}",
        "\"result\":{}",
        "\\",
        "ä",
    ];
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.connect();
        for _ in 0..STEPS {
            let id = world.peers[0].id;
            let count = world.rng.below(12);
            let mut frame: String = (0..count).map(|_| pieces[world.rng.below(pieces.len())]).collect();
            if world.rng.below(4) != 0 {
                frame = format!("{} {frame}", world.rng.below(1_000_000));
            }
            // A violation closes the connection; the next client is served.
            if world.server.handle_frame(world.now, id, &frame).is_err() {
                world.server.close(world.now, id);
                world.peers[0].id = world.server.accept(world.now);
            }
            let id = world.peers[0].id;
            while let Some(answer) = world.server.poll_frame(world.now, id) {
                let (number, message) = answer.split_once(' ').unwrap_or((&answer, "{}"));
                assert!(number.parse::<u32>().is_ok(), "{answer}");
                serde_json::from_str::<serde_json::Value>(message).expect("JSON");
            }
            world.take_events();
        }
    }
}
