//! Tests of lists and their pages.

use core::time::Duration;

use super::tests::*;
use super::*;
use crate::methods::{Capability, EntryKind};

// covers: TOOL-001, TOOL-002, TOOL-004, TOOL-005, RES-001, RES-002, RES-003, RES-004, PROMPT-001, PROMPT-002
// covers: PROMPT-003, COMP-001
#[test]
fn registered_entries_are_declared_and_listed_in_order() {
    let router = sample();
    let mut harness = RouterHarness::new(&router);
    let discovered = harness.ask(&router, "server/discover", json!({}));
    let capabilities = &discovered["result"]["capabilities"];
    for member in ["tools", "resources", "prompts", "completions"] {
        assert!(capabilities[member].is_object(), "{capabilities}");
    }
    assert!(capabilities["logging"].is_null());
    assert_eq!(names(&harness.ask(&router, "tools/list", json!({})), "tools"), ["zeta", "alpha", "mid"]);
    let resources = harness.ask(&router, "resources/list", json!({}));
    assert_eq!(names(&resources, "resources"), ["test://static"]);
    assert_eq!(resources["result"]["resources"][0]["mimeType"], "text/plain");
    let templates = harness.ask(&router, "resources/templates/list", json!({}));
    assert_eq!(names(&templates, "resourceTemplates").len(), 3);
    let prompts = harness.ask(&router, "prompts/list", json!({}));
    assert_eq!(prompts["result"]["prompts"][0]["arguments"][0], json!({"name": "arg1", "required": true}));
    assert!(prompts["result"]["nextCursor"].is_null());

    let empty = TestRouter::new("empty", "1");
    let mut harness = RouterHarness::new(&empty);
    assert_eq!(code(&harness.ask(&empty, "tools/list", json!({}))), -32601);
    let mut declared = TestRouter::new("later", "1");
    declared.declare(Capability::Tools).instructions("wait");
    let mut harness = RouterHarness::new(&declared);
    assert_eq!(names(&harness.ask(&declared, "tools/list", json!({})), "tools"), [""; 0]);
    assert_eq!(harness.ask(&declared, "server/discover", json!({}))["result"]["instructions"], "wait");
}

// covers: PAGE-001, PAGE-003, PAGE-004, PAGE-008, PAGE-010, PAGE-011
#[test]
fn cursor_survives_list_changes_between_pages() {
    let mut router = TestRouter::new("pages", "1");
    router.page_size_of(EntryKind::Tool, 3);
    for i in 0..10 {
        router.tool(tool(&format!("t{i}")), target_text).expect("a tool");
        router.prompt(Prompt::new(format!("p{i}")), target_text).expect("a prompt");
    }
    let mut harness = RouterHarness::new(&router);
    // Each list has its own page size.
    let prompts = harness.ask(&router, "prompts/list", json!({}));
    assert_eq!((names(&prompts, "prompts").len(), &prompts["result"]["nextCursor"]), (10, &Value::Null));
    let (mut seen, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let params = cursor.map_or_else(|| json!({}), |c| json!({"cursor": c}));
        let page = harness.ask(&router, "tools/list", params);
        seen.extend(names(&page, "tools"));
        cursor = page["result"]["nextCursor"].as_str().map(String::from);
        if cursor.is_none() {
            break;
        }
        // The entry at the cursor is removed, the one behind it is hidden, another is added.
        if seen.len() == 3 {
            router.remove(EntryKind::Tool, "t2");
            router.enable(EntryKind::Tool, "t3", false).expect("it is there");
            router.tool(tool("new"), target_text).expect("a tool");
        }
    }
    assert_eq!(seen, ["t0", "t1", "t2", "t4", "t5", "t6", "t7", "t8", "t9", "new"]);
    let cursor = harness.ask(&router, "tools/list", json!({}))["result"]["nextCursor"].clone();
    assert!(cursor.is_string());
    assert_eq!(
        code(&harness.ask(&router, "prompts/list", json!({"cursor": cursor}))),
        -32602,
        "of another list"
    );
    for made_up in
        [json!(""), json!("3"), json!("3.00000000"), json!("x".repeat(100_000)), json!(3), json!({})]
    {
        assert_eq!(
            code(&harness.ask(&router, "tools/list", json!({"cursor": made_up}))),
            -32602,
            "{made_up}"
        );
    }
    let null = harness.ask(&router, "tools/list", json!({"cursor": null}));
    assert_eq!(names(&null, "tools"), ["t0", "t1", "t4"]);
}

// covers: CACHE-001, CACHE-002, CACHE-003, CACHE-016, CACHE-017
#[test]
fn cache_hints_are_written_in_modern_revisions_only() {
    let mut router = sample();
    router.page_size(2).cache_list(EntryKind::Tool, CacheHint::public(Duration::from_secs(60)));
    router.cache_resource("test://static", CacheHint::private(Duration::from_secs(5))).expect("known");
    router.cache_resource("file:///{+path}", CacheHint::private(Duration::ZERO)).expect("known");
    assert!(router.cache_resource("none://here", CacheHint::private(Duration::ZERO)).is_err());
    let mut harness = RouterHarness::new(&router);
    for params in
        [json!({}), json!({"cursor": harness.ask(&router, "tools/list", json!({}))["result"]["nextCursor"]})]
    {
        let page = harness.ask(&router, "tools/list", params);
        assert_eq!(
            (&page["result"]["ttlMs"], &page["result"]["cacheScope"]),
            (&json!(60_000), &json!("public"))
        );
    }
    let page = harness.ask(&router, "prompts/list", json!({}));
    assert_eq!((&page["result"]["ttlMs"], &page["result"]["cacheScope"]), (&json!(0), &json!("private")));

    let call = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let mut legacy = RouterHarness::new(&router);
    legacy.ask_in(&router, Version::V2025_06_18, "initialize", call);
    legacy.server.handle_input(NOW, b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    let (page, _) = legacy.ask_in(&router, Version::V2025_06_18, "tools/list", json!({}));
    assert_eq!(names(&page, "tools").len(), 2);
    assert!(page["result"]["ttlMs"].is_null() && page["result"]["resultType"].is_null());
}

#[test]
fn unchanged_list_page_is_serialized_once() {
    let mut router = sample();
    let mut harness = RouterHarness::new(&router);
    let first = harness.ask(&router, "tools/list", json!({}))["result"].clone();
    let pages = |harness: &RouterHarness| format!("{:?}", harness.cache).len();
    let size = pages(&harness);
    assert_eq!(harness.ask(&router, "tools/list", json!({}))["result"], first);
    assert_eq!(pages(&harness), size);
    router.remove(EntryKind::Tool, "mid");
    assert_eq!(names(&harness.ask(&router, "tools/list", json!({})), "tools"), ["zeta", "alpha"]);
    assert!(pages(&harness) < size, "the old page is gone");
}

// covers: PAGE-008
#[test]
fn changed_identity_invalidates_cached_page() {
    let mut router = TestRouter::new("pages", "1");
    router.page_size(1);
    for name in ["a", "b"] {
        router.tool(tool(name), target_text).expect("a tool");
    }
    let mut harness = RouterHarness::new(&router);
    harness.ask(&router, "tools/list", json!({}));
    // The check value of cursors changes with the version.
    router.info(crate::identity::Implementation::new("pages", "2"));
    let first = harness.ask(&router, "tools/list", json!({}));
    let second = harness.ask(&router, "tools/list", json!({"cursor": first["result"]["nextCursor"]}));
    assert_eq!(names(&second, "tools"), ["b"]);
}
