//! A client and a server that both know tasks: one script as a plain call and as a task of either form.

use core::time::Duration;

use mcp_proto::client::{TaskPolling, TaskRequest};
use mcp_proto::model::{
    CallToolResult, ElicitFormParams, ElicitSchema, InputRequest, InputRequests, TaskStatus,
};
use mcp_proto::pipe::{Client, Server};
use mcp_proto::seal::Keys;
use mcp_proto::server::{self, Call, TaskOffer, TaskOptions, TaskTable};
use mcp_proto::{
    Anchor, CallError, CallKey, CallOptions, Capabilities, Capability, Entropy, Instant, RawJson, Version,
    VersionSet, client,
};
use mcp_tests::harness::{Applications, Chunker, LinkConfig, Pair, for_each_chunker};
use serde_json::json;

use crate::protocol::common::{client as client_config, ms, server as server_config};

/// The three ways in which the tool runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// A plain call of a revision.
    Plain(Version),
    /// A task of the revision.
    Task(Version),
}

const WAYS: [Way; 4] = [
    Way::Plain(Version::V2025_11_25),
    Way::Plain(Version::V2026_07_28),
    Way::Task(Version::V2025_11_25),
    Way::Task(Version::V2026_07_28),
];

/// What the applications of both sides saw.
#[derive(Debug, Default)]
struct Script {
    is_task: bool,
    /// The tool does not end by itself.
    is_endless: bool,
    call: Option<CallKey>,
    questions: usize,
    states: Vec<TaskStatus>,
    outcome: Option<Result<RawJson, CallError>>,
    begun: usize,
    completed: usize,
    /// Runs that were cancelled.
    stopped: usize,
}

impl Applications for Script {
    fn handle_client_event(&mut self, now: Instant, client: &mut Client, event: client::Event) {
        match event {
            client::Event::Ready(_) => {
                let (arguments, options) = (json!({"depth": 4}), CallOptions::new());
                let engine = client.engine();
                let call = match self.is_task {
                    true => {
                        engine.call_tool_as_task(now, "dredge", &arguments, TaskRequest::followed(), &options)
                    }
                    false => {
                        let params = json!({"name": "dredge", "arguments": arguments});
                        engine.call(now, "tools/call", &params, &options)
                    }
                };
                self.call = Some(call.expect("ready"));
            }
            client::Event::Input(input) => {
                assert!(matches!(&*input.request, InputRequest::Elicit(_)), "{input:?}");
                self.questions += 1;
                let answer = json!({"action": "accept", "content": {"basin": "east"}});
                client.engine().answer(now, input.id, &answer).expect("open");
            }
            client::Event::Task { call, task } => {
                assert_eq!(Some(call), self.call);
                self.states.push(task.status);
            }
            client::Event::Done { call, outcome, .. } => {
                assert_eq!(Some(call), self.call);
                assert!(self.outcome.is_none(), "a second outcome");
                self.outcome = Some(outcome);
            }
            // About a task that the call does not follow any more.
            client::Event::Notification(note) => assert_eq!(&*note.method, "notifications/tasks/status"),
            other => panic!("{other:?}"),
        }
    }

