//! The flows in which a server needs something, tells of changes, or logs, whole, with our client in the place of
//! theirs.

use core::mem::take;

use mcp_proto::client::{Config, Event, InputId, SubscriptionKey};
use mcp_proto::model::{LoggingLevel, SubscriptionFilter};
use mcp_proto::{CallError, CallKey, CallOptions, Capabilities, Change, RpcError, Version, VersionSet};
use mcp_tests::harness::build::{raw, value};
use mcp_tests::harness::{Chunker, LoneClient};
use serde_json::{Value, json};

use super::{identity, normal};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// One line of a flow: whether the client says it, and what
type Said = (bool, Value);

/// A flow without what our client never says, and what that is answered with
fn whole(text: &str) -> Vec<Said> {
    let mut said: Vec<Said> = Vec::new();
    let mut never: Vec<Value> = Vec::new();
    for line in text.lines().skip(1) {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let Some(message) = line.get("msg") else { continue };
        if line["invalid"] == true || message.is_array() {
            never.extend(message.get("id").cloned());
        } else if !never.contains(&message["id"]) || message.get("method").is_some() {
            said.push((line["dir"] == "c2s", message.clone()));
        }
    }
    said
}

struct Talk {
    lone: LoneClient,
    /// Ids of theirs, and ours for the same
    ids: Vec<(Value, Value)>,
    calls: Vec<(Value, CallKey)>,
    subscriptions: Vec<(Value, SubscriptionKey)>,
    /// By the id of the request, or the server's name for it
    inputs: Vec<(Value, InputId)>,
    level: Value,
    sent: Vec<Value>,
    events: Vec<Event>,
}

fn of<T: Copy>(known: &[(Value, T)], name: &Value) -> Option<T> {
    known.iter().rev().find(|(other, _)| other == name).map(|(_, found)| *found)
}

impl Talk {
    fn new(flow: &[Said], cut: Chunker) -> Self {
        let params = &flow[0].1["params"];
        let meta = &params["_meta"];
        let modern = meta.is_object();
        let (info, can) = if modern {
            let member = |name: &str| &meta[format!("io.modelcontextprotocol/{name}")];
            (member("clientInfo"), member("clientCapabilities"))
        } else {
            (&params["clientInfo"], &params["capabilities"])
        };
        let version =
            if modern { "2026-07-28" } else { params["protocolVersion"].as_str().expect("a version") };
        let version = Version::from_name(version).expect("a known one");
        let config = Config::new("", "")
            .info(identity(info))
            .capabilities(Capabilities::declared(&raw(can)))
            .versions(VersionSet::only(version));
        let mut lone = LoneClient::client(config, cut);
        if modern {
            let all = json!({"tools": {}, "prompts": {}, "resources": {"subscribe": true}, "logging": {}});
            lone.with_modern(all);
        }
        Self {
            lone,
            ids: Vec::new(),
            calls: Vec::new(),
            subscriptions: Vec::new(),
            inputs: Vec::new(),
            level: Value::Null,
            sent: Vec::new(),
            events: Vec::new(),
        }
    }

    /// A message of theirs with our ids in it
    fn ours(&self, message: &Value) -> Value {
        let mut message = message.clone();
        let subscription = SUBSCRIPTION.replace('/', "~1");
        let places = [
            "/id",
            "/params/requestId",
            "/params/progressToken",
            "/params/_meta/progressToken",
            &format!("/params/_meta/{subscription}"),
            &format!("/result/_meta/{subscription}"),
        ];
        for place in places {
            let Some(id) = message.pointer_mut(place) else { continue };
            if let Some((_, ours)) = self.ids.iter().rev().find(|(theirs, _)| theirs == id) {
                *id = ours.clone();
            }
        }
        message
    }

    fn look(&mut self, told: &Value) {
        self.sent.extend(self.lone.sent());
        while !self.lone.is_quiet() {
            let event = self.lone.event();
            if let Event::Input(input) = &event {
                let name = input.key.as_ref().map_or_else(|| told["id"].clone(), |key| json!(key));
                self.inputs.push((name, input.id));
            }
            self.events.push(event);
        }
    }

    fn hear(&mut self, message: &Value) {
        let message = if message.get("method").is_some() && message.get("id").is_some() {
            message.clone()
        } else {
            self.ours(message)
        };
        self.lone.tell(&message);
        self.look(&message);
    }

    fn follow(&mut self, name: Value, filter: &SubscriptionFilter) {
        let key = self.lone.subscribe(filter);
        self.subscriptions.push((name, key));
    }

