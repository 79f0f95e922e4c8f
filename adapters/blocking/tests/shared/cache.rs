//! Results that a client need not ask for again: `crate::adapter` says whose client it is

#![allow(unused_mut, reason = "clients of some adapters need not be told apart")]

#[path = "by_hand.rs"]
mod by_hand;

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::Mutex;
use std::thread::JoinHandle;

use mcp_proto::client::{Cache, Kind, Pages};
use mcp_proto::model::{ElicitParams, ElicitResult, ReadResourceParams, SubscriptionFilter};
use mcp_proto::{CallOptions, Capabilities, Capability, Era, RpcError};
use mcp_std::SharedCache;
use mcp_std::client::ClientHandler;
use serde_json::{Value, json};

use self::by_hand::{Reply, by_hand, by_hand_as, news};
use crate::adapter::{Client, Error, Options};
use crate::support::{in_time, only, speaks};

/// Longer than any test takes
const LONG: u64 = 3_600_000;

/// What a server is asked, and what it says now
#[derive(Clone, Default)]
struct State(Arc<Mutex<Inner>>);

struct Inner {
    asked: Vec<String>,
    ttl: Value,
    scope: &'static str,
    /// Said before the next answer
    news: Vec<Value>,
    /// What cursors begin with; others are refused
    edition: u32,
}

impl Default for Inner {
    fn default() -> Self {
        Self { asked: Vec::new(), ttl: LONG.into(), scope: "private", news: Vec::new(), edition: 1 }
    }
}

impl State {
    fn asked(&self) -> Vec<String> {
        core::mem::take(&mut self.0.lock().unwrap().asked)
    }

    fn set(&self, f: impl FnOnce(&mut Inner)) {
        f(&mut self.0.lock().unwrap());
    }

    /// Lists of two pages, and resources that say how often they were read
    fn answer(&self, method: &str, params: &Value) -> Reply {
        let mut state = self.0.lock().unwrap();
        let what = params["cursor"].as_str().or_else(|| params["uri"].as_str()).unwrap_or("");
        state.asked.push(format!("{method} {what}"));
        let before = core::mem::take(&mut state.news);
        let cursor = format!("{}/2", state.edition);
        let mut result = match method {
            "resources/read" => json!({"contents": [{"uri": what, "text": state.edition.to_string()}]}),
            "tools/call" => json!({"content": []}),
            list => {
                let name = format!("{} of {}", if what.is_empty() { 1 } else { 2 }, state.edition);
                let entry = json!({"name": name, "uri": "a:b", "uriTemplate": "a:{b}", "inputSchema": {}});
                let member = match list {
                    "resources/templates/list" => "resourceTemplates",
                    list => list.split('/').next().unwrap(),
                };
                match what {
                    "" => json!({member: [entry], "nextCursor": cursor}),
                    what if *what == cursor => json!({member: [entry]}),
                    _ => return Reply { before, outcome: Err(-32602) },
                }
            }
        };
        result["resultType"] = "complete".into();
        result["ttlMs"] = state.ttl.clone();
        result["cacheScope"] = state.scope.into();
        Reply { before, outcome: Ok(result) }
    }
}

fn pair(era: Era, options: impl FnOnce(Options) -> Options) -> (State, Client, JoinHandle<()>) {
    let state = State::default();
    let (client, serving) = connect(&state, era, options);
    (state, client, serving)
}

fn connect(state: &State, era: Era, options: impl FnOnce(Options) -> Options) -> (Client, JoinHandle<()>) {
    let server = state.clone();
    by_hand(era, options, move |method, params| server.answer(method, params))
}

fn names(client: &mut Client) -> Vec<String> {
    client.list_tools().unwrap().into_iter().map(|tool| tool.name).collect()
}

fn text(client: &mut Client, uri: &str) -> String {
    match &client.read_resource(uri).unwrap().contents[0] {
        mcp_proto::model::ResourceContents::Text(text) => text.text.clone().into_owned(),
        other => panic!("{other:?}"),
    }
}

fn finish(client: Client, serving: JoinHandle<()>) {
    client.close().unwrap();
    serving.join().unwrap();
}

