//! A router that asks, changes and tells, and a client of callbacks: the same on both sides in every era, and on each
//! adapter, which `crate::adapter` says

#![allow(unused_mut, reason = "clients of some adapters need not be told apart")]

use mcp_proto::client::{Config, SubscriptionKey};
use mcp_proto::model::{
    CreateMessageParams, CreateMessageResult, ElicitAction, ElicitParams, ElicitResult, ElicitUrlParams,
    ListRootsResult, Role, Root, SamplingMessage, SubscriptionFilter, Tool,
};
use mcp_proto::router::Kind;
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Change, Era, RawJson, RpcError, VersionSet,
};
use mcp_std::Interest;
use mcp_std::client::ClientHandler;
use serde_json::{Value, json};

use crate::adapter::{APART, Client, Cx, Error, Router, connect, handler, receive, serve, turn};
use crate::support::{ERAS, Notes, in_time};

const ANY: &str = r#"{"type":"object"}"#;

pub(crate) fn tool(name: &str) -> Tool {
    Tool::new(name, RawJson::new(ANY).unwrap())
}

pub(crate) fn router(notes: Notes) -> Router {
    let mut router = Router::new("harbour", "1.0");
    let later = router.later();
    router
        .tool_with(
            tool("open"),
            handler!(move |_: &mut Cx<'_>, _: Value| {
                later.change(|router| {
                    router.tool_with(tool("moor"), handler!(|_: &mut Cx<'_>, _: Value| "moored"));
                });
                "open"
            }),
        )
        .tool_with(
            tool("tide"),
            handler!(|cx: &mut Cx<'_>, _: Value| {
                let (tell, told) = std::sync::mpsc::channel();
                cx.with_engine(move |engine, now| {
                    let _ = tell.send(engine.publish(now, &Change::Resource("harbour:tide".into())));
                })
                .unwrap();
                cx.publish(&Change::Resource("harbour:wind".into()));
                cx.publish(&Change::Tools);
                let told: usize = receive!(cx, told);
                told.to_string()
            }),
        )
        .tool_with(
            tool("visit"),
            handler!(|cx: &mut Cx<'_>, _: Value| -> Result<&'static str, RpcError> {
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
            handler!(|cx: &mut Cx<'_>, _: Value| -> Result<String, RpcError> {
                let question = CreateMessageParams::new([SamplingMessage::user("rhyme")], 9u32);
                // Both are asked at once.
                let (line, roots) = (cx.sample("line", question), cx.roots("roots"));
                let (line, roots) = (line?, roots?);
                Ok(format!("{} {}", line.model, roots.roots.len()))
            }),
        )
        .subscriptions(move |uri, wanted| notes.note(format!("{uri} {wanted}")));
    #[cfg(feature = "schemars")]
    router.tool_with(tool("stay"), handler!(|cx: &mut Cx<'_>, _: Value| typed::stay(cx)));
    router
}

#[cfg(feature = "schemars")]
mod typed {
    use super::*;
    use mcp_proto::model::Elicited;
    use mcp_proto::router::schema::schemars::{self, JsonSchema};

    #[derive(serde::Deserialize, JsonSchema)]
    struct Stay {
        boat: String,
        nights: u8,
    }

    pub(super) fn stay(cx: &mut Cx<'_>) -> Result<String, RpcError> {
        Ok(match cx.elicit_as::<Stay>("stay", "Which boat?")? {
            Elicited::Accepted(stay) => format!("{} for {} nights", stay.boat, stay.nights),
            Elicited::Declined => "declined".into(),
            Elicited::Cancelled => "cancelled".into(),
        })
    }
}

/// Answers what it is asked, and notes what it is told
struct User {
    notes: Notes,
    answers: Vec<Result<ElicitResult, RpcError>>,
}

impl ClientHandler for User {
    fn elicit(&mut self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        if let ElicitParams::Url(page) = params {
            self.notes.note(&page.url);
        }
        self.answers.pop().unwrap_or_else(|| Ok(ElicitResult::cancel()))
    }

    fn sample(&mut self, _: &CreateMessageParams<'_>) -> Result<CreateMessageResult<'static>, RpcError> {
        Ok(CreateMessageResult::new(Role::Assistant, "line", "muse"))
    }

    fn roots(&mut self) -> Result<ListRootsResult, RpcError> {
        Ok(ListRootsResult::new(vec![Root::new("file:///boats")]))
    }

    fn changed(&mut self, change: &Change) {
        self.notes.note(format!("{change:?}"));
    }

    fn subscription_ended(&mut self, _: SubscriptionKey, error: Option<&CallError>) {
        self.notes.note(format!("ended {error:?}"));
    }
}

/// A client of one era, what it was told, and what the server was told of interest
fn with(
    era: Era,
    answers: Vec<Result<ElicitResult, RpcError>>,
    talk: impl FnOnce(&mut Client, &Notes, &Notes) + Send + 'static,
) {
    with_handler(era, |notes| User { notes, answers }, talk);
}

fn with_handler<H: ClientHandler + Send + 'static>(
    era: Era,
    handler: impl FnOnce(Notes) -> H + Send + 'static,
    talk: impl FnOnce(&mut Client, &Notes, &Notes) + Send + 'static,
) {
    in_time(move || {
        let (heard, interest) = (Notes::default(), Notes::default());
        let theirs = interest.clone();
        let capabilities = Capabilities::new()
            .with(Capability::ElicitationForm)
            .with(Capability::ElicitationUrl)
            .with(Capability::Sampling)
            .with(Capability::Roots);
        let config =
            Config::new("sailor", "1.0").versions(VersionSet::ALL.era(era)).capabilities(capabilities);
        let options = Client::options(config).handler(handler(heard.clone()));
        let (mut client, server) = serve(move || router(theirs), options);
        talk(&mut client, &heard, &interest);
        client.close().unwrap();
        server.join().unwrap().unwrap();
    });
}

pub(crate) fn call(client: &mut Client, tool: &str) -> String {
    let result = client.call_tool(tool, &json!({})).unwrap();
    result.content[0].as_text().unwrap().to_owned()
}

/// Waits until so much was noted
fn noted(client: &mut Client, notes: &Notes, lines: usize) -> Vec<String> {
    let mut noted = notes.take();
    while noted.len() < lines {
        turn(client);
        noted.append(&mut notes.take());
    }
    noted
}

// covers: TOOL-019, RES-010, RES-014, SUB-001, SUB-006, SUB-012
#[test]
fn a_router_tells_who_wants_to_know_what_it_lists() {
    for era in ERAS {
        with(era, Vec::new(), move |client, heard, interest| {
            let uris = ["harbour:tide".to_owned()];
            let filter = SubscriptionFilter::new().tools_list_changed(true).prompts_list_changed(true);
            let (subscription, honoured) =
                client.subscribe(&filter.resource_subscriptions(uris.clone())).unwrap();
            // There are no prompts.
            let expected = SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions(uris);
            assert_eq!(honoured, expected, "{era:?}");
            assert_eq!(noted(client, interest, 1), ["harbour:tide true"]);
            let tools = client.list(Kind::Tool).unwrap().len();
            assert_eq!(call(client, "open"), "open");
            // It comes, whatever is asked for.
            assert_eq!(noted(client, heard, 1), ["Tools"], "{era:?}");
            assert_eq!(client.list(Kind::Tool).unwrap().len(), tools + 1);
            assert_eq!(call(client, "moor"), "moored");
            assert_eq!(call(client, "tide"), "1");
            assert_eq!(noted(client, heard, 2), ["Resource(\"harbour:tide\")", "Tools"], "{era:?}");
            client.unsubscribe(subscription).unwrap();
            assert_eq!(noted(client, interest, 1), ["harbour:tide false"]);
            assert_eq!(call(client, "tide"), "0");
            client.ping().unwrap();
            // A legacy server tells everybody of its lists.
            let left: &[&str] = if era == Era::Legacy { &["Tools"] } else { &[] };
            assert_eq!(noted(client, heard, left.len()), left);
            assert!(client.unsubscribe(subscription).is_err());
        });
    }
}

// covers: ELIC-006, ELIC-009, ELIC-034, SAMP-002, ROOT-001
#[test]
fn callbacks_answer_what_handlers_ask() {
    for era in ERAS {
        let answers = vec![Ok(ElicitResult::decline()), Ok(ElicitResult::new(ElicitAction::Accept))];
        with(era, answers, move |client, heard, _| {
            assert_eq!(call(client, "verse"), "muse 1");
            assert_eq!(call(client, "visit"), "on the way");
            assert_eq!(call(client, "visit"), "not going");
            assert_eq!(heard.take(), ["https://harbour.example/pay"; 2]);
        });
    }
}

// covers: ELIC-012, ELIC-018, ELIC-020
#[cfg(feature = "schemars")]
#[test]
fn a_form_is_made_from_a_type_and_its_answer_is_one() {
    let accept =
        |boat: &str, nights: i64| ElicitResult::accept([("boat", boat.into()), ("nights", nights.into())]);
    for era in ERAS {
        let answers = vec![
            Err(RpcError::internal("nobody is at home")),
            Ok(accept("Aline", 700)),
            Ok(ElicitResult::cancel()),
            Ok(ElicitResult::decline()),
            Ok(accept("Aline", 3)),
        ];
        with(era, answers, move |client, _, _| {
            assert_eq!(call(client, "stay"), "Aline for 3 nights");
            assert_eq!(call(client, "stay"), "declined");
            assert_eq!(call(client, "stay"), "cancelled");
            // More than a form for `u8` allows: no answer, which is said at home.
            let refused = client.call_tool("stay", &json!({})).unwrap_err().to_string();
            assert!(refused.contains("does not fit") && refused.contains("nights"), "{era:?}: {refused}");
            let refused = client.call_tool("stay", &json!({})).unwrap_err().to_string();
            assert!(refused.contains("nobody is at home"), "{era:?}: {refused}");
            turn(client);
        });
    }
}

/// Leaves everything open
struct Slow(Notes, std::sync::mpsc::Sender<mcp_proto::client::Input>);

impl ClientHandler for Slow {
    fn input(
        &mut self,
        input: &mcp_proto::client::Input,
    ) -> Option<Result<mcp_proto::model::InputResponse<'static>, RpcError>> {
        self.1.send(input.clone()).unwrap();
        None
    }

    fn input_gone(&mut self, _: mcp_proto::client::InputId) {
        self.0.note("gone");
    }
}

#[test]
fn what_is_left_open_is_answered_later_while_everything_else_goes_on() {
    for era in ERAS {
        let (told, inputs) = std::sync::mpsc::channel();
        with_handler(
            era,
            |notes| Slow(notes, told),
            move |client, heard, _| {
                let none = json!({});
                let visit = |client: &mut Client| {
                    let call = client.start_tool("visit", &none, &CallOptions::new()).unwrap();
                    loop {
                        if let Ok(input) = inputs.try_recv() {
                            break (call, input);
                        }
                        turn(client);
                    }
                };
                let (call, input) = visit(client);
                let answer = ElicitResult::new(ElicitAction::Accept).into();
                client.answer(input.id, &answer).unwrap();
                assert!(client.answer(input.id, &answer).is_err(), "once");
                assert!(client.wait(call).unwrap().as_str().contains("on the way"), "{era:?}");

                let (call, input) = visit(client);
                client.refuse(input.id, &RpcError::internal("nobody is at home")).unwrap();
                assert!(client.wait(call).unwrap_err().to_string().contains("nobody is at home"), "{era:?}");

                let (call, input) = visit(client);
                client.cancel(call, None).unwrap();
                assert_eq!(noted(client, heard, 1), ["gone"], "{era:?}");
                assert!(client.answer(input.id, &answer).is_err(), "nobody needs it");
            },
        );
    }
}

/// Notes how subscriptions end
struct Ends(Notes);

impl ClientHandler for Ends {
    fn subscription_ended(&mut self, _: SubscriptionKey, error: Option<&CallError>) {
        self.0.note(format!("ended: {error:?}"));
    }
}

// covers: SUB-014
#[test]
fn a_subscription_that_ends_as_soon_as_it_has_begun_has_begun() {
    in_time(|| {
        let notes = Notes::default();
        let options = Client::options(Config::new("test", "1")).handler(Ends(notes.clone()));
        // All that it says to a request, in one piece.
        let (mut client, server) = connect(options, |mut near| {
            let (mut input, mut some) = (Vec::new(), [0; 4096]);
            loop {
                near.wait(Interest::READ, None).unwrap();
                match near.read(&mut some).unwrap() {
                    0 => return,
                    n => input.extend_from_slice(&some[..n]),
                }
                while let Some(end) = input.iter().position(|b| *b == b'\n') {
                    let line: Vec<u8> = input.drain(..=end).collect();
                    let message: Value = serde_json::from_slice(&line).unwrap();
                    let id = &message["id"];
                    let says = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
                    let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
                    let said = match message["method"].as_str().unwrap() {
                        "server/discover" => vec![says(json!({
                            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                            "capabilities": {"tools": {"listChanged": true}}, "cacheScope": "private",
                        }))],
                        "subscriptions/listen" => vec![
                            json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                                "params": {"notifications": {"toolsListChanged": true}, "_meta": meta}}),
                            says(json!({"resultType": "complete", "_meta": meta})),
                        ],
                        _ => continue,
                    };
                    let said: String = said.iter().map(|message| format!("{message}\n")).collect();
                    assert_eq!(near.write(said.as_bytes()).unwrap(), said.len());
                }
            }
        });
        let (subscription, honoured) =
            client.subscribe(&SubscriptionFilter::new().tools_list_changed(true)).unwrap();
        assert_eq!(honoured.tools_list_changed, Some(true));
        assert_eq!(noted(&mut client, &notes, 1), ["ended: None"]);
        assert!(client.unsubscribe(subscription).is_err(), "it has ended");
        client.close().unwrap();
        server.join().unwrap();
    });
}

