//! The flows with our server in the place of theirs.

use mcp_proto::model::*;
use mcp_proto::server::{Call, Config, Engine, Event};
use mcp_proto::{CallOptions, Change, Instant, Progress, RpcError, UseError, Version, VersionSet};
use mcp_tests::harness::{LoneServer, each_cut};
use serde_json::{Value, json};

use super::{
    CANCEL_2026_07_28, DISCOVER_2026_07_28, ERRORS_2026_07_28, FULL_2025_11_25, Names, ONE_PROCESS,
    PAGES_2026_07_28, PLAIN_2024_11_05, RESOURCES_2024_11_05, STRUCTURED_2025_06_18, Step, capabilities,
    discovered, flow, given, identity, normal, typed,
};

/// The server that a flow shows
fn config(steps: &[Step], versions: VersionSet) -> Config {
    let said = |name: &str| steps.iter().find_map(|s| s.message.pointer(name).filter(|_| !s.up)).cloned();
    let info =
        said("/result/serverInfo").or_else(|| said("/result/_meta/io.modelcontextprotocol~1serverInfo"));
    let mut can = said("/result/capabilities").unwrap_or_else(|| json!({"tools": {}}));
    if can.as_object().is_some_and(serde_json::Map::is_empty) {
        can = json!({"tools": {}});
    }
    let config = Config::new("", "").info(identity(&info.expect("an identity"))).versions(versions);
    let config = config.capabilities(capabilities(&can));
    match said("/result/instructions") {
        Some(text) => config.instructions(text.as_str().expect("text")),
        None => config,
    }
}

struct Replay {
    lone: LoneServer,
    names: Names,
    /// Calls that are not answered
    open: Vec<(Value, Call)>,
    /// Messages of ours that the flow has not come to
    sent: Vec<Value>,
}

impl Replay {
    fn step(&mut self, step: &Step) {
        if step.up {
            self.lone.tell(&self.names.rename(&step.message));
            while !self.lone.is_quiet() {
                match self.lone.event() {
                    Event::Call(call) => self.open.push((step.message["id"].clone(), call)),
                    Event::Cancelled { call, .. } => self.open.retain(|(_, c)| c.id() != call),
                    Event::SessionOpened { .. }
                    | Event::Interest { .. }
                    | Event::Done { outcome: Ok(_), .. } => {}
                    other => panic!("after {}: {other:?}", step.message),
                }
            }
        } else {
            self.say(step);
        }
        self.sent.extend(self.lone.sent());
    }

    /// Our server has said, or says now, what theirs says
    fn say(&mut self, step: &Step) {
        let message = &step.message;
        let now = self.lone.now;
        let at = self
            .open
            .iter()
            .position(|(id, _)| Some(id) == message.get("id") && message.get("method").is_none());
        if let Some(at) = at {
            let (_, call) = self.open.remove(at);
            let engine = self.lone.pipe.engine();
            if let Some(error) = message.get("error") {
                let text = error["message"].as_str().expect("text").to_owned();
                let mut ours = RpcError::new(error["code"].as_i64().expect("a code"), text);
                ours.data = given(error.get("data"));
                engine.fail(now, call.id(), &ours).expect("open");
            } else {
                // The engine stamps by itself.
                let mut result = message["result"].clone();
                let members = result.as_object_mut().expect("an object");
                members.remove("resultType");
                members.remove("_meta");
                complete(engine, now, &call, &result).expect("open");
            }
        } else if message["method"] == "notifications/progress" {
            let token = &message["params"]["progressToken"];
            let asks =
                |call: &Call| call.meta().and_then(|m| m.member("progressToken")).map(|t| t.to_string());
            let call = self.open.iter().find(|(_, c)| asks(c) == Some(token.to_string())).expect("a call");
            let params = &message["params"];
            let mut progress = Progress::new(params["progress"].as_f64().expect("a number"));
            progress.total = params["total"].as_f64();
            progress.message = params["message"].as_str().map(str::to_owned);
            self.lone.pipe.engine().progress(now, call.1.id(), progress).expect("open");
        } else if message["method"] == "notifications/resources/updated" {
            let uri = message["params"]["uri"].as_str().expect("a URI").to_owned();
            self.lone.pipe.engine().publish(now, &Change::Resource(uri));
        } else if let Some(method) = message["method"].as_str().filter(|_| message.get("id").is_some()) {
            let channel = self.lone.pipe.channel();
            let options = CallOptions::new();
            self.lone.pipe.engine().request(now, channel, method, &json!({}), &options).expect("allowed");
        }
        self.sent.extend(self.lone.sent());
        if step.ignored {
            return;
        }
        assert!(!self.sent.is_empty(), "ours says nothing where theirs says {message}");
        let ours = self.sent.remove(0);
        if message.get("method").is_some() && message.get("id").is_some() {
            self.names.add(&message["id"], &ours["id"]);
        }
        assert_eq!(normal(&ours), normal(&self.names.rename(message)));
    }
}

