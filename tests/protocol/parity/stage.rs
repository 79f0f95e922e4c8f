//! Both applications on one connection, and what a scene can have them do.

use core::time::Duration;

use mcp_proto::client::{Event, InputId, SubscriptionKey};
use mcp_proto::model::{InputRequest, LoggingLevel, SubscriptionFilter};
use mcp_proto::pipe::{Client, Server};
use mcp_proto::server::Call;
use mcp_proto::tap::ChannelId;
use mcp_proto::{
    CallKey, CallOptions, Capability, Change, Fault, Instant, RpcError, UseError, Version, client, server,
};
use mcp_tests::harness::{Applications, Line as Wire, Pair};
use serde_json::{Value, json};

use super::record::{Facet, Line, Side, ended, needs};

/// The two applications, and what they were told
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) lines: Vec<Line>,
    pub(super) version: Option<Version>,
    pub(super) end: Option<Fault>,
    pub(super) channel: Option<ChannelId>,
    /// Calls that the server's application has in work
    pub(super) held: Vec<Call>,
    names: Vec<(CallKey, &'static str)>,
    subscriptions: Vec<(SubscriptionKey, &'static str)>,
    /// What the client's application has not answered
    inputs: Vec<(InputId, Value)>,
    /// Inputs wait for the scene
    waits: bool,
}

impl Applications for Script {
    fn client(&mut self, now: Instant, client: &mut Client, event: Event) {
        assert!(self.end.is_none(), "after the end: {event:?}");
        self.hear(now, client, event);
    }

    fn server(&mut self, now: Instant, server: &mut Server, event: server::Event) {
        self.serve(now, server, event);
    }
}

/// What the client's application says to whoever needs something
fn answer_to(request: &InputRequest<'_>) -> Value {
    let said = |content: Value, reason: &str| json!({"role": "assistant", "model": "m", "content": content, "stopReason": reason});
    match request {
        InputRequest::ListRoots(_) => json!({"roots": [{"uri": "file:///harbour", "name": "harbour"}]}),
        InputRequest::CreateMessage(ask) if ask.tools.is_some() && ask.messages.len() == 1 => {
            said(json!([{"type": "tool_use", "id": "u1", "name": "tide", "input": {}}]), "toolUse")
        }
        InputRequest::CreateMessage(_) => said(json!({"type": "text", "text": "cod"}), "endTurn"),
        InputRequest::Elicit(mcp_proto::model::ElicitParams::Form(_)) => {
            json!({"action": "accept", "content": {"name": "Mara"}})
        }
        _ => json!({"action": "accept"}),
    }
}

impl Script {
    fn line(&mut self, text: impl Into<String>) {
        self.lines.push(Line::new(Side::Client, text));
    }

    fn name(&self, call: CallKey) -> &'static str {
        self.names.iter().find(|(key, _)| *key == call).expect("a call that has not ended").1
    }

    fn subscription(&self, key: SubscriptionKey) -> &'static str {
        self.subscriptions.iter().find(|(k, _)| *k == key).expect("a subscription that is open").1
    }

    fn hear(&mut self, now: Instant, client: &mut Client, event: Event) {
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
                let line = Line::new(Side::Client, line);
                self.lines.push(line.with(Facet::Revision, peer.version.as_str()));
            }
            Event::Done { call, outcome, .. } => {
                self.lines.push(ended(self.name(call), &outcome));
                self.names.retain(|(key, _)| *key != call);
            }
            Event::Progress { call, progress } => {
                let text =
                    format!("{} progress {} of {:?}", self.name(call), progress.progress, progress.total);
                let mut line = Line::new(Side::Client, text);
                line.facets.extend(progress.message.map(|message| (Facet::Sentence, message)));
                self.lines.push(line);
            }
            Event::Input(input) => {
                let mut line = needs(&input.request);
                if let (Some(call), Some(key)) = (input.call, &input.key) {
                    line = line.with(Facet::Purpose, format!("{key} of {}", self.name(call)));
                }
                self.lines.push(line);
                self.inputs.push((input.id, answer_to(&input.request)));
                if !self.waits {
                    self.answer(now, client, 0);
                }
            }
            Event::InputGone(id) => {
                let at = self.inputs.iter().position(|(input, _)| *input == id).expect("it was open");
                self.inputs.remove(at);
                self.line("no longer needed");
                let stale = client.engine().answer(now, id, &json!({}));
                assert_eq!(stale, Err(UseError::Stale));
            }
            Event::ElicitationComplete(id) => self.line(format!("the page {id} is done with")),
            Event::Subscribed { key, honoured } => {
                let honoured = serde_json::to_string(&honoured).expect("JSON");
                self.line(format!("{} acknowledged: {honoured}", self.subscription(key)));
            }
            Event::Changed { key: Some(key), change } => {
                self.line(format!("{} told: {change:?}", self.subscription(key)));
            }
            Event::Changed { key: None, change } => self.line(format!("told unasked: {change:?}")),
            Event::SubscriptionEnded { key, graceful, .. } => {
                self.line(format!("{} ended, gracefully {graceful}", self.subscription(key)));
            }
            Event::Log(log) => {
                self.line(format!("log {} {:?} {} {:?}", log.level, log.logger, log.data, log.call))
            }
            Event::Notification(n) => self.line(format!("heard {} {:?}", n.method, n.params)),
            Event::Request(request) => {
                self.line(format!("asked on its own: {} {:?}", request.method, request.params));
                client.engine().respond(now, request.id, &json!({"metres": 4})).expect("open");
            }
            Event::Diagnostic(diagnostic) => {
                let text = format!("{diagnostic:?}");
                self.line(format!("odd: {}", text.split('(').next().unwrap_or_default()));
            }
            Event::Closed(fault) => {
                self.line(format!("closed: {fault}"));
                self.end = Some(fault);
            }
            other => self.line(format!("{other:?}")),
        }
    }

    fn answer(&mut self, now: Instant, client: &mut Client, which: usize) {
        let (id, answer) = self.inputs.remove(which);
        client.engine().answer(now, id, &answer).expect("an answer");
    }
}

