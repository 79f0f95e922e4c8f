//! A client, a bridge and a server in one thread

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::client::{self, Input};
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::seal::Keys;
use mcp_proto::server::{self, Call};
use mcp_proto::{
    Anchor, CallError, CallKey, CallOptions, Capabilities, Capability, Change, Fault, Instant, Limits,
    Progress, RawJson, Version, VersionSet,
};
use serde_json::{Value, json};

use crate::bridge::relay::{Clients, Ends, Relay, client_limits, server_config, server_limits};

/// All that a client can do
pub(super) const ABLE: [Capability; 6] = [
    Capability::Elicitation,
    Capability::ElicitationUrl,
    Capability::Sampling,
    Capability::SamplingTools,
    Capability::Roots,
    Capability::RootsListChanged,
];

/// Old and new with each other, and with themselves
pub(super) const PAIRS: [(Version, Version); 6] = [
    (Version::V2025_11_25, Version::V2026_07_28),
    (Version::V2026_07_28, Version::V2025_11_25),
    (Version::V2026_07_28, Version::V2026_07_28),
    (Version::V2025_11_25, Version::V2025_11_25),
    (Version::V2025_06_18, Version::V2026_07_28),
    (Version::V2026_07_28, Version::V2025_06_18),
];

/// A client, the two sides of a bridge, and a server
pub(super) struct Chain {
    pub(super) now: Instant,
    pub(super) client: Client,
    down: Server,
    pub(super) relay: Relay,
    up: Client,
    pub(super) server: Server,
    /// What the client was told, but for outcomes
    pub(super) told: Vec<client::Event>,
    outcomes: Vec<(CallKey, Result<RawJson, CallError>)>,
    /// Calls that have reached the server, and were not taken
    calls: Vec<Call>,
    /// What else the server was told
    pub(super) heard: Vec<server::Event>,
}

pub(super) fn versions(version: Version) -> VersionSet {
    VersionSet::only(version)
}

pub(super) fn declared(capabilities: &[Capability]) -> Capabilities {
    capabilities.iter().copied().fold(Capabilities::new(), Capabilities::with)
}

fn sealed(config: server::Config, key: u8) -> server::Config {
    config.seal(Keys::new([key; 32]), Anchor::default())
}

impl Chain {
    /// Everybody can do everything
    pub(super) fn new(down: Version, up: Version) -> Self {
        Self::with(down, up, &ABLE, &ABLE, Clients::One)
    }

    /// A client that can do this, at a server that was promised that
    pub(super) fn with(
        down: Version,
        up: Version,
        able: &[Capability],
        promised: &[Capability],
        clients: Clients,
    ) -> Self {
        let all = [
            Capability::Completions,
            Capability::Logging,
            Capability::PromptsListChanged,
            Capability::ResourceSubscriptions,
            Capability::ResourcesListChanged,
            Capability::ToolsListChanged,
        ];
        let info = mcp_proto::Implementation::new("tide", "1.2").title("Tides");
        let config = server::Config::new("tide", "1.2").info(info).instructions("Ask at high water.");
        let config = config.custom_method("harbour/depth");
        let config = sealed(config.versions(versions(up)).capabilities(declared(&all)), 1);
        let (zero, mut limits) = (Instant::ZERO, Limits::default());
        // Nobody speaks at another speed than the virtual clock's.
        (limits.progress_burst, limits.progress_rate) = (1_000, 1_000);
        let mut server = Server::new(Arc::new(config.limits(limits)), zero);
        let config =
            client::Config::new("bridge", "0").versions(versions(up)).capabilities(declared(promised));
        let config = config.any_custom_method();
        let mut up = Client::new(Arc::new(config.limits(client_limits(Limits::default()))), zero);
        let peer = loop {
            assert!(pass(zero, &mut up, &mut server), "the server answers");
            while server.poll_event(zero).is_some() {}
            if let Some(client::Event::Ready(peer)) = up.poll_event(zero) {
                break peer;
            }
        };
        let relay = Relay::new(clients, &peer);
        let config = server_config(&peer, versions(down), server_limits(Limits::default()));
        let down_side = Server::new(Arc::new(sealed(config, 2)), zero);
        let config = client::Config::new("sailor", "7").versions(versions(down)).capabilities(declared(able));
        let config = config.custom_method("harbour/draught");
        let client = Client::new(Arc::new(config), zero);
        let (told, outcomes, calls, heard) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut chain =
            Self { now: zero, client, down: down_side, relay, up, server, told, outcomes, calls, heard };
        chain.settle();
        assert!(matches!(chain.told[..], [client::Event::Ready(_)]), "{:?}", chain.told);
        chain
    }

