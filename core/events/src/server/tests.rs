use alloc::format;
use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use mcp_proto::pipe::{self, Pipe as _};
use mcp_proto::server::{self, Identity};
use mcp_proto::{Anchor, Limits, RawJson, Version};
use mcp_runtime::server::{Attachments, Dispatcher, StorePlace};
use serde_json::{Value, json};

use super::event_loop::RETRY_INTERVAL;
use super::*;
use crate::source::LogLimits;
use crate::wire::DeliveryMode;

/// A loop on virtual time, whose client is the test.
struct TestLoop {
    pipe: pipe::Server,
    now: Instant,
}

impl ServerLoop for TestLoop {
    fn engine(&mut self) -> &mut server::Engine {
        self.pipe.engine()
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn tick(&mut self) -> Instant {
        self.now
    }
}

struct Harness {
    server: TestLoop,
    /// Keeps the commands of the loop open.
    dispatcher: Dispatcher,
    extension: Box<dyn LoopExtension>,
    /// Output that is not a whole line yet.
    rest: Vec<u8>,
}

impl Harness {
    fn new(events: &Events) -> Self {
        Self::with(events, Limits::default())
    }

    fn with(events: &Events, limits: Limits) -> Self {
        let config = events.configure(Config::new("test", "1").limits(limits));
        let now = Instant::ZERO + Duration::from_secs(1_000);
        let mut server = TestLoop { pipe: pipe::Server::new(Arc::new(config), now), now };
        let dispatcher = Dispatcher::new(1);
        let extension = events.join(&mut server, dispatcher.commands());
        Self { server, dispatcher, extension, rest: Vec::new() }
    }

    fn feed(&mut self, message: &Value) {
        let now = self.server.now;
        self.server.pipe.handle_input(now, format!("{message}\n").as_bytes());
        self.process();
    }

    fn process(&mut self) {
        let now = self.server.now;
        while let Some(event) = self.server.pipe.poll_event(now) {
            let is_end = matches!(event, server::Event::Closed { .. } | server::Event::SessionOpened { .. });
            assert!(self.extension.handle_event(&mut self.server, &event) || is_end, "{event:?}");
        }
        while self.extension.drive(&mut self.server) {}
    }

    /// Passes virtual time, with the deadlines of the extension.
    fn advance(&mut self, time: Duration) {
        let until = self.server.now + time;
        loop {
            let next = self.extension.next_deadline().filter(|at| *at <= until);
            self.server.now = next.unwrap_or(until).max(self.server.now);
            let now = self.server.now;
            self.server.pipe.handle_timeout(now);
            self.process();
            if next.is_none() {
                return;
            }
        }
    }

    /// Takes everything that was sent.
    fn sent(&mut self) -> Vec<Value> {
        while !self.server.pipe.transmit().is_empty() {
            let output = self.server.pipe.transmit().to_vec();
            self.server.pipe.consume(output.len());
            self.rest.extend(output);
        }
        let end = self.rest.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..end).collect();
        let lines = String::from_utf8(lines).expect("text");
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    fn request(&mut self, id: u32, method: &str, params: Value) -> Vec<Value> {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        });
        self.feed(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.sent()
    }

    fn result(&mut self, id: u32, method: &str, params: Value) -> Value {
        let sent = self.request(id, method, params);
        assert_eq!((sent.len(), &sent[0]["id"]), (1, &json!(id)), "{sent:?}");
        sent[0]["result"].clone()
    }

    fn error(&mut self, id: u32, method: &str, params: Value) -> (i64, Value) {
        let sent = self.request(id, method, params);
        assert_eq!((sent.len(), &sent[0]["id"]), (1, &json!(id)), "{sent:?}");
        (sent[0]["error"]["code"].as_i64().expect("an error"), sent[0]["error"]["data"].clone())
    }
}

fn raw(text: &str) -> RawJson {
    RawJson::new(text.to_string()).expect("JSON")
}

