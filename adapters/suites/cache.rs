//! Suite: cached results of a client.
//!
//! `crate::adapter` names the adapter under test.

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::Mutex;
use std::thread::JoinHandle;

use mcp_proto::EntryKind;
use mcp_proto::client::{Cache, Paginator};
use mcp_proto::model::{ElicitParams, ElicitResult, ReadResourceParams, SubscriptionFilter};
use mcp_proto::{CallOptions, Capabilities, Capability, Era, RpcError};
use mcp_runtime::SharedCache;
use mcp_runtime::client::ClientHandler;
use serde_json::{Value, json};

use super::scripted_server::{ScriptedReply, connect_scripted, connect_scripted_with, notification};
use crate::adapter::{Client, Error, Options};
use crate::support::{client_config, version_set, with_timeout};

/// A time to live in milliseconds, longer than any test.
const LONG: u64 = 3_600_000;

/// A scripted server of lists and resources. Clones share the state.
#[derive(Clone, Default)]
struct ListServer(Arc<Mutex<ListServerState>>);

struct ListServerState {
    requests: Vec<String>,
    ttl: Value,
    scope: &'static str,
    /// Notifications that precede the next response.
    notifications: Vec<Value>,
    /// Prefix of valid cursors. Others are refused.
    edition: u32,
}

impl Default for ListServerState {
    fn default() -> Self {
        Self {
            requests: Vec::new(),
            ttl: LONG.into(),
            scope: "private",
            notifications: Vec::new(),
            edition: 1,
        }
    }
}

impl ListServer {
    fn take_requests(&self) -> Vec<String> {
        core::mem::take(&mut self.0.lock().unwrap().requests)
    }

    fn update(&self, f: impl FnOnce(&mut ListServerState)) {
        f(&mut self.0.lock().unwrap());
    }

    /// Answers with lists of two pages, and with resources whose text is the edition.
    fn answer(&self, method: &str, params: &Value) -> ScriptedReply {
        let mut state = self.0.lock().unwrap();
        let target = params["cursor"].as_str().or_else(|| params["uri"].as_str()).unwrap_or("");
        state.requests.push(format!("{method} {target}"));
        let notifications = core::mem::take(&mut state.notifications);
        let cursor = format!("{}/2", state.edition);
        let mut result = match method {
            "resources/read" => json!({"contents": [{"uri": target, "text": state.edition.to_string()}]}),
            "tools/call" => json!({"content": []}),
            list => {
                let name = format!("{} of {}", if target.is_empty() { 1 } else { 2 }, state.edition);
                let entry = json!({"name": name, "uri": "a:b", "uriTemplate": "a:{b}", "inputSchema": {}});
                let member = match list {
                    "resources/templates/list" => "resourceTemplates",
                    list => list.split('/').next().unwrap(),
                };
                match target {
                    "" => json!({member: [entry], "nextCursor": cursor}),
                    target if *target == cursor => json!({member: [entry]}),
                    _ => return ScriptedReply { notifications, outcome: Err(-32602) },
                }
            }
        };
        result["resultType"] = "complete".into();
        result["ttlMs"] = state.ttl.clone();
        result["cacheScope"] = state.scope.into();
        ScriptedReply { notifications, outcome: Ok(result) }
    }
}

fn pair(era: Era, options: impl FnOnce(Options) -> Options) -> (ListServer, Client, JoinHandle<()>) {
    let state = ListServer::default();
    let (client, serving) = connect(&state, era, options);
    (state, client, serving)
}

fn connect(
    state: &ListServer,
    era: Era,
    options: impl FnOnce(Options) -> Options,
) -> (Client, JoinHandle<()>) {
    let server = state.clone();
    connect_scripted(era, options, move |method, params| server.answer(method, params))
}

fn tool_names(client: &mut Client) -> Vec<String> {
    client.list_tools().unwrap().into_iter().map(|tool| tool.name).collect()
}

