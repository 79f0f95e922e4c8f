use super::*;
use crate::model::{
    CreateMessageParams, CreateMessageResult, ElicitFormParams, ElicitSchema, ElicitValue, InputRequests,
    NumberSchema, Role, Root, SamplingContent, SamplingMessage, StopReason, StringSchema, Tool,
    ToolUseContent,
};
use crate::rpc::RpcError;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

fn raw(text: impl Into<String>) -> RawJson {
    RawJson::new(text.into()).expect("JSON")
}

fn form() -> InputRequest<'static> {
    let schema = ElicitSchema::default()
        .field("boat", StringSchema::new())
        .optional("nights", NumberSchema::integer().minimum(1));
    InputRequest::Elicit(ElicitParams::form("How long?", schema))
}

fn page() -> InputRequest<'static> {
    InputRequest::Elicit(ElicitParams::url("Pay", "https://x.example/pay"))
}

#[expect(deprecated, reason = "tested until its removal")]
fn sampling() -> InputRequest<'static> {
    InputRequest::CreateMessage(CreateMessageParams::new([SamplingMessage::user("hi")], 9u32))
}

#[expect(deprecated, reason = "tested until its removal")]
fn sampling_with_tools() -> InputRequest<'static> {
    let InputRequest::CreateMessage(params) = sampling() else { unreachable!() };
    InputRequest::CreateMessage(params.tools([Tool::new("t", raw(r#"{"type":"object"}"#))]))
}

#[expect(deprecated, reason = "tested until its removal")]
const ROOTS: InputRequest<'static> = InputRequest::ListRoots(None);

/// Returns the error for a response; the kind alone gives the same error if `by_kind`.
fn check_error(request: &InputRequest<'_>, answer: &str, by_kind: bool) -> String {
    let answer = raw(answer);
    let mismatch = request.parse_response(&answer).expect_err(answer.as_str());
    let kind = InputResponse::parse(request.method().expect("a method"), &answer);
    assert_eq!(kind.err().as_ref() == Some(&mismatch), by_kind, "{answer}: {mismatch}");
    assert_eq!(RpcError::from(mismatch.clone()).code, -32602);
    mismatch.to_string()
}

fn assert_fits(request: &InputRequest<'_>, answers: &[&str]) {
    for answer in answers {
        let raw = raw(*answer);
        let read = request.parse_response(&raw).unwrap_or_else(|mismatch| panic!("{answer}: {mismatch}"));
        assert_eq!(request.check_response(&read), Ok(()), "{answer}");
        assert_eq!(InputResponse::parse(request.method().expect("a method"), &raw), Ok(read));
    }
}

// covers: ELIC-018, ELIC-020, ELIC-034, MRTR-018, MRTR-027
#[test]
fn elicitation_response_is_checked_against_request() {
    let filled = r#"{"action":"accept","content":{"boat":"Aline","nights":2,"more":true}}"#;
    let refusals = [
        r#"{"action":"decline"}"#,
        r#"{"action":"cancel"}"#,
        r#"{"action":"decline","content":null}"#,
        r#"{"action":"cancel","content":{}}"#,
        r#"{"action":"cancel","resultType":"complete","x":[1]}"#,
    ];
    assert_fits(&form(), &[filled, r#"{"_meta":{},"content":{"boat":""},"action":"accept"}"#]);
    assert_fits(&form(), &refusals);
    assert_fits(&page(), &[r#"{"action":"accept"}"#, r#"{"action":"accept","content":{}}"#]);
    assert_fits(&page(), &refusals);

    for (answer, expected) in [
        ("12345", "invalid type: integer `12345`, expected a ElicitResult object"),
        (r#""accept""#, "invalid type: string"),
        ("null", "invalid type: null"),
        ("[]", "invalid type: sequence"),
        ("{}", "missing field `action`"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#, "missing field `action`"),
        (r#"{"action":1}"#, "`action`: invalid type"),
        (r#"{"action":null}"#, "`action`: invalid type"),
        (r#"{"action":"accept","action":"decline"}"#, "duplicate field `action`"),
        (r#"{"action":"later"}"#, "`action`: must be `accept`, `decline` or `cancel`"),
        (r#"{"action":"Accept"}"#, "`action`: must be"),
        (r#"{"action":"accept","content":[]}"#, "`content`: invalid type"),
        (r#"{"action":"accept","content":"x"}"#, "`content`: invalid type"),
        (
            r#"{"action":"accept","content":{"boat":null}}"#,
            "`content.boat`: invalid type: null, expected a string",
        ),
        (
            r#"{"action":"accept","content":{"boat":{}}}"#,
            "`content.boat`: invalid type: map, expected a string",
        ),
        (r#"{"action":"accept","content":{"boat":[1]}}"#, "`content.boat`: invalid type"),
        (r#"{"action":"accept","content":{"boat":"","boat":""}}"#, "`content`: duplicate field `boat`"),
    ] {
        assert!(
            check_error(&form(), answer, true).starts_with(expected),
            "{}",
            check_error(&form(), answer, true)
        );
    }
    for (answer, expected) in [
        (r#"{"action":"accept"}"#, "`content.boat`: must be filled in"),
        (r#"{"action":"accept","content":{"nights":2}}"#, "`content.boat`: must be filled in"),
        (r#"{"action":"accept","content":{"boat":1}}"#, "`content.boat`: must be a string"),
        (r#"{"action":"accept","content":{"boat":true}}"#, "`content.boat`: must be a string"),
        (r#"{"action":"accept","content":{"boat":["x"]}}"#, "`content.boat`: must be a string"),
        (
            r#"{"action":"accept","content":{"boat":"","nights":"2"}}"#,
            "`content.nights`: must be a whole number",
        ),
        (
            r#"{"action":"accept","content":{"boat":"","nights":2.5}}"#,
            "`content.nights`: must be a whole number",
        ),
        (r#"{"action":"accept","content":{"boat":"","nights":0}}"#, "`content.nights`: must be 1 or more"),
    ] {
        assert_eq!(check_error(&form(), answer, false), expected);
    }
    // What has no meaning is read and not sent.
    for content in [r#"{"boat":"x"}"#, r#"{"boat":null}"#, "[]", "7", r#""no""#] {
        for (request, action) in [
            (form(), "decline"),
            (form(), "cancel"),
            (page(), "decline"),
            (page(), "cancel"),
            (page(), "accept"),
        ] {
            let answer = raw(format!(r#"{{"content":{content},"action":"{action}","_meta":3}}"#));
            let read =
                request.parse_response(&answer).unwrap_or_else(|mismatch| panic!("{answer:?}: {mismatch}"));
            assert_eq!(read, InputResponse::Elicit(ElicitResult::new(action)), "{answer:?}");
        }
    }
    let mut sent = ElicitResult::new(ElicitAction::Decline);
    sent.content = Some([("boat", ElicitValue::from("x"))].into_iter().collect());
    let error = form().check_response(&InputResponse::Elicit(sent.clone())).expect_err("forbidden");
    assert_eq!(error.to_string(), "`content`: must be absent unless `action` is `accept`");
    sent.action = ElicitAction::Accept;
    let error = page().check_response(&InputResponse::Elicit(sent)).expect_err("forbidden");
    assert_eq!(error.to_string(), "`content`: must be absent for a web page");
}

// covers: SAMP-005, SAMP-006, SAMP-022, MRTR-018, MRTR-027
#[test]
fn sampling_response_is_checked_against_request() {
    let text =
        r#"{"role":"assistant","model":"m","content":{"type":"text","text":"hi"},"stopReason":"endTurn"}"#;
    let uses = r#"{"type":"tool_use","id":"u","name":"t","input":{}}"#;
    let called = format!(r#"{{"role":"assistant","model":"m","content":[{uses}],"stopReason":"toolUse"}}"#);
    assert_fits(&sampling_with_tools(), &[text, &called]);
    assert_fits(
        &sampling(),
        &[
            text,
            r#"{"role":"assistant","model":"m","content":{"type":"image","data":"","mimeType":"image/png"}}"#,
            r#"{"role":"assistant","model":"m","content":{"type":"audio","data":"","mimeType":"audio/wav"}}"#,
            r#"{"role":"assistant","model":"m","content":[{"type":"text","text":""},{"type":"new"}]}"#,
            r#"{"role":"assistant","model":"m","content":[],"stopReason":"hostile","resultType":"complete"}"#,
        ],
    );

    let right = r#"{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m","stopReason":"endTurn","_meta":{}}"#;
    assert_fits(&sampling(), &[right]);
    for (member, wrong, expected) in [
        (r#""role":"assistant""#, r#""role":1"#, "`role`: invalid type"),
        (r#""role":"assistant","#, "", "missing field `role`"),
        (r#""model":"m""#, r#""model":["m"]"#, "`model`: invalid type"),
        (r#""model":"m","#, "", "missing field `model`"),
        (r#""model":"m""#, r#""model":"m","model":"m""#, "duplicate field `model`"),
        (r#""stopReason":"endTurn""#, r#""stopReason":{}"#, "`stopReason`: invalid type"),
        (r#""stopReason":"endTurn""#, r#""stopReason":"toolUse""#, "`stopReason`: is `toolUse`, but no"),
        (r#""text":"hi""#, r#""text":1"#, "`content.text`: invalid type"),
        (r#","text":"hi""#, "", "`content`: missing field `text`"),
        (r#"{"type":"text","text":"hi"}"#, r#""hi""#, "`content`: invalid type"),
        (r#"{"type":"text","text":"hi"}"#, "null", "`content`: invalid type"),
        (r#"{"type":"text","text":"hi"}"#, r#"["hi"]"#, "`content`: invalid type"),
        (r#"{"type":"text","text":"hi"}"#, r#"{"text":"hi"}"#, "`content`: missing field `type`"),
        (
            r#"{"type":"text","text":"hi"}"#,
            r#"[{"type":"text","text":"hi"},{"type":"tool_use","id":"u","name":"t","input":[]}]"#,
            "`content.input`: not a JSON object",
        ),
    ] {
        let answer = right.replace(member, wrong);
        assert_ne!(answer, right);
        let error = check_error(&sampling(), &answer, true);
        assert!(error.starts_with(expected), "{answer}: {error}");
    }
    assert_eq!(check_error(&sampling(), &called, false), "`content`: calls a tool, but the request has none");
}

// covers: ROOT-002, ROOT-005, MRTR-018, MRTR-027
#[test]
fn roots_response_is_checked() {
    assert_fits(
        &ROOTS,
        &[
            r#"{"roots":[]}"#,
            r#"{"roots":[{"uri":"file:///"},{"uri":"FILE:///C:/My%20boat","name":"n","_meta":{}}],"x":1}"#,
            r#"{"roots":[{"uri":"file://host/share"}]}"#,
        ],
    );
    for (answer, expected) in [
        ("{}", "missing field `roots`"),
        (r#"{"roots":null}"#, "`roots`: invalid type"),
        (r#"{"roots":{}}"#, "`roots`: invalid type"),
        (r#"{"roots":["file:///"]}"#, "`roots`: invalid type"),
        (r#"{"roots":[{}]}"#, "`roots`: missing field `uri`"),
        (r#"{"roots":[{"uri":1}]}"#, "`roots.uri`: invalid type"),
        (r#"{"roots":[{"uri":"file:///","name":[]}]}"#, "`roots.name`: invalid type"),
        (r#"{"roots":[{"uri":"file:///"},{"uri":"/home"}]}"#, "`roots[1].uri`: must begin with `file://`"),
        (r#"{"roots":[{"uri":"https://x.example"}]}"#, "`roots[0].uri`: must begin"),
        (r#"{"roots":[{"uri":"file:/a"}]}"#, "`roots[0].uri`: must begin"),
        (r#"{"roots":[{"uri":"ééé"}]}"#, "`roots[0].uri`: must begin"),
    ] {
        let error = check_error(&ROOTS, answer, true);
        assert!(error.starts_with(expected), "{answer}: {error}");
    }
}

// covers: MRTR-008, MRTR-018
#[test]
fn response_to_another_kind_of_request_is_refused() {
    let answers = [
        r#"{"action":"cancel"}"#,
        r#"{"role":"assistant","model":"m","content":{"type":"text","text":""}}"#,
        r#"{"roots":[]}"#,
    ];
    let requests = [form(), sampling(), ROOTS];
    for (q, request) in requests.iter().enumerate() {
        for (a, answer) in answers.iter().enumerate() {
            let raw = raw(*answer);
            assert_eq!(request.parse_response(&raw).is_ok(), q == a, "{answer}");
            // A typed response is checked alike.
            let typed: InputResponse<'_> = raw.parse().expect("an answer");
            assert_eq!(request.check_response(&typed).is_ok(), q == a, "{answer}");
        }
    }
    let odd = InputRequest::Other(raw(r#"{"method":"x/y"}"#));
    assert_eq!(odd.parse_response(&raw("7")), Ok(InputResponse::Other(raw("7"))));
    assert!(InputResponse::parse("tools/call", &raw("{}")).is_err());
    // Typed responses of this side obey the same rules as received ones.
    let content: Map<ElicitValue> = [("boat", "x".into())].into();
    let declined = InputResponse::Elicit(ElicitResult::decline().content(content));
    assert_eq!(form().check_response(&declined).expect_err("content").path, "content");
    let call = ToolUseContent::new("u", "t", raw("{}"));
    let result = CreateMessageResult::new(Role::Assistant, SamplingContent::from(call), "m");
    assert!(sampling().check_response(&result.clone().into()).is_err());
    assert!(sampling_with_tools().check_response(&result.stop_reason(StopReason::ToolUse).into()).is_ok());
    let roots = ListRootsResult::new(vec![Root::new("/home")]);
    assert!(ROOTS.check_response(&roots.into()).is_err());
}

// covers: ELIC-009, MRTR-006, MRTR-008
#[test]
fn input_request_is_built_from_method_and_params() {
    for request in [form(), page(), sampling(), ROOTS] {
        let whole = RawJson::encode(&request).expect("JSON");
        let params = whole.member("params");
        assert_eq!(
            InputRequest::from_parts(request.method().expect("a method"), params.as_ref()),
            Ok(request)
        );
    }
    let (empty, number) = (raw("{}"), raw("1"));
    for (method, params, expected) in [
        ("elicitation/create", None, "missing field `params`"),
        ("sampling/createMessage", None, "missing field `params`"),
        ("elicitation/create", Some(&empty), "`params`: missing field `message`"),
        ("sampling/createMessage", Some(&empty), "`params`: missing field `messages`"),
        ("roots/list", Some(&number), "`params`: invalid type"),
        ("tools/list", Some(&empty), "`method`: is not the method of an input request"),
    ] {
        let mismatch = InputRequest::from_parts(method, params).expect_err(method);
        assert!(mismatch.to_string().starts_with(expected), "{mismatch}");
    }
}

// covers: ELIC-009, MRTR-008
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn input_request_validation_names_wrong_member() {
    for good in [form(), page(), sampling(), sampling_with_tools(), ROOTS] {
        assert_eq!(good.validate(), Ok(()));
    }
    let path = |request: InputRequest<'_>| request.validate().expect_err("wrong").path;
    let schema = ElicitSchema::default().field("x", NumberSchema::number().minimum(1).default(0));
    let form = ElicitFormParams::new("m", schema);
    assert_eq!(path(InputRequest::Elicit(form.into())), "requestedSchema.properties.x.default");
    assert_eq!(path(InputRequest::Elicit(ElicitParams::Other(raw(r#"{"mode":"voice"}"#)))), "mode");
    assert_eq!(path(InputRequest::Other(raw(r#"{"method":"x/y"}"#))), "method");
    let params = CreateMessageParams::new([SamplingMessage::user("x")], 1u32).metadata(raw("[]"));
    assert_eq!(path(InputRequest::CreateMessage(params)), "metadata");
    for url in ["http://localhost:8080/a?b#c", "https://x.example", "https://[::1]/", "app://open"] {
        assert_eq!(ElicitUrlParams::new("m", url).validate(), Ok(()), "{url}");
    }
    for url in [
        "",
        "x",
        "/pay",
        "//x.example",
        "x.example/pay",
        "https:",
        "https://",
        "https:///pay",
        "https://x y",
        "javascript:alert(1)",
        "data:,x",
        "file:///etc",
        "mailto:a@b",
        "https://x.example/\n",
        "https://é.example",
    ] {
        assert_eq!(path(InputRequest::Elicit(ElicitParams::url("m", url))), "url", "{url}");
    }
}

// covers: MRTR-007
#[test]
fn input_request_keys_are_checked() {
    let long = "é".repeat(64);
    for key in ["a", "who?", "user name", &*long] {
        assert!(InputRequest::is_valid_key(key), "{key}");
    }
    let twice: InputRequests<'_> = [("a", form()), ("a", ROOTS)].into();
    assert_eq!((twice.len(), twice.get("a")), (1, Some(&ROOTS)));
    let read = serde_json::from_str::<InputRequests<'_>>(
        r#"{"a":{"method":"roots/list"},"a":{"method":"roots/list"}}"#,
    );
    assert!(read.expect_err("twice").to_string().contains("duplicate field `a`"));
    for key in ["", "a\n", "\u{7f}", &*(long.clone() + "x")] {
        assert!(!InputRequest::is_valid_key(key), "{key:?}");
    }
}
