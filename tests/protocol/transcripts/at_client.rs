//! The flows replayed against the client.

use mcp_proto::client::{Config, Engine, Event, SubscriptionKey};
use mcp_proto::model::*;
use mcp_proto::{CallError, CallKey, CallOptions, Instant, UseError, Version, VersionSet};
use mcp_tests::harness::build::{raw, to_value};
use mcp_tests::harness::{ClientHarness, for_each_chunker};
use serde_json::{Map, Value, json};

use super::{
    DISCOVER_2026_07_28, FALLBACK, FULL_2025_11_25, IdMap, PAGES_2026_07_28, PLAIN_2024_11_05,
    RESOURCES_2024_11_05, STRUCTURED_2025_06_18, TranscriptStep, normalize, parse_capabilities, parse_flow,
    parse_identity, typed, with_discovery,
};

const INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";

/// Configures the client that a flow shows.
fn config(steps: &[TranscriptStep], versions: VersionSet) -> Config {
    let first = &steps[0].message["params"];
    let meta = &first["_meta"];
    let (info, capabilities) = match meta.get(INFO_KEY) {
        Some(info) => (info, &meta["io.modelcontextprotocol/clientCapabilities"]),
        None => (&first["clientInfo"], &first["capabilities"]),
    };
    Config::new("", "")
        .info(parse_identity(info))
        .capabilities(parse_capabilities(capabilities))
        .versions(versions)
}

struct ClientReplay {
    harness: ClientHarness,
    ids: IdMap,
    calls: Vec<(Value, CallKey)>,
    subscription: Option<SubscriptionKey>,
    /// Expected outcomes of calls.
    outcomes: Vec<(CallKey, Value)>,
    sent: Vec<Value>,
}

impl ClientReplay {
    fn step(&mut self, step: &TranscriptStep) {
        self.sent.extend(self.harness.take_sent());
        if step.is_from_client {
            self.act(&step.message);
        } else {
            self.feed(step);
        }
    }