fn read_text(client: &mut Client, uri: &str) -> String {
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
fn fresh_result_is_served_from_cache() {
    with_timeout(|| {
        let (state, mut client, serving) = pair(Era::Modern, |o| o);
        for _ in 0..3 {
            assert_eq!(tool_names(&mut client), ["1 of 1", "2 of 1"]);
            assert_eq!(client.list_prompts().unwrap().len(), 2);
            assert_eq!(client.list(EntryKind::Tool).unwrap().len(), 2);
            assert_eq!(read_text(&mut client, "a:b"), "1");
        }
        let once =
            ["tools/list ", "tools/list 1/2", "prompts/list ", "prompts/list 1/2", "resources/read a:b"];
        assert_eq!(state.take_requests(), once);
        assert_eq!(read_text(&mut client, "a:c"), "1");
        assert_eq!(state.take_requests(), ["resources/read a:c"], "another one");
        // Results of tools, and of requests with options or of raw requests, are never cached.
        for _ in 0..2 {
            client.call_tool("x", &json!({})).unwrap();
            client.send_with(&ReadResourceParams::new("a:b"), &CallOptions::new(), &mut |_| {}).unwrap();
            client.request("tools/list", &json!({}), &CallOptions::new()).unwrap();
        }
        assert_eq!(state.take_requests().len(), 6);
        client.clear_cache();
        tool_names(&mut client);
        assert_eq!(state.take_requests().len(), 2);
        // A result without a positive time to live is not cached.
        for ttl in [json!(0), json!(-1), json!(null), json!("60000")] {
            state.update(|state| state.ttl = ttl);
            client.clear_cache();
            for _ in 0..2 {
                tool_names(&mut client);
            }
            assert_eq!(state.take_requests().len(), 4);
        }
        state.update(|state| state.ttl = json!(20));
        read_text(&mut client, "a:b");
        std::thread::sleep(Duration::from_millis(30));
        read_text(&mut client, "a:b");
        assert_eq!(state.take_requests().len(), 2, "stale");
        finish(client, serving);

        let (state, mut client, serving) = pair(Era::Modern, Options::no_cache);
        tool_names(&mut client);
        tool_names(&mut client);
        assert_eq!(state.take_requests().len(), 4);
        finish(client, serving);
    });
}

// covers: CACHE-014
#[test]
fn change_notification_invalidates_cache_at_once() {
    with_timeout(|| {
        let (state, mut client, serving) = pair(Era::Modern, |o| o);
        let filter = SubscriptionFilter::new().tools_list_changed(true).prompts_list_changed(true);
        let filter = filter.resources_list_changed(true).resource_subscriptions(["a:c".into()]);
        assert_eq!(client.subscribe(&filter).unwrap().1, filter);
        let look = |client: &mut Client| {
            tool_names(client);
            client.list_prompts().unwrap();
            client.list_resources().unwrap();
            client.list_resource_templates().unwrap();
            read_text(client, "a:b");
            read_text(client, "a:c");
        };
        look(&mut client);
        assert_eq!(state.take_requests().len(), 10);
        look(&mut client);
        assert_eq!(state.take_requests().len(), 0);
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
            state.update(|state| state.notifications = vec![notification(method, &params)]);
            client.call_tool("x", &json!({})).unwrap();
            assert_eq!(state.take_requests(), ["tools/call "]);
            look(&mut client);
            assert_eq!(state.take_requests(), again, "{method}");
        }
        // A change counts on arrival, even before the results of the calls are read.
        state.update(|state| {
            state.notifications = vec![notification("notifications/tools/list_changed", &json!({}))]
        });
        let calls = [0; 2].map(|_| client.start_tool("x", &json!({}), &CallOptions::new()).unwrap());
        while state.0.lock().unwrap().requests.len() < 4 {
            tool_names(&mut client);
            std::thread::yield_now();
        }
        // The change may arrive between two cached pages of one look: then the second is asked for first.
        let mut requests = state.take_requests();
        requests.sort_unstable();
        assert_eq!(requests, ["tools/call ", "tools/call ", "tools/list ", "tools/list 1/2"]);
        for call in calls {
            client.wait(call).unwrap();
        }
        // A list that changes while it is in flight may be outdated.
        client.clear_cache();
        state.update(|state| {
            state.notifications = vec![notification("notifications/tools/list_changed", &json!({}))]
        });
        tool_names(&mut client);
        tool_names(&mut client);
        assert_eq!(
            state.take_requests(),
            ["tools/list ", "tools/list 1/2", "tools/list "],
            "the second page is newer"
        );
        finish(client, serving);
    });
}

