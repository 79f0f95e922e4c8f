//! The server application: its tools, in any revision.

use mcp_proto::model::{
    CallToolResult, CreateMessageParams, ElicitParams, ElicitSchema, ElicitUrlParams, InputRequest,
    InputRequests, LoggingLevel, SamplingContent, SamplingMessage, StringSchema, Tool, ToolChoice,
    ToolResultContent, ToolUseContent,
};
use mcp_proto::pipe::Server;
use mcp_proto::router::{CallTarget, HandlerError, Route, Router};
use mcp_proto::server::{Call, CancelReason, Event, TaskOffer, TaskOptions};
use mcp_proto::{Instant, Progress, RawJson, RpcError, UseError};
use mcp_tests::harness::build::to_value;
use serde_json::json;

use super::record::{Facet, RecordLine, RecordSide};
use super::scenario_runner::RecordingApps;
use super::{TIDES, TIDES_METHOD};

/// Every key of an input request, in the order in which responses are recorded.
const KEYS: [&str; 6] = ["fish", "boat", "dirs", "who", "page", "tool"];

#[expect(deprecated, reason = "tested until its removal")]
fn sampling_request(text: &str) -> InputRequest<'static> {
    let message = SamplingMessage::user(text.to_owned());
    InputRequest::CreateMessage(CreateMessageParams::new([message], 50_u32))
}

fn form_request() -> InputRequest<'static> {
    let schema = ElicitSchema::default().field("name", StringSchema::new());
    InputRequest::Elicit(ElicitParams::form("Who are you?", schema))
}

fn url_request() -> InputRequest<'static> {
    let page = ElicitUrlParams::new("Pay", "https://harbour.example/pay").elicitation_id("p-1");
    InputRequest::Elicit(page.into())
}