fn build() -> Event<Value, Value> {
    Event::with_schemas("build", raw(r#"{"type":"object"}"#), raw(r#"{"type":"object"}"#)).matching(
        |wanted: &Value, build: &Value| wanted["branch"].is_null() || wanted["branch"] == build["branch"],
    )
}

fn built(publisher: &Publisher<Value>, number: u32, branch: &str) {
    publisher
        .publish_as(format!("evt-{number}"), std::time::UNIX_EPOCH, &json!({"branch": branch, "n": number}))
        .expect("published");
}

fn methods(sent: &[Value]) -> Vec<&str> {
    sent.iter().map(|m| m["method"].as_str().unwrap_or("-")).collect()
}

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

// covers: EVT-001, EVT-010, EVT-011, EVT-041, EVT-042, EVT-047
#[test]
fn list_and_poll_are_answered_on_the_loop() {
    let events = Events::new().expect("entropy");
    let publisher =
        events.add(build().description("A build has ended").modes([DeliveryMode::Poll])).expect("a type");
    let mut harness = Harness::new(&events);
    let discovered = harness.result(1, "server/discover", json!({}));
    assert_eq!(discovered["capabilities"]["events"], json!({"listChanged": true}));
    let list = harness.result(2, wire::LIST, json!({}));
    assert_eq!(list["events"][0]["name"], "build");
    assert_eq!(list["events"][0]["delivery"], json!(["poll"]));
    assert_eq!(list["resultType"], "complete");
    let first = harness.result(3, wire::POLL, json!({"name": "build", "arguments": {"branch": "main"}}));
    assert_eq!(first["events"], json!([]));
    for (n, branch) in [(1, "main"), (2, "side"), (3, "main")] {
        built(&publisher, n, branch);
    }
    let params = json!({"name": "build", "arguments": {"branch": "main"}, "cursor": first["cursor"]});
    let polled = harness.result(4, wire::POLL, params);
    let ids: Vec<&Value> =
        polled["events"].as_array().expect("events").iter().map(|e| &e["eventId"]).collect();
    assert_eq!(ids, ["evt-1", "evt-3"]);
    assert_eq!(polled["events"][0]["timestamp"], "1970-01-01T00:00:00Z");
    // What is refused: the type, the mode, the cursor, the arguments, the parameters.
    assert_eq!(harness.error(5, wire::POLL, json!({"name": "none"})).0, -32023);
    let (code, data) = harness.error(6, wire::STREAM, json!({"name": "build"}));
    assert_eq!((code, &data["value"]), (-32026, &json!("push")));
    assert_eq!(harness.error(7, wire::POLL, json!({"name": "build", "cursor": "x"})).0, -32602);
    assert_eq!(harness.error(8, wire::POLL, json!({"name": "build", "arguments": []})).0, -32602);
    assert_eq!(harness.error(9, wire::POLL, json!({})).0, -32602);
    let delivery = json!({"mode": "webhook", "url": "https://h.example/", "secret": SECRET});
    let (code, data) = harness.error(10, wire::SUBSCRIBE, json!({"name": "build", "delivery": delivery}));
    assert_eq!((code, &data["value"]), (-32026, &json!("webhook")));
}

// covers: EVT-050, EVT-051, EVT-052, EVT-054, EVT-056, EVT-057, EVT-059
#[test]
fn stream_has_its_messages_and_ends_with_its_result() {
    let events = Events::new().expect("entropy");
    let publisher = events.add(build()).expect("a type");
    let mut harness = Harness::new(&events);
    let sent = harness.request(7, wire::STREAM, json!({"name": "build", "arguments": {"branch": "main"}}));
    assert_eq!(methods(&sent), [wire::ACTIVE]);
    assert_eq!(sent[0]["params"]["_meta"][SUBSCRIPTION], 7);
    assert_eq!(sent[0]["params"]["truncated"], false);
    let mut event =
        EventOccurrence::new("evt-0", "build", "2026-11-25T10:00:00Z", raw(r#"{"branch":"main"}"#));
    event.meta = Some(raw(r#"{"com.example/n":1,"io.modelcontextprotocol/subscriptionId":"forged"}"#));
    events.publish(&event).expect("published");
    built(&publisher, 1, "side");
    built(&publisher, 2, "main");
    harness.process();
    let sent = harness.sent();
    assert_eq!(methods(&sent), [wire::EVENT, wire::EVENT]);
    assert_eq!(sent[0]["params"]["_meta"], json!({SUBSCRIPTION: 7, "com.example/n": 1}));
    assert_eq!(sent[1]["params"]["eventId"], "evt-2");
    // While it is silent, it lives.
    harness.advance(Duration::from_secs(35));
    let sent = harness.sent();
    assert_eq!(methods(&sent), [wire::HEARTBEAT; 3]);
    let cursor = &sent[2]["params"]["cursor"];
    // Another one resumes where this one is.
    built(&publisher, 3, "main");
    let sent = harness.request(8, wire::STREAM, json!({"name": "build", "cursor": cursor}));
    let of = |id: u32| sent.iter().filter(move |m| m["params"]["_meta"][SUBSCRIPTION] == id).count();
    assert_eq!((of(7), of(8)), (1, 2), "{sent:?}");
    // Its client cancels one: nothing follows. The other one ends because the type is removed.
    harness.feed(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}));
    assert_eq!(events.open_streams(), 1);
    assert!(events.remove("build", &EventsError::EventNotFound));
    harness.process();
    let sent = harness.sent();
    assert_eq!(methods(&sent), [wire::TERMINATED, "-"]);
    assert_eq!(sent[0]["params"]["error"]["code"], -32023);
    assert_eq!((&sent[1]["id"], &sent[1]["result"]["_meta"][SUBSCRIPTION]), (&json!(8), &json!(8)));
    assert_eq!((events.open_streams(), harness.extension.next_deadline()), (0, None));
    assert_eq!(publisher.publish(&json!({})), Err(PublishError::Removed));
}

// covers: EVT-053, EVT-055
#[test]
fn full_outbox_delays_messages_and_loses_none() {
    let events = Events::new().expect("entropy");
    let publisher =
        events.add(build().log(LogLimits { events: 40, ..LogLimits::default() })).expect("a type");
    let mut limits = Limits::default();
    limits.outbox_high_water = 2_000;
    let mut harness = Harness::with(&events, limits);
    harness.request(1, wire::STREAM, json!({"name": "build"}));
    (0..30).for_each(|n| built(&publisher, n, "main"));
    // The client does not read: the loop waits, without turning.
    harness.process();
    let held = harness.extension.next_deadline().expect("a deadline");
    assert_eq!(held, harness.server.now + RETRY_INTERVAL);
    let mut seen = Vec::new();
    for _ in 0..60 {
        seen.extend(harness.sent());
        harness.advance(RETRY_INTERVAL);
    }
    let ids = seen.iter().filter(|m| m["method"] == wire::EVENT).map(|m| m["params"]["eventId"].to_string());
    assert_eq!(ids.collect::<Vec<_>>(), (0..30).map(|n| format!("\"evt-{n}\"")).collect::<Vec<_>>());
    // One that falls behind the log is told so.
    (30..100).for_each(|n| built(&publisher, n, "main"));
    let mut seen = Vec::new();
    for _ in 0..60 {
        harness.advance(RETRY_INTERVAL);
        seen.extend(harness.sent());
    }
    let gap = seen.iter().position(|m| m["method"] == wire::ACTIVE).expect("a gap");
    assert_eq!(seen[gap]["params"]["truncated"], true);
    assert_eq!(seen.last().expect("messages")["params"]["eventId"], "evt-99");
}

// covers: EVT-054, EVT-055
#[test]
fn errors_and_gaps_are_told_on_streams_that_go_on() {
    let events = Events::new().expect("entropy");
    let publisher = events.add(build()).expect("a type");
    let mut harness = Harness::new(&events);
    harness.request(7, wire::STREAM, json!({"name": "build"}));
    publisher.report_error(&EventsError::Internal("upstream 503".into())).expect("reported");
    publisher.report_gap().expect("reported");
    built(&publisher, 1, "main");
    harness.process();
    let sent = harness.sent();
    assert_eq!(methods(&sent), [wire::ERROR, wire::ACTIVE, wire::EVENT]);
    assert_eq!(sent[0]["params"]["error"], json!({"code": -32603, "message": "upstream 503"}));
    assert_eq!(sent[0]["params"]["_meta"][SUBSCRIPTION], 7);
    assert_eq!(sent[1]["params"]["truncated"], true);
    assert!(events.remove("build", &EventsError::EventNotFound));
    assert_eq!(publisher.report_gap(), Err(PublishError::Removed));
    assert_eq!(publisher.report_error(&EventsError::EventNotFound), Err(PublishError::Removed));
}

// covers: EVT-008, EVT-162
#[test]
fn access_is_checked_for_each_subscription() {
    let events = Events::new().expect("entropy");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    events
        .add(build().visible_to(|caller| caller.principal() == Some("ann")).authorize(move |arguments, _| {
            count.fetch_add(1, Ordering::SeqCst);
            match arguments["branch"].as_str() {
                Some("secret") => Err(EventsError::Forbidden("not yours".into())),
                Some("panic") => panic!("a bug of the application"),
                _ => Ok(()),
            }
        }))
        .expect("a type");
    let mut harness = Harness::new(&events);
    let channel = harness.server.pipe.channel();
    assert_eq!(harness.result(1, wire::LIST, json!({}))["events"], json!([]));
    assert_eq!(harness.error(2, wire::STREAM, json!({"name": "build"})).0, -32023);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    let ann = server::Authorization::new(Identity::new("ann"));
    harness.server.engine().set_authorization(channel, Some(ann));
    assert_eq!(harness.result(3, wire::LIST, json!({}))["events"][0]["name"], "build");
    let arguments = |branch| json!({"name": "build", "arguments": {"branch": branch}});
    let (code, data) = harness.error(4, wire::STREAM, arguments("secret"));
    assert_eq!((code, &data["reason"]), (-32024, &json!("not yours")));
    assert_eq!(harness.error(5, wire::POLL, arguments("panic")).0, -32603);
    assert_eq!(methods(&harness.request(6, wire::STREAM, arguments("main"))), [wire::ACTIVE]);
    // Access is lost while the stream is open.
    assert_eq!(events.terminate(|_, _| None), 0);
    let lost = |_: &str, principal: Option<&str>| {
        (principal == Some("ann")).then(|| EventsError::Forbidden("left the team".into()))
    };
    assert_eq!(events.terminate(lost), 1);
    harness.process();
    let sent = harness.sent();
    assert_eq!(
        (methods(&sent), &sent[0]["params"]["error"]["code"]),
        (vec![wire::TERMINATED, "-"], &json!(-32024))
    );
}

// covers: EVT-002, EVT-008, EVT-012
#[test]
fn revisions_with_handshake_have_what_the_profile_says() {
    for (profile, code) in [(Profile::SEP, Some(-32601)), (Profile::CHATGPT, None)] {
        let events = Events::with(SourceConfig::default(), profile).expect("entropy");
        events.add(build()).expect("a type");
        events.add(Event::new("streamed", raw("{}"), raw("{}")).modes([DeliveryMode::Push])).expect("a type");
        let mut harness = Harness::new(&events);
        harness.feed(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": Version::V2025_11_25.to_string(), "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}}}));
        harness.feed(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let opened = harness.sent();
        // What is declared is there, and works.
        let declared = &opened[0]["result"]["capabilities"];
        let expected = if code.is_none() { json!({}) } else { Value::Null };
        assert_eq!([&declared["events"], &declared["extensions"][wire::EXTENSION]], [&expected, &expected]);
        let mut ask = |method: &str| {
            let params = json!({"name": "build"});
            harness.feed(&json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params}));
            harness.sent()[0].clone()
        };
        let listed = ask(wire::LIST);
        assert_eq!(listed["error"]["code"].as_i64(), code);
        if code.is_none() {
            let shown = listed["result"]["events"].as_array().expect("a list");
            let shown = shown.iter().map(|e| (&e["name"], &e["delivery"])).collect::<Vec<_>>();
            assert_eq!(shown, [(&json!("build"), &json!(["poll"]))]);
        }
        assert_eq!(ask(wire::POLL)["error"]["code"].as_i64(), code);
        assert_eq!(ask(wire::STREAM)["error"]["code"], -32601);
        // Others see it all.
        let mut modern = Harness::new(&events);
        let discovered = modern.result(1, "server/discover", json!({}));
        assert_eq!(discovered["capabilities"]["extensions"][wire::EXTENSION], json!({"listChanged": true}));
        let listed = modern.result(2, wire::LIST, json!({}));
        assert_eq!(listed["events"][0]["delivery"], json!(["poll", "push"]));
        assert_eq!(listed["events"].as_array().map(Vec::len), Some(2));
    }
}

