//! Fixtures of `serve --everything` with input requests, log messages and changes, in both eras.

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use mcp_blocking::{Client, ClientHandler, Options, Program};
use mcp_proto::client::{Input, LogMessage};
use mcp_proto::model::{
    CallToolParams, CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, ElicitValue,
    GetPromptParams, InputRequest, InputResponse, ListRootsResult, LoggingLevel, Map, Role, Root,
    SubscriptionFilter,
};
use mcp_proto::{Capabilities, Capability, Change, RawJson, RpcError, Version, VersionSet, client};
use serde_json::{Value, json};

use crate::support::PROBE;

const ERAS: [Version; 2] = [Version::V2025_11_25, Version::V2026_07_28];

/// Events and input requests that a client received, in order.
#[derive(Clone, Default)]
struct SeenEvents(Arc<Mutex<Vec<Value>>>);

impl SeenEvents {
    fn note(&self, what: Value) {
        self.0.lock().expect("no panic under this lock").push(what);
    }

    fn take(&self) -> Vec<Value> {
        core::mem::take(&mut self.0.lock().expect("no panic under this lock"))
    }
}

/// A user that answers as the conformance suite does.
#[derive(Clone, Default)]
struct FixtureUser {
    seen: SeenEvents,
    declines_all: bool,
}

impl ClientHandler for FixtureUser {
    #[expect(deprecated, reason = "tested until its removal")]
    fn input(&self, input: &Input) -> Option<Result<InputResponse<'static>, RpcError>> {
        let request = serde_json::to_value(&*input.request).expect("JSON");
        self.seen.note(json!({"key": input.key.as_deref(), "asked": request}));
        Some(match &*input.request {
            InputRequest::Elicit(params) => self.elicit(params).map(Into::into),
            InputRequest::CreateMessage(params) => self.sample(params).map(Into::into),
            InputRequest::ListRoots(_) => self.roots().map(Into::into),
            other => panic!("{other:?}"),
        })
    }

    fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let ElicitParams::Form(form) = params else { return Ok(ElicitResult::accept(Map::new())) };
        if self.declines_all {
            return Ok(ElicitResult::decline());
        }
        let known: [(&str, ElicitValue); 12] = [
            ("name", "Alice".into()),
            ("color", "blue".into()),
            ("context", "test context".into()),
            ("ok", true.into()),
            ("confirm", true.into()),
            ("username", "testuser".into()),
            ("email", "test@example.com".into()),
            ("untitledSingle", "option1".into()),
            ("titledSingle", "value1".into()),
            ("legacyEnum", "opt1".into()),
            ("untitledMulti", vec!["option1".to_owned(), "option2".to_owned()].into()),
            ("titledMulti", vec!["value1".to_owned(), "value2".to_owned()].into()),
        ];
        let fields = &form.requested_schema.properties;
        let given = known.into_iter().filter(|(name, _)| fields.get(name).is_some());
        let given: Map<ElicitValue> = given.map(|(name, value)| (name.to_owned(), value)).collect();
        Ok(ElicitResult::accept(form.requested_schema.fill_defaults(given)))
    }

    fn sample(&self, _: &CreateMessageParams<'_>) -> Result<CreateMessageResult<'static>, RpcError> {
        Ok(CreateMessageResult::new(Role::Assistant, "Paris", "test-model"))
    }

    fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Ok(ListRootsResult::new(vec![Root::new("file:///test/root").name("Test Root")]))
    }

    fn log(&self, log: &LogMessage) {
        self.seen.note(json!({"log": log.level.as_str(), "data": log.data}));
    }

    fn changed(&self, change: &Change) {
        self.seen.note(match change {
            Change::Resource(uri) => json!({ "changed": uri }),
            list => json!({"changed": format!("{list:?}")}),
        });
    }
}

#[expect(deprecated, reason = "tested until its removal")]
fn connect(version: Version, person: FixtureUser) -> Client {
    let all =
        [Capability::ElicitationForm, Capability::ElicitationUrl, Capability::Sampling, Capability::Roots];
    let capabilities = all.into_iter().fold(Capabilities::new(), Capabilities::with);
    let config =
        client::Config::new("person", "1").versions(VersionSet::only(version)).capabilities(capabilities);
    let program = Program::new(PROBE).args(["serve", "--everything"]);
    Options::new(config).handler(person).spawn(program).expect("a connection")
}

