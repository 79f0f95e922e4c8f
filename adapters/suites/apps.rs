//! Suite: apps, from the tools and pages of a router to the client of a host.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use mcp_proto::client::Config;
use mcp_proto::model::{
    Resource, SubscriptionFilter, Tool, UI_EXTENSION, UI_MIME_TYPE, UiClientCapabilities, UiResourceCsp,
    UiResourceMeta, UiResourcePermissions, UiToolMeta, UiToolVisibility,
};
use mcp_proto::{Diagnostic, Era, RawJson, UseError};
use mcp_runtime::client::ClientHandler;
use serde_json::{Value, json};

use super::scripted_server::{ScriptedReply, connect_scripted, notification};
use crate::adapter::{Client, Cx, Error, Options, Router, handler, serve};
use crate::support::{ERAS, NoteLog, with_timeout};

const PAGE: &str = "ui://clock/face";

fn options() -> Options {
    let settings = UiClientCapabilities::html().to_settings();
    Client::options(Config::new("host", "1.0").extension(UI_EXTENSION, settings).unwrap())
}

fn page_metadata() -> UiResourceMeta {
    let csp = UiResourceCsp::new().connect_domains(["https://time.example".into()]);
    let permissions = UiResourcePermissions::new().geolocation([] as [(&str, RawJson); 0]);
    UiResourceMeta::new().csp(csp).permissions(permissions).prefers_border(true)
}

fn tool(name: &str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap())
}

fn router() -> Router {
    let mut router = Router::new("clock", "1.0");
    router.resource(
        Resource::app(PAGE, "face").ui(page_metadata()),
        handler!(|_, _| "<!doctype html><p>12:00"),
    );
    let page = || UiToolMeta::new().resource_uri(PAGE);
    router.tool_with(
        tool("time").ui(page()),
        handler!(|cx: &mut Cx, _: Value| {
            let settings = cx.peer().extension(UI_EXTENSION);
            if UiClientCapabilities::is_html_supported(settings.as_ref()) { "noon, shown" } else { "noon" }
        }),
    );
    router.tool_with(
        tool("refresh").ui(page().visibility([UiToolVisibility::App])),
        handler!(|_: &mut Cx, _: Value| "refreshed"),
    );
    router.tool_with(
        tool("reset").ui(page().visibility([UiToolVisibility::Model])),
        handler!(|_: &mut Cx, _: Value| "reset"),
    );
    let updates = router.updates();
    router.tool_with(
        tool("reserve"),
        handler!(move |_: &mut Cx, _: Value| {
            updates.schedule(|router| {
                let hidden = UiToolMeta::new().visibility([UiToolVisibility::Model]);
                let _ = router.core().tool_entry("refresh").ui(hidden);
            });
            "reserved"
        }),
    );
    router
}

fn names(tools: &[Tool]) -> Vec<&str> {
    tools.iter().map(|tool| &*tool.name).collect()
}

// covers: APP-001, APP-002, APP-003, APP-005, APP-007, APP-008, APP-009, APP-013, APP-014, APP-015
#[test]
fn host_gets_pages_and_calls_only_the_tools_of_apps() -> Result<(), Error> {
    let (client, server) = serve(router, options());
    assert!(client.peer().extension(UI_EXTENSION).is_some());
    // The server lists all tools; the views are made by the host.
    let tools = client.list_tools()?;
    assert_eq!(names(&tools), ["time", "refresh", "reset", "reserve"]);
    assert_eq!(UiToolMeta::from_tool(&tools[0]).unwrap().resource_uri.as_deref(), Some(PAGE));
    assert_eq!(names(&client.list_model_tools()?), ["time", "reset", "reserve"]);

    let listed = &client.list_resources()?[0];
    assert_eq!((&*listed.uri, listed.mime_type.as_deref()), (PAGE, Some(UI_MIME_TYPE)));
    assert_eq!(UiResourceMeta::from_resource(listed), Ok(Some(page_metadata())));
    let page = client.read_resource(PAGE)?;
    let text = serde_json::to_value(&page.contents[0]).unwrap();
    assert_eq!(
        (&text["uri"], &text["mimeType"], &text["text"]),
        (&json!(PAGE), &json!(UI_MIME_TYPE), &json!("<!doctype html><p>12:00"))
    );
    assert_eq!(UiResourceMeta::from_contents(&page.contents[0]), Ok(Some(page_metadata())));

    let call = |name: &str| match client.call_tool_for_app(name, &json!({})) {
        Ok(result) => result.content[0].as_text().unwrap().to_owned(),
        Err(error) => {
            assert!(matches!(error, Error::Use(UseError::NotForApps { .. })), "{error:?}");
            error.to_string()
        }
    };
    assert_eq!([call("time"), call("refresh")], ["noon, shown", "refreshed"]);
    let refused = call("reset");
    assert!(refused.contains("the tool `reset` cannot be called by an app"), "{refused}");
    assert!(refused.contains("`_meta.ui.visibility` does not contain `app`"), "{refused}");
    assert!(call("other").contains("the server does not list it"));
    // The model calls what apps may not.
    assert_eq!(client.call_tool("reset", &json!({}))?.content[0].as_text(), Some("reset"));

    // A change of the list changes what apps may call.
    assert_eq!(call("reserve"), "reserved");
    client.list_tools()?;
    assert!(call("refresh").contains("does not contain `app`"));
    client.close()?;
    server.join().unwrap()
}

// covers: APP-013, APP-014
#[test]
fn client_without_apps_gets_the_text() -> Result<(), Error> {
    let (client, server) = serve(router, Client::options(Config::new("terminal", "1.0")));
    assert_eq!(client.call_tool("time", &json!({}))?.content[0].as_text(), Some("noon"));
    client.close()?;
    server.join().unwrap()
}