// covers: EVT-021, EVT-047
#[test]
fn each_caller_has_the_profile_that_the_application_chooses() {
    let events = Events::new().expect("entropy");
    events.add(build()).expect("a type");
    events.profile_for(|caller| match caller.principal() {
        Some("chatgpt") => Profile::CHATGPT,
        Some("panic") => panic!("a bug of the application"),
        _ => Profile::SEP,
    });
    for (principal, not_found) in [("ann", -32023), ("chatgpt", -32011), ("panic", -32023)] {
        let mut harness = Harness::new(&events);
        let channel = harness.server.pipe.channel();
        let party = server::Authorization::new(Identity::new(principal));
        harness.server.engine().set_authorization(channel, Some(party));
        for method in [wire::POLL, wire::STREAM] {
            assert_eq!(harness.error(1, method, json!({"name": "none"})).0, not_found, "{principal}");
        }
        let target = json!({"name": "build", "delivery": {"url": "https://h.example/", "secret": SECRET}});
        let unsupported = harness.error(2, wire::SUBSCRIBE, target.clone()).0;
        assert_eq!(unsupported, not_found - 3, "{principal}");
        assert_eq!(harness.error(3, wire::UNSUBSCRIBE, target).0, not_found, "{principal}");
        // A stream keeps it to its end.
        harness.request(4, wire::STREAM, json!({"name": "build"}));
        events.terminate(|_, _| Some(EventsError::EventNotFound));
        harness.process();
        assert_eq!(harness.sent()[0]["params"]["error"]["code"], not_found, "{principal}");
    }
}

