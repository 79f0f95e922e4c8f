//! Sessions that several processes serve, without affinity.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use mcp_proto::http::server::{Config, ExchangeId, Server, SharedSessionEvent};
use mcp_proto::model::LoggingLevel;
use mcp_proto::server::Event;
use mcp_proto::{Change, Entropy, SendStatus, VersionSet};
use mcp_tests::harness::HttpServerHarness;
use serde_json::{Value, json};

use super::{ECHO_PARAMS, answer_call, initialize_request, legacy_request, with_capabilities};
use crate::protocol::common::server;

/// Several processes with one store, whose messages arrive at once unless they are held.
struct Cluster {
    processes: Vec<HttpServerHarness>,
    records: BTreeMap<String, (u64, Vec<u8>)>,
    /// Whether the store answers at all.
    store_is_up: bool,
    /// Number of calls of the store.
    loads: usize,
    writes: usize,
    relayed: usize,
}

const OK: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

impl Cluster {
    fn new(count: u8, http: impl Fn() -> Config) -> Self {
        let processes = (0..count).map(|n| Self::process(n, http())).collect();
        Self { processes, records: BTreeMap::new(), store_is_up: true, loads: 0, writes: 0, relayed: 0 }
    }

    fn process(number: u8, http: Config) -> HttpServerHarness {
        let mut web = HttpServerHarness::new(with_capabilities(server(VersionSet::ALL)), Config::new());
        let config = Arc::new(with_capabilities(server(VersionSet::ALL)));
        web.server = Server::new(config, Arc::new(http), Entropy::new([number; 32], 0));
        web.server.share_sessions(number.into());
        web
    }

    /// Ends a process without notice, and starts another one in its place.
    fn kill(&mut self, at: usize, number: u8) {
        let now = self.processes[at].now;
        self.processes[at] = Self::process(number, Config::new());
        self.processes[at].now = now;
    }

    /// Passes events between the processes and the store until there are no more.
    fn settle(&mut self) {
        while let Some((at, event)) = self.next() {
            self.serve(at, event);
            self.processes.iter_mut().for_each(HttpServerHarness::transmit_all);
        }
    }

    fn next(&mut self) -> Option<(usize, SharedSessionEvent)> {
        let mut processes = self.processes.iter_mut().enumerate();
        processes.find_map(|(at, web)| Some((at, web.poll_shared()?)))
    }

    fn serve(&mut self, at: usize, event: SharedSessionEvent) {
        let up = self.store_is_up;
        let now = self.processes[at].now;
        let web = &mut self.processes[at];
        match event {
            SharedSessionEvent::Load { exchange, .. } if !up => {
                web.server.shared_sessions().unavailable(now, exchange);
            }
            SharedSessionEvent::Load { exchange, id, opens_stream } => {
                self.loads += 1;
                match self.records.get(id.reveal()) {
                    Some((_, record)) => _ = web.server.shared_sessions().found(now, exchange, record),
                    None => web.server.shared_sessions().not_found(now, exchange),
                }
                if opens_stream {
                    for from in (0..self.processes.len()).filter(|from| *from != at) {
                        let waiting = self.processes[from].server.shared_sessions().take_waiting(&id);
                        for message in waiting {
                            self.processes[at].server.shared_sessions().send(now, &id, message);
                        }
                    }
                }
            }
            SharedSessionEvent::Changed { exchange, .. } if !up => {
                web.server.shared_sessions().not_stored(now, exchange);
            }
            SharedSessionEvent::Changed { exchange, id } => {
                self.writes += 1;
                let record = web.server.shared_sessions().save(&id).expect("it is here");
                let version = self.records.get(id.reveal()).map_or(0, |(version, _)| *version);
                self.records.insert(id.reveal().into(), (version + 1, record));
                web.server.shared_sessions().stored(now, exchange);
                self.others(at, |web, now| {
                    web.server.shared_sessions().mark_stale(&id);
                    let _ = now;
                });
            }
            SharedSessionEvent::Ended { exchange, id } => {
                self.records.remove(id.reveal());
                if let Some(exchange) = exchange {
                    web.server.shared_sessions().stored(now, exchange);
                }
                self.others(at, |web, now| web.server.shared_sessions().forget(now, &id));
            }
            SharedSessionEvent::Relay { id, message } => {
                self.relayed += 1;
                self.others(at, |web, now| web.server.shared_sessions().receive(now, &id, &message));
            }
            _ => {}
        }
    }

