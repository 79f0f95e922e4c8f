//! Suite: what the scenarios of the official suite about events demand, over sockets, with the codes of both profiles.
//!
//! Of clients: servers made here answer as those of the suite do (`events-client-…`). Of servers: a receiver made here answers
//! challenges and deliveries in each way (`events-webhook-delivery`). Times are shorter than those of the suite.
//!
//! `crate::adapter` names the adapter under test.

#![allow(unused_mut, reason = "only some adapters take a handle of `&mut self`")]

use alloc::sync::Arc;
use core::time::Duration;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::{Instant, SystemTime};

use mcp_events::client::{Error as EventsError, FollowOptions, WebhookOptions};
use mcp_events::follow::{FollowConfig, FollowError, FollowEvent};
use mcp_events::receiver::{Limits, Receiver};
use mcp_events::subscription::{SubscriptionConfig, SubscriptionEvent};
use mcp_events::wire::{DeliveryMode, PollEventsParams};
use mcp_proto::client::Config as ClientConfig;
use mcp_proto::{VersionSet, iso_8601};
use serde_json::{Value, json};

use crate::adapter::{Client, events_client, next_event, run};
use crate::support::with_timeout;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// `Forbidden` in the SEP, and in its sketch.
const FORBIDDEN: [i64; 2] = [-32_024, -32_012];

/// What a mock sends for a request.
struct Reply {
    /// Notifications on an event stream, each after a pause.
    before: Vec<(Duration, Value)>,
    /// Without one the stream stays open.
    end: Option<Result<Value, i64>>,
}

impl From<Value> for Reply {
    fn from(result: Value) -> Self {
        Self { before: Vec::new(), end: Some(Ok(result)) }
    }
}

impl From<i64> for Reply {
    fn from(code: i64) -> Self {
        Self { before: Vec::new(), end: Some(Err(code)) }
    }
}

/// A server of a scenario. It keeps when it was asked for what.
struct Mock {
    url: String,
    asked: Arc<Mutex<Vec<(Instant, Value)>>>,
}

impl Mock {
    /// Starts a server with capabilities and an answer for each request, which gets its method, its parameters, and how many of
    /// this method and type came before.
    fn start(
        capabilities: Value,
        answer: impl Fn(&str, &Value, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("a port"));
        let asked = Arc::<Mutex<Vec<(Instant, Value)>>>::default();
        let (kept, answer) = (asked.clone(), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, answer, capabilities) = (kept.clone(), answer.clone(), capabilities.clone());
                thread::spawn(move || serve_request(stream, &kept, &capabilities, &*answer));
            }
        });
        Self { url, asked }
    }

    /// Returns the requests of a method for a type, with their times.
    fn asked(&self, method: &str, name: &str) -> Vec<(Instant, Value)> {
        let asked = self.asked.lock().expect("no panic");
        let is_it = |request: &Value| request["method"] == method && request["params"]["name"] == name;
        asked.iter().filter(|(_, request)| is_it(request)).cloned().collect()
    }
}

/// Answers the request of one connection.
fn serve_request(
    mut stream: TcpStream,
    kept: &Mutex<Vec<(Instant, Value)>>,
    capabilities: &Value,
    answer: &dyn Fn(&str, &Value, usize) -> Reply,
) {
    let Some((head, body)) = read_request(|buffer| stream.read(buffer).ok()) else { return };
    let mut send = |text: String| stream.write_all(text.as_bytes()).is_ok();
    if !head.starts_with("POST ") {
        send("HTTP/1.1 405 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into());
        return;
    }
    let request: Value = serde_json::from_slice(&body).expect("JSON");
    let (method, params) = (request["method"].as_str().expect("a method"), &request["params"]);
    let before = {
        let mut kept = kept.lock().expect("no panic");
        let is_like = |other: &Value| other["method"] == method && other["params"]["name"] == params["name"];
        let before = kept.iter().filter(|(_, other)| is_like(other)).count();
        kept.push((Instant::now(), request.clone()));
        before
    };
    let reply = match method {
        "server/discover" => Reply::from(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "ttlMs": 0, "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "mock", "version": "1"}},
        })),
        _ => answer(method, params, before),
    };
    let end = reply.end.map(|end| match end {
        Ok(result) => json!({"jsonrpc": "2.0", "id": request["id"], "result": result}),
        Err(code) => json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no"}}),
    });
    let head = |kind: &str| format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n");
    match (&end, reply.before.is_empty()) {
        (Some(end), true) => {
            let body = end.to_string();
            send(format!("{}Content-Length: {}\r\n\r\n{body}", head("application/json"), body.len()));
        }
        _ => {
            send(format!("{}\r\n", head("text/event-stream")));
            for (pause, mut message) in reply.before {
                thread::sleep(pause);
                message["jsonrpc"] = "2.0".into();
                message["params"]["_meta"] = json!({SUBSCRIPTION: request["id"]});
                if !send(format!("data: {message}\n\n")) {
                    return;
                }
            }
            match end {
                Some(end) => drop(send(format!("data: {end}\n\n"))),
                // Until the client gives it up.
                None => while stream.read(&mut [0; 64]).is_ok_and(|count| count > 0) {},
            }
        }
    }
}

