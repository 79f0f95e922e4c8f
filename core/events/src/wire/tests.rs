use alloc::format;
use alloc::string::ToString as _;
use core::fmt::Debug;

use mcp_proto::Capabilities;
use serde::de::DeserializeOwned;

use super::*;

/// Reads and writes a message of the page; what is written has the same value, with every member known.
fn assert_round_trip<T: DeserializeOwned + Serialize + PartialEq + Debug>(text: &'static str) -> T {
    let raw = RawJson::new(text).expect("JSON");
    let value: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let written = RawJson::encode(&value).expect("JSON");
    assert!(written.has_value_of(&raw), "{written} instead of {text}");
    assert!(!format!("{value:?}").contains("x-unknown"), "no member is unknown");
    let more = format!(r#"{},"x-unknown":[1]}}"#, text.strip_suffix('}').expect("an object"));
    let kept =
        RawJson::encode(&serde_json::from_str::<T>(&more).expect("unknown members pass")).expect("JSON");
    assert!(kept.as_str().contains(r#""x-unknown":[1]"#), "{kept}");
    value
}

/// Does the same for parameters, which borrow.
fn assert_params<'a, T: Deserialize<'a> + Serialize + PartialEq + Debug>(text: &'a str) -> T {
    let value: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let written = RawJson::encode(&value).expect("JSON");
    assert!(
        written.has_value_of(&RawJson::new(text.to_string()).expect("JSON")),
        "{written} instead of {text}"
    );
    value
}

// covers: EVT-010, EVT-011, EVT-012
#[test]
fn types_are_listed() {
    let page: ListEventsResult = assert_round_trip(
        r#"{"resultType":"complete","events":[{"name":"build.finished","description":"A CI build ended",
        "delivery":["poll","push","webhook"],"inputSchema":{"type":"object"},"payloadSchema":{"type":"object"},"_meta":{}}],
        "nextCursor":"n"}"#,
    );
    assert_eq!(page.events[0].delivery, [DeliveryMode::Poll, DeliveryMode::Push, DeliveryMode::Webhook]);
    // As the mocks of the conformance suite.
    let bare: EventType = assert_round_trip(r#"{"name":"a","delivery":["poll","fax"],"inputSchema":true}"#);
    assert_eq!((bare.payload_schema, bare.delivery[1].as_str()), (None, "fax"));
    let params: ListEventsParams = assert_round_trip(r#"{"cursor":"n","_meta":{}}"#);
    assert_eq!(params.cursor.as_deref(), Some("n"));
}

// covers: EVT-030, EVT-140
#[test]
fn occurrences_have_an_optional_nullable_cursor() {
    let text = r#"{"eventId":"evt-7001","name":"build.finished","timestamp":"2026-11-25T10:00:00Z","data":{"ok":true},"cursor":"c-42","_meta":{}}"#;
    let event: EventOccurrence = assert_round_trip(text);
    assert_eq!(Nullable::text(event.cursor.as_ref()), Some("c-42"));
    for (member, cursor) in [("", None), (r#","cursor":null"#, Some(Nullable(None)))] {
        let text = format!(r#"{{"eventId":"e","name":"n","timestamp":"t","data":{{}}{member}}}"#);
        let event: EventOccurrence = serde_json::from_str(&text).expect("an occurrence");
        assert_eq!(RawJson::encode(&event).expect("JSON").as_str(), text);
        assert_eq!(Nullable::text(event.cursor.as_ref()), None);
        assert_eq!(event.cursor, cursor);
    }
    for (text, why) in [
        (r#"{"name":"n","timestamp":"t","data":{}}"#, "missing field `eventId`"),
        (r#"{"eventId":"e","timestamp":"t","data":{}}"#, "missing field `name`"),
        (r#"{"eventId":"e","name":"n","data":{}}"#, "missing field `timestamp`"),
        (r#"{"eventId":"e","name":"n","timestamp":"t"}"#, "missing field `data`"),
        (r#"{"eventId":"e","name":"n","timestamp":"t","data":[]}"#, "`data`: not a JSON object"),
        (
            r#"{"eventId":"e","eventId":"f","name":"n","timestamp":"t","data":{}}"#,
            "duplicate field `eventId`",
        ),
    ] {
        let error = serde_json::from_str::<EventOccurrence>(text).expect_err(text).to_string();
        assert!(error.contains(why), "{error}");
    }
}

// covers: EVT-040, EVT-042, EVT-043
#[test]
fn polls_are_read_leniently() {
    let params: PollEventsParams<'_> = assert_params(
        r#"{"name":"build.finished","arguments":{"branch":"main"},"cursor":"c-41","maxAgeMs":600000,"maxEvents":20,"_meta":{}}"#,
    );
    assert_eq!((params.max_events, params.max_age_ms), (Some(20), Some(600_000)));
    let params: PollEventsParams<'_> =
        serde_json::from_str(r#"{"name":"n","cursor":null}"#).expect("parameters");
    assert_eq!((params.cursor, params.arguments), (None, None));
    assert!(serde_json::from_str::<PollEventsParams<'_>>(r#"{"name":"n","maxEvents":-1}"#).is_err());
    assert!(serde_json::from_str::<PollEventsParams<'_>>(r#"{"arguments":{}}"#).is_err());
    let result: PollEventsResult = assert_round_trip(
        r#"{"resultType":"complete","events":[],"cursor":"c-42","truncated":false,"hasMore":false,"nextPollMs":30000,"_meta":{}}"#,
    );
    assert_eq!(result.next_poll_ms, Some(30_000.0));
    for (text, delay) in [
        (r#"{"events":[]}"#, None),
        (r#"{"events":[],"nextPollMs":"NaN"}"#, None),
        (r#"{"events":[],"nextPollMs":-1}"#, Some(-1.0)),
        (r#"{"events":[],"nextPollMs":1e308}"#, Some(1e308)),
    ] {
        let result: PollEventsResult = serde_json::from_str(text).expect(text);
        assert_eq!((result.next_poll_ms, result.truncated), (delay, None), "{text}");
    }
    assert!(serde_json::from_str::<PollEventsResult>("{}").is_err(), "an array that was left out");
}

// covers: EVT-051, EVT-052, EVT-054, EVT-056
#[test]
fn messages_of_streams_round_trip() {
    let params: StreamEventsParams<'_> =
        assert_params(r#"{"name":"n","arguments":{},"cursor":"c","maxAgeMs":1,"_meta":{}}"#);
    assert_eq!(params.name, "n");
    let active: StreamActiveParams = assert_round_trip(
        r#"{"cursor":"c-42","truncated":true,"_meta":{"io.modelcontextprotocol/subscriptionId":"s-9"}}"#,
    );
    assert_eq!(active.truncated, Some(true));
    let _: StreamHeartbeatParams = assert_round_trip(r#"{"cursor":null,"_meta":{}}"#);
    let error: StreamErrorParams =
        assert_round_trip(r#"{"error":{"code":-32603,"message":"upstream 503","data":[]},"_meta":{}}"#);
    assert_eq!(error.error.code, -32603);
}

// covers: EVT-072, EVT-075, EVT-080, EVT-082, EVT-083
#[test]
fn subscriptions_round_trip() {
    const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let text = format!(
        r#"{{"name":"n","arguments":{{"limit":5}},"delivery":{{"mode":"webhook","url":"https://h/p?token=t0ken","secret":"{SECRET}"}},"cursor":"c","maxAgeMs":1,"ttlMs":3600000,"_meta":{{}}}}"#
    );
    let params: SubscribeEventsParams<'_> = assert_params(&text);
    assert_eq!(params.ttl_ms, Some(Nullable(Some(Millis(3_600_000)))));
    assert_eq!(params.delivery.url, "https://h/p?token=t0ken".into());
    let debug = format!("{params:?} {:?}", WebhookTarget::new(params.delivery.url.clone().0));
    assert!(!debug.contains("AAEC") && !debug.contains("t0ken") && debug.contains("https://h/p"), "{debug}");
    for (ttl, expected) in [
        ("", None),
        (r#","ttlMs":null"#, Some(Nullable(None))),
        (r#","ttlMs":0"#, Some(Nullable(Some(Millis(0))))),
        (r#","ttlMs":-5"#, Some(Nullable(Some(Millis(0))))),
        (r#","ttlMs":1.5"#, Some(Nullable(Some(Millis(1))))),
        (r#","ttlMs":1e300"#, Some(Nullable(Some(Millis(u64::MAX))))),
    ] {
        let text = format!(r#"{{"name":"n","delivery":{{"url":"u","secret":"{SECRET}"}}{ttl}}}"#);
        let params: SubscribeEventsParams<'_> = serde_json::from_str(&text).expect("parameters");
        assert_eq!((params.ttl_ms, params.delivery.mode), (expected, None), "{ttl}");
    }
    for (delivery, why) in [
        (r#"{"url":"u"}"#, "missing field `secret`"),
        (
            r#"{"url":"u","secret":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}"#,
            "does not begin with `whsec_`",
        ),
        (r#"{"url":"u","secret":"whsec_AAECAwQFBgc="}"#, "8 bytes instead of 24 to 64"),
    ] {
        let text = format!(r#"{{"name":"n","delivery":{delivery}}}"#);
        let error = serde_json::from_str::<SubscribeEventsParams<'_>>(&text).expect_err(delivery).to_string();
        assert!(error.contains(why) && error.contains("delivery") && !error.contains("AAEC"), "{error}");
    }
    let result: SubscribeEventsResult = assert_round_trip(
        r#"{"resultType":"complete","id":"sub_1","refreshBefore":"2026-11-25T11:00:00Z","cursor":"c-42","truncated":false,
        "deliveryStatus":{"active":false,"lastDeliveryAt":null,"lastError":"http_5xx","failedSince":"2026-11-25T10:00:00Z",
        "throttled":true,"retryAfterMs":5000},"_meta":{}}"#,
    );
    let status = result.delivery_status.expect("a status");
    assert_eq!(status.last_error, Some(Nullable(Some(CallbackFailure::Http5xx))));
    let forever: SubscribeEventsResult = assert_round_trip(r#"{"id":"sub_1","refreshBefore":null}"#);
    assert_eq!((forever.refresh_before, forever.truncated), (Nullable(None), None));
    assert_eq!(
        RawJson::encode(&SubscribeEventsResult::new("i", None).cursor(None).truncated(false))
            .expect("JSON")
            .as_str(),
        r#"{"id":"i","refreshBefore":null,"cursor":null,"truncated":false}"#
    );
    let _: UnsubscribeEventsParams<'_> = assert_params(
        r#"{"name":"n","arguments":{},"delivery":{"mode":"webhook","url":"https://h/"},"_meta":{}}"#,
    );
}

// covers: EVT-034, EVT-103, EVT-104
#[test]
fn bodies_of_webhooks_are_told_apart_by_their_type() {
    let read = |text: &'static str| Envelope::read(&RawJson::new(text).expect("JSON"));
    let event = read(r#"{"eventId":"e","name":"n","timestamp":"t","data":{"type":"gap"}}"#);
    assert!(matches!(event, Ok(Envelope::Event(_))), "{event:?}");
    let gap = read(r#"{"type":"gap","cursor":"c-90"}"#).expect("an envelope");
    assert_eq!(gap, Envelope::Gap(GapEnvelope::new().cursor("c-90")));
    assert_eq!(read(r#"{"type":"gap"}"#).expect("an envelope"), Envelope::Gap(GapEnvelope::new()), "EVT-140");
    let text = r#"{"type":"terminated","error":{"code":-32024,"message":"Forbidden","data":{"reason":"access revoked"}}}"#;
    match read(text) {
        Ok(Envelope::Terminated(end)) => {
            assert_eq!(EventsErrorKind::of_code(end.error.code), Some(EventsErrorKind::Forbidden));
            assert_eq!(RawJson::encode(&end).expect("JSON").as_str(), text);
        }
        other => panic!("{other:?}"),
    }
    let challenge = read(r#"{"type":"verification","challenge":"n0nce-A1"}"#).expect("an envelope");
    assert_eq!(challenge, Envelope::Verification(VerificationEnvelope::new("n0nce-A1")));
    for unknown in [r#"{"type":"later"}"#, r#"{"type":1}"#] {
        assert_eq!(read(unknown).expect("an envelope"), Envelope::Unknown, "{unknown}");
    }
    for wrong in ["{}", "[]", r#"{"type":"gap","cursor":1}"#, r#"{"type":"verification","challenge":1}"#] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

// covers: EVT-021, EVT-047, EVT-101, EVT-115, EVT-130
#[test]
fn errors_have_the_codes_of_their_profile() {
    let error = |error: &EventsError, profile| {
        let rpc = error.to_rpc(&profile);
        format!("{} {} {}", rpc.code, rpc.message, rpc.data.as_ref().map_or("-", |data| data.as_str()))
    };
    for (value, sep, chatgpt, rest) in [
        (EventsError::InvalidParams("`name` is missing".into()), -32602, -32602, "`name` is missing -"),
        (EventsError::EventNotFound, -32023, -32011, r#"NotFound {"kind":"event"}"#),
        (EventsError::SubscriptionNotFound, -32023, -32011, r#"NotFound {"kind":"subscription"}"#),
        (
            EventsError::Forbidden("no principal".into()),
            -32024,
            -32012,
            r#"Forbidden {"reason":"no principal"}"#,
        ),
        (
            EventsError::ResourceExhausted { limit: "subscriptions", max: 5 },
            -32025,
            -32013,
            r#"ResourceExhausted {"limit":"subscriptions","max":5}"#,
        ),
        (
            EventsError::UnsupportedMode(DeliveryMode::Push),
            -32026,
            -32014,
            r#"Unsupported {"feature":"deliveryMode","value":"push"}"#,
        ),
        (
            EventsError::SchemaChanged { feature: "inputSchema" },
            -32026,
            -32014,
            r#"Unsupported {"feature":"inputSchema","reason":"schema_changed"}"#,
        ),
        (
            EventsError::CallbackEndpoint(CallbackFailure::ChallengeFailed),
            -32027,
            -32015,
            r#"CallbackEndpointError {"reason":"challenge_failed"}"#,
        ),
        (EventsError::Internal("upstream 503".into()), -32603, -32603, "upstream 503 -"),
    ] {
        assert_eq!(error(&value, Profile::SEP), format!("{sep} {rest}"));
        assert_eq!(error(&value, Profile::CHATGPT), format!("{chatgpt} {rest}"));
        for code in [sep, chatgpt] {
            assert_eq!(EventsErrorKind::of_code(code), Some(value.kind()));
        }
    }
    for other in [-32601, -32022, -32028, -32016, -32010, 0] {
        assert_eq!(EventsErrorKind::of_code(other), None, "{other}");
    }
}

// covers: EVT-001, EVT-002, EVT-004
#[test]
fn events_are_declared_in_both_places_and_found_in_either() {
    let found =
        |text: &'static str| declared(&RawJson::new(text).expect("JSON")).map(|events| events.list_changed);
    for (text, expected) in [
        (r#"{"extensions":{"io.modelcontextprotocol/events":{}}}"#, Some(false)),
        (r#"{"extensions":{"io.modelcontextprotocol/events":{"listChanged":true}}}"#, Some(true)),
        (r#"{"extensions":{"io.modelcontextprotocol/events":{"listChanged":"true"}}}"#, Some(false)),
        (r#"{"events":{}}"#, Some(false)),
        (r#"{"events":true}"#, Some(false)),
        (r#"{"events":{"listChanged":true},"extensions":{"io.modelcontextprotocol/events":{}}}"#, Some(true)),
        (r#"{"events":{},"extensions":{"io.modelcontextprotocol/events":{"listChanged":true}}}"#, Some(true)),
        (r#"{"extensions":{"io.modelcontextprotocol/events":true}}"#, None),
        (r#"{"events":false}"#, None),
        (r#"{"events":null,"extensions":[]}"#, None),
        (r#"{"tools":{}}"#, None),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
    let events = EventsCapability::new().list_changed(true);
    for profile in [Profile::SEP, Profile::CHATGPT] {
        let capabilities = profile.declare(Capabilities::new(), events);
        let settings =
            capabilities.extensions().find(|(id, _)| *id == EXTENSION).map(|(_, settings)| settings.as_str());
        assert_eq!(settings, Some(r#"{"listChanged":true}"#));
        // There is no other view of a member that is not part of the protocol.
        let shown = format!("{capabilities:?}");
        assert!(shown.contains(r#"("events", {"listChanged":true}, V2026_07_28)"#), "{shown}");
        let of_legacy = r#"("events", {}, V2024_11_05)"#;
        assert_eq!(shown.contains(of_legacy), profile.is_legacy_allowed, "{shown}");
    }
    let quiet = Profile::SEP.declare(Capabilities::new(), EventsCapability::new());
    assert!(quiet.extensions().any(|(id, settings)| id == EXTENSION && settings.as_str() == "{}"));
    let none = Profile { declares_extension: false, declares_member: false, ..Profile::SEP };
    assert_eq!(none.declare(Capabilities::new(), events), Capabilities::new());
}
