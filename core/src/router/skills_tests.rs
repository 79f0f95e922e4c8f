//! Tests of skills: their list, their entries, directories, and what a client may see.

use core::time::Duration;

use super::tests::*;
use super::*;
use crate::methods::EntryKind;

fn entry(root: &str, paths: &[&str]) -> TestSkill {
    TestSkill::new(root, Some(paths))
}

fn add(router: &mut TestRouter, root: &str, paths: &[&str]) {
    for path in paths {
        let resource = Resource::new(format!("{root}/{path}"), *path).mime_type("text/markdown");
        router.resource(resource, target_text).expect("a resource");
    }
    router.skill(&entry(root, paths)).expect("a skill");
}

const REFUNDS: &str = "skill://Acme/billing/refunds";

fn sample_skills() -> TestRouter {
    let mut router = TestRouter::new("skills", "1");
    add(&mut router, REFUNDS, &["SKILL.md", "a-b.md", "a/x.md", "a/y/z.md", "a.md", "nested/deep/SKILL.md"]);
    add(&mut router, "skill://tides", &["SKILL.md"]);
    router
}

fn uris(answer: &Value, member: &str) -> Vec<String> {
    let entries = answer["result"][member].as_array().unwrap_or_else(|| panic!("{answer}"));
    entries.iter().map(|entry| entry["uri"].as_str().expect("a URI").into()).collect()
}

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
}

// covers: SKILL-001, SKILL-002, SKILL-003, SKILL-004, SKILL-010, SKILL-020, SKILL-023, SKILL-024
#[test]
fn skills_are_declared_listed_and_served_in_every_revision() {
    let router = sample_skills();
    let mut harness = RouterHarness::new(&router);
    let capabilities = harness.ask(&router, "server/discover", json!({}))["result"]["capabilities"].clone();
    assert_eq!(capabilities["extensions"]["io.modelcontextprotocol/skills"], json!({"directoryRead": true}));
    assert!(capabilities["resources"].is_object());
    let list = harness.ask(&router, "skills/list", json!({}));
    assert_eq!(uris(&list, "skills"), [&*format!("{REFUNDS}/SKILL.md"), "skill://tides/SKILL.md"]);
    let listed = &list["result"]["skills"][1];
    assert_eq!(*listed, serde_json::to_value(entry("skill://tides", &["SKILL.md"])).expect("JSON"));
    let got = harness.ask(&router, "skills/get", json!({"uri": "skill://tides/SKILL.md"}));
    assert_eq!(got["result"]["skill"], *listed);
    for result in [&list["result"], &got["result"]] {
        assert_eq!(result["resultType"], "complete", "{result}");
        assert!(result["ttlMs"].is_u64() && result["cacheScope"] == "private", "{result}");
        assert!(result["nextCursor"].is_null());
    }

    let mut legacy = RouterHarness::new(&router);
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let (hello, _) = legacy.ask_in(&router, Version::V2025_06_18, "initialize", hello);
    assert!(hello["result"]["capabilities"]["extensions"]["io.modelcontextprotocol/skills"].is_object());
    let (list, _) = legacy.ask_in(&router, Version::V2025_06_18, "skills/list", json!({}));
    assert_eq!(list["result"]["skills"][1], *listed);
    assert!(list["result"]["ttlMs"].is_null() && list["result"]["resultType"].is_null(), "{list}");
}

// covers: SKILL-025, SKILL-028, SKILL-043
#[test]
fn unknown_skills_and_files_are_invalid_params() {
    let router = sample_skills();
    let mut harness = RouterHarness::new(&router);
    for uri in ["skill://none/SKILL.md", "skill://tides", "skill://Acme/billing/refunds/a.md", "no uri", ""] {
        assert_eq!(code(&harness.ask(&router, "skills/get", json!({"uri": uri}))), -32602, "{uri}");
    }
    let answer = harness.ask(&router, "skills/get", json!({"uri": "skill://none/SKILL.md"}));
    assert_eq!(answer["error"]["message"], "no skill is served at skill://none/SKILL.md");
    for params in [json!({}), json!({"uri": 1})] {
        assert_eq!(code(&harness.ask(&router, "skills/get", params.clone())), -32602);
        assert_eq!(code(&harness.ask(&router, "resources/directory/read", params)), -32602);
    }
    for uri in [
        "skill://tides/SKILL.md",
        "skill://tides/",
        "skill://none",
        "skill://",
        "skill:/",
        "skill:",
        "skill://Acme/billing/refunds/a/x",
        "skill://Acme/billing/refunds/a/../a",
        "no uri",
        "",
    ] {
        assert_eq!(
            code(&harness.ask(&router, "resources/directory/read", json!({"uri": uri}))),
            -32602,
            "{uri}"
        );
    }
    assert_eq!(
        code(&harness.ask(&router, "resources/read", json!({"uri": "skill://tides/none.md"}))),
        -32602
    );

    let none = sample();
    let mut harness = RouterHarness::new(&none);
    for method in ["skills/list", "skills/get", "resources/directory/read"] {
        assert_eq!(code(&harness.ask(&none, method, json!({"uri": "skill://tides"}))), -32601, "{method}");
    }
}

