//! The four tools

use core::time::Duration;
use std::thread;

use mcp_blocking::{Answered, Cx, Failure, Handler};
use mcp_proto::model::{CallToolResult, ListToolsResult, Tool, ToolAnnotations};
use mcp_proto::server::{Call, ToolCall};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Diagnostic, Progress, RawJson, RpcError};
use serde::Serialize;
use serde_json::Number;

use super::arguments::{Add, Count, Echo, Nothing, complaint, sum};
use crate::demo::Step;
use crate::paint::Paint;
use crate::session::{self, Few};
use crate::trace;

/// What is said of a tool; the schemas use only what every revision allows in them
pub(super) struct Spec {
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    pub(super) input: &'static str,
    output: Option<&'static str>,
}

pub(super) const ECHO: Spec = Spec {
    name: "echo",
    title: "Echo",
    description: "Answers with the text that it is given",
    input: r#"{"type":"object","properties":{"text":{"type":"string","description":"What to answer"}},"required":["text"],"additionalProperties":false}"#,
    output: None,
};

pub(super) const ADD: Spec = Spec {
    name: "add",
    title: "Add",
    description: "Adds two numbers; whole ones exactly",
    input: r#"{"type":"object","properties":{"a":{"type":"number","description":"One number"},"b":{"type":"number","description":"Another one"}},"required":["a","b"],"additionalProperties":false}"#,
    output: Some(
        r#"{"type":"object","properties":{"sum":{"type":"number","description":"a + b"}},"required":["sum"]}"#,
    ),
};

pub(super) const COUNT: Spec = Spec {
    name: "count",
    title: "Count",
    description: "Counts from 1, slowly, and reports progress; can be cancelled",
    input: r#"{"type":"object","properties":{"to":{"type":"integer","minimum":0,"maximum":1000000,"description":"Where to stop"},"delay_ms":{"type":"integer","minimum":0,"maximum":3600000,"default":100,"description":"Milliseconds before each step"}},"required":["to"],"additionalProperties":false}"#,
    output: None,
};

pub(super) const FAIL: Spec = Spec {
    name: "fail",
    title: "Fail",
    description: "Always reports an error, as a tool does",
    input: r#"{"type":"object","additionalProperties":false}"#,
    output: None,
};

/// The handler: what it says when its tools are listed, and what it is to do wrong
pub(super) struct Tools {
    list: ListToolsResult,
    broken: Option<Step>,
    paint: Paint,
    oddities: Few,
}

impl Tools {
    pub(super) fn new(broken: Option<Step>) -> Self {
        let specs = [ECHO, ADD, COUNT, FAIL];
        let forgotten = (broken == Some(Step::List)).then_some(COUNT.name);
        let tools = specs.iter().filter(|spec| Some(spec.name) != forgotten).map(Spec::tool).collect();
        Self { list: ListToolsResult::new(tools), broken, paint: Paint::for_stderr(), oddities: Few(20) }
    }
}

impl Handler for Tools {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        match call.method() {
            "tools/call" => {
                let tool = call.tool()?;
                match &*tool.name {
                    "echo" => echo(cx, &tool),
                    "add" => self.add(cx, &tool),
                    "count" => self.count(cx, &tool),
                    "fail" => self.fail(cx, &tool),
                    // A protocol error, not a tool's (TOOL-021, TOOL-024).
                    unknown => Err(RpcError::invalid_params(format!("unknown tool: {}", clip(unknown)))),
                }
            }
            // There is one page, so no cursor was ever given out (PAGE-011).
            "tools/list" if call.params().is_some_and(|params| params.member("cursor").is_some()) => {
                Err(RpcError::invalid_params("unknown cursor"))
            }
            "tools/list" => cx.complete(&self.list),
            // The engine refuses what was not declared before it comes here.
            other => Err(RpcError::method_not_found(other)),
        }
    }

    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        // Two that are nobody's fault: answer and cancellation have crossed.
        if !matches!(diagnostic, Diagnostic::UnknownCancel(_) | Diagnostic::LateResponse(_)) {
            self.oddities.note(&format!("the client did something odd: {diagnostic}"));
        }
    }

    fn failed(&mut self, call: &Call, failure: &Failure) {
        session::note(&format!("{} failed: {failure}", call.method()));
    }

    fn tap(&mut self, record: &TapRecord) {
        session::say(&trace::line(record, self.paint));
    }
}

