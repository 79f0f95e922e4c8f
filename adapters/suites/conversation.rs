//! Suite: a router and a client with callbacks, in both eras.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use core::cell::RefCell;

use mcp_proto::EntryKind;
use mcp_proto::client::{Config, SubscriptionKey};
use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitAction, ElicitParams, ElicitResult, ElicitUrlParams,
    ListRootsResult, Role, Root, SamplingMessage, SubscriptionFilter, Tool,
};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Change, Era, RawJson, RpcError, VersionSet,
};
use mcp_runtime::client::ClientHandler;
use serde_json::{Value, json};

use super::scripted_server::read;
use crate::adapter::{
    Client, Cx, Error, RUNS_IN_BACKGROUND, Router, connect, handler, poll_client, receive, serve,
};
use crate::support::{ERAS, NoteLog, with_timeout};

const ANY_OBJECT: &str = r#"{"type":"object"}"#;

pub(crate) fn tool(name: &str) -> Tool {
    Tool::new(name, RawJson::new(ANY_OBJECT).unwrap())
}

#[expect(deprecated, reason = "tested until its removal")]
pub(crate) fn router(notes: NoteLog) -> Router {
    let mut router = Router::new("harbour", "1.0");
    let later = router.updates();
    router
        .tool_with(
            tool("open"),
            handler!(move |_: &mut Cx, _: Value| {
                later.schedule(|router| {
                    router.tool_with(tool("moor"), handler!(|_: &mut Cx, _: Value| "moored"));
                });
                "open"
            }),
        )
        .tool_with(
            tool("tide"),
            handler!(|cx: &mut Cx, _: Value| {
                let (sender, receiver) = std::sync::mpsc::channel();
                cx.with_engine(move |engine, now| {
                    let _ = sender.send(engine.publish(now, &Change::Resource("harbour:tide".into())));
                })
                .unwrap();
                cx.publish(&Change::Resource("harbour:wind".into()));
                cx.publish(&Change::Tools);
                let subscribers: usize = receive!(cx, receiver);
                subscribers.to_string()
            }),
        )
        .tool_with(
            tool("visit"),
            handler!(|cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
                let page = ElicitUrlParams::new("Pay the fee", "https://harbour.example/pay")
                    .elicitation_id("fee-1");
                Ok(match cx.elicit_url("fee", page)? {
                    ElicitAction::Accept => "on the way",
                    _ => "not going",
                })
            }),
        )
        .tool_with(
            tool("verse"),
            handler!(|cx: &mut Cx, _: Value| -> Result<String, RpcError> {
                let question = CreateMessageParams::new([SamplingMessage::user("rhyme")], 9u32);
                // Both input requests belong to the same round.
                let (line, roots) = (cx.sample("line", question), cx.list_roots("roots"));
                let (line, roots) = (line?, roots?);
                Ok(format!("{} {}", line.model, roots.roots.len()))
            }),
        )
        .subscriptions(move |uri, is_subscribed| notes.record(format!("{uri} {is_subscribed}")));
    #[cfg(feature = "schemars")]
    router.tool_with(tool("stay"), handler!(|cx: &mut Cx, _: Value| typed::elicit_booking(cx)));
    router
}

#[cfg(feature = "schemars")]
mod typed {
    use super::*;
    use mcp_proto::model::ElicitOutcome;
    use mcp_proto::router::schema::schemars::{self, JsonSchema};

    #[derive(serde::Deserialize, JsonSchema)]
    struct BookingForm {
        boat: String,
        nights: u8,
    }

    pub(super) fn elicit_booking(cx: &mut Cx) -> Result<String, RpcError> {
        Ok(match cx.elicit_as::<BookingForm>("stay", "Which boat?")? {
            ElicitOutcome::Accepted(stay) => format!("{} for {} nights", stay.boat, stay.nights),
            ElicitOutcome::Declined => "declined".into(),
            ElicitOutcome::Cancelled => "cancelled".into(),
        })
    }
}

/// Answers elicitations from a script, last entry first, and records changes.
struct ScriptedUser {
    notes: NoteLog,
    answers: RefCell<Vec<Result<ElicitResult, RpcError>>>,
}