/// Reads a head, and the body of the length that it names.
pub(super) fn read_request(mut read: impl FnMut(&mut [u8]) -> Option<usize>) -> Option<(String, Vec<u8>)> {
    let (mut all, mut buffer) = (Vec::new(), [0; 4_096]);
    loop {
        if let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(all[..end].to_vec()).ok()?;
            let length = field(&head, "content-length").map_or(0, |length| length.parse().expect("a number"));
            if all.len() >= end + 4 + length {
                return Some((head, all.split_off(end + 4)));
            }
        }
        match read(&mut buffer)? {
            0 => return None,
            count => all.extend_from_slice(&buffer[..count]),
        }
    }
}

pub(super) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.find_map(|(other, value)| other.eq_ignore_ascii_case(name).then_some(value))
}

/// Capabilities with events: in the place of the SEP, or in that of its sketch.
fn declared(code: i64) -> Value {
    match code == FORBIDDEN[0] {
        true => json!({"extensions": {"io.modelcontextprotocol/events": {"listChanged": true}}}),
        false => json!({"events": {}}),
    }
}

/// A list of types with one mode, without schemas of payloads as in the suite.
fn types(names: &[&str], mode: &str) -> Reply {
    let described =
        |name: &&str| json!({"name": name, "delivery": [mode], "inputSchema": {"type": "object"}});
    json!({"events": names.iter().map(described).collect::<Vec<_>>()}).into()
}

fn occurrence(id: &str, name: &str, cursor: &Value) -> Value {
    json!({"eventId": id, "name": name, "timestamp": "2026-11-25T10:00:00Z", "data": {}, "cursor": cursor})
}

fn notification(method: &str, params: &Value) -> Value {
    json!({"method": format!("notifications/events/{method}"), "params": params})
}

/// Connects a client of the package to a mock.
macro_rules! connect {
    ($mock:expr) => {{
        let config = ClientConfig::new("conformance", "1").versions(VersionSet::MODERN);
        run!(Client::options(config).connect_url(&$mock.url)).expect("a connection")
    }};
}

/// The floor of polls.
const FLOOR: Duration = Duration::from_millis(100);

/// Follows a type until the server ends it, and returns what came, in order.
macro_rules! followed {
    ($events:expr, $name:expr) => {{
        let mut config = FollowConfig::default();
        (config.shortest_poll, config.shortest_backoff) = (FLOOR, Duration::from_millis(10));
        let options = FollowOptions::new().config(config);
        let mut follower = run!($events.follow_with($name, &json!({}), options)).expect("a follower");
        let mut came = Vec::new();
        while let Some(event) = next_event!(follower).expect("the connection is open") {
            came.push(match event {
                FollowEvent::Event(event) => event.event_id,
                FollowEvent::Gap { reason, .. } => format!("gap {reason:?}"),
                FollowEvent::Error(error) => format!("error {error:?}"),
                FollowEvent::Ended(FollowError::Server(error)) => format!("ended {}", error.code),
                other => panic!("{other:?}"),
            });
        }
        came
    }};
}

fn cursors(asked: &[(Instant, Value)]) -> Vec<Value> {
    asked.iter().map(|(_, request)| request["params"]["cursor"].clone()).collect()
}

/// `events-client-no-extension`
// covers: EVT-004
#[test]
fn scenario_client_without_extension_asks_for_no_events() {
    with_timeout(|| {
        let mock = Mock::start(json!({"tools": {}}), |_, _, _| types(&["build"], "poll"));
        let client = connect!(mock);
        let events = events_client!(&client);
        let receiver = Mutex::new(Receiver::new(Limits::default()));
        let hook = WebhookOptions::new("https://hooks.example/");
        for error in [
            run!(events.list()).map(drop).expect_err("no events"),
            run!(events.poll(&PollEventsParams::new("build"))).map(drop).expect_err("no events"),
            run!(events.follow("build", &json!({}))).map(drop).expect_err("no events"),
            events.webhook("build", &json!({}), hook, &receiver).map(drop).expect_err("no events"),
        ] {
            assert!(matches!(error, EventsError::NotDeclared), "{error}");
        }
        run!(client.close()).expect("closed");
        let asked = mock.asked.lock().expect("no panic");
        assert!(!asked.is_empty());
        assert!(asked.iter().all(|(_, request)| request["method"] == "server/discover"), "{asked:?}");
    });
}

