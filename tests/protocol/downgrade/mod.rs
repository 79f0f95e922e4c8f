//! One server application and one client application with every pair of newest revisions.
//! Values lost on the way are exactly those of the published table (`core/src/model/revisions.md`). A value that the
//! revision cannot express is refused before anything is sent.

mod connection;
mod values;

use mcp_proto::EntryKind;
use mcp_proto::model::*;
use mcp_proto::{CallError, CallOptions, RawJson, UseError, Version};
use mcp_tests::harness::build::{raw, to_value};
use mcp_tests::revision_table::{RevisionTable, normalize_numbers};
use mcp_tests::schema::MessageDirection;
use serde::Serialize;
use serde_json::{Value, json};

use connection::{CUSTOM_METHOD, DowngradeConnection, versions_up_to};

/// Encodes a value in full, with the members of all revisions.
fn to_full_value<T: Serialize>(value: &T) -> Value {
    let mut full = to_value(&RawJson::encode(value).expect("JSON"));
    // Every result of the modern era has a `resultType`, which the engine adds.
    if full.is_object() {
        full["resultType"] = json!("complete");
    }
    full
}

/// Returns the result that the application gets, without the members that the engine adds.
fn result_value(result: &RawJson) -> Value {
    let mut result = normalize_numbers(&to_value(result));
    if let Some(meta) = result.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.remove("io.modelcontextprotocol/serverInfo");
        if meta.is_empty() {
            result.as_object_mut().expect("an object").remove("_meta");
        }
    }
    result
}

struct DowngradeRun<'t> {
    connection: DowngradeConnection,
    table: &'t RevisionTable,
    version: Version,
    /// Number of values that arrived with a member missing or changed.
    lossy_count: usize,
}