    /// Our client says, or has said, what theirs says
    fn say(&mut self, message: &Value) {
        let (now, params, id) = (self.lone.now, &message["params"], &message["id"]);
        match message["method"].as_str() {
            None => match of(&self.inputs, id) {
                Some(input) if message.get("result").is_some() => self.lone.answer(input, &message["result"]),
                Some(input) => {
                    let code = message["error"]["code"].as_i64().expect("a code");
                    let error =
                        RpcError::new(code, message["error"]["message"].as_str().expect("a text").to_owned());
                    self.lone.pipe.engine().refuse(now, input, &error).expect("open");
                }
                // Refused before anybody was asked, or a `ping`.
                None => {}
            },
            Some("initialize" | "notifications/initialized") => {}
            Some("subscriptions/listen") => {
                let filter = raw(&params["notifications"]).parse().expect("a filter");
                self.follow(id.clone(), &filter);
            }
            Some("resources/subscribe") => {
                let uri = params["uri"].as_str().expect("a URI").to_owned();
                let filter =
                    SubscriptionFilter::new().resource_subscriptions([uri]).resources_list_changed(true);
                self.follow(params["uri"].clone(), &filter);
            }
            Some("resources/unsubscribe") => {
                let key = of(&self.subscriptions, &params["uri"]).expect("subscribed");
                self.lone.pipe.engine().unsubscribe(now, key).expect("open");
            }
            Some("logging/setLevel") => self.wish(&params["level"]),
            Some("notifications/roots/list_changed") => {
                self.lone.pipe.engine().roots_changed(now).expect("ready");
            }
            Some("notifications/cancelled") => {
                let which = &params["requestId"];
                let engine = self.lone.pipe.engine();
                match of(&self.calls, which) {
                    Some(call) => engine.cancel(now, call, params["reason"].as_str()).expect("open"),
                    None => {
                        let key = of(&self.subscriptions, which).expect("subscribed");
                        engine.unsubscribe(now, key).expect("open");
                    }
                }
            }
            Some(method) => self.call(method, id, params),
        }
        self.look(&Value::Null);
        assert!(!self.sent.is_empty(), "ours says nothing where theirs says {message}");
        let ours = self.sent.remove(0);
        if message.get("method").is_some() && !id.is_null() {
            self.ids.push((id.clone(), ours["id"].clone()));
            let token = &params["_meta"]["progressToken"];
            if !token.is_null() {
                self.ids.push((token.clone(), ours["params"]["_meta"]["progressToken"].clone()));
            }
        }
        let theirs = if message.get("method").is_some() { self.ours(message) } else { message.clone() };
        assert_eq!(normal(&ours), normal(&theirs));
    }

    /// A call, or a call again with what the server needed
    fn call(&mut self, method: &str, id: &Value, params: &Value) {
        if params.get("inputResponses").is_some() || params.get("requestState").is_some() {
            for (name, answer) in params["inputResponses"].as_object().into_iter().flatten() {
                let input = of(&self.inputs, &json!(name)).expect("it was asked");
                self.lone.answer(input, answer);
            }
            let (_, call) = *self.calls.last().expect("it was made");
            return self.calls.push((id.clone(), call));
        }
        let mut params = if params.is_null() { json!({}) } else { params.clone() };
        let meta = params.as_object_mut().and_then(|p| p.remove("_meta")).unwrap_or_else(|| json!({}));
        let level = &meta[LEVEL];
        if meta.get("io.modelcontextprotocol/protocolVersion").is_some() && *level != self.level {
            self.wish(level);
        }
        let mut options = CallOptions::new();
        options.progress = meta.get("progressToken").is_some();
        let call = self.lone.pipe.engine().call(self.lone.now, method, &params, &options).expect("allowed");
        self.calls.push((id.clone(), call));
    }

    fn wish(&mut self, level: &Value) {
        self.level = level.clone();
        let level = level.as_str().map(LoggingLevel::from);
        self.lone.pipe.engine().set_log_level(self.lone.now, level).expect("declared");
    }
}

/// Plays a flow in every cut; what our client told its application
fn play(flow: &[Said]) -> Vec<Event> {
    let mut events = Vec::new();
    for cut in Chunker::EACH {
        let mut talk = Talk::new(flow, cut);
        for (ours, message) in flow {
            if *ours { talk.say(message) } else { talk.hear(message) }
        }
        assert!(talk.sent.is_empty(), "ours says more: {:?}", talk.sent);
        events = take(&mut talk.events);
    }
    assert!(!events.iter().any(|e| matches!(e, Event::Diagnostic(_))), "{events:#?}");
    events
}