    /// The two engines of the bridge, for what a test does to them
    pub(super) fn bridge(&mut self, act: impl FnOnce(&mut Relay, &mut Ends<'_>)) {
        let (now, down, up) = (self.now, self.down.engine(), self.up.engine());
        let mut ends = Ends { now, down, up_now: now, up };
        act(&mut self.relay, &mut ends);
    }

    /// Everything that can be done without time passing
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut moved = pass(self.now, &mut self.client, &mut self.down);
            while let Some(event) = self.down.poll_event(self.now) {
                self.bridge(|relay, ends| relay.server_event(ends, event));
                moved = true;
            }
            while let Some(event) = self.up.poll_event(self.now) {
                self.bridge(|relay, ends| relay.client_event(ends, event));
                moved = true;
            }
            self.bridge(Relay::settle);
            moved |= pass(self.now, &mut self.up, &mut self.server);
            while let Some(event) = self.server.poll_event(self.now) {
                match event {
                    server::Event::Call(call) => self.calls.push(call),
                    event => self.heard.push(event),
                }
                moved = true;
            }
            while let Some(event) = self.client.poll_event(self.now) {
                match event {
                    client::Event::Done { call, outcome, .. } => self.outcomes.push((call, outcome)),
                    event => self.told.push(event),
                }
                moved = true;
            }
            if !moved {
                return;
            }
        }
        panic!("without end");
    }

    /// Lets time pass, in all five
    pub(super) fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let timers = [
                self.client.poll_timeout(),
                self.down.poll_timeout(),
                self.up.poll_timeout(),
                self.server.poll_timeout(),
                self.relay.poll_timeout(),
            ];
            let next = timers.into_iter().flatten().min().filter(|at| *at <= until);
            self.now = next.unwrap_or(until).max(self.now);
            self.client.handle_timeout(self.now);
            self.down.handle_timeout(self.now);
            self.up.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
            self.bridge(|relay, ends| relay.handle_timeout(ends));
            self.settle();
            if next.is_none() {
                return;
            }
        }
    }

    // ---- the client ------------------------------------------------------------------------------------------

    pub(super) fn call(&mut self, method: &str, params: &Value) -> CallKey {
        self.call_with(method, params, &CallOptions::new())
    }

    pub(super) fn call_with(&mut self, method: &str, params: &Value, options: &CallOptions) -> CallKey {
        let now = self.now;
        let key = self.client.engine().call(now, method, params, options).expect("it may be called");
        self.settle();
        key
    }

    /// Calls the tool that nothing is known about
    pub(super) fn book(&mut self) -> CallKey {
        self.call("tools/call", &json!({"name": "book", "arguments": {"berth": "C14"}}))
    }

    /// What came of a call
    pub(super) fn outcome(&mut self, call: CallKey) -> Result<RawJson, CallError> {
        let at = self.outcomes.iter().position(|(other, _)| *other == call);
        self.outcomes.remove(at.expect("it has ended")).1
    }

    pub(super) fn result(&mut self, call: CallKey) -> Value {
        let result = self.outcome(call).expect("a result");
        let mut result: Value = serde_json::from_str(result.as_str()).expect("JSON");
        // What a modern engine adds.
        if let Some(meta) = result.get_mut("_meta").and_then(Value::as_object_mut) {
            meta.remove("io.modelcontextprotocol/serverInfo");
            if meta.is_empty() {
                result.as_object_mut().expect("an object").remove("_meta");
            }
        }
        for stamp in ["resultType", "ttlMs", "cacheScope"] {
            result.as_object_mut().expect("an object").remove(stamp);
        }
        result
    }

    pub(super) fn error(&mut self, call: CallKey) -> mcp_proto::RpcError {
        match self.outcome(call).expect_err("an error") {
            CallError::Rpc(error) => error,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn has_ended(&self, call: CallKey) -> bool {
        self.outcomes.iter().any(|(other, _)| *other == call)
    }

    /// Takes what the client was told
    pub(super) fn news(&mut self) -> Vec<client::Event> {
        core::mem::take(&mut self.told)
    }

    /// What the client is asked, and nothing else
    pub(super) fn asked(&mut self) -> Vec<Input> {
        let inputs = self.news().into_iter().filter_map(|event| match event {
            client::Event::Input(input) => Some(input),
            _ => None,
        });
        inputs.collect()
    }

    pub(super) fn answer(&mut self, input: &Input, answer: &Value) {
        let now = self.now;
        self.client.engine().answer(now, input.id, answer).expect("it is asked for");
        self.settle();
    }

    // ---- the server ------------------------------------------------------------------------------------------

    /// The oldest call that has reached the server
    pub(super) fn taken(&mut self) -> Call {
        assert!(!self.calls.is_empty(), "a call reaches the server");
        self.calls.remove(0)
    }

    pub(super) fn any_call(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn complete(&mut self, call: &Call, result: &Value) {
        let now = self.now;
        self.server.engine().complete(now, call.id(), result).expect("it is open");
        self.settle();
    }

    pub(super) fn progress(&mut self, call: &Call, progress: f64) {
        let now = self.now;
        self.server.engine().progress(now, call.id(), Progress::new(progress)).expect("it is open");
        self.settle();
    }

    pub(super) fn publish(&mut self, change: &Change) {
        let now = self.now;
        self.server.engine().publish(now, change);
        self.settle();
    }

    /// Whether the server was told that a call is over
    pub(super) fn was_cancelled(&self, call: &Call) -> bool {
        let is = |event: &server::Event| matches!(event, server::Event::Cancelled { call: id, .. } if *id == call.id());
        self.heard.iter().any(is)
    }

    /// The server dies
    pub(super) fn kill_server(&mut self) {
        self.up.handle_eof(self.now);
        let now = self.now;
        self.server.abort(now, &Fault::Closed);
        self.settle();
    }

    /// The client goes
    pub(super) fn hang_up(&mut self) {
        self.down.handle_eof(self.now);
        self.settle();
    }
}

/// Moves what both sides have written; whether there was anything
fn pass(now: Instant, client: &mut Client, server: &mut Server) -> bool {
    let mut moved = false;
    while !client.transmit().is_empty() {
        let bytes = client.transmit().to_vec();
        server.handle_input(now, &bytes);
        client.consume(bytes.len());
        moved = true;
    }
    while !server.transmit().is_empty() {
        let bytes = server.transmit().to_vec();
        client.handle_input(now, &bytes);
        server.consume(bytes.len());
        moved = true;
    }
    moved
}
