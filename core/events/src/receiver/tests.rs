use alloc::format;
use alloc::string::ToString as _;
use alloc::vec;

use super::*;
use crate::webhook::sign;

const NOW: u64 = 1_795_600_800;
const EVENT: &str =
    r#"{"eventId":"e1","name":"n","timestamp":"2026-11-25T10:00:00Z","data":{},"cursor":"c-1"}"#;
const GAP: &str = r#"{"type":"gap","cursor":"c-90"}"#;
const END: &str = r#"{"type":"terminated","error":{"code":-32024,"message":"Forbidden"}}"#;
const CHALLENGE: &str = r#"{"type":"verification","challenge":"n0nce-A1"}"#;

fn secret(byte: u8) -> Secret {
    Secret::from_entropy([byte; 32])
}

/// A receiver with a bound registration of `secret(1)`.
fn bound() -> (Receiver, RegistrationKey) {
    let mut receiver = Receiver::new(Limits::default());
    let key = receiver.register(secret(1)).expect("room");
    receiver.bind(key, "sub_1").expect("a free id");
    (receiver, key)
}

struct Post<'a> {
    secrets: Vec<Secret>,
    id: &'a str,
    at: u64,
    subscription: &'a str,
    body: &'a str,
}

fn post(body: &str) -> Post<'_> {
    Post { secrets: vec![secret(1)], id: "m1", at: NOW, subscription: "sub_1", body }
}

impl Post<'_> {
    fn to(&self, receiver: &mut Receiver) -> Outcome {
        self.at(receiver, NOW)
    }

    fn at(&self, receiver: &mut Receiver, unix_secs: u64) -> Outcome {
        let signature = sign(&self.secrets, self.id, self.at, self.body.as_bytes());
        let time = self.at.to_string();
        let fields = [
            ("content-type", b"application/json; charset=utf-8".as_slice()),
            ("Webhook-Id", self.id.as_bytes()),
            ("webhook-timestamp", time.as_bytes()),
            ("webhook-signature", signature.as_bytes()),
            ("x-mcp-subscription-id", self.subscription.as_bytes()),
        ];
        receiver.receive(&Request { method: "POST", fields: &fields, body: self.body.as_bytes() }, unix_secs)
    }
}

