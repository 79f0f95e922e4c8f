//! `InputRequired` of a handler: the messages it sends, and the errors when the client cannot answer.

use mcp_proto::model::{
    CreateMessageParams, ElicitParams, ElicitSchema, ElicitUrlParams, InputRequest, InputResponse,
    NumberSchema, SamplingMessage,
};
use mcp_proto::seal::Keys;
use mcp_proto::server::{self, Call, InputError, InputRequired};
use mcp_proto::{Anchor, Capability, Limit, RpcError, UseError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY_VERSIONS, legacy_request, modern_request_with, result_response};
use mcp_tests::harness::{Chunker, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{limits, server};

const MODERN: Version = Version::V2026_07_28;

fn server_config() -> server::Config {
    server(VersionSet::ALL).seal(Keys::new([7; 32]), Anchor::default())
}

/// A server with one client of `version` that declares the given capabilities.
struct InputExchange {
    harness: ServerHarness,
    version: Version,
    declared_capabilities: Value,
    id: i64,
}

impl InputExchange {
    fn new(config: server::Config, version: Version, declared: Value, cut: Chunker) -> Self {
        let mut harness = ServerHarness::server(config, cut);
        if version != MODERN {
            harness.open_session_with(version, &declared);
        }
        Self { harness, version, declared_capabilities: declared, id: 0 }
    }

    /// Calls `book` as the client.
    fn call(&mut self, more: &Value) -> Call {
        self.id += 1;
        let mut params = json!({"name": "book"});
        params.as_object_mut().expect("an object").extend(more.as_object().expect("members").clone());
        let request = if self.version == MODERN {
            let declared = json!({"io.modelcontextprotocol/clientCapabilities": self.declared_capabilities});
            modern_request_with(self.id, "tools/call", params, &declared)
        } else {
            legacy_request(self.id, "tools/call", params)
        };
        self.harness.expect_call_for(&request)
    }

    /// Returns input requests to the engine in place of a result.
    fn request_input(&mut self, call: &Call, input: &InputRequired) -> Result<(), UseError> {
        let now = self.harness.now;
        let outcome = self.harness.pipe.engine().require_input(now, call, input);
        self.harness.pump();
        outcome
    }

    /// Answers the input request as the client, and returns the call that is delivered again.
    fn answer(&mut self, key: &str, answer: &Value) -> Call {
        let reply = self.harness.expect_reply();
        if self.version == MODERN {
            let state = &reply["result"]["requestState"];
            return self.call(&json!({"inputResponses": {key: answer}, "requestState": state}));
        }
        self.harness.feed_message(&result_response(&reply, answer.clone()));
        self.harness.expect_call()
    }
}

fn form_request() -> InputRequest<'static> {
    let form = ElicitSchema::default().field("guests", NumberSchema::integer().minimum(1.0));
    InputRequest::Elicit(ElicitParams::form("How many?", form))
}

fn input_required(call: &Call, key: &str, question: InputRequest<'static>) -> InputRequired {
    let mut input = InputRequired::new();
    assert!(matches!(input.request_input(call, key, question), Err(InputError::Pending)));
    assert!(!input.is_empty());
    input
}

// covers: MRTR-009, ERR-007, ELIC-005, SAMP-002, ROOT-010
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn missing_client_capability_is_named_in_the_error() {
    let model = CreateMessageParams::new([SamplingMessage::user("hi")], 9_u32);
    let page = ElicitUrlParams::new("Pay", "https://harbour.example/pay").elicitation_id("e1");
    for (question, lacks, required) in [
        (form_request(), Capability::ElicitationForm, json!({"elicitation": {"form": {}}})),
        (InputRequest::Elicit(page.into()), Capability::ElicitationUrl, json!({"elicitation": {"url": {}}})),
        (InputRequest::CreateMessage(model), Capability::Sampling, json!({"sampling": {}})),
        (InputRequest::ListRoots(None), Capability::Roots, json!({"roots": {}})),
    ] {
        for version in [Version::V2025_11_25, MODERN] {
            let mut exchange = InputExchange::new(server_config(), version, json!({}), Chunker::Whole);
            let call = exchange.call(&json!({}));
            let input = input_required(&call, "q", question.clone());
            assert_eq!(exchange.request_input(&call, &input), Err(UseError::MissingPeerCapability(lacks)));
            let error = &exchange.harness.expect_reply()["error"];
            // Legacy revisions have no error code of their own for this.
            let code = if version == MODERN { -32021 } else { -32600 };
            assert_eq!((&error["code"], &error["data"]["requiredCapabilities"]), (&json!(code), &required));
            // The call was answered with that error.
            assert_eq!(exchange.request_input(&call, &input), Err(UseError::Stale));
            exchange.harness.assert_idle();
        }
    }
}

#[test]
fn input_request_unknown_to_the_revision_is_named_in_the_error() {
    // A declaration that the revision does not know changes nothing.
    for declared in [json!({}), json!({"elicitation": {"form": {}, "url": {}}})] {
        for version in LEGACY_VERSIONS.into_iter().filter(|v| *v < Version::V2025_06_18) {
            let mut exchange = InputExchange::new(server_config(), version, declared.clone(), Chunker::Whole);
            let call = exchange.call(&json!({}));
            let input = input_required(&call, "q", form_request());
            let feature = "elicitation/create".to_owned();
            assert_eq!(
                exchange.request_input(&call, &input),
                Err(UseError::NotInVersion { feature, version })
            );
            let error = &exchange.harness.expect_reply()["error"];
            assert_eq!(error["code"], -32600);
            let message = error["message"].as_str().expect("a message");
            assert!(
                message.contains("elicitation/create") && message.contains(version.as_str()),
                "{message}"
            );
        }
    }
}

