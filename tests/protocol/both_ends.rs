//! Our client and our server in one conversation: what the client's application is told, in whatever revision.

use alloc::sync::Arc;

use mcp_proto::client::{self, Event};
use mcp_proto::model::{
    CallToolResult, ElicitFormParams, ElicitSchema, InputRequest, InputRequests, LoggingLevel,
    SubscriptionFilter,
};
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::seal::Keys;
use mcp_proto::{
    Anchor, CallOptions, Capabilities, Capability, Change, Instant, Progress, RawJson, Version, VersionSet,
    server,
};
use mcp_tests::harness::build::value;
use serde_json::{Value, json};

struct Both {
    client: Client,
    server: Server,
    now: Instant,
    /// What the client's application is told, without keys
    told: Vec<String>,
    subscription: Option<client::SubscriptionKey>,
}

fn all<const N: usize>(capabilities: [Capability; N]) -> Capabilities {
    capabilities.into_iter().fold(Capabilities::new(), Capabilities::with)
}

impl Both {
    fn new(version: Version) -> Self {
        let config = client::Config::new("harbor-client", "0.3.0")
            .versions(VersionSet::only(version))
            .capabilities(all([Capability::Elicitation, Capability::Roots]));
        let offers = all([
            Capability::ToolsListChanged,
            Capability::ResourcesListChanged,
            Capability::ResourceSubscriptions,
            Capability::Logging,
        ]);
        let serves = server::Config::new("tide-server", "2.1.0")
            .capabilities(offers)
            .seal(Keys::new([7; 32]), Anchor::default());
        let mut both = Self {
            client: Client::new(Arc::new(config), Instant::ZERO),
            server: Server::new(Arc::new(serves), Instant::ZERO),
            now: Instant::ZERO,
            told: Vec::new(),
            subscription: None,
        };
        both.exchange();
        both
    }