impl DowngradeRun<'_> {
    fn result(&mut self, name: &str, sent: &Value, outcome: &Result<RawJson, CallError>) {
        let want = normalize_numbers(&self.table.lower(self.version, name, sent).expect("not refused"));
        let outcome = outcome.as_ref().unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(result_value(outcome), want, "{} {name}", self.version);
        self.lossy_count += usize::from(want != normalize_numbers(sent));
    }

    /// Checks all lists and the values in them.
    fn lists(&mut self) {
        for (list, name, member, items) in values::lists() {
            let mut want = to_full_value(&json!({ "ttlMs": 60_000, "cacheScope": "public" }));
            want[member] = items;
            let now = self.connection.pair.now;
            let key = self.connection.pair.client.engine().list(now, list, None, &CallOptions::new());
            let outcome = self.connection.wait_for_outcome(key.expect("declared"));
            self.result(name, &want, &outcome);
            let back = outcome.expect("a list");
            match list {
                EntryKind::Tool => read::<ListToolsResult>(&back),
                EntryKind::Resource => read::<ListResourcesResult>(&back),
                EntryKind::ResourceTemplate => read::<ListResourceTemplatesResult>(&back),
                EntryKind::Prompt => read::<ListPromptsResult>(&back),
                other => panic!("{other:?}"),
            }
        }
    }

    fn handler_results(&mut self) {
        for (name, result) in values::tool_results() {
            let outcome =
                self.connection.call("tools/call", &CallToolParams::new(name).arguments(raw(&json!({}))));
            self.result("CallToolResult", &to_full_value(&result), &outcome);
            outcome.expect("a result").parse::<CallToolResult<'_>>().expect("typed");
        }
        let outcome = self.connection.call("resources/read", &ReadResourceParams::new(values::URI));
        self.result("ReadResourceResult", &to_full_value(&values::contents()), &outcome);
        let outcome = self.connection.call("resources/read", &ReadResourceParams::new("berth://C/14"));
        self.result("ReadResourceResult", &to_full_value(&values::contents()), &outcome);
        let params = GetPromptParams::new("all").arguments([("harbour", "Brest".to_owned())]);
        let outcome = self.connection.call("prompts/get", &params);
        self.result("GetPromptResult", &to_full_value(&values::messages()), &outcome);
        for params in values::completions() {
            let outcome = self.connection.call("completion/complete", &params);
            self.result("CompleteResult", &to_full_value(&values::completed()), &outcome);
            let (_, seen) = self.connection.seen_calls.last().expect("a call");
            let sent = normalize_numbers(&to_value(&RawJson::encode(&params).expect("JSON")));
            let want = self.table.lower(self.version, "CompleteParams", &sent).expect("not refused");
            assert_eq!(normalize_numbers(seen), want, "{}", self.version);
        }
    }

    fn errors(&mut self) {
        for error in values::errors() {
            let name = format!("fail{}", error.code);
            match self.connection.call("tools/call", &CallToolParams::new(name)) {
                Err(CallError::Rpc(received)) => {
                    assert_eq!(
                        received.code,
                        self.table.error_code(self.version, error.code),
                        "{}",
                        self.version
                    );
                    assert_eq!((received.message, received.data), (error.message, error.data));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Checks the remaining types as parameters of the custom method.
    fn parameters(&mut self) {
        values::each_parameter(self);
    }

    /// Sends a value as the parameters of the custom method and checks what arrives.
    pub(crate) fn parameter<T: Serialize>(&mut self, name: &str, params: &T) {
        let sent = to_value(&RawJson::encode(params).expect("JSON"));
        let before = self.connection.pair.observer.messages.len();
        match self.table.lower(self.version, name, &sent) {
            Ok(mut want) => {
                let outcome = self.connection.call(CUSTOM_METHOD, params);
                assert!(outcome.is_ok(), "{} {name}: {outcome:?}", self.version);
                let (_, seen) = self.connection.seen_calls.last().expect("a call");
                // The engine writes the metadata of requests.
                want.as_object_mut().expect("an object").remove("_meta");
                assert_eq!(normalize_numbers(seen), normalize_numbers(&want), "{} {name}", self.version);
                self.lossy_count += usize::from(want != sent);
            }
            Err(_) => {
                let now = self.connection.pair.now;
                let refused = self.connection.pair.client.engine().call(
                    now,
                    CUSTOM_METHOD,
                    params,
                    &CallOptions::new(),
                );
                self.not_in_version(name, &refused);
                self.connection.settle();
                assert_eq!(self.connection.pair.observer.messages.len(), before, "{name}: nothing was sent");
                self.lossy_count += 1;
            }
        }
    }

    fn not_in_version<T: core::fmt::Debug>(&self, name: &str, outcome: &Result<T, UseError>) {
        match outcome {
            Err(UseError::NotInVersion { version, feature: told }) if !told.is_empty() => {
                assert_eq!(*version, self.version, "{name}");
            }
            other => panic!("{} {name}: {other:?}", self.version),
        }
    }

    fn methods(&mut self) {
        // The engine sends the other methods that only some revisions have.
        let method = "ping";
        let before = self.connection.pair.observer.messages.len();
        let now = self.connection.pair.now;
        let made = self.connection.pair.client.engine().call(now, method, &json!({}), &CallOptions::new());
        if self.table.has_method(self.version, method) {
            let outcome = self.connection.wait_for_outcome(made.expect("there is such a method"));
            assert!(outcome.is_ok(), "{method}: {outcome:?}");
        } else {
            self.not_in_version(method, &made);
            self.connection.settle();
            assert_eq!(self.connection.pair.observer.messages.len(), before, "{method}: nothing was sent");
        }
    }

    /// Checks an answer that the revision cannot express: the handler gets the error, the call stays open, and nothing
    /// is sent.
    fn refused_answers(&mut self) {
        let outcome = self.connection.call("tools/call", &CallToolParams::new("asks"));
        let refused = self.connection.refused_answers.pop();
        match self.table.lower(
            self.version,
            "InputRequiredResult",
            &to_full_value(&values::input_required_result()),
        ) {
            Ok(_) => assert_eq!(refused, None),
            Err(_) => {
                let (before, after, error) = refused.expect("refused");
                self.not_in_version("InputRequiredResult", &Err::<(), _>(error));
                assert_eq!(before, after, "nothing was written");
                assert!(matches!(outcome, Err(CallError::Rpc(_))), "{outcome:?}");
            }
        }
    }

    /// Checks the identity and capabilities of both sides. The client sends its own in the revision it asks for.
    fn identities(&mut self, client_newest: Version) {
        let peer = self.connection.peer.clone().expect("ready");
        assert_eq!(peer.version, self.version);
        let requested = if self.version == client_newest {
            client_newest
        } else {
            client_newest.min(Version::V2025_11_25)
        };
        let lower = |version: Version, name: &str, full: &Value| {
            normalize_numbers(&self.table.lower(version, name, full).expect("not refused"))
        };
        let info = to_value(&RawJson::encode(&values::info("tide-server")).expect("JSON"));
        assert_eq!(
            normalize_numbers(&to_value(&peer.info.expect("an identity"))),
            lower(self.version, "Implementation", &info)
        );
        assert_eq!(
            normalize_numbers(&to_value(&peer.capabilities)),
            lower(self.version, "ServerCapabilities", &values::server_capabilities())
        );
        let caller = self.connection.callers.last().expect("a call");
        let info = to_value(&RawJson::encode(&values::info("harbor-client")).expect("JSON"));
        assert_eq!(
            normalize_numbers(&to_value(caller.info.as_ref().expect("an identity"))),
            lower(requested, "Implementation", &info)
        );
        let capabilities = normalize_numbers(&to_value(&caller.capabilities));
        assert_eq!(capabilities, lower(requested, "ClientCapabilities", &values::client_capabilities()));
    }
}

fn read<T: serde::de::DeserializeOwned>(result: &RawJson) {
    result.parse::<T>().unwrap_or_else(|e| panic!("{e}: {result}"));
}

/// Types of the table that no engine sends for an application, that occur only inside others, or that tests of their own
/// put to use in the revisions that have them (tasks, skills).
const UNSENT_TYPES: [&str; 15] = [
    "CancelTaskParams",
    "CreateTaskResult",
    "DiscoverResult",
    "GetSkillResult",
    "GetTaskParams",
    "GetTaskPayloadParams",
    "InitializeParams",
    "InitializeResult",
    "ListSkillsResult",
    "ListTasksResult",
    "ReadDirectoryResult",
    "SubscriptionsAcknowledgedParams",
    "SubscriptionsListenResult",
    "Task",
    "UpdateTaskParams",
];

// covers: TOOL-006, TOOL-009, TOOL-014, TOOL-018, CONT-001, CONT-004, CONT-006, CONT-008, EXT-009, LIFE-013, LIFE-022
// covers: RES-008, RES-009, PROMPT-005, PROMPT-008, COMP-006, META-026, ERR-003, ERR-009, SCHEMA-011
#[test]
fn values_lost_between_revisions_match_the_published_table() {
    let table = &RevisionTable::read();
    let mut lossy = Vec::new();
    for server_newest in Version::ALL {
        for client_newest in Version::ALL {
            let version = server_newest.min(client_newest);
            let connection =
                DowngradeConnection::open(versions_up_to(client_newest), versions_up_to(server_newest));
            let mut run = DowngradeRun { connection, table, version, lossy_count: 0 };
            run.lists();
            run.handler_results();
            run.errors();
            run.parameters();
            run.methods();
            run.refused_answers();
            run.identities(client_newest);
            assert_eq!(run.connection.refused_answers, [], "{client_newest} and {server_newest}");
            // The harness has checked every message against the schemas.
            assert!(run.connection.pair.messages_in(MessageDirection::ServerToClient).count() > 20);
            lossy.push((version, run.lossy_count));
        }
    }
    assert_eq!(lossy.len(), 25);
    assert_eq!(table.unused_types(), UNSENT_TYPES, "every other type was put to use");
    lossy.sort_unstable();
    lossy.dedup();
    let (versions, losses): (Vec<_>, Vec<_>) = lossy.into_iter().unzip();
    assert_eq!(versions, Version::ALL, "what is lost depends on the revision in use alone");
    assert!(losses.windows(2).take(3).all(|w| w[0] > w[1]), "older revisions lose more: {losses:?}");
}
