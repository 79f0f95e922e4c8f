//! Both applications on one connection, and the actions of a scenario.

use core::time::Duration;

use mcp_proto::client::{Event, InputId, SubscriptionKey, TaskRequest};
use mcp_proto::model::{InputRequest, LoggingLevel, SubscriptionFilter};
use mcp_proto::pipe::{Client, Server};
use mcp_proto::server::{Call, TaskTable};
use mcp_proto::tap::ChannelId;
use mcp_proto::{
    Anchor, CallKey, CallOptions, Capability, Change, Entropy, Fault, Instant, RpcError, UseError, Version,
    client, server,
};
use mcp_tests::harness::{Applications, LinkConfig, Pair};
use serde_json::{Value, json};

use super::record::{Facet, RecordLine, RecordSide, describe_input, describe_outcome};
use super::{TIDES, TIDES_METHOD};

/// The two applications and what they recorded.
#[derive(Debug, Default)]
pub(super) struct RecordingApps {
    pub(super) lines: Vec<RecordLine>,
    pub(super) version: Option<Version>,
    pub(super) client_fault: Option<Fault>,
    pub(super) channel: Option<ChannelId>,
    /// Calls that the server application has not answered.
    pub(super) pending_calls: Vec<Call>,
    names: Vec<(CallKey, &'static str)>,
    subscriptions: Vec<(SubscriptionKey, &'static str)>,
    /// Inputs that the client application has not answered, with their default responses.
    inputs: Vec<(InputId, Value)>,
    /// True if inputs wait for an action of the scenario.
    defers_inputs: bool,
    /// True if tools are called as tasks, and run as such where the revision has them.
    pub(super) uses_tasks: bool,
}

impl Applications for RecordingApps {
    fn handle_client_event(&mut self, now: Instant, client: &mut Client, event: Event) {
        assert!(self.client_fault.is_none(), "an event after `Closed`: {event:?}");
        self.record_client_event(now, client, event);
    }

    fn handle_server_event(&mut self, now: Instant, server: &mut Server, event: server::Event) {
        self.serve(now, server, event);
    }
}

/// Returns the default response of the client application to an input request.
#[expect(deprecated, reason = "tested until its removal")]
fn default_input_response(request: &InputRequest<'_>) -> Value {
    let sampling_result = |content: Value, reason: &str| json!({"role": "assistant", "model": "m", "content": content, "stopReason": reason});
    match request {
        InputRequest::ListRoots(_) => json!({"roots": [{"uri": "file:///harbour", "name": "harbour"}]}),
        InputRequest::CreateMessage(params) if params.tools.is_some() && params.messages.len() == 1 => {
            sampling_result(json!([{"type": "tool_use", "id": "u1", "name": "tide", "input": {}}]), "toolUse")
        }
        InputRequest::CreateMessage(_) => sampling_result(json!({"type": "text", "text": "cod"}), "endTurn"),
        InputRequest::Elicit(mcp_proto::model::ElicitParams::Form(_)) => {
            json!({"action": "accept", "content": {"name": "Mara"}})
        }
        _ => json!({"action": "accept"}),
    }
}

impl RecordingApps {
    fn push_client_line(&mut self, text: impl Into<String>) {
        self.lines.push(RecordLine::new(RecordSide::Client, text));
    }

    fn call_name(&self, call: CallKey) -> &'static str {
        self.names.iter().find(|(key, _)| *key == call).expect("a call that has not ended").1
    }

    fn subscription_name(&self, key: SubscriptionKey) -> &'static str {
        self.subscriptions.iter().find(|(k, _)| *k == key).expect("a subscription that is open").1
    }