// covers: APP-004
#[test]
fn router_whose_pages_are_missing_is_not_served() {
    let mut router = Router::new("clock", "1.0");
    let page = UiToolMeta::new().resource_uri("ui://clock/hands");
    router.tool_with(tool("time").ui(page), handler!(|_: &mut Cx, _: Value| "noon"));
    let errors = router.config().unwrap_err().to_string();
    assert!(
        errors.contains("the tool `time`") && errors.contains("`ui://clock/hands` is not registered"),
        "{errors}"
    );
    router.fallback(handler!(|_: &mut Cx, _: &mcp_proto::server::Call| Err(mcp_proto::RpcError::internal(
        "no"
    ))));
    router.check().unwrap();
}

/// Records diagnostics.
struct DiagnosticLog(NoteLog);

impl ClientHandler for DiagnosticLog {
    fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.0.record(diagnostic.to_string());
    }
}

// covers: APP-007, APP-008, EXT-010
#[test]
fn tool_with_unreadable_visibility_is_for_nobody() {
    with_timeout(|| {
        for era in ERAS {
            let notes = NoteLog::default();
            let handler = DiagnosticLog(notes.clone());
            let (lists, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (listed, called) = (lists.clone(), seen.clone());
            let (mut client, serving) = connect_scripted(
                era,
                move |options| options.handler(handler),
                move |method, _| {
                    ScriptedReply::from(match method {
                        "tools/list" => {
                            listed.fetch_add(1, Ordering::Relaxed);
                            let schema = json!({"type": "object"});
                            json!({"tools": [
                                {"name": "odd", "inputSchema": schema, "_meta": {"ui": {"visibility": "app"}}},
                                {"name": "theme", "inputSchema": schema, "_meta": {"ui": "dark"}},
                                {"name": "page", "inputSchema": schema, "_meta": {"ui": {"resourceUri": 5}}},
                            ]})
                        }
                        "tools/call" => {
                            called.fetch_add(1, Ordering::Relaxed);
                            json!({"content": []})
                        }
                        other => panic!("{other}"),
                    })
                },
            );
            assert_eq!(names(&client.list_model_tools().unwrap()), ["theme", "page"]);
            let mut noted = notes.take();
            while noted.is_empty() {
                crate::adapter::poll_client(&mut client);
                noted = notes.take();
            }
            assert!(
                noted[0]
                    .starts_with("entry 0 of the list `tools` was left out: `odd`: `_meta.ui.visibility`")
            );
            let error = client.call_tool_for_app("odd", &json!({})).unwrap_err().to_string();
            assert!(
                error.contains("the tool `odd` cannot be called by an app: `_meta.ui.visibility`"),
                "{error}"
            );
            assert_eq!(seen.load(Ordering::Relaxed), 0, "nothing was sent");
            client.call_tool_for_app("theme", &json!({})).unwrap();
            client.call_tool_for_app("page", &json!({})).unwrap();
            // One list for the model, one for the first call of an app.
            assert_eq!((seen.load(Ordering::Relaxed), lists.load(Ordering::Relaxed)), (2, 2));
            client.close().unwrap();
            serving.join().unwrap();
        }
    });
}

/// Lets an app call `refresh`, which the server hides with its second list. Before each of its first `changes` answers the
/// server announces that the list has changed. Returns the outcome, and the numbers of lists and of calls.
fn call_while_the_list_changes(era: Era, changes: usize) -> (Result<(), Error>, usize, usize) {
    let (lists, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (listed, called) = (lists.clone(), calls.clone());
    let (client, serving) = connect_scripted(
        era,
        |options| options,
        move |method, _| match method {
            "tools/list" => {
                let n = listed.fetch_add(1, Ordering::Relaxed);
                let visibility = if n == 0 { json!(["model", "app"]) } else { json!(["model"]) };
                let schema = json!({"type": "object"});
                let tool = json!({"name": "refresh", "inputSchema": schema, "_meta": {"ui": {"visibility": visibility}}});
                let change = notification("notifications/tools/list_changed", &json!({}));
                let notifications = if n < changes { vec![change] } else { Vec::new() };
                ScriptedReply { notifications, outcome: Ok(json!({"tools": [tool]})) }
            }
            "tools/call" => {
                called.fetch_add(1, Ordering::Relaxed);
                json!({"content": []}).into()
            }
            other => panic!("{other}"),
        },
    );
    if era == Era::Modern {
        client.subscribe(&SubscriptionFilter::new().tools_list_changed(true)).unwrap();
    }
    let outcome = client.call_tool_for_app("refresh", &json!({})).map(drop);
    client.close().unwrap();
    serving.join().unwrap();
    (outcome, lists.load(Ordering::Relaxed), calls.load(Ordering::Relaxed))
}

// covers: APP-008
#[test]
fn tool_hidden_while_the_list_is_read_is_not_called() {
    with_timeout(|| {
        for era in ERAS {
            let (outcome, lists, calls) = call_while_the_list_changes(era, 0);
            outcome.unwrap();
            assert_eq!((lists, calls), (1, 1), "{era:?}");
            for (changes, reason) in
                [(1, "does not contain `app`"), (2, "the list of tools changes while it is read")]
            {
                let (outcome, lists, calls) = call_while_the_list_changes(era, changes);
                let error = outcome.unwrap_err();
                assert!(matches!(error, Error::Use(UseError::NotForApps { .. })), "{error:?}");
                assert!(error.to_string().contains(reason), "{era:?}, {changes} changes: {error}");
                assert_eq!((lists, calls), (2, 0), "{era:?}, {changes} changes");
            }
        }
    });
}
