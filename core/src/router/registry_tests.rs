//! What is registered, how it changes, and what is around it.

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::cell::RefCell;

use super::tests::*;
use super::*;
use crate::model::CallToolResult;
use crate::router::template::Screen;

// covers: TOOL-028, RES-019, RES-026, TOOL-007
#[test]
fn what_cannot_be_registered_is_named_and_changes_nothing() {
    let mut router = sample();
    let says = |e: RegisterError| e.to_string();
    let e = router.tool(tool("a b"), told).map_err(says);
    assert_eq!(
        e.expect_err("a name"),
        "the tool `a b` cannot be registered: a name has letters, digits, `_`, `-` and `.` only"
    );
    assert_eq!(
        router.tool(tool("mid"), told).map_err(says).expect_err("twice"),
        "there is a tool `mid` already"
    );
    let schema = router.tool(Tool::new("t", raw(&json!({"type": "array"}))), told).map_err(says);
    assert_eq!(
        schema.expect_err("no object"),
        "the tool `t` cannot be registered: its inputSchema does not say `\"type\":\"object\"`"
    );
    for uri in ["nothing", "a:b c"] {
        assert!(router.resource(Resource::new(uri, "n"), told).map_err(says).expect_err(uri).contains(uri));
    }
    assert!(router.resource(Resource::new("Test://%73tatic", "n"), told).is_err(), "the same URI");
    assert!(router.resource_template(ResourceTemplate::new("x:{", "n"), told).is_err());
    assert!(router.resource_template(ResourceTemplate::new("file:///{+path}", "n"), told).is_err());
    let twice = [PromptArgument::new("a"), PromptArgument::new("a")];
    assert!(router.prompt(Prompt::new("p").arguments(twice), told).is_err());
    assert!(router.prompt(Prompt::new(""), told).is_err());
    assert!(router.completion(PromptReference::new("greet"), "nope", told).is_err());
    assert!(router.completion(PromptReference::new("nope"), "a", told).is_err());
    assert!(router.enable(Kind::Prompt, "nope", true).is_err());
    assert!(router.screen("nope", Screen::default()).is_err());
    let mut b = Bench::new(&router);
    assert_eq!(names(&b.ask(&router, "tools/list", json!({})), "tools").len(), 3);
    assert_eq!(names(&b.ask(&router, "resources/list", json!({})), "resources").len(), 1);
}

// covers: TOOL-019, RES-012, PROMPT-009
#[test]
fn changes_say_which_list_they_change() {
    let mut router = sample();
    assert_eq!(router.replace_tool(tool("alpha").title("A"), told), Ok(Changed::of(Kind::Tool)));
    assert_eq!(router.enable(Kind::Tool, "mid", true), Ok(Changed::NONE));
    assert_eq!(router.enable(Kind::Tool, "mid", false), Ok(Changed::of(Kind::Tool)));
    assert_eq!(router.remove(Kind::Tool, "mid"), Changed::NONE, "nobody saw it");
    assert_eq!(router.remove(Kind::Resource, "test://%73tatic"), Changed::of(Kind::Resource));
    assert_eq!(router.remove(Kind::Resource, "test://static"), Changed::NONE);
    let family = "test://template/{id}/data";
    assert_eq!(router.enable(Kind::ResourceTemplate, family, false), Ok(Changed::of(Kind::ResourceTemplate)));
    let mut b = Bench::new(&router);
    let read = json!({"uri": "test://template/1/data"});
    assert!(text(&b.ask(&router, "resources/read", read.clone())).contains("[rest="), "the next family");
    router.enable(Kind::ResourceTemplate, family, true).expect("it is there");
    router.replace_resource_template(ResourceTemplate::new(family, "new"), told).expect("a template");
    assert!(text(&b.ask(&router, "resources/read", read.clone())).contains("[id=1]"));
    assert_eq!(router.remove(Kind::ResourceTemplate, family), Changed::of(Kind::ResourceTemplate));
    assert!(text(&b.ask(&router, "resources/read", read)).contains("[rest="));
    assert_eq!(names(&b.ask(&router, "tools/list", json!({})), "tools"), ["zeta", "alpha"], "its old place");
    router.replace_prompt(Prompt::new("greet"), told).expect("a prompt");
    assert_eq!(router.remove(Kind::Prompt, "greet"), Changed::of(Kind::Prompt));
    assert_eq!(code(&b.ask(&router, "prompts/get", json!({"name": "greet"}))), -32602);
}

