//! A handler whose tools do what the tests need.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use std::sync::mpsc;

use mcp_proto::model::CallToolResult;
use mcp_proto::server::{self, CancelReason};
use mcp_proto::{Progress, RawJson, RpcError};
use serde::{Deserialize, Serialize, Serializer};

use super::DEADLINE;
use super::adapter::{Answered, Call, Cx, HandlerFailure, handler_fn, impl_handler, wait, yield_now};

/// Tools that do what the tests need, and report their events.
pub struct Tools {
    events: mpsc::Sender<String>,
}

impl Tools {
    pub fn new() -> (Self, mpsc::Receiver<String>) {
        let (events, received) = mpsc::channel();
        (Self { events }, received)
    }

    fn record(&self, event: impl Into<String>) {
        let _ = self.events.send(event.into());
    }
}

/// A value that cannot be encoded as JSON.
struct FailingSerialize;

impl Serialize for FailingSerialize {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("the secret reason"))
    }
}

/// Reports that a handler was dropped before it returned.
struct DropReporter<'a>(&'a Tools);

impl Drop for DropReporter<'_> {
    fn drop(&mut self) {
        self.0.record("dropped");
    }
}

impl Tools {
    handler_fn! {
        pub fn answer(&self, cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
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
            let tool = call.tool_call()?;
            let Arguments { text, steps } = tool.parse()?;
            match &*tool.name {
                "echo" => cx.complete(&CallToolResult::text(text)),
                "raw" => cx.complete_raw(&RawJson::encode(&CallToolResult::text(text)).unwrap()),
                "count" => {
                    for step in 1..=steps {
                        cx.progress(
                            Progress::new(step.into())
                                .with_total(steps.into())
                                .with_message(format!("step {step}")),
                        )?;
                        wait!(yield_now());
                    }
                    cx.complete(&CallToolResult::text("counted"))
                }
                "endless" => {
                    self.record("begun");
                    let dropped = DropReporter(self);
                    let slept = wait!(cx.sleep(DEADLINE * 2));
                    core::mem::forget(dropped);
                    let by_client = matches!(cx.cancel_reason(), Some(CancelReason::Client(_)));
                    self.record(format!("{} {} {by_client}", slept.is_err(), cx.is_cancelled()));
                    slept?;
                    cx.complete(&CallToolResult::text("never"))
                }
                "stubborn" => {
                    self.record("begun");
                    while cx.checkpoint().is_ok() {
                        wait!(yield_now());
                    }
                    // The call is cancelled, so this result is discarded.
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
                "unwritable" => cx.complete(&FailingSerialize),
                "who" => {
                    let name =
                        cx.peer().info.and_then(|info| info.member("name")).and_then(|name| name.string());
                    cx.complete(&CallToolResult::text(name.unwrap_or_default()))
                }
                other => Err(RpcError::invalid_params(format!("unknown tool: {other}"))),
            }
        }
    }
}

impl_handler! {
    Tools {
        fn call(&self, cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
            wait!(self.answer(cx, call))
        }
        fn notification(&self, notification: &server::Notification) {
            self.record(&*notification.method);
            panic!("in a callback, on purpose");
        }
        fn failed(&self, _: &Call, failure: &HandlerFailure) {
            self.record(failure.to_string());
        }
    }
}
