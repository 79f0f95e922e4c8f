//! Suite: a router, from the client to the handlers.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::mpsc;

use mcp_proto::EntryKind;
use mcp_proto::client::Config;
use mcp_proto::model::*;
use mcp_proto::router::schema::{self, NoArguments, Typed, schemars};
use mcp_proto::router::{
    Hook, HookContext, HookOutcome, SchemaError, SchemaValidator, Validate, Violations, suggest,
};
use mcp_proto::{CallOptions, Progress, RawJson, RpcError};
use serde_json::{Value, json};

use crate::adapter::{Client, Cx, Error, Options, Router, handler, serve, serve_stream};
use crate::support::{NoteLog, with_timeout};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(serde::Deserialize)]
struct TripArguments {
    days: u32,
}

fn options() -> Options {
    Client::options(Config::new("me", "1.0"))
}

fn router(failures: mpsc::Sender<String>) -> Router {
    let mut router = Router::new("calc", "1.0");
    let updates = router.updates();
    router.tool("add", handler!(|_: &mut Cx, Add { a, b }: Add| a + b)).description("Adds two numbers");
    router
        .tool("sum", handler!(|_: &mut Cx, Add { a, b }: Add| Typed(Sum { sum: a + b })))
        .description("Adds, typed");
    router
        .tool(
            "div",
            handler!(|cx: &mut Cx, Add { a, b }: Add| {
                cx.progress(Progress::new(1.0)).ok();
                a.checked_div(b).ok_or("division by zero")
            }),
        )
        .description("Divides");
    router
        .tool(
            "slow",
            handler!(|cx: &mut Cx, _: Add| {
                cx.progress(Progress::new(1.0))?;
                Ok::<_, RpcError>("done")
            }),
        )
        .description("Reports");
    router
        .tool("panics", handler!(|_: &mut Cx, _: Add| -> &'static str { panic!("no") }))
        .description("Panics");
    router
        .tool(
            "forget",
            handler!(move |_: &mut Cx, _: Value| {
                updates.schedule(|router| {
                    router.core().remove(EntryKind::Tool, "add");
                });
            }),
        )
        .description("Removes add");
    router.resource(
        Resource::new("note://one", "one").mime_type("text/plain"),
        handler!(|_, read| read.uri.clone()),
    );
    router.resource_template(
        ResourceTemplate::new("note://{id}/raw", "raw"),
        handler!(|_, read| read
            .variables
            .get("id")
            .filter(|id| *id != "none")
            .map(|id| id.as_bytes().to_vec())),
    );
    router.prompt(
        Prompt::new("plan").arguments([PromptArgument::new("days").required(true)]),
        handler!(|_, trip: TripArguments| format!("Plan {} days", trip.days)),
    );
    router.completion(
        PromptReference::new("plan"),
        "days",
        handler!(|_, c| suggest(["1", "10", "21"], c.value())),
    );
    router.on_failure(move |_, failure| drop(failures.send(failure.to_string())));
    let without_structure = Tool::new("liar", RawJson::new(r#"{"type":"object"}"#).unwrap())
        .output_schema(RawJson::new(r#"{"type":"object"}"#).unwrap());
    router.tool_with(without_structure, handler!(|_: &mut Cx, _: Value| "no structure"));
    router
}

#[test]
fn router_serves_all_kinds_of_entries() -> Result<(), Error> {
    let (failures, failed) = mpsc::channel();
    let (client, server) = serve(move || router(failures), options());
    let call = |name: &str, arguments: Value| match client.call_tool(name, &arguments) {
        Ok(result) => serde_json::to_string(&result).unwrap(),
        Err(error) => error.to_string(),
    };
    assert!(call("add", json!({"a": 1, "b": 2})).contains(r#""text":"3""#));
    // The schema reports it if arguments are validated, otherwise the type does.
    let missing =
        if cfg!(feature = "validate") { r#"\"b\" is a required property"# } else { "missing field `b`" };
    assert!(call("add", json!({"a": 1})).contains(missing));
    assert!(call("sum", json!({"a": 1, "b": 2})).contains(r#""structuredContent":{"sum":3}"#));
    assert!(call("div", json!({"a": 1, "b": 0})).contains(r#""isError":true"#));
    assert!(call("slow", json!({"a": 1, "b": 0})).contains("done"));
    assert!(call("panics", json!({"a": 1, "b": 0})).contains("panicked"));
    assert!(call("panics", json!({"a": 1, "b": 0})).contains("panicked"));
    assert!(call("liar", json!({})).contains("not what it promises"));
    // Panics are reported as well.
    assert!(failed.recv().unwrap().contains("no"));
    assert!(failed.recv().unwrap().contains("no"));
    assert!(failed.recv().unwrap().contains("there is no structured result"));
    call("forget", json!({}));
    assert!(call("add", json!({"a": 1, "b": 2})).contains("unknown tool"));
    let request = |method: &str, params: Value| match client.request(method, &params, &CallOptions::default())
    {
        Ok(result) => result.as_str().to_owned(),
        Err(error) => error.to_string(),
    };
    let one = request("resources/read", json!({"uri": "note://one"}));
    assert!(
        one.contains(r#""contents":[{"uri":"note://one","text":"note://one","mimeType":"text/plain"}]"#),
        "{one}"
    );
    assert!(request("resources/read", json!({"uri": "note://x/raw"})).contains(r#""blob":"eA==""#));
    assert!(request("resources/read", json!({"uri": "note://none/raw"})).contains("not found"));
    assert!(
        request("prompts/get", json!({"name": "plan", "arguments": {"days": "3"}})).contains("Plan 3 days")
    );
    assert!(request("prompts/get", json!({"name": "plan", "arguments": {"days": "x"}})).contains("-32602"));
    let completed =
        json!({"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "days", "value": "1"}});
    assert!(request("completion/complete", completed).contains(r#""values":["1","10","21"]"#));
    assert_eq!(client.list_tools()?.len(), 6);
    client.close()?;
    server.join().unwrap()
}

#[test]
fn router_reports_first_registration_mistake() {
    let mut router = Router::new("x", "1");
    router.tool("a b", handler!(|_: &mut Cx, _: Add| ())).description("");
    router.tool("ok", handler!(|_: &mut Cx, _: Add| ())).description("");
    assert!(router.check().unwrap_err().to_string().contains("`a b`"));
    assert!(router.config().is_err());
}

/// Panics after each call except those of `fine`.
struct PanickingHook;

impl Hook for PanickingHook {
    fn after_call(&self, context: &HookContext<'_>, _: HookOutcome<'_>) {
        assert!(context.call().tool_call().unwrap().name == "fine", "in a hook, on purpose");
    }
}

#[test]
fn panic_in_hook_fails_only_its_call() {
    let build = || {
        let mut router = Router::new("hooked", "1");
        router.hook(PanickingHook).on_failure(|_, _| {});
        router
            .tool("panics", handler!(|_: &mut Cx, ()| -> &'static str { panic!("on purpose") }))
            .description("Panics");
        router.tool("odd", handler!(|_: &mut Cx, ()| "odd")).description("Has a hook that panics");
        router.tool("fine", handler!(|_: &mut Cx, ()| "fine")).description("Has one that does not");
        router
    };
    let (client, server) = serve(build, options());
    let error = client.call_tool("panics", &json!({})).unwrap_err().to_string();
    assert!(error.contains("-32603"), "{error}");
    // The call may be answered before its hook panics.
    let _ = client.call_tool("odd", &json!({}));
    assert_eq!(client.call_tool("fine", &json!({})).unwrap().content[0].as_text(), Some("fine"));
    client.close().unwrap();
    server.join().unwrap().unwrap();
}

#[test]
fn scheduled_updates_apply_despite_panics_and_nesting() {
    fn add_tool(name: &'static str) -> impl FnOnce(&mut Router) + Send + 'static {
        move |router| {
            router.tool(name, handler!(move |_: &mut Cx, _: NoArguments| name)).description("");
        }
    }
    let (failures, failed) = mpsc::channel();
    let build = move || {
        let (mut outer, mut middle, mut inner) =
            (Router::new("o", "1"), Router::new("m", "1"), Router::new("i", "1"));
        let updates = inner.updates();
        updates.schedule(add_tool("early"));
        inner
            .tool(
                "ask",
                handler!(move |_: &mut Cx, _: NoArguments| -> &'static str {
                    let again = updates.clone();
                    updates.schedule(|_| panic!("a change"));
                    updates.schedule(move |_| again.schedule(add_tool("second")));
                    updates.schedule(add_tool("asked"));
                    panic!("the handler")
                }),
            )
            .description("");
        let held = inner.updates();
        middle.nest("i", inner);
        outer.nest("m", middle);
        held.schedule(add_tool("late"));
        outer.on_failure(move |_, failure| drop(failures.send(failure.to_string())));
        outer
    };
    let (client, server) = serve(build, options());
    assert!(client.call_tool("m.i.ask", &json!({})).unwrap_err().to_string().contains("panicked"));
    assert_eq!(
        [failed.recv().unwrap(), failed.recv().unwrap()],
        ["panicked: a change", "panicked: the handler"]
    );
    for name in ["early", "late", "asked", "second"] {
        let result = client.call_tool(name, &json!({}));
        assert_eq!(result.unwrap().content[0].as_text(), Some(name));
    }
    client.close().unwrap();
    server.join().unwrap().unwrap();
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct FileListArguments {
    root: std::path::PathBuf,
    sizes: std::collections::HashMap<String, u64>,
}

// covers: TOOL-008
#[test]
fn tool_accepts_arguments_of_std_types_or_unit() {
    let build = || {
        let mut router = Router::new("x", "1");
        // The test checks errors of the type, not of the schema.
        router.clear_validator();
        router
            .tool(
                "files",
                handler!(|_: &mut Cx, FileListArguments { root, sizes }: FileListArguments| {
                    format!("{} {}", root.display(), sizes["a"])
                }),
            )
            .description("");
        router.tool("nothing", handler!(|_: &mut Cx, ()| "done")).description("");
        router.prompt(Prompt::new("unit"), handler!(|_, ()| "said"));
        router
    };
    let (client, server) = serve(build, options());
    let call = |name: &str, arguments: Value| {
        client.call_tool(name, &arguments).unwrap().content[0].as_text().unwrap().to_owned()
    };
    assert_eq!(call("files", json!({"root": "/r", "sizes": {"a": 1}})), "/r 1");
    assert_eq!(
        call("files", json!({"root": "/r", "sizes": {"a": "x"}})),
        r#"The arguments of `files` are not valid: `sizes.a`: invalid type: string "x", expected u64"#
    );
    assert_eq!(call("nothing", json!({})), "done");
    let prompt = client.get_prompt("unit", &()).unwrap();
    assert!(format!("{prompt:?}").contains("said"));
    client.close().unwrap();
    server.join().unwrap().unwrap();
}

/// Refuses each schema that has a member `no`. All others refuse `{}` only.
struct RejectingValidator;

impl SchemaValidator for RejectingValidator {
    fn compile(&self, schema: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
        struct RejectEmpty;
        impl Validate for RejectEmpty {
            fn validate(&self, value: &[u8]) -> Result<(), Violations> {
                let mut wrong = Violations::new();
                if value == b"{}" {
                    wrong.push("/a", "is missing");
                }
                if wrong.is_empty() { Ok(()) } else { Err(wrong) }
            }
        }
        match schema.member("no") {
            Some(_) => Err(SchemaError::Shape("says no")),
            None => Ok(Box::new(RejectEmpty)),
        }
    }
}

// covers: TOOL-022, SCHEMA-005
#[test]
fn validator_checks_arguments_before_handler_runs() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let build = move || {
        let (mut router, runs) = (Router::new("picky", "1"), counted.clone());
        router.validator(RejectingValidator);
        router.tool_with(
            schema::tool::<Add>("add"),
            handler!(move |_: &mut Cx, _: Value| {
                runs.fetch_add(1, Ordering::SeqCst);
                "asked"
            }),
        );
        router
    };
    let (client, server) = serve(build, options());
    let result = client.call_tool("add", &json!({})).unwrap();
    assert!(result.is_failure() && result.content[0].as_text().unwrap().contains("/a: is missing"));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let result = client.call_tool("add", &json!({"a": 1})).unwrap();
    assert_eq!((result.content[0].as_text(), runs.load(Ordering::SeqCst)), (Some("asked"), 1));
    client.close().unwrap();
    server.join().unwrap().unwrap();

    // A refused schema is reported, whether the tool or the validator is registered first.
    for validator_first in [true, false] {
        let mut router = Router::new("picky", "1");
        let bad = Tool::new("bad", RawJson::new(r#"{"type":"object","no":1}"#).unwrap());
        if validator_first {
            router.validator(RejectingValidator);
        }
        router.tool_with(bad, handler!(|_: &mut Cx, _: Value| ()));
        if !validator_first {
            router.validator(RejectingValidator);
        }
        assert!(router.check().unwrap_err().to_string().contains("inputSchema says no"));
    }
}

// covers: TOOL-006
#[test]
fn tool_without_a_description_is_noted_when_the_server_is_configured() {
    let notes = NoteLog::default();
    let seen = notes.clone();
    let mut router = Router::new("files", "1.0");
    router.on_diagnostic(move |diagnostic| seen.record(diagnostic.to_string()));
    router.tool("bare", handler!(|_: &mut Cx, ()| ()));
    router.tool("blank", handler!(|_: &mut Cx, ()| ())).description(" ");
    router.tool("told", handler!(|_: &mut Cx, ()| ())).description("Says what it does.");
    router.config().expect("no mistakes");
    let noted =
        ["bare", "blank"].map(|tool| format!("the tool `{tool}` has no description, by which models choose"));
    assert_eq!(notes.take(), noted);
}

#[test]
fn router_passes_on_notifications_diagnostics_and_copies_of_messages() {
    with_timeout(|| {
        let notes = NoteLog::default();
        let make = {
            let notes = notes.clone();
            move || {
                let mut router = Router::new("files", "1.0");
                let (on_notification, on_diagnostic, on_tap) = (notes.clone(), notes.clone(), notes);
                router
                    .on_notification(move |notification| {
                        on_notification.record(format!("notification {}", notification.method));
                        panic!("the server goes on");
                    })
                    .on_diagnostic(move |diagnostic| {
                        on_diagnostic.record(format!("diagnostic {diagnostic:?}"));
                    })
                    .on_tap(move |record| on_tap.record(format!("tap {:?}", record.direction)));
                router
            }
        };
        let mut limits = mcp_proto::Limits::default();
        limits.tap_records = 8;
        let config = Router::new("files", "1.0").config().expect("no mistakes").limits(limits);
        let (mut stream, server) = serve_stream(make, Some(config));
        let input = concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
            r#""capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"c","version":"1"}}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            "\n",
        );
        assert_eq!(stream.write(input.as_bytes()).expect("room"), input.len());
        let begun = std::time::Instant::now();
        let mut noted = Vec::new();
        let is_noted = |noted: &[String], what: &str| noted.iter().any(|note| note.starts_with(what));
        while !["notification", "diagnostic Unknown", "tap Out"].iter().all(|what| is_noted(&noted, what)) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{noted:?}");
            std::thread::sleep(Duration::from_millis(5));
            noted.append(&mut notes.take());
        }
        drop(stream);
        server.join().unwrap().expect("a clean end");
        assert!(noted.contains(&"notification notifications/roots/list_changed".to_owned()), "{noted:?}");
    });
}