    #[expect(deprecated, reason = "tested until its removal")]
    fn record_client_event(&mut self, now: Instant, client: &mut Client, event: Event) {
        match event {
            Event::Ready(peer) => {
                self.version = Some(peer.version);
                let server = [
                    Capability::Tools,
                    Capability::ToolsListChanged,
                    Capability::Resources,
                    Capability::ResourceSubscriptions,
                    Capability::Prompts,
                    Capability::Logging,
                    Capability::Completions,
                ];
                let has: Vec<_> = server.into_iter().filter(|c| peer.has(*c)).collect();
                let info = peer.info.map(|info| info.as_str().to_owned());
                let line = format!("ready: {info:?} {has:?} {:?}", peer.instructions);
                let line = RecordLine::new(RecordSide::Client, line);
                self.lines.push(line.with_facet(Facet::Revision, peer.version.as_str()));
            }
            // The states of a task are beside what a call reports.
            Event::Task { .. } => assert!(self.uses_tasks, "a task in a scenario without tasks"),
            Event::Notification(n) if self.uses_tasks && n.method.starts_with("notifications/tasks") => {}
            Event::Done { call, outcome, .. } => {
                self.lines.push(describe_outcome(self.call_name(call), &outcome));
                self.names.retain(|(key, _)| *key != call);
            }
            Event::Progress { call, progress } => {
                let text = format!(
                    "{} progress {} of {:?}",
                    self.call_name(call),
                    progress.progress,
                    progress.total
                );
                let mut line = RecordLine::new(RecordSide::Client, text);
                line.facets.extend(progress.message.map(|message| (Facet::ProgressMessage, message)));
                self.lines.push(line);
            }
            Event::Input(input) => {
                let mut line = describe_input(&input.request);
                if let (Some(call), Some(key)) = (input.call, &input.key) {
                    line = line.with_facet(Facet::Purpose, format!("{key} of {}", self.call_name(call)));
                }
                self.lines.push(line);
                self.inputs.push((input.id, default_input_response(&input.request)));
                if !self.defers_inputs {
                    self.answer(now, client, 0);
                }
            }
            Event::InputWithdrawn(id) => {
                let at = self.inputs.iter().position(|(input, _)| *input == id).expect("an open input");
                self.inputs.remove(at);
                self.push_client_line("input withdrawn");
                let stale = client.engine().answer(now, id, &json!({}));
                assert_eq!(stale, Err(UseError::Stale));
            }
            Event::ElicitationComplete(id) => self.push_client_line(format!("elicitation {id} complete")),
            Event::Subscribed { key, honoured } => {
                let honoured = serde_json::to_string(&honoured).expect("JSON");
                self.push_client_line(format!("{} acknowledged: {honoured}", self.subscription_name(key)));
            }
            Event::Changed { key: Some(key), change } => {
                self.push_client_line(format!("{} changed: {change:?}", self.subscription_name(key)));
            }
            Event::Changed { key: None, change } => {
                self.push_client_line(format!("changed without a subscription: {change:?}"))
            }
            Event::SubscriptionEnded { key, graceful, .. } => {
                self.push_client_line(format!(
                    "{} ended, gracefully {graceful}",
                    self.subscription_name(key)
                ));
            }
            Event::Log(log) => self
                .push_client_line(format!("log {} {:?} {} {:?}", log.level, log.logger, log.data, log.call)),
            Event::Notification(n) => {
                self.push_client_line(format!("notification {} {:?}", n.method, n.params))
            }
            Event::Request(request) => {
                self.push_client_line(format!("custom request: {} {:?}", request.method, request.params));
                client.engine().respond(now, request.id, &json!({"metres": 4})).expect("open");
            }
            // Reported once per peer, and the record is the same without it.
            Event::Diagnostic(mcp_proto::Diagnostic::DeprecatedFeature { .. }) => {}
            Event::Diagnostic(diagnostic) => {
                let text = format!("{diagnostic:?}");
                self.push_client_line(format!("diagnostic: {}", text.split('(').next().unwrap_or_default()));
            }
            Event::Closed(fault) => {
                self.push_client_line(format!("closed: {fault}"));
                self.client_fault = Some(fault);
            }
            other => self.push_client_line(format!("{other:?}")),
        }
    }

    fn answer(&mut self, now: Instant, client: &mut Client, which: usize) {
        let (id, answer) = self.inputs.remove(which);
        client.engine().answer(now, id, &answer).expect("an answer");
    }
}