/// `events-client-poll`
// covers: EVT-040, EVT-042, EVT-044, EVT-045, EVT-140, EVT-141, EVT-145, EVT-146
#[test]
fn scenario_client_polls_at_the_pace_and_from_the_cursors_of_the_server() {
    with_timeout(|| {
        for code in FORBIDDEN {
            let mock = Mock::start(declared(code), move |method, params, before| {
                let one = |id: &str| vec![occurrence(id, "positions", &Value::Null)];
                match (method, params["name"].as_str(), before) {
                    ("events/list", ..) => types(&["positions", "none"], "poll"),
                    // `hasMore` overrules a pause that the test would not survive.
                    ("events/poll", Some("positions"), 0) => {
                        json!({"events": [], "cursor": "c-1", "hasMore": true, "nextPollMs": 3_600_000})
                            .into()
                    }
                    ("events/poll", Some("positions"), 1) => {
                        json!({"events": one("e-1"), "cursor": "c-2", "nextPollMs": 400}).into()
                    }
                    ("events/poll", Some("positions"), 2) => {
                        json!({"events": one("e-2"), "cursor": "c-3", "nextPollMs": 0}).into()
                    }
                    ("events/poll", Some("positions"), 3) => {
                        json!({"events": one("e-3"), "cursor": "c-9", "truncated": true, "nextPollMs": 0})
                            .into()
                    }
                    ("events/poll", Some("positions"), 4) => Reply {
                        before: vec![(Duration::ZERO, notification("list_changed", &json!({})))],
                        end: Some(Ok(json!({"events": one("e-4"), "cursor": "c-10", "nextPollMs": 0}))),
                    },
                    ("events/poll", Some("none"), 0) => {
                        json!({"events": [], "cursor": null, "nextPollMs": 0}).into()
                    }
                    ("events/poll", Some("none"), 1..=3) => {
                        let event = occurrence(&format!("n-{before}"), "none", &Value::Null);
                        json!({"events": [event], "nextPollMs": 0}).into()
                    }
                    _ => code.into(),
                }
            });
            let client = connect!(mock);
            let events = events_client!(&client);
            let came = followed!(events, "positions");
            assert_eq!(came, ["e-1", "e-2", "gap Truncated", "e-3", "e-4", &format!("ended {code}")]);
            let asked = mock.asked("events/poll", "positions");
            assert_eq!(json!(cursors(&asked)), json!([null, "c-1", "c-2", "c-3", "c-9", "c-10"]));
            let pause = |n: usize| asked[n].0 - asked[n - 1].0;
            assert!(pause(2) >= Duration::from_millis(400), "{:?}", pause(2));
            (3..6).for_each(|n| assert!(pause(n) >= FLOOR, "{n}: {:?}", pause(n)));
            // A type without positions is always asked for what happens from now on.
            let came = followed!(events, "none");
            assert_eq!(came, ["n-1", "n-2", "n-3", &format!("ended {code}")]);
            assert_eq!(cursors(&mock.asked("events/poll", "none")), vec![Value::Null; 5]);
            run!(client.close()).expect("closed");
        }
    });
}

/// `events-client-push`
// covers: EVT-051, EVT-056, EVT-059, EVT-065, EVT-140, EVT-141, EVT-153
#[test]
fn scenario_client_opens_a_silent_stream_again_from_the_last_heartbeat() {
    with_timeout(|| {
        let runs = FORBIDDEN.map(|code| ["positions", "none"].map(|name| (code, name)));
        let runs = runs.map(|runs| runs.map(|(code, name)| thread::spawn(move || follow_silent(code, name))));
        runs.into_iter().flatten().for_each(|run| run.join().expect("no panic"));
    });
}