/// Returns a sampling request with a tool; with `with_result` the messages include the tool result.
#[expect(deprecated, reason = "tested until its removal")]
fn sampling_request_with_tool(with_result: bool) -> InputRequest<'static> {
    let tool = Tool::new("tide", RawJson::new(r#"{"type":"object"}"#).expect("JSON"));
    let mut messages = vec![SamplingMessage::user("When is high water?")];
    if with_result {
        let input = RawJson::new("{}").expect("JSON");
        let tool_use = SamplingContent::ToolUse(ToolUseContent::new("u1", "tide", input));
        let tool_result = SamplingContent::ToolResult(Box::new(ToolResultContent::text("u1", "at noon")));
        messages.push(SamplingMessage::assistant(vec![tool_use]));
        messages.push(SamplingMessage::user(vec![tool_result]));
    }
    let params = CreateMessageParams::new(messages, 50_u32).tools([tool]).tool_choice(ToolChoice::new());
    InputRequest::CreateMessage(params)
}

fn input_requests<const N: usize>(requests: [(&str, InputRequest<'static>); N]) -> InputRequests<'static> {
    let mut all = InputRequests::new();
    for (key, request) in requests {
        all.insert(key, request);
    }
    all
}

/// Answers a tool of a router, whose arguments must have a number.
fn count_berths(call: &Call) -> Result<CallToolResult<'static>, RpcError> {
    #[derive(serde::Deserialize)]
    struct Berths {
        berths: u32,
    }
    let schema = RawJson::new(r#"{"type":"object"}"#).expect("JSON");
    let mut router = Router::<()>::new("tide-server", "2.1.0");
    router.tool(Tool::new("count", schema), ()).expect("a tool");
    let Route::Handle(routed) = router.route(call) else { panic!("a handler") };
    let CallTarget::Tool(target) = &routed.target else { panic!("a tool") };
    match target.parse::<Berths>() {
        Ok(berths) => Ok(CallToolResult::text(berths.berths.to_string())),
        Err(invalid) => invalid.into_result().map_err(HandlerError::into_rpc_error),
    }
}

impl RecordingApps {
    fn push_server_line(&mut self, text: impl Into<String>) {
        self.lines.push(RecordLine::new(RecordSide::Server, text));
    }

    pub(super) fn serve(&mut self, now: Instant, server: &mut Server, event: Event) {
        match event {
            Event::Call(call) => {
                self.channel = Some(call.channel());
                self.begin(now, server, call);
            }
            Event::Cancelled { call, reason } => {
                let at = self.pending_calls.iter().position(|held| held.id() == call);
                let name = match at {
                    Some(at) => self.pending_calls.remove(at).tool_call().expect("a tool").name.into_owned(),
                    None => "a call that was answered".into(),
                };
                let reason = match reason {
                    CancelReason::Client(reason) => format!("by the client, {reason:?}"),
                    other => format!("{other:?}"),
                };
                self.push_server_line(format!("{name} cancelled: {reason}"));
            }
            Event::SessionOpened { channel, .. } => {
                self.channel = Some(channel);
                self.push_server_line("session opened");
            }
            Event::ResourceInterest { uri, is_subscribed: wanted } => {
                self.push_server_line(format!("interest in {uri}: {wanted}"))
            }
            Event::Notification(n) => {
                self.push_server_line(format!("notification {} {:?}", n.method, n.params))
            }
            Event::Done { outcome, .. } => {
                self.push_server_line(format!("custom request ended: {outcome:?}"))
            }
            Event::Diagnostic { diagnostic: mcp_proto::Diagnostic::DeprecatedFeature { .. }, .. } => {}
            Event::Diagnostic { diagnostic, .. } => {
                // Ids in diagnostics differ between revisions.
                let text = format!("{diagnostic:?}");
                self.push_server_line(format!("diagnostic: {}", text.split('(').next().unwrap_or_default()));
            }
            Event::Closed { fault, .. } => self.push_server_line(format!("closed: {fault}")),
            other => self.push_server_line(format!("{other:?}")),
        }
    }

    /// Starts a delivered call.
    fn begin(&mut self, now: Instant, server: &mut Server, call: Call) {
        let engine = server.engine();
        if call.method() == "tools/list" {
            self.push_server_line("tools/list");
            let list = json!({"tools": [{"name": "line", "inputSchema": {"type": "object"}}]});
            return engine.complete(now, call.id(), &list).expect("open");
        }
        if call.method() == TIDES_METHOD {
            let declared = engine.peer(&call).extension(TIDES);
            self.push_server_line(format!("tides, the extension of the client: {declared:?}"));
            return engine.complete(now, call.id(), &json!({"high": 4})).expect("open");
        }
        if self.uses_tasks && call.task_offer() != TaskOffer::None {
            return engine.tasks(now).begin(&call, TaskOptions::new()).map(drop).expect("room");
        }
        let tool = call.tool_call().expect("a tool").name.into_owned();
        if tool == "count" {
            self.push_server_line("count");
            return match count_berths(&call) {
                Ok(result) => engine.complete(now, call.id(), &result).expect("open"),
                Err(error) => engine.fail(now, call.id(), &error).expect("open"),
            };
        }
        let mut line = format!("{tool}, delivery {}", call.attempt());
        if let Some(state) = call.state() {
            line.push_str(&format!(", state {}", String::from_utf8_lossy(state)));
        }
        for key in KEYS {
            match call.answer(key) {
                None => {}
                Some(Ok(answer)) => {
                    let mut answer = to_value(answer);
                    // In 2025-11-25 the answer to a question of a task names the task.
                    answer.as_object_mut().expect("an object").retain(|name, _| name != "_meta");
                    line.push_str(&format!(", {key}: {answer}"));
                }
                Some(Err(error)) => line.push_str(&format!(", {key}: none, {error}")),
            }
        }
        self.lines.push(
            RecordLine::new(RecordSide::Server, line).with_facet(Facet::Revision, call.version().as_str()),
        );
        if tool == "hold" {
            return self.pending_calls.push(call);
        }
        self.run_tool(now, server, &call, &tool);
    }

    /// Continues the held call.
    pub(super) fn release(&mut self, now: Instant, server: &mut Server) {
        let call = self.pending_calls.remove(0);
        self.run_tool(now, server, &call, "hold");
    }

    #[expect(deprecated, reason = "tested until its removal")]
    fn run_tool(&mut self, now: Instant, server: &mut Server, call: &Call, tool: &str) {
        let has = |key: &str| call.answer(key).is_some();
        match tool {
            "line" | "hold" if !has("fish") => self.request_input(
                now,
                server,
                call,
                &input_requests([("fish", sampling_request("A fish?"))]),
            ),
            "twice" => match (has("fish"), has("boat")) {
                (false, _) => self.request_input(
                    now,
                    server,
                    call,
                    &input_requests([("fish", sampling_request("A fish?"))]),
                ),
                (_, false) => self.request_input(
                    now,
                    server,
                    call,
                    &input_requests([("boat", sampling_request("A boat?"))]),
                ),
                _ => self.complete_call(now, server, call),
            },
            // The response to a repeated key is not restored.
            "again" if call.attempt() < 2 => {
                self.request_input(
                    now,
                    server,
                    call,
                    &input_requests([("fish", sampling_request("A fish?"))]),
                );
            }
            "several" if !has("dirs") => {
                let all = input_requests([
                    ("dirs", InputRequest::ListRoots(None)),
                    ("fish", sampling_request("A fish?")),
                ]);
                self.request_input(now, server, call, &all);
            }
            "dirs" if !has("dirs") => {
                self.request_input(
                    now,
                    server,
                    call,
                    &input_requests([("dirs", InputRequest::ListRoots(None))]),
                );
            }
            "form" if !has("who") => {
                self.request_input(now, server, call, &input_requests([("who", form_request())]))
            }
            "page" if !has("page") => {
                self.request_input(now, server, call, &input_requests([("page", url_request())]))
            }
            "page" => {
                let is_sent = server.engine().notify_elicitation_complete(now, call.channel(), "p-1");
                self.push_server_line(format!("elicitation complete sent: {is_sent}"));
                self.complete_call(now, server, call);
            }
            "tool" if call.attempt() < 2 => {
                self.request_input(
                    now,
                    server,
                    call,
                    &input_requests([("tool", sampling_request_with_tool(has("tool")))]),
                );
            }
            "pause" if call.attempt() < 2 => self.request_input(now, server, call, &InputRequests::new()),
            "forever" => self.request_input(
                now,
                server,
                call,
                &input_requests([("fish", sampling_request("A fish?"))]),
            ),
            "busy" => self.run_progress_tool(now, server, call),
            "chatty" => self.run_log_tool(now, server, call),
            _ => self.complete_call(now, server, call),
        }
    }

    fn request_input(
        &mut self,
        now: Instant,
        server: &mut Server,
        call: &Call,
        requests: &InputRequests<'static>,
    ) {
        let state = format!("after {}", call.attempt());
        let engine = server.engine();
        if let Err(refused) = engine.need_input(now, call, requests, state.as_bytes()) {
            let error = RpcError::internal("input is not available");
            engine.fail(now, call.id(), &error).expect("still open");
            self.push_server_line(match refused {
                UseError::NotInVersion { feature, version } => {
                    assert_eq!(version, call.version());
                    format!("input refused: {feature} is not in the revision")
                }
                refused => format!("input refused: {refused}"),
            });
        }
    }

    fn complete_call(&mut self, now: Instant, server: &mut Server, call: &Call) {
        let text = KEYS.map(|key| call.answer(key).map_or("-", |a| if a.is_ok() { "yes" } else { "no" }));
        let result = CallToolResult::text(text.join(" "));
        server.engine().complete(now, call.id(), &result).expect("open");
    }

    /// Reports progress that starts again in each delivery; the first two deliveries require input.
    fn run_progress_tool(&mut self, now: Instant, server: &mut Server, call: &Call) {
        for step in 1..=call.attempt() + 2 {
            let report = Progress::new(f64::from(step)).with_total(5.0).with_message("going on");
            let sent = server.engine().progress(now, call.id(), report).expect("open");
            let line = RecordLine::new(RecordSide::Server, format!("progress {step}"));
            self.lines.push(line.with_facet(Facet::ProgressStatus, format!("{sent:?}")));
        }
        match call.attempt() {
            2 => self.complete_call(now, server, call),
            _ => self.request_input(
                now,
                server,
                call,
                &input_requests([("fish", sampling_request("A fish?"))]),
            ),
        }
    }

    /// Logs one message of each of three levels for the call, and one for the session.
    #[expect(deprecated, reason = "tested until its removal")]
    fn run_log_tool(&mut self, now: Instant, server: &mut Server, call: &Call) {
        let engine = server.engine();
        for level in [LoggingLevel::Debug, LoggingLevel::Warning, LoggingLevel::Emergency] {
            let text = json!({"at": level.as_str()});
            let sent = engine.log(now, call.id(), &level, Some("berths"), &text).expect("declared");
            self.lines.push(RecordLine::new(RecordSide::Server, format!("log {level}: {sent:?}")));
        }
        let channel = call.channel();
        let sent = engine.log_session(now, channel, &LoggingLevel::Error, None, "rain").expect("declared");
        self.push_server_line(format!("session log: {sent:?}"));
        self.complete_call(now, server, call);
    }

    pub(super) fn push_publish_count(&mut self, count: usize, change: &mcp_proto::Change) {
        let line = RecordLine::new(RecordSide::Server, format!("published {change:?}"));
        self.lines.push(line.with_facet(Facet::PublishCount, count.to_string()));
    }
}