/// A connection and its applications.
pub(super) struct ScenarioRunner {
    pub(super) pair: Pair<RecordingApps>,
}

impl ScenarioRunner {
    pub(super) fn new(
        client: client::Config,
        server: server::Config,
        link: LinkConfig,
        uses_tasks: bool,
    ) -> Self {
        let app = RecordingApps { uses_tasks, ..RecordingApps::default() };
        let mut runner = Self { pair: Pair::with_app(app, client, server, link) };
        if uses_tasks {
            let anchor = Anchor::new(Instant::ZERO, 1_785_578_400);
            let tasks = TaskTable::new(Entropy::new([9; 32], 0), anchor);
            runner.pair.server.engine().set_tasks(Instant::ZERO, tasks);
        }
        runner.settle();
        runner
    }

    pub(super) fn settle(&mut self) {
        self.pair.settle();
    }

    /// Advances the time.
    pub(super) fn advance(&mut self, span: Duration) {
        self.pair.drive_bounded(span);
    }

    /// Makes inputs wait for [`answer`](Self::answer) from here on.
    pub(super) fn defer_inputs(&mut self) {
        self.pair.app.defers_inputs = true;
    }

    // ---- client ----------------------------------------------------------------------------------------------

    /// Calls a tool without waiting for the outcome.
    pub(super) fn send(&mut self, tool: &'static str, options: &CallOptions) {
        let (engine, now, arguments) = (self.pair.client.engine(), self.pair.now, json!({"berth": "C14"}));
        let key = match self.pair.app.uses_tasks {
            true => engine.call_tool_as_task(now, tool, &arguments, TaskRequest::followed(), options),
            false => engine.call_tool(now, tool, &arguments, options),
        };
        self.pair.app.names.push((key.expect("a call"), tool));
    }

    /// Calls a tool.
    pub(super) fn call(&mut self, tool: &'static str) {
        self.send(tool, &CallOptions::new());
        self.settle();
    }

    pub(super) fn list(&mut self) {
        let key = self.pair.client.engine().list_tools(self.pair.now, None, &CallOptions::new());
        self.pair.app.names.push((key.expect("a call"), "the list"));
        self.settle();
    }

    pub(super) fn ping(&mut self) {
        let key = self.pair.client.engine().ping(self.pair.now, &CallOptions::new());
        self.pair.app.names.push((key.expect("a call"), "the ping"));
        self.settle();
    }

    /// Calls the method of the extension.
    pub(super) fn call_extension(&mut self) {
        let engine = self.pair.client.engine();
        let declared = engine.peer().and_then(|peer| peer.extension(TIDES));
        self.pair.app.push_client_line(format!("the extension of the server: {declared:?}"));
        let options = CallOptions::new();
        let key = self.pair.client.engine().call(self.pair.now, TIDES_METHOD, &json!({}), &options);
        self.pair.app.names.push((key.expect("a call"), "the tides"));
        self.settle();
    }

    /// Sends a custom notification to the server.
    pub(super) fn notify_server(&mut self) {
        let sent =
            self.pair.client.engine().notify(self.pair.now, "harbor/fog", Some(&json!({"thick": true})));
        sent.expect("ready");
        self.settle();
    }

    /// Cancels a call.
    pub(super) fn cancel(&mut self, tool: &str) {
        let (key, _) = *self.pair.app.names.iter().find(|(_, name)| *name == tool).expect("an open call");
        self.pair.client.engine().cancel(self.pair.now, key, Some("changed my mind")).expect("open");
        self.settle();
    }

    /// Answers one of the open inputs with its default response.
    pub(super) fn answer(&mut self, which: usize) {
        self.try_answer(which);
        self.settle();
    }

    /// Answers one of the open inputs without moving any bytes.
    pub(super) fn try_answer(&mut self, which: usize) {
        let Pair { app, client, now, .. } = &mut self.pair;
        app.answer(*now, client, which);
    }