impl ClientHandler for ScriptedUser {
    fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        if let ElicitParams::Url(page) = params {
            self.notes.record(&page.url);
        }
        self.answers.borrow_mut().pop().unwrap_or_else(|| Ok(ElicitResult::cancel()))
    }

    fn sample(&self, _: &CreateMessageParams<'_>) -> Result<CreateMessageResult<'static>, RpcError> {
        Ok(CreateMessageResult::new(Role::Assistant, "line", "muse"))
    }

    fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Ok(ListRootsResult::new(vec![Root::new("file:///boats")]))
    }

    fn changed(&self, change: &Change) {
        self.notes.record(format!("{change:?}"));
    }

    fn subscription_ended(&self, _: SubscriptionKey, error: Option<&CallError>) {
        self.notes.record(format!("ended {error:?}"));
    }
}

/// Runs `talk` with a client whose user gives `answers`. The logs are those of the client handler and of subscriptions.
fn with_user(
    era: Era,
    answers: Vec<Result<ElicitResult, RpcError>>,
    talk: impl FnOnce(&mut Client, &NoteLog, &NoteLog) + Send + 'static,
) {
    with_handler(era, |notes| ScriptedUser { notes, answers: RefCell::new(answers) }, talk);
}

#[expect(deprecated, reason = "tested until its removal")]
fn with_handler<H: ClientHandler + Send + 'static>(
    era: Era,
    handler: impl FnOnce(NoteLog) -> H + Send + 'static,
    talk: impl FnOnce(&mut Client, &NoteLog, &NoteLog) + Send + 'static,
) {
    with_timeout(move || {
        let (notes, interest) = (NoteLog::default(), NoteLog::default());
        let recorder = interest.clone();
        let capabilities = Capabilities::new()
            .with(Capability::ElicitationForm)
            .with(Capability::ElicitationUrl)
            .with(Capability::Sampling)
            .with(Capability::Roots);
        let config =
            Config::new("sailor", "1.0").versions(VersionSet::ALL.era(era)).capabilities(capabilities);
        let options = Client::options(config).handler(handler(notes.clone()));
        let (mut client, server) = serve(move || router(recorder), options);
        talk(&mut client, &notes, &interest);
        client.close().unwrap();
        server.join().unwrap().unwrap();
    });
}

pub(crate) fn call(client: &mut Client, tool: &str) -> String {
    let result = client.call_tool(tool, &json!({})).unwrap();
    result.content[0].as_text().unwrap().to_owned()
}

/// Polls until `lines` notes are recorded.
fn wait_for_notes(client: &mut Client, notes: &NoteLog, lines: usize) -> Vec<String> {
    let mut noted = notes.take();
    while noted.len() < lines {
        poll_client(client);
        noted.append(&mut notes.take());
    }
    noted
}

// covers: TOOL-019, RES-010, RES-014, SUB-001, SUB-006, SUB-012
#[test]
fn subscribed_client_receives_changes_of_router() {
    for era in ERAS {
        with_user(era, Vec::new(), move |client, notes, interest| {
            let uris = ["harbour:tide".to_owned()];
            let filter = SubscriptionFilter::new().tools_list_changed(true).prompts_list_changed(true);
            let (subscription, honoured) =
                client.subscribe(&filter.resource_subscriptions(uris.clone())).unwrap();
            // The router has no prompts.
            let expected = SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions(uris);
            assert_eq!(honoured, expected, "{era:?}");
            assert_eq!(wait_for_notes(client, interest, 1), ["harbour:tide true"]);
            let tools = client.list(EntryKind::Tool).unwrap().len();
            assert_eq!(call(client, "open"), "open");
            // A subscribed change is delivered without a further request.
            assert_eq!(wait_for_notes(client, notes, 1), ["Tools"], "{era:?}");
            assert_eq!(client.list(EntryKind::Tool).unwrap().len(), tools + 1);
            assert_eq!(call(client, "moor"), "moored");
            assert_eq!(call(client, "tide"), "1");
            assert_eq!(wait_for_notes(client, notes, 2), ["Resource(\"harbour:tide\")", "Tools"], "{era:?}");
            client.unsubscribe(subscription).unwrap();
            assert_eq!(wait_for_notes(client, interest, 1), ["harbour:tide false"]);
            assert_eq!(call(client, "tide"), "0");
            client.ping().unwrap();
            // A legacy server sends list changes to each client, subscribed or not.
            let left: &[&str] = if era == Era::Legacy { &["Tools"] } else { &[] };
            assert_eq!(wait_for_notes(client, notes, left.len()), left);
            assert!(client.unsubscribe(subscription).is_err());
        });
    }
}