// covers: EVT-059, EVT-060
#[test]
fn streams_end_with_the_server_and_with_their_client() {
    let events = Events::new().expect("entropy");
    let publisher = events.add(build()).expect("a type");
    let mut harness = Harness::new(&events);
    harness.request(1, wire::STREAM, json!({"name": "build"}));
    let now = harness.server.now;
    harness.server.pipe.shutdown(now, Duration::from_secs(5));
    harness.process();
    harness.process();
    let sent = harness.sent();
    assert_eq!((&sent[0]["id"], &sent[0]["result"]["_meta"][SUBSCRIPTION]), (&json!(1), &json!(1)));
    assert!(harness.server.pipe.is_drained(), "the grace period is not waited for");
    // The client leaves.
    let mut harness = Harness::new(&events);
    harness.request(1, wire::STREAM, json!({"name": "build"}));
    harness.server.pipe.handle_eof(harness.server.now);
    harness.process();
    assert_eq!(events.open_streams(), 0);
    assert!(harness.server.pipe.is_drained());
    // The loop ends with its streams.
    let mut harness = Harness::new(&events);
    harness.request(1, wire::STREAM, json!({"name": "build"}));
    assert_eq!(events.open_streams(), 1);
    drop(harness);
    assert_eq!(events.open_streams(), 0);
    publisher.publish(&json!({})).expect("nobody hears it");
}

