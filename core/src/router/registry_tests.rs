//! Tests of registration, of changes, and of hooks and validators.

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::cell::RefCell;

use super::tests::*;
use super::*;
use crate::methods::EntryKind;
use crate::model::CallToolResult;
use crate::router::template::VariablePolicy;

// covers: TOOL-028, RES-019, RES-026, TOOL-007
#[test]
fn refused_registration_names_entry_and_changes_nothing() {
    let mut router = sample();
    let message = |e: RegisterError| e.to_string();
    let e = router.tool(tool("a b"), target_text).map_err(message);
    assert_eq!(
        e.expect_err("a name"),
        "the tool `a b` cannot be registered: a name may contain only letters, digits, `_`, `-` and `.`"
    );
    assert_eq!(
        router.tool(tool("mid"), target_text).map_err(message).expect_err("twice"),
        "the tool `mid` is registered already"
    );
    let schema = router.tool(Tool::new("t", raw(&json!({"type": "array"}))), target_text).map_err(message);
    assert_eq!(
        schema.expect_err("no object"),
        "the tool `t` cannot be registered: its inputSchema has no `\"type\":\"object\"`"
    );
    for uri in ["nothing", "a:b c"] {
        assert!(
            router
                .resource(Resource::new(uri, "n"), target_text)
                .map_err(message)
                .expect_err(uri)
                .contains(uri)
        );
    }
    assert!(router.resource(Resource::new("Test://%73tatic", "n"), target_text).is_err(), "the same URI");
    assert!(router.resource_template(ResourceTemplate::new("x:{", "n"), target_text).is_err());
    assert!(router.resource_template(ResourceTemplate::new("file:///{+path}", "n"), target_text).is_err());
    let twice = [PromptArgument::new("a"), PromptArgument::new("a")];
    assert!(router.prompt(Prompt::new("p").arguments(twice), target_text).is_err());
    assert!(router.prompt(Prompt::new(""), target_text).is_err());
    assert!(router.completion(PromptReference::new("greet"), "nope", target_text).is_err());
    assert!(router.completion(PromptReference::new("nope"), "a", target_text).is_err());
    assert!(router.enable(EntryKind::Prompt, "nope", true).is_err());
    assert!(router.variable_policy("nope", VariablePolicy::default()).is_err());
    let mut harness = RouterHarness::new(&router);
    assert_eq!(names(&harness.ask(&router, "tools/list", json!({})), "tools").len(), 3);
    assert_eq!(names(&harness.ask(&router, "resources/list", json!({})), "resources").len(), 1);
}

// covers: TOOL-019, RES-012, PROMPT-009
#[test]
fn modification_returns_changed_lists() {
    let mut router = sample();
    assert_eq!(
        router.replace_tool(tool("alpha").title("A"), target_text),
        Ok(ChangedLists::from_kind(EntryKind::Tool))
    );
    assert_eq!(router.enable(EntryKind::Tool, "mid", true), Ok(ChangedLists::NONE));
    assert_eq!(router.enable(EntryKind::Tool, "mid", false), Ok(ChangedLists::from_kind(EntryKind::Tool)));
    assert_eq!(router.remove(EntryKind::Tool, "mid"), ChangedLists::NONE, "it was hidden");
    assert_eq!(
        router.remove(EntryKind::Resource, "test://%73tatic"),
        ChangedLists::from_kind(EntryKind::Resource)
    );
    assert_eq!(router.remove(EntryKind::Resource, "test://static"), ChangedLists::NONE);
    let family = "test://template/{id}/data";
    assert_eq!(
        router.enable(EntryKind::ResourceTemplate, family, false),
        Ok(ChangedLists::from_kind(EntryKind::ResourceTemplate))
    );
    let mut harness = RouterHarness::new(&router);
    let read = json!({"uri": "test://template/1/data"});
    assert!(
        text(&harness.ask(&router, "resources/read", read.clone())).contains("[rest="),
        "the next template"
    );
    router.enable(EntryKind::ResourceTemplate, family, true).expect("it is there");
    router.replace_resource_template(ResourceTemplate::new(family, "new"), target_text).expect("a template");
    assert!(text(&harness.ask(&router, "resources/read", read.clone())).contains("[id=1]"));
    assert_eq!(
        router.remove(EntryKind::ResourceTemplate, family),
        ChangedLists::from_kind(EntryKind::ResourceTemplate)
    );
    assert!(text(&harness.ask(&router, "resources/read", read)).contains("[rest="));
    assert_eq!(
        names(&harness.ask(&router, "tools/list", json!({})), "tools"),
        ["zeta", "alpha"],
        "its old position"
    );
    router.replace_prompt(Prompt::new("greet"), target_text).expect("a prompt");
    assert_eq!(router.remove(EntryKind::Prompt, "greet"), ChangedLists::from_kind(EntryKind::Prompt));
    assert_eq!(code(&harness.ask(&router, "prompts/get", json!({"name": "greet"}))), -32602);
}

