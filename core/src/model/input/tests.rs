use super::super::test_support::{assert_borrowed_round_trip, assert_missing};
use super::super::{CallToolParams, ElicitSchema, Role, Root, SamplingMessage};
use super::*;
use alloc::string::ToString;

fn raw(text: &'static str) -> RawJson {
    RawJson::new(text).expect("JSON")
}

// covers: MRTR-004, MRTR-005, MRTR-006, MRTR-008, MRTR-010
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn input_requests_round_trip() {
    let read = |t: &str| serde_json::from_str::<InputRequiredResult<'_>>(t).map(|r| r.into_owned());
    let requests: InputRequests<'_> = [
        ("who", InputRequest::Elicit(ElicitParams::form("Skipper?", ElicitSchema::default()))),
        ("note", InputRequest::CreateMessage(CreateMessageParams::new([SamplingMessage::user("hi")], 30u32))),
        ("dirs", InputRequest::ListRoots(None)),
        ("more", InputRequest::ListRoots(Some(EmptyParams::new()))),
        ("odd", InputRequest::Other(raw(r#"{"method":"x/y","params":[1]}"#))),
    ]
    .into();
    let methods: Vec<_> = requests.iter().map(|(_, r)| r.method()).collect();
    assert_eq!(methods, [Some(ELICIT), Some(CREATE_MESSAGE), Some(LIST_ROOTS), Some(LIST_ROOTS), None]);
    let result = InputRequiredResult::new().input_requests(requests).request_state("s").meta(raw("{}"));
    let text = assert_borrowed_round_trip(&result, read);
    assert!(text.starts_with(
        r#"{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create""#
    ));
    assert_borrowed_round_trip(&InputRequiredResult::new().request_state(""), read);
    assert_missing::<InputRequiredResult<'_>>(r#"{"requestState":""}"#, "resultType");
    assert!(read(r#"{"resultType":"complete"}"#).is_err());

    let request = |t: &str| serde_json::from_str::<InputRequest<'_>>(t).map(|r| r.into_owned());
    let turned =
        request(r#"{"params":{"message":"","url":"","mode":"url"},"x":1,"method":"elicitation/create"}"#);
    assert!(matches!(turned, Ok(InputRequest::Elicit(ElicitParams::Url(_)))), "{turned:?}");
    assert_missing::<InputRequest<'_>>(r#"{"method":"sampling/createMessage"}"#, "params");
    assert_missing::<InputRequest<'_>>(
        r#"{"method":"sampling/createMessage","params":{"messages":[]}}"#,
        "maxTokens",
    );
    assert_missing::<InputRequest<'_>>(r#"{"params":{}}"#, "method");
    for twice in [
        r#"{"method":"roots/list","method":"roots/list"}"#,
        r#"{"method":"roots/list","params":{},"params":{}}"#,
    ] {
        assert!(request(twice).expect_err(twice).to_string().contains("duplicate field"));
    }
}

// covers: MRTR-014, MRTR-018, MRTR-028
#[test]
fn input_responses_round_trip() {
    let responses: InputResponses<'_> = [
        ("who", ElicitResult::decline().into()),
        ("note", CreateMessageResult::new(Role::Assistant, "hi", "m").into()),
        ("dirs", ListRootsResult::new(alloc::vec![Root::new("file:///")]).into()),
        ("odd", InputResponse::Other(raw(r#"{"x":[1]}"#))),
    ]
    .into();
    assert_borrowed_round_trip(
        &CallToolParams::new("book").input_responses(responses).request_state("s"),
        |t| serde_json::from_str::<CallToolParams<'_>>(t).map(|p| p.into_owned()),
    );
    let wrong = serde_json::from_str::<InputResponse<'_>>(r#"{"action":1}"#).expect_err("wrong");
    assert!(wrong.to_string().starts_with("`action`: invalid type"), "{wrong}");
}

// covers: BASE-010
#[test]
fn unknown_input_with_duplicate_member_is_refused() {
    for twice in [r#"{"x":1,"y":2,"\u0078":3}"#, r#"{"action":"accept","z":1,"z":2}"#] {
        assert!(serde_json::from_str::<InputResponse<'_>>(twice).is_err(), "{twice}");
    }
    for twice in [
        r#"{"method":"roots/list","x":1,"x":2}"#,
        r#"{"method":"roots/list","method":"roots/list"}"#,
        r#"{"method":"x/y","x":1,"x":2}"#,
    ] {
        assert!(serde_json::from_str::<InputRequest<'_>>(twice).is_err(), "{twice}");
    }
    let odd: InputResponse<'_> = serde_json::from_str(r#"{"x":1,"y":2}"#).expect("kept");
    assert_eq!(serde_json::to_string(&odd).expect("JSON"), r#"{"x":1,"y":2}"#);
}
