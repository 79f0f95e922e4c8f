//! A client that hosts tasks and a server that asks for them.

use core::time::Duration;

use mcp_proto::client::{self, InputId, InputTaskLimits};
use mcp_proto::model::{CallToolResult, ElicitAction};
use mcp_proto::pipe::{Client, Server};
use mcp_proto::seal::Keys;
use mcp_proto::server::{self, Call, InputError, InputRequired};
use mcp_proto::{
    Anchor, CallError, CallKey, CallOptions, Diagnostic, Instant, RawJson, RpcError, Version, VersionSet,
};
use mcp_tests::harness::{Applications, Chunker, LinkConfig, Pair, for_each_chunker};
use mcp_tests::schema::MessageDirection;
use serde_json::json;

use super::{accepted, hosting_client, schema};
use crate::protocol::common::{ms, secs, server as server_config};

/// What the user does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum User {
    Answers,
    Refuses,
    IsSlow,
}

#[derive(Debug)]
struct Script {
    user: User,
    as_tasks: bool,
    call: Option<CallKey>,
    asked: Option<InputId>,
    withdrawn: usize,
    outcome: Option<Result<RawJson, CallError>>,
    stopped: usize,
}

impl Applications for Script {
    fn handle_client_event(&mut self, now: Instant, client: &mut Client, event: client::Event) {
        match event {
            client::Event::Ready(_) => {
                let params = json!({"name": "dredge", "arguments": {}});
                let options = CallOptions::new();
                self.call = Some(client.engine().call(now, "tools/call", &params, &options).expect("ready"));
            }
            client::Event::Input(input) => {
                let engine = client.engine();
                match self.user {
                    User::Answers => engine.answer(now, input.id, &accepted()).expect("open"),
                    User::Refuses => {
                        engine.refuse(now, input.id, &RpcError::new(-1, "not now")).expect("open");
                    }
                    User::IsSlow => self.asked = Some(input.id),
                }
            }
            // A request about the task was answered before its cancellation arrived.
            client::Event::Diagnostic(Diagnostic::UnknownCancellation(_)) => {}
            client::Event::InputWithdrawn(_) => self.withdrawn += 1,
            client::Event::Done { outcome, .. } => {
                assert!(self.outcome.is_none(), "a second outcome");
                self.outcome = Some(outcome);
            }
            other => panic!("{other:?}"),
        }
    }

