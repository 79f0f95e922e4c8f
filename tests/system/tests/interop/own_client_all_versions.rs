//! Conversations of our client and our server as processes: each message must be valid in its revision.

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use mcp_blocking::{Client, ClientHandler, Error, Options, Program};
use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, ElicitValue, ListRootsResult,
    LoggingLevel, Map, Role, Root, SubscriptionFilter,
};
use mcp_proto::tap::TapRecord;
use mcp_proto::{CallError, Capabilities, Capability, Change, Limits, RpcError, Version, VersionSet, client};
use serde_json::{Value, json};

use crate::interop::tap_records;
use crate::peers::probe;

/// A client handler that answers all input requests and records the messages.
#[derive(Clone, Default)]
struct RecordingUser {
    records: Arc<Mutex<Vec<TapRecord>>>,
    changes: Arc<Mutex<Vec<Change>>>,
}

impl ClientHandler for RecordingUser {
    fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let ElicitParams::Form(form) = params else { return Ok(ElicitResult::accept(Map::new())) };
        let fields = &form.requested_schema.properties;
        let known: [(&str, ElicitValue); 8] = [
            ("name", "Ada".into()),
            ("username", "ada".into()),
            ("email", "ada@example.com".into()),
            ("color", "blue".into()),
            ("ok", true.into()),
            ("confirm", true.into()),
            ("titledSingle", "value1".into()),
            ("titledMulti", vec!["value1".to_owned(), "value2".to_owned()].into()),
        ];
        let values = known.into_iter().filter(|(name, _)| fields.get(name).is_some());
        let values: Map<ElicitValue> = values.map(|(name, value)| (name.to_owned(), value)).collect();
        Ok(ElicitResult::accept(form.requested_schema.fill_defaults(values)))
    }

    fn sample(&self, _: &CreateMessageParams<'_>) -> Result<CreateMessageResult<'static>, RpcError> {
        Ok(CreateMessageResult::new(Role::Assistant, "Paris", "muse"))
    }

    fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Ok(ListRootsResult::new(vec![Root::new("file:///home").name("home")]))
    }

    fn changed(&self, change: &Change) {
        self.changes.lock().expect("no panic under this lock").push(change.clone());
    }

    fn tap(&self, record: &TapRecord) {
        self.records.lock().expect("no panic under this lock").push(record.clone());
    }
}

/// Returns tools with their arguments and the first revision in which each can answer.
fn tools() -> [(&'static str, Value, Version); 16] {
    let (any, forms, choices) = (Version::V2024_11_05, Version::V2025_06_18, Version::V2025_11_25);
    [
        ("test_sampling", json!({"prompt": "x"}), any),
        ("test_elicitation", json!({"message": "x"}), forms),
        ("test_elicitation_sep1034_defaults", json!({}), forms),
        ("test_elicitation_sep1330_enums", json!({}), choices),
        ("test_elicitation_url", json!({}), choices),
        ("test_streaming_elicitation", json!({}), forms),
        ("test_input_required_result_elicitation", json!({}), forms),
        ("test_input_required_result_sampling", json!({}), any),
        ("test_input_required_result_list_roots", json!({}), any),
        ("test_input_required_result_request_state", json!({}), forms),
        ("test_input_required_result_multiple_inputs", json!({}), forms),
        ("test_input_required_result_multi_round", json!({}), forms),
        ("test_input_required_result_tampered_state", json!({}), forms),
        ("sign", json!({}), forms),
        ("test_tool_with_logging", json!({}), any),
        ("test_logging_tool", json!({}), any),
    ]
}

// covers: ELIC-009, ELIC-012, ELIC-018, SAMP-004, SAMP-005, ROOT-002, MRTR-004, MRTR-008, MRTR-018, LOG-003, SUB-002
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn conversation_messages_are_valid_in_every_revision() {
    for version in VersionSet::ALL.iter() {
        let recorder = RecordingUser::default();
        let mut limits = Limits::default();
        limits.tap_records = 10_000;
        limits.tap_bytes = 64 << 20;
        let versions = VersionSet::only(version);
        let all = [
            Capability::ElicitationForm,
            Capability::ElicitationUrl,
            Capability::Sampling,
            Capability::Roots,
        ];
        let capabilities = all.into_iter().fold(Capabilities::new(), Capabilities::with);
        let config =
            client::Config::new("talker", "1").versions(versions).limits(limits).capabilities(capabilities);
        let program =
            Program::new(probe()).args(["serve", "--everything", "--protocol-version", version.as_str()]);
        let client: Client =
            Options::new(config).handler(recorder.clone()).spawn(program).expect("a connection");

        client.set_log_level(Some(LoggingLevel::Debug)).expect("it logs");
        let filter = SubscriptionFilter::new()
            .tools_list_changed(true)
            .prompts_list_changed(true)
            .resources_list_changed(true)
            .resource_subscriptions(["test://watched-resource".to_owned()]);
        let (subscription, honoured) = client.subscribe(&filter).expect("acknowledged");
        assert_eq!(honoured, filter, "{version}");
        for (tool, arguments, since) in tools() {
            match client.call_tool(tool, &arguments) {
                Ok(result) => {
                    assert!(!result.is_failure() && version >= since, "{version}: {tool}: {result:?}")
                }
                Err(Error::Call(CallError::Rpc(error))) => {
                    assert!(version < since, "{version}: {tool}: {error}")
                }
                Err(other) => panic!("{version}: {tool}: {other}"),
            }
        }
        client.call_tool("test_touch_watched_resource", &json!({})).expect("changed");
        for open in [true, false] {
            client.call_tool("annex", &json!({ "open": open })).expect("changed");
        }
        let until = Instant::now() + Duration::from_secs(20);
        let wanted = [
            Change::Tools,
            Change::Prompts,
            Change::Resources,
            Change::Resource("test://watched-resource".into()),
        ];
        while !wanted.iter().all(|change| recorder.changes.lock().expect("no panic").contains(change)) {
            assert!(Instant::now() < until, "{version}: {:?}", recorder.changes);
            client.poll(Duration::from_millis(20)).expect("open");
        }
        client.unsubscribe(subscription).expect("it was there");
        client.ping().expect("alive");
        client.close().expect("an end");

        let records = core::mem::take(&mut *recorder.records.lock().expect("no panic under this lock"));
        tap_records::assert_records_valid("a conversation with our server", version, &records);
    }
}
