//! What lists say, page by page.

use core::time::Duration;

use super::tests::*;
use super::*;
use crate::vocab::Capability;

// covers: TOOL-001, TOOL-002, TOOL-004, TOOL-005, RES-001, RES-002, RES-003, RES-004, PROMPT-001, PROMPT-002
// covers: PROMPT-003, COMP-001
#[test]
fn what_is_registered_is_declared_and_listed_in_order() {
    let router = sample();
    let mut b = Bench::new(&router);
    let discovered = b.ask(&router, "server/discover", json!({}));
    let capabilities = &discovered["result"]["capabilities"];
    for member in ["tools", "resources", "prompts", "completions"] {
        assert!(capabilities[member].is_object(), "{capabilities}");
    }
    assert!(capabilities["logging"].is_null());
    assert_eq!(names(&b.ask(&router, "tools/list", json!({})), "tools"), ["zeta", "alpha", "mid"]);
    let resources = b.ask(&router, "resources/list", json!({}));
    assert_eq!(names(&resources, "resources"), ["test://static"]);
    assert_eq!(resources["result"]["resources"][0]["mimeType"], "text/plain");
    let templates = b.ask(&router, "resources/templates/list", json!({}));
    assert_eq!(names(&templates, "resourceTemplates").len(), 3);
    let prompts = b.ask(&router, "prompts/list", json!({}));
    assert_eq!(prompts["result"]["prompts"][0]["arguments"][0], json!({"name": "arg1", "required": true}));
    assert!(prompts["result"]["nextCursor"].is_null());

    let empty = TestRouter::new("empty", "1");
    let mut b = Bench::new(&empty);
    assert_eq!(code(&b.ask(&empty, "tools/list", json!({}))), -32601);
    let mut declared = TestRouter::new("later", "1");
    declared.declare(Capability::Tools).instructions("wait");
    let mut b = Bench::new(&declared);
    assert_eq!(names(&b.ask(&declared, "tools/list", json!({})), "tools"), [""; 0]);
    assert_eq!(b.ask(&declared, "server/discover", json!({}))["result"]["instructions"], "wait");
}

// covers: PAGE-001, PAGE-003, PAGE-004, PAGE-008, PAGE-010, PAGE-011
#[test]
fn pages_hold_together_while_entries_come_and_go() {
    let mut router = TestRouter::new("pages", "1");
    router.page_size_of(Kind::Tool, 3);
    for i in 0..10 {
        router.tool(tool(&format!("t{i}")), told).expect("a tool");
        router.prompt(Prompt::new(format!("p{i}")), told).expect("a prompt");
    }
    let mut b = Bench::new(&router);
    // Each list has a size of its own.
    let prompts = b.ask(&router, "prompts/list", json!({}));
    assert_eq!((names(&prompts, "prompts").len(), &prompts["result"]["nextCursor"]), (10, &Value::Null));
    let (mut seen, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let params = cursor.map_or_else(|| json!({}), |c| json!({"cursor": c}));
        let page = b.ask(&router, "tools/list", params);
        seen.extend(names(&page, "tools"));
        cursor = page["result"]["nextCursor"].as_str().map(String::from);
        if cursor.is_none() {
            break;
        }
        // The last one seen goes, the one behind it is hidden, another one comes.
        if seen.len() == 3 {
            router.remove(Kind::Tool, "t2");
            router.enable(Kind::Tool, "t3", false).expect("it is there");
            router.tool(tool("new"), told).expect("a tool");
        }
    }
    assert_eq!(seen, ["t0", "t1", "t2", "t4", "t5", "t6", "t7", "t8", "t9", "new"]);
    let cursor = b.ask(&router, "tools/list", json!({}))["result"]["nextCursor"].clone();
    assert!(cursor.is_string());
    assert_eq!(code(&b.ask(&router, "prompts/list", json!({"cursor": cursor}))), -32602, "of another list");
    for made_up in
        [json!(""), json!("3"), json!("3.00000000"), json!("x".repeat(100_000)), json!(3), json!({})]
    {
        assert_eq!(code(&b.ask(&router, "tools/list", json!({"cursor": made_up}))), -32602, "{made_up}");
    }
    let null = b.ask(&router, "tools/list", json!({"cursor": null}));
    assert_eq!(names(&null, "tools"), ["t0", "t1", "t4"]);
}

// covers: CACHE-001, CACHE-002, CACHE-003, CACHE-016, CACHE-017
#[test]
fn lists_say_how_long_they_may_be_kept_where_that_can_be_said() {
    let mut router = sample();
    router.page_size(2).cache_list(Kind::Tool, CacheHint::public(Duration::from_secs(60)));
    router.cache_resource("test://static", CacheHint::private(Duration::from_secs(5))).expect("known");
    router.cache_resource("file:///{+path}", CacheHint::private(Duration::ZERO)).expect("known");
    assert!(router.cache_resource("none://here", CacheHint::private(Duration::ZERO)).is_err());
    let mut b = Bench::new(&router);
    for params in
        [json!({}), json!({"cursor": b.ask(&router, "tools/list", json!({}))["result"]["nextCursor"]})]
    {
        let page = b.ask(&router, "tools/list", params);
        assert_eq!(
            (&page["result"]["ttlMs"], &page["result"]["cacheScope"]),
            (&json!(60_000), &json!("public"))
        );
    }
    let page = b.ask(&router, "prompts/list", json!({}));
    assert_eq!((&page["result"]["ttlMs"], &page["result"]["cacheScope"]), (&json!(0), &json!("private")));

    let call = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let mut legacy = Bench::new(&router);
    legacy.ask_in(&router, Version::V2025_06_18, "initialize", call);
    legacy.server.handle_input(NOW, b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    let (page, _) = legacy.ask_in(&router, Version::V2025_06_18, "tools/list", json!({}));
    assert_eq!(names(&page, "tools").len(), 2);
    assert!(page["result"]["ttlMs"].is_null() && page["result"]["resultType"].is_null());
}

#[test]
fn a_list_that_did_not_change_is_written_once() {
    let mut router = sample();
    let mut b = Bench::new(&router);
    let first = b.ask(&router, "tools/list", json!({}))["result"].clone();
    let pages = |b: &Bench| format!("{:?}", b.cache).len();
    let size = pages(&b);
    assert_eq!(b.ask(&router, "tools/list", json!({}))["result"], first);
    assert_eq!(pages(&b), size);
    router.remove(Kind::Tool, "mid");
    assert_eq!(names(&b.ask(&router, "tools/list", json!({})), "tools"), ["zeta", "alpha"]);
    assert!(pages(&b) < size, "the old page is gone");
}

// covers: PAGE-008
#[test]
fn a_page_is_written_again_for_another_identity() {
    let mut router = TestRouter::new("pages", "1");
    router.page_size(1);
    for name in ["a", "b"] {
        router.tool(tool(name), told).expect("a tool");
    }
    let mut b = Bench::new(&router);
    b.ask(&router, "tools/list", json!({}));
    // The check in cursors is another one from here on.
    router.info(crate::identity::Implementation::new("pages", "2"));
    let first = b.ask(&router, "tools/list", json!({}));
    let second = b.ask(&router, "tools/list", json!({"cursor": first["result"]["nextCursor"]}));
    assert_eq!(names(&second, "tools"), ["b"]);
}
