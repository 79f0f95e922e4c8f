//! A client, a bridge and a server in memory.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::client::{self, Input};
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::seal::Keys;
use mcp_proto::server::{self, Call, TaskTable};
use mcp_proto::{
    Anchor, CallError, CallKey, CallOptions, Capabilities, Capability, Change, Entropy, Era, Fault, Instant,
    Limits, Progress, RawJson, Version, VersionSet,
};
use serde_json::{Value, json};

use crate::{ClientCount, Engines, Relay, client_limits, server_config, server_limits, set_tasks};

/// All client capabilities.
#[expect(deprecated, reason = "tested until its removal")]
pub(super) const ALL_CAPABILITIES: [Capability; 6] = [
    Capability::Elicitation,
    Capability::ElicitationUrl,
    Capability::Sampling,
    Capability::SamplingTools,
    Capability::Roots,
    Capability::RootsListChanged,
];

/// Pairs of legacy and modern revisions: client, server.
pub(super) const REVISION_PAIRS: [(Version, Version); 6] = [
    (Version::V2025_11_25, Version::V2026_07_28),
    (Version::V2026_07_28, Version::V2025_11_25),
    (Version::V2026_07_28, Version::V2026_07_28),
    (Version::V2025_11_25, Version::V2025_11_25),
    (Version::V2025_06_18, Version::V2026_07_28),
    (Version::V2026_07_28, Version::V2025_06_18),
];

/// Time after which the bridge ends its server, if no client uses it.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(3_600);

/// A client, both sides of a bridge, and a server.
pub(super) struct BridgeHarness {
    pub(super) now: Instant,
    pub(super) client: Client,
    downstream: Server,
    pub(super) relay: Relay,
    upstream: Client,
    pub(super) server: Server,
    /// Events of the client, except outcomes.
    pub(super) client_events: Vec<client::Event>,
    outcomes: Vec<(CallKey, Result<RawJson, CallError>)>,
    /// Calls that reached the server and were not taken yet.
    server_calls: Vec<Call>,
    /// Other events of the server.
    pub(super) server_events: Vec<server::Event>,
    /// Bytes that the bridge sent to the server.
    pub(super) sent_to_server: Vec<u8>,
    /// Whether the driver cannot let go of a server that has ended, because its client reads nothing.
    pub(super) keeps_ended_server: bool,
    /// Times at which the relay asked for the next server.
    pub(super) starts: Vec<Instant>,
}

pub(super) fn versions(version: Version) -> VersionSet {
    VersionSet::only(version)
}

pub(super) fn capabilities_of(capabilities: &[Capability]) -> Capabilities {
    capabilities.iter().copied().fold(Capabilities::new(), Capabilities::with)
}

pub(super) fn with_seal_key(config: server::Config, key: u8) -> server::Config {
    config.seal(Keys::new([key; 32]), Anchor::default())
}

/// Returns the messages that open the session of another client than that of the harness. A modern one has none.
pub(super) fn handshake_of_other(version: Version) -> Vec<Value> {
    if version.era() == Era::Modern {
        return Vec::new();
    }
    let capabilities = json!({"elicitation": {}, "roots": {}});
    let info = json!({"name": "other", "version": "1"});
    let params =
        json!({"protocolVersion": version.as_str(), "capabilities": capabilities, "clientInfo": info});
    vec![
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ]
}

/// Returns a call of that client.
pub(super) fn call_of_other(version: Version, tool: &str) -> Value {
    let mut params = json!({"name": tool});
    if version.era() == Era::Modern {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": version.as_str(),
            "io.modelcontextprotocol/clientInfo": {"name": "other", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "roots": {}},
            "io.modelcontextprotocol/logLevel": "debug",
        });
    }
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
}

impl BridgeHarness {
    /// Creates a chain in which both ends have all capabilities.
    pub(super) fn new(down: Version, up: Version) -> Self {
        Self::with_capabilities(down, up, &ALL_CAPABILITIES, &ALL_CAPABILITIES, ClientCount::One)
    }