/// A connection and its applications
pub(super) struct Stage {
    pub(super) pair: Pair<Script>,
}

impl Stage {
    pub(super) fn new(client: client::Config, server: server::Config, wire: Wire) -> Self {
        let mut stage = Self { pair: Pair::with(Script::default(), client, server, wire) };
        stage.settle();
        stage
    }

    pub(super) fn settle(&mut self) {
        self.pair.settle();
    }

    /// Lets time pass
    pub(super) fn pass(&mut self, span: Duration) {
        self.pair.drive_bounded(span);
    }

    /// From now on inputs wait for [`answer`](Self::answer)
    pub(super) fn wait(&mut self) {
        self.pair.app.waits = true;
    }

    // ---- the client ------------------------------------------------------------------------------------------

    /// Calls a tool; what comes of it is not waited for
    pub(super) fn send(&mut self, tool: &'static str, options: &CallOptions) {
        let key = self.pair.client.engine().call_tool(self.pair.now, tool, &json!({"berth": "C14"}), options);
        self.pair.app.names.push((key.expect("a call"), tool));
    }

    /// Calls a tool
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

    /// Tells the server something that is no word of the protocol
    pub(super) fn tell_server(&mut self) {
        let sent =
            self.pair.client.engine().notify(self.pair.now, "harbor/fog", Some(&json!({"thick": true})));
        sent.expect("ready");
        self.settle();
    }

    /// Cancels a call
    pub(super) fn cancel(&mut self, tool: &str) {
        let (key, _) = *self.pair.app.names.iter().find(|(_, name)| *name == tool).expect("it is open");
        self.pair.client.engine().cancel(self.pair.now, key, Some("changed my mind")).expect("open");
        self.settle();
    }

    /// Answers one of the open inputs as it would have been answered unasked
    pub(super) fn answer(&mut self, which: usize) {
        self.answer_soon(which);
        self.settle();
    }

    /// The same; nothing moves yet
    pub(super) fn answer_soon(&mut self, which: usize) {
        let Pair { app, client, now, .. } = &mut self.pair;
        app.answer(*now, client, which);
    }

    /// Answers one of the open inputs with something else; whether that is accepted is written down
    pub(super) fn answer_with(&mut self, which: usize, answer: &Value) {
        let Pair { app, client, now, .. } = &mut self.pair;
        let (id, _) = app.inputs[which];
        match client.engine().answer(*now, id, answer) {
            Ok(()) => drop(app.inputs.remove(which)),
            Err(refused) => app.line(format!("cannot answer: {refused}")),
        }
        self.settle();
    }

    pub(super) fn refuse(&mut self, which: usize) {
        let Pair { app, client, now, .. } = &mut self.pair;
        let (id, _) = app.inputs.remove(which);
        client.engine().refuse(*now, id, &RpcError::new(-1, "the user says no")).expect("open");
        self.settle();
    }

    /// Whether the server's application has a call in work
    pub(super) fn is_holding(&self) -> bool {
        !self.pair.app.held.is_empty()
    }

    pub(super) fn open_inputs(&self) -> usize {
        self.pair.app.inputs.len()
    }

    pub(super) fn log_level(&mut self, level: Option<LoggingLevel>) {
        self.pair.client.engine().set_log_level(self.pair.now, level).expect("declared");
        self.settle();
    }

    pub(super) fn roots_changed(&mut self) {
        self.pair.client.engine().roots_changed(self.pair.now).expect("ready");
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

    // ---- the server ------------------------------------------------------------------------------------------

    /// The call that the server's application holds goes on
    pub(super) fn go(&mut self) {
        let Pair { app, server, now, .. } = &mut self.pair;
        app.go(*now, server);
        self.settle();
    }

    pub(super) fn publish(&mut self, change: &Change) {
        let told = self.pair.server.engine().publish(self.pair.now, change);
        self.pair.app.audience(told, change);
        self.settle();
    }

    pub(super) fn end_subscriptions(&mut self) {
        let channel = self.pair.server.channel();
        self.pair.server.engine().end_subscriptions(self.pair.now, channel);
        self.settle();
    }

    /// Tells the client something that is no word of the protocol
    pub(super) fn tell_client(&mut self) {
        let channel = self.pair.server.channel();
        let params = json!({"from": "north"});
        let sent = self.pair.server.engine().notify(self.pair.now, channel, "harbor/wind", Some(&params));
        sent.expect("open");
        self.settle();
    }

    /// The server has a question that is no word of the protocol
    pub(super) fn ask_client(&mut self) {
        let Pair { app, server, now, .. } = &mut self.pair;
        let (channel, options) = (server.channel(), CallOptions::new());
        if let Err(refused) = server.engine().request(*now, channel, "harbor/draught", &json!({}), &options) {
            app.lines.push(Line::new(Side::Server, format!("cannot ask on its own: {refused}")));
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

    /// Nothing is left to be answered by anybody
    pub(super) fn is_quiet(&mut self) -> bool {
        let Pair { app, server, .. } = &mut self.pair;
        let none = app.names.is_empty() && app.inputs.is_empty() && app.held.is_empty();
        none && server.engine().live_calls() == 0
    }
}
