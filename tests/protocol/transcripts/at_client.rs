//! The flows with our client in the place of theirs.

use mcp_proto::client::{Config, Engine, Event, SubscriptionKey};
use mcp_proto::model::*;
use mcp_proto::{CallError, CallKey, CallOptions, Instant, UseError, Version, VersionSet};
use mcp_tests::harness::build::{raw, value};
use mcp_tests::harness::{LoneClient, each_cut};
use serde_json::{Map, Value, json};

use super::{
    DISCOVER_2026_07_28, FALLBACK, FULL_2025_11_25, Names, PAGES_2026_07_28, PLAIN_2024_11_05,
    RESOURCES_2024_11_05, STRUCTURED_2025_06_18, Step, capabilities, discovered, flow, identity, normal,
    typed,
};

const INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";

/// The client that a flow shows
fn config(steps: &[Step], versions: VersionSet) -> Config {
    let first = &steps[0].message["params"];
    let meta = &first["_meta"];
    let (info, can) = match meta.get(INFO_KEY) {
        Some(info) => (info, &meta["io.modelcontextprotocol/clientCapabilities"]),
        None => (&first["clientInfo"], &first["capabilities"]),
    };
    Config::new("", "").info(identity(info)).capabilities(capabilities(can)).versions(versions)
}

struct Replay {
    lone: LoneClient,
    names: Names,
    calls: Vec<(Value, CallKey)>,
    following: Option<SubscriptionKey>,
    /// What each call has to come to
    outcomes: Vec<(CallKey, Value)>,
    sent: Vec<Value>,
}

impl Replay {
    fn step(&mut self, step: &Step) {
        self.sent.extend(self.lone.sent());
        if step.up {
            self.ask(&step.message);
        } else {
            self.hear(step);
        }
    }

