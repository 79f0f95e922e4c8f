//! A client, a gateway and several servers in memory.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::client::{self, Input};
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::server::{self, Authorization, Call, Identity};
use mcp_proto::{
    Anchor, CallError, CallKey, CallOptions, Capability, Entropy, Fault, Instant, Limits, RawJson, RpcError,
    Version,
};
use serde_json::{Value, json};

use super::harness::{
    ALL_CAPABILITIES, capabilities_of, connect_upstream, connect_upstream_within, transfer, versions,
    with_seal_key,
};
use crate::{
    ClientCount, Gateway, GatewayEngines, UpstreamEngine, UpstreamEngines, client_limits, gateway_config,
    search_gateway_config, server_limits, set_tasks,
};

/// An upstream, which runs or not.
pub(super) struct Side {
    upstream: Client,
    pub(super) server: Server,
    /// Revision in which the next start succeeds; `None` if it fails.
    pub(super) supply: Option<Version>,
    /// Whether it has nothing but tools.
    pub(super) has_only_tools: bool,
    /// Limits of the engine that the next start connects with.
    pub(super) limits: Limits,
    calls: Vec<Call>,
    pub(super) events: Vec<server::Event>,
}

/// The engines of all sides at one time.
struct Sides<'s> {
    now: Instant,
    sides: &'s mut [Side],
}

impl UpstreamEngines for Sides<'_> {
    fn engine(&mut self, upstream: usize) -> Option<UpstreamEngine<'_>> {
        Some(UpstreamEngine { now: self.now, engine: self.sides.get_mut(upstream)?.upstream.engine() })
    }
}

/// Connects an upstream that has nothing but tools.
fn connect_to_tools(now: Instant, version: Version) -> (Server, Client, client::Peer) {
    let config = server::Config::new("tools", "1").versions(versions(version));
    let config = config.capabilities(capabilities_of(&[Capability::Tools]));
    let mut server = Server::new(Arc::new(with_seal_key(config, 1)), now);
    let config = client::Config::new("gateway", "0").versions(versions(version));
    let mut client = Client::new(Arc::new(config), now);
    loop {
        assert!(transfer(now, &mut client, &mut server), "the server answers");
        while server.poll_event(now).is_some() {}
        if let Some(client::Event::Ready(peer)) = client.poll_event(now) {
            return (server, client, peer);
        }
    }
}

/// A client, the front of a gateway, the gateway, and servers behind it.
pub(super) struct GatewayHarness {
    pub(super) now: Instant,
    pub(super) client: Client,
    pub(super) downstream: Server,
    pub(super) gateway: Gateway,
    pub(super) sides: Vec<Side>,
    /// Whether starts go on until [`finish_start`](Self::finish_start).
    pub(super) is_start_slow: bool,
    pub(super) client_events: Vec<client::Event>,
    outcomes: Vec<(CallKey, Result<RawJson, CallError>)>,
}

impl GatewayHarness {
    /// Creates a gateway with upstreams of these names and revisions, all started.
    pub(super) fn new(down: Version, upstreams: &[(&str, Version)]) -> Self {
        Self::with_gateway(down, upstreams, Gateway::new(ClientCount::One))
    }

    pub(super) fn with_gateway(down: Version, upstreams: &[(&str, Version)], gateway: Gateway) -> Self {
        Self::with_client(false, down, upstreams, gateway)
    }

    /// As [`with_gateway`](Self::with_gateway), for a client that has tasks or not.
    pub(super) fn with_client(
        has_tasks: bool,
        down: Version,
        upstreams: &[(&str, Version)],
        gateway: Gateway,
    ) -> Self {
        let now = Instant::ZERO;
        let limits = server_limits(Limits::default());
        let front = match gateway.search.is_some() {
            true => search_gateway_config("gateway", "1", versions(down), limits),
            false => gateway_config("gateway", "1", versions(down), limits),
        };
        let config = client::Config::new("sailor", "7").versions(versions(down));
        let config = config.capabilities(capabilities_of(&ALL_CAPABILITIES)).custom_method("harbour/draught");
        let config = if has_tasks { config.tasks() } else { config };
        let mut downstream = Server::new(Arc::new(with_seal_key(front, 3)), now);
        set_tasks(downstream.engine(), now, Entropy::new([6; 32], 0), Anchor::default());
        let mut chain = Self {
            now,
            client: Client::new(Arc::new(config), now),
            downstream,
            gateway,
            sides: Vec::new(),
            is_start_slow: false,
            client_events: Vec::new(),
            outcomes: Vec::new(),
        };
        chain.settle();
        for (name, version) in upstreams {
            chain.add(name, Some(*version));
        }
        chain.client_events.clear();
        chain
    }