/// How many results there were, of how many outcomes
fn results(events: &[Event]) -> (usize, usize) {
    let outcomes = events.iter().filter_map(|e| match e {
        Event::Done { outcome, .. } => Some(outcome.is_ok()),
        _ => None,
    });
    let all: Vec<bool> = outcomes.collect();
    (all.iter().filter(|ok| **ok).count(), all.len())
}

fn inputs(events: &[Event]) -> usize {
    events.iter().filter(|e| matches!(e, Event::Input(_))).count()
}

fn changes(events: &[Event]) -> Vec<Change> {
    let changes = events.iter().filter_map(|e| match e {
        Event::Changed { change, .. } => Some(change.clone()),
        _ => None,
    });
    changes.collect()
}

// covers: RES-010, RES-011, ROOT-002, ROOT-004, SAMP-004, SAMP-005, SAMP-015, LOG-003, LOG-004
#[test]
fn subscriptions_roots_sampling_and_logs_of_2024_11_05() {
    let text = include_str!("../../transcripts/2024-11-05-resources-roots-sampling-logging.jsonl");
    let events = play(&whole(text));
    assert_eq!((results(&events), inputs(&events)), ((7, 8), 3));
    assert_eq!(changes(&events), [Change::Resource("chart://north/1".into()), Change::Resources]);
    let logged = events.iter().find_map(|e| match e {
        Event::Log(log) => Some((log.level.clone(), log.logger.clone(), value(&log.data))),
        _ => None,
    });
    let data = json!({"what": "tile missing", "sheet": 4});
    assert_eq!(logged, Some((LoggingLevel::Error, Some("charts.db".into()), data)));
}

// covers: ELIC-006, ELIC-008, ELIC-012, ELIC-018
#[test]
fn elicitation_of_2025_06_18() {
    let text = include_str!("../../transcripts/2025-06-18-structured-output-elicitation.jsonl");
    let events = play(&whole(text));
    assert_eq!((results(&events), inputs(&events)), ((4, 4), 2));
}

// covers: SAMP-006, SAMP-007, SAMP-011, SAMP-012, SAMP-014, SAMP-016
#[test]
fn sampling_with_tools_of_2025_11_25() {
    let text = include_str!("../../transcripts/2025-11-25-sampling-with-tools.jsonl");
    let events = play(&whole(text));
    // Two histories of the flow are broken: nobody is asked for them.
    assert_eq!((results(&events), inputs(&events)), ((1, 2), 2));
}

// covers: MRTR-002, MRTR-003, MRTR-004, MRTR-006, MRTR-013, MRTR-014, MRTR-016, MRTR-018, ELIC-007, SAMP-003, ROOT-003
#[test]
fn rounds_of_2026_07_28() {
    let mut flow = whole(include_str!("../../transcripts/2026-07-28-mrtr-rounds.jsonl"));
    // The client of the flow leaves an answer out and is asked for it again; ours answers everything at once.
    let late = flow[4].1["params"]["inputResponses"]["note"].clone();
    flow[2].1["params"]["inputResponses"]["note"] = late;
    flow[5].1["id"] = flow[2].1["id"].clone();
    flow.drain(3..5);
    let events = play(&flow);
    assert_eq!((results(&events), inputs(&events)), ((3, 4), 4));
    let last = events.iter().rev().find_map(|e| match e {
        Event::Done { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    assert!(matches!(last, Some(Err(CallError::ResultType(_)))), "{last:?}");
}

// covers: SUB-001, SUB-004, SUB-005, SUB-006, SUB-008, SUB-012, SUB-013, SUB-014, CANC-019, META-020
#[test]
fn subscriptions_of_2026_07_28() {
    let events = play(&whole(include_str!("../../transcripts/2026-07-28-subscriptions-stdio.jsonl")));
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
    let news = [Change::Tools, Change::Resource("chart://n/1".into()), Change::Resources];
    assert_eq!(changes(&events), news);
    let ended = events.iter().filter(|e| matches!(e, Event::SubscriptionEnded { graceful: true, .. }));
    assert_eq!(ended.count(), 1);
}

// covers: CANC-016, LOG-007, LOG-008, STDIO-017
#[test]
fn logs_of_2026_07_28() {
    let events = play(&whole(include_str!("../../transcripts/2026-07-28-cancel-and-logging.jsonl")));
    assert_eq!(results(&events), (1, 2));
    assert!(events.iter().any(|e| matches!(e, Event::Log(log) if log.level == LoggingLevel::Error)));
}