/// Follows a type whose first stream becomes silent, and whose second one ends.
fn follow_silent(code: i64, name: &'static str) {
    let mock = Mock::start(declared(code), move |method, _, before| {
        let at = |n: usize| if name == "none" { Value::Null } else { json!(format!("c-{n}")) };
        let active = notification("active", &json!({"cursor": at(9 * before), "truncated": false}));
        let event = notification("event", &occurrence(&format!("e-{before}"), name, &at(1)));
        let mut sent = vec![(Duration::ZERO, active), (Duration::ZERO, event)];
        match (method, before) {
            ("events/list", _) => types(&[name], "push"),
            ("events/stream", 0) => {
                for n in 2..6 {
                    let beat = notification("heartbeat", &json!({"cursor": at(n)}));
                    sent.push((Duration::from_millis(100), beat));
                }
                Reply { before: sent, end: None }
            }
            ("events/stream", 1) => {
                let error = json!({"error": {"code": code, "message": "no"}});
                sent.push((Duration::ZERO, notification("terminated", &error)));
                Reply { before: sent, end: Some(Ok(json!({}))) }
            }
            _ => code.into(),
        }
    });
    let client = connect!(mock);
    let events = events_client!(&client);
    let came = followed!(events, name);
    let ended = format!("ended {code}");
    let cursors = cursors(&mock.asked("events/stream", name));
    match name {
        // Nothing of what was missed can be had.
        "none" => {
            assert_eq!(came, ["e-0", "error Silent", "gap NoReplay", "e-1", &ended]);
            assert_eq!(cursors, [Value::Null, Value::Null]);
        }
        _ => {
            assert_eq!(came, ["e-0", "error Silent", "e-1", &ended]);
            assert_eq!(cursors, [Value::Null, json!("c-5")]);
        }
    }
    run!(client.close()).expect("closed");
}

/// `events-client-webhook`
// covers: EVT-073, EVT-079, EVT-080, EVT-081, EVT-140, EVT-141
#[test]
fn scenario_client_refreshes_its_webhook_before_each_expiry() {
    // Far longer than what is asked for, so that a slow machine is not late.
    const GRANT: Duration = Duration::from_secs(60);
    const ASKED: Duration = Duration::from_secs(2);
    with_timeout(|| {
        let clients = ["positions", "none"].map(|name| {
            thread::spawn(move || {
                let mock = Mock::start(declared(FORBIDDEN[0]), move |method, params, _| match method {
                    // Without `truncated`, and without `resultType`.
                    "events/subscribe" => {
                        let until = SystemTime::now() + GRANT;
                        let unix = until.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
                        let text =
                            iso_8601(unix.as_secs()).replace('Z', &format!(".{:03}Z", unix.subsec_millis()));
                        let cursor = if params["name"] == "none" { Value::Null } else { json!("c-1") };
                        json!({"id": "sub_1", "refreshBefore": text, "cursor": cursor}).into()
                    }
                    "events/list" => types(&["positions", "none"], "webhook"),
                    _ => json!({}).into(),
                });
                let client = connect!(mock);
                let events = events_client!(&client);
                let listed = run!(events.list()).expect("types");
                assert!(listed.iter().all(|described| described.delivery == [DeliveryMode::Webhook]));
                let receiver = Mutex::new(Receiver::new(Limits::default()));
                let mut config = SubscriptionConfig::default();
                config.time_to_live = Some(ASKED);
                let hook = WebhookOptions::new("https://hooks.example/a?b=c").config(config);
                let mut webhook = events.webhook(name, &json!({"a": 1}), hook, &receiver).expect("room");
                for _ in 0..3 {
                    let event = run!(events.next_of_webhook(&mut webhook, &receiver)).expect("an answer");
                    assert!(matches!(event, Some(SubscriptionEvent::Granted { .. })), "{event:?}");
                }
                webhook.unsubscribe();
                let end = run!(events.next_of_webhook(&mut webhook, &receiver)).expect("an answer");
                assert_eq!(end, Some(SubscriptionEvent::Ended(None)));
                run!(client.close()).expect("closed");

                let asked = mock.asked("events/subscribe", name);
                assert_eq!(asked.len(), 3);
                for pair in asked.windows(2) {
                    assert_eq!(pair[0].1["params"]["ttlMs"], 2_000);
                    assert!(pair[1].0 - pair[0].0 < GRANT, "{:?}", pair[1].0 - pair[0].0);
                    let key = |request: &Value| {
                        ["arguments", "delivery"].map(|part| request["params"][part].clone())
                    };
                    assert_eq!(key(&pair[0].1), key(&pair[1].1), "one key, and one secret");
                }
                let expected = if name == "none" { Value::Null } else { json!("c-1") };
                assert_eq!(cursors(&asked), [Value::Null, expected.clone(), expected]);
                let left = mock.asked("events/unsubscribe", name);
                let target = &left[0].1["params"]["delivery"];
                assert_eq!((left.len(), &target["url"]), (1, &json!("https://hooks.example/a?b=c")));
            })
        });
        clients.into_iter().for_each(|client| client.join().expect("no panic"));
    });
}
