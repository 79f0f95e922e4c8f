//! The feature `validate`: what it has checked without being asked, and how to have it otherwise.

extern crate alloc;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use mcp_blocking::validate::{Bounds, Schemas};
use mcp_blocking::{Client, Cx, Error, Options, Router};
use mcp_proto::client::Config;
use mcp_proto::model::{CallToolResult, Tool};
use mcp_proto::router::{SchemaError, SchemaValidator, Validate};
use mcp_proto::{CallError, RawJson};
use serde_json::{Value, json};

fn raw(value: &Value) -> RawJson {
    RawJson::new(value.to_string()).expect("JSON")
}

/// A router with a tool that takes a number, says whether it was asked, and promises a number
fn router() -> Router {
    let mut router = Router::new("checks", "1.0");
    router.report(|_, _| ());
    add(&mut router);
    router
}

fn add(router: &mut Router) {
    let number = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tool = Tool::new("echo", raw(&number)).output_schema(raw(&number));
    router.tool_with(tool, |_: &mut Cx<'_>, arguments: Value| {
        let n = if arguments["n"] == 13 { json!("thirteen") } else { arguments["n"].clone() };
        CallToolResult::text("asked").structured_content(raw(&json!({"n": n})))
    });
}

/// A client of a router, and what ends both
fn connected(
    router: impl FnOnce() -> Router + Send + 'static,
    options: impl FnOnce(Options) -> Options,
) -> (Client, impl FnOnce(Client)) {
    let (near, far) = mcp_std::memory_pair(4096);
    let server = std::thread::spawn(move || router().serve(near));
    let client = options(Client::options(Config::new("me", "1.0"))).connect(far).unwrap();
    let end = move |client: Client| {
        client.close().unwrap();
        server.join().unwrap().unwrap();
    };
    (client, end)
}

// covers: TOOL-015, TOOL-022, SCHEMA-010
#[test]
fn a_router_checks_by_itself() {
    let nested = || {
        let mut outer = Router::new("outer", "1.0");
        outer.report(|_, _| ()).nest("in", router());
        outer
    };
    for (name, made) in [("echo", router as fn() -> Router), ("in.echo", nested)] {
        let (mut client, end) = connected(made, Options::no_validator);
        let good = client.call_tool(name, &json!({"n": 1})).unwrap();
        assert_eq!(good.content[0].as_text(), Some("asked"));
        let bad = client.call_tool(name, &json!({"n": "one"})).unwrap();
        assert!(bad.failed() && bad.content[0].as_text().unwrap().contains("/n: "), "{bad:?}");
        // What the handler returns is not what the tool promises.
        assert!(matches!(client.call_tool(name, &json!({"n": 13})), Err(Error::Call(CallError::Rpc(_)))));
        end(client);
    }
    let mut unusable = Router::new("unusable", "1.0");
    let other = raw(&json!({"type": "object", "$schema": "http://json-schema.org/draft-04/schema#"}));
    unusable.tool_with(Tool::new("old", other), |_: &mut Cx<'_>, _: Value| ());
    assert!(unusable.check().unwrap_err().to_string().contains("draft-04"));
}

// covers: TOOL-016, SCHEMA-010
#[test]
fn a_client_checks_by_itself() {
    let lenient = || {
        let mut router = router();
        router.no_validator();
        router
    };
    let (mut client, end) = connected(lenient, |options| options);
    client.list_tools().unwrap();
    let error = client.call_tool("echo", &json!({"n": "one"})).unwrap_err();
    assert!(matches!(error, Error::BadResult(_)) && error.to_string().contains("/n: "), "{error}");
    end(client);

    // Switched off on both sides, it is nobody's business.
    let (mut client, end) = connected(lenient, Options::no_validator);
    client.list_tools().unwrap();
    assert!(!client.call_tool("echo", &json!({"n": "one"})).unwrap().failed());
    end(client);
}

/// Counts what is prepared
struct Counted(Arc<AtomicUsize>);

impl SchemaValidator for Counted {
    fn compile(&self, schema: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Schemas::new().compile(schema)
    }
}

// covers: SCHEMA-010
#[test]
fn schemas_are_prepared_once_also_within_other_routers() {
    let count = Arc::new(AtomicUsize::new(0));
    let taken = || count.swap(0, Ordering::Relaxed);
    let counted = |mut router: Router| {
        router.validator(Counted(Arc::clone(&count)));
        router
    };
    let empty = || Router::new("checks", "1.0");
    let mut inner = counted(empty());
    add(&mut inner);
    assert_eq!(taken(), 2);
    let mut outer = counted(empty());
    outer.nest("in", inner).nest("by", router());
    assert_eq!(taken(), 0, "both have been prepared");
    let mut unprepared = router();
    unprepared.no_validator();
    outer.nest("un", unprepared).check().unwrap();
    assert_eq!(taken(), 2, "nobody had");

    let bounds = {
        let mut bounds = Bounds::default();
        bounds.bytes = 8;
        bounds
    };
    let mut narrow = empty();
    narrow.validator(Schemas::with_bounds(bounds));
    add(&mut narrow);
    assert!(narrow.check().unwrap_err().to_string().contains("the length of its text"));
}
