//! The flows with input requests, changes and log messages, replayed completely against the client.

use core::mem::take;

use mcp_proto::client::{Config, Event, InputId, SubscriptionKey};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::{CallError, CallKey, CallOptions, Capabilities, Change, RpcError, Version, VersionSet};
use mcp_tests::harness::build::{raw, to_value};
use mcp_tests::harness::{Chunker, ClientHarness};
use serde_json::{Value, json};

use super::{normalize, parse_identity};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// One line of a flow: whether the client sends it, and the message.
type FlowLine = (bool, Value);

/// Parses a flow without the messages that this client never sends, and without their answers.
fn parse_flow(text: &str) -> Vec<FlowLine> {
    let mut lines: Vec<FlowLine> = Vec::new();
    let mut omitted: Vec<Value> = Vec::new();
    for line in text.lines().skip(1) {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let Some(message) = line.get("msg") else { continue };
        if line["invalid"] == true || message.is_array() {
            omitted.extend(message.get("id").cloned());
        } else if !omitted.contains(&message["id"]) || message.get("method").is_some() {
            lines.push((line["dir"] == "c2s", message.clone()));
        }
    }
    lines
}

struct FlowReplay {
    harness: ClientHarness,
    /// Ids of the flow, with those of this client.
    ids: Vec<(Value, Value)>,
    calls: Vec<(Value, CallKey)>,
    subscriptions: Vec<(Value, SubscriptionKey)>,
    /// Open inputs by the request id, or by the key of the input request.
    inputs: Vec<(Value, InputId)>,
    level: Value,
    sent: Vec<Value>,
    events: Vec<Event>,
}

fn latest<T: Copy>(known: &[(Value, T)], name: &Value) -> Option<T> {
    known.iter().rev().find(|(other, _)| other == name).map(|(_, found)| *found)
}