// covers: MRTR-027, MRTR-029, ELIC-020
#[test]
fn invalid_input_response_is_requested_again_once() {
    for version in [Version::V2025_06_18, Version::V2025_11_25, MODERN] {
        for wrong in [
            json!({"action": "accept", "content": {"guests": 0}}),
            json!({"action": "accept", "content": {"guests": "two"}}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept"}),
            json!({"action": "perhaps"}),
            json!({}),
            json!({"roots": []}),
        ] {
            let right = json!({"action": "accept", "content": {"guests": 2}});
            for last in [&right, &wrong] {
                for_each_chunker(|cut| {
                    let elicits = json!({"elicitation": {}});
                    let mut exchange = InputExchange::new(server_config(), version, elicits, cut);
                    let mut call = exchange.call(&json!({}));
                    for answer in [&wrong, last] {
                        let mut input = input_required(&call, "q", form_request());
                        input.set_state("kept");
                        assert_eq!(exchange.request_input(&call, &input), Ok(()));
                        call = exchange.answer("q", answer);
                        assert_eq!(call.state(), Some(&b"kept"[..]), "{answer}");
                    }
                    let mut input = InputRequired::new();
                    match input.request_input(&call, "q", form_request()) {
                        Ok(_) => assert_eq!(last, &right),
                        // The error says what was wrong, and nothing is asked again.
                        Err(error) => {
                            let error = RpcError::from(error);
                            assert_eq!((error.code, last), (-32602, &wrong));
                            assert!(error.message.contains("`q"), "{error:?}");
                        }
                    }
                    assert!(input.is_empty());
                    exchange.harness.transcript
                });
            }
        }
    }
}

/// `action` decides: a refusal is one, whatever stands beside it.
// covers: ELIC-018, ELIC-021
#[test]
fn refusal_that_carries_content_is_a_refusal() {
    for version in [Version::V2025_06_18, Version::V2025_11_25, MODERN] {
        for (action, content) in [
            ("decline", json!({"x": "y"})),
            ("cancel", json!({"guests": 0})),
            ("decline", json!([1])),
            ("cancel", json!(7)),
        ] {
            let elicits = json!({"elicitation": {}});
            let mut exchange = InputExchange::new(server_config(), version, elicits, Chunker::Whole);
            let call = exchange.call(&json!({}));
            let input = input_required(&call, "q", form_request());
            assert_eq!(exchange.request_input(&call, &input), Ok(()));
            let call = exchange.answer("q", &json!({"action": action, "content": content}));
            let mut input = InputRequired::new();
            let answer = input.request_input(&call, "q", form_request()).expect("a refusal");
            let InputResponse::Elicit(answer) = answer else { panic!("{answer:?}") };
            assert_eq!((answer.action.as_str(), &answer.content), (action, &None));
            assert!(input.is_empty());
        }
    }
}

// covers: MRTR-026
#[test]
fn handler_is_stopped_after_max_input_rounds() {
    for version in [Version::V2025_11_25, MODERN] {
        let config = server_config().limits(limits(|l| l.max_input_rounds = 3));
        let mut exchange = InputExchange::new(config, version, json!({"elicitation": {}}), Chunker::Whole);
        let mut call = exchange.call(&json!({}));
        for question in ["a", "b", "c"] {
            let input = input_required(&call, question, form_request());
            assert_eq!(exchange.request_input(&call, &input), Ok(()));
            call = exchange.answer(question, &json!({"action": "accept"}));
        }
        let input = input_required(&call, "q", form_request());
        assert_eq!(exchange.request_input(&call, &input), Err(UseError::Full(Limit::InputRounds)));
        let error = &exchange.harness.expect_reply()["error"];
        assert_eq!((&error["code"], &error["message"]), (&json!(-32603), &json!("asked too often")));
        exchange.harness.assert_works();
    }
}

// covers: MRTR-021
#[test]
fn state_without_seal_keys_fails_without_revealing_the_reason() {
    let mut exchange =
        InputExchange::new(server(VersionSet::ALL), MODERN, json!({"elicitation": {}}), Chunker::Whole);
    let call = exchange.call(&json!({}));
    let mut input = input_required(&call, "q", form_request());
    input.set_state("kept");
    assert_eq!(exchange.request_input(&call, &input), Err(UseError::NoSealKeys));
    let error = &exchange.harness.expect_reply()["error"];
    assert_eq!(error["code"], -32603);
    assert!(!error.to_string().contains("key"), "{error}");
    // A legacy session keeps the state in memory.
    let elicits = json!({"elicitation": {}});
    let mut exchange =
        InputExchange::new(server(VersionSet::ALL), Version::V2025_11_25, elicits, Chunker::Whole);
    let call = exchange.call(&json!({}));
    let mut input = input_required(&call, "q", form_request());
    input.set_state("kept");
    assert_eq!(exchange.request_input(&call, &input), Ok(()));
    let call = exchange.answer("q", &json!({"action": "decline"}));
    assert_eq!(call.state(), Some(&b"kept"[..]));
}
