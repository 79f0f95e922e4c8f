//! One server application and one client application, and every pair of newest revisions that the two sides speak:
//! what is lost on the way is exactly what the published table says, and what cannot be said is refused before anything
//! is sent.

mod desk;
mod values;

use mcp_proto::model::*;
use mcp_proto::router::Kind;
use mcp_proto::{CallError, CallOptions, RawJson, UseError, Version};
use mcp_tests::harness::build::{raw, value};
use mcp_tests::published::{Published, plain};
use mcp_tests::schema::Direction;
use serde::Serialize;
use serde_json::{Value, json};

use desk::{Desk, TICKET, newest};

/// A value in full, as no single revision has it
fn full<T: Serialize>(what: &T) -> Value {
    let mut full = value(&RawJson::encode(what).expect("JSON"));
    // Every result of the modern era says so, whoever made it.
    if full.is_object() {
        full["resultType"] = json!("complete");
    }
    full
}

/// What the application gets, without what the engine says by itself
fn got(result: &RawJson) -> Value {
    let mut result = plain(&value(result));
    if let Some(meta) = result.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.remove("io.modelcontextprotocol/serverInfo");
        if meta.is_empty() {
            result.as_object_mut().expect("an object").remove("_meta");
        }
    }
    result
}

struct Run<'t> {
    desk: Desk,
    table: &'t Published,
    version: Version,
    /// Values that arrived with something missing, or as something else
    lossy: usize,
}