    fn handle_server_event(&mut self, now: Instant, server: &mut Server, event: server::Event) {
        match event {
            server::Event::Call(call) => self.handle_call(now, server, &call),
            server::Event::Cancelled { .. } => self.stopped += 1,
            // A hint about a task whose answer was collected before.
            server::Event::Notification(note) => assert_eq!(&*note.method, "notifications/tasks/status"),
            server::Event::Diagnostic { diagnostic: Diagnostic::LateResponse(_), .. } => {}
            server::Event::SessionOpened { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

impl Script {
    fn handle_call(&self, now: Instant, server: &mut Server, call: &Call) {
        let engine = server.engine();
        let mut input = InputRequired::new();
        if self.as_tasks {
            input.ask_as_tasks(None);
        }
        let text = match input.elicit(call, "basin", "Which basin?", schema()) {
            Ok(answer) => {
                assert_eq!(answer.action, ElicitAction::Accept);
                String::from("dredged")
            }
            Err(InputError::Refused(error)) => format!("refused: {error}"),
            Err(_) => return engine.require_input(now, call, &input).expect("the client answers"),
        };
        engine.complete(now, call.id(), &CallToolResult::text(text)).expect("open");
    }
}

fn pair(user: User, as_tasks: bool, version: Version, link: LinkConfig) -> Pair<Script> {
    let client = hosting_client(InputTaskLimits::new()).versions(VersionSet::only(version));
    let server = server_config(VersionSet::ALL).seal(Keys::new([7; 32]), Anchor::default());
    let script = Script { user, as_tasks, call: None, asked: None, withdrawn: 0, outcome: None, stopped: 0 };
    Pair::with_app(script, client, server, link)
}

fn text_of(outcome: Option<Result<RawJson, CallError>>) -> String {
    let result = outcome.expect("an outcome").expect("a result");
    String::from(result.as_str())
}

fn created_tasks(pair: &Pair<Script>) -> usize {
    let is_created = |m: &&serde_json::Value| m["result"].get("task").is_some();
    pair.messages_in(MessageDirection::ClientToServer).filter(is_created).count()
}

// covers: TASK-003, TASK-009, TASK-019, TASK-039
#[test]
fn handler_gets_the_same_with_tasks_and_without_in_every_revision() {
    for_each_chunker(|chunker| {
        let versions = [Version::V2025_06_18, Version::V2025_11_25, Version::V2026_07_28];
        versions.map(|version| {
            [User::Answers, User::Refuses].map(|user| {
                if version == Version::V2026_07_28 && user == User::Refuses {
                    return Vec::new(); // The call ends at the client.
                }
                let seen = [false, true].map(|as_tasks| {
                    let latency = ms(3);
                    let link = LinkConfig { chunker, latency, ..LinkConfig::default() };
                    let mut pair = pair(user, as_tasks, version, link);
                    pair.drive_until(|pair| pair.app.outcome.is_some());
                    let hosts = as_tasks && version == Version::V2025_11_25;
                    assert_eq!(created_tasks(&pair), usize::from(hosts), "{version} {user:?}");
                    text_of(pair.app.outcome)
                });
                assert_eq!(seen[0], seen[1], "{version} {user:?}");
                let wanted = if user == User::Answers { "dredged" } else { "not now" };
                assert!(seen[0].contains(wanted), "{}", seen[0]);
                seen.to_vec()
            })
        })
    });
}

// covers: TASK-018, TASK-020, TASK-025
#[test]
fn slow_user_is_waited_for_and_the_answer_is_collected_soon() {
    let link = LinkConfig { latency: ms(2), ..LinkConfig::default() };
    let mut pair = pair(User::IsSlow, true, Version::V2025_11_25, link);
    pair.drive_until(|pair| pair.app.asked.is_some());
    pair.drive_bounded(secs(100));
    assert!(pair.app.outcome.is_none());
    let polls =
        pair.messages_in(MessageDirection::ServerToClient).filter(|m| m["method"] == "tasks/get").count();
    assert!((90..=101).contains(&polls), "{polls}");
    let asked = pair.app.asked.expect("asked");
    pair.client.engine().answer(pair.now, asked, &accepted()).expect("open");
    let before = pair.now;
    pair.drive_until(|pair| pair.app.outcome.is_some());
    // The notification makes the next poll come at once.
    assert!(pair.now.saturating_duration_since(before) <= ms(20));
    assert!(text_of(pair.app.outcome).contains("dredged"));
}

// covers: TASK-028, TASK-029, CANC-010
#[test]
fn call_cancelled_at_any_time_withdraws_the_question() {
    for wait in [0, 1, 2, 3, 4, 5, 6, 7, 9, 50, 1_003, 1_005, 5_000, 61_000] {
        let link = LinkConfig { chunker: Chunker::Seeded(wait), latency: ms(2), ..LinkConfig::default() };
        let mut pair = pair(User::IsSlow, true, Version::V2025_11_25, link);
        pair.drive_until(|pair| pair.app.call.is_some());
        pair.drive_bounded(ms(wait));
        let call = pair.app.call.expect("called");
        pair.client.engine().cancel(pair.now, call, None).expect("open");
        pair.drive_bounded(Duration::from_secs(30));
        let seen = &pair.app;
        assert!(matches!(seen.outcome, Some(Err(CallError::Cancelled))), "{wait}: {seen:?}");
        if seen.asked.is_some() {
            assert_eq!(seen.withdrawn, 1, "{wait}: {seen:?}");
        }
        assert_eq!(pair.server.engine().live_calls(), 0, "{wait}");
        let asked = pair.app.asked;
        if let Some(asked) = asked {
            assert!(pair.client.engine().answer(pair.now, asked, &accepted()).is_err());
        }
    }
}

#[test]
fn user_who_never_answers_ends_the_question_at_both_ends() {
    let mut pair = pair(User::IsSlow, true, Version::V2025_11_25, LinkConfig::default());
    pair.drive_until(|pair| pair.app.outcome.is_some());
    assert_eq!(pair.app.withdrawn, 1);
    assert!(text_of(pair.app.outcome).contains("refused"));
}