    /// Answers one of the open inputs with `answer`; records a refusal.
    pub(super) fn answer_with(&mut self, which: usize, answer: &Value) {
        let Pair { app, client, now, .. } = &mut self.pair;
        let (id, _) = app.inputs[which];
        match client.engine().answer(*now, id, answer) {
            Ok(()) => drop(app.inputs.remove(which)),
            Err(refused) => app.push_client_line(format!("cannot answer: {refused}")),
        }
        self.settle();
    }

    pub(super) fn decline(&mut self, which: usize) {
        let Pair { app, client, now, .. } = &mut self.pair;
        let (id, _) = app.inputs.remove(which);
        client.engine().refuse(*now, id, &RpcError::new(-1, "the user says no")).expect("open");
        self.settle();
    }

    /// Returns true if the server application holds a call.
    pub(super) fn is_holding(&self) -> bool {
        !self.pair.app.pending_calls.is_empty()
    }

    pub(super) fn open_inputs(&self) -> usize {
        self.pair.app.inputs.len()
    }

    #[expect(deprecated, reason = "tested until its removal")]
    pub(super) fn set_log_level(&mut self, level: Option<LoggingLevel>) {
        self.pair.client.engine().set_log_level(self.pair.now, level).expect("declared");
        self.settle();
    }

    #[expect(deprecated, reason = "tested until its removal")]
    pub(super) fn notify_roots_changed(&mut self) {
        self.pair.client.engine().notify_roots_changed(self.pair.now).expect("ready");
        self.settle();
    }

    pub(super) fn subscribe(&mut self, name: &'static str, filter: &SubscriptionFilter) {
        let key = self.pair.client.engine().subscribe(self.pair.now, filter).expect("ready");
        self.pair.app.subscriptions.push((key, name));
        self.settle();
    }

    pub(super) fn unsubscribe(&mut self, name: &str) {
        let (key, _) = *self.pair.app.subscriptions.iter().find(|(_, n)| *n == name).expect("open");
        self.pair.client.engine().unsubscribe(self.pair.now, key).expect("open");
        self.settle();
    }

    // ---- server ----------------------------------------------------------------------------------------------

    /// Continues the call that the server application holds.
    pub(super) fn release_calls(&mut self) {
        let Pair { app, server, now, .. } = &mut self.pair;
        app.release(*now, server);
        self.settle();
    }

    pub(super) fn publish(&mut self, change: &Change) {
        let count = self.pair.server.engine().publish(self.pair.now, change);
        self.pair.app.push_publish_count(count, change);
        self.settle();
    }

    pub(super) fn end_subscriptions(&mut self) {
        let channel = self.pair.server.channel();
        self.pair.server.engine().end_subscriptions(self.pair.now, channel);
        self.settle();
    }

    /// Sends a custom notification to the client.
    pub(super) fn notify_client(&mut self) {
        let channel = self.pair.server.channel();
        let params = json!({"from": "north"});
        let sent = self.pair.server.engine().notify(self.pair.now, channel, "harbor/wind", Some(&params));
        sent.expect("open");
        self.settle();
    }

    /// Sends a custom request to the client.
    pub(super) fn request_client(&mut self) {
        let Pair { app, server, now, .. } = &mut self.pair;
        let (channel, options) = (server.channel(), CallOptions::new());
        if let Err(refused) = server.engine().request(*now, channel, "harbor/draught", &json!({}), &options) {
            app.lines.push(RecordLine::new(RecordSide::Server, format!("custom request refused: {refused}")));
        }
        self.settle();
    }

    // ---- both ------------------------------------------------------------------------------------------------

    pub(super) fn hang_up(&mut self) {
        self.pair.hang_up();
        self.pair.drive();
    }

    pub(super) fn kill_server(&mut self) {
        self.pair.kill_server();
        self.settle();
    }

    /// Returns true if no call and no input is open.
    pub(super) fn is_idle(&mut self) -> bool {
        let Pair { app, server, .. } = &mut self.pair;
        let none = app.names.is_empty() && app.inputs.is_empty() && app.pending_calls.is_empty();
        none && server.engine().live_calls() == 0
    }
}