    /// Makes the client send the message of the flow, unless it has sent it already.
    #[expect(deprecated, reason = "tested until its removal")]
    fn act(&mut self, message: &Value) {
        let now = self.harness.now;
        match message["method"].as_str() {
            // The engine sends these itself, and has sent them already.
            None | Some("initialize" | "server/discover" | "notifications/initialized") => {}
            Some("notifications/cancelled") => {
                let (_, key) =
                    self.calls.iter().find(|(id, _)| *id == message["params"]["requestId"]).expect("a call");
                let reason = message["params"]["reason"].as_str();
                self.harness.pipe.engine().cancel(now, *key, reason).expect("open");
                self.outcomes.push((*key, json!("cancelled")));
            }
            // Not a call: the engine tracks subscriptions.
            Some("resources/subscribe") => {
                let uri = message["params"]["uri"].as_str().expect("a URI").to_owned();
                let filter = SubscriptionFilter::new().resource_subscriptions([uri]);
                self.subscription =
                    Some(self.harness.pipe.engine().subscribe(now, &filter).expect("allowed"));
            }
            Some("logging/setLevel") => {
                let level = message["params"]["level"].as_str().expect("a level").into();
                self.harness.pipe.engine().set_log_level(now, Some(level)).expect("allowed");
            }
            Some("resources/unsubscribe") => {
                let key = self.subscription.take().expect("a subscription");
                self.harness.pipe.engine().unsubscribe(now, key).expect("open");
            }
            Some(method) => {
                let mut params = message.get("params").cloned().unwrap_or_else(|| json!({}));
                let meta =
                    params.as_object_mut().and_then(|p| p.remove("_meta")).unwrap_or_else(|| json!({}));
                let meta: Map<_, _> = meta.as_object().expect("an object").clone();
                let own = |key: &str| !key.starts_with("io.modelcontextprotocol/") && key != "progressToken";
                let application_meta: Map<_, _> =
                    meta.iter().filter(|(k, _)| own(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
                let mut options = CallOptions::new();
                options.wants_progress = meta.contains_key("progressToken");
                options.meta = (!application_meta.is_empty()).then(|| raw(&application_meta.into()));
                let key = call(self.harness.pipe.engine(), now, method, &params, &options).expect("allowed");
                self.calls.push((message["id"].clone(), key));
            }
        }
        self.sent.extend(self.harness.take_sent());
        assert!(!self.sent.is_empty(), "the client sent nothing, the flow has {message}");
        let mut sent = self.sent.remove(0);
        if message.get("method").is_some() {
            self.ids.insert(&message["id"], &sent["id"]);
            if let Some(token) = message.pointer("/params/_meta/progressToken") {
                self.ids.insert(token, &sent["params"]["_meta"]["progressToken"]);
            }
        }
        // The flow leaves the client info out, which is allowed.
        if message.pointer("/params/_meta").is_some_and(|meta| meta.get(INFO_KEY).is_none()) {
            sent["params"]["_meta"].as_object_mut().expect("metadata").remove(INFO_KEY);
        }
        assert_eq!(normalize(&sent), normalize(&self.ids.translate(message)));
    }

    fn feed(&mut self, step: &TranscriptStep) {
        let message = self.ids.translate(&step.message);
        if message.get("method").is_none() && !step.is_ignored {
            if let Some((_, key)) = self.calls.iter().find(|(id, _)| *id == step.message["id"]) {
                let outcome = message.get("result").or_else(|| message.get("error")).expect("an outcome");
                self.outcomes.push((*key, outcome.clone()));
            }
        }
        self.harness.feed_message(&message);
    }

    /// Checks that every call has the outcome of the flow.
    fn check(&mut self) {
        let mut expected = core::mem::take(&mut self.outcomes);
        while !self.harness.has_no_events() {
            let Event::Done { call, outcome, .. } = self.harness.expect_event() else { continue };
            let (_, want) = expected.remove(expected.iter().position(|(key, _)| *key == call).expect("once"));
            match outcome {
                Ok(result) => assert_eq!(to_value(&result), want),
                Err(CallError::Rpc(error)) => {
                    assert_eq!(
                        (json!(error.code), json!(error.message)),
                        (want["code"].clone(), want["message"].clone())
                    );
                }
                Err(other) => assert_eq!(json!(other.to_string()), want),
            }
        }
        assert!(expected.is_empty(), "outcomes never reported: {expected:?}");
    }
}

/// Makes a call with the parameter type of its method.
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
    steps: impl Fn(Vec<TranscriptStep>) -> Vec<TranscriptStep>,
) -> mcp_proto::client::Peer {
    let steps = steps(parse_flow(text));
    let mut peer = None;
    for cut in mcp_tests::harness::Chunker::EACH {
        let harness = ClientHarness::client(config(&steps, versions), cut);
        let (calls, outcomes) = (Vec::new(), Vec::new());
        let mut replay = ClientReplay {
            harness,
            ids: IdMap::default(),
            calls,
            subscription: None,
            outcomes,
            sent: Vec::new(),
        };
        for step in &steps {
            replay.step(step);
        }
        replay.sent.extend(replay.harness.take_sent());
        assert!(replay.sent.is_empty(), "the client sent more than the flow: {:?}", replay.sent);
        replay.check();
        peer = replay.harness.pipe.engine().peer().cloned();
    }
    peer.expect("ready")
}

// covers: LIFE-001, LIFE-002, LIFE-004, VER-001, PROG-004, CANC-005, CANC-012, PING-002
#[test]
fn client_matches_flow_plain_session_2024_11_05() {
    let peer = replay(PLAIN_2024_11_05, VersionSet::only(Version::V2024_11_05), |steps| steps);
    assert_eq!(peer.version, Version::V2024_11_05);
    assert_eq!(peer.instructions.as_deref(), Some("Ask for one harbour at a time."));
}

// covers: LIFE-001, LIFE-022, META-026, PROG-006, CANC-003
#[test]
fn client_matches_flow_full_session_2025_11_25() {
    let peer = replay(FULL_2025_11_25, VersionSet::LEGACY, |steps| steps);
    let icons = json!([{"src": "data:image/svg+xml;base64,PHN2Zy8+", "sizes": ["any"]}]);
    assert_eq!(peer.info.and_then(|i| i.member("icons")).map(|i| to_value(&i)), Some(icons));
}

// covers: VER-024, META-009, META-010, META-013, META-022, PROG-007, BASE-031
#[test]
fn client_matches_flow_discover_2026_07_28() {
    let not_ping = |steps: Vec<TranscriptStep>| {
        let mut steps = steps;
        // The client refuses methods that the revision does not have.
        let ping = steps.iter().position(|s| s.message["method"] == "ping").expect("a ping");
        steps.drain(ping..ping + 2);
        steps
    };
    let peer = replay(DISCOVER_2026_07_28, VersionSet::ALL, not_ping);
    assert_eq!(peer.instructions.as_deref(), Some("Harbour names are case-sensitive."));
}

// covers: PING-006
#[test]
fn client_refuses_ping_in_2026_07_28() {
    for_each_chunker(|cut| {
        let mut harness =
            ClientHarness::client(config(&parse_flow(DISCOVER_2026_07_28), VersionSet::ALL), cut);
        harness.become_modern(json!({}));
        let refused = harness.expect_call_refused("ping", &json!({}), &CallOptions::new());
        assert!(matches!(refused, UseError::NotInVersion { .. }));
        harness.transcript
    });
}

// covers: VER-020, VER-024, VER-025
#[test]
fn client_matches_flow_fallback_to_legacy_server() {
    let peer = replay(FALLBACK, VersionSet::ALL, |steps| steps);
    assert_eq!(peer.version, Version::V2024_11_05, "an older version than requested is accepted");
}

// covers: RES-003, RES-004, RES-005, RES-010, RES-018, PAGE-005, PAGE-007, PAGE-008, PROMPT-003, PROMPT-004, COMP-002
#[test]
fn client_matches_flow_resources_and_prompts_2024_11_05() {
    let peer = replay(RESOURCES_2024_11_05, VersionSet::only(Version::V2024_11_05), |steps| steps);
    assert_eq!(peer.version, Version::V2024_11_05);
}

// covers: TOOL-005, TOOL-010, COMP-006
#[test]
fn client_matches_flow_structured_results_2025_06_18() {
    let peer = replay(STRUCTURED_2025_06_18, VersionSet::only(Version::V2025_06_18), |steps| steps);
    assert_eq!(peer.version, Version::V2025_06_18);
}

// covers: PAGE-008, PAGE-013, RES-003, RES-004, RES-005, COMP-002, PROMPT-003
#[test]
fn client_matches_flow_pages_2026_07_28() {
    replay(PAGES_2026_07_28, VersionSet::MODERN, with_discovery);
}
