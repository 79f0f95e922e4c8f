//! Suite: layers around the requests of a client.
//!
//! `crate::adapter` names the adapter under test.

use alloc::sync::Arc;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::thread::JoinHandle;

use mcp_proto::model::{
    CompleteParams, CompletionArgument, PromptReference, ReadResourceParams, ResourceContents,
};
use mcp_proto::{CallError, CallOptions, EntryKind, Era, RawJson, RpcError};
use mcp_runtime::{Retry, SharedCache};
use serde_json::{Value, json};

use super::scripted_server::{ScriptedReply, connect_scripted, notification};
use crate::adapter::{Client, Error, Options, client_layer, wait};
use crate::support::{ERAS, NoteLog, text, with_timeout};

fn raw(value: &Value) -> RawJson {
    RawJson::new(value.to_string()).unwrap()
}

fn rpc(code: i64, message: &str) -> Error {
    Error::Call(CallError::Rpc(RpcError::new(code, message.to_owned())))
}

fn code(error: &Error) -> i64 {
    match error {
        Error::Call(CallError::Rpc(error)) => error.code,
        other => panic!("{other:?}"),
    }
}

/// Answers as the server of these tests: tools return their arguments, lists have two pages.
fn answer(method: &str, params: &Value) -> Value {
    let mut result = match method {
        "tools/call" => {
            json!({"content": [{"type": "text", "text": params["arguments"].to_string()}], "isError": false})
        }
        "tools/list" if params["cursor"].is_null() => {
            json!({"tools": [{"name": "add", "inputSchema": {"type": "object"}}], "nextCursor": "2"})
        }
        "tools/list" => json!({"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]}),
        "resources/read" => json!({"contents": [{"uri": params["uri"], "text": "high"}]}),
        "prompts/get" => json!({"messages": []}),
        "completion/complete" => json!({"completion": {"values": ["Cork"]}}),
        _ => json!({"custom": params["x"]}),
    };
    result["resultType"] = "complete".into();
    result["ttlMs"] = 3_600_000.into();
    result["cacheScope"] = "public".into();
    result
}

/// Connects a client to a server that records the requests.
fn connect(era: Era, log: &NoteLog, options: impl FnOnce(Options) -> Options) -> (Client, JoinHandle<()>) {
    let log = log.clone();
    connect_scripted(era, options, move |method, params| {
        log.record(format!("server {method}"));
        answer(method, params).into()
    })
}

fn finish(client: Client, serving: JoinHandle<()>) {
    client.close().unwrap();
    serving.join().unwrap();
}

fn read_text(client: &Client, uri: &str) -> Result<String, Error> {
    client.read_resource(uri).map(|result| match &result.contents[0] {
        ResourceContents::Text(text) => text.text.clone().into_owned(),
        other => panic!("{other:?}"),
    })
}

#[test]
fn layers_surround_each_request_from_the_first_added_to_the_innermost() {
    with_timeout(|| {
        for era in ERAS {
            let log = NoteLog::default();
            let (client, serving) = connect(era, &log, |options| {
                let (outer, inner) = (log.clone(), log.clone());
                options
                    .layer(client_layer!(
                        [outer] | request,
                        next | {
                            outer.record(format!(
                                "+{} {}",
                                request.method(),
                                request.name().unwrap_or_default()
                            ));
                            let result = wait!(next.run(request));
                            outer.record("-outer");
                            result
                        }
                    ))
                    .layer(client_layer!(
                        [inner] | request,
                        next | {
                            inner.record("+inner");
                            let result = wait!(next.run(request));
                            inner.record(format!("-inner {}", result.is_ok()));
                            result
                        }
                    ))
            });
            let check = |requests: &[(&str, &str)]| {
                let lines = requests.iter().flat_map(|(method, name)| {
                    let (outer, server) = (format!("+{method} {name}"), format!("server {method}"));
                    [outer, "+inner".into(), server, "-inner true".into(), "-outer".into()]
                });
                assert_eq!(log.take(), lines.collect::<Vec<_>>(), "{era:?}");
            };
            client.call_tool("add", &json!({"a": 1})).unwrap();
            check(&[("tools/call", "add")]);
            let mut ignore = |_: &mcp_proto::Progress| {};
            client.call_tool_with("add", &json!({}), &CallOptions::new(), &mut ignore).unwrap();
            check(&[("tools/call", "add")]);
            assert_eq!(read_text(&client, "a:b").unwrap(), "high");
            check(&[("resources/read", "a:b")]);
            client.get_prompt("plan", &json!({"to": "Cork"})).unwrap();
            check(&[("prompts/get", "plan")]);
            let completed = client.complete(PromptReference::new("plan"), "to", "C").unwrap();
            assert_eq!(completed.completion.values, ["Cork"]);
            check(&[("completion/complete", "")]);
            let argument = CompletionArgument::new("to", "C");
            client.send(&CompleteParams::new(PromptReference::new("plan"), argument)).unwrap();
            check(&[("completion/complete", "")]);
            client.send_with(&ReadResourceParams::new("a:c"), &CallOptions::new(), &mut ignore).unwrap();
            check(&[("resources/read", "a:c")]);
            assert_eq!(client.list_tools().unwrap().len(), 2);
            check(&[("tools/list", ""), ("tools/list", "")]);
            let result = client.request("x/custom", &json!({"x": 5}), &CallOptions::new()).unwrap();
            assert_eq!(result.member("custom").unwrap().as_str(), "5");
            check(&[("x/custom", "")]);
            // There is no result yet that a layer could see.
            let call = client.start_tool("add", &json!({}), &CallOptions::new()).unwrap();
            client.wait(call).unwrap();
            assert_eq!(log.take(), ["server tools/call"]);
            finish(client, serving);
        }
    });
}

#[test]
fn layer_rewrites_refuses_repeats_and_answers() {
    with_timeout(|| {
        for era in ERAS {
            let log = NoteLog::default();
            let (client, serving) = connect(era, &log, |options| {
                let answers = Arc::new(Mutex::new(None::<RawJson>));
                options
                    // Errors.
                    .layer(client_layer!(
                        [] | request,
                        next | {
                            match wait!(next.run(request)) {
                                Err(Error::Call(CallError::Rpc(error))) if error.code == 7 => {
                                    Err(rpc(8, "rewritten"))
                                }
                                result => result,
                            }
                        }
                    ))
                    .layer(client_layer!(
                        [answers] | request,
                        next | {
                            if request.is_tool("refused") {
                                return Err(rpc(7, "not here"));
                            }
                            if request.is_tool("twice") {
                                let first = wait!(next.run(request.clone()));
                                return if first.is_ok() { wait!(next.run(request)) } else { first };
                            }
                            if !request.is_tool("once") {
                                return wait!(next.run(request));
                            }
                            let known = answers.lock().unwrap().clone();
                            if let Some(known) = known {
                                return Ok(known);
                            }
                            let result = wait!(next.run(request));
                            *answers.lock().unwrap() = result.as_ref().ok().cloned();
                            result
                        }
                    ))
                    // Parameters and results.
                    .layer(client_layer!(
                        [] | request,
                        next | {
                            let mut request = request;
                            if request.is_tool("becomes") {
                                request.set_arguments(raw(&json!({"n": 2}))).unwrap();
                                request.options_mut().meta = Some(raw(&json!({"example.com/trace": 1})));
                            } else if request.is_tool("other") {
                                request
                                    .set_params(raw(&json!({"name": "add", "arguments": {"n": 3}})))
                                    .unwrap();
                            } else if request.is_tool("redacted") {
                                let result = wait!(next.run(request));
                                let text = json!([{"type": "text", "text": "[redacted]"}]);
                                return result
                                    .map(|_| raw(&json!({"content": text, "resultType": "complete"})));
                            }
                            wait!(next.run(request))
                        }
                    ))
            });
            let call = |name: &str| client.call_tool(name, &json!({"n": 1})).map(|result| text(&result));
            assert_eq!(code(&call("refused").unwrap_err()), 8);
            assert_eq!(log.take(), [""; 0], "nothing was sent");
            assert_eq!(call("twice").unwrap(), r#"{"n":1}"#);
            assert_eq!(log.take().len(), 2);
            assert_eq!([call("once").unwrap(), call("once").unwrap()], [r#"{"n":1}"#; 2]);
            assert_eq!(log.take().len(), 1);
            assert_eq!(call("becomes").unwrap(), r#"{"n":2}"#);
            assert_eq!(call("other").unwrap(), r#"{"n":3}"#);
            assert_eq!(call("redacted").unwrap(), "[redacted]");
            assert_eq!(call("add").unwrap(), r#"{"n":1}"#);
            finish(client, serving);
        }
    });
}

#[test]
fn layer_sets_meta_and_progress_goes_through_layers() {
    with_timeout(|| {
        for era in ERAS {
            let log = NoteLog::default();
            let server = log.clone();
            let pass = |options: Options| {
                options.layer(client_layer!(
                    [] | request,
                    next | {
                        let mut request = request;
                        request.options_mut().meta = Some(raw(&json!({"example.com/trace": 1})));
                        wait!(next.run(request))
                    }
                ))
            };
            let (client, serving) = connect_scripted(era, pass, move |method, params| {
                server.record(format!("{method} {}", params["_meta"]["example.com/trace"]));
                let progress = json!({"progressToken": params["_meta"]["progressToken"], "progress": 1});
                let has_token = !params["_meta"]["progressToken"].is_null();
                let notifications = if has_token {
                    vec![notification("notifications/progress", &progress)]
                } else {
                    Vec::new()
                };
                ScriptedReply { notifications, outcome: Ok(answer(method, params)) }
            });
            let mut reports = 0;
            let mut report = |_: &mcp_proto::Progress| reports += 1;
            client.call_tool_with("add", &json!({}), &CallOptions::new(), &mut report).unwrap();
            assert_eq!((log.take(), reports), (vec!["tools/call 1".to_owned()], 1), "{era:?}");
            // Its result may depend on them, so it is not cached.
            for _ in 0..2 {
                read_text(&client, "a:b").unwrap();
                assert_eq!(log.take(), ["resources/read 1"]);
            }
            finish(client, serving);
        }
    });
}

// covers: CACHE-005
#[test]
fn cache_is_inside_of_layers_and_keeps_results_of_the_server() {
    with_timeout(|| {
        let (log, cache) = (NoteLog::default(), SharedCache::default());
        let (client, serving) = connect(Era::Modern, &log, |options| {
            let own = log.clone();
            let options = options.cache(&cache, "server", "me");
            options.layer(client_layer!(
                [own] | request,
                next | {
                    let name = request.name();
                    own.record(format!("layer {}", request.method()));
                    let result = wait!(next.run(request));
                    match name.as_deref() {
                        Some("a:b") => {
                            result.map(|_| raw(&json!({"contents": [{"uri": "a:b", "text": "low"}]})))
                        }
                        Some("a:unreadable") => result.map(|_| raw(&json!({"contents": 1}))),
                        _ => result,
                    }
                }
            ))
        });
        assert_eq!(read_text(&client, "a:b").unwrap(), "low");
        assert_eq!(log.take(), ["layer resources/read", "server resources/read"]);
        assert_eq!(read_text(&client, "a:b").unwrap(), "low");
        assert_eq!(log.take(), ["layer resources/read"], "answered by the cache");
        for requests in [4, 2] {
            assert_eq!(client.list(EntryKind::Tool).unwrap().len(), 2);
            assert_eq!(log.take().len(), requests);
        }
        let unreadable = read_text(&client, "a:unreadable").unwrap_err();
        assert!(matches!(unreadable, Error::UnexpectedResult(_)), "{unreadable:?}");
        log.take();
        // A client without layers gets what the server has sent.
        let (plain, plain_serving) =
            connect(Era::Modern, &log, |options| options.cache(&cache, "server", "me"));
        assert_eq!(read_text(&plain, "a:b").unwrap(), "high");
        assert_eq!(plain.list_tools().unwrap().len(), 2);
        assert_eq!(log.take(), [""; 0]);
        finish(client, serving);
        finish(plain, plain_serving);
    });
}

// covers: CACHE-018
#[test]
fn list_begins_anew_if_the_cursor_of_a_cached_page_is_refused_inside_of_layers() {
    with_timeout(|| {
        let (log, edition) = (NoteLog::default(), Arc::new(Mutex::new(1)));
        let (server, number) = (log.clone(), edition.clone());
        let pass = |options: Options| {
            options.layer(client_layer!([] | request, next | { wait!(next.run(request)) }))
        };
        let (client, serving) = connect_scripted(Era::Modern, pass, move |method, params| {
            server.record(format!("{method} {}", params["cursor"]));
            let second = number.lock().unwrap().to_string();
            let tool = json!({"name": second, "inputSchema": {"type": "object"}});
            match params["cursor"].as_str() {
                // The first page is fresh for an hour, the second one is not kept.
                None => json!({"tools": [tool], "nextCursor": second, "resultType": "complete",
                    "ttlMs": 3_600_000, "cacheScope": "public"})
                .into(),
                Some(cursor) if *cursor == second => {
                    json!({"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "public"})
                        .into()
                }
                Some(_) => ScriptedReply { notifications: Vec::new(), outcome: Err(-32602) },
            }
        });
        assert_eq!(client.list_tools().unwrap().len(), 2);
        log.take();
        *edition.lock().unwrap() = 2;
        let names: Vec<_> = client.list_tools().unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["2", "2"]);
        assert_eq!(log.take(), ["tools/list \"1\"", "tools/list null", "tools/list \"2\""]);
        finish(client, serving);
    });
}

#[test]
fn panic_of_layer_ends_its_call_alone() {
    with_timeout(|| {
        let log = NoteLog::default();
        let (client, serving) = connect(Era::Modern, &log, |options| {
            options.layer(client_layer!(
                [] | request,
                next | {
                    let before = request.is_tool("before");
                    let after = request.is_tool("after");
                    assert!(!before, "a panic before the call");
                    let result = wait!(next.run(request));
                    assert!(!after, "a panic after the call");
                    result
                }
            ))
        });
        for name in ["before", "after"] {
            let call = || client.call_tool(name, &json!({}));
            let panic = catch_unwind(AssertUnwindSafe(call)).map(drop).unwrap_err();
            assert!(panic.downcast_ref::<&str>().is_some_and(|text| text.contains(name)), "{name}");
            client.call_tool("add", &json!({})).unwrap();
        }
        assert_eq!(log.take().len(), 3);
        finish(client, serving);
    });
}

#[test]
fn retry_repeats_what_only_reads_and_what_it_was_told() {
    with_timeout(|| {
        for era in ERAS {
            let (log, failures) = (NoteLog::default(), Arc::new(Mutex::new(0)));
            let (server, left) = (log.clone(), failures.clone());
            let retry = |options: Options| {
                let pauses = (Duration::from_millis(1), Duration::from_millis(5));
                options.retry(Retry::new().pauses(pauses.0, pauses.1).tools(|name| name == "search"))
            };
            let (client, serving) = connect_scripted(era, retry, move |method, params| {
                server.record(method);
                let mut left = left.lock().unwrap();
                if *left > 0 {
                    *left -= 1;
                    return 429.into();
                }
                answer(method, params).into()
            });
            let set_failures = |count: u32| {
                *failures.lock().unwrap() = count;
                log.take();
            };
            set_failures(2);
            assert_eq!(read_text(&client, "a:b").unwrap(), "high");
            assert_eq!(log.take(), ["resources/read"; 3]);
            set_failures(2);
            client.call_tool("search", &json!({})).unwrap();
            assert_eq!(log.take(), ["tools/call"; 3]);
            set_failures(1);
            assert_eq!(code(&client.call_tool("pay", &json!({})).unwrap_err()), 429);
            assert_eq!(log.take(), ["tools/call"]);
            set_failures(3);
            assert_eq!(code(&read_text(&client, "a:c").unwrap_err()), 429);
            assert_eq!(log.take(), ["resources/read"; 3]);
            let options = CallOptions::new().idempotent();
            set_failures(1);
            client.call_tool_with("pay", &json!({}), &options, &mut |_| {}).unwrap();
            assert_eq!(log.take(), ["tools/call"; 2]);
            finish(client, serving);
        }
    });
}
