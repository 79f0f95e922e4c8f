//! Tests of the folders of skills: spellings of URIs, templates, skills that are disabled or removed, remembered pages.

use alloc::borrow::Cow;

use super::tests::*;
use super::visibility_tests::{is_alice, skill_router};
use super::*;
use crate::methods::EntryKind;
use crate::server::Caller;

const SKILL: &str = "skill://tides/SKILL.md";

/// Hides a skill and the tool `t` from all but alice. All others are one view.
struct HidesSkill;

impl Visibility for HidesSkill {
    fn is_visible(&self, caller: &Caller, entry: Subject<'_>) -> bool {
        entry != Subject::Skill(SKILL) || is_alice(caller)
    }

    fn view<'c>(&self, caller: &'c Caller) -> Option<Cow<'c, str>> {
        Some(if is_alice(caller) { "alice" } else { "others" }.into())
    }
}

fn count(answer: &Value, member: &str) -> usize {
    answer["result"][member].as_array().map_or(0, Vec::len)
}

#[test]
fn other_spelling_of_a_file_does_not_lead_into_a_hidden_folder() {
    let with_template = || {
        let mut router = skill_router();
        router
            .resource_template(ResourceTemplate::new("skill://{+path}", "all"), target_text)
            .expect("valid");
        router
    };
    let mut by_entry = with_template();
    by_entry.visible_to(EntryKind::Skill, SKILL, is_alice).expect("a skill");
    let mut by_router = with_template();
    by_router.visibility(HidesSkill);
    let mut by_scope = with_template();
    assert!(by_scope.require_scope(EntryKind::Skill, SKILL, "tides"));
    for router in [&by_entry, &by_router, &by_scope] {
        let mut harness = RouterHarness::new(router);
        for uri in [
            "skill://tides/x.md",
            "skill://./tides/x.md",
            "skill:///tides//x.md",
            "skill://%74ides/x.md",
            "skill://tides/./x.md",
        ] {
            let read = harness.ask_as(router, "bob", "resources/read", json!({"uri": uri}));
            assert!(read["error"].is_object(), "{uri}: {read}");
        }
        let open = harness.ask_as(router, "bob", "resources/read", json!({"uri": "skill://open/./x.md"}));
        assert!(open["result"].is_object(), "{open}");
    }
}

#[test]
fn template_of_a_hidden_folder_is_hidden_with_its_completions() {
    let with_completion = || {
        let mut router = skill_router();
        let family = ResourceTemplateReference::new("skill://tides/{name}");
        router.completion(family, "name", target_text).expect("a template");
        router
    };
    let complete = json!({
        "ref": {"type": "ref/resource", "uri": "skill://tides/{name}"}, "argument": {"name": "name", "value": ""}
    });
    let mut by_entry = with_completion();
    by_entry.visible_to(EntryKind::Skill, SKILL, is_alice).expect("a skill");
    let mut by_router = with_completion();
    by_router.visibility(HidesSkill);
    for router in [&by_entry, &by_router] {
        let mut harness = RouterHarness::new(router);
        for (name, sees) in [("alice", true), ("bob", false)] {
            let list = harness.ask_as(router, name, "resources/templates/list", json!({}));
            assert_eq!(count(&list, "resourceTemplates"), usize::from(sees), "{list}");
            let answer = harness.ask_as(router, name, "completion/complete", complete.clone());
            assert_eq!(answer["result"].is_object(), sees, "{answer}");
        }
    }
    let mut by_scope = with_completion();
    assert!(by_scope.require_scope(EntryKind::Skill, SKILL, "tides"));
    let mut harness = RouterHarness::new(&by_scope);
    let answer = harness.ask_as(&by_scope, "bob", "completion/complete", complete);
    assert!(answer["error"]["data"]["requiredScopes"].is_array(), "{answer}");
}

#[test]
fn disabled_or_removed_skill_still_hides_its_files() {
    for is_removed in [false, true] {
        let mut router = skill_router();
        router.visibility(HidesSkill);
        if is_removed {
            router.remove(EntryKind::Skill, SKILL);
        } else {
            router.enable(EntryKind::Skill, SKILL, false).expect("a skill");
        }
        let mut harness = RouterHarness::new(&router);
        let list = harness.ask_as(&router, "bob", "resources/list", json!({}));
        assert_eq!(count(&list, "resources"), 1, "{list}");
        let read =
            harness.ask_as(&router, "bob", "resources/read", json!({"uri": "skill://tides/ports/a.md"}));
        assert!(read["error"].is_object(), "{read}");
        let read =
            harness.ask_as(&router, "alice", "resources/read", json!({"uri": "skill://tides/ports/a.md"}));
        assert!(read["result"].is_object(), "{read}");
    }
}

#[test]
fn remembered_list_of_resources_follows_skills() {
    let mut router = skill_router();
    router.remove(EntryKind::Skill, SKILL);
    router.visibility(HidesSkill);
    let mut harness = RouterHarness::new(&router);
    let mut list =
        |router: &TestRouter| count(&harness.ask_as(router, "bob", "resources/list", json!({})), "resources");
    // No skill hides them yet.
    assert_eq!(list(&router), 3);
    router.skill(&TestSkill::new("skill://tides", Some(&["SKILL.md"]))).expect("a skill");
    assert_eq!(list(&router), 1);
    router.enable(EntryKind::Skill, SKILL, false).expect("a skill");
    assert_eq!(list(&router), 1);
}
