//! A handler that asks where it needs an answer and leaves when there is none: what goes out, and what when it cannot.

use mcp_proto::model::{
    CreateMessageParams, ElicitParams, ElicitSchema, ElicitUrlParams, InputRequest, NumberSchema,
    SamplingMessage,
};
use mcp_proto::seal::Keys;
use mcp_proto::server::{self, Asking, Call, NoAnswer};
use mcp_proto::{Anchor, Capability, UseError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY, legacy, modern_with, result};
use mcp_tests::harness::{Chunker, LoneServer, each_cut};
use serde_json::{Value, json};

use crate::common::{limits, server};

const MODERN: Version = Version::V2026_07_28;

fn config() -> server::Config {
    server(VersionSet::ALL).seal(Keys::new([7; 32]), Anchor::default())
}

/// A server with one client of `version` that declared this
struct Talk {
    lone: LoneServer,
    version: Version,
    declared: Value,
    id: i64,
}

impl Talk {
    fn new(config: server::Config, version: Version, declared: Value, cut: Chunker) -> Self {
        let mut lone = LoneServer::server(config, cut);
        if version != MODERN {
            lone.open_with(version, &declared);
        }
        Self { lone, version, declared, id: 0 }
    }

    /// The client calls `book`
    fn call(&mut self, more: &Value) -> Call {
        self.id += 1;
        let mut params = json!({"name": "book"});
        params.as_object_mut().expect("an object").extend(more.as_object().expect("members").clone());
        let request = if self.version == MODERN {
            let declared = json!({"io.modelcontextprotocol/clientCapabilities": self.declared});
            modern_with(self.id, "tools/call", params, &declared)
        } else {
            legacy(self.id, "tools/call", params)
        };
        self.lone.take(&request)
    }

    /// The handler has left with these questions
    fn ask(&mut self, call: &Call, asking: &Asking) -> Result<(), UseError> {
        let now = self.lone.now;
        let outcome = self.lone.pipe.engine().ask(now, call, asking);
        self.lone.pump();
        outcome
    }

    /// The client answers what it is asked; the call comes again
    fn answer(&mut self, key: &str, answer: &Value) -> Call {
        let said = self.lone.reply();
        if self.version == MODERN {
            let state = &said["result"]["requestState"];
            return self.call(&json!({"inputResponses": {key: answer}, "requestState": state}));
        }
        self.lone.tell(&result(&said, answer.clone()));
        self.lone.call()
    }
}

fn guests() -> InputRequest<'static> {
    let form = ElicitSchema::default().field("guests", NumberSchema::integer().minimum(1.0));
    InputRequest::Elicit(ElicitParams::form("How many?", form))
}

fn asked(call: &Call, key: &str, question: InputRequest<'static>) -> Asking {
    let mut asking = Asking::new();
    assert!(matches!(asking.ask(call, key, question), Err(NoAnswer::Asked)));
    assert!(!asking.is_empty());
    asking
}

// covers: MRTR-009, ERR-007, ELIC-005, SAMP-002, ROOT-010
#[test]
fn a_client_that_lacks_something_is_told_what() {
    let model = CreateMessageParams::new([SamplingMessage::user("hi")], 9_u32);
    let page = ElicitUrlParams::new("Pay", "https://harbour.example/pay").elicitation_id("e1");
    for (question, lacks, required) in [
        (guests(), Capability::ElicitationForm, json!({"elicitation": {"form": {}}})),
        (InputRequest::Elicit(page.into()), Capability::ElicitationUrl, json!({"elicitation": {"url": {}}})),
        (InputRequest::CreateMessage(model), Capability::Sampling, json!({"sampling": {}})),
        (InputRequest::ListRoots(None), Capability::Roots, json!({"roots": {}})),
    ] {
        for version in [Version::V2025_11_25, MODERN] {
            let mut talk = Talk::new(config(), version, json!({}), Chunker::Whole);
            let call = talk.call(&json!({}));
            let asking = asked(&call, "q", question.clone());
            assert_eq!(talk.ask(&call, &asking), Err(UseError::PeerLacks(lacks)));
            let error = &talk.lone.reply()["error"];
            // Older revisions have no code of its own for that.
            let code = if version == MODERN { -32021 } else { -32600 };
            assert_eq!((&error["code"], &error["data"]["requiredCapabilities"]), (&json!(code), &required));
            // It has been answered by that.
            assert_eq!(talk.ask(&call, &asking), Err(UseError::Stale));
            talk.lone.still();
        }
    }
}