#[test]
fn schema_without_properties_gets_them_when_a_tool_is_registered_or_replaced() {
    let mut router = sample();
    let bare = |name: &str, text: &'static str| Tool::new(name, RawJson::trusted(text.into()));
    router.tool(bare("new", r#"{"type":"object"}"#), target_text).expect("a tool");
    router.replace_tool(bare("alpha", r#"{ "type": "object", "$id": "a:b" }"#), target_text).expect("a tool");
    let kept = r#"{"properties":{"a":{}},"type":"object"}"#;
    router.replace_tool(bare("mid", kept), target_text).expect("a tool");
    let mut harness = RouterHarness::new(&router);
    let list = harness.ask(&router, "tools/list", json!({}));
    for (name, schema) in [
        ("new", json!({"properties": {}, "type": "object"})),
        ("alpha", json!({"properties": {}, "type": "object", "$id": "a:b"})),
        ("mid", json!({"properties": {"a": {}}, "type": "object"})),
    ] {
        let listed = list["result"]["tools"].as_array().expect("tools").iter();
        let tool = listed.clone().find(|tool| tool["name"] == name).expect("it is listed");
        assert_eq!(tool["inputSchema"], schema, "{name}");
    }
}

/// Hook that records its calls.
struct RecordingHook(&'static str, Rc<RefCell<Vec<String>>>, Option<&'static str>);

impl Hook for RecordingHook {
    fn before_call(&self, context: &HookContext<'_>) -> Result<(), RpcError> {
        self.1.borrow_mut().push(format!("{}? {:?}", self.0, context.subject()));
        match self.2 {
            Some(refused) if context.subject() == Subject::Tool(refused) => Err(RpcError::new(7, "no")),
            _ => Ok(()),
        }
    }

    fn after_call(&self, _: &HookContext<'_>, outcome: HookOutcome<'_>) {
        let ending = match outcome {
            HookOutcome::Completed => "done",
            HookOutcome::ToolFailed => "tool failed",
            HookOutcome::Failed(_) => "failed",
            HookOutcome::Cancelled => "cancelled",
            HookOutcome::InputRequired => "asking",
            HookOutcome::TaskBegun => "begun",
        };
        self.1.borrow_mut().push(format!("{}! {ending}", self.0));
    }
}

// covers: EXT-001, EXT-002, EXT-006
#[test]
fn router_declares_extensions_of_itself_and_of_nested_routers() {
    let settings = |of: &str| raw(&json!({"of": of}));
    let mut inner = TestRouter::new("inner", "1");
    inner.extension("a.example/x", settings("inner")).expect("an identifier");
    inner.extension("a.example/y", settings("inner")).expect("an identifier");
    let mut outer = TestRouter::new("outer", "1");
    assert!(outer.capabilities().extensions().next().is_none(), "nothing is declared by default");
    outer.extension("a.example/x", settings("outer")).expect("an identifier");
    assert!(outer.extension("x", settings("outer")).is_err());
    outer.nest("in", inner).expect("no clash");
    let mut harness = RouterHarness::new(&outer);
    let answer = harness.ask(&outer, "server/discover", json!({}));
    let declared = &answer["result"]["capabilities"]["extensions"];
    assert_eq!(*declared, json!({"a.example/x": {"of": "outer"}, "a.example/y": {"of": "inner"}}));
}

// covers: TOOL-029
#[test]
fn nested_router_keeps_hooks_and_gets_prefix() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let hook = |name, refused| -> Box<dyn Hook> { Box::new(RecordingHook(name, Rc::clone(&log), refused)) };
    let mut innermost = TestRouter::new("innermost", "1");
    innermost.tool(tool("t"), target_text).expect("a tool");
    innermost.hook(hook("c", None));
    let mut inner = sample();
    inner.hook(hook("b", Some("in.mid")));
    inner.enable(EntryKind::Tool, "zeta", false).expect("it is there");
    inner.nest("deep", innermost).expect("no clash");
    let mut outer = TestRouter::new("outer", "1");
    outer.hook(hook("a", None));
    outer.tool(tool("own"), target_text).expect("a tool");
    let changed = outer.nest("in", inner).expect("no clash");
    assert!(
        changed.contains(EntryKind::Tool)
            && changed.contains(EntryKind::ResourceTemplate)
            && changed.contains(EntryKind::Prompt)
    );

    let mut harness = RouterHarness::new(&outer);
    let tools = names(&harness.ask(&outer, "tools/list", json!({})), "tools");
    assert_eq!(tools, ["own", "in.alpha", "in.mid", "in.deep.t"]);
    assert_eq!(
        text(&harness.ask(&outer, "resources/read", json!({"uri": "test://static"}))),
        "test://static []"
    );
    let completed =
        json!({"ref": {"type": "ref/prompt", "name": "in.greet"}, "argument": {"name": "arg1", "value": ""}});
    assert!(text(&harness.ask(&outer, "completion/complete", completed)).starts_with("arg1~"));
    log.borrow_mut().clear();

    let mut seen = |name: &str| {
        harness.ask(&outer, "tools/call", json!({"name": name}));
        log.borrow_mut().drain(..).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(seen("own"), r#"a? Tool("own"), a! done"#);
    assert_eq!(
        seen("in.deep.t"),
        r#"a? Tool("in.deep.t"), b? Tool("in.deep.t"), c? Tool("in.deep.t"), c! done, b! done, a! done"#
    );
    assert_eq!(seen("in.mid"), r#"a? Tool("in.mid"), b? Tool("in.mid"), a! failed"#);
    assert_eq!(seen("t"), "a? Unknown, a! failed");

    let mut clash = TestRouter::new("x", "1");
    clash.tool(tool("fresh"), target_text).expect("a tool");
    clash.resource(Resource::new("test://static", "static"), target_text).expect("a resource");
    let error = outer.nest("x", clash).expect_err("the URI is taken");
    assert_eq!(error, RegisterError::Duplicate { kind: EntryKind::Resource, name: "test://static".into() });
    assert_eq!(outer.remove(EntryKind::Tool, "x.fresh"), ChangedLists::NONE, "nothing has changed");
    let mut bad = TestRouter::new("x", "1");
    bad.tool(tool("t"), target_text).expect("a tool");
    assert!(outer.nest("a b", bad).is_err(), "no name has a space");
}

/// Validator for objects with all `required` members.
struct RequiredMembersValidator;

impl SchemaValidator for RequiredMembersValidator {
    fn compile(&self, schema: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
        match schema.member("$schema") {
            Some(dialect) => Err(SchemaError::Dialect(dialect.string().unwrap_or_default())),
            None => Ok(Box::new(RequiredMembers(
                schema.member("required").and_then(|r| r.parse().ok()).unwrap_or_default(),
            ))),
        }
    }
}

struct RequiredMembers(Vec<String>);

impl Validate for RequiredMembers {
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
    router.tool(checked, target_text).expect("a tool");
    router.validator(RequiredMembersValidator).expect("its schemas are fine");
    router.tool(Tool::new("late", schema.clone()), target_text).expect("a tool");
    let odd = raw(&json!({"type": "object", "$schema": "https://example.com/odd"}));
    let error = router.tool(Tool::new("odd", odd.clone()), target_text).expect_err("a dialect");
    assert_eq!(
        error.to_string(),
        "the tool `odd` cannot be registered: its inputSchema is of the dialect `https://example.com/odd`, which is not supported"
    );
    let mut harness = RouterHarness::new(&router);
    for name in ["early", "late"] {
        let bad = harness.ask(&router, "tools/call", json!({"name": name, "arguments": {"b": 1}}));
        assert_eq!(bad["result"]["isError"], true);
        assert_eq!(text(&bad), format!("The arguments of `{name}` are not valid: /a: is missing"));
        let good = harness.ask(&router, "tools/call", json!({"name": name, "arguments": {"a": 1}}));
        assert_eq!(text(&good), format!("{name}({{\"a\":1}})"));
    }

    // Results come from the handler, so the adapter calls the check.
    let request = br#"{"jsonrpc":"2.0","id":"r","method":"tools/call","params":{"name":"early","arguments":{"a":1},
        "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let line: Vec<u8> = request.iter().copied().filter(|b| *b != b'\n').chain([b'\n']).collect();
    harness.server.handle_input(NOW, &line);
    let Some(Event::Call(call)) = harness.server.poll_event(NOW) else { panic!("a call") };
    let Route::Handle(RoutedCall { target: CallTarget::Tool(target), .. }) = router.route(&call) else {
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
    assert!(!bad.to_rpc_error().to_string().contains("/a"), "no details for the peer");
    assert!(target.check(&CallToolResult::text("no structure")).is_err());
    assert!(target.parse::<u8>().expect_err("an object").into_result().expect("modern").is_failure());

    let mut inner = TestRouter::new("inner", "1");
    inner.tool(Tool::new("t", schema), target_text).expect("a tool");
    router.nest("in", inner).expect("no clash");
    let bad = harness.ask(&router, "tools/call", json!({"name": "in.t", "arguments": {}}));
    assert_eq!(bad["result"]["isError"], true, "tools of nested routers are checked too");

    let mut unchecked = TestRouter::new("unchecked", "1");
    unchecked.tool(Tool::new("odd", odd), target_text).expect("no validator");
    assert!(unchecked.validator(RequiredMembersValidator).is_err());

    // Without a validator: for registered, new and nested tools.
    let odd = unchecked;
    router.clear_validator().nest("odd", odd).expect("no validator");
    router.tool(Tool::new("later", raw(&json!({"type": "object"}))), target_text).expect("a tool");
    let mut harness = RouterHarness::new(&router);
    for name in ["early", "late", "later"] {
        let answer = harness.ask(&router, "tools/call", json!({"name": name, "arguments": {"b": 1}}));
        assert_eq!(text(&answer), format!("{name}({{\"b\":1}})"));
    }
}

// covers: AUTH-054
#[test]
fn scope_is_required_for_any_spelling_of_a_uri() {
    let mut router = TestRouter::new("x", "1");
    router.resource(Resource::new("files://Host/a%62", "ab"), target_text).expect("a resource");
    assert!(router.require_scope(EntryKind::Resource, "FILES://host/%61b", "files"));
    assert!(!router.require_scope(EntryKind::Resource, "files://host/b", "files"));
    let access = router.access_rules();
    assert_eq!(access.required_for(&crate::server::Caller::default(), "files://Host/ab"), ["files".into()]);
}

// covers: TOOL-021
#[test]
fn disabled_tool_has_no_audience() {
    let mut router = sample();
    router.enable(EntryKind::Tool, "mid", false).expect("a tool");
    let access = router.access_rules();
    assert!(access.tool_audience("mid").is_nobody());
    assert!(access.tool_audience("zeta").is_everyone() && access.tool_audience("none").is_everyone());
    router.enable(EntryKind::Tool, "mid", true).expect("a tool");
    assert!(router.access_rules().tool_audience("mid").is_everyone());
}
