//! The server's script: what its tools do, in whatever revision they are called.

use mcp_proto::model::{
    CallToolResult, CreateMessageParams, ElicitParams, ElicitSchema, ElicitUrlParams, InputRequest,
    InputRequests, LoggingLevel, SamplingContent, SamplingMessage, StringSchema, Tool, ToolChoice,
    ToolResultContent, ToolUseContent,
};
use mcp_proto::pipe::Server;
use mcp_proto::server::{Call, CancelReason, Event};
use mcp_proto::{Instant, Progress, RawJson, RpcError, UseError};
use mcp_tests::harness::build::value;
use serde_json::json;

use super::record::{Facet, Line, Side};
use super::stage::Script;

/// Every key under which something is asked, in the order in which answers are written down
const KEYS: [&str; 6] = ["fish", "boat", "dirs", "who", "page", "tool"];

fn model(text: &str) -> InputRequest<'static> {
    let message = SamplingMessage::user(text.to_owned());
    InputRequest::CreateMessage(CreateMessageParams::new([message], 50_u32))
}

fn form() -> InputRequest<'static> {
    let schema = ElicitSchema::default().field("name", StringSchema::new());
    InputRequest::Elicit(ElicitParams::form("Who are you?", schema))
}

fn page() -> InputRequest<'static> {
    let page = ElicitUrlParams::new("Pay", "https://harbour.example/pay").elicitation_id("p-1");
    InputRequest::Elicit(page.into())
}

