//! The flows replayed against the server.

use mcp_proto::model::*;
use mcp_proto::server::{Call, Config, Engine, Event};
use mcp_proto::{CallOptions, Change, Instant, Progress, RpcError, UseError, Version, VersionSet};
use mcp_tests::harness::{ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use super::{
    CANCEL_2026_07_28, DISCOVER_2026_07_28, ERRORS_2026_07_28, FULL_2025_11_25, IdMap, ONE_PROCESS,
    PAGES_2026_07_28, PLAIN_2024_11_05, RESOURCES_2024_11_05, STRUCTURED_2025_06_18, TranscriptStep,
    normalize, optional_json, parse_capabilities, parse_flow, parse_identity, typed, with_discovery,
};

/// Configures the server that a flow shows.
fn config(steps: &[TranscriptStep], versions: VersionSet) -> Config {
    let server_member = |name: &str| {
        steps.iter().find_map(|s| s.message.pointer(name).filter(|_| !s.is_from_client)).cloned()
    };
    let info = server_member("/result/serverInfo")
        .or_else(|| server_member("/result/_meta/io.modelcontextprotocol~1serverInfo"));
    let mut capabilities = server_member("/result/capabilities").unwrap_or_else(|| json!({"tools": {}}));
    if capabilities.as_object().is_some_and(serde_json::Map::is_empty) {
        capabilities = json!({"tools": {}});
    }
    let config = Config::new("", "").info(parse_identity(&info.expect("an identity"))).versions(versions);
    // The transcripts are of servers that name the modern revisions alone.
    let config = config.advertise_legacy(false);
    let config = config.capabilities(parse_capabilities(&capabilities));
    match server_member("/result/instructions") {
        Some(text) => config.instructions(text.as_str().expect("text")),
        None => config,
    }
}

struct ServerReplay {
    harness: ServerHarness,
    ids: IdMap,
    /// Calls that have not been answered.
    open: Vec<(Value, Call)>,
    /// Messages that the server has sent ahead of the flow.
    sent: Vec<Value>,
}

impl ServerReplay {
    fn step(&mut self, step: &TranscriptStep) {
        if step.is_from_client {
            self.harness.feed_message(&self.ids.translate(&step.message));
            while !self.harness.has_no_events() {
                match self.harness.expect_event() {
                    Event::Call(call) => self.open.push((step.message["id"].clone(), call)),
                    Event::Cancelled { call, .. } => self.open.retain(|(_, c)| c.id() != call),
                    Event::SessionOpened { .. }
                    | Event::ResourceInterest { .. }
                    | Event::Done { outcome: Ok(_), .. } => {}
                    other => panic!("after {}: {other:?}", step.message),
                }
            }
        } else {
            self.act(step);
        }
        self.sent.extend(self.harness.take_sent());
    }

    /// Makes the server send the message of the flow, unless it has sent it already.
    fn act(&mut self, step: &TranscriptStep) {
        let message = &step.message;
        let now = self.harness.now;
        let at = self
            .open
            .iter()
            .position(|(id, _)| Some(id) == message.get("id") && message.get("method").is_none());
        if let Some(at) = at {
            let (_, call) = self.open.remove(at);
            let engine = self.harness.pipe.engine();
            if let Some(error) = message.get("error") {
                let text = error["message"].as_str().expect("text").to_owned();
                let mut failure = RpcError::new(error["code"].as_i64().expect("a code"), text);
                failure.data = optional_json(error.get("data"));
                engine.fail(now, call.id(), &failure).expect("open");
            } else {
                // The engine adds these members.
                let mut result = message["result"].clone();
                let members = result.as_object_mut().expect("an object");
                members.remove("resultType");
                members.remove("_meta");
                complete(engine, now, &call, &result).expect("open");
            }
        } else if message["method"] == "notifications/progress" {
            let token = &message["params"]["progressToken"];
            let progress_token =
                |call: &Call| call.meta().and_then(|m| m.member("progressToken")).map(|t| t.to_string());
            let call =
                self.open.iter().find(|(_, c)| progress_token(c) == Some(token.to_string())).expect("a call");
            let params = &message["params"];
            let mut progress = Progress::new(params["progress"].as_f64().expect("a number"));
            progress.total = params["total"].as_f64();
            progress.message = params["message"].as_str().map(str::to_owned);
            self.harness.pipe.engine().progress(now, call.1.id(), progress).expect("open");
        } else if message["method"] == "notifications/resources/updated" {
            let uri = message["params"]["uri"].as_str().expect("a URI").to_owned();
            self.harness.pipe.engine().publish(now, &Change::Resource(uri));
        } else if let Some(method) = message["method"].as_str().filter(|_| message.get("id").is_some()) {
            let channel = self.harness.pipe.channel();
            let options = CallOptions::new();
            self.harness.pipe.engine().request(now, channel, method, &json!({}), &options).expect("allowed");
        }
        self.sent.extend(self.harness.take_sent());
        if step.is_ignored {
            return;
        }
        assert!(!self.sent.is_empty(), "the server sent nothing, the flow has {message}");
        let sent = self.sent.remove(0);
        if message.get("method").is_some() && message.get("id").is_some() {
            self.ids.insert(&message["id"], &sent["id"]);
        }
        assert_eq!(normalize(&sent), normalize(&self.ids.translate(message)));
    }
}

/// Completes a call with the result type of its method.
pub(crate) fn complete(
    engine: &mut Engine,
    now: Instant,
    call: &Call,
    result: &Value,
) -> Result<(), UseError> {
    typed! { call.method(), result, |typed| engine.complete(now, call.id(), typed),
        "tools/list" ListToolsResult;
        "tools/call" CallToolResult<'_>;
        "resources/list" ListResourcesResult;
        "resources/templates/list" ListResourceTemplatesResult;
        "resources/read" ReadResourceResult<'_>;
        "prompts/list" ListPromptsResult;
        "prompts/get" GetPromptResult<'_>;
        "completion/complete" CompleteResult;
        "logging/setLevel" EmptyResult;
    }
}

fn replay(text: &str, versions: VersionSet, steps: impl Fn(Vec<TranscriptStep>) -> Vec<TranscriptStep>) {
    let steps = steps(parse_flow(text));
    for_each_chunker(|cut| {
        let harness = ServerHarness::server(config(&steps, versions), cut);
        let mut replay = ServerReplay { harness, ids: IdMap::default(), open: Vec::new(), sent: Vec::new() };
        for step in &steps {
            replay.step(step);
        }
        assert!(replay.sent.is_empty(), "the server sent more than the flow: {:?}", replay.sent);
        assert!(replay.open.is_empty(), "never answered: {:?}", replay.open);
        replay.harness.transcript
    });
}

// covers: LIFE-001, LIFE-002, LIFE-003, LIFE-004, VER-003, PROG-006, CANC-010, CANC-013, PING-001, PING-002
#[test]
fn server_matches_flow_plain_session_2024_11_05() {
    for versions in [VersionSet::only(Version::V2024_11_05), VersionSet::ALL] {
        replay(PLAIN_2024_11_05, versions, |steps| steps);
    }
}

// covers: CANC-013, CANC-020
#[test]
fn late_answer_of_the_2024_11_05_flow_is_refused() {
    let steps = parse_flow(PLAIN_2024_11_05);
    let late = steps.iter().position(|s| s.is_ignored).expect("the late answer");
    let mut harness =
        ServerHarness::server(config(&steps, VersionSet::ALL), mcp_tests::harness::Chunker::Whole);
    let mut keys = Vec::new();
    for step in steps.iter().take(late).filter(|s| s.is_from_client) {
        harness.feed_message(&step.message);
        while !harness.has_no_events() {
            if let Event::Call(call) = harness.expect_event() {
                keys.push(call.id());
            }
        }
    }
    let now = harness.now;
    let refused = harness.pipe.engine().complete(now, *keys.last().expect("a call"), &json!({"content": []}));
    assert_eq!(refused, Err(UseError::Stale));
}

// covers: LIFE-001, LIFE-022, META-026, PROG-006, CANC-010
#[test]
fn server_matches_flow_full_session_2025_11_25() {
    replay(FULL_2025_11_25, VersionSet::LEGACY, |steps| steps);
}

// covers: VER-011, VER-013, META-009, META-010, META-018, CACHE-001, BASE-026, PROG-007, PING-006, META-022
#[test]
fn server_matches_flow_discover_2026_07_28() {
    for versions in [VersionSet::MODERN, VersionSet::ALL] {
        replay(DISCOVER_2026_07_28, versions, |steps| steps);
    }
}

// covers: CANC-016, CANC-020, STDIO-017, STDIO-019, LOG-010
#[test]
fn server_matches_flow_cancellation_2026_07_28() {
    replay(CANCEL_2026_07_28, VersionSet::ALL, |steps| steps);
}

// covers: VER-009, VER-010, ERR-007, ERR-008, META-014, META-017
#[test]
fn server_matches_flow_version_and_meta_errors_2026_07_28() {
    replay(ERRORS_2026_07_28, VersionSet::MODERN, |mut steps| {
        // The last exchange is about header fields.
        steps.truncate(steps.len() - 2);
        steps
    });
}

// covers: VER-001, VER-017, VER-018, META-015
#[test]
fn server_matches_flow_both_eras_in_one_process() {
    replay(ONE_PROCESS, VersionSet::ALL, |steps| steps);
}

// covers: RES-003, RES-004, RES-005, RES-006, RES-010, RES-015, PAGE-007, PAGE-008, PROMPT-003, PROMPT-004, COMP-002
#[test]
fn server_matches_flow_resources_and_prompts_2024_11_05() {
    for versions in [VersionSet::only(Version::V2024_11_05), VersionSet::ALL] {
        replay(RESOURCES_2024_11_05, versions, |steps| steps);
    }
}

// covers: TOOL-013, TOOL-014, TOOL-018, COMP-006, CONT-004
#[test]
fn server_matches_flow_structured_results_2025_06_18() {
    for versions in [VersionSet::only(Version::V2025_06_18), VersionSet::LEGACY] {
        replay(STRUCTURED_2025_06_18, versions, |steps| steps);
    }
}

// covers: CACHE-001, CACHE-016, CACHE-017, PAGE-003, PAGE-011, PAGE-013, RES-016, RES-017
#[test]
fn server_matches_flow_pages_2026_07_28() {
    replay(PAGES_2026_07_28, VersionSet::MODERN, with_discovery);
}