// covers: ELIC-006, ELIC-009, ELIC-034, SAMP-002, ROOT-001
#[test]
fn client_callbacks_answer_input_requests() {
    for era in ERAS {
        let answers = vec![Ok(ElicitResult::decline()), Ok(ElicitResult::new(ElicitAction::Accept))];
        with_user(era, answers, move |client, notes, _| {
            assert_eq!(call(client, "verse"), "muse 1");
            assert_eq!(call(client, "visit"), "on the way");
            assert_eq!(call(client, "visit"), "not going");
            assert_eq!(notes.take(), ["https://harbour.example/pay"; 2]);
        });
    }
}

// covers: ELIC-012, ELIC-018, ELIC-020
#[cfg(feature = "schemars")]
#[test]
fn typed_form_returns_typed_answer() {
    let accept =
        |boat: &str, nights: i64| ElicitResult::accept([("boat", boat.into()), ("nights", nights.into())]);
    for era in ERAS {
        let answers = vec![
            Err(RpcError::internal("no user is present")),
            Ok(accept("Aline", 700)),
            Ok(ElicitResult::cancel()),
            Ok(ElicitResult::decline()),
            Ok(accept("Aline", 3)),
        ];
        with_user(era, answers, move |client, _, _| {
            assert_eq!(call(client, "stay"), "Aline for 3 nights");
            assert_eq!(call(client, "stay"), "declined");
            assert_eq!(call(client, "stay"), "cancelled");
            // 700 nights do not fit the `u8` of the form. The client refuses the answer and does not send it.
            let refused = client.call_tool("stay", &json!({})).unwrap_err().to_string();
            assert!(refused.contains("does not fit") && refused.contains("nights"), "{era:?}: {refused}");
            let refused = client.call_tool("stay", &json!({})).unwrap_err().to_string();
            assert!(refused.contains("no user is present"), "{era:?}: {refused}");
            poll_client(client);
        });
    }
}

/// Leaves each input request open and sends it to the test.
struct DeferredInputHandler(NoteLog, std::sync::mpsc::Sender<mcp_proto::client::Input>);

impl ClientHandler for DeferredInputHandler {
    fn input(
        &self,
        input: &mcp_proto::client::Input,
    ) -> Option<Result<mcp_proto::model::InputResponse<'static>, RpcError>> {
        self.1.send(input.clone()).unwrap();
        None
    }

    fn input_withdrawn(&self, _: mcp_proto::client::InputId) {
        self.0.record("gone");
    }
}

#[test]
fn deferred_input_is_answered_refused_or_withdrawn_later() {
    for era in ERAS {
        let (sender, inputs) = std::sync::mpsc::channel();
        with_handler(
            era,
            |notes| DeferredInputHandler(notes, sender),
            move |client, notes, _| {
                let none = json!({});
                let visit = |client: &mut Client| {
                    let call = client.start_tool("visit", &none, &CallOptions::new()).unwrap();
                    loop {
                        if let Ok(input) = inputs.try_recv() {
                            break (call, input);
                        }
                        poll_client(client);
                    }
                };
                let (call, input) = visit(client);
                let answer = ElicitResult::new(ElicitAction::Accept).into();
                client.answer(input.id, &answer).unwrap();
                assert!(client.answer(input.id, &answer).is_err(), "it is answered only once");
                assert!(client.wait(call).unwrap().as_str().contains("on the way"), "{era:?}");

                let (call, input) = visit(client);
                client.refuse(input.id, &RpcError::internal("no user is present")).unwrap();
                assert!(client.wait(call).unwrap_err().to_string().contains("no user is present"), "{era:?}");

                let (call, input) = visit(client);
                client.cancel(call, None).unwrap();
                assert_eq!(wait_for_notes(client, notes, 1), ["gone"], "{era:?}");
                assert!(client.answer(input.id, &answer).is_err(), "the input request is withdrawn");
            },
        );
    }
}