    /// Our client has said, or says now, what theirs says
    fn ask(&mut self, message: &Value) {
        let now = self.lone.now;
        match message["method"].as_str() {
            // Our own to send, and sent already.
            None | Some("initialize" | "server/discover" | "notifications/initialized") => {}
            Some("notifications/cancelled") => {
                let (_, key) =
                    self.calls.iter().find(|(id, _)| *id == message["params"]["requestId"]).expect("a call");
                let reason = message["params"]["reason"].as_str();
                self.lone.pipe.engine().cancel(now, *key, reason).expect("open");
                self.outcomes.push((*key, json!("cancelled")));
            }
            // No calls here: what is followed is the engine's to say.
            Some("resources/subscribe") => {
                let uri = message["params"]["uri"].as_str().expect("a URI").to_owned();
                let filter = SubscriptionFilter::new().resource_subscriptions([uri]);
                self.following = Some(self.lone.pipe.engine().subscribe(now, &filter).expect("allowed"));
            }
            Some("logging/setLevel") => {
                let level = message["params"]["level"].as_str().expect("a level").into();
                self.lone.pipe.engine().set_log_level(now, Some(level)).expect("allowed");
            }
            Some("resources/unsubscribe") => {
                let key = self.following.take().expect("a subscription");
                self.lone.pipe.engine().unsubscribe(now, key).expect("open");
            }
            Some(method) => {
                let mut params = message.get("params").cloned().unwrap_or_else(|| json!({}));
                let meta =
                    params.as_object_mut().and_then(|p| p.remove("_meta")).unwrap_or_else(|| json!({}));
                let meta: Map<_, _> = meta.as_object().expect("an object").clone();
                let own = |key: &str| !key.starts_with("io.modelcontextprotocol/") && key != "progressToken";
                let mine: Map<_, _> =
                    meta.iter().filter(|(k, _)| own(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
                let mut options = CallOptions::new();
                options.progress = meta.contains_key("progressToken");
                options.meta = (!mine.is_empty()).then(|| raw(&mine.into()));
                let key = call(self.lone.pipe.engine(), now, method, &params, &options).expect("allowed");
                self.calls.push((message["id"].clone(), key));
            }
        }
        self.sent.extend(self.lone.sent());
        assert!(!self.sent.is_empty(), "ours says nothing where theirs says {message}");
        let mut ours = self.sent.remove(0);
        if message.get("method").is_some() {
            self.names.add(&message["id"], &ours["id"]);
            if let Some(token) = message.pointer("/params/_meta/progressToken") {
                self.names.add(token, &ours["params"]["_meta"]["progressToken"]);
            }
        }
        // The flow shows that identity may be left out.
        if message.pointer("/params/_meta").is_some_and(|meta| meta.get(INFO_KEY).is_none()) {
            ours["params"]["_meta"].as_object_mut().expect("metadata").remove(INFO_KEY);
        }
        assert_eq!(normal(&ours), normal(&self.names.rename(message)));
    }

    fn hear(&mut self, step: &Step) {
        let message = self.names.rename(&step.message);
        if message.get("method").is_none() && !step.ignored {
            if let Some((_, key)) = self.calls.iter().find(|(id, _)| *id == step.message["id"]) {
                let outcome = message.get("result").or_else(|| message.get("error")).expect("an outcome");
                self.outcomes.push((*key, outcome.clone()));
            }
        }
        self.lone.tell(&message);
    }

    /// Every call has come to what the flow says
    fn check(&mut self) {
        let mut left = core::mem::take(&mut self.outcomes);
        while !self.lone.is_quiet() {
            let Event::Done { call, outcome, .. } = self.lone.event() else { continue };
            let (_, want) = left.remove(left.iter().position(|(key, _)| *key == call).expect("once"));
            match outcome {
                Ok(result) => assert_eq!(value(&result), want),
                Err(CallError::Rpc(error)) => {
                    assert_eq!(
                        (json!(error.code), json!(error.message)),
                        (want["code"].clone(), want["message"].clone())
                    );
                }
                Err(other) => assert_eq!(json!(other.to_string()), want),
            }
        }
        assert!(left.is_empty(), "never told: {left:?}");
    }
}

/// Makes a call with the parameters that belong to its method
fn call(
    engine: &mut Engine,
    now: Instant,
    method: &str,
    params: &Value,
    options: &CallOptions,
) -> Result<CallKey, UseError> {
    typed! { method, params, |typed| engine.call(now, method, typed, options),
        "tools/list" PaginatedParams;
        "tools/call" CallToolParams<'_>;
        "resources/list" PaginatedParams;
        "resources/templates/list" PaginatedParams;
        "resources/read" ReadResourceParams<'_>;
        "prompts/list" PaginatedParams;
        "prompts/get" GetPromptParams<'_>;
        "completion/complete" CompleteParams<'_>;
    }
}

fn replay(
    text: &str,
    versions: VersionSet,
    steps: impl Fn(Vec<Step>) -> Vec<Step>,
) -> mcp_proto::client::Peer {
    let steps = steps(flow(text));
    let mut peer = None;
    for cut in mcp_tests::harness::Chunker::EACH {
        let lone = LoneClient::client(config(&steps, versions), cut);
        let (calls, outcomes) = (Vec::new(), Vec::new());
        let mut replay =
            Replay { lone, names: Names::default(), calls, following: None, outcomes, sent: Vec::new() };
        for step in &steps {
            replay.step(step);
        }
        replay.sent.extend(replay.lone.sent());
        assert!(replay.sent.is_empty(), "ours says more: {:?}", replay.sent);
        replay.check();
        peer = replay.lone.pipe.engine().peer().cloned();
    }
    peer.expect("ready")
}

// covers: LIFE-001, LIFE-002, LIFE-004, VER-001, PROG-004, CANC-005, CANC-012, PING-002
#[test]
fn a_session_of_2024_11_05() {
    let peer = replay(PLAIN_2024_11_05, VersionSet::only(Version::V2024_11_05), |steps| steps);
    assert_eq!(peer.version, Version::V2024_11_05);
    assert_eq!(peer.instructions.as_deref(), Some("Ask for one harbour at a time."));
}

// covers: LIFE-001, LIFE-022, META-026, PROG-006, CANC-003
#[test]
fn a_session_of_2025_11_25_with_icons() {
    let peer = replay(FULL_2025_11_25, VersionSet::LEGACY, |steps| steps);
    let icons = json!([{"src": "data:image/svg+xml;base64,PHN2Zy8+", "sizes": ["any"]}]);
    assert_eq!(peer.info.and_then(|i| i.member("icons")).map(|i| value(&i)), Some(icons));
}

// covers: VER-024, META-009, META-010, META-013, META-022, PROG-007, BASE-031
#[test]
fn requests_of_2026_07_28() {
    let not_ping = |steps: Vec<Step>| {
        let mut steps = steps;
        // Our client refuses to send what the revision does not have.
        let ping = steps.iter().position(|s| s.message["method"] == "ping").expect("a ping");
        steps.drain(ping..ping + 2);
        steps
    };
    let peer = replay(DISCOVER_2026_07_28, VersionSet::ALL, not_ping);
    assert_eq!(peer.instructions.as_deref(), Some("Harbour names are case-sensitive."));
}

// covers: PING-006
#[test]
fn the_ping_of_that_flow_is_refused_here() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(config(&flow(DISCOVER_2026_07_28), VersionSet::ALL), cut);
        lone.with_modern(json!({}));
        let refused = lone.cannot_call("ping", &json!({}), &CallOptions::new());
        assert!(matches!(refused, UseError::NotInVersion { .. }));
        lone.transcript
    });
}

// covers: VER-020, VER-024, VER-025
#[test]
fn falling_back_to_an_old_server() {
    let peer = replay(FALLBACK, VersionSet::ALL, |steps| steps);
    assert_eq!(peer.version, Version::V2024_11_05, "older than asked, and accepted");
}

// covers: RES-003, RES-004, RES-005, RES-010, RES-018, PAGE-005, PAGE-007, PAGE-008, PROMPT-003, PROMPT-004, COMP-002
#[test]
fn resources_prompts_and_completions_of_2024_11_05() {
    let peer = replay(RESOURCES_2024_11_05, VersionSet::only(Version::V2024_11_05), |steps| steps);
    assert_eq!(peer.version, Version::V2024_11_05);
}

// covers: TOOL-005, TOOL-010, COMP-006
#[test]
fn structured_results_of_2025_06_18() {
    let peer = replay(STRUCTURED_2025_06_18, VersionSet::only(Version::V2025_06_18), |steps| steps);
    assert_eq!(peer.version, Version::V2025_06_18);
}

// covers: PAGE-008, PAGE-013, RES-003, RES-004, RES-005, COMP-002, PROMPT-003
#[test]
fn pages_of_2026_07_28() {
    replay(PAGES_2026_07_28, VersionSet::MODERN, discovered);
}