    /// Creates a chain whose client declares `able`, while the bridge declares `promised` to the server.
    pub(super) fn with_capabilities(
        down: Version,
        up: Version,
        able: &[Capability],
        promised: &[Capability],
        clients: ClientCount,
    ) -> Self {
        let zero = Instant::ZERO;
        let (server, upstream, peer) = connect_upstream(zero, up, promised);
        let relay = Relay::new(clients, &peer, zero, Some(IDLE_TIMEOUT));
        let config = server_config(&peer, versions(down), server_limits(Limits::default()));
        let mut down_side = Server::new(Arc::new(with_seal_key(config, 2)), zero);
        set_tasks(down_side.engine(), zero, Entropy::new([6; 32], 0), Anchor::default());
        let config =
            client::Config::new("sailor", "7").versions(versions(down)).capabilities(capabilities_of(able));
        let config = match able.contains(&Capability::TasksExtension) {
            true => config.tasks(),
            false => config,
        };
        let config = config.custom_method("harbour/draught");
        let client = Client::new(Arc::new(config), zero);
        let (client_events, outcomes, calls, server_events) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut chain = Self {
            now: zero,
            client,
            downstream: down_side,
            relay,
            upstream,
            server,
            client_events,
            outcomes,
            server_calls: calls,
            server_events,
            sent_to_server: Vec::new(),
            keeps_ended_server: false,
            starts: Vec::new(),
        };
        chain.settle();
        assert!(matches!(chain.client_events[..], [client::Event::Ready(_)]), "{:?}", chain.client_events);
        chain
    }