    fn exchange(&mut self) {
        loop {
            let (up, down) = (self.client.transmit().to_vec(), self.server.transmit().to_vec());
            self.client.consume(up.len());
            self.server.consume(down.len());
            self.server.handle_input(self.now, &up);
            self.client.handle_input(self.now, &down);
            let mut moved = !up.is_empty() || !down.is_empty();
            while let Some(event) = self.server.poll_event(self.now) {
                self.serve(event);
                moved = true;
            }
            while let Some(event) = self.client.poll_event(self.now) {
                self.hear(event);
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    /// A tool that needs a name and the roots, then roots again, and says all that it heard
    fn serve(&mut self, event: server::Event) {
        let server::Event::Call(call) = event else { return };
        let (now, engine) = (self.now, self.server.engine());
        let warning = LoggingLevel::Warning;
        engine.log(now, call.id(), &warning, Some("berths"), &call.attempt()).expect("declared");
        let progress = Progress::new(f64::from(call.attempt() + 1));
        engine.progress(now, call.id(), progress).expect("open");
        let has = |key: &str| call.answer(key).is_some();
        let asks: InputRequests<'_> = match (has("who"), has("again")) {
            (false, _) => {
                let schema = r#"{"type":"object","properties":{"name":{"type":"string"}}}"#;
                let schema: ElicitSchema = RawJson::new(schema).expect("JSON").parse().expect("a form");
                let form = InputRequest::Elicit(ElicitFormParams::new("Who?", schema).into());
                [("dirs", InputRequest::ListRoots(None)), ("who", form)].into()
            }
            (_, false) => [("again", InputRequest::ListRoots(None))].into(),
            _ => {
                let heard = ["who", "dirs", "again"].map(|key| match call.answer(key) {
                    Some(Ok(answer)) => value(answer),
                    other => json!(format!("{other:?}")),
                });
                assert_eq!(call.state(), Some(&b"so far"[..]));
                let text = json!(heard).to_string();
                return engine.complete(now, call.id(), &CallToolResult::text(text)).expect("open");
            }
        };
        engine.need_input(now, &call, &asks, b"so far").expect("declared");
    }

    fn hear(&mut self, event: Event) {
        let line = match event {
            Event::Ready(_) => return,
            Event::Input(input) => {
                let (answer, line) = match &*input.request {
                    InputRequest::Elicit(_) => {
                        (json!({"action": "accept", "content": {"name": "Mara"}}), "a form")
                    }
                    _ => (json!({"roots": [{"uri": "file:///home/mara"}]}), "roots"),
                };
                self.client.engine().answer(self.now, input.id, &answer).expect("open");
                format!("it needs {line}")
            }
            Event::Done { outcome, .. } => {
                let result = value(&outcome.expect("a result"));
                format!("done: {}", result["content"][0]["text"].as_str().expect("a text"))
            }
            Event::Progress { progress, .. } => format!("progress {}", progress.progress),
            Event::Log(log) => format!("{} {:?} {}", log.level, log.logger, log.data),
            Event::Subscribed { key, honoured } => {
                self.subscription = Some(key);
                format!("subscribed to {}", serde_json::to_string(&honoured).expect("JSON"))
            }
            // A legacy server tells everybody of its lists, also who did not ask.
            Event::Changed { key: None, .. } => return,
            Event::Changed { key, change } => {
                assert_eq!(key, self.subscription);
                format!("changed: {change:?}")
            }
            other => format!("{other:?}"),
        };
        self.told.push(line);
    }

    /// The whole conversation
    fn talk(mut self) -> Vec<String> {
        let now = self.now;
        let filter = SubscriptionFilter::new()
            .tools_list_changed(true)
            .prompts_list_changed(true)
            .resource_subscriptions(["tide://1".into()]);
        self.client.engine().set_log_level(now, Some(LoggingLevel::Notice)).expect("declared");
        self.client.engine().subscribe(now, &filter).expect("ready");
        self.exchange();
        let options = CallOptions::new().with_progress();
        self.client.engine().call_tool(now, "book", &json!({"berth": "C14"}), &options).expect("ready");
        self.exchange();
        for change in [Change::Tools, Change::Resources, Change::Prompts, Change::Resource("tide://1".into())]
        {
            self.server.engine().publish(now, &change);
            self.exchange();
        }
        let key = self.subscription.expect("subscribed");
        self.client.engine().unsubscribe(now, key).expect("open");
        self.exchange();
        for change in [Change::Tools, Change::Resource("tide://1".into())] {
            self.server.engine().publish(now, &change);
            self.exchange();
        }
        self.client.engine().set_log_level(now, None).expect("declared");
        self.client
            .engine()
            .call_tool(now, "book", &json!({"berth": "C14"}), &CallOptions::new())
            .expect("ready");
        self.exchange();
        assert_eq!(self.client.engine().pending_calls(), 0);
        self.told
    }
}

// covers: MRTR-001, MRTR-014, MRTR-026, ELIC-006, ELIC-007, ROOT-002, ROOT-003, SUB-001, SUB-012, RES-010, LOG-004, LOG-007
#[test]
fn the_application_is_told_the_same_in_both_eras() {
    let modern = Both::new(Version::V2026_07_28).talk();
    let roots: Value = json!({"roots": [{"uri": "file:///home/mara"}]});
    let heard = json!([{"action": "accept", "content": {"name": "Mara"}}, roots, roots]);
    let mut want: Vec<String> =
        vec![r#"subscribed to {"toolsListChanged":true,"resourceSubscriptions":["tide://1"]}"#.into()];
    for (attempt, needs) in [&["roots", "a form"][..], &["roots"], &[]].iter().enumerate() {
        want.push(format!(r#"warning Some("berths") {attempt}"#));
        want.push(format!("progress {}", attempt + 1));
        want.extend(needs.iter().map(|what| format!("it needs {what}")));
    }
    want.push(format!("done: {heard}"));
    want.extend(["changed: Tools".into(), r#"changed: Resource("tide://1")"#.into()]);
    want.extend(["roots", "a form", "roots"].map(|what| format!("it needs {what}")));
    want.push(format!("done: {heard}"));
    assert_eq!(modern, want);
    for version in [Version::V2025_06_18, Version::V2025_11_25] {
        assert_eq!(Both::new(version).talk(), modern, "{version}");
    }
}