    /// Adds an upstream that can be started, or not.
    pub(super) fn add(&mut self, name: &str, supply: Option<Version>) -> usize {
        let index = self.gateway.add(self.now, name, None).expect("a new name");
        let (server, upstream, _) = connect_upstream(self.now, Version::V2026_07_28, &ALL_CAPABILITIES);
        self.sides.push(Side {
            upstream,
            server,
            supply,
            has_only_tools: false,
            limits: client_limits(Limits::default()),
            calls: Vec::new(),
            events: Vec::new(),
        });
        self.settle();
        index
    }

    pub(super) fn authorize(&mut self, principal: &str) {
        let channel = self.downstream.channel();
        let party = Authorization::new(Identity::new(principal.to_owned()));
        self.downstream.engine().set_authorization(channel, Some(party));
    }

    pub(super) fn with_gateway_of<R>(
        &mut self,
        act: impl FnOnce(&mut Gateway, &mut GatewayEngines<'_>) -> R,
    ) -> R {
        let now = self.now;
        let mut upstreams = Sides { now, sides: &mut self.sides };
        let mut engines =
            GatewayEngines { now, downstream: self.downstream.engine(), upstreams: &mut upstreams };
        act(&mut self.gateway, &mut engines)
    }

    /// Does everything that is possible without advancing the clock.
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            let now = self.now;
            let mut moved = transfer(now, &mut self.client, &mut self.downstream);
            while let Some(event) = self.downstream.poll_event(now) {
                self.with_gateway_of(|gateway, engines| gateway.handle_server_event(engines, event));
                moved = true;
            }
            for index in 0..self.sides.len() {
                while let Some(event) = self.sides[index].upstream.poll_event(now) {
                    self.with_gateway_of(|gateway, engines| {
                        gateway.handle_client_event(engines, index, event);
                    });
                    moved = true;
                }
            }
            self.with_gateway_of(|gateway, engines| gateway.process_pending(engines));
            for index in 0..self.sides.len() {
                if !self.gateway.is_running(index) {
                    let _ = self.gateway.take_fault(index);
                }
            }
            while let Some(index) = self.gateway.poll_start(now) {
                if !self.is_start_slow {
                    self.start(index);
                }
                moved = true;
            }
            for side in &mut self.sides {
                moved |= transfer(now, &mut side.upstream, &mut side.server);
                while let Some(event) = side.server.poll_event(now) {
                    match event {
                        server::Event::Call(call) => side.calls.push(call),
                        event => side.events.push(event),
                    }
                    moved = true;
                }
            }
            while let Some(event) = self.client.poll_event(now) {
                match event {
                    client::Event::Done { call, outcome, .. } => self.outcomes.push((call, outcome)),
                    event => self.client_events.push(event),
                }
                moved = true;
            }
            moved |= transfer(now, &mut self.client, &mut self.downstream);
            if !moved {
                return;
            }
        }
        panic!("without end");
    }

    fn start(&mut self, index: usize) {
        let Some(version) = self.sides[index].supply else {
            return self.with_gateway_of(|gateway, engines| {
                gateway.handle_start_failure(engines, index, "no such program");
            });
        };
        let (server, upstream, peer) = match self.sides[index].has_only_tools {
            true => connect_to_tools(self.now, version),
            false => connect_upstream_within(
                self.now,
                version,
                &ALL_CAPABILITIES,
                self.sides[index].limits.clone(),
            ),
        };
        let side = &mut self.sides[index];
        (side.server, side.upstream) = (server, upstream);
        side.calls.clear();
        self.with_gateway_of(|gateway, engines| gateway.handle_started(engines, index, &peer));
    }

    /// Ends a start that has gone on until now.
    pub(super) fn finish_start(&mut self, index: usize) {
        self.start(index);
        self.settle();
    }

    /// Ends a server. The next start fails if `supply` is `None`.
    pub(super) fn kill(&mut self, index: usize, supply: Option<Version>) {
        self.sides[index].supply = supply;
        let now = self.now;
        self.sides[index].upstream.handle_eof(now);
        self.sides[index].server.abort(now, &Fault::Closed);
        self.settle();
    }

    /// Advances the clock of all parts.
    pub(super) fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let timers =
                [self.client.poll_timeout(), self.downstream.poll_timeout(), self.gateway.poll_timeout()];
            let sides = self.sides.iter_mut();
            let sides = sides.flat_map(|side| [side.upstream.poll_timeout(), side.server.poll_timeout()]);
            let next = sides.chain(timers).flatten().min().filter(|at| *at <= until);
            self.now = next.unwrap_or(until).max(self.now);
            let now = self.now;
            self.client.handle_timeout(now);
            self.downstream.handle_timeout(now);
            for side in &mut self.sides {
                side.upstream.handle_timeout(now);
                side.server.handle_timeout(now);
            }
            self.with_gateway_of(|gateway, engines| gateway.handle_timeout(engines));
            self.settle();
            if next.is_none() {
                return;
            }
        }
    }

    // ---- client ----------------------------------------------------------------------------------------------

    pub(super) fn call(&mut self, method: &str, params: &Value) -> CallKey {
        let options = CallOptions::new().with_progress();
        let key = self.client.engine().call(self.now, method, params, &options).expect("it may be called");
        self.settle();
        key
    }

    pub(super) fn call_tool(&mut self, name: &str) -> CallKey {
        self.call("tools/call", &json!({"name": name, "arguments": {"berth": "C14"}}))
    }

    pub(super) fn has_ended(&self, call: CallKey) -> bool {
        self.outcomes.iter().any(|(other, _)| *other == call)
    }

    #[track_caller]
    pub(super) fn result(&mut self, call: CallKey) -> Value {
        let at = self.outcomes.iter().position(|(other, _)| *other == call).expect("it has ended");
        let result = self.outcomes.remove(at).1.expect("a result");
        serde_json::from_str(result.as_str()).expect("JSON")
    }

    #[track_caller]
    pub(super) fn error(&mut self, call: CallKey) -> RpcError {
        let at = self.outcomes.iter().position(|(other, _)| *other == call).expect("it has ended");
        match self.outcomes.remove(at).1 {
            Err(CallError::Rpc(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    /// Takes the input requests among the client's events and drops all others.
    pub(super) fn take_inputs(&mut self) -> Vec<Input> {
        let events = core::mem::take(&mut self.client_events).into_iter();
        let inputs = events.filter_map(|event| match event {
            client::Event::Input(input) => Some(input),
            _ => None,
        });
        inputs.collect()
    }

    // ---- servers ---------------------------------------------------------------------------------------------

    /// Takes the oldest call that reached a server.
    pub(super) fn take_call(&mut self, index: usize) -> Call {
        assert!(!self.sides[index].calls.is_empty(), "a call reaches server {index}");
        self.sides[index].calls.remove(0)
    }

    pub(super) fn has_call(&self, index: usize) -> bool {
        !self.sides[index].calls.is_empty()
    }

    pub(super) fn complete(&mut self, index: usize, call: &Call, result: &Value) {
        let now = self.now;
        self.sides[index].server.engine().complete(now, call.id(), result).expect("it is open");
        self.settle();
    }

    pub(super) fn fail(&mut self, index: usize, call: &Call, error: &RpcError) {
        let now = self.now;
        self.sides[index].server.engine().fail(now, call.id(), error).expect("it is open");
        self.settle();
    }

    /// Answers the calls of all servers that arrive because of a list, each with its result.
    #[track_caller]
    pub(super) fn list(&mut self, method: &str, params: &Value, results: &[Value]) -> Value {
        let key = self.call(method, params);
        for (index, result) in results.iter().enumerate().filter(|(_, result)| !result.is_null()) {
            let call = self.take_call(index);
            assert_eq!(call.method(), method);
            self.complete(index, &call, result);
        }
        self.result(key)
    }
}