// covers: CACHE-018
#[test]
fn list_restarts_when_cached_cursor_is_refused() {
    with_timeout(|| {
        let state = ListServer::default();
        let server = state.clone();
        let (mut client, serving) = connect_scripted(
            Era::Modern,
            |o| o,
            move |method, params| {
                server
                    .update(|state| state.ttl = json!(if params.get("cursor").is_some() { 0 } else { LONG }));
                server.answer(method, params)
            },
        );
        assert_eq!(tool_names(&mut client), ["1 of 1", "2 of 1"]);
        assert_eq!(tool_names(&mut client), ["1 of 1", "2 of 1"]);
        assert_eq!(
            state.take_requests(),
            ["tools/list ", "tools/list 1/2", "tools/list 1/2"],
            "with its cursor"
        );
        state.update(|state| state.edition = 2);
        assert_eq!(tool_names(&mut client), ["1 of 2", "2 of 2"]);
        assert_eq!(state.take_requests(), ["tools/list 1/2", "tools/list ", "tools/list 2/2"]);
        finish(client, serving);

        // A client does not retry forever when a server refuses the cursor that it has just given.
        let (client, serving) = connect_scripted(
            Era::Modern,
            |o| o,
            move |_, params| {
                if params.get("cursor").is_some() {
                    return ScriptedReply::from(-32602);
                }
                ScriptedReply::from(
                    json!({"tools": [], "nextCursor": "x", "ttlMs": LONG, "cacheScope": "private"}),
                )
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
fn shared_cache_separates_principals_and_servers() {
    with_timeout(|| {
        for (scope, shared) in [("private", false), ("public", true)] {
            let cache = SharedCache::default();
            let state = ListServer::default();
            state.update(|state| state.scope = scope);
            let as_whom = |server: &'static str, principal: &'static str| {
                let cache = cache.clone();
                connect(&state, Era::Modern, move |o| o.cache(&cache, server, principal))
            };
            let (mut alice, first) = as_whom("there", "alice");
            tool_names(&mut alice);
            assert_eq!(state.take_requests().len(), 2);
            // In order: a second connection of Alice, another principal, and another server.
            for (server, principal, kept) in
                [("there", "alice", true), ("there", "bob", shared), ("elsewhere", "alice", false)]
            {
                let (mut client, serving) = as_whom(server, principal);
                assert_eq!(tool_names(&mut client), ["1 of 1", "2 of 1"]);
                assert_eq!(state.take_requests().is_empty(), kept, "{scope}: {principal} at {server}");
                finish(client, serving);
            }
            cache.clear();
            tool_names(&mut alice);
            assert_eq!(state.take_requests().len(), 2);
            finish(alice, first);
        }
    });
}

#[test]
fn legacy_lists_are_cached_on_request_until_change() {
    with_timeout(|| {
        let (state, mut client, serving) = pair(Era::Legacy, |o| o);
        tool_names(&mut client);
        tool_names(&mut client);
        read_text(&mut client, "a:b");
        assert_eq!(state.take_requests().len(), 5);
        finish(client, serving);

        let (state, mut client, serving) = pair(Era::Legacy, |o| o.cache_legacy(Duration::MAX));
        tool_names(&mut client);
        tool_names(&mut client);
        assert_eq!(state.take_requests().len(), 2);
        for _ in 0..2 {
            read_text(&mut client, "a:b");
        }
        assert_eq!(state.take_requests().len(), 2, "a client without a subscription receives no changes");
        state.update(|state| {
            state.notifications = vec![notification("notifications/tools/list_changed", &json!({}))]
        });
        client.call_tool("x", &json!({})).unwrap();
        tool_names(&mut client);
        assert_eq!(state.take_requests(), ["tools/call ", "tools/list ", "tools/list 1/2"]);
        finish(client, serving);
    });
}

// covers: PAGE-012
#[test]
fn endless_list_does_not_fill_cache() {
    with_timeout(|| {
        let cache = SharedCache::new(Cache::with_limits(10, 1 << 20));
        let shared = cache.clone();
        let options = move |o: Options| o.cache(&shared, "endless", "");
        let (mut client, serving) = connect_scripted(Era::Modern, options, |_, params| {
            let n: u64 = params["cursor"].as_str().map_or(0, |n| n.parse().unwrap());
            let tool = json!({"name": n.to_string(), "inputSchema": {}});
            let next = (n + 1).to_string();
            ScriptedReply::from(
                json!({"tools": [tool], "nextCursor": next, "ttlMs": LONG, "cacheScope": "public"}),
            )
        });
        for _ in 0..2 {
            let names = tool_names(&mut client);
            assert!(names.len() == Paginator::MAX_PAGES && names[999] == "999", "each page once");
            assert_eq!(format!("{cache:?}"), "SharedCache { len: 10, .. }");
        }
        finish(client, serving);
    });
}

/// Declines each form.
struct DeclineElicitation;

impl ClientHandler for DeclineElicitation {
    fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        Ok(ElicitResult::decline())
    }
}

// covers: CACHE-011
#[test]
fn result_after_input_round_is_not_cached() {
    for asks_the_user in [true, false] {
        with_timeout(move || {
            let rounds = Arc::new(Mutex::new(0));
            let count = Arc::clone(&rounds);
            let answer = move |_: &str, params: &Value| {
                if params.get("requestState").is_some() {
                    return ScriptedReply::from(json!({
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
                ScriptedReply::from(result)
            };
            let forms = Capabilities::new().with(Capability::Elicitation);
            let config = client_config(version_set(Era::Modern)).capabilities(forms);
            let (mut client, serving) =
                connect_scripted_with(config, |o| o.handler(DeclineElicitation), answer);
            for times in 1..=2 {
                assert_eq!(read_text(&mut client, "a:b"), "for you alone");
                assert_eq!(*rounds.lock().unwrap(), times);
            }
            finish(client, serving);
        });
    }
}
