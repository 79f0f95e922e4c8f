//! Suite: questions of a handler that run as tasks of the client, in both eras.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use core::time::Duration;
use std::thread;

use mcp_proto::client::InputTaskLimits;
use mcp_proto::model::{ElicitAction, ElicitParams, ElicitResult, ElicitSchema, StringSchema, Tool};
use mcp_proto::server::InputError;
use mcp_proto::{Capabilities, Capability, Era, RawJson, RpcError};
use mcp_runtime::client::ClientHandler;
use serde_json::{Value, json};

use crate::adapter::{Client, Cx, Router, handler, serve};
use crate::support::{ERAS, NoteLog, client_config, text, version_set, with_timeout};

/// Asks where to dredge, by tasks if the tool is `tasks`.
fn dredge(cx: &mut Cx, as_tasks: bool) -> Result<String, RpcError> {
    if as_tasks {
        cx.ask_as_tasks(Some(Duration::from_secs(60)));
    }
    let form = ElicitSchema::new([("basin", StringSchema::new().into())]);
    match cx.elicit("basin", "Which basin?", form) {
        Ok(answer) if answer.action == ElicitAction::Accept => {
            let basin = answer.content.unwrap_or_default().get("basin").map(|basin| format!("{basin:?}"));
            Ok(format!("dredged {}", basin.unwrap_or_default()))
        }
        Ok(_) => Ok("never mind".into()),
        Err(InputError::Refused(error)) => Ok(format!("refused: {error}")),
        Err(pending) => Err(pending.into()),
    }
}

fn router() -> Router {
    let mut router = Router::new("harbour", "1.0");
    let tool = |name| Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap());
    router
        .tool_with(tool("plain"), handler!(|cx: &mut Cx, _: Value| dredge(cx, false)))
        .tool_with(tool("tasks"), handler!(|cx: &mut Cx, _: Value| dredge(cx, true)));
    router
}

/// A user who takes a moment to answer.
struct User {
    log: NoteLog,
    takes: Duration,
}

impl ClientHandler for User {
    fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let ElicitParams::Form(form) = params else { panic!("{params:?}") };
        self.log.record(form.message.clone());
        thread::sleep(self.takes);
        Ok(ElicitResult::accept([("basin", "east".into())]))
    }
}

/// Calls both tools of a server. Returns their results and the number of questions.
fn call_both(era: Era, limits: Option<InputTaskLimits>, takes: Duration) -> ([String; 2], usize) {
    let log = NoteLog::default();
    let config = client_config(version_set(era));
    let config = config.capabilities(Capabilities::new().with(Capability::Elicitation));
    let options = Client::options(config).handler(User { log: log.clone(), takes });
    let options = match limits {
        Some(limits) => options.input_tasks(limits.poll_interval(Duration::from_millis(100))),
        None => options,
    };
    let (client, serving) = serve(router, options);
    let results = ["plain", "tasks"].map(|tool| text(&client.call_tool(tool, &json!({})).unwrap()));
    client.close().unwrap();
    serving.join().unwrap().unwrap();
    (results, log.take().len())
}

// covers: TASK-003, TASK-009, TASK-018, TASK-019
#[test]
fn handler_sees_the_same_whether_its_question_is_a_task_or_not() {
    with_timeout(|| {
        for era in ERAS {
            for limits in [None, Some(InputTaskLimits::new())] {
                for takes in [Duration::ZERO, Duration::from_millis(150)] {
                    let (results, asked) = call_both(era, limits.clone(), takes);
                    assert!(results[0].starts_with("dredged") && results[0].contains("east"), "{results:?}");
                    assert_eq!((&results[0], asked), (&results[1], 2), "{era:?} {limits:?}");
                }
            }
        }
    });
}

// covers: TASK-036
#[test]
fn client_without_room_for_tasks_refuses_questions_that_ask_for_one() {
    with_timeout(|| {
        for era in ERAS {
            let limits = InputTaskLimits::new().max_tasks(0);
            let (results, asked) = call_both(era, Some(limits), Duration::ZERO);
            assert!(results[0].starts_with("dredged"), "{results:?}");
            // Only 2025-11-25 has such tasks.
            let (wanted, questions) = if era == Era::Legacy { ("refused", 1) } else { ("dredged", 2) };
            assert!(results[1].starts_with(wanted), "{results:?}");
            assert_eq!(asked, questions, "{era:?}");
        }
    });
}
