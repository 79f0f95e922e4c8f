//! What the scenarios of the official suite about servers of events demand, with the codes of both profiles.

use super::stores::{TestDriver, body};
use super::*;
use crate::wire::EventsErrorKind;

const PROFILES: [Profile; 2] = [Profile::SEP, Profile::CHATGPT];
const HOOK: &str = "https://conformance.example/hook";

/// The arguments of a type, with a member of a certain type.
#[derive(serde::Deserialize)]
struct Wanted {
    branch: Option<String>,
}

fn event(name: &str, modes: &[DeliveryMode]) -> Event<Wanted, Value> {
    let (wanted, any) =
        (r#"{"type":"object","properties":{"branch":{"type":"string"}}}"#, r#"{"type":"object"}"#);
    Event::with_schemas(name, raw(wanted), raw(any))
        .description("A build has ended")
        .modes(modes.to_vec())
        .matching(|wanted: &Wanted, build: &Value| {
            wanted.branch.as_ref().is_none_or(|branch| build["branch"] == branch.as_str())
        })
}

fn events(profile: Profile) -> Events {
    let config = SourceConfig { types_per_page: 2, ..SourceConfig::default() };
    let events = Events::with(config, profile).expect("entropy");
    for (name, mode) in
        [("polled", DeliveryMode::Poll), ("pushed", DeliveryMode::Push), ("hooked", DeliveryMode::Webhook)]
    {
        events.add(event(name, &[mode])).expect("a type");
    }
    events
}

/// Checks that an error has the code of the profile, in the range of servers.
fn assert_kind(code: i64, kind: EventsErrorKind, profile: Profile) {
    assert_eq!(code, kind.code(profile.codes));
    assert!((-32_099..=-32_000).contains(&code), "{code}");
}

/// `events-discovery`
// covers: EVT-001, EVT-002, EVT-007, EVT-010, EVT-011
#[test]
fn types_are_declared_and_listed_page_by_page() {
    for profile in PROFILES {
        let events = events(profile);
        let mut harness = Harness::new(&events);
        let discovered = harness.result(1, "server/discover", json!({}));
        let declared = wire::declared(&raw(&discovered["capabilities"].to_string())).expect("declared");
        assert!(declared.list_changed);
        let (mut names, mut cursors) = (Vec::new(), vec![Value::Null]);
        for page in 2.. {
            let params = match &cursors[cursors.len() - 1] {
                Value::Null => json!({}),
                cursor => json!({"cursor": cursor}),
            };
            let list = harness.result(page, wire::LIST, params);
            assert_eq!(list["resultType"], "complete");
            for described in list["events"].as_array().expect("an array") {
                names.push(described["name"].as_str().expect("a name").to_string());
                assert!(described["inputSchema"].is_object() && described["payloadSchema"].is_object());
                assert_eq!(described["description"], "A build has ended");
                assert_eq!(described["delivery"].as_array().expect("modes").len(), 1);
            }
            let next = &list["nextCursor"];
            if next.is_null() {
                break;
            }
            assert!(next.as_str().is_some_and(|text| !text.is_empty()) && !cursors.contains(next), "{next}");
            cursors.push(next.clone());
        }
        names.sort();
        assert_eq!(names, ["hooked", "polled", "pushed"]);
        let (code, _) = harness.error(90, wire::POLL, json!({"name": "conformance-none", "cursor": null}));
        assert_kind(code, EventsErrorKind::NotFound, profile);
    }
}

/// `events-poll`
// covers: EVT-032, EVT-040, EVT-041, EVT-042, EVT-045, EVT-047, EVT-143
#[test]
fn polls_begin_now_and_go_on_from_their_cursor() {
    for profile in PROFILES {
        let events = events(profile);
        let publisher = events.add(event("polled", &[DeliveryMode::Poll])).expect("described anew");
        let mut harness = Harness::new(&events);
        publisher.publish(&json!({"branch": "before"})).expect("published");
        let poll = |more: Value| {
            let mut params = json!({"name": "polled"});
            params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            params
        };
        for (id, more) in
            (1..).zip([json!({"cursor": null}), json!({}), json!({"cursor": null, "maxAgeMs": 300_000})])
        {
            let first = harness.result(id, wire::POLL, poll(more));
            assert_eq!(first["events"], json!([]), "nothing of before");
            assert!(first["cursor"].is_string() && first["nextPollMs"].is_number());
        }
        let first = harness.result(10, wire::POLL, poll(json!({"cursor": null})));
        for number in 0..2 {
            publisher.publish(&json!({"branch": "main", "n": number})).expect("published");
        }
        let one = harness.result(11, wire::POLL, poll(json!({"cursor": first["cursor"], "maxEvents": 1})));
        assert_eq!((one["events"].as_array().map(Vec::len), &one["hasMore"]), (Some(1), &json!(true)));
        let rest =
            harness.result(12, wire::POLL, poll(json!({"cursor": one["cursor"], "maxAgeMs": 300_000})));
        let [one, rest] = [&one["events"][0], &rest["events"][0]];
        for occurrence in [one, rest] {
            assert_eq!(occurrence["name"], "polled");
            assert!(occurrence["eventId"].as_str().is_some_and(|id| !id.is_empty()));
            assert!(occurrence["timestamp"].is_string() && occurrence["data"].is_object());
        }
        assert_ne!(one["eventId"], rest["eventId"]);
        // What is refused.
        let (code, _) = harness.error(20, wire::POLL, json!({"name": "conformance-none"}));
        assert_kind(code, EventsErrorKind::NotFound, profile);
        assert_eq!(harness.error(21, wire::POLL, json!({})).0, -32602);
        assert_eq!(harness.error(22, wire::POLL, poll(json!({"arguments": {"branch": 5}}))).0, -32602);
        let (code, _) = harness.error(23, wire::POLL, json!({"name": "pushed"}));
        assert_kind(code, EventsErrorKind::Unsupported, profile);
    }
}

/// `events-push`
// covers: EVT-050, EVT-051, EVT-052, EVT-056, EVT-057, EVT-060, EVT-061, EVT-063
#[test]
fn streams_are_told_that_they_live_until_they_are_aborted() {
    for profile in PROFILES {
        let events = events(profile);
        // Streams are no calls that are being worked on.
        let mut limits = Limits::default();
        limits.max_live_calls = 1;
        let mut harness = Harness::with(&events, limits);
        let open = json!({"name": "pushed", "cursor": null});
        let sent = harness.request(1, wire::STREAM, open.clone());
        assert_eq!(
            (methods(&sent), &sent[0]["params"]["_meta"][SUBSCRIPTION]),
            (vec![wire::ACTIVE], &json!(1))
        );
        // The longest silence is below 32 s.
        for _ in 0..3 {
            harness.advance(Duration::from_secs(31));
            let beats = harness.sent();
            assert!(!beats.is_empty());
            for beat in &beats {
                assert_eq!(
                    (&beat["method"], &beat["params"]["_meta"][SUBSCRIPTION]),
                    (&json!(wire::HEARTBEAT), &json!(1))
                );
                assert!(beat["params"]["cursor"].is_string());
            }
        }
        for id in 2..5 {
            let sent = harness.request(id, wire::STREAM, open.clone());
            assert_eq!(
                (methods(&sent), &sent[0]["params"]["_meta"][SUBSCRIPTION]),
                (vec![wire::ACTIVE], &json!(id))
            );
        }
        for id in 1..5 {
            harness.feed(
                &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}),
            );
        }
        harness.advance(Duration::from_secs(60));
        assert_eq!((harness.sent(), events.open_streams()), (Vec::new(), 0), "nothing follows an abort");
        let (code, _) = harness.error(9, wire::STREAM, json!({"name": "conformance-none", "cursor": null}));
        assert_kind(code, EventsErrorKind::NotFound, profile);
    }
}