// covers: CACHE-005, CACHE-006, CACHE-010, CACHE-016
#[test]
fn what_is_fresh_is_not_asked_for_again() {
    in_time(|| {
        let (state, mut client, serving) = pair(Era::Modern, |o| o);
        for _ in 0..3 {
            assert_eq!(names(&mut client), ["1 of 1", "2 of 1"]);
            assert_eq!(client.list_prompts().unwrap().len(), 2);
            assert_eq!(client.list(Kind::Tool).unwrap().len(), 2);
            assert_eq!(text(&mut client, "a:b"), "1");
        }
        let once =
            ["tools/list ", "tools/list 1/2", "prompts/list ", "prompts/list 1/2", "resources/read a:b"];
        assert_eq!(state.asked(), once);
        assert_eq!(text(&mut client, "a:c"), "1");
        assert_eq!(state.asked(), ["resources/read a:c"], "another one");
        // Calls are never kept, nor what was asked for with options or by hand.
        for _ in 0..2 {
            client.call_tool("x", &json!({})).unwrap();
            client.send_with(&ReadResourceParams::new("a:b"), &CallOptions::new(), &mut |_| {}).unwrap();
            client.request("tools/list", &json!({}), &CallOptions::new()).unwrap();
        }
        assert_eq!(state.asked().len(), 6);
        client.forget_kept();
        names(&mut client);
        assert_eq!(state.asked().len(), 2);
        // What is said not to be kept is not.
        for ttl in [json!(0), json!(-1), json!(null), json!("60000")] {
            state.set(|state| state.ttl = ttl);
            client.forget_kept();
            for _ in 0..2 {
                names(&mut client);
            }
            assert_eq!(state.asked().len(), 4);
        }
        state.set(|state| state.ttl = json!(20));
        text(&mut client, "a:b");
        std::thread::sleep(Duration::from_millis(30));
        text(&mut client, "a:b");
        assert_eq!(state.asked().len(), 2, "stale");
        finish(client, serving);

        let (state, mut client, serving) = pair(Era::Modern, Options::no_cache);
        names(&mut client);
        names(&mut client);
        assert_eq!(state.asked().len(), 4);
        finish(client, serving);
    });
}

// covers: CACHE-014
#[test]
fn news_are_heeded_at_once() {
    in_time(|| {
        let (state, mut client, serving) = pair(Era::Modern, |o| o);
        let filter = SubscriptionFilter::new().tools_list_changed(true).prompts_list_changed(true);
        let filter = filter.resources_list_changed(true).resource_subscriptions(["a:c".into()]);
        assert_eq!(client.subscribe(&filter).unwrap().1, filter);
        let look = |client: &mut Client| {
            names(client);
            client.list_prompts().unwrap();
            client.list_resources().unwrap();
            client.list_resource_templates().unwrap();
            text(client, "a:b");
            text(client, "a:c");
        };
        look(&mut client);
        assert_eq!(state.asked().len(), 10);
        look(&mut client);
        assert_eq!(state.asked().len(), 0);
        for (method, params, again) in [
            ("notifications/tools/list_changed", json!({}), vec!["tools/list ", "tools/list 1/2"]),
            ("notifications/prompts/list_changed", json!({}), vec!["prompts/list ", "prompts/list 1/2"]),
            (
                "notifications/resources/list_changed",
                json!({}),
                vec![
                    "resources/list ",
                    "resources/list 1/2",
                    "resources/templates/list ",
                    "resources/templates/list 1/2",
                ],
            ),
            ("notifications/resources/updated", json!({"uri": "a:c"}), vec!["resources/read a:c"]),
        ] {
            state.set(|state| state.news = vec![news(method, &params)]);
            client.call_tool("x", &json!({})).unwrap();
            assert_eq!(state.asked(), ["tools/call "]);
            look(&mut client);
            assert_eq!(state.asked(), again, "{method}");
        }
        // Even if nobody has read them yet: they have come before the second call is looked at.
        state.set(|state| state.news = vec![news("notifications/tools/list_changed", &json!({}))]);
        let calls = [0; 2].map(|_| client.start_tool("x", &json!({}), &CallOptions::new()).unwrap());
        while state.0.lock().unwrap().asked.len() < 2 {
            std::thread::yield_now();
        }
        names(&mut client);
        assert_eq!(state.asked(), ["tools/call ", "tools/call ", "tools/list ", "tools/list 1/2"]);
        for call in calls {
            client.wait(call).unwrap();
        }
        // A list that changes while it is on its way may be the old one.
        client.forget_kept();
        state.set(|state| state.news = vec![news("notifications/tools/list_changed", &json!({}))]);
        names(&mut client);
        names(&mut client);
        assert_eq!(
            state.asked(),
            ["tools/list ", "tools/list 1/2", "tools/list "],
            "the second page is newer"
        );
        finish(client, serving);
    });
}

// covers: CACHE-018
#[test]
fn pages_that_do_not_fit_each_other_any_more_are_asked_for_anew() {
    in_time(|| {
        let state = State::default();
        let server = state.clone();
        let (mut client, serving) = by_hand(
            Era::Modern,
            |o| o,
            move |method, params| {
                server.set(|state| state.ttl = json!(if params.get("cursor").is_some() { 0 } else { LONG }));
                server.answer(method, params)
            },
        );
        assert_eq!(names(&mut client), ["1 of 1", "2 of 1"]);
        assert_eq!(names(&mut client), ["1 of 1", "2 of 1"]);
        assert_eq!(state.asked(), ["tools/list ", "tools/list 1/2", "tools/list 1/2"], "with its cursor");
        state.set(|state| state.edition = 2);
        assert_eq!(names(&mut client), ["1 of 2", "2 of 2"]);
        assert_eq!(state.asked(), ["tools/list 1/2", "tools/list ", "tools/list 2/2"]);
        finish(client, serving);

        // A server that refuses what it has just given is not asked for ever.
        let (mut client, serving) = by_hand(
            Era::Modern,
            |o| o,
            move |_, params| {
                if params.get("cursor").is_some() {
                    return Reply::from(-32602);
                }
                Reply::from(json!({"tools": [], "nextCursor": "x", "ttlMs": LONG, "cacheScope": "private"}))
            },
        );
        for _ in 0..2 {
            assert!(matches!(client.list_tools(), Err(Error::Call(_))));
        }
        finish(client, serving);
    });
}