/// A model that may use a tool; the second time with what the tool said
fn model_with_tool(said: bool) -> InputRequest<'static> {
    let tool = Tool::new("tide", RawJson::new(r#"{"type":"object"}"#).expect("JSON"));
    let mut messages = vec![SamplingMessage::user("When is high water?")];
    if said {
        let input = RawJson::new("{}").expect("JSON");
        let wants = SamplingContent::ToolUse(ToolUseContent::new("u1", "tide", input));
        let told = SamplingContent::ToolResult(Box::new(ToolResultContent::text("u1", "at noon")));
        messages.push(SamplingMessage::assistant(vec![wants]));
        messages.push(SamplingMessage::user(vec![told]));
    }
    let ask = CreateMessageParams::new(messages, 50_u32).tools([tool]).tool_choice(ToolChoice::new());
    InputRequest::CreateMessage(ask)
}

fn asks<const N: usize>(requests: [(&str, InputRequest<'static>); N]) -> InputRequests<'static> {
    let mut all = InputRequests::new();
    for (key, request) in requests {
        all.insert(key, request);
    }
    all
}

impl Script {
    fn server_line(&mut self, text: impl Into<String>) {
        self.lines.push(Line::new(Side::Server, text));
    }

    pub(super) fn serve(&mut self, now: Instant, server: &mut Server, event: Event) {
        match event {
            Event::Call(call) => {
                self.channel = Some(call.channel());
                self.begin(now, server, call);
            }
            Event::Cancelled { call, reason } => {
                let at = self.held.iter().position(|held| held.id() == call);
                let name = match at {
                    Some(at) => self.held.remove(at).tool().expect("a tool").name.into_owned(),
                    None => "a call that was answered".into(),
                };
                let reason = match reason {
                    CancelReason::Client(reason) => format!("by the client, {reason:?}"),
                    other => format!("{other:?}"),
                };
                self.server_line(format!("{name} cancelled: {reason}"));
            }
            Event::SessionOpened { channel, .. } => {
                self.channel = Some(channel);
                self.server_line("session opened");
            }
            Event::Interest { uri, wanted } => self.server_line(format!("interest in {uri}: {wanted}")),
            Event::Notification(n) => self.server_line(format!("heard {} {:?}", n.method, n.params)),
            Event::Done { outcome, .. } => self.server_line(format!("answered on its own: {outcome:?}")),
            Event::Diagnostic { diagnostic, .. } => {
                // Ids are the protocol's.
                let text = format!("{diagnostic:?}");
                self.server_line(format!("odd: {}", text.split('(').next().unwrap_or_default()));
            }
            Event::Closed { fault, .. } => self.server_line(format!("closed: {fault}")),
            other => self.server_line(format!("{other:?}")),
        }
    }

    /// A call is delivered
    fn begin(&mut self, now: Instant, server: &mut Server, call: Call) {
        let engine = server.engine();
        if call.method() == "tools/list" {
            self.server_line("asked for its tools");
            let list = json!({"tools": [{"name": "line", "inputSchema": {"type": "object"}}]});
            return engine.complete(now, call.id(), &list).expect("open");
        }
        let tool = call.tool().expect("a tool").name.into_owned();
        let mut line = format!("{tool}, delivery {}", call.attempt());
        if let Some(state) = call.state() {
            line.push_str(&format!(", state {}", String::from_utf8_lossy(state)));
        }
        for key in KEYS {
            match call.answer(key) {
                None => {}
                Some(Ok(answer)) => line.push_str(&format!(", {key}: {}", value(answer))),
                Some(Err(error)) => line.push_str(&format!(", {key}: none, {error}")),
            }
        }
        self.lines.push(Line::new(Side::Server, line).with(Facet::Revision, call.version().as_str()));
        if tool == "hold" {
            return self.held.push(call);
        }
        self.work(now, server, &call, &tool);
    }

    /// The call that is held goes on
    pub(super) fn go(&mut self, now: Instant, server: &mut Server) {
        let call = self.held.remove(0);
        self.work(now, server, &call, "hold");
    }

    fn work(&mut self, now: Instant, server: &mut Server, call: &Call, tool: &str) {
        let has = |key: &str| call.answer(key).is_some();
        match tool {
            "line" | "hold" if !has("fish") => {
                self.ask(now, server, call, &asks([("fish", model("A fish?"))]))
            }
            "twice" => match (has("fish"), has("boat")) {
                (false, _) => self.ask(now, server, call, &asks([("fish", model("A fish?"))])),
                (_, false) => self.ask(now, server, call, &asks([("boat", model("A boat?"))])),
                _ => self.done(now, server, call),
            },
            // What is asked again under its key is not carried on.
            "again" if call.attempt() < 2 => {
                self.ask(now, server, call, &asks([("fish", model("A fish?"))]));
            }
            "several" if !has("dirs") => {
                let all = asks([("dirs", InputRequest::ListRoots(None)), ("fish", model("A fish?"))]);
                self.ask(now, server, call, &all);
            }
            "dirs" if !has("dirs") => {
                self.ask(now, server, call, &asks([("dirs", InputRequest::ListRoots(None))]));
            }
            "form" if !has("who") => self.ask(now, server, call, &asks([("who", form())])),
            "page" if !has("page") => self.ask(now, server, call, &asks([("page", page())])),
            "page" => {
                let told = server.engine().elicitation_complete(now, call.channel(), "p-1");
                self.server_line(format!("the end of the page was told: {told}"));
                self.done(now, server, call);
            }
            "tool" if call.attempt() < 2 => {
                self.ask(now, server, call, &asks([("tool", model_with_tool(has("tool")))]));
            }
            "pause" if call.attempt() < 2 => self.ask(now, server, call, &InputRequests::new()),
            "forever" => self.ask(now, server, call, &asks([("fish", model("A fish?"))])),
            "busy" => self.busy(now, server, call),
            "chatty" => self.chatty(now, server, call),
            _ => self.done(now, server, call),
        }
    }

    fn ask(&mut self, now: Instant, server: &mut Server, call: &Call, requests: &InputRequests<'static>) {
        let state = format!("after {}", call.attempt());
        let engine = server.engine();
        if let Err(refused) = engine.need_input(now, call, requests, state.as_bytes()) {
            let error = RpcError::internal("cannot be asked");
            engine.fail(now, call.id(), &error).expect("still open");
            self.server_line(match refused {
                UseError::NotInVersion { what, version } => {
                    assert_eq!(version, call.version());
                    format!("cannot ask: {what} is not in the revision")
                }
                refused => format!("cannot ask: {refused}"),
            });
        }
    }

    fn done(&mut self, now: Instant, server: &mut Server, call: &Call) {
        let text = KEYS.map(|key| call.answer(key).map_or("-", |a| if a.is_ok() { "yes" } else { "no" }));
        let result = CallToolResult::text(text.join(" "));
        server.engine().complete(now, call.id(), &result).expect("open");
    }

    /// Reports progress that begins anew in each delivery, which asks twice
    fn busy(&mut self, now: Instant, server: &mut Server, call: &Call) {
        for step in 1..=call.attempt() + 2 {
            let report = Progress::new(f64::from(step)).of(5.0).saying("going on");
            let sent = server.engine().progress(now, call.id(), report).expect("open");
            let line = Line::new(Side::Server, format!("progress {step}"));
            self.lines.push(line.with(Facet::Fate, format!("{sent:?}")));
        }
        match call.attempt() {
            2 => self.done(now, server, call),
            _ => self.ask(now, server, call, &asks([("fish", model("A fish?"))])),
        }
    }

    /// Logs one message of each of these levels about the call, and one about none
    fn chatty(&mut self, now: Instant, server: &mut Server, call: &Call) {
        let engine = server.engine();
        for level in [LoggingLevel::Debug, LoggingLevel::Warning, LoggingLevel::Emergency] {
            let text = json!({"at": level.as_str()});
            let sent = engine.log(now, call.id(), &level, Some("berths"), &text).expect("declared");
            self.lines.push(Line::new(Side::Server, format!("log {level}: {sent:?}")));
        }
        let channel = call.channel();
        let sent = engine.log_session(now, channel, &LoggingLevel::Error, None, "rain").expect("declared");
        self.server_line(format!("log of no call: {sent:?}"));
        self.done(now, server, call);
    }

    pub(super) fn audience(&mut self, told: usize, change: &mcp_proto::Change) {
        let line = Line::new(Side::Server, format!("published {change:?}"));
        self.lines.push(line.with(Facet::Audience, told.to_string()));
    }
}