// covers: SKILL-040, SKILL-041, SKILL-042
#[test]
fn directory_lists_its_own_files_and_directories() {
    let router = sample_skills();
    let mut harness = RouterHarness::new(&router);
    let mut read = |uri: &str| harness.ask(&router, "resources/directory/read", json!({"uri": uri}));
    let root = read(REFUNDS);
    let expected = ["SKILL.md", "a-b.md", "a.md", "a", "nested"].map(|path| format!("{REFUNDS}/{path}"));
    assert_eq!(uris(&root, "resources"), expected, "the spelling of the server");
    let entries = &root["result"]["resources"];
    assert_eq!((&entries[0]["mimeType"], &entries[0]["name"]), (&json!("text/markdown"), &json!("SKILL.md")));
    assert_eq!((&entries[3]["mimeType"], &entries[3]["name"]), (&json!("inode/directory"), &json!("a")));
    assert_eq!(root["result"]["resultType"], "complete");
    assert_eq!(uris(&read("skill://acme/billing/refunds/a"), "resources").len(), 2, "the host ignores case");
    assert_eq!(uris(&read("skill://Acme/billing/refunds/a/y"), "resources"), [format!("{REFUNDS}/a/y/z.md")]);
    assert_eq!(uris(&read("skill://Acme"), "resources"), ["skill://Acme/billing"]);
    assert_eq!(uris(&read("skill://Acme/billing/refunds/nested"), "resources").len(), 1);
}

// covers: SKILL-021, SKILL-022, SKILL-044, PAGE-011
#[test]
fn lists_and_directories_have_pages() {
    let mut router = TestRouter::new("pages", "1");
    router.page_size(2);
    router.cache_list(EntryKind::Skill, CacheHint::public(Duration::from_secs(60)));
    for i in 0..5 {
        add(&mut router, &format!("skill://all/s{i}"), &["SKILL.md", "b.md"]);
    }
    let mut harness = RouterHarness::new(&router);
    for (method, uri, member, count) in
        [("skills/list", "", "skills", 5), ("resources/directory/read", "skill://all", "resources", 5)]
    {
        let (mut seen, mut params) = (Vec::new(), json!({"uri": uri}));
        loop {
            let page = harness.ask(&router, method, params.clone());
            seen.extend(uris(&page, member));
            if method == "skills/list" {
                assert_eq!(
                    (&page["result"]["ttlMs"], &page["result"]["cacheScope"]),
                    (&json!(60_000), &json!("public"))
                );
            }
            let Some(cursor) = page["result"]["nextCursor"].as_str() else { break };
            params["cursor"] = cursor.into();
        }
        let mut distinct = seen.clone();
        distinct.dedup();
        assert_eq!((seen.len(), distinct.len()), (count, count), "{method}");
        // A cursor of another list is refused, and one that is no text.
        for cursor in [json!("1.00000000"), json!("x"), json!(7)] {
            let answer = harness.ask(&router, method, json!({"uri": uri, "cursor": cursor}));
            assert_eq!(code(&answer), -32602, "{method} {cursor}");
        }
    }
    let page = harness.ask(&router, "resources/directory/read", json!({"uri": "skill://all"}));
    let cursor = &page["result"]["nextCursor"];
    let other = json!({"uri": "skill://all/s1", "cursor": cursor});
    assert_eq!(code(&harness.ask(&router, "resources/directory/read", other)), -32602);
}