#[test]
fn loops_are_woken_once_and_only_for_their_streams() {
    let events = Events::new().expect("entropy");
    let publisher = events.add(build()).expect("a type");
    let [mut busy, mut idle] = [(); 2].map(|()| Harness::new(&events));
    busy.request(1, wire::STREAM, json!({"name": "build", "arguments": {"branch": "main"}}));
    let count = |harness: &mut Harness| {
        let mut commands = 0;
        // A command that does nothing is all that wakes a loop.
        while harness.dispatcher.process_messages(&mut harness.server, &mut |_, _| ()) {
            commands += 1;
        }
        commands
    };
    assert_eq!((count(&mut busy), count(&mut idle)), (0, 0));
    (0..5).for_each(|n| built(&publisher, n, "main"));
    assert_eq!((count(&mut busy), count(&mut idle)), (1, 0));
    busy.process();
    assert_eq!(busy.sent().len(), 5);
    built(&publisher, 5, "main");
    assert_eq!((count(&mut busy), count(&mut idle)), (1, 0));
}

#[test]
fn payloads_and_ids_are_checked() {
    let events = Events::new().expect("entropy");
    let publisher: Publisher<Value> = events.add(build()).expect("a type");
    assert_eq!(publisher.publish(&json!(1)), Err(PublishError::Payload(EncodeError::NotAnObject)));
    let now = std::time::SystemTime::now();
    let mut event = EventOccurrence::new("evt", "build", "2026-11-25T10:00:00Z", raw("7"));
    assert!(matches!(events.publish(&event), Err(PublishError::Payload(_))));
    (event.data, event.meta) = (raw("{}"), Some(raw("[]")));
    assert!(matches!(events.publish(&event), Err(PublishError::Payload(_))));
    for id in [String::new(), "x".repeat(257), "evt 1".into(), "\u{e9}".into()] {
        assert_eq!(publisher.publish_as(id, now, &json!({})), Err(PublishError::EventId));
    }
    let mut harness = Harness::new(&events);
    let cursor = harness.result(1, wire::POLL, json!({"name": "build"}))["cursor"].clone();
    publisher.publish(&json!({})).expect("published");
    publisher.publish(&json!({})).expect("published");
    let polled = harness.result(2, wire::POLL, json!({"name": "build", "cursor": cursor}));
    let ids: Vec<&str> = (0..2).map(|n| polled["events"][n]["eventId"].as_str().expect("an id")).collect();
    assert!(ids[0] != ids[1] && ids[0].len() == 36, "{ids:?}");
}