/// Writes down what it sees
struct Diary(&'static str, Rc<RefCell<Vec<String>>>, Option<&'static str>);

impl Hook for Diary {
    fn before(&self, asked: &Asked<'_>) -> Result<(), RpcError> {
        self.1.borrow_mut().push(format!("{}? {:?}", self.0, asked.subject()));
        match self.2 {
            Some(refused) if asked.subject() == Subject::Tool(refused) => Err(RpcError::new(7, "no")),
            _ => Ok(()),
        }
    }

    fn after(&self, _: &Asked<'_>, outcome: Outcome<'_>) {
        let how = match outcome {
            Outcome::Completed => "done",
            Outcome::ToolFailed => "tool failed",
            Outcome::Failed(_) => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Asking => "asking",
        };
        self.1.borrow_mut().push(format!("{}! {how}", self.0));
    }
}

// covers: TOOL-029
#[test]
fn nested_routers_keep_their_hooks_and_get_a_prefix() {
    let diary = Rc::new(RefCell::new(Vec::new()));
    let hook = |name, refused| -> Box<dyn Hook> { Box::new(Diary(name, Rc::clone(&diary), refused)) };
    let mut innermost = TestRouter::new("innermost", "1");
    innermost.tool(tool("t"), told).expect("a tool");
    innermost.hook(hook("c", None));
    let mut inner = sample();
    inner.hook(hook("b", Some("in.mid")));
    inner.enable(Kind::Tool, "zeta", false).expect("it is there");
    inner.nest("deep", innermost).expect("no clash");
    let mut outer = TestRouter::new("outer", "1");
    outer.hook(hook("a", None));
    outer.tool(tool("own"), told).expect("a tool");
    let changed = outer.nest("in", inner).expect("no clash");
    assert!(changed.has(Kind::Tool) && changed.has(Kind::ResourceTemplate) && changed.has(Kind::Prompt));

    let mut b = Bench::new(&outer);
    let tools = names(&b.ask(&outer, "tools/list", json!({})), "tools");
    assert_eq!(tools, ["own", "in.alpha", "in.mid", "in.deep.t"]);
    assert_eq!(text(&b.ask(&outer, "resources/read", json!({"uri": "test://static"}))), "test://static []");
    let completed =
        json!({"ref": {"type": "ref/prompt", "name": "in.greet"}, "argument": {"name": "arg1", "value": ""}});
    assert!(text(&b.ask(&outer, "completion/complete", completed)).starts_with("arg1~"));
    diary.borrow_mut().clear();

    let mut seen = |name: &str| {
        b.ask(&outer, "tools/call", json!({"name": name}));
        diary.borrow_mut().drain(..).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(seen("own"), r#"a? Tool("own"), a! done"#);
    assert_eq!(
        seen("in.deep.t"),
        r#"a? Tool("in.deep.t"), b? Tool("in.deep.t"), c? Tool("in.deep.t"), c! done, b! done, a! done"#
    );
    assert_eq!(seen("in.mid"), r#"a? Tool("in.mid"), b? Tool("in.mid"), a! failed"#);
    assert_eq!(seen("t"), "a? Unknown, a! failed");

    let mut clash = TestRouter::new("x", "1");
    clash.tool(tool("fresh"), told).expect("a tool");
    clash.resource(Resource::new("test://static", "static"), told).expect("a resource");
    let error = outer.nest("x", clash).expect_err("the URI is taken");
    assert_eq!(error, RegisterError::Duplicate { kind: Kind::Resource, name: "test://static".into() });
    assert_eq!(outer.remove(Kind::Tool, "x.fresh"), Changed::NONE, "nothing has changed");
    let mut bad = TestRouter::new("x", "1");
    bad.tool(tool("t"), told).expect("a tool");
    assert!(outer.nest("a b", bad).is_err(), "no name has a space");
}

/// Accepts objects that have all that is required
struct Simple;

impl SchemaValidator for Simple {
    fn compile(&self, schema: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
        match schema.member("$schema") {
            Some(dialect) => Err(SchemaError::Dialect(dialect.string().unwrap_or_default())),
            None => Ok(Box::new(Required(
                schema.member("required").and_then(|r| r.parse().ok()).unwrap_or_default(),
            ))),
        }
    }
}

struct Required(Vec<String>);

impl Validate for Required {
    fn validate(&self, value: &[u8]) -> Result<(), Violations> {
        let value: Value = serde_json::from_slice(value).expect("JSON");
        let mut violations = Violations::new();
        for name in self.0.iter().filter(|name| value.get(name).is_none()) {
            violations.push(&format!("/{name}"), "is missing");
        }
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }
}

// covers: TOOL-015, TOOL-022, SCHEMA-004, SCHEMA-010
#[test]
fn arguments_and_results_are_checked_against_schemas() {
    let schema = raw(&json!({"type": "object", "required": ["a"]}));
    let mut router = TestRouter::new("checked", "1");
    let checked = Tool::new("early", schema.clone()).output_schema(schema.clone());
    router.tool(checked, told).expect("a tool");
    router.validator(Simple).expect("its schemas are fine");
    router.tool(Tool::new("late", schema.clone()), told).expect("a tool");
    let odd = raw(&json!({"type": "object", "$schema": "https://example.com/odd"}));
    let error = router.tool(Tool::new("odd", odd.clone()), told).expect_err("a dialect");
    assert_eq!(
        error.to_string(),
        "the tool `odd` cannot be registered: its inputSchema is of the dialect `https://example.com/odd`, which is not supported"
    );
    let mut b = Bench::new(&router);
    for name in ["early", "late"] {
        let bad = b.ask(&router, "tools/call", json!({"name": name, "arguments": {"b": 1}}));
        assert_eq!(bad["result"]["isError"], true);
        assert_eq!(text(&bad), format!("The arguments of `{name}` are not valid: /a: is missing"));
        let good = b.ask(&router, "tools/call", json!({"name": name, "arguments": {"a": 1}}));
        assert_eq!(text(&good), format!("{name}({{\"a\":1}})"));
    }

    // Results are the handler's to give, so it is the adapter that asks.
    let request = br#"{"jsonrpc":"2.0","id":"r","method":"tools/call","params":{"name":"early","arguments":{"a":1},
        "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let line: Vec<u8> = request.iter().copied().filter(|b| *b != b'\n').chain([b'\n']).collect();
    b.server.handle_input(NOW, &line);
    let Some(Event::Call(call)) = b.server.poll_event(NOW) else { panic!("a call") };
    let Route::Handle(Work { target: Target::Tool(target), .. }) = router.route(&call) else {
        panic!("a tool")
    };
    let structured = |value| CallToolResult::structured(raw(&value));
    assert_eq!(target.check(&structured(json!({"a": 1}))), Ok(()));
    assert_eq!(target.check(&CallToolResult::error("failed")), Ok(()));
    let bad = target.check(&structured(json!({"b": 1}))).expect_err("no a");
    assert_eq!(
        bad.to_string(),
        "the result of the tool `early` does not fit its outputSchema: /a: is missing"
    );
    assert!(!bad.rpc().to_string().contains("/a"), "the peer learns nothing");
    assert!(target.check(&CallToolResult::text("no structure")).is_err());
    assert!(target.parse::<u8>().expect_err("an object").into_result().failed());

    let mut inner = TestRouter::new("inner", "1");
    inner.tool(Tool::new("t", schema), told).expect("a tool");
    router.nest("in", inner).expect("no clash");
    let bad = b.ask(&router, "tools/call", json!({"name": "in.t", "arguments": {}}));
    assert_eq!(bad["result"]["isError"], true, "what comes from another router is checked, too");

    let mut unchecked = TestRouter::new("unchecked", "1");
    unchecked.tool(Tool::new("odd", odd), told).expect("nobody looks");
    assert!(unchecked.validator(Simple).is_err());

    // Switched off: for what is there, what comes, and what has come from elsewhere.
    let odd = unchecked;
    router.no_validator().nest("odd", odd).expect("nobody looks");
    router.tool(Tool::new("later", raw(&json!({"type": "object"}))), told).expect("a tool");
    let mut b = Bench::new(&router);
    for name in ["early", "late", "later"] {
        let answer = b.ask(&router, "tools/call", json!({"name": name, "arguments": {"b": 1}}));
        assert_eq!(text(&answer), format!("{name}({{\"b\":1}})"));
    }
}