impl FlowReplay {
    fn new(flow: &[FlowLine], cut: Chunker) -> Self {
        let params = &flow[0].1["params"];
        let meta = &params["_meta"];
        let modern = meta.is_object();
        let (info, capabilities) = if modern {
            let member = |name: &str| &meta[format!("io.modelcontextprotocol/{name}")];
            (member("clientInfo"), member("clientCapabilities"))
        } else {
            (&params["clientInfo"], &params["capabilities"])
        };
        let version =
            if modern { "2026-07-28" } else { params["protocolVersion"].as_str().expect("a version") };
        let version = Version::from_name(version).expect("a known one");
        let config = Config::new("", "")
            .info(parse_identity(info))
            .capabilities(Capabilities::from_json(&raw(capabilities)))
            .versions(VersionSet::only(version));
        let mut harness = ClientHarness::client(config, cut);
        if modern {
            let all = json!({"tools": {}, "prompts": {}, "resources": {"subscribe": true}, "logging": {}});
            harness.become_modern(all);
        }
        Self {
            harness,
            ids: Vec::new(),
            calls: Vec::new(),
            subscriptions: Vec::new(),
            inputs: Vec::new(),
            level: Value::Null,
            sent: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Returns a message of the flow with the ids of this client.
    fn with_local_ids(&self, message: &Value) -> Value {
        let mut message = message.clone();
        let subscription = SUBSCRIPTION.replace('/', "~1");
        let pointers = [
            "/id",
            "/params/requestId",
            "/params/progressToken",
            "/params/_meta/progressToken",
            &format!("/params/_meta/{subscription}"),
            &format!("/result/_meta/{subscription}"),
        ];
        for pointer in pointers {
            let Some(id) = message.pointer_mut(pointer) else { continue };
            if let Some((_, local)) = self.ids.iter().rev().find(|(flow_id, _)| flow_id == id) {
                *id = local.clone();
            }
        }
        message
    }

    fn record_events(&mut self, message: &Value) {
        self.sent.extend(self.harness.take_sent());
        while !self.harness.has_no_events() {
            let event = self.harness.expect_event();
            if let Event::Input(input) = &event {
                let name = input.key.as_ref().map_or_else(|| message["id"].clone(), |key| json!(key));
                self.inputs.push((name, input.id));
            }
            self.events.push(event);
        }
    }

    fn feed(&mut self, message: &Value) {
        let message = if message.get("method").is_some() && message.get("id").is_some() {
            message.clone()
        } else {
            self.with_local_ids(message)
        };
        self.harness.feed_message(&message);
        self.record_events(&message);
    }

    fn subscribe(&mut self, name: Value, filter: &SubscriptionFilter) {
        let key = self.harness.subscribe(filter);
        self.subscriptions.push((name, key));
    }

    /// Makes the client send the message of the flow, unless it has sent it already.
    #[expect(deprecated, reason = "tested until its removal")]
    fn act(&mut self, message: &Value) {
        let (now, params, id) = (self.harness.now, &message["params"], &message["id"]);
        match message["method"].as_str() {
            None => match latest(&self.inputs, id) {
                Some(input) if message.get("result").is_some() => {
                    self.harness.answer(input, &message["result"])
                }
                Some(input) => {
                    let code = message["error"]["code"].as_i64().expect("a code");
                    let error =
                        RpcError::new(code, message["error"]["message"].as_str().expect("a text").to_owned());
                    self.harness.pipe.engine().refuse(now, input, &error).expect("open");
                }
                // Refused without an event, or a `ping`.
                None => {}
            },
            Some("initialize" | "notifications/initialized") => {}
            Some("subscriptions/listen") => {
                let filter = raw(&params["notifications"]).parse().expect("a filter");
                self.subscribe(id.clone(), &filter);
            }
            Some("resources/subscribe") => {
                let uri = params["uri"].as_str().expect("a URI").to_owned();
                let filter =
                    SubscriptionFilter::new().resource_subscriptions([uri]).resources_list_changed(true);
                self.subscribe(params["uri"].clone(), &filter);
            }
            Some("resources/unsubscribe") => {
                let key = latest(&self.subscriptions, &params["uri"]).expect("subscribed");
                self.harness.pipe.engine().unsubscribe(now, key).expect("open");
            }
            Some("logging/setLevel") => self.set_log_level(&params["level"]),
            Some("notifications/roots/list_changed") => {
                self.harness.pipe.engine().notify_roots_changed(now).expect("ready");
            }
            Some("notifications/cancelled") => {
                let which = &params["requestId"];
                let engine = self.harness.pipe.engine();
                match latest(&self.calls, which) {
                    Some(call) => engine.cancel(now, call, params["reason"].as_str()).expect("open"),
                    None => {
                        let key = latest(&self.subscriptions, which).expect("subscribed");
                        engine.unsubscribe(now, key).expect("open");
                    }
                }
            }
            Some(method) => self.call(method, id, params),
        }
        self.record_events(&Value::Null);
        assert!(!self.sent.is_empty(), "the client sent nothing, the flow has {message}");
        let sent = self.sent.remove(0);
        if message.get("method").is_some() && !id.is_null() {
            self.ids.push((id.clone(), sent["id"].clone()));
            let token = &params["_meta"]["progressToken"];
            if !token.is_null() {
                self.ids.push((token.clone(), sent["params"]["_meta"]["progressToken"].clone()));
            }
        }
        let expected =
            if message.get("method").is_some() { self.with_local_ids(message) } else { message.clone() };
        assert_eq!(normalize(&sent), normalize(&expected));
    }

    /// Makes a call, or answers the inputs that lead to its retry.
    fn call(&mut self, method: &str, id: &Value, params: &Value) {
        if params.get("inputResponses").is_some() || params.get("requestState").is_some() {
            for (name, answer) in params["inputResponses"].as_object().into_iter().flatten() {
                let input = latest(&self.inputs, &json!(name)).expect("an open input");
                self.harness.answer(input, answer);
            }
            let (_, call) = *self.calls.last().expect("an earlier call");
            return self.calls.push((id.clone(), call));
        }
        let mut params = if params.is_null() { json!({}) } else { params.clone() };
        let meta = params.as_object_mut().and_then(|p| p.remove("_meta")).unwrap_or_else(|| json!({}));
        let level = &meta[LEVEL];
        if meta.get("io.modelcontextprotocol/protocolVersion").is_some() && *level != self.level {
            self.set_log_level(level);
        }
        let mut options = CallOptions::new();
        options.wants_progress = meta.get("progressToken").is_some();
        let call =
            self.harness.pipe.engine().call(self.harness.now, method, &params, &options).expect("allowed");
        self.calls.push((id.clone(), call));
    }

    #[expect(deprecated, reason = "tested until its removal")]
    fn set_log_level(&mut self, level: &Value) {
        self.level = level.clone();
        let level = level.as_str().map(LoggingLevel::from);
        self.harness.pipe.engine().set_log_level(self.harness.now, level).expect("declared");
    }
}

/// Replays a flow with every chunker and returns the events of the client.
fn replay(flow: &[FlowLine]) -> Vec<Event> {
    let mut events = Vec::new();
    for cut in Chunker::EACH {
        let mut replay = FlowReplay::new(flow, cut);
        for (is_from_client, message) in flow {
            if *is_from_client { replay.act(message) } else { replay.feed(message) }
        }
        assert!(replay.sent.is_empty(), "the client sent more than the flow: {:?}", replay.sent);
        events = take(&mut replay.events);
    }
    assert!(!events.iter().any(|e| matches!(e, Event::Diagnostic(_))), "{events:#?}");
    events
}

/// Returns the number of results, and of all outcomes.
fn count_results(events: &[Event]) -> (usize, usize) {
    let outcomes = events.iter().filter_map(|e| match e {
        Event::Done { outcome, .. } => Some(outcome.is_ok()),
        _ => None,
    });
    let all: Vec<bool> = outcomes.collect();
    (all.iter().filter(|ok| **ok).count(), all.len())
}

fn count_inputs(events: &[Event]) -> usize {
    events.iter().filter(|e| matches!(e, Event::Input(_))).count()
}

fn expected_changes(events: &[Event]) -> Vec<Change> {
    let changes = events.iter().filter_map(|e| match e {
        Event::Changed { change, .. } => Some(change.clone()),
        _ => None,
    });
    changes.collect()
}

// covers: RES-010, RES-011, ROOT-002, ROOT-004, SAMP-004, SAMP-005, SAMP-015, LOG-003, LOG-004
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn client_matches_flow_inputs_and_logs_2024_11_05() {
    let text = include_str!("../../transcripts/2024-11-05-resources-roots-sampling-logging.jsonl");
    let events = replay(&parse_flow(text));
    assert_eq!((count_results(&events), count_inputs(&events)), ((7, 8), 3));
    assert_eq!(expected_changes(&events), [Change::Resource("chart://north/1".into()), Change::Resources]);
    let logged = events.iter().find_map(|e| match e {
        Event::Log(log) => Some((log.level.clone(), log.logger.clone(), to_value(&log.data))),
        _ => None,
    });
    let data = json!({"what": "tile missing", "sheet": 4});
    assert_eq!(logged, Some((LoggingLevel::Error, Some("charts.db".into()), data)));
}

// covers: ELIC-006, ELIC-008, ELIC-012, ELIC-018
#[test]
fn client_matches_flow_elicitation_2025_06_18() {
    let text = include_str!("../../transcripts/2025-06-18-structured-output-elicitation.jsonl");
    let events = replay(&parse_flow(text));
    assert_eq!((count_results(&events), count_inputs(&events)), ((4, 4), 2));
}

// covers: SAMP-006, SAMP-007, SAMP-011, SAMP-012, SAMP-014, SAMP-016
#[test]
fn client_matches_flow_sampling_with_tools_2025_11_25() {
    let text = include_str!("../../transcripts/2025-11-25-sampling-with-tools.jsonl");
    let events = replay(&parse_flow(text));
    // Two message histories of the flow are invalid: they raise no event.
    assert_eq!((count_results(&events), count_inputs(&events)), ((1, 2), 2));
}

// covers: MRTR-002, MRTR-003, MRTR-004, MRTR-006, MRTR-013, MRTR-014, MRTR-016, MRTR-018, ELIC-007, SAMP-003, ROOT-003
#[test]
fn client_matches_flow_rounds_2026_07_28() {
    let mut flow = parse_flow(include_str!("../../transcripts/2026-07-28-mrtr-rounds.jsonl"));
    // The client of the flow omits one response and is asked again; this client answers everything at once.
    let late = flow[4].1["params"]["inputResponses"]["note"].clone();
    flow[2].1["params"]["inputResponses"]["note"] = late;
    flow[5].1["id"] = flow[2].1["id"].clone();
    flow.drain(3..5);
    let events = replay(&flow);
    assert_eq!((count_results(&events), count_inputs(&events)), ((3, 4), 4));
    let last = events.iter().rev().find_map(|e| match e {
        Event::Done { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    assert!(matches!(last, Some(Err(CallError::UnknownResultType(_)))), "{last:?}");
}

// covers: SUB-001, SUB-004, SUB-005, SUB-006, SUB-008, SUB-012, SUB-013, SUB-014, CANC-019, META-020
#[test]
fn client_matches_flow_subscriptions_2026_07_28() {
    let events = replay(&parse_flow(include_str!("../../transcripts/2026-07-28-subscriptions-stdio.jsonl")));
    let honoured: Vec<SubscriptionFilter> = events
        .iter()
        .filter_map(|e| match e {
            Event::Subscribed { honoured, .. } => Some(honoured.clone()),
            _ => None,
        })
        .collect();
    let one = SubscriptionFilter::new().tools_list_changed(true);
    let one = one.resource_subscriptions(["chart://n/1".into()]);
    assert_eq!(honoured, [one, SubscriptionFilter::new().resources_list_changed(true)]);
    let changes = [Change::Tools, Change::Resource("chart://n/1".into()), Change::Resources];
    assert_eq!(expected_changes(&events), changes);
    let ended = events.iter().filter(|e| matches!(e, Event::SubscriptionEnded { graceful: true, .. }));
    assert_eq!(ended.count(), 1);
}

// covers: CANC-016, LOG-007, LOG-008, STDIO-017
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn client_matches_flow_logs_2026_07_28() {
    let events = replay(&parse_flow(include_str!("../../transcripts/2026-07-28-cancel-and-logging.jsonl")));
    assert_eq!(count_results(&events), (1, 2));
    assert!(events.iter().any(|e| matches!(e, Event::Log(log) if log.level == LoggingLevel::Error)));
}
