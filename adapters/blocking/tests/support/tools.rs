//! A handler with tools that do what the tests need, and what reads its answers

use std::sync::mpsc;

use mcp_blocking::{Answered, Call, Cx, Failure, Handler};
use mcp_proto::model::CallToolResult;
use mcp_proto::server::{self, CancelReason};
use mcp_proto::{Progress, RawJson, RpcError};
use serde::{Deserialize, Serialize, Serializer};

use super::DEADLINE;

/// Tools that do what the tests need
pub struct Tools {
    news: mpsc::Sender<String>,
}

impl Tools {
    pub fn new() -> (Self, mpsc::Receiver<String>) {
        let (news, told) = mpsc::channel();
        (Self { news }, told)
    }

    fn tell(&self, what: impl Into<String>) {
        let _ = self.news.send(what.into());
    }
}

/// Cannot be written as JSON
struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("the secret reason"))
    }
}

/// What the tools do, for the `Handler` of any adapter whose handlers block
impl Tools {
    pub fn answer(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        #[derive(Deserialize)]
        struct Arguments {
            #[serde(default)]
            text: String,
            #[serde(default)]
            steps: u32,
        }
        if call.method() == "tools/list" {
            return cx.complete_raw(
                &RawJson::new(r#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#).unwrap(),
            );
        }
        let tool = call.tool()?;
        let Arguments { text, steps } = tool.parse()?;
        match &*tool.name {
            "echo" => cx.complete(&CallToolResult::text(text)),
            "raw" => cx.complete_raw(&RawJson::encode(&CallToolResult::text(text)).unwrap()),
            "count" => {
                for step in 1..=steps {
                    cx.progress(Progress::new(step.into()).of(steps.into()).saying(format!("step {step}")))?;
                }
                cx.complete(&CallToolResult::text("counted"))
            }
            "endless" => {
                self.tell("begun");
                let slept = cx.sleep(DEADLINE * 2);
                let client_did = matches!(cx.cancel_reason(), Some(CancelReason::Client(_)));
                self.tell(format!("{} {} {client_did}", slept.is_err(), cx.is_cancelled()));
                slept?;
                cx.complete(&CallToolResult::text("never"))
            }
            "stubborn" => {
                self.tell("begun");
                while cx.checkpoint().is_ok() {
                    std::thread::yield_now();
                }
                // Whatever it says now, nobody hears it.
                cx.complete(&CallToolResult::text("too late"))
            }
            "panics" => panic!("on purpose"),
            "answers and panics" => {
                let _ = cx.complete(&CallToolResult::text("answered"))?;
                panic!("on purpose, afterwards")
            }
            "answers and errs" => {
                let _ = cx.complete(&CallToolResult::text("answered"))?;
                Err(RpcError::new(1, "not sent"))
            }
            "answers twice" => {
                let _ = cx.complete(&CallToolResult::text("first"))?;
                cx.complete(&CallToolResult::text("second"))
            }
            "unwritable" => cx.complete(&Unwritable),
            "who" => {
                let name = cx.peer().info.and_then(|info| info.member("name")).and_then(|name| name.string());
                cx.complete(&CallToolResult::text(name.unwrap_or_default()))
            }
            other => Err(RpcError::invalid_params(format!("unknown tool: {other}"))),
        }
    }

    pub fn hear(&self, notification: &server::Notification) {
        self.tell(&*notification.method);
        panic!("in a callback, on purpose");
    }

    pub fn note(&self, failure: &Failure) {
        self.tell(failure.to_string());
    }
}

impl Handler for Tools {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        self.answer(cx, call)
    }

    fn notification(&mut self, notification: &server::Notification) {
        self.hear(notification);
    }

    fn failed(&mut self, _: &Call, failure: &Failure) {
        self.note(failure);
    }
}

pub fn text(result: &CallToolResult<'_>) -> String {
    result.content[0].as_text().expect("text").to_owned()
}

/// The same of a result as it came
pub fn raw_text(result: &RawJson) -> String {
    text(&result.parse().expect("a tool's result"))
}