/// `events-webhook`
// covers: EVT-071, EVT-072, EVT-076, EVT-082, EVT-130
#[test]
fn webhooks_are_granted_refused_and_ended_by_their_key() {
    for profile in PROFILES {
        let events = events(profile);
        let driver = TestDriver::new();
        events.webhooks(driver.clone());
        let mut harness = Harness::new(&events);
        let channel = harness.server.pipe.channel();
        let ann = server::Authorization::new(Identity::new("ann"));
        harness.server.engine().set_authorization(channel, Some(ann));
        let params = |url: &str, more: Value| {
            let delivery = json!({"mode": "webhook", "url": url, "secret": SECRET});
            let mut params = json!({"name": "hooked", "delivery": delivery});
            for (name, value) in more.as_object().expect("an object") {
                match name.as_str() {
                    "secret" => params["delivery"]["secret"] = value.clone(),
                    _ => params[name] = value.clone(),
                }
            }
            params
        };
        let mut subscribe = |url: &str, more: Value| {
            let mut sent = harness.request(5, wire::SUBSCRIBE, params(url, more));
            if sent.is_empty() {
                for challenge in driver.due() {
                    assert_eq!(body(&challenge)["type"], "verification");
                    driver.answer(&challenge, 200);
                }
                harness.process();
                sent = harness.sent();
            }
            assert_eq!(sent.len(), 1, "{sent:?}");
            sent.remove(0)
        };
        let granted = subscribe(HOOK, json!({"ttlMs": 3_600_000}));
        let id = granted["result"]["id"].as_str().expect("an id").to_string();
        assert!(granted["result"]["refreshBefore"].is_string(), "{granted}");
        for more in [json!({}), json!({"ttlMs": 1_000}), json!({"ttlMs": 2_592_000_000_u64})] {
            let refreshed = subscribe(HOOK, more);
            assert_eq!(refreshed["result"]["id"], *id, "one key is one subscription");
            assert!(refreshed["result"]["refreshBefore"].is_string());
        }
        let other = subscribe("https://conformance.example/other", json!({}));
        assert_ne!(other["result"]["id"], *id);
        for (url, more) in [
            (HOOK, json!({"secret": null})),
            (HOOK, json!({"secret": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="})),
            (HOOK, json!({"secret": "whsec_AAECAwQFBgc="})),
            ("http://conformance.example/hook", json!({})),
        ] {
            let refused = subscribe(url, more.clone());
            assert_eq!(refused["error"]["code"], -32602, "{url} {more}");
        }
        let unsupported = subscribe(HOOK, json!({"name": "polled"}));
        assert_kind(
            unsupported["error"]["code"].as_i64().expect("a code"),
            EventsErrorKind::Unsupported,
            profile,
        );
        let target = |url: &str| json!({"name": "hooked", "delivery": {"mode": "webhook", "url": url}});
        harness.result(6, wire::UNSUBSCRIBE, target(HOOK));
        // By the SEP, an unknown key is an error.
        let again = harness.request(7, wire::UNSUBSCRIBE, target("https://conformance.example/none"));
        assert_eq!(again[0]["error"].is_object(), !profile.unsubscribe_is_idempotent, "{again:?}");
    }
}

/// `events-discovery`, of a server that declares nothing.
// covers: EVT-005
#[test]
fn server_without_events_knows_no_method_of_them() {
    let mut server = pipe::Server::new(Arc::new(Config::new("test", "1")), Instant::ZERO);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    });
    for method in [wire::LIST, wire::POLL, wire::STREAM, wire::SUBSCRIBE, wire::UNSUBSCRIBE] {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}});
        server.handle_input(Instant::ZERO, format!("{request}\n").as_bytes());
        assert!(server.poll_event(Instant::ZERO).is_none());
        let output = server.transmit().to_vec();
        server.consume(output.len());
        let answer: Value = serde_json::from_slice(&output).expect("one line");
        assert_eq!(answer["error"]["code"], -32601, "{method}");
    }
}