// covers: EVT-011, EVT-012
#[test]
fn types_that_clients_would_not_read_are_refused() {
    let events = Events::new().expect("entropy");
    let of = |name: &str| Event::new(name, raw("{}"), raw("{}"));
    let longest = "n".repeat(wire::MAX_NAME);
    for (name, length) in [("", 0), (&*format!("{longest}n"), 257)] {
        assert_eq!(events.add(of(name)).expect_err("a name"), AddEventError::Name { length });
    }
    events.add(of(&longest)).expect("a type");
    let modes = |modes: &[DeliveryMode]| events.add(of("build").modes(modes.to_vec())).map(drop);
    for wrong in [
        &[][..],
        &[DeliveryMode::Poll, DeliveryMode::Push, DeliveryMode::Poll],
        &[DeliveryMode::Poll, DeliveryMode::Other("fax".into())],
    ] {
        assert!(matches!(modes(wrong), Err(AddEventError::Modes { .. })), "{wrong:?}");
    }
    for (schemas, member) in [(["true", "{}"], "inputSchema"), (["{}", "[]"], "payloadSchema")] {
        let event = Event::new("build", raw(schemas[0]), raw(schemas[1]));
        let expected = AddEventError::Schema { name: "build".into(), member };
        assert_eq!(events.add(event).expect_err("a schema"), expected);
    }
    // Nothing of these is there; nor does a refused description change one that is.
    let mut harness = Harness::new(&events);
    assert_eq!(harness.result(1, wire::LIST, json!({}))["events"].as_array().map(Vec::len), Some(1));
    modes(&[DeliveryMode::Webhook]).expect("a type");
    modes(&[]).expect_err("modes");
    let listed = harness.result(2, wire::LIST, json!({}));
    assert_eq!(listed["events"][0]["delivery"], json!(["webhook"]));
}