fn call(client: &mut Client, tool: &str, arguments: &Value) -> String {
    let mut params = CallToolParams::new(tool);
    params.arguments = Some(RawJson::encode(arguments).expect("JSON"));
    let result = client.send(&params).unwrap_or_else(|error| panic!("{tool}: {error}"));
    assert!(!result.is_failure(), "{tool}: {result:?}");
    result.content[0].as_text().expect("a text").to_owned()
}

/// A tool, its arguments, the expected text, and the expected input requests as keys and methods.
type FixtureCase = (&'static str, Value, &'static str, &'static [(&'static str, &'static str)]);

const ELICIT: &str = "elicitation/create";
const SAMPLE: &str = "sampling/createMessage";
const ROOTS: &str = "roots/list";

fn cases() -> Vec<FixtureCase> {
    let none = || json!({});
    vec![
        ("test_sampling", json!({"prompt": "Hi"}), "LLM response: Paris", &[("model", SAMPLE)]),
        (
            "test_elicitation",
            json!({"message": "Who?"}),
            r#"User response: action=accept, content={"username":"testuser","email":"test@example.com"}"#,
            &[("user", ELICIT)],
        ),
        (
            "test_elicitation_sep1034_defaults",
            none(),
            r#"User response: action=accept, content={"name":"Alice","age":30,"score":95.5,"status":"active","verified":true}"#,
            &[("profile", ELICIT)],
        ),
        (
            "test_elicitation_sep1330_enums",
            none(),
            r#"User response: action=accept, content={"untitledSingle":"option1","titledSingle":"value1","legacyEnum":"opt1","untitledMulti":["option1","option2"],"titledMulti":["value1","value2"]}"#,
            &[("choices", ELICIT)],
        ),
        ("test_elicitation_url", none(), "User response: action=accept", &[("page", ELICIT)]),
        (
            "test_streaming_elicitation",
            none(),
            r#"User response: action=accept, content={"confirm":true}"#,
            &[("confirmation", ELICIT)],
        ),
        ("test_input_required_result_elicitation", none(), "Hello, Alice!", &[("user_name", ELICIT)]),
        (
            "test_input_required_result_sampling",
            none(),
            "LLM response: Paris",
            &[("capital_question", SAMPLE)],
        ),
        (
            "test_input_required_result_list_roots",
            none(),
            "Roots: file:///test/root",
            &[("client_roots", ROOTS)],
        ),
        (
            "test_input_required_result_request_state",
            none(),
            r#"state-ok: asked for a confirmation; User response: action=accept, content={"ok":true}"#,
            &[("confirm", ELICIT)],
        ),
        (
            "test_input_required_result_tampered_state",
            none(),
            r#"state-ok: asked for a confirmation; User response: action=accept, content={"ok":true}"#,
            &[("confirm", ELICIT)],
        ),
        (
            "test_input_required_result_multiple_inputs",
            none(),
            "Hello, Alice! Paris Roots: file:///test/root",
            &[("user_name", ELICIT), ("greeting", SAMPLE), ("client_roots", ROOTS)],
        ),
        (
            "test_input_required_result_multi_round",
            none(),
            "Hello, Alice! Your colour is blue.",
            &[("step1", ELICIT), ("step2", ELICIT)],
        ),
        (
            "test_input_required_result_capabilities",
            none(),
            "Hello, Alice! LLM response: Paris Roots: file:///test/root",
            &[("user_name", ELICIT), ("capital_question", SAMPLE), ("client_roots", ROOTS)],
        ),
    ]
}

// covers: MRTR-001, MRTR-012, MRTR-014, MRTR-026, ELIC-006, ELIC-018, SAMP-003, SAMP-005, ROOT-002
#[test]
fn fixtures_with_input_requests_complete_in_both_eras() {
    for version in ERAS {
        let person = FixtureUser::default();
        let mut client = connect(version, person.clone());
        for (tool, arguments, want, asked) in cases() {
            assert_eq!(call(&mut client, tool, &arguments), want, "{tool} in {version}");
            let seen = person.seen.take();
            let keys: Vec<_> =
                seen.iter().map(|s| (s["key"].clone(), s["asked"]["method"].clone())).collect();
            // A legacy request has no key.
            let key = |key: &str| if version == Version::V2026_07_28 { json!(key) } else { Value::Null };
            let wanted: Vec<_> = asked.iter().map(|(name, method)| (key(name), json!(method))).collect();
            assert_eq!(keys, wanted, "{tool} in {version}");
        }
        let prompt =
            client.send(&GetPromptParams::new("test_input_required_result_prompt")).expect("a prompt");
        let text = serde_json::to_value(&prompt.messages[0].content).expect("JSON");
        assert_eq!(text["text"], "Use the following context: test context");
        client.close().expect("an end");
    }
}

// covers: ELIC-018
#[test]
fn fixtures_report_declined_elicitation() {
    for version in ERAS {
        let mut client = connect(version, FixtureUser { declines_all: true, ..FixtureUser::default() });
        let declined = "User response: action=decline";
        assert_eq!(call(&mut client, "test_elicitation", &json!({"message": "x"})), declined);
        assert_eq!(call(&mut client, "test_input_required_result_elicitation", &json!({})), declined);
    }
}

// covers: ELIC-012, ELIC-013, ELIC-014, ELIC-015, ELIC-016, ELIC-017
#[test]
fn elicitation_forms_match_the_conformance_suite() {
    let person = FixtureUser::default();
    let mut client = connect(Version::V2025_11_25, person.clone());
    let mut form = |tool: &str| {
        call(&mut client, tool, &json!({}));
        person.seen.take()[0]["asked"]["params"]["requestedSchema"]["properties"].clone()
    };
    let fields = form("test_elicitation_sep1034_defaults");
    let defaults: [(&str, &str, Value); 5] = [
        ("name", "string", json!("John Doe")),
        ("age", "integer", json!(30)),
        ("score", "number", json!(95.5)),
        ("status", "string", json!("active")),
        ("verified", "boolean", json!(true)),
    ];
    for (name, kind, default) in defaults {
        assert_eq!((&fields[name]["type"], &fields[name]["default"]), (&json!(kind), &default), "{name}");
    }
    assert_eq!(fields["status"]["enum"], json!(["active", "inactive", "pending"]));

    let fields = form("test_elicitation_sep1330_enums");
    let options = json!(["option1", "option2", "option3"]);
    let titled = json!([
        {"const": "value1", "title": "First Option"},
        {"const": "value2", "title": "Second Option"},
        {"const": "value3", "title": "Third Option"},
    ]);
    let lacks = |field: &Value, names: &[&str]| names.iter().all(|name| field.get(name).is_none());
    let field = &fields["untitledSingle"];
    assert!(field["enum"] == options && lacks(field, &["oneOf", "enumNames"]), "{field}");
    let field = &fields["titledSingle"];
    assert!(field["oneOf"] == titled && lacks(field, &["enum"]), "{field}");
    let field = &fields["legacyEnum"];
    assert_eq!(field["enum"], json!(["opt1", "opt2", "opt3"]));
    assert_eq!(field["enumNames"], json!(["Option One", "Option Two", "Option Three"]));
    let field = &fields["untitledMulti"];
    assert_eq!(field["type"], "array");
    assert!(field["items"]["enum"] == options && lacks(&field["items"], &["anyOf"]), "{field}");
    let field = &fields["titledMulti"];
    assert!(field["items"]["anyOf"] == titled && lacks(&field["items"], &["enum"]), "{field}");
}

// covers: LOG-003, LOG-005, LOG-007, LOG-008
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn logs_arrive_from_the_requested_level() {
    for version in ERAS {
        let person = FixtureUser::default();
        let mut client = connect(version, person.clone());
        let logged = |client: &mut Client, tool: &str| {
            call(client, tool, &json!({}));
            // Log messages that precede the answer have been handled before it.
            person
                .seen
                .take()
                .iter()
                .map(|log| log["log"].as_str().expect("a log").to_owned())
                .collect::<Vec<_>>()
        };
        let unasked: &[&str] = if version == Version::V2026_07_28 { &[] } else { &["debug", "info"] };
        assert_eq!(logged(&mut client, "test_logging_tool"), unasked, "{version}");
        client.set_log_level(Some(LoggingLevel::Info)).expect("it logs");
        assert_eq!(logged(&mut client, "test_logging_tool"), ["info"], "{version}");
        assert_eq!(logged(&mut client, "test_tool_with_logging"), ["info"; 3], "{version}");
        client.set_log_level(Some(LoggingLevel::Error)).expect("it logs");
        assert_eq!(logged(&mut client, "test_tool_with_logging"), [""; 0], "{version}");
    }
}

/// Waits until `wanted` events have arrived.
fn wait(client: &mut Client, seen: &SeenEvents, wanted: usize) -> Vec<Value> {
    let until = Instant::now() + Duration::from_secs(20);
    let mut all = Vec::new();
    while all.len() < wanted {
        assert!(Instant::now() < until, "only {all:?}");
        client.poll(Duration::from_millis(50)).expect("open");
        all.extend(seen.take());
    }
    all
}

// covers: SUB-002, SUB-003, SUB-006, SUB-012, RES-010, RES-011, RES-012, TOOL-019, PROMPT-009
#[test]
fn changes_reach_subscribed_client() {
    for version in ERAS {
        let person = FixtureUser::default();
        let mut client = connect(version, person.clone());
        let filter = SubscriptionFilter::new()
            .tools_list_changed(true)
            .prompts_list_changed(true)
            .resources_list_changed(true)
            .resource_subscriptions(["test://watched-resource".to_owned(), "note://a".to_owned()]);
        let (subscription, honoured) = client.subscribe(&filter).expect("acknowledged");
        let uris = honoured.resource_subscriptions.as_ref().map(Vec::len);
        assert_eq!((honoured.tools_list_changed, uris), (Some(true), Some(2)), "{version}");

        assert_eq!(call(&mut client, "test_touch_watched_resource", &json!({})), "changed 1 times");
        assert_eq!(wait(&mut client, &person.seen, 1), [json!({"changed": "test://watched-resource"})]);
        call(&mut client, "test_trigger_tool_change", &json!({}));
        assert_eq!(wait(&mut client, &person.seen, 1), [json!({"changed": "Tools"})]);
        call(&mut client, "test_trigger_prompt_change", &json!({}));
        assert_eq!(wait(&mut client, &person.seen, 1), [json!({"changed": "Prompts"})]);

        // A new note changes the list too; writing it again changes only the note.
        for wanted in [&["note://a", "Resources"][..], &["note://a"]] {
            call(&mut client, "write_note", &json!({"title": "a", "text": "x"}));
            let changes = wait(&mut client, &person.seen, wanted.len());
            let wanted: Vec<_> = wanted.iter().map(|what| json!({ "changed": what })).collect();
            assert_eq!(changes, wanted, "{version}");
        }

        // Lists are cached until a change is reported.
        let has_bell = |client: &mut Client| {
            client.list_tools().expect("tools").iter().any(|tool| tool.name == "annex_bell")
        };
        assert!(!has_bell(&mut client));
        for open in [true, false] {
            call(&mut client, "annex", &json!({ "open": open }));
            let mut changed = wait(&mut client, &person.seen, 3);
            changed.sort_by_key(Value::to_string);
            let lists = ["Prompts", "Resources", "Tools"].map(|list| json!({ "changed": list }));
            assert_eq!(changed, lists, "{version}");
            assert_eq!(has_bell(&mut client), open, "{version}");
        }

        client.unsubscribe(subscription).expect("it was there");
        call(&mut client, "test_touch_watched_resource", &json!({}));
        client.poll(Duration::from_millis(100)).expect("open");
        assert_eq!(person.seen.take(), [Value::Null; 0], "{version}");
    }
}

// covers: RES-010, SUB-012
#[test]
fn clock_changes_only_while_followed() {
    for version in ERAS {
        let person = FixtureUser::default();
        let mut client = connect(version, person.clone());
        let filter = SubscriptionFilter::new().resource_subscriptions(["clock://running".to_owned()]);
        let (subscription, _) = client.subscribe(&filter).expect("acknowledged");
        let ticks = wait(&mut client, &person.seen, 2);
        assert!(ticks.iter().all(|tick| *tick == json!({"changed": "clock://running"})), "{ticks:?}");
        client.unsubscribe(subscription).expect("it was there");
        // The ping collects notifications that were already on the way.
        client.ping().expect("alive");
        person.seen.take();
        client.poll(Duration::from_millis(600)).expect("open");
        assert_eq!(person.seen.take(), [Value::Null; 0], "{version}");
    }
}