    fn others(&mut self, at: usize, mut f: impl FnMut(&mut HttpServerHarness, mcp_proto::Instant)) {
        for (_, web) in self.processes.iter_mut().enumerate().filter(|(other, _)| *other != at) {
            let now = web.now;
            f(web, now);
        }
    }

    fn post(&mut self, at: usize, id: &str, body: &str) -> ExchangeId {
        let x = self.processes[at].post(&[("Mcp-Session-Id", id)], body);
        self.settle();
        x
    }

    fn get(&mut self, at: usize, id: &str) -> ExchangeId {
        let x = self.processes[at].send_request("GET", "/mcp", &[("Mcp-Session-Id", id)], "");
        self.settle();
        x
    }

    fn delete(&mut self, at: usize, id: &str) -> ExchangeId {
        let x = self.processes[at].send_request("DELETE", "/mcp", &[("Mcp-Session-Id", id)], "");
        self.settle();
        x
    }

    /// Opens a session, whose handshake ends at another process than it began at.
    fn open(&mut self, at: usize, version: &str) -> String {
        let x = self.processes[at].post(&[], &initialize_request(version));
        assert_eq!(self.processes[at].response(x).status, 0, "nothing is answered that is not stored");
        self.settle();
        let id = self.processes[at].response(x).field("mcp-session-id").expect("a session").to_owned();
        let next = (at + 1) % self.processes.len();
        let x = self.post(next, &id, OK);
        assert_eq!(self.processes[next].response(x).status, 202);
        id
    }

    fn drain(&mut self) {
        self.processes.iter_mut().for_each(|web| while web.poll_event().is_some() {});
    }
}

fn methods(messages: &[Value]) -> Vec<String> {
    messages.iter().filter_map(|message| Some(message["method"].as_str()?.to_owned())).collect()
}

// covers: HTTP-064, HTTP-071, LIFE-006, LOG-006, RES-010
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn each_process_serves_each_session() {
    for version in ["2025-06-18", "2025-11-25"] {
        let mut all = Cluster::new(3, Config::new);
        let id = all.open(0, version);
        let mut channels = [None; 3];
        for at in [1, 2, 0, 2, 1, 0] {
            let x = all.post(at, &id, &legacy_request(at as u32 + 10, "tools/call", ECHO_PARAMS));
            let web = &mut all.processes[at];
            let call = loop {
                match web.poll_event() {
                    Some(Event::Call(call)) => break call,
                    Some(Event::SessionOpened { channel, .. }) => channels[at] = Some(channel),
                    other => panic!("{other:?}"),
                }
            };
            assert_eq!(call.version().as_str(), version);
            answer_call(web, &call);
            assert_eq!(web.response(x).message()["result"]["content"][0]["text"], "done");
        }
        // Who has the session asks nobody.
        let (loads, writes) = (all.loads, all.writes);
        for at in 0..3 {
            all.post(at, &id, &legacy_request(99, "ping", ""));
        }
        assert_eq!((all.loads, all.writes, all.relayed), (loads, writes, 0));

        // What a client sets at one process holds at all.
        let x = all.post(0, &id, &legacy_request(20, "logging/setLevel", r#""level":"error""#));
        assert_eq!(all.processes[0].response(x).message()["result"], json!({}));
        all.post(1, &id, &legacy_request(21, "resources/subscribe", r#""uri":"tide:1""#));
        all.post(2, &id, &legacy_request(22, "ping", ""));
        let stream = all.get(2, &id);
        let web = &mut all.processes[2];
        let messages = web.response(stream).messages();
        let [list, updated] = ["notifications/tools/list_changed", "notifications/resources/updated"];
        assert_eq!(methods(&messages), [list, updated], "all that may have changed");
        web.server.engine().publish(web.now, &Change::Resource("tide:1".into()));
        web.transmit_all();
        assert_eq!(methods(&web.response(stream).messages()[2..]), [updated]);
        let (now, channel) = (web.now, channels[2].expect("it is here"));
        let log = |web: &mut HttpServerHarness, level| {
            web.server.engine().log_session(now, channel, level, None, "x")
        };
        assert_eq!(log(web, &LoggingLevel::Info), Ok(SendStatus::Dropped));
        assert_eq!(log(web, &LoggingLevel::Error), Ok(SendStatus::Queued));

        // The end of it is the end at all.
        let x = all.delete(1, &id);
        assert_eq!(all.processes[1].response(x).status, 204);
        for at in 0..3 {
            let x = all.post(at, &id, &legacy_request(30, "ping", ""));
            assert_eq!(all.processes[at].response(x).status, 404);
        }
        assert!(all.records.is_empty());
    }
}
