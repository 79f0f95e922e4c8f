//! Tests of the routing of calls.

use alloc::boxed::Box;

use super::template::VariablePolicy;
use super::tests::*;
use super::*;

// covers: TOOL-010, TOOL-021, TOOL-024, RES-005, RES-015, RES-016, RES-017, PROMPT-004, PROMPT-010
#[test]
fn calls_reach_handlers_by_name_or_uri() {
    let router = sample();
    let mut harness = RouterHarness::new(&router);
    let mut ask = |method: &str, params: Value| harness.ask(&router, method, params);
    assert_eq!(text(&ask("tools/call", json!({"name": "mid", "arguments": {"a": 1}}))), r#"mid({"a":1})"#);
    assert_eq!(text(&ask("tools/call", json!({"name": "mid"}))), "mid({})");
    let unknown = ask("tools/call", json!({"name": "nope"}));
    assert_eq!((code(&unknown), &unknown["error"]["message"]), (-32602, &json!("unknown tool: nope")));
    assert_eq!(code(&ask("tools/call", json!({"name": 1}))), -32602);
    assert_eq!(code(&ask("tools/call", json!({"name": "mid", "arguments": []}))), -32602);

    assert_eq!(text(&ask("resources/read", json!({"uri": "TEST://static"}))), "TEST://static []");
    let read = ask("resources/read", json!({"uri": "test://template/1%202/data"}));
    assert_eq!(text(&read), "test://template/1%202/data [id=1 2]");
    assert_eq!(text(&ask("resources/read", json!({"uri": "test://x/y"}))), "test://x/y [rest=x/y]");
    for (uri, with_uri) in [
        (json!("none://here"), true),
        (json!("file:///../etc/passwd"), true),
        (json!("no uri"), true),
        (json!(format!("test://{}", "a".repeat(1 << 20))), false),
        (json!(7), false),
        (Value::Null, false),
    ] {
        let answer = ask("resources/read", json!({"uri": uri}));
        assert_eq!(code(&answer), -32602, "{uri}");
        assert_eq!(answer["error"]["data"]["uri"].as_str().is_some(), with_uri, "{answer}");
        assert!(answer.to_string().len() < 1_000);
    }

    let got = ask("prompts/get", json!({"name": "greet", "arguments": {"arg1": "x"}}));
    assert_eq!(text(&got), r#"greet: [("arg1", "x")]"#);
    for params in [
        json!({"name": "nope"}),
        json!({}),
        json!({"name": "greet"}),
        json!({"name": "greet", "arguments": {"arg2": "x"}}),
        json!({"name": "greet", "arguments": {"arg1": 5}}),
        json!({"name": "greet", "arguments": []}),
    ] {
        assert_eq!(code(&ask("prompts/get", params.clone())), -32602, "{params}");
    }
}

// covers: RES-015
#[test]
fn missing_resource_error_code_follows_revision() {
    let router = sample();
    let mut harness = RouterHarness::new(&router);
    let open = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    harness.ask_in(&router, Version::V2025_06_18, "initialize", open);
    harness.server.handle_input(NOW, b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    let (answer, _) =
        harness.ask_in(&router, Version::V2025_06_18, "resources/read", json!({"uri": "none://here"}));
    assert_eq!((code(&answer), &answer["error"]["data"]["uri"]), (-32002, &json!("none://here")));
}

// covers: COMP-002, COMP-003, COMP-006, COMP-007
#[test]
fn completions_are_found_by_reference_and_argument() {
    let router = sample();
    let mut harness = RouterHarness::new(&router);
    let mut ask = |reference: Value, name: &str| {
        let argument = json!({"name": name, "value": "v"});
        let context = json!({"arguments": {"other": "o"}});
        harness.ask(
            &router,
            "completion/complete",
            json!({"ref": reference, "argument": argument, "context": context}),
        )
    };
    let prompt = json!({"type": "ref/prompt", "name": "greet"});
    let family = json!({"type": "ref/resource", "uri": "test://template/{id}/data"});
    assert_eq!(text(&ask(prompt.clone(), "arg1")), r#"arg1~v with Some("o")"#);
    assert_eq!(text(&ask(family.clone(), "id")), r#"id~v with Some("o")"#);
    // The argument exists and has no completion handler.
    for (reference, name) in
        [(prompt.clone(), "arg2"), (json!({"type": "ref/resource", "uri": "test://static"}), "x")]
    {
        assert_eq!(ask(reference, name)["result"]["completion"]["values"], json!([]));
    }
    for (reference, name) in [
        (prompt, "arg3"),
        (family, "nope"),
        (json!({"type": "ref/prompt", "name": "nope"}), "arg1"),
        (json!({"type": "ref/resource", "uri": "none://{x}"}), "x"),
        (json!({"type": "ref/tool", "name": "mid"}), "x"),
        (json!("greet"), "arg1"),
    ] {
        assert_eq!(code(&ask(reference, name)), -32602);
    }
}

#[test]
fn unknown_method_falls_back_to_application() {
    let router = sample();
    let mut server = RouterHarness::new(&router);
    let config = router.config().custom_method("x/own");
    server.server = Server::new(Arc::new(config), NOW);
    let (_, done) = server.ask_in(&router, Version::V2026_07_28, "x/own", json!({}));
    assert_eq!(done, "other");
}

// covers: RES-009
#[test]
fn lookup_tries_only_templates_with_matching_prefix() {
    let mut router = TestRouter::new("many", "1");
    for i in 0..1_000 {
        router
            .resource_template(ResourceTemplate::new(format!("r{i}://{{id}}"), "n"), target_text)
            .expect("a template");
    }
    let mut harness = RouterHarness::new(&router);
    let answer = harness.ask(&router, "resources/read", json!({"uri": "r512://x"}));
    assert_eq!(text(&answer), "r512://x [id=x]");
    assert_eq!(router.prefixes.find("r512://x").len(), 1);
}

// covers: RES-009, RES-019
#[test]
fn match_cost_is_independent_of_template_count() {
    // Each template has its own prefix; one more has no prefix and matches almost every URI.
    let with = |families: usize| {
        let mut router = TestRouter::new("many", "1");
        for i in 0..families {
            let template = format!("fam{i}://{{id}}/{{+rest}}{{?q,r*}}");
            router.resource_template(ResourceTemplate::new(template, "n"), target_text).expect("a template");
        }
        router.resource_template(ResourceTemplate::new("{+any}!", "n"), target_text).expect("a template");
        router
    };
    let steps = |router: &TestRouter, uri: &str| {
        let tried = router.prefixes.find(uri);
        let cost = |number| router.templates.find_by_number(number)?.extra.template.count_steps(uri);
        (tried.len(), tried.into_iter().filter_map(cost).sum::<usize>())
    };
    let (few, many) = (with(10), with(2_000));
    let mut last = 0;
    for length in [10, 100, 1_000, 8_000] {
        for (unit, end) in [("a", ""), ("%2F", ""), ("../", "!"), ("?q=1&", "#"), ("A/", "?q=1&r=2")] {
            let uri = format!("fam7://{}{end}", unit.repeat(length / unit.len()));
            assert_eq!(steps(&few, &uri), steps(&many, &uri), "{unit} {length}");
        }
        let (tried, cost) = steps(&many, &format!("fam7://{}", "a".repeat(length)));
        assert_eq!(tried, 2);
        assert!(last == 0 || cost <= 11 * last, "{length} bytes: {cost} steps after {last}");
        last = cost;
    }
}

#[test]
fn router_is_send_and_sync() {
    fn shared<T: Send + Sync>() {}
    shared::<Router<TextHandler, Box<dyn Hook + Send + Sync>>>();
    shared::<Route<'_, TextHandler>>();
    shared::<PageCache>();
}

// covers: RES-022
#[test]
fn first_registered_template_wins_and_its_refusal_is_final() {
    let mut router = TestRouter::new("order", "1");
    for template in ["x:/{a}/{b}", "x:/{+rest}"] {
        router.resource_template(ResourceTemplate::new(template, "t"), target_text).expect("a template");
    }
    let mut harness = RouterHarness::new(&router);
    let mut read = |uri| harness.ask(&router, "resources/read", json!({"uri": uri}));
    assert_eq!(text(&read("x:/1/2")), "x:/1/2 [a=1,b=2]");
    assert_eq!(text(&read("x:/1/2/3")), "x:/1/2/3 [rest=1/2/3]");
    // Only the policy of the second template allows this URI.
    assert_eq!(code(&read("x:/1%2F2/3")), -32602);
    router.variable_policy("x:/{+rest}", VariablePolicy::dangerously_off()).expect("a template");
    let mut harness = RouterHarness::new(&router);
    assert_eq!(code(&harness.ask(&router, "resources/read", json!({"uri": "x:/1%2F2/3"}))), -32602);
}

// covers: RES-019, RES-026
#[test]
fn resource_lookup_ignores_host_case() {
    let mut router = TestRouter::new("hosts", "1");
    router.resource(Resource::new("https://Example.com/Doc", "doc"), target_text).expect("a resource");
    router
        .resource_template(ResourceTemplate::new("https://EXAMPLE.com/{x}/y", "t"), target_text)
        .expect("a template");
    assert!(router.resource(Resource::new("HTTPS://EXAMPLE.COM/Doc", "doc"), target_text).is_err());
    let mut harness = RouterHarness::new(&router);
    let mut read = |uri| harness.ask(&router, "resources/read", json!({"uri": uri}));
    assert_eq!(text(&read("HTTPS://EXAMPLE.com/Doc")), "HTTPS://EXAMPLE.com/Doc []");
    assert_eq!(text(&read("https://example.COM/A/y")), "https://example.COM/A/y [x=A]");
    assert!(code(&read("https://example.com/doc")) != 0);
}