/// Records how subscriptions end.
struct SubscriptionEndRecorder(NoteLog);

impl ClientHandler for SubscriptionEndRecorder {
    fn subscription_ended(&self, _: SubscriptionKey, error: Option<&CallError>) {
        self.0.record(format!("ended: {error:?}"));
    }
}

// covers: SUB-014
#[test]
fn subscribe_succeeds_when_subscription_ends_at_once() {
    with_timeout(|| {
        let notes = NoteLog::default();
        let options =
            Client::options(Config::new("test", "1")).handler(SubscriptionEndRecorder(notes.clone()));
        // Writes all messages that one request causes in one piece.
        let (mut client, server) = connect(options, |mut near| {
            let (mut input, mut some) = (Vec::new(), [0; 4096]);
            loop {
                match read(&mut *near, &mut some) {
                    0 => return,
                    n => input.extend_from_slice(&some[..n]),
                }
                while let Some(end) = input.iter().position(|b| *b == b'\n') {
                    let line: Vec<u8> = input.drain(..=end).collect();
                    let message: Value = serde_json::from_slice(&line).unwrap();
                    let id = &message["id"];
                    let response = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
                    let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
                    let replies = match message["method"].as_str().unwrap() {
                        "server/discover" => vec![response(json!({
                            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                            "capabilities": {"tools": {"listChanged": true}}, "cacheScope": "private",
                        }))],
                        "subscriptions/listen" => vec![
                            json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                                "params": {"notifications": {"toolsListChanged": true}, "_meta": meta}}),
                            response(json!({"resultType": "complete", "_meta": meta})),
                        ],
                        _ => continue,
                    };
                    let replies: String = replies.iter().map(|message| format!("{message}\n")).collect();
                    assert_eq!(near.write(replies.as_bytes()).unwrap(), replies.len());
                }
            }
        });
        let (subscription, honoured) =
            client.subscribe(&SubscriptionFilter::new().tools_list_changed(true)).unwrap();
        assert_eq!(honoured.tools_list_changed, Some(true));
        assert_eq!(wait_for_notes(&mut client, &notes, 1), ["ended: None"]);
        assert!(client.unsubscribe(subscription).is_err(), "it has ended");
        client.close().unwrap();
        server.join().unwrap();
    });
}

// covers: MRTR-031
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn refused_input_ends_call_without_further_requests() {
    struct RefusingHandler(NoteLog);
    impl ClientHandler for RefusingHandler {
        fn sample(&self, _: &CreateMessageParams<'_>) -> Result<CreateMessageResult<'static>, RpcError> {
            self.0.record("sample");
            Err(RpcError::internal("no"))
        }
        fn roots(&self) -> Result<ListRootsResult, RpcError> {
            self.0.record("roots");
            Err(RpcError::internal("no"))
        }
    }
    with_timeout(|| {
        let notes = NoteLog::default();
        let can = Capabilities::new().with(Capability::Sampling).with(Capability::Roots);
        let config = Config::new("test", "1").capabilities(can);
        let options = Client::options(config).handler(RefusingHandler(notes.clone()));
        let (client, server) = serve(|| router(NoteLog::default()), options);
        assert!(matches!(
            client.call_tool("verse", &json!({})),
            Err(Error::Call(CallError::InputRefused(_)))
        ));
        // Both are needed in one round. The first refusal ends the call, and a client without background callbacks then
        // skips the second request.
        let requests = notes.take();
        assert!(requests[0] == "sample" && (RUNS_IN_BACKGROUND || requests.len() == 1), "{requests:?}");
        client.close().unwrap();
        server.join().unwrap().unwrap();
    });
}