// covers: CACHE-012, CACHE-013, CACHE-020
#[test]
fn clients_share_what_they_may() {
    in_time(|| {
        for (scope, shared) in [("private", false), ("public", true)] {
            let cache = SharedCache::default();
            let state = State::default();
            state.set(|state| state.scope = scope);
            let as_whom = |server: &'static str, principal: &'static str| {
                let cache = cache.clone();
                connect(&state, Era::Modern, move |o| o.cache(&cache, server, principal))
            };
            let (mut alice, first) = as_whom("there", "alice");
            names(&mut alice);
            assert_eq!(state.asked().len(), 2);
            // Another connection of hers, then somebody else's, then one to another server.
            for (server, principal, kept) in
                [("there", "alice", true), ("there", "bob", shared), ("elsewhere", "alice", false)]
            {
                let (mut client, serving) = as_whom(server, principal);
                assert_eq!(names(&mut client), ["1 of 1", "2 of 1"]);
                assert_eq!(state.asked().is_empty(), kept, "{scope}: {principal} at {server}");
                finish(client, serving);
            }
            cache.clear();
            names(&mut alice);
            assert_eq!(state.asked().len(), 2);
            finish(alice, first);
        }
    });
}

#[test]
fn legacy_lists_are_kept_if_asked_for_until_they_change() {
    in_time(|| {
        let (state, mut client, serving) = pair(Era::Legacy, |o| o);
        names(&mut client);
        names(&mut client);
        text(&mut client, "a:b");
        assert_eq!(state.asked().len(), 5);
        finish(client, serving);

        let (state, mut client, serving) = pair(Era::Legacy, |o| o.cache_legacy(Duration::MAX));
        names(&mut client);
        names(&mut client);
        assert_eq!(state.asked().len(), 2);
        for _ in 0..2 {
            text(&mut client, "a:b");
        }
        assert_eq!(state.asked().len(), 2, "who has not subscribed is not told of changes");
        state.set(|state| state.news = vec![news("notifications/tools/list_changed", &json!({}))]);
        client.call_tool("x", &json!({})).unwrap();
        names(&mut client);
        assert_eq!(state.asked(), ["tools/call ", "tools/list ", "tools/list 1/2"]);
        finish(client, serving);
    });
}

// covers: PAGE-012
#[test]
fn a_list_without_end_fills_no_cache() {
    in_time(|| {
        let cache = SharedCache::new(Cache::with_limits(10, 1 << 20));
        let shared = cache.clone();
        let options = move |o: Options| o.cache(&shared, "endless", "");
        let (mut client, serving) = by_hand(Era::Modern, options, |_, params| {
            let n: u64 = params["cursor"].as_str().map_or(0, |n| n.parse().unwrap());
            let tool = json!({"name": n.to_string(), "inputSchema": {}});
            let next = (n + 1).to_string();
            Reply::from(json!({"tools": [tool], "nextCursor": next, "ttlMs": LONG, "cacheScope": "public"}))
        });
        for _ in 0..2 {
            let names = names(&mut client);
            assert!(names.len() == Pages::MAX && names[999] == "999", "each page once");
            assert_eq!(format!("{cache:?}"), "SharedCache { len: 10, .. }");
        }
        finish(client, serving);
    });
}

/// Answers every form
struct Declines;

impl ClientHandler for Declines {
    fn elicit(&mut self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        Ok(ElicitResult::decline())
    }
}

// covers: CACHE-011
#[test]
fn what_was_said_after_a_question_is_not_kept() {
    for asks_the_user in [true, false] {
        in_time(move || {
            let asked = Arc::new(Mutex::new(0));
            let count = Arc::clone(&asked);
            let answer = move |_: &str, params: &Value| {
                if params.get("requestState").is_some() {
                    return Reply::from(json!({
                        "resultType": "complete", "ttlMs": LONG, "cacheScope": "public",
                        "contents": [{"uri": "a:b", "text": "for you alone"}],
                    }));
                }
                *count.lock().unwrap() += 1;
                let mut result = json!({"resultType": "input_required", "requestState": "s"});
                if asks_the_user {
                    let form =
                        json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
                    result["inputRequests"] =
                        json!({"who": {"method": "elicitation/create", "params": form}});
                }
                Reply::from(result)
            };
            let forms = Capabilities::new().with(Capability::Elicitation);
            let config = speaks(only(Era::Modern)).capabilities(forms);
            let (mut client, serving) = by_hand_as(config, |o| o.handler(Declines), answer);
            for times in 1..=2 {
                assert_eq!(text(&mut client, "a:b"), "for you alone");
                assert_eq!(*asked.lock().unwrap(), times);
            }
            finish(client, serving);
        });
    }
}
