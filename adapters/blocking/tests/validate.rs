//! The feature `validate`: default validation on both sides, and how to disable it.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use mcp_blocking::schema::{JsonSchemaValidator, SchemaLimits};
use mcp_blocking::{Client, Cx, Error, Options, Router};
use mcp_proto::client::Config;
use mcp_proto::model::{CallToolResult, Tool};
use mcp_proto::router::{SchemaError, SchemaValidator, Validate};
use mcp_proto::{CallError, RawJson};
use serde_json::{Value, json};

fn raw(value: &Value) -> RawJson {
    RawJson::new(value.to_string()).expect("JSON")
}

/// Makes a router with the tool `echo`, whose argument and result are an integer `n`. It returns text for 13.
fn router() -> Router {
    let mut router = Router::new("checks", "1.0");
    router.on_failure(|_, _| ());
    add_tool(&mut router);
    router
}

fn add_tool(router: &mut Router) {
    let number = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tool = Tool::new("echo", raw(&number)).output_schema(raw(&number));
    router.tool_with(tool, |_: &mut Cx<'_>, arguments: Value| {
        let n = if arguments["n"] == 13 { json!("thirteen") } else { arguments["n"].clone() };
        CallToolResult::text("asked").structured_content(raw(&json!({"n": n})))
    });
}

/// Connects a client to a router. Returns the client and a function that ends both.
fn connect(
    router: impl FnOnce() -> Router + Send + 'static,
    options: impl FnOnce(Options) -> Options,
) -> (Client, impl FnOnce(Client)) {
    let (near, far) = mcp_std::io::memory_pair(4096);
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
fn router_validates_arguments_and_results_by_default() {
    let nested = || {
        let mut outer = Router::new("outer", "1.0");
        outer.on_failure(|_, _| ()).nest("in", router());
        outer
    };
    for (name, made) in [("echo", router as fn() -> Router), ("in.echo", nested)] {
        let (client, end) = connect(made, Options::no_validator);
        let good = client.call_tool(name, &json!({"n": 1})).unwrap();
        assert_eq!(good.content[0].as_text(), Some("asked"));
        let bad = client.call_tool(name, &json!({"n": "one"})).unwrap();
        assert!(bad.is_failure() && bad.content[0].as_text().unwrap().contains("/n: "), "{bad:?}");
        // The result of the handler violates the output schema.
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
fn client_validates_results_by_default() {
    let lenient = || {
        let mut router = router();
        router.clear_validator();
        router
    };
    let (client, end) = connect(lenient, |options| options);
    client.list_tools().unwrap();
    let error = client.call_tool("echo", &json!({"n": "one"})).unwrap_err();
    assert!(
        matches!(error, Error::OutputSchemaViolation(_)) && error.to_string().contains("/n: "),
        "{error}"
    );
    end(client);

    // With both validators disabled, nothing is checked.
    let (client, end) = connect(lenient, Options::no_validator);
    client.list_tools().unwrap();
    assert!(!client.call_tool("echo", &json!({"n": "one"})).unwrap().is_failure());
    end(client);
}

/// Counts compiled schemas.
struct CountingValidator(Arc<AtomicUsize>);

impl SchemaValidator for CountingValidator {
    fn compile(&self, schema: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        JsonSchemaValidator::new().compile(schema)
    }
}

// covers: SCHEMA-010
#[test]
fn nested_schemas_are_compiled_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let taken = || count.swap(0, Ordering::Relaxed);
    let counted = |mut router: Router| {
        router.validator(CountingValidator(Arc::clone(&count)));
        router
    };
    let empty = || Router::new("checks", "1.0");
    let mut inner = counted(empty());
    add_tool(&mut inner);
    assert_eq!(taken(), 2);
    let mut outer = counted(empty());
    outer.nest("in", inner).nest("by", router());
    assert_eq!(taken(), 0, "both are compiled");
    let mut unprepared = router();
    unprepared.clear_validator();
    outer.nest("un", unprepared).check().unwrap();
    assert_eq!(taken(), 2, "they were not compiled before");

    let bounds = {
        let mut bounds = SchemaLimits::default();
        bounds.bytes = 8;
        bounds
    };
    let mut narrow = empty();
    narrow.validator(JsonSchemaValidator::with_limits(bounds));
    add_tool(&mut narrow);
    assert!(narrow.check().unwrap_err().to_string().contains("the length of its text"));
}