// covers: SKILL-019, SKILL-026
#[test]
fn hidden_and_removed_skills_are_not_served() {
    let mut router = sample_skills();
    let tides = "skill://tides/SKILL.md";
    let _ = router.take_changes().count();
    router.enable(EntryKind::Resource, tides, false).expect("registered");
    let mut harness = RouterHarness::new(&router);
    let mut serves = |router: &TestRouter| {
        let list = uris(&harness.ask(router, "skills/list", json!({})), "skills");
        let got = harness.ask(router, "skills/get", json!({"uri": tides}));
        assert_eq!(list.iter().any(|uri| uri == tides), got["result"].is_object());
        got["result"].is_object()
    };
    assert!(!serves(&router), "what cannot be read is not listed");
    router.enable(EntryKind::Resource, tides, true).expect("registered");
    assert!(serves(&router));
    assert_eq!(router.enable(EntryKind::Skill, tides, false), Ok(ChangedLists::from_kind(EntryKind::Skill)));
    assert!(!serves(&router));
    assert!(router.enable(EntryKind::Skill, "skill://none/SKILL.md", true).is_err());
    router.enable(EntryKind::Skill, tides, true).expect("registered");
    assert!(router.take_changes().any(|change| change == crate::Change::Resources));
    assert_eq!(router.remove(EntryKind::Skill, tides), ChangedLists::from_kind(EntryKind::Skill));
    assert_eq!(router.remove(EntryKind::Skill, tides), ChangedLists::NONE);
    assert!(!serves(&router));
    router.skill(&entry("skill://tides", &["SKILL.md"])).expect("the resource is still there");
    assert!(serves(&router));
}

// covers: SKILL-002, SKILL-017
#[test]
fn skill_without_its_files_is_not_registered() {
    let mut router = sample_skills();
    let again = router.skill(&entry("skill://tides", &["SKILL.md"]));
    let uri = "skill://tides/SKILL.md".to_string();
    assert_eq!(again, Err(RegisterError::Duplicate { kind: EntryKind::Skill, name: uri }));
    let missing = router.replace_skill(&entry("skill://tides", &["SKILL.md", "b.md"]));
    let uri = "skill://tides/b.md".to_string();
    assert_eq!(missing, Err(RegisterError::Unknown { kind: EntryKind::Resource, name: uri }));
    let mut wrong = entry("skill://tides", &["SKILL.md"]);
    wrong.frontmatter["name"] = json!("other");
    let refused = router.replace_skill(&wrong).expect_err("refused").to_string();
    assert!(refused.contains("the name `other`"), "{refused}");
    let dynamic = TestSkill::new("skill://live/report", None);
    assert!(router.skill(&dynamic).is_err(), "nothing serves its SKILL.md");
    router
        .resource_template(ResourceTemplate::new("skill://live/{+path}", "live"), target_text)
        .expect("a template");
    router.skill(&dynamic).expect("served by the template");
    let mut harness = RouterHarness::new(&router);
    let got = harness.ask(&router, "skills/get", json!({"uri": "skill://live/report/SKILL.md"}));
    assert_eq!(got["result"]["skill"]["resources"], "dynamic");
    let read = harness.ask(&router, "resources/read", json!({"uri": "skill://live/report/SKILL.md"}));
    assert!(read["result"].is_object(), "{read}");
}

// covers: SKILL-003
#[test]
fn directories_are_read_only_if_declared() {
    let mut router = TestRouter::new("plain", "1");
    router.extension("io.modelcontextprotocol/skills", raw(&json!({}))).expect("valid");
    add(&mut router, "skill://tides", &["SKILL.md"]);
    let mut harness = RouterHarness::new(&router);
    assert_eq!(
        code(&harness.ask(&router, "resources/directory/read", json!({"uri": "skill://tides"}))),
        -32601
    );
    assert_eq!(uris(&harness.ask(&router, "skills/list", json!({})), "skills").len(), 1);
}

// covers: SKILL-010
#[test]
fn nested_router_brings_its_skills() {
    let mut router = TestRouter::new("outer", "1");
    router.nest("inner", sample_skills()).expect("nested");
    let mut harness = RouterHarness::new(&router);
    assert_eq!(uris(&harness.ask(&router, "skills/list", json!({})), "skills").len(), 2);
    assert!(router.nest("again", sample_skills()).is_err());
    assert_eq!(uris(&harness.ask(&router, "skills/list", json!({})), "skills").len(), 2);
}
