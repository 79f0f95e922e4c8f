//! Tool arguments that do not fit: an error or a result, as the revision has it (DEC-028).

use mcp_proto::model::{CallToolResult, Tool};
use mcp_proto::router::{
    CallTarget, HandlerError, Route, Router, SchemaError, SchemaValidator, Validate, Violations,
};
use mcp_proto::server::Call;
use mcp_proto::{RawJson, RpcError, Version};
use mcp_tests::harness::build::{legacy_request, modern_request, to_value};
use mcp_tests::harness::{Chunker, ServerHarness};
use serde_json::{Value, json};

/// Refuses arguments with a member `bad`.
struct RefusesBad;

impl SchemaValidator for RefusesBad {
    fn compile(&self, _: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
        struct Refuses;
        impl Validate for Refuses {
            fn validate(&self, value: &[u8]) -> Result<(), Violations> {
                let mut wrong = Violations::new();
                if value.windows(5).any(|text| text == b"\"bad\"") {
                    wrong.push("/bad", "is not wanted");
                    return Err(wrong);
                }
                Ok(())
            }
        }
        Ok(Box::new(Refuses))
    }
}

#[derive(serde::Deserialize)]
struct Berths {
    berths: u32,
}

/// Answers a call as an adapter does.
fn answer(router: &Router<()>, call: &Call) -> Result<Value, RpcError> {
    match router.route(call) {
        Route::Answer(answer) => Ok(to_value(&RawJson::encode(&answer).expect("JSON"))),
        Route::Refuse(error) => Err(error),
        Route::Handle(routed) => {
            let CallTarget::Tool(target) = &routed.target else { panic!("a tool") };
            let result = match target.parse::<Berths>() {
                Ok(berths) => Ok(CallToolResult::text(berths.berths.to_string())),
                Err(invalid) => invalid.into_result().map_err(HandlerError::into_rpc_error),
            };
            result.map(|result| to_value(&RawJson::encode(&result).expect("JSON")))
        }
        other => panic!("{other:?}"),
    }
}

// covers: TOOL-022, ERR-001, SCHEMA-005
#[test]
fn invalid_tool_arguments_are_an_error_up_to_2025_06_18_and_a_result_since() {
    for (version, is_result) in [
        (Version::V2024_11_05, false),
        (Version::V2025_03_26, false),
        (Version::V2025_06_18, false),
        (Version::V2025_11_25, true),
        (Version::V2026_07_28, true),
    ] {
        let schema = RawJson::new(r#"{"type":"object"}"#).expect("JSON");
        let mut router = Router::<()>::new("tide-server", "2.1.0");
        router.validator(RefusesBad).expect("no tools yet");
        router.tool(Tool::new("count", schema), ()).expect("a tool");
        let mut harness = ServerHarness::server(router.config(), Chunker::Whole);
        let modern = version == Version::V2026_07_28;
        if !modern {
            harness.open_session(version);
        }
        // The first is refused by the type of the handler, the second by the schema.
        for (id, arguments) in [(1, json!({"berths": "two"})), (2, json!({"berths": 2, "bad": 1}))] {
            let params = json!({"name": "count", "arguments": arguments});
            let make = if modern { modern_request } else { legacy_request };
            let call = harness.expect_call_for(&make(id, "tools/call", params));
            let reply = match answer(&router, &call) {
                Ok(result) => harness.complete(call.id(), &result),
                Err(error) => harness.fail(call.id(), &error),
            };
            let text = if is_result {
                assert_eq!(reply["result"]["isError"], true, "{version}: {reply}");
                &reply["result"]["content"][0]["text"]
            } else {
                assert_eq!(reply["error"]["code"], -32602, "{version}: {reply}");
                &reply["error"]["message"]
            };
            let text = text.as_str().expect("a text");
            assert!(text.starts_with("The arguments of `count` are not valid: "), "{version}: {text}");
        }
        // An unknown tool is an error in every revision.
        let params = json!({"name": "other"});
        let make = if modern { modern_request } else { legacy_request };
        let call = harness.expect_call_for(&make(3, "tools/call", params));
        assert_eq!(answer(&router, &call).expect_err("no such tool").code, -32602);
    }
}
