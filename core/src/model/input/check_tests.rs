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

fn sampling() -> InputRequest<'static> {
    InputRequest::CreateMessage(CreateMessageParams::new([SamplingMessage::user("hi")], 9u32))
}

fn sampling_with_tools() -> InputRequest<'static> {
    let InputRequest::CreateMessage(params) = sampling() else { unreachable!() };
    InputRequest::CreateMessage(params.tools([Tool::new("t", raw(r#"{"type":"object"}"#))]))
}

const ROOTS: InputRequest<'static> = InputRequest::ListRoots(None);

/// What is said about an answer; the kind alone says the same where `by_kind`
fn said(question: &InputRequest<'_>, answer: &str, by_kind: bool) -> String {
    let answer = raw(answer);
    let misfit = question.read(&answer).expect_err(answer.as_str());
    let kind = InputResponse::read(question.method().expect("a method"), &answer);
    assert_eq!(kind.err().as_ref() == Some(&misfit), by_kind, "{answer}: {misfit}");
    assert_eq!(RpcError::from(misfit.clone()).code, -32602);
    misfit.to_string()
}

fn fits(question: &InputRequest<'_>, answers: &[&str]) {
    for answer in answers {
        let raw = raw(*answer);
        let read = question.read(&raw).unwrap_or_else(|misfit| panic!("{answer}: {misfit}"));
        assert_eq!(question.check(&read), Ok(()), "{answer}");
        assert_eq!(InputResponse::read(question.method().expect("a method"), &raw), Ok(read));
    }
}

// covers: ELIC-018, ELIC-020, ELIC-034, MRTR-018, MRTR-027
#[test]
fn answers_of_a_user() {
    let filled = r#"{"action":"accept","content":{"boat":"Aline","nights":2,"more":true}}"#;
    let refusals = [
        r#"{"action":"decline"}"#,
        r#"{"action":"cancel"}"#,
        r#"{"action":"decline","content":null}"#,
        r#"{"action":"cancel","content":{}}"#,
        r#"{"action":"cancel","resultType":"complete","x":[1]}"#,
    ];
    fits(&form(), &[filled, r#"{"_meta":{},"content":{"boat":""},"action":"accept"}"#]);
    fits(&form(), &refusals);
    fits(&page(), &[r#"{"action":"accept"}"#, r#"{"action":"accept","content":{}}"#]);
    fits(&page(), &refusals);

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
        (r#"{"action":"decline","content":{"boat":"x"}}"#, "`content`: belongs only to"),
        (r#"{"action":"cancel","content":{"boat":"x"}}"#, "`content`: belongs only to"),
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
        assert!(said(&form(), answer, true).starts_with(expected), "{}", said(&form(), answer, true));
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
        assert_eq!(said(&form(), answer, false), expected);
    }
    let told = said(&page(), r#"{"action":"accept","content":{"boat":"x"}}"#, false);
    assert_eq!(told, "`content`: does not belong to an answer about a web page");
}

// covers: SAMP-005, SAMP-006, SAMP-022, MRTR-018, MRTR-027
#[test]
fn answers_of_a_model() {
    let text =
        r#"{"role":"assistant","model":"m","content":{"type":"text","text":"hi"},"stopReason":"endTurn"}"#;
    let uses = r#"{"type":"tool_use","id":"u","name":"t","input":{}}"#;
    let called = format!(r#"{{"role":"assistant","model":"m","content":[{uses}],"stopReason":"toolUse"}}"#);
    fits(&sampling_with_tools(), &[text, &called]);
    fits(
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
    fits(&sampling(), &[right]);
    for (member, wrong, expected) in [
        (r#""role":"assistant""#, r#""role":1"#, "`role`: invalid type"),
        (r#""role":"assistant","#, "", "missing field `role`"),
        (r#""model":"m""#, r#""model":["m"]"#, "`model`: invalid type"),
        (r#""model":"m","#, "", "missing field `model`"),
        (r#""model":"m""#, r#""model":"m","model":"m""#, "duplicate field `model`"),
        (r#""stopReason":"endTurn""#, r#""stopReason":{}"#, "`stopReason`: invalid type"),
        (r#""stopReason":"endTurn""#, r#""stopReason":"toolUse""#, "`stopReason`: is `toolUse`, and no"),
        (r#""text":"hi""#, r#""text":1"#, "`content.text`: invalid type"),
        (r#","text":"hi""#, "", "`content`: missing field `text`"),
        (r#"{"type":"text","text":"hi"}"#, r#""hi""#, "`content`: invalid type"),
        (r#"{"type":"text","text":"hi"}"#, "null", "`content`: invalid type"),
        (r#"{"type":"text","text":"hi"}"#, r#"["hi"]"#, "`content`: invalid type"),
        (r#"{"type":"text","text":"hi"}"#, r#"{"text":"hi"}"#, "`content`: missing field `type`"),
        (
            r#"{"type":"text","text":"hi"}"#,
            r#"[{"type":"text","text":"hi"},{"type":"tool_use","id":"u","name":"t","input":[]}]"#,
            "`content.input`: is not a JSON object",
        ),
    ] {
        let answer = right.replace(member, wrong);
        assert_ne!(answer, right);
        let told = said(&sampling(), &answer, true);
        assert!(told.starts_with(expected), "{answer}: {told}");
    }
    assert_eq!(said(&sampling(), &called, false), "`content`: uses a tool, and there is none");
}

// covers: ROOT-002, ROOT-005, MRTR-018, MRTR-027
#[test]
fn answers_about_roots() {
    fits(
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
        let told = said(&ROOTS, answer, true);
        assert!(told.starts_with(expected), "{answer}: {told}");
    }
}

// covers: MRTR-008, MRTR-018
#[test]
fn an_answer_to_another_kind_of_question() {
    let answers = [
        r#"{"action":"cancel"}"#,
        r#"{"role":"assistant","model":"m","content":{"type":"text","text":""}}"#,
        r#"{"roots":[]}"#,
    ];
    let questions = [form(), sampling(), ROOTS];
    for (q, question) in questions.iter().enumerate() {
        for (a, answer) in answers.iter().enumerate() {
            let raw = raw(*answer);
            assert_eq!(question.read(&raw).is_ok(), q == a, "{answer}");
            // One that was made here.
            let typed: InputResponse<'_> = raw.parse().expect("an answer");
            assert_eq!(question.check(&typed).is_ok(), q == a, "{answer}");
        }
    }
    let odd = InputRequest::Other(raw(r#"{"method":"x/y"}"#));
    assert_eq!(odd.read(&raw("7")), Ok(InputResponse::Other(raw("7"))));
    assert!(InputResponse::read("tools/call", &raw("{}")).is_err());
    // What is made here is held to the same as what comes in.
    let content: Map<ElicitValue> = [("boat", "x".into())].into();
    let declined = InputResponse::Elicit(ElicitResult::decline().content(content));
    assert_eq!(form().check(&declined).expect_err("content").path, "content");
    let call = ToolUseContent::new("u", "t", raw("{}"));
    let result = CreateMessageResult::new(Role::Assistant, SamplingContent::from(call), "m");
    assert!(sampling().check(&result.clone().into()).is_err());
    assert!(sampling_with_tools().check(&result.stop_reason(StopReason::ToolUse).into()).is_ok());
    let roots = ListRootsResult::new(vec![Root::new("/home")]);
    assert!(ROOTS.check(&roots.into()).is_err());
}

// covers: ELIC-009, MRTR-006, MRTR-008
#[test]
fn questions_are_made_of_a_method_and_parameters() {
    for question in [form(), page(), sampling(), ROOTS] {
        let whole = RawJson::encode(&question).expect("JSON");
        let params = whole.member("params");
        assert_eq!(InputRequest::of(question.method().expect("a method"), params.as_ref()), Ok(question));
    }
    let (empty, number) = (raw("{}"), raw("1"));
    for (method, params, expected) in [
        ("elicitation/create", None, "missing field `params`"),
        ("sampling/createMessage", None, "missing field `params`"),
        ("elicitation/create", Some(&empty), "`params`: missing field `message`"),
        ("sampling/createMessage", Some(&empty), "`params`: missing field `messages`"),
        ("roots/list", Some(&number), "`params`: invalid type"),
        ("tools/list", Some(&empty), "`method`: is nothing that a server can ask for"),
    ] {
        let misfit = InputRequest::of(method, params).expect_err(method);
        assert!(misfit.to_string().starts_with(expected), "{misfit}");
    }
}

// covers: ELIC-009, MRTR-008
#[test]
fn questions_are_right_in_themselves() {
    for good in [form(), page(), sampling(), sampling_with_tools(), ROOTS] {
        assert_eq!(good.validate(), Ok(()));
    }
    let path = |question: InputRequest<'_>| question.validate().expect_err("wrong").path;
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
fn keys_of_our_own() {
    let long = "é".repeat(64);
    for key in ["a", "who?", "user name", &*long] {
        assert!(InputRequest::is_key(key), "{key}");
    }
    let twice: InputRequests<'_> = [("a", form()), ("a", ROOTS)].into();
    assert_eq!((twice.len(), twice.get("a")), (1, Some(&ROOTS)));
    let read = serde_json::from_str::<InputRequests<'_>>(
        r#"{"a":{"method":"roots/list"},"a":{"method":"roots/list"}}"#,
    );
    assert!(read.expect_err("twice").to_string().contains("duplicate field `a`"));
    for key in ["", "a\n", "\u{7f}", &*(long.clone() + "x")] {
        assert!(!InputRequest::is_key(key), "{key:?}");
    }
}