#[test]
fn what_a_revision_lacks_is_told_by_its_name() {
    // What a client declares that its session cannot carry changes nothing.
    for declared in [json!({}), json!({"elicitation": {"form": {}, "url": {}}})] {
        for version in LEGACY.into_iter().filter(|v| *v < Version::V2025_06_18) {
            let mut talk = Talk::new(config(), version, declared.clone(), Chunker::Whole);
            let call = talk.call(&json!({}));
            let asking = asked(&call, "q", guests());
            let what = "elicitation/create".to_owned();
            assert_eq!(talk.ask(&call, &asking), Err(UseError::NotInVersion { what, version }));
            let error = &talk.lone.reply()["error"];
            assert_eq!(error["code"], -32600);
            let message = error["message"].as_str().expect("a message");
            assert!(
                message.contains("elicitation/create") && message.contains(version.as_str()),
                "{message}"
            );
        }
    }
}

// covers: MRTR-027, MRTR-029, ELIC-020
#[test]
fn an_answer_that_does_not_fit_is_asked_for_again() {
    for version in [Version::V2025_06_18, Version::V2025_11_25, MODERN] {
        each_cut(|cut| {
            let mut talk = Talk::new(config(), version, json!({"elicitation": {}}), cut);
            let mut call = talk.call(&json!({}));
            for (round, wrong) in [
                json!({"action": "accept", "content": {"guests": 0}}),
                json!({"action": "accept", "content": {"guests": "two"}}),
                json!({"action": "accept", "content": {}}),
                json!({"action": "accept"}),
                json!({"action": "perhaps"}),
                json!({}),
                json!({"roots": []}),
            ]
            .iter()
            .enumerate()
            {
                let mut asking = asked(&call, "q", guests());
                asking.keep(format!("round {round}"));
                assert_eq!(talk.ask(&call, &asking), Ok(()));
                call = talk.answer("q", wrong);
                assert_eq!(call.state(), Some(format!("round {round}").as_bytes()), "{wrong}");
            }
            let asking = asked(&call, "q", guests());
            assert_eq!(talk.ask(&call, &asking), Ok(()));
            let call = talk.answer("q", &json!({"action": "accept", "content": {"guests": 2}}));
            let mut asking = Asking::new();
            assert!(asking.ask(&call, "q", guests()).is_ok() && asking.is_empty());
            talk.lone.transcript
        });
    }
}

// covers: MRTR-026
#[test]
fn a_handler_that_asks_for_ever_is_stopped_and_the_client_is_told() {
    for version in [Version::V2025_11_25, MODERN] {
        let config = config().limits(limits(|l| l.max_input_rounds = 3));
        let mut talk = Talk::new(config, version, json!({"elicitation": {}}), Chunker::Whole);
        let mut call = talk.call(&json!({}));
        for _ in 0..3 {
            let asking = asked(&call, "q", guests());
            assert_eq!(talk.ask(&call, &asking), Ok(()));
            call = talk.answer("q", &json!({"action": "accept"}));
        }
        let asking = asked(&call, "q", guests());
        assert_eq!(talk.ask(&call, &asking), Err(UseError::Full("max_input_rounds")));
        let error = &talk.lone.reply()["error"];
        assert_eq!((&error["code"], &error["message"]), (&json!(-32603), &json!("asked too often")));
        talk.lone.works();
    }
}

// covers: MRTR-021
#[test]
fn without_keys_what_has_to_be_kept_cannot_be_asked_and_nobody_is_told_why() {
    let mut talk = Talk::new(server(VersionSet::ALL), MODERN, json!({"elicitation": {}}), Chunker::Whole);
    let call = talk.call(&json!({}));
    let mut asking = asked(&call, "q", guests());
    asking.keep("kept");
    assert_eq!(talk.ask(&call, &asking), Err(UseError::NoKeys));
    let error = &talk.lone.reply()["error"];
    assert_eq!(error["code"], -32603);
    assert!(!error.to_string().contains("key"), "{error}");
    // A legacy session keeps it itself.
    let elicits = json!({"elicitation": {}});
    let mut talk = Talk::new(server(VersionSet::ALL), Version::V2025_11_25, elicits, Chunker::Whole);
    let call = talk.call(&json!({}));
    let mut asking = asked(&call, "q", guests());
    asking.keep("kept");
    assert_eq!(talk.ask(&call, &asking), Ok(()));
    let call = talk.answer("q", &json!({"action": "decline"}));
    assert_eq!(call.state(), Some(&b"kept"[..]));
}