/// Answers a call with the result that belongs to its method
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

fn replay(text: &str, versions: VersionSet, steps: impl Fn(Vec<Step>) -> Vec<Step>) {
    let steps = steps(flow(text));
    each_cut(|cut| {
        let lone = LoneServer::server(config(&steps, versions), cut);
        let mut replay = Replay { lone, names: Names::default(), open: Vec::new(), sent: Vec::new() };
        for step in &steps {
            replay.step(step);
        }
        assert!(replay.sent.is_empty(), "ours says more: {:?}", replay.sent);
        assert!(replay.open.is_empty(), "never answered: {:?}", replay.open);
        replay.lone.transcript
    });
}

// covers: LIFE-001, LIFE-002, LIFE-003, LIFE-004, VER-003, PROG-006, CANC-010, CANC-013, PING-001, PING-002
#[test]
fn a_session_of_2024_11_05() {
    for versions in [VersionSet::only(Version::V2024_11_05), VersionSet::ALL] {
        replay(PLAIN_2024_11_05, versions, |steps| steps);
    }
}

// covers: CANC-013, CANC-020
#[test]
fn the_late_answer_of_that_session_cannot_be_given_here() {
    let steps = flow(PLAIN_2024_11_05);
    let late = steps.iter().position(|s| s.ignored).expect("the late answer");
    let mut lone = LoneServer::server(config(&steps, VersionSet::ALL), mcp_tests::harness::Chunker::Whole);
    let mut keys = Vec::new();
    for step in steps.iter().take(late).filter(|s| s.up) {
        lone.tell(&step.message);
        while !lone.is_quiet() {
            if let Event::Call(call) = lone.event() {
                keys.push(call.id());
            }
        }
    }
    let now = lone.now;
    let refused = lone.pipe.engine().complete(now, *keys.last().expect("a call"), &json!({"content": []}));
    assert_eq!(refused, Err(UseError::Stale));
}

// covers: LIFE-001, LIFE-022, META-026, PROG-006, CANC-010
#[test]
fn a_session_of_2025_11_25_with_icons() {
    replay(FULL_2025_11_25, VersionSet::LEGACY, |steps| steps);
}

// covers: VER-011, VER-013, META-009, META-010, META-018, CACHE-001, BASE-026, PROG-007, PING-006, META-022
#[test]
fn requests_of_2026_07_28() {
    for versions in [VersionSet::MODERN, VersionSet::ALL] {
        replay(DISCOVER_2026_07_28, versions, |steps| steps);
    }
}

// covers: CANC-016, CANC-020, STDIO-017, STDIO-019, LOG-010
#[test]
fn cancelling_in_2026_07_28() {
    replay(CANCEL_2026_07_28, VersionSet::ALL, |steps| steps);
}

// covers: VER-009, VER-010, ERR-007, ERR-008, META-014, META-017
#[test]
fn versions_and_metadata_that_do_not_fit_2026_07_28() {
    replay(ERRORS_2026_07_28, VersionSet::MODERN, |mut steps| {
        // The last exchange is about headers.
        steps.truncate(steps.len() - 2);
        steps
    });
}

// covers: VER-001, VER-017, VER-018, META-015
#[test]
fn both_eras_in_one_process() {
    replay(ONE_PROCESS, VersionSet::ALL, |steps| steps);
}

// covers: RES-003, RES-004, RES-005, RES-006, RES-010, RES-015, PAGE-007, PAGE-008, PROMPT-003, PROMPT-004, COMP-002
#[test]
fn resources_prompts_and_completions_of_2024_11_05() {
    for versions in [VersionSet::only(Version::V2024_11_05), VersionSet::ALL] {
        replay(RESOURCES_2024_11_05, versions, |steps| steps);
    }
}

// covers: TOOL-013, TOOL-014, TOOL-018, COMP-006, CONT-004
#[test]
fn structured_results_of_2025_06_18() {
    for versions in [VersionSet::only(Version::V2025_06_18), VersionSet::LEGACY] {
        replay(STRUCTURED_2025_06_18, versions, |steps| steps);
    }
}

// covers: CACHE-001, CACHE-016, CACHE-017, PAGE-003, PAGE-011, PAGE-013, RES-016, RES-017
#[test]
fn pages_of_2026_07_28() {
    replay(PAGES_2026_07_28, VersionSet::MODERN, discovered);
}