    /// Gives a test access to the relay and both engines of the bridge.
    pub(super) fn with_relay(&mut self, act: impl FnOnce(&mut Relay, &mut Engines<'_>)) {
        let (now, down, up) = (self.now, self.downstream.engine(), self.upstream.engine());
        let mut engines = Engines { now, downstream: down, upstream_now: now, upstream: up };
        act(&mut self.relay, &mut engines);
    }

    /// Does everything that is possible without advancing the clock.
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut moved = transfer(self.now, &mut self.client, &mut self.downstream);
            while let Some(event) = self.downstream.poll_event(self.now) {
                self.with_relay(|relay, engines| relay.handle_server_event(engines, event));
                moved = true;
            }
            while let Some(event) = self.upstream.poll_event(self.now) {
                self.with_relay(|relay, engines| relay.handle_client_event(engines, event));
                moved = true;
            }
            self.with_relay(Relay::process_pending);
            if !self.relay.is_server_running() && !self.keeps_ended_server {
                self.relay.take_fault();
            }
            if self.relay.poll_start(self.now) {
                self.starts.push(self.now);
            }
            self.sent_to_server.extend_from_slice(self.upstream.transmit());
            moved |= transfer(self.now, &mut self.upstream, &mut self.server);
            while let Some(event) = self.server.poll_event(self.now) {
                match event {
                    server::Event::Call(call) => self.server_calls.push(call),
                    event => self.server_events.push(event),
                }
                moved = true;
            }
            while let Some(event) = self.client.poll_event(self.now) {
                match event {
                    client::Event::Done { call, outcome, .. } => self.outcomes.push((call, outcome)),
                    event => self.client_events.push(event),
                }
                moved = true;
            }
            if !moved {
                return;
            }
        }
        panic!("without end");
    }

    /// Advances the clock of all five parts.
    pub(super) fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let timers = [
                self.client.poll_timeout(),
                self.downstream.poll_timeout(),
                self.upstream.poll_timeout(),
                self.server.poll_timeout(),
                self.relay.poll_timeout(),
            ];
            let next = timers.into_iter().flatten().min().filter(|at| *at <= until);
            self.now = next.unwrap_or(until).max(self.now);
            self.client.handle_timeout(self.now);
            self.downstream.handle_timeout(self.now);
            self.upstream.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
            self.with_relay(|relay, engines| relay.handle_timeout(engines));
            self.settle();
            if next.is_none() {
                return;
            }
        }
    }

    // ---- client ----------------------------------------------------------------------------------------------

    pub(super) fn call(&mut self, method: &str, params: &Value) -> CallKey {
        self.call_with(method, params, &CallOptions::new())
    }

    pub(super) fn call_with(&mut self, method: &str, params: &Value, options: &CallOptions) -> CallKey {
        let now = self.now;
        let key = self.client.engine().call(now, method, params, options).expect("it may be called");
        self.settle();
        key
    }

    /// Calls a tool that the client has not listed.
    pub(super) fn call_unknown_tool(&mut self) -> CallKey {
        self.call("tools/call", &json!({"name": "book", "arguments": {"berth": "C14"}}))
    }

    /// Takes the outcome of a call.
    pub(super) fn outcome(&mut self, call: CallKey) -> Result<RawJson, CallError> {
        let at = self.outcomes.iter().position(|(other, _)| *other == call);
        self.outcomes.remove(at.expect("it has ended")).1
    }

    pub(super) fn result(&mut self, call: CallKey) -> Value {
        let result = self.outcome(call).expect("a result");
        let mut result: Value = serde_json::from_str(result.as_str()).expect("JSON");
        // Members that a modern engine adds.
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

    /// Takes the events of the client.
    pub(super) fn take_client_events(&mut self) -> Vec<client::Event> {
        core::mem::take(&mut self.client_events)
    }

    /// Takes the input requests among the client's events and drops all others.
    pub(super) fn take_inputs(&mut self) -> Vec<Input> {
        let inputs = self.take_client_events().into_iter().filter_map(|event| match event {
            client::Event::Input(input) => Some(input),
            _ => None,
        });
        inputs.collect()
    }

    pub(super) fn answer_input(&mut self, input: &Input, answer: &Value) {
        let now = self.now;
        self.client.engine().answer(now, input.id, answer).expect("it is asked for");
        self.settle();
    }

    // ---- server ----------------------------------------------------------------------------------------------

    /// Takes the oldest call that reached the server.
    pub(super) fn take_server_call(&mut self) -> Call {
        assert!(!self.server_calls.is_empty(), "a call reaches the server");
        self.server_calls.remove(0)
    }

    pub(super) fn has_server_call(&self) -> bool {
        !self.server_calls.is_empty()
    }

    pub(super) fn complete(&mut self, call: &Call, result: &Value) {
        let now = self.now;
        self.server.engine().complete(now, call.id(), result).expect("it is open");
        self.settle();
    }

    pub(super) fn fail(&mut self, call: &Call, error: &mcp_proto::RpcError) {
        let now = self.now;
        self.server.engine().fail(now, call.id(), error).expect("it is open");
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

    /// Returns whether the server was notified of a cancellation.
    pub(super) fn was_cancelled(&self, call: &Call) -> bool {
        let is = |event: &server::Event| matches!(event, server::Event::Cancelled { call: id, .. } if *id == call.id());
        self.server_events.iter().any(is)
    }

    /// Ends the server.
    pub(super) fn kill_server(&mut self) {
        self.upstream.handle_eof(self.now);
        let now = self.now;
        self.server.abort(now, &Fault::Closed);
        self.settle();
    }

    /// Starts the next server, as the driver does when the relay asks for it.
    pub(super) fn start_server(&mut self, up: Version) {
        assert_eq!(self.starts.len(), 1, "asked for once");
        self.starts.clear();
        let (server, upstream, peer) = connect_upstream(self.now, up, &ALL_CAPABILITIES);
        (self.server, self.upstream) = (server, upstream);
        self.server_calls.clear();
        self.with_relay(|relay, engines| relay.handle_started(engines, &peer));
        self.settle();
    }

    /// Ends the client.
    pub(super) fn close_client(&mut self) {
        self.downstream.handle_eof(self.now);
        self.settle();
    }
}

/// Starts a server and connects a client engine to it, as a bridge does.
pub(super) fn connect_upstream(
    now: Instant,
    up: Version,
    promised: &[Capability],
) -> (Server, Client, client::Peer) {
    connect_upstream_within(now, up, promised, client_limits(Limits::default()))
}

/// As [`connect_upstream`], with the limits of the client engine.
#[expect(deprecated, reason = "tested until its removal")]
pub(super) fn connect_upstream_within(
    now: Instant,
    up: Version,
    promised: &[Capability],
    own_limits: Limits,
) -> (Server, Client, client::Peer) {
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
    let settings = || RawJson::new(r#"{"unit":"metres"}"#).expect("JSON");
    let capabilities =
        capabilities_of(&all).extension("org.example/tides", settings()).expect("an identifier");
    let config = with_seal_key(config.versions(versions(up)).capabilities(capabilities), 1);
    let mut limits = Limits::default();
    // The virtual clock does not advance between reports, so the rate must not limit them.
    (limits.progress_burst, limits.progress_rate) = (1_000, 1_000);
    // More than a client may ask for with one subscription.
    limits.max_subscribed_resources = 1 << 20;
    let mut server = Server::new(Arc::new(config.limits(limits)), now);
    server.engine().set_tasks(now, TaskTable::new(Entropy::new([7; 32], 0), Anchor::default()));
    let config =
        client::Config::new("bridge", "0").versions(versions(up)).capabilities(capabilities_of(promised));
    let config = config.any_custom_method().tasks();
    let mut up = Client::new(Arc::new(config.limits(own_limits)), now);
    let peer = loop {
        assert!(transfer(now, &mut up, &mut server), "the server answers");
        while server.poll_event(now).is_some() {}
        if let Some(client::Event::Ready(peer)) = up.poll_event(now) {
            break peer;
        }
    };
    (server, up, peer)
}

/// Moves written bytes in both directions. Returns whether there were any.
pub(super) fn transfer(now: Instant, client: &mut Client, server: &mut Server) -> bool {
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