// covers: MRTR-031
#[test]
fn nobody_is_asked_for_a_call_that_has_ended() {
    struct Refuses(Notes);
    impl ClientHandler for Refuses {
        fn sample(&mut self, _: &CreateMessageParams<'_>) -> Result<CreateMessageResult<'static>, RpcError> {
            self.0.note("sample");
            Err(RpcError::internal("no"))
        }
        fn roots(&mut self) -> Result<ListRootsResult, RpcError> {
            self.0.note("roots");
            Err(RpcError::internal("no"))
        }
    }
    in_time(|| {
        let notes = Notes::default();
        let can = Capabilities::new().with(Capability::Sampling).with(Capability::Roots);
        let config = Config::new("test", "1").capabilities(can);
        let options = Client::options(config).handler(Refuses(notes.clone()));
        let (mut client, server) = serve(|| router(Notes::default()), options);
        assert!(matches!(
            client.call_tool("verse", &json!({})),
            Err(Error::Call(CallError::InputRefused(_)))
        ));
        // Both are needed at once; with the first refusal the call is over, where that is known before the second.
        let asked = notes.take();
        assert!(asked[0] == "sample" && (APART || asked.len() == 1), "{asked:?}");
        client.close().unwrap();
        server.join().unwrap().unwrap();
    });
}