    fn handle_server_event(&mut self, now: Instant, server: &mut Server, event: server::Event) {
        match event {
            server::Event::Call(call) => self.handle_call(now, server, &call),
            server::Event::Cancelled { .. } => self.stopped += 1,
            server::Event::SessionOpened { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

impl Script {
    /// The handler of the tool: the same for calls and tasks.
    fn handle_call(&mut self, now: Instant, server: &mut Server, call: &Call) {
        let engine = server.engine();
        if self.is_task && call.task_offer() != TaskOffer::None {
            self.begun += 1;
            engine.tasks(now).begin(call, TaskOptions::new()).expect("room");
            return;
        }
        assert_eq!(call.task_id().is_some(), self.is_task);
        assert_eq!(call.tool_call().expect("a tool").arguments, br#"{"depth":4}"#);
        match call.answer("basin") {
            _ if self.is_endless => {}
            None => engine.need_input(now, call, &question(), b"").expect("the client answers forms"),
            Some(answer) => {
                let basin = answer.expect("accepted").member("content").and_then(|c| c.member("basin"));
                let basin = basin.and_then(|basin| basin.string()).expect("a basin");
                self.completed += 1;
                let result = CallToolResult::text(format!("dredged {basin} to 4 m"));
                engine.complete(now, call.id(), &result).expect("open");
            }
        }
    }
}

fn question() -> InputRequests<'static> {
    let schema = RawJson::new(r#"{"type":"object","properties":{"basin":{"type":"string"}}}"#).expect("JSON");
    let form = ElicitFormParams::new("Which basin?", schema.parse::<ElicitSchema>().expect("a form"));
    [("basin", InputRequest::Elicit(form.into()))].into_iter().collect()
}

fn pair(way: Way, is_endless: bool, link: LinkConfig) -> Pair<Script> {
    let (Way::Plain(version) | Way::Task(version)) = way;
    let client = client_config(VersionSet::only(version))
        .capabilities(Capabilities::new().with(Capability::Elicitation))
        .task_polling(TaskPolling::new().interval_range(ms(10), ms(500)));
    let server = server_config(VersionSet::ALL).seal(Keys::new([7; 32]), Anchor::default());
    let script = Script { is_task: matches!(way, Way::Task(_)), is_endless, ..Script::default() };
    let mut pair = Pair::with_app(script, client, server, link);
    pair.server.engine().set_tasks(
        Instant::ZERO,
        TaskTable::new(Entropy::new([9; 32], 0), Anchor::new(Instant::ZERO, 1_785_578_400)),
    );
    pair
}

fn run(way: Way, link: LinkConfig) -> Script {
    let mut pair = pair(way, false, link);
    pair.drive_until(|pair| pair.app.outcome.is_some());
    pair.app
}

// covers: TASK-009, TASK-018, TASK-021, TASK-022, TASK-105, TASK-112, TASK-117, MRTR-001
#[test]
fn tool_with_a_question_gives_the_same_as_call_and_as_task() {
    for_each_chunker(|chunker| {
        WAYS.map(|way| {
            let seen = [Duration::ZERO, ms(3)].map(|latency| {
                let seen = run(way, LinkConfig { chunker, latency, ..LinkConfig::default() });
                assert_eq!((seen.questions, seen.completed, seen.stopped), (1, 1, 0), "{way:?} {chunker:?}");
                assert_eq!(seen.begun, usize::from(seen.is_task), "{way:?} {chunker:?}");
                let has_asked = seen.states.contains(&TaskStatus::InputRequired);
                assert_eq!(has_asked, seen.is_task, "{way:?} {chunker:?}: {:?}", seen.states);
                let result = seen.outcome.expect("an outcome").expect("a result");
                let result: CallToolResult<'_> = result.parse().expect("the result of a tool");
                assert!(!result.is_failure(), "{way:?} {chunker:?}");
                serde_json::to_value(&result.content).expect("JSON")
            });
            let wanted = json!([{"type": "text", "text": "dredged east to 4 m"}]);
            assert_eq!(seen, [wanted.clone(), wanted], "{way:?} {chunker:?}");
        })
    });
}

// covers: TASK-028, TASK-029, TASK-122, TASK-123, CANC-010
#[test]
fn cancelled_call_stops_the_tool_as_call_and_as_task() {
    for way in WAYS {
        for wait in [0, 1, 5, 50, 700, 5_000] {
            let link = LinkConfig { chunker: Chunker::Seeded(wait), latency: ms(2), ..LinkConfig::default() };
            let mut pair = pair(way, true, link);
            pair.drive_until(|pair| pair.app.call.is_some());
            pair.drive_bounded(ms(wait));
            let call = pair.app.call.expect("called");
            pair.client.engine().cancel(pair.now, call, Some("no longer needed")).expect("open");
            pair.drive_bounded(Duration::from_secs(30));
            let seen = &pair.app;
            assert!(matches!(seen.outcome, Some(Err(CallError::Cancelled))), "{way:?} {wait}: {seen:?}");
            // A call that is cancelled before it has become a task is not delivered again.
            assert!(seen.stopped <= 1, "{way:?} {wait}: {seen:?}");
            assert_eq!(pair.server.engine().live_calls(), 0, "{way:?} {wait}: {:?}", pair.app);
            assert_eq!(pair.app.completed, 0);
        }
    }
}