#[track_caller]
fn refused(outcome: Outcome) -> u16 {
    match outcome {
        Outcome::Refused { status, reason } => {
            assert!(!reason.to_string().is_empty());
            status
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn receipt(outcome: Outcome) -> Receipt {
    match outcome {
        Outcome::Event { receipt, .. }
        | Outcome::Gap { receipt, .. }
        | Outcome::Terminated { receipt, .. } => receipt,
        other => panic!("{other:?}"),
    }
}

fn acknowledged() -> Outcome {
    Outcome::Acknowledged(Answer::empty(204))
}

// covers: EVT-122, EVT-123, EVT-125
#[test]
fn an_event_counts_as_seen_when_it_is_kept() {
    let (mut receiver, key) = bound();
    let first = post(EVENT).to(&mut receiver);
    match &first {
        Outcome::Event { subscription, event, .. } => {
            assert_eq!((*subscription, &*event.event_id), (key, "e1"));
            assert_eq!(crate::wire::Nullable::text(event.cursor.as_ref()), Some("c-1"));
        }
        other => panic!("{other:?}"),
    }
    // While it is being kept, a repetition is neither lost nor forwarded.
    assert_eq!(refused(post(EVENT).to(&mut receiver)), 503);
    assert_eq!(receiver.confirm(receipt(first), false).status, 503);
    let again = post(EVENT).to(&mut receiver);
    assert_eq!(receiver.confirm(receipt(again), true), Answer::empty(204));
    // The same bytes; and the same event in a new message with a new time.
    assert_eq!(post(EVENT).to(&mut receiver), acknowledged());
    assert_eq!(Post { id: "m2", at: NOW + 7, ..post(EVENT) }.to(&mut receiver), acknowledged());
    // Also when the clock has jumped back between them.
    assert_eq!(post(EVENT).at(&mut receiver, NOW - 200), acknowledged());
    // Another event under the same message id, as a server that uses one id for all would send.
    let other = EVENT.replace("e1", "e2");
    assert!(matches!(post(&other).to(&mut receiver), Outcome::Event { .. }));
    // An event and a control envelope never share a digest.
    let gap = Post { id: "e1", ..post(GAP) }.to(&mut receiver);
    assert!(matches!(gap, Outcome::Gap { .. }), "{gap:?}");
}

// covers: EVT-122
#[test]
fn an_event_of_two_subscriptions_comes_to_both() {
    let (mut receiver, first) = bound();
    let second = receiver.register(secret(2)).expect("room");
    receiver.bind(second, "sub_2").expect("a free id");
    let one = post(EVENT).to(&mut receiver);
    let two = Post { secrets: vec![secret(2)], subscription: "sub_2", ..post(EVENT) }.to(&mut receiver);
    for (outcome, key) in [(one, first), (two, second)] {
        assert!(
            matches!(&outcome, Outcome::Event { subscription, .. } if *subscription == key),
            "{outcome:?}"
        );
        assert_eq!(receiver.confirm(receipt(outcome), true).status, 204);
    }
    // The secret of one does not open the other.
    let crossed = Post { secrets: vec![secret(2)], ..post(EVENT) }.to(&mut receiver);
    assert_eq!(refused(crossed), 401);
}

// covers: EVT-103, EVT-104, EVT-125, EVT-153
#[test]
fn control_envelopes_are_forwarded_once() {
    let (mut receiver, key) = bound();
    let gap = post(GAP).to(&mut receiver);
    assert!(matches!(&gap, Outcome::Gap { cursor: Some(cursor), .. } if cursor == "c-90"), "{gap:?}");
    assert_eq!(receiver.confirm(receipt(gap), true).status, 204);
    assert_eq!(post(GAP).to(&mut receiver), acknowledged());
    // A second gap is another message.
    let gap = Post { id: "m2", ..post(GAP) }.to(&mut receiver);
    assert_eq!(receiver.confirm(receipt(gap), true).status, 204);
    assert_eq!(Post { id: "m3", ..post(r#"{"type":"later"}"#) }.to(&mut receiver), acknowledged());

    let end = Post { id: "m4", ..post(END) }.to(&mut receiver);
    assert!(matches!(&end, Outcome::Terminated { error, .. } if error.code == -32024), "{end:?}");
    // Until it is kept, the subscription lives.
    assert!(matches!(post(EVENT).to(&mut receiver), Outcome::Event { .. }));
    assert_eq!(receiver.confirm(receipt(end), true).status, 204);
    let late = EVENT.replace("e1", "e9");
    assert_eq!(refused(post(&late).to(&mut receiver)), 410);
    // A new subscription with the same key revives it.
    receiver.set_expiry(key, Some(NOW + 10)).expect("it is there");
    assert!(matches!(post(&late).to(&mut receiver), Outcome::Event { .. }));
    assert_eq!(refused(Post { at: NOW + 10, ..post(&late) }.at(&mut receiver, NOW + 10)), 410);
}

// covers: EVT-114, EVT-124, EVT-126
#[test]
fn a_challenge_binds_the_id_of_the_secret_that_fits() {
    let mut receiver = Receiver::new(Limits::default());
    let first = receiver.register(secret(1)).expect("room");
    let second = receiver.register(secret(2)).expect("room");
    let challenge = || Post { secrets: vec![secret(2)], ..post(CHALLENGE) };
    // Events come before the id is known.
    let early = Post { secrets: vec![secret(2)], ..post(EVENT) };
    assert_eq!(refused(early.to(&mut receiver)), 503);
    assert_eq!(refused(Post { secrets: vec![secret(9)], ..post(EVENT) }.to(&mut receiver)), 503);
    assert_eq!(refused(Post { secrets: vec![secret(9)], ..post(CHALLENGE) }.to(&mut receiver)), 401);
    assert_eq!(refused(challenge().at(&mut receiver, NOW + 301)), 400);
    let long = format!("{CHALLENGE}{}", " ".repeat(MAX_CHALLENGE));
    assert_eq!(refused(Post { body: &long, ..challenge() }.to(&mut receiver)), 503);
    assert_eq!(receiver.id(second), None);
    let answer = Answer { status: 200, body: r#"{"challenge":"n0nce-A1"}"#.into() };
    let echo = Outcome::Challenge { subscription: second, answer };
    assert_eq!(challenge().to(&mut receiver), echo);
    assert_eq!((receiver.id(first), receiver.id(second)), (None, Some("sub_1")));
    // Also a registration with an id echoes; it is not forwarded.
    assert_eq!(challenge().to(&mut receiver), echo);
    assert!(matches!(early.to(&mut receiver), Outcome::Event { .. }));
    // The result of `events/subscribe` decides about the id.
    receiver.bind(second, "sub_2").expect("a free id");
    assert_eq!(refused(early.to(&mut receiver)), 503);
    assert_eq!(receiver.bind(first, "sub_2"), Ok(()));
    receiver.remove(second);
    assert_eq!(receiver.bind(second, "sub_3"), Err(ReceiverError::Stale));
    // A nonce is text, whatever is in it.
    let quoted =
        Post { subscription: "sub_2", ..post(r#"{"type":"verification","challenge":"a\"b\u0000"}"#) };
    match quoted.to(&mut receiver) {
        Outcome::Challenge { answer, .. } => assert_eq!(answer.body, r#"{"challenge":"a\"b\u0000"}"#),
        other => panic!("{other:?}"),
    }
}

// covers: EVT-076, EVT-126
#[test]
fn an_id_of_two_servers_opens_both() {
    let mut receiver = Receiver::new(Limits::default());
    let [first, second] = [1, 2].map(|byte| receiver.register(secret(byte)).expect("room"));
    let by = |byte: u8, body| Post { secrets: vec![secret(byte)], ..post(body) };
    // The first server claims the id; the second one has the same principal, name, URL and arguments.
    for (byte, key) in [(1, first), (2, second), (1, first)] {
        let outcome = by(byte, CHALLENGE).to(&mut receiver);
        assert!(
            matches!(&outcome, Outcome::Challenge { subscription, .. } if *subscription == key),
            "{outcome:?}"
        );
    }
    for (byte, key) in [(1, first), (2, second)] {
        assert_eq!(receiver.bind(key, "sub_1"), Ok(()));
        let outcome = by(byte, EVENT).to(&mut receiver);
        assert!(
            matches!(&outcome, Outcome::Event { subscription, .. } if *subscription == key),
            "{outcome:?}"
        );
    }
    // A stranger is refused as with one registration, and events of one that is not bound yet have to wait.
    let third = receiver.register(secret(3)).expect("room");
    assert_eq!(refused(by(9, EVENT).to(&mut receiver)), 401);
    assert_eq!(refused(by(9, CHALLENGE).to(&mut receiver)), 401);
    assert_eq!(refused(by(3, EVENT).to(&mut receiver)), 503);
    receiver.remove(first);
    assert_eq!(refused(by(1, EVENT).to(&mut receiver)), 401);
    assert_eq!(refused(by(2, EVENT).to(&mut receiver)), 503, "it is being confirmed");
    receiver.remove(second);
    assert!(receiver.by_id.is_empty() && receiver.id(third).is_none());
}

// covers: EVT-094
#[test]
fn older_secrets_are_accepted_until_the_server_has_the_newest() {
    let (mut receiver, key) = bound();
    let takes = |receiver: &mut Receiver, byte: u8, at: u64| {
        let body = EVENT.replace("e1", &format!("{byte}-{at}"));
        let outcome = Post { secrets: vec![secret(byte)], at, ..post(&body) }.at(receiver, at);
        matches!(outcome, Outcome::Event { .. })
    };
    // The refresh fails, and is tried with the same secret, and with others.
    for byte in [2, 2, 3] {
        receiver.rotate(key, secret(byte), NOW).expect("it is there");
    }
    let late = NOW + 86_400;
    assert_eq!([1, 2, 9].map(|byte| takes(&mut receiver, byte, late)), [true, true, false]);
    // The grace begins.
    assert!(takes(&mut receiver, 3, late + 1));
    assert_eq!([1, 2, 3].map(|byte| takes(&mut receiver, byte, late + 901)), [true; 3]);
    assert_eq!([1, 2, 3].map(|byte| takes(&mut receiver, byte, late + 902)), [false, false, true]);
    // The same one again does not begin another.
    receiver.rotate(key, secret(3), late + 903).expect("it is there");
    assert_eq!([1, 2].map(|byte| takes(&mut receiver, byte, late + 903)), [false; 2]);
    // Three older ones at most.
    for byte in 4..=7 {
        receiver.rotate(key, secret(byte), late + 904).expect("it is there");
    }
    let taken = [3, 4, 5, 6, 7].map(|byte| takes(&mut receiver, byte, late + 904));
    assert_eq!(taken, [false, true, true, true, true]);
}

// covers: EVT-153
#[test]
fn a_late_confirmation_does_not_end_a_revived_subscription() {
    let (mut receiver, key) = bound();
    let end = receipt(post(END).to(&mut receiver));
    receiver.set_expiry(key, Some(NOW + 3_600)).expect("it is there");
    assert_eq!(receiver.confirm(end, true).status, 204);
    assert!(matches!(post(EVENT).to(&mut receiver), Outcome::Event { .. }));
}

// covers: EVT-081
#[test]
fn expiry_is_that_of_the_clock_of_the_server() {
    let (mut receiver, key) = bound();
    receiver.set_expiry(key, Some(NOW + 60)).expect("it is there");
    // The clock of the receiver is two minutes ahead.
    assert!(matches!(
        Post { at: NOW + 59, ..post(EVENT) }.at(&mut receiver, NOW + 179),
        Outcome::Event { .. }
    ));
    assert_eq!(refused(Post { at: NOW + 60, ..post(EVENT) }.at(&mut receiver, NOW - 60)), 410);
}

// covers: EVT-124
#[test]
fn nothing_is_refused_for_good_while_a_grant_is_expected() {
    let (mut receiver, key) = bound();
    receiver.set_expiry(key, Some(NOW - 60)).expect("it is there");
    assert_eq!(refused(post(EVENT).to(&mut receiver)), 410);
    // The server may deliver before its answer arrives.
    receiver.expect_grant(key).expect("it is there");
    assert_eq!(refused(post(EVENT).to(&mut receiver)), 503);
    receiver.set_expiry(key, Some(NOW + 60)).expect("it is there");
    assert!(matches!(post(EVENT).to(&mut receiver), Outcome::Event { .. }));
    receiver.set_expiry(key, Some(NOW - 60)).expect("it is there");
    assert_eq!(refused(post(EVENT).to(&mut receiver)), 410);
}

// covers: EVT-140
#[test]
fn a_gap_without_a_cursor_is_one() {
    let (mut receiver, _) = bound();
    for (id, body) in [("m1", r#"{"type":"gap"}"#), ("m2", r#"{"type":"gap","cursor":null}"#)] {
        let gap = Post { id, ..post(body) }.to(&mut receiver);
        assert!(matches!(gap, Outcome::Gap { cursor: None, .. }), "{gap:?}");
    }
}

// covers: EVT-094, EVT-121, EVT-128
#[test]
fn both_secrets_are_accepted_for_a_while() {
    let (mut receiver, key) = bound();
    receiver.rotate(key, secret(2), NOW).expect("it is there");
    let by = |receiver: &mut Receiver, secrets: &[u8], at: u64, event: &str| {
        let body = EVENT.replace("e1", event);
        let secrets = secrets.iter().map(|byte| secret(*byte)).collect();
        Post { secrets, at, ..post(&body) }.at(receiver, at)
    };
    for (secrets, at, event) in [
        (&[1][..], NOW, "a"),
        (&[2], NOW, "b"),
        (&[1, 2], NOW, "c"),
        (&[9, 2], NOW + 900, "d"),
        (&[1], NOW + 900, "e"),
    ] {
        let outcome = by(&mut receiver, secrets, at, event);
        assert!(matches!(outcome, Outcome::Event { .. }), "{event}: {outcome:?}");
    }
    assert_eq!(refused(by(&mut receiver, &[1], NOW + 901, "f")), 401);
    assert!(matches!(by(&mut receiver, &[2], NOW + 901, "f"), Outcome::Event { .. }));
    // Back to the first one.
    receiver.rotate(key, secret(1), NOW + 902).expect("it is there");
    assert!(matches!(by(&mut receiver, &[1], NOW + 903, "g"), Outcome::Event { .. }));
    for at in [NOW - 301, NOW + 301] {
        assert_eq!(refused(Post { at, ..post(EVENT) }.to(&mut receiver)), 400);
    }
}

// covers: EVT-090, EVT-120, EVT-127
#[test]
fn requests_that_are_no_deliveries_are_refused() {
    let (mut receiver, _) = bound();
    let signature = sign([&secret(1)], "m1", NOW, EVENT.as_bytes());
    let time = NOW.to_string();
    let good: Vec<FieldLine<'_>> = vec![
        ("Content-Type", b"application/json"),
        ("webhook-id", b"m1"),
        ("webhook-timestamp", time.as_bytes()),
        ("webhook-signature", signature.as_bytes()),
        ("X-MCP-Subscription-Id", b"sub_1"),
    ];
    let mut send = |method: &str, fields: &[FieldLine<'_>], body: &[u8]| {
        refused(receiver.receive(&Request { method, fields, body }, NOW))
    };
    assert_eq!(send("GET", &good, EVENT.as_bytes()), 405);
    for (at, (name, value)) in good.iter().enumerate() {
        let status = if at == 0 { 415 } else { 400 };
        let without = [&good[..at], &good[at + 1..]].concat();
        assert_eq!(send("POST", &without, EVENT.as_bytes()), status, "without {name}");
        let twice = [&good[..], &[(*name, *value)]].concat();
        assert_eq!(send("POST", &twice, EVENT.as_bytes()), status, "{name} twice");
        let mut changed = good.clone();
        changed[at].1 = b"\xff";
        assert_eq!(send("POST", &changed, EVENT.as_bytes()), status, "{name} of another alphabet");
    }
    let mut text = good.clone();
    text[0].1 = b"text/plain";
    assert_eq!(send("POST", &text, EVENT.as_bytes()), 415);
    // A byte of the body: nothing is parsed before the signature fits.
    for body in [&b"{"[..], b"", &EVENT.as_bytes()[1..], b"{\"eventId\":\"e1\",\"eventId\":\"e2\"}"] {
        assert_eq!(send("POST", &good, body), 401);
    }
    assert_eq!(send("POST", &good, &vec![b' '; MAX_BODY + 1]), 413);
    assert_eq!(send("POST", &good, &vec![b' '; MAX_BODY]), 401);
    // Signed, and no message.
    for body in [
        "",
        "[]",
        "{}",
        "\u{feff}{}",
        r#"{"type":"gap","cursor":1}"#,
        r#"{"eventId":"","name":"n","timestamp":"t","data":{}}"#,
        r#"{"eventId":"e","eventId":"e","name":"n","timestamp":"t","data":{}}"#,
    ] {
        assert_eq!(refused(post(body).to(&mut receiver)), 400, "{body}");
    }
    assert!(matches!(post(EVENT).to(&mut receiver), Outcome::Event { .. }));
}

#[test]
fn every_table_has_a_bound() {
    let limits = Limits { registrations: 1, remembered: 3, unconfirmed: 2, ..Limits::default() };
    let mut receiver = Receiver::new(limits);
    let key = receiver.register(secret(1)).expect("room");
    assert_eq!(receiver.register(secret(2)), Err(ReceiverError::Full));
    receiver.bind(key, "sub_1").expect("a free id");
    let send = |receiver: &mut Receiver, event: &str, at: u64| {
        let body = EVENT.replace("e1", event);
        Post { at, ..post(&body) }.at(receiver, at)
    };
    let (a, b) = (send(&mut receiver, "a", NOW), send(&mut receiver, "b", NOW + 1));
    assert_eq!(refused(send(&mut receiver, "c", NOW + 2)), 503);
    // Nobody confirms: they count as not kept after a minute, and a late confirmation is as good as another.
    let again = send(&mut receiver, "a", NOW + 60);
    assert_eq!(receiver.confirm(receipt(again), true).status, 204);
    assert_eq!(receiver.confirm(receipt(a), true).status, 204);
    assert_eq!(receiver.confirm(receipt(b), true).status, 204);
    for event in ["c", "d"] {
        let outcome = send(&mut receiver, event, NOW + 61);
        assert_eq!(receiver.confirm(receipt(outcome), true).status, 204);
    }
    // `a` was forgotten, `b` was not.
    assert_eq!(send(&mut receiver, "b", NOW + 62), acknowledged());
    let forgotten = send(&mut receiver, "a", NOW + 62);
    receiver.remove(key);
    assert_eq!(receiver.confirm(receipt(forgotten), true).status, 410);
    assert!(!format!("{receiver:?}").contains("sub_1"));
}
