//! A router on any adapter whose handlers block, from client to handler: `crate::adapter` says which

use mcp_blocking::{Client, Error};
use mcp_proto::model::*;
use mcp_proto::router::schema::{self, NoArguments, Typed, schemars};
use mcp_proto::router::{
    Asked, Hook, Kind, Outcome, SchemaError, SchemaValidator, Validate, Violations, suggest,
};
use mcp_proto::{Progress, RawJson, RpcError};
use serde_json::json;

use crate::adapter::{Cx, Router, serve};

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
struct Trip {
    days: u32,
}

fn router(seen: std::sync::mpsc::Sender<String>) -> Router {
    let mut router = Router::new("calc", "1.0");
    let later = router.later();
    router.tool("add", "Adds two numbers", |_: &mut Cx<'_>, Add { a, b }: Add| a + b);
    router.tool("sum", "Adds, typed", |_: &mut Cx<'_>, Add { a, b }: Add| Typed(Sum { sum: a + b }));
    router.tool("div", "Divides", |cx: &mut Cx<'_>, Add { a, b }: Add| {
        cx.progress(Progress::new(1.0)).ok();
        a.checked_div(b).ok_or("division by zero")
    });
    router.tool("slow", "Reports", |cx: &mut Cx<'_>, _: Add| {
        cx.progress(Progress::new(1.0))?;
        Ok::<_, RpcError>("done")
    });
    router.tool("panics", "Panics", |_: &mut Cx<'_>, _: Add| -> &str { panic!("no") });
    router.tool("forget", "Removes add", move |_: &mut Cx<'_>, _: serde_json::Value| {
        later.change(|router| {
            router.core().remove(Kind::Tool, "add");
        });
    });
    router.resource(Resource::new("note://one", "one").mime_type("text/plain"), |_, read| read.uri.clone());
    router.resource_template(ResourceTemplate::new("note://{id}/raw", "raw"), |_, read| {
        read.variables.get("id").filter(|id| *id != "none").map(|id| id.as_bytes().to_vec())
    });
    router.prompt(
        Prompt::new("plan").arguments([PromptArgument::new("days").required(true)]),
        |_, trip: Trip| format!("Plan {} days", trip.days),
    );
    router.completion(PromptReference::new("plan"), "days", |_, c| suggest(["1", "10", "21"], c.value()));
    router.report(move |_, what| drop(seen.send(what.to_string())));
    let bad = Tool::new("liar", RawJson::new(r#"{"type":"object"}"#).unwrap())
        .output_schema(RawJson::new(r#"{"type":"object"}"#).unwrap());
    router.tool_with(bad, |_: &mut Cx<'_>, _: serde_json::Value| "no structure");
    router
}

#[test]
fn a_router_serves() -> Result<(), Error> {
    let (near, far) = mcp_std::memory_pair(4096);
    let (tell, told) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        let router = router(tell);
        serve(router.config().unwrap(), near, router)
    });
    let mut client = Client::connect(mcp_proto::client::Config::new("me", "1.0"), far)?;
    let mut call = |name: &str, args: serde_json::Value| match client.call_tool(name, &args) {
        Ok(r) => serde_json::to_string(&r).unwrap(),
        Err(e) => e.to_string(),
    };
    assert!(call("add", json!({"a": 1, "b": 2})).contains(r#""text":"3""#));
    // The schema says it, where it is asked; otherwise the type does.
    let missing =
        if cfg!(feature = "validate") { r#"\"b\" is a required property"# } else { "missing field `b`" };
    assert!(call("add", json!({"a": 1})).contains(missing));
    assert!(call("sum", json!({"a": 1, "b": 2})).contains(r#""structuredContent":{"sum":3}"#));
    assert!(call("div", json!({"a": 1, "b": 0})).contains(r#""isError":true"#));
    assert!(call("slow", json!({"a": 1, "b": 0})).contains("done"));
    assert!(call("panics", json!({"a": 1, "b": 0})).contains("panicked"));
    assert!(call("panics", json!({"a": 1, "b": 0})).contains("panicked"));
    assert!(call("liar", json!({})).contains("not what it promises"));
    assert!(told.recv().unwrap().contains("no")); // the panics, too, are told
    assert!(told.recv().unwrap().contains("no"));
    assert!(told.recv().unwrap().contains("there is no structured result"));
    call("forget", json!({}));
    assert!(call("add", json!({"a": 1, "b": 2})).contains("unknown tool"));
    let mut ask = |method: &str, params: serde_json::Value| match client.request(
        method,
        &params,
        &mcp_proto::CallOptions::default(),
    ) {
        Ok(r) => r.as_str().to_owned(),
        Err(e) => e.to_string(),
    };
    let one = ask("resources/read", json!({"uri": "note://one"}));
    assert!(
        one.contains(r#""contents":[{"uri":"note://one","text":"note://one","mimeType":"text/plain"}]"#),
        "{one}"
    );
    assert!(ask("resources/read", json!({"uri": "note://x/raw"})).contains(r#""blob":"eA==""#));
    assert!(ask("resources/read", json!({"uri": "note://none/raw"})).contains("not found"));
    assert!(ask("prompts/get", json!({"name": "plan", "arguments": {"days": "3"}})).contains("Plan 3 days"));
    assert!(ask("prompts/get", json!({"name": "plan", "arguments": {"days": "x"}})).contains("-32602"));
    let completed =
        json!({"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "days", "value": "1"}});
    assert!(ask("completion/complete", completed).contains(r#""values":["1","10","21"]"#));
    assert_eq!(client.list_tools()?.len(), 6);
    client.close()?;
    server.join().unwrap()
}

#[test]
fn the_first_mistake_is_remembered() {
    let mut router = Router::new("x", "1");
    router.tool("a b", "", |_: &mut Cx<'_>, _: Add| ());
    router.tool("ok", "", |_: &mut Cx<'_>, _: Add| ());
    assert!(router.check().unwrap_err().to_string().contains("`a b`"));
    assert!(router.config().is_err());
}

/// Panics once its call is over
struct Fuse;

impl Hook for Fuse {
    fn after(&self, asked: &Asked<'_>, _: Outcome<'_>) {
        assert!(asked.call().tool().unwrap().name == "fine", "in a hook, on purpose");
    }
}

#[test]
fn hooks_that_panic_end_no_more_than_handlers_that_do() {
    let (near, far) = mcp_std::memory_pair(4096);
    let server = std::thread::spawn(move || {
        let mut router = Router::new("hooked", "1");
        router.hook(Fuse).report(|_, _| {});
        router.tool("panics", "Panics", |_: &mut Cx<'_>, ()| -> &str { panic!("on purpose") });
        router.tool("odd", "Has a hook that panics", |_: &mut Cx<'_>, ()| "odd");
        router.tool("fine", "Has one that does not", |_: &mut Cx<'_>, ()| "fine");
        router.serve(near)
    });
    let mut client = Client::connect(mcp_proto::client::Config::new("me", "1"), far).unwrap();
    let error = client.call_tool("panics", &json!({})).unwrap_err().to_string();
    assert!(error.contains("-32603"), "{error}");
    // It was answered before.
    let _ = client.call_tool("odd", &json!({}));
    assert_eq!(client.call_tool("fine", &json!({})).unwrap().content[0].as_text(), Some("fine"));
    client.close().unwrap();
    server.join().unwrap().unwrap();
}

#[test]
fn changes_are_made_whoever_asks_and_however_it_ends() {
    let (near, far) = mcp_std::memory_pair(4096);
    let (tell, told) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        fn adds(name: &'static str) -> impl FnOnce(&mut Router) + Send + 'static {
            move |router| _ = router.tool(name, "", move |_: &mut Cx<'_>, _: NoArguments| name)
        }
        let (mut outer, mut middle, mut inner) =
            (Router::new("o", "1"), Router::new("m", "1"), Router::new("i", "1"));
        let later = inner.later();
        later.change(adds("early"));
        inner.tool("ask", "", move |_: &mut Cx<'_>, _: NoArguments| -> &str {
            let again = later.clone();
            later.change(|_| panic!("a change"));
            later.change(move |_| again.change(adds("second")));
            later.change(adds("asked"));
            panic!("the handler")
        });
        let held = inner.later();
        middle.nest("i", inner);
        outer.nest("m", middle);
        held.change(adds("late"));
        outer.report(move |_, what| drop(tell.send(what.to_string())));
        outer.serve(near)
    });
    let mut client = Client::connect(mcp_proto::client::Config::new("me", "1.0"), far).unwrap();
    assert!(client.call_tool("m.i.ask", &json!({})).unwrap_err().to_string().contains("panicked"));
    assert_eq!([told.recv().unwrap(), told.recv().unwrap()], ["panicked: a change", "panicked: the handler"]);
    for name in ["early", "late", "asked", "second"] {
        let result = client.call_tool(name, &json!({}));
        assert_eq!(result.unwrap().content[0].as_text(), Some(name));
    }
    client.close().unwrap();
    server.join().unwrap().unwrap();
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Files {
    root: std::path::PathBuf,
    sizes: std::collections::HashMap<String, u64>,
}

// covers: TOOL-008
#[test]
fn arguments_may_be_of_std_or_nothing() {
    let (near, far) = mcp_std::memory_pair(4096);
    let server = std::thread::spawn(move || {
        let mut router = Router::new("x", "1");
        // What reading says is looked at here, not what a schema does.
        router.no_validator();
        router.tool("files", "", |_: &mut Cx<'_>, Files { root, sizes }: Files| {
            format!("{} {}", root.display(), sizes["a"])
        });
        router.tool("nothing", "", |_: &mut Cx<'_>, ()| "done");
        router.prompt(Prompt::new("unit"), |_, ()| "said");
        router.serve(near)
    });
    let mut client = Client::connect(mcp_proto::client::Config::new("me", "1.0"), far).unwrap();
    let mut call = |name: &str, arguments: serde_json::Value| {
        client.call_tool(name, &arguments).unwrap().content[0].as_text().unwrap().to_owned()
    };
    assert_eq!(call("files", json!({"root": "/r", "sizes": {"a": 1}})), "/r 1");
    assert_eq!(
        call("files", json!({"root": "/r", "sizes": {"a": "x"}})),
        r#"The arguments of `files` are not valid: `sizes.a`: invalid type: string "x", expected u64"#
    );
    assert_eq!(call("nothing", json!({})), "done");
    let said = client.get_prompt("unit", &()).unwrap();
    assert!(format!("{said:?}").contains("said"));
    client.close().unwrap();
    server.join().unwrap().unwrap();
}

/// Takes no schema with a member `no`
struct Picky;

impl SchemaValidator for Picky {
    fn compile(&self, schema: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
        struct Fits;
        impl Validate for Fits {
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
            None => Ok(Box::new(Fits)),
        }
    }
}

// covers: TOOL-022, SCHEMA-005
#[test]
fn a_validator_is_asked_before_the_handler() {
    let (near, far) = mcp_std::memory_pair(4096);
    let server = std::thread::spawn(move || {
        let mut router = Router::new("picky", "1");
        router.validator(Picky);
        router.tool_with(schema::tool::<Add>("add"), |_: &mut Cx<'_>, _: serde_json::Value| "asked");
        router.serve(near)
    });
    let mut client = Client::connect(mcp_proto::client::Config::new("me", "1.0"), far).unwrap();
    let result = client.call_tool("add", &json!({})).unwrap();
    assert!(result.failed() && result.content[0].as_text().unwrap().contains("/a: is missing"));
    let result = client.call_tool("add", &json!({"a": 1})).unwrap();
    assert_eq!(result.content[0].as_text(), Some("asked"));
    client.close().unwrap();
    server.join().unwrap().unwrap();

    // Before or after the tool: what cannot be checked cannot be served.
    for first in [true, false] {
        let mut router = Router::new("picky", "1");
        let bad = Tool::new("bad", RawJson::new(r#"{"type":"object","no":1}"#).unwrap());
        if first {
            router.validator(Picky);
        }
        router.tool_with(bad, |_: &mut Cx<'_>, _: serde_json::Value| ());
        if !first {
            router.validator(Picky);
        }
        assert!(router.check().unwrap_err().to_string().contains("inputSchema says no"));
    }
}