// covers: EVT-020, EVT-022
#[test]
fn publisher_of_a_removed_type_publishes_nothing_into_its_successor() {
    let events = Events::new().expect("entropy");
    let old = events.add(build()).expect("a type");
    // Described anew, it is the same type.
    let same = events.add(build().description("more")).expect("a type");
    built(&old, 1, "main");
    built(&same, 2, "main");
    events.remove("build", &EventsError::SchemaChanged { feature: "payloadSchema" });
    assert_eq!(old.publish(&json!({})), Err(PublishError::Removed));
    let new = events.add(build()).expect("a type");
    for stale in [&old, &same] {
        assert_eq!(stale.publish(&json!({})), Err(PublishError::Removed));
        assert_eq!(stale.report_gap(), Err(PublishError::Removed));
    }
    built(&new, 3, "main");
    let event = EventOccurrence::new("evt", "build", "2026-11-25T10:00:00Z", raw("{}"));
    events.publish(&event).expect("by its name alone");
    assert_eq!(events.publish(&EventOccurrence { name: "none".into(), ..event }), Err(PublishError::Removed));
}

// covers: EVT-001
#[test]
fn events_that_are_added_twice_are_there_once() {
    let events = Events::new().expect("entropy");
    let others = Events::new().expect("entropy");
    assert!(events.identity().is_some() && events.identity() != others.identity());
    let attachments = Attachments::default()
        .with_extension(Arc::new(events.clone()))
        .with_extension(Arc::new(events.clone()));
    let mut harness = Harness::new(&others);
    let Harness { dispatcher, server, .. } = &mut harness;
    attachments.install(dispatcher, server, Anchor::default(), StorePlace::Inline).expect("no tasks");
    assert_eq!(events.0.lock().loops.len(), 1);
}

