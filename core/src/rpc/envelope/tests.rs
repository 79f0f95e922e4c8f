use super::*;
use alloc::format;
use alloc::string::String;

type ParsedEnvelope = (Kind, String, Option<String>);
type RefusedEnvelope = (MalformedMessage, Option<String>);

fn read(text: &str) -> Result<ParsedEnvelope, RefusedEnvelope> {
    match parse(text.as_bytes(), &Limits::default(), None) {
        Ok(e) => Ok((e.kind, e.method.into(), e.id.map(|i| format!("{i}")))),
        Err(r) => Err((r.reason, r.id.map(|i| format!("{i}")))),
    }
}

fn refused(text: &str) -> RefusedEnvelope {
    read(text).expect_err(text)
}

// covers: BASE-003, BASE-007, BASE-009, BASE-010, BASE-015, BASE-017
#[test]
fn message_kind_follows_from_members() {
    let s = |t: &str| Some(String::from(t));
    let cases = [
        (r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#, (Kind::Request, "a", s("1"))),
        (
            r#"{"id":"x","params":{},"method":"a\/b","jsonrpc":"2\u002e0"}"#,
            (Kind::Request, "a/b", s("\"x\"")),
        ),
        (r#"{"jsonrpc":"2.0","method":"a","params":{"b":[]}}"#, (Kind::Notification, "a", None)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":null}"#, (Kind::Request, "a", s("1"))),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#, (Kind::Response, "", s("1"))),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-1,"message":"m"}}"#,
            (Kind::Response, "", s("1")),
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"extra":1}"#, (Kind::Response, "", s("1"))),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}"#, (Kind::Response, "", s("1"))),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}"#, (Kind::Response, "", None)),
        (r#"{"jsonrpc":"2.0","error":{"code":1.0,"message":"m"}}"#, (Kind::Response, "", None)),
    ];
    for (text, (kind, method, id)) in cases {
        assert_eq!(read(text), Ok((kind, method.into(), id)), "{text}");
    }
}

// covers: BASE-001, BASE-002, BASE-004, BASE-007, BASE-009, BASE-011, BASE-013, ERR-001
#[test]
fn malformed_message_reports_reason_and_id() {
    let s = |t: &str| Some(String::from(t));
    let cases = [
        (r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#, MalformedMessage::Version, s("1")),
        (r#"{"method":"a","id":2}"#, MalformedMessage::Version, s("2")),
        (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, MalformedMessage::Id, None),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, MalformedMessage::Id, None),
        (r#"{"jsonrpc":"2.0","id":true,"method":"a"}"#, MalformedMessage::Id, None),
        (r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#, MalformedMessage::Id, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, MalformedMessage::Method, s("1")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}"#, MalformedMessage::Params, s("1")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":true}"#, MalformedMessage::Params, s("1")),
        (r#"{"jsonrpc":"2.0","id":1}"#, MalformedMessage::Contradictory, s("1")),
        (r#"{"jsonrpc":"2.0"}"#, MalformedMessage::Contradictory, None),
        (r#"{"jsonrpc":"2.0","result":{}}"#, MalformedMessage::Contradictory, None),
        (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, MalformedMessage::Id, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","result":{}}"#, MalformedMessage::Contradictory, s("1")),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
            MalformedMessage::Contradictory,
            s("1"),
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":[]}"#, MalformedMessage::Result, s("1")),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"m"}}"#, MalformedMessage::Error, s("1")),
        (r#"{"jsonrpc":"2.0","id":1,"error":"m"}"#, MalformedMessage::Error, s("1")),
        (r#"{"jsonrpc":"2.0","id":1,"Method":"a","method":"b"}"#, MalformedMessage::WrongCase, s("1")),
        (r#""text""#, MalformedMessage::NotAnObject, None),
        ("[]", MalformedMessage::NotAnObject, None),
        ("[] x", MalformedMessage::Json { at: 3 }, None),
        (r#"{"jsonrpc":"2\u002e1","id":1,"method":"a"}"#, MalformedMessage::Version, s("1")),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":5}}"#, MalformedMessage::Error, s("1")),
        (r#"{"jsonrpc":"2.0","id":null}"#, MalformedMessage::Id, None),
        (
            r#"{"jsonrpc":"2.0","id":null,"result":{},"error":{"code":1,"message":""}}"#,
            MalformedMessage::Id,
            None,
        ),
    ];
    for (text, reason, id) in cases {
        assert_eq!(refused(text), (reason, id), "{text}");
    }
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","\u006dethod":"b"}"#,
        r#"{"jsonrpc":"2.0","id":1,"\u006dethod":"a","\u006dethod":"b"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":1,"x":2}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":1,"\u0078":2}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"x","name":"y"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"x","n\u0061me":"y"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"x","name":"y","x":"z"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{"x":1,"x":2}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"x":1,"x":2}}}"#,
    ] {
        let (reason, id) = refused(text);
        assert!(matches!(reason, MalformedMessage::DuplicateMember { .. }), "{text}");
        assert_eq!(id.as_deref(), Some("1"), "{text}");
    }
    let (reason, id) = refused(r#"{"jsonrpc":"2.0","id":1,"method":"a","id":2}"#);
    assert!(matches!(reason, MalformedMessage::DuplicateMember { .. }) && id.is_none());
}

#[test]
fn member_limit_counts_known_and_unknown_members() {
    let limits = Limits { max_members: 4, ..Limits::default() };
    let of_envelope = |more: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a"{more}}}"#);
    let of_params = |more: &str| of_envelope(&format!(r#","params":{{"name":"n","arguments":{{}}{more}}}"#));
    for (allowed, refused) in [
        (of_envelope(r#","x":1"#), of_envelope(r#","x":1,"y":2"#)),
        (of_envelope(r#","params":{}"#), of_envelope(r#","x":1,"params":{}"#)),
        (of_params(r#","\u0078":1,"y":2"#), of_params(r#","\u0078":1,"y":2,"z":3"#)),
        (of_params(r#","x":1,"y":2"#), of_params(r#","x":1,"y":2,"_meta":{}"#)),
    ] {
        assert!(parse(allowed.as_bytes(), &limits, None).is_ok(), "{allowed}");
        let rejected = parse(refused.as_bytes(), &limits, None).expect_err(&refused);
        assert!(matches!(rejected.reason, MalformedMessage::Members { .. }), "{refused}");
    }
}

// covers: BASE-002, ERR-023
#[test]
fn unreadable_message_yields_unambiguous_id() {
    assert_eq!(
        refused(r#"{"jsonrpc":"2.0","id":1,"method":"ping""#),
        (MalformedMessage::Json { at: 39 }, Some("1".into()))
    );
    assert_eq!(refused("garbage"), (MalformedMessage::Json { at: 0 }, None));
    let deep = format!(r#"{{"jsonrpc":"2.0","params":{}"#, "[".repeat(1_000_000));
    assert!(matches!(refused(&deep), (MalformedMessage::Depth { at: 153 }, None)), "{:?}", refused(&deep));
    let bad = b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"\xff\"}";
    let r = parse(bad, &Limits::default(), None).expect_err("UTF-8");
    assert_eq!((r.reason, r.id), (MalformedMessage::Utf8 { at: 34 }, Some(RequestId::int(9))));
}

#[test]
fn params_spans_point_at_members() {
    let text = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments":{"a":1},"_meta":{"progressToken":5,"io.modelcontextprotocol/protocolVersion":"v","x":{}}}}"#;
    let e = parse(text, &Limits::default(), None).expect("well-formed");
    let get = |s: Span| s.slice(text).map(|b| core::str::from_utf8(b).expect("UTF-8"));
    assert_eq!(get(e.params.name), Some("\"n\""));
    assert_eq!(get(e.params.arguments), Some("{\"a\":1}"));
    assert_eq!(get(e.params.meta.token), Some("5"));
    assert_eq!(get(e.params.meta.version), Some("\"v\""));
    assert_eq!(get(e.params.meta.capabilities), None);
    // The same `_meta` at another position is recognized, and its positions are shifted.
    let at = e.params.meta.whole.start;
    let relative = e.params.meta.shifted(0u32.wrapping_sub(at));
    let known = e.params.meta.whole.slice(text).expect("_meta");
    let text2: Vec<u8> = format!(
        r#" {{"jsonrpc":"2.0","id":2,"method":"t","params":{{"_meta":{}}}}}"#,
        core::str::from_utf8(known).expect("UTF-8")
    )
    .into_bytes();
    let e2 = parse(&text2, &Limits::default(), Some((known, &relative))).expect("well-formed");
    assert!(e2.has_known_meta);
    assert_eq!(e2.params.meta.version.slice(&text2), Some(&b"\"v\""[..]));
}

#[test]
fn result_type_is_found_in_any_spelling() {
    for (name, value) in
        [("resultType", Some("\"x\"")), ("result\\u0054ype", Some("\"x\"")), ("\\u0061", None), ("a", None)]
    {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"{name}":"x","b":1}}}}"#);
        let envelope = parse(text.as_bytes(), &Limits::default(), None).expect("well-formed");
        assert_eq!(envelope.result_type.slice(text.as_bytes()), value.map(str::as_bytes), "{name}");
    }
}

#[test]
fn refused_message_says_what_it_was() {
    // Whether it has a method, is a response, and is a notification.
    for (text, is) in [
        (r#"{"jsonrpc":"2.0","method":"a","params":[1]}"#, (true, false, true)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}"#, (true, false, false)),
        (r#"{"jsonrpc":"1.0","method":"a"}"#, (true, false, false)),
        (r#"{"jsonrpc":"2.0","id":1,"result":[]}"#, (false, true, false)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","result":{}}"#, (true, false, false)),
        // Not JSON, so that only the outline is known.
        (r#"{"method":"a","x":tru}"#, (true, false, true)),
        (r#"{"method":"a","x":tru"#, (true, false, false)),
        (r#"{"id":1,"method":"a","x":tru}"#, (true, false, false)),
        (r#"{"id":1,"result":tru}"#, (false, true, false)),
        (r#"{"id":1,"method":"a","result":tru}"#, (true, false, false)),
    ] {
        let refused = parse(text.as_bytes(), &Limits::default(), None).expect_err(text);
        assert_eq!((refused.has_method, refused.is_response, refused.is_notification), is, "{text}");
    }
}

#[test]
fn message_with_escapes_needs_memory_for_them() {
    let plain = r#"{"jsonrpc":"2.0","id":1,"method":"ab"}"#;
    let escaped = plain.replace("ab", "a\\u0062");
    for (memory_reserve, text, is_refused) in [
        (0, plain, false),
        (0, &escaped, false),
        (1, &escaped, false),
        (usize::MAX, plain, false),
        (usize::MAX, &escaped, true),
    ] {
        let limits = Limits { memory_reserve, ..Limits::default() };
        let refused = parse(text.as_bytes(), &limits, None).err().map(|refused| (refused.reason, refused.id));
        let want = is_refused.then_some((MalformedMessage::OutOfMemory, Some(RequestId::int(1))));
        assert_eq!(refused, want, "{text}, {memory_reserve}");
    }
}