impl Tools {
    fn add(&self, cx: &mut Cx<'_>, tool: &ToolCall<'_>) -> Result<Answered, RpcError> {
        let (mut a, b) = match tool.parse::<Add>() {
            Ok(Add { a, b }) => (a, b),
            Err(reason) => return refuse(cx, &ADD, tool, &reason),
        };
        if self.broken == Some(Step::Call) {
            a = Number::from(-1);
        }
        #[derive(Serialize)]
        struct Sum {
            sum: Number,
        }
        match sum(&a, &b).map(|sum| RawJson::encode(&Sum { sum })) {
            Some(Ok(value)) => cx.complete(&CallToolResult::structured(value)),
            _ => cx.complete(&CallToolResult::error("the sum of `a` and `b` is too large for a number")),
        }
    }

    fn count(&self, cx: &mut Cx<'_>, tool: &ToolCall<'_>) -> Result<Answered, RpcError> {
        let Count { to, delay_ms } = match tool.parse::<Count>() {
            Ok(count) if count.is_bounded() => count,
            Ok(_) => return refuse(cx, &COUNT, tool, &RpcError::invalid_params("out of bounds")),
            Err(reason) => return refuse(cx, &COUNT, tool, &reason),
        };
        let delay = Duration::from_millis(delay_ms.into());
        let mut counted = 0;
        while counted < to && !(self.broken == Some(Step::Timeout) && delay >= Duration::from_secs(1)) {
            // Time passes and input is read only in here; the error says that the call was cancelled, and ends it.
            let slept = cx.sleep(delay);
            if self.broken == Some(Step::Cancel) {
                if slept.is_err() {
                    thread::sleep(delay);
                }
            } else {
                slept?;
            }
            counted += 1;
            let progress = Progress::new(counted.into()).of(to.into()).saying(format!("{counted} of {to}"));
            match self.broken {
                Some(Step::Progress) => {}
                Some(Step::Cancel) => _ = cx.progress(progress),
                _ => cx.progress(progress)?,
            }
        }
        cx.complete(&CallToolResult::text(format!("counted to {counted}")))
    }

    fn fail(&self, cx: &mut Cx<'_>, tool: &ToolCall<'_>) -> Result<Answered, RpcError> {
        if let Err(reason) = tool.parse::<Nothing>() {
            return refuse(cx, &FAIL, tool, &reason);
        }
        let text = "this tool always fails";
        if self.broken == Some(Step::Error) {
            return cx.complete(&CallToolResult::text(text));
        }
        cx.complete(&CallToolResult::error(text))
    }
}

impl Spec {
    fn tool(&self) -> Tool {
        let mut annotations = ToolAnnotations::default();
        annotations.read_only_hint = Some(true);
        annotations.idempotent_hint = Some(true);
        annotations.open_world_hint = Some(false);
        let mut tool = Tool::new(self.name, schema(self.input)).description(self.description);
        tool.title = Some(self.title.into());
        tool.output_schema = self.output.map(schema);
        tool.annotations = Some(annotations);
        tool
    }
}

fn schema(text: &'static str) -> RawJson {
    RawJson::new(text).expect("a constant of ours, read by every test")
}

fn echo(cx: &mut Cx<'_>, tool: &ToolCall<'_>) -> Result<Answered, RpcError> {
    match tool.parse::<Echo<'_>>() {
        Ok(Echo { text }) => cx.complete(&CallToolResult::text(text)),
        Err(reason) => refuse(cx, &ECHO, tool, &reason),
    }
}

/// Arguments that do not fit are the tool's error: a model that reads it can do better (TOOL-022)
fn refuse(
    cx: &mut Cx<'_>,
    spec: &Spec,
    tool: &ToolCall<'_>,
    reason: &RpcError,
) -> Result<Answered, RpcError> {
    let text = complaint(spec.name, spec.input, tool.arguments, &reason.message);
    cx.complete(&CallToolResult::error(text))
}

/// So that an answer does not grow with the question
fn clip(name: &str) -> String {
    name.chars().take(64).collect()
}