impl Run<'_> {
    fn result(&mut self, name: &str, sent: &Value, outcome: &Result<RawJson, CallError>) {
        let want = plain(&self.table.lower(self.version, name, sent).expect("not refused"));
        let outcome = outcome.as_ref().unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(got(outcome), want, "{} {name}", self.version);
        self.lossy += usize::from(want != plain(sent));
    }

    /// Lists, and what each entry is for
    fn lists(&mut self) {
        for (list, name, member, items) in values::lists() {
            let mut want = full(&json!({ "ttlMs": 60_000, "cacheScope": "public" }));
            want[member] = items;
            let now = self.desk.pair.now;
            let key = self.desk.pair.client.engine().list(now, list, None, &CallOptions::new());
            let outcome = self.desk.outcome(key.expect("declared"));
            self.result(name, &want, &outcome);
            let back = outcome.expect("a list");
            match list {
                Kind::Tool => read::<ListToolsResult>(&back),
                Kind::Resource => read::<ListResourcesResult>(&back),
                Kind::ResourceTemplate => read::<ListResourceTemplatesResult>(&back),
                Kind::Prompt => read::<ListPromptsResult>(&back),
                other => panic!("{other:?}"),
            }
        }
    }

    fn work(&mut self) {
        for (name, result) in values::tool_results() {
            let outcome = self.desk.call("tools/call", &CallToolParams::new(name).arguments(raw(&json!({}))));
            self.result("CallToolResult", &full(&result), &outcome);
            outcome.expect("a result").parse::<CallToolResult<'_>>().expect("typed");
        }
        let outcome = self.desk.call("resources/read", &ReadResourceParams::new(values::URI));
        self.result("ReadResourceResult", &full(&values::contents()), &outcome);
        let outcome = self.desk.call("resources/read", &ReadResourceParams::new("berth://C/14"));
        self.result("ReadResourceResult", &full(&values::contents()), &outcome);
        let params = GetPromptParams::new("all").arguments([("harbour", "Brest".to_owned())]);
        let outcome = self.desk.call("prompts/get", &params);
        self.result("GetPromptResult", &full(&values::messages()), &outcome);
        for params in values::completions() {
            let outcome = self.desk.call("completion/complete", &params);
            self.result("CompleteResult", &full(&values::completed()), &outcome);
            let (_, seen) = self.desk.seen.last().expect("a call");
            let sent = plain(&value(&RawJson::encode(&params).expect("JSON")));
            let want = self.table.lower(self.version, "CompleteParams", &sent).expect("not refused");
            assert_eq!(plain(seen), want, "{}", self.version);
        }
    }

    fn errors(&mut self) {
        for error in values::errors() {
            let name = format!("fail{}", error.code);
            match self.desk.call("tools/call", &CallToolParams::new(name)) {
                Err(CallError::Rpc(told)) => {
                    assert_eq!(
                        told.code,
                        self.table.error_code(self.version, error.code),
                        "{}",
                        self.version
                    );
                    assert_eq!((told.message, told.data), (error.message, error.data));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Values that stand in for what later work sends: as parameters of a method that both applications agreed on
    fn parameters(&mut self) {
        values::each_parameter(self);
    }

    /// Sends a value as the parameters of the application's own method
    pub(crate) fn parameter<T: Serialize>(&mut self, name: &str, params: &T) {
        let sent = value(&RawJson::encode(params).expect("JSON"));
        let before = self.desk.pair.watch.messages.len();
        match self.table.lower(self.version, name, &sent) {
            Ok(mut want) => {
                let outcome = self.desk.call(TICKET, params);
                assert!(outcome.is_ok(), "{} {name}: {outcome:?}", self.version);
                let (_, seen) = self.desk.seen.last().expect("a call");
                // Metadata of requests is the engine's.
                want.as_object_mut().expect("an object").remove("_meta");
                assert_eq!(plain(seen), plain(&want), "{} {name}", self.version);
                self.lossy += usize::from(want != sent);
            }
            Err(_) => {
                let now = self.desk.pair.now;
                let refused = self.desk.pair.client.engine().call(now, TICKET, params, &CallOptions::new());
                self.not_in_version(name, &refused);
                self.desk.settle();
                assert_eq!(self.desk.pair.watch.messages.len(), before, "{name}: nothing was sent");
                self.lossy += 1;
            }
        }
    }

    fn not_in_version<T: core::fmt::Debug>(&self, what: &str, outcome: &Result<T, UseError>) {
        match outcome {
            Err(UseError::NotInVersion { version, what: told }) if !told.is_empty() => {
                assert_eq!(*version, self.version, "{what}");
            }
            other => panic!("{} {what}: {other:?}", self.version),
        }
    }

    fn methods(&mut self) {
        // What else revisions have or lack is for the engine to send.
        let method = "ping";
        let before = self.desk.pair.watch.messages.len();
        let now = self.desk.pair.now;
        let made = self.desk.pair.client.engine().call(now, method, &json!({}), &CallOptions::new());
        if self.table.has_method(self.version, method) {
            let outcome = self.desk.outcome(made.expect("there is such a method"));
            assert!(outcome.is_ok(), "{method}: {outcome:?}");
        } else {
            self.not_in_version(method, &made);
            self.desk.settle();
            assert_eq!(self.desk.pair.watch.messages.len(), before, "{method}: nothing was sent");
        }
    }

    /// A handler answers with what the revision has no form for: its author is told, the call stays open, and nothing
    /// has gone out
    fn refused_answers(&mut self) {
        let outcome = self.desk.call("tools/call", &CallToolParams::new("asks"));
        let told = self.desk.refused.pop();
        match self.table.lower(self.version, "InputRequiredResult", &full(&values::asks())) {
            Ok(_) => assert_eq!(told, None),
            Err(_) => {
                let (before, after, error) = told.expect("refused");
                self.not_in_version("InputRequiredResult", &Err::<(), _>(error));
                assert_eq!(before, after, "nothing was written");
                assert!(matches!(outcome, Err(CallError::Rpc(_))), "{outcome:?}");
            }
        }
    }

    /// Who each side says it is, and what it can do; the client says so in the revision that it asks for
    fn identities(&mut self, ours: Version) {
        let peer = self.desk.peer.clone().expect("ready");
        assert_eq!(peer.version, self.version);
        let asked = if self.version == ours { ours } else { ours.min(Version::V2025_11_25) };
        let lower = |version: Version, name: &str, full: &Value| {
            plain(&self.table.lower(version, name, full).expect("told"))
        };
        let info = value(&RawJson::encode(&values::info("tide-server")).expect("JSON"));
        assert_eq!(
            plain(&value(&peer.info.expect("an identity"))),
            lower(self.version, "Implementation", &info)
        );
        assert_eq!(
            plain(&value(&peer.capabilities)),
            lower(self.version, "ServerCapabilities", &values::server_capabilities())
        );
        let caller = self.desk.callers.last().expect("a call");
        let info = value(&RawJson::encode(&values::info("harbor-client")).expect("JSON"));
        assert_eq!(
            plain(&value(caller.info.as_ref().expect("an identity"))),
            lower(asked, "Implementation", &info)
        );
        let can = plain(&value(&caller.capabilities));
        assert_eq!(can, lower(asked, "ClientCapabilities", &values::client_capabilities()));
    }
}

fn read<T: serde::de::DeserializeOwned>(result: &RawJson) {
    result.parse::<T>().unwrap_or_else(|e| panic!("{e}: {result}"));
}

/// Types of the table that no engine sends for an application yet, or that are part of others only
const ELSEWHERE: [&str; 5] = [
    "DiscoverResult",
    "InitializeParams",
    "InitializeResult",
    "SubscriptionsAcknowledgedParams",
    "SubscriptionsListenResult",
];

// covers: TOOL-006, TOOL-009, TOOL-014, TOOL-018, CONT-001, CONT-004, CONT-006, CONT-008, EXT-009, LIFE-013, LIFE-022
// covers: RES-008, RES-009, PROMPT-005, PROMPT-008, COMP-006, META-026, ERR-003, ERR-009, SCHEMA-011
#[test]
fn what_is_lost_is_what_the_table_says() {
    let table = &Published::read();
    let mut lossy = Vec::new();
    for theirs in Version::ALL {
        for ours in Version::ALL {
            let version = theirs.min(ours);
            let desk = Desk::open(newest(ours), newest(theirs));
            let mut run = Run { desk, table, version, lossy: 0 };
            run.lists();
            run.work();
            run.errors();
            run.parameters();
            run.methods();
            run.refused_answers();
            run.identities(ours);
            assert_eq!(run.desk.refused, [], "{ours} and {theirs}");
            // The harness has compared all of it with the schemas.
            assert!(run.desk.pair.went(Direction::ServerToClient).count() > 20);
            lossy.push((version, run.lossy));
        }
    }
    assert_eq!(lossy.len(), 25);
    assert_eq!(table.unseen(), ELSEWHERE, "every other type was put to use");
    lossy.sort_unstable();
    lossy.dedup();
    let (versions, losses): (Vec<_>, Vec<_>) = lossy.into_iter().unzip();
    assert_eq!(versions, Version::ALL, "what is lost depends on the revision in use alone");
    assert!(losses.windows(2).take(3).all(|w| w[0] > w[1]), "older revisions lose more: {losses:?}");
}