// covers: EVT-162
#[test]
fn each_principal_gets_what_is_its_own_and_a_check_before_a_loss_counts_no_more() {
    let events = Events::new().expect("entropy");
    let (revoking, allowed) = (events.clone(), Arc::new(AtomicUsize::new(2)));
    let is_allowed = allowed.clone();
    let mail = Event::<Value, Value>::with_schemas("mail", raw(r#"{"type":"object"}"#), raw("{}"))
        .matching_for(|principal, _, mail| mail["to"].as_str() == principal)
        // While the second one is decided about, access is lost.
        .authorize(move |_, _| match is_allowed.load(Ordering::SeqCst) {
            2 => Ok(()),
            1 => {
                is_allowed.store(0, Ordering::SeqCst);
                revoking.terminate(|_, _| None);
                Ok(())
            }
            _ => Err(EventsError::Forbidden("left".into())),
        });
    let publisher = events.add(mail).expect("a type");
    let mut harness = Harness::new(&events);
    let channel = harness.server.pipe.channel();
    let ann = server::Authorization::new(Identity::new("ann"));
    harness.server.engine().set_authorization(channel, Some(ann));
    harness.request(1, wire::STREAM, json!({"name": "mail"}));
    publisher.publish(&json!({"to": "bob"})).expect("published");
    publisher.publish(&json!({"to": "ann"})).expect("published");
    harness.process();
    let sent = harness.sent();
    assert_eq!((sent.len(), &sent[0]["params"]["data"]["to"]), (1, &json!("ann")));
    allowed.store(1, Ordering::SeqCst);
    assert_eq!(harness.error(2, wire::STREAM, json!({"name": "mail"})).0, -32024);
    assert_eq!(events.open_streams(), 1);
}

// covers: EVT-060
#[test]
fn nothing_follows_a_cancellation_that_waits_behind_a_handler() {
    let events = Events::new().expect("entropy");
    let publisher = events.add(build()).expect("a type");
    let mut harness = Harness::new(&events);
    harness.request(1, wire::STREAM, json!({"name": "build"}));
    let now = harness.server.now;
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    harness.server.pipe.handle_input(now, format!("{cancelled}\n").as_bytes());
    // A loop whose handler runs has the event, and has not handed it on.
    let event = harness.server.pipe.poll_event(now).expect("the cancellation");
    built(&publisher, 1, "main");
    while harness.extension.drive(&mut harness.server) {}
    assert_eq!(harness.sent(), [Value::Null; 0]);
    harness.extension.handle_event(&mut harness.server, &event);
    assert_eq!((events.open_streams(), harness.extension.next_deadline()), (0, None));
}

// covers: EVT-016, EVT-017, EVT-018
#[test]
fn changes_of_the_list_reach_their_subscribers() {
    let events = Events::new().expect("entropy");
    let mut harness = Harness::new(&events);
    let filter = json!({"notifications": {"eventsListChanged": true, "toolsListChanged": true}});
    let sent = harness.request(1, "subscriptions/listen", filter);
    assert_eq!(sent[0]["params"]["notifications"], json!({"eventsListChanged": true}));
    let discovered = harness.result(2, "server/discover", json!({}));
    assert_eq!(discovered["capabilities"]["extensions"][wire::EXTENSION], json!({"listChanged": true}));
    let announced = |harness: &mut Harness| {
        while harness.dispatcher.process_messages(&mut harness.server, &mut |_, _| ()) {}
        let sent = harness.sent();
        methods(&sent).iter().map(|method| (*method).to_string()).collect::<Vec<_>>()
    };
    events.add(build()).expect("a type");
    assert_eq!(announced(&mut harness), [wire::LIST_CHANGED]);
    assert!(events.remove("build", &EventsError::EventNotFound));
    assert!(!events.remove("build", &EventsError::EventNotFound));
    assert_eq!(announced(&mut harness), [wire::LIST_CHANGED]);
}

mod access;
mod scenarios;
mod schemas;
mod stores;
#[cfg(feature = "post")]
mod webhooks;
mod year;

#[cfg(feature = "schemars")]
mod typed {
    use super::*;
    use mcp_proto::router::schema::schemars;

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Branch {
        branch: String,
    }

    /// A build has ended.
    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    struct Build {
        branch: String,
        number: u32,
    }

    // covers: EVT-011, EVT-033
    #[test]
    fn schemas_come_from_types() {
        let events = Events::new().expect("entropy");
        let publisher = events
            .add(
                Event::<Branch, Build>::typed("build")
                    .matching(|wanted, build| wanted.branch == build.branch),
            )
            .expect("a type");
        events.add(Event::<(), Build>::typed("any")).expect("a type");
        let mut harness = Harness::new(&events);
        let list = harness.result(1, wire::LIST, json!({}));
        let [any, build] = [&list["events"][0], &list["events"][1]];
        assert_eq!(build["description"], "A build has ended.");
        assert_eq!(build["inputSchema"]["required"], json!(["branch"]));
        assert_eq!(build["payloadSchema"]["properties"]["number"]["type"], "integer");
        assert_eq!(any["inputSchema"]["additionalProperties"], false);
        assert_eq!(harness.error(2, wire::STREAM, json!({"name": "build"})).0, -32602);
        harness.request(3, wire::STREAM, json!({"name": "build", "arguments": {"branch": "main"}}));
        publisher.publish(&Build { branch: "side".into(), number: 1 }).expect("published");
        publisher.publish(&Build { branch: "main".into(), number: 2 }).expect("published");
        harness.process();
        let sent = harness.sent();
        assert_eq!((sent.len(), &sent[0]["params"]["data"]["number"]), (1, &json!(2)));
        // `()` takes an empty object.
        assert_eq!(methods(&harness.request(4, wire::STREAM, json!({"name": "any"}))), [wire::ACTIVE]);
    }
}
