//! Tests of entries that some callers do not see: lists, calls, completion, templates, skills, nesting, caches.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;

use super::tests::*;
use super::*;
use crate::change::Change;
use crate::methods::{Capability, EntryKind};
use crate::server::{Announcement, Audience, Authorization, Caller, Identity};
use crate::testing::{Rng, rounds};

const LEGACY: Version = Version::V2025_11_25;

fn party(name: &str, scopes: &str) -> Authorization {
    Authorization::new(Identity::new(name).scopes(scopes))
}

pub(super) fn is_alice(caller: &Caller) -> bool {
    caller.principal() == Some("alice")
}

impl RouterHarness {
    /// Makes the requests from now on those of a principal.
    fn become_party(&mut self, name: &str, scopes: &str) {
        let channel = self.server.channel();
        self.server.engine().set_authorization(channel, Some(party(name, scopes)));
    }

    pub(super) fn ask_as(&mut self, router: &TestRouter, name: &str, method: &str, params: Value) -> Value {
        self.become_party(name, "");
        self.ask(router, method, params)
    }
}

/// Returns a router whose entries `hidden` are registered for alice alone, or not at all.
fn with_secrets(is_registered: bool) -> TestRouter {
    let mut router = TestRouter::new("secrets", "1");
    router.page_size(3);
    let kinds = [EntryKind::Tool, EntryKind::Prompt, EntryKind::Resource, EntryKind::ResourceTemplate];
    for kind in kinds {
        router.cache_list(kind, CacheHint::public(Duration::from_secs(60)));
    }
    for name in ["open", "hidden", "end"] {
        if !is_registered && name == "hidden" {
            continue;
        }
        let (uri, template) = (format!("x:{name}"), format!("{name}:{{id}}"));
        router.tool(tool(name), target_text).expect("a tool");
        let prompt = Prompt::new(name).arguments([PromptArgument::new("a")]);
        router.prompt(prompt, target_text).expect("a prompt");
        router.completion(PromptReference::new(name), "a", target_text).expect("a completion");
        router.resource(Resource::new(&*uri, name), target_text).expect("a resource");
        router.resource_template(ResourceTemplate::new(&*template, name), target_text).expect("a template");
        let family = ResourceTemplateReference::new(&*template);
        router.completion(family, "id", target_text).expect("a completion");
        if name == "hidden" {
            let names = [name, name, &uri, &template];
            for (kind, name) in kinds.into_iter().zip(names) {
                router.visible_to(kind, name, is_alice).expect("an entry");
                assert!(router.require_scope(kind, name, "needed"), "{name}");
            }
        }
    }
    router
}

const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
];

fn calls() -> [(&'static str, Value); 6] {
    let completion =
        |reference: Value, name: &str| json!({"ref": reference, "argument": {"name": name, "value": ""}});
    [
        ("tools/call", json!({"name": "hidden"})),
        ("prompts/get", json!({"name": "hidden"})),
        ("resources/read", json!({"uri": "x:hidden"})),
        ("resources/read", json!({"uri": "hidden:7"})),
        ("completion/complete", completion(json!({"type": "ref/prompt", "name": "hidden"}), "a")),
        ("completion/complete", completion(json!({"type": "ref/resource", "uri": "hidden:{id}"}), "id")),
    ]
}

// covers: TOOL-021, TOOL-024, RES-015, RES-016, COMP-007, AUTH-054, CACHE-019
#[test]
fn hidden_entries_answer_byte_for_byte_as_unknown_ones_and_visible_ones_are_challenged() {
    let (secret, plain) = (with_secrets(true), with_secrets(false));
    for version in [Version::V2026_07_28, LEGACY] {
        let initialize = |router: &TestRouter| {
            let mut harness = RouterHarness::new(router);
            if version == LEGACY {
                let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                    "clientInfo": {"name": "n", "version": "1"}});
                harness.ask_in(router, version, "initialize", params);
                let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
                harness.server.handle_input(NOW, line);
            }
            harness
        };
        let (mut one, mut other) = (initialize(&secret), initialize(&plain));
        for name in ["bob", "alice"] {
            one.become_party(name, "");
            other.become_party(name, "");
            for (method, params) in calls() {
                let (hidden, _) = one.ask_in(&secret, version, method, params.clone());
                let (unknown, _) = other.ask_in(&plain, version, method, params.clone());
                assert!(code(&unknown) != 0, "{method} {unknown}");
                if name == "bob" {
                    assert_eq!(hidden.to_string(), unknown.to_string(), "{method} {params}");
                } else {
                    let scopes = json!({"requiredScopes": ["needed"]});
                    assert_eq!(hidden["error"]["data"], scopes, "{method} {params}: {hidden}");
                }
            }
        }
        one.become_party("alice", "needed");
        for (method, params) in calls() {
            let (answer, routed) = one.ask_in(&secret, version, method, params);
            assert!(answer["result"].is_object() || routed == "handled", "{method}: {answer}");
        }
    }
    let mut harness = RouterHarness::new(&secret);
    for (method, member) in LISTS {
        let of_bob = harness.ask_as(&secret, "bob", method, json!({}));
        assert_eq!(names(&of_bob, member).len(), 2, "{of_bob}");
        let of_alice = harness.ask_as(&secret, "alice", method, json!({}));
        assert_eq!(names(&of_alice, member).len(), 3, "{of_alice}");
        for answer in [of_bob, of_alice] {
            assert_eq!(answer["result"]["cacheScope"], "private");
            assert!(answer["result"]["nextCursor"].is_null(), "{answer}");
        }
        let mut harness = RouterHarness::new(&plain);
        assert_eq!(harness.ask(&plain, method, json!({}))["result"]["cacheScope"], "public");
    }
}

#[test]
fn function_for_an_unknown_entry_is_an_error() {
    let mut router = with_secrets(true);
    for kind in EntryKind::ALL {
        let error = router.visible_to(kind, "none:", is_alice).expect_err("nothing is there");
        assert_eq!(error, RegisterError::Unknown { kind, name: "none:".into() });
    }
    let named = router.tool_entry("none").visible_to(is_alice);
    assert_eq!(format!("{named:?}"), "ToolEntry(None)");
}

/// Hooks that count calls by subject.
struct Subjects(Arc<AtomicUsize>);

impl Hook for Subjects {
    fn before_call(&self, context: &HookContext<'_>) -> Result<(), RpcError> {
        if context.subject() == Subject::Unknown {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[test]
fn hooks_see_a_hidden_entry_as_unknown() {
    let (mut router, unknown) = (with_secrets(true), Arc::new(AtomicUsize::new(0)));
    router.hook(Box::new(Subjects(unknown.clone())));
    let mut harness = RouterHarness::new(&router);
    for (method, params) in calls() {
        harness.ask_as(&router, "bob", method, params);
    }
    assert_eq!(unknown.load(Ordering::Relaxed), 6);
}

#[test]
fn template_serves_a_uri_whose_resource_is_hidden_and_no_shared_cache_keeps_it() {
    let mut router = TestRouter::new("x", "1");
    let hint = CacheHint::public(Duration::from_secs(5));
    router.resource(Resource::new("doc:plan", "plan"), target_text).expect("valid");
    router.resource(Resource::new("doc:open", "open"), target_text).expect("valid");
    router.resource_template(ResourceTemplate::new("doc:{name}", "any"), target_text).expect("valid");
    router.visible_to(EntryKind::Resource, "DOC:plan", is_alice).expect("a resource");
    for uri in ["doc:plan", "doc:open", "doc:{name}"] {
        router.cache_resource(uri, hint).expect("a resource");
    }
    let mut harness = RouterHarness::new(&router);
    let mut read = |name: &str, uri: &str| {
        harness.become_party(name, "");
        let line = json!({"jsonrpc": "2.0", "id": format!("{name} {uri}"), "method": "resources/read", "params": {"uri": uri,
            "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}}}});
        harness.server.handle_input(NOW, format!("{line}\n").as_bytes());
        let call = core::iter::from_fn(|| harness.server.poll_event(NOW));
        let call =
            call.filter_map(|event| if let Event::Call(call) = event { Some(call) } else { None }).last();
        let call = call.expect("a call");
        let Route::Handle(routed) = router.route(&call) else { panic!("not found") };
        let CallTarget::Resource(target) = &routed.target else { panic!("no resource") };
        let mut result = crate::model::ReadResourceResult::new(Vec::new());
        result.cache_scope = Some(crate::model::CacheScope::Public);
        target.limit_sharing(&mut result);
        let scope = target.cache.expect("a hint").scope();
        assert_eq!(Some(&scope), result.cache_scope.as_ref());
        (!target.variables.iter().any(|_| true), scope == crate::model::CacheScope::Public)
    };
    // Whether the resource itself was found, and whether anyone may share its content.
    assert_eq!(read("alice", "doc:plan"), (true, false));
    assert_eq!(read("bob", "doc:plan"), (false, false));
    assert_eq!((read("bob", "doc:open"), read("bob", "doc:other")), ((true, true), (false, true)));
}

/// Callers see entries whose names contain their own; the view is the principal, unless there is none.
struct ByName {
    asked: Arc<AtomicUsize>,
    is_open: Arc<AtomicBool>,
}

impl Visibility for ByName {
    fn is_visible(&self, caller: &Caller, entry: Subject<'_>) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let Subject::Tool(name) = entry else { return true };
        self.is_open.load(Ordering::Relaxed) || caller.principal().is_some_and(|own| name.contains(own))
    }

    fn view<'c>(&self, caller: &'c Caller) -> Option<Cow<'c, str>> {
        caller.principal().map(Cow::Borrowed)
    }
}

fn by_name() -> (ByName, Arc<AtomicUsize>, Arc<AtomicBool>) {
    let (asked, is_open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    (ByName { asked: asked.clone(), is_open: is_open.clone() }, asked, is_open)
}

#[test]
fn pages_of_a_view_are_remembered_until_something_changes() {
    let (visibility, asked, is_open) = by_name();
    let mut router = TestRouter::new("views", "1");
    router.visibility(visibility);
    for name in ["alice.1", "bob.1", "alice.2"] {
        router.tool(tool(name), target_text).expect("a tool");
    }
    let mut harness = RouterHarness::new(&router);
    let asks = |router: &TestRouter, harness: &mut RouterHarness, name: &str| {
        let before = asked.load(Ordering::Relaxed);
        let list = names(&harness.ask_as(router, name, "tools/list", json!({})), "tools");
        (list.join(" "), asked.load(Ordering::Relaxed) - before)
    };
    for round in 0..3 {
        let of_first = if round == 0 { 3 } else { 0 };
        assert_eq!(asks(&router, &mut harness, "alice"), ("alice.1 alice.2".into(), of_first));
        assert_eq!(asks(&router, &mut harness, "bob"), ("bob.1".into(), of_first));
    }
    // Rights change outside: remembered pages are used until the router knows.
    is_open.store(true, Ordering::Relaxed);
    assert_eq!(asks(&router, &mut harness, "bob"), ("bob.1".into(), 0));
    assert!(!router.visibility_changed().is_empty());
    assert_eq!(asks(&router, &mut harness, "bob"), ("alice.1 bob.1 alice.2".into(), 3));
    assert_eq!(asks(&router, &mut harness, "bob").1, 0);
    router.remove(EntryKind::Tool, "alice.2");
    assert_eq!(asks(&router, &mut harness, "bob"), ("alice.1 bob.1".into(), 2));
    // A function of a single entry is covered by the view.
    router.tool_entry("alice.1").visible_to(is_alice);
    assert_eq!(asks(&router, &mut harness, "bob"), ("bob.1".into(), 2));
    assert_eq!(asks(&router, &mut harness, "bob"), ("bob.1".into(), 0));
    // A nested router with functions and without views: nothing is remembered.
    let mut inner = TestRouter::new("inner", "1");
    inner.tool(tool("bob"), target_text).expect("a tool");
    inner.tool_entry("bob").visible_to(|_| true);
    router.nest("in", inner).expect("a router");
    for _ in 0..2 {
        assert_eq!(asks(&router, &mut harness, "bob"), ("bob.1 in.bob".into(), 3));
    }
}

#[test]
fn views_of_several_functions_are_told_apart() {
    struct Parts(usize);
    impl Visibility for Parts {
        fn is_visible(&self, caller: &Caller, entry: Subject<'_>) -> bool {
            let part = caller.principal().and_then(|name| name.split('/').nth(self.0));
            matches!((entry, part), (Subject::Tool(name), Some(part)) if name.split('-').nth(self.0) == Some(part))
        }
        fn view<'c>(&self, caller: &'c Caller) -> Option<Cow<'c, str>> {
            caller.principal()?.split('/').nth(self.0).map(Cow::Borrowed)
        }
    }
    let mut router = TestRouter::new("views", "1");
    router.visibility(Parts(0)).visibility(Parts(1));
    for name in ["1-11", "11-1"] {
        router.tool(tool(name), target_text).expect("a tool");
    }
    let mut harness = RouterHarness::new(&router);
    for (party, tool) in [("1/11", "1-11"), ("11/1", "11-1"), ("1/11", "1-11")] {
        assert_eq!(names(&harness.ask_as(&router, party, "tools/list", json!({})), "tools"), [tool]);
    }
}

#[test]
fn functions_of_outer_and_nested_router_all_have_to_agree() {
    let mut inner = TestRouter::new("inner", "1");
    for name in ["a", "b"] {
        inner.tool(tool(name), target_text).expect("a tool");
    }
    // It decides about the names that it knows, also when it is nested. A hook of an entry changes nothing about that.
    inner.visibility(|caller: &Caller, entry: Subject<'_>| entry != Subject::Tool("b") || is_alice(caller));
    let unknown = Arc::new(AtomicUsize::new(0));
    inner.hook_entry(EntryKind::Tool, "b", Box::new(Subjects(unknown.clone()))).expect("a tool");
    let mut router = TestRouter::new("outer", "1");
    router.tool(tool("b"), target_text).expect("a tool");
    router.nest("in", inner).expect("a router");
    let mut harness = RouterHarness::new(&router);
    let mut list = |router: &TestRouter, name: &str| {
        names(&harness.ask_as(router, name, "tools/list", json!({})), "tools").join(" ")
    };
    assert_eq!((list(&router, "alice"), list(&router, "bob")), ("b in.a in.b".into(), "b in.a".into()));
    router.visibility(|caller: &Caller, entry: Subject<'_>| {
        entry != Subject::Tool("in.a") || !is_alice(caller)
    });
    assert_eq!((list(&router, "alice"), list(&router, "bob")), ("b in.b".into(), "b in.a".into()));
    router.hook_entry(EntryKind::Tool, "in.a", Box::new(Subjects(unknown.clone()))).expect("a tool");
    let mut around = TestRouter::new("around", "1");
    around.nest("x", router).expect("a router");
    around.visibility(|caller: &Caller, _: Subject<'_>| caller.principal().is_some());
    assert_eq!(list(&around, "alice"), "x.b x.in.b");
    assert_eq!(list(&around, "bob"), "x.b x.in.a");
    for (name, is_seen) in [("x.in.b", false), ("x.in.a", true), ("x.b", true)] {
        let answer = harness.ask_as(&around, "bob", "tools/call", json!({"name": name}));
        assert_eq!(answer["error"].is_null(), is_seen, "{answer}");
    }
    let access = around.access_rules();
    for (name, is_seen) in [("x.in.b", false), ("x.in.a", true)] {
        let bob = Caller::from(party("bob", ""));
        assert_eq!(access.tool_audience(name).includes(&bob), is_seen, "{name}");
    }
    let channel = harness.server.channel();
    harness.server.engine().set_authorization(channel, None);
    assert_eq!(names(&harness.ask(&around, "tools/list", json!({})), "tools"), [""; 0]);
}

pub(super) fn skill_router() -> TestRouter {
    let mut router = TestRouter::new("skills", "1");
    for uri in ["skill://tides/SKILL.md", "skill://tides/ports/a.md", "skill://open/SKILL.md"] {
        router.resource(Resource::new(uri, uri), target_text).expect("a resource");
    }
    router.resource_template(ResourceTemplate::new("skill://tides/{name}", "t"), target_text).expect("valid");
    for root in ["skill://tides", "skill://open"] {
        router.skill(&TestSkill::new(root, Some(&["SKILL.md"]))).expect("a skill");
    }
    router.cache_list(EntryKind::Skill, CacheHint::public(Duration::from_secs(9)));
    router
}

// covers: SKILL-020, SKILL-024, SKILL-040
#[test]
fn hidden_skill_hides_everything_in_its_folder() {
    let plain = skill_router();
    let mut by_entry = skill_router();
    by_entry.visible_to(EntryKind::Skill, "SKILL://tides/SKILL.md", is_alice).expect("a skill");
    let mut by_router = skill_router();
    by_router.visibility(|caller: &Caller, entry: Subject<'_>| {
        entry != Subject::Skill("skill://tides/SKILL.md") || is_alice(caller)
    });
    let mut removed = skill_router();
    removed.visible_to(EntryKind::Skill, "skill://tides/SKILL.md", is_alice).expect("a skill");
    removed.remove(EntryKind::Skill, "skill://tides/SKILL.md");
    for (router, has_skill) in [(&by_entry, true), (&by_router, true), (&removed, false)] {
        let mut harness = RouterHarness::new(router);
        let count = |answer: &Value, member: &str| answer["result"][member].as_array().map(Vec::len);
        for (name, sees) in [("alice", true), ("bob", false)] {
            let mut ask = |method: &str, params: Value| harness.ask_as(router, name, method, params);
            let skills = ask("skills/list", json!({}));
            assert_eq!(count(&skills, "skills"), Some(1 + usize::from(sees && has_skill)), "{skills}");
            assert_eq!(skills["result"]["cacheScope"], "private");
            assert_eq!(count(&ask("resources/list", json!({})), "resources"), Some(if sees { 3 } else { 1 }));
            for uri in ["skill://tides/SKILL.md", "skill://tides/ports/a.md", "SKILL://tides/new.md"] {
                let read = ask("resources/read", json!({"uri": uri}));
                assert_eq!(read["result"].is_object(), sees, "{name} {uri} {read}");
            }
            let directory = ask("resources/directory/read", json!({"uri": "skill://tides"}));
            assert_eq!(count(&directory, "resources"), sees.then_some(2), "{directory}");
            let get = ask("skills/get", json!({"uri": "skill://tides/SKILL.md"}));
            assert_eq!(get["result"].is_object(), sees && has_skill, "{get}");
        }
    }
    // A hidden skill answers as an unknown one.
    let (mut one, mut other) = (RouterHarness::new(&by_entry), RouterHarness::new(&plain));
    let unknown = other.ask(&plain, "skills/get", json!({"uri": "skill://none/SKILL.md"})).to_string();
    let hidden = one.ask_as(&by_entry, "bob", "skills/get", json!({"uri": "skill://tides/SKILL.md"}));
    assert_eq!(hidden.to_string(), unknown.replace("none", "tides"));
}

#[test]
fn subscriptions_to_hidden_resources_need_no_scopes_and_have_no_audience() {
    let mut router = skill_router();
    router.visible_to(EntryKind::Skill, "skill://tides/SKILL.md", is_alice).expect("a skill");
    router.resource(Resource::new("doc:plan", "plan"), target_text).expect("valid");
    router.resource(Resource::new("doc:open", "open"), target_text).expect("valid");
    assert!(router.require_scope(EntryKind::Resource, "doc:plan", "plans"));
    router.visible_to(EntryKind::Resource, "doc:plan", is_alice).expect("a resource");
    let access = router.access_rules();
    let (alice, bob) = (Caller::from(party("alice", "")), Caller::from(party("bob", "")));
    assert_eq!(access.required_for(&alice, "DOC:plan").join(" "), "plans");
    assert!(access.required_for(&bob, "doc:plan").is_empty());
    for (uri, sees) in [
        ("doc:plan", false),
        ("doc:open", true),
        ("doc:unknown", true),
        ("skill://tides/SKILL.md", false),
        ("skill://tides/any.md", false),
        ("skill://tides/x/unknown.md", false),
        ("skill://open/SKILL.md", true),
        ("no URI", true),
    ] {
        let audience = access.resource_audience(uri);
        assert_eq!((audience.includes(&alice), audience.includes(&bob)), (true, sees), "{uri}");
        assert_eq!(audience.is_everyone(), sees, "{uri}");
    }
    // A template without functions serves the URI to those who do not see the resource.
    router.resource_template(ResourceTemplate::new("doc:{name}", "any"), target_text).expect("valid");
    assert!(router.access_rules().resource_audience("doc:plan").is_everyone());
    assert!(TestRouter::new("x", "1").access_rules().resource_audience("doc:plan").is_everyone());
}

fn announced(router: &mut TestRouter) -> Vec<(Change, Audience)> {
    let changes = router.take_changes().map(Announcement::into_parts);
    changes.map(|(change, audience)| (change.into_owned(), audience)).collect()
}

// covers: TOOL-019, RES-012, PROMPT-009
#[test]
fn entry_that_comes_and_goes_between_announcements_is_announced() {
    let mut router = TestRouter::new("r", "1");
    router.tool(tool("stays"), target_text).expect("a tool");
    announced(&mut router);
    router.tool(tool("goes"), target_text).expect("a tool");
    router.remove(EntryKind::Tool, "goes");
    assert_eq!(announced(&mut router), [(Change::Tools, Audience::EVERYONE)]);
    router.tool(tool("goes"), target_text).expect("a tool");
    router.visible_to(EntryKind::Tool, "goes", is_alice).expect("a tool");
    router.remove(EntryKind::Tool, "goes");
    let [(_, audience)] = &announced(&mut router)[..] else { panic!("one list") };
    assert!(audience.includes(&Caller::from(party("alice", ""))) && !audience.includes(&Caller::default()));
}

#[test]
fn changes_are_announced_to_those_who_saw_or_see_the_entry() {
    let (alice, bob) = (Caller::from(party("alice", "")), Caller::from(party("bob", "")));
    let is_bob = |caller: &Caller| caller.principal() == Some("bob");
    let mut router = with_secrets(true);
    announced(&mut router);
    let audiences = |router: &mut TestRouter| {
        let all = announced(router).into_iter();
        all.map(|(change, all)| (change, all.includes(&alice), all.includes(&bob))).collect::<Vec<_>>()
    };
    assert_eq!(audiences(&mut router), []);
    // Registered and restricted before the changes are taken.
    router.tool(tool("new"), target_text).expect("a tool");
    router.tool_entry("new").visible_to(is_alice);
    assert_eq!(audiences(&mut router), [(Change::Tools, true, false)]);
    router.tool_entry("new").title("New");
    assert_eq!(audiences(&mut router), [(Change::Tools, true, false)]);
    router.replace_tool(tool("new"), target_text).expect("a tool");
    router.enable(EntryKind::Prompt, "hidden", false).expect("a prompt");
    router.enable(EntryKind::Prompt, "open", false).expect("a prompt");
    assert_eq!(audiences(&mut router), [(Change::Tools, true, false), (Change::Prompts, true, true)]);
    // One that comes and goes, for those who could see it.
    router.tool(tool("short"), target_text).expect("a tool");
    router.remove(EntryKind::Tool, "short");
    assert_eq!(audiences(&mut router), [(Change::Tools, true, true)]);
    assert!(!router.has_changed(EntryKind::Tool));
    // Those who saw it before get to know that it is hidden.
    router.tool_entry("open").visible_to(is_bob);
    assert_eq!(audiences(&mut router), [(Change::Tools, true, true)]);
    router.remove(EntryKind::Tool, "open");
    router.remove(EntryKind::Resource, "x:hidden");
    assert_eq!(audiences(&mut router), [(Change::Tools, false, true), (Change::Resources, true, false)]);
    let mut inner = TestRouter::new("in", "1");
    inner.visibility(move |caller: &Caller, _: Subject<'_>| is_bob(caller));
    inner.tool(tool("a"), target_text).expect("a tool");
    router.nest("in", inner).expect("a router");
    assert_eq!(audiences(&mut router), [(Change::Tools, false, true)]);
    // Too many entries to tell apart.
    for i in 0..40 {
        router.tool(tool(&format!("t{i}")), target_text).expect("a tool");
        router.tool_entry(&format!("t{i}")).visible_to(is_alice);
    }
    assert_eq!(announced(&mut router), [(Change::Tools, Audience::EVERYONE)]);
    router.visibility_changed();
    assert_eq!(announced(&mut router).len(), 3);
    let mut router = skill_router();
    announced(&mut router);
    router.visible_to(EntryKind::Resource, "skill://open/SKILL.md", is_alice).expect("a resource");
    announced(&mut router);
    router.enable(EntryKind::Skill, "skill://open/SKILL.md", false).expect("a skill");
    assert_eq!(audiences(&mut router), [(Change::Resources, true, false)]);
}

#[test]
fn panicking_function_hides_its_entry_behind_a_guard() {
    let mut router = TestRouter::new("x", "1");
    router.guard_visibility(|function| {
        std::panic::catch_unwind(core::panic::AssertUnwindSafe(function)).unwrap_or(false)
    });
    for name in ["bad", "good"] {
        router.tool(tool(name), target_text).expect("a tool");
    }
    router.tool_entry("bad").visible_to(|_| panic!("a test of panics"));
    let mut harness = RouterHarness::new(&router);
    assert_eq!(names(&harness.ask(&router, "tools/list", json!({})), "tools"), ["good"]);
    assert_eq!(code(&harness.ask(&router, "tools/call", json!({"name": "bad"}))), -32602);
    router.tool_entry("bad").title("t");
    let mut changes = announced(&mut router).into_iter();
    assert!(changes.all(|(_, audience)| audience.is_everyone() || !audience.includes(&Caller::default())));
}

/// A model of a router: names in order, whether each is enabled, and the callers who see it.
type Model = Vec<(u64, String, bool, Arc<AtomicUsize>)>;

// covers: PAGE-003, PAGE-010
#[test]
fn every_page_equals_the_model_after_any_changes() {
    const CALLERS: [&str; 4] = ["c0", "c1", "c2", "c3"];
    struct ByCaller(Arc<AtomicBool>);
    impl Visibility for ByCaller {
        fn is_visible(&self, _: &Caller, _: Subject<'_>) -> bool {
            true
        }
        fn view<'c>(&self, caller: &'c Caller) -> Option<Cow<'c, str>> {
            self.0.load(Ordering::Relaxed).then(|| caller.principal().unwrap_or_default().into())
        }
    }
    for seed in 0..rounds(20) {
        let (mut rng, mut model, mut numbers) = (Rng::new(seed), Model::new(), 0);
        let has_views = Arc::new(AtomicBool::new(false));
        let mut router = TestRouter::new("model", "1");
        router.declare(Capability::Tools).page_size(3).visibility(ByCaller(has_views.clone()));
        let mut harness = RouterHarness::new(&router);
        // The last listed number of each caller who is in the middle of a list, with the cursor.
        let mut walks: [Option<(u64, String)>; 4] = Default::default();
        for step in 0..300 {
            let at = rng.below(model.len());
            match rng.below(8) {
                0 | 1 => {
                    numbers += 1;
                    let (name, mask) = (format!("t{step}"), Arc::new(AtomicUsize::new(rng.below(16))));
                    router.tool(tool(&name), target_text).expect("a tool");
                    let of_entry = mask.clone();
                    router.tool_entry(&name).visible_to(move |caller| {
                        let caller = CALLERS.iter().position(|name| caller.principal() == Some(name));
                        caller.is_some_and(|bit| of_entry.load(Ordering::Relaxed) & 1 << bit != 0)
                    });
                    model.push((numbers, name, true, mask));
                }
                2 => {
                    if let Some((_, name, is_enabled, _)) = model.get_mut(at) {
                        *is_enabled = !*is_enabled;
                        router.enable(EntryKind::Tool, name, *is_enabled).expect("a tool");
                    }
                }
                3 if model.len() > 20 => {
                    let (_, name, ..) = model.remove(at);
                    router.remove(EntryKind::Tool, &name);
                }
                4 | 5 => {
                    if let Some((.., mask)) = model.get(at) {
                        mask.store(rng.below(16), Ordering::Relaxed);
                        router.visibility_changed();
                    }
                }
                6 => has_views.store(rng.below(2) == 0, Ordering::Relaxed),
                _ => {}
            }
            let caller = rng.below(4);
            let (after, params) = match walks[caller].take() {
                Some((after, cursor)) => (after, json!({"cursor": cursor})),
                None => (0, json!({})),
            };
            let answer = harness.ask_as(&router, CALLERS[caller], "tools/list", params);
            let mut visible = model.iter().filter(|(number, _, is_enabled, mask)| {
                *number > after && *is_enabled && mask.load(Ordering::Relaxed) & 1 << caller != 0
            });
            let page: Vec<_> = visible.by_ref().take(3).collect();
            let expected: Vec<_> = page.iter().map(|(_, name, ..)| name.clone()).collect();
            assert_eq!(names(&answer, "tools"), expected, "seed {seed}, step {step}");
            let cursor = answer["result"]["nextCursor"].as_str();
            assert_eq!(cursor.is_some(), visible.next().is_some(), "seed {seed}, step {step}: {answer}");
            walks[caller] = cursor.and_then(|cursor| Some((page.last()?.0, cursor.into())));
            for (_, name, is_enabled, mask) in model.iter().skip(rng.below(model.len())).take(1) {
                let answer = harness.ask(&router, "tools/call", json!({"name": name}));
                let sees = *is_enabled && mask.load(Ordering::Relaxed) & 1 << caller != 0;
                assert_eq!(answer["result"].is_object(), sees, "seed {seed}, step {step}: {answer}");
            }
        }
    }
}

#[test]
fn function_that_changes_its_mind_within_a_page_leaves_the_page_whole() {
    let (mut router, asked) = (TestRouter::new("fickle", "1"), Arc::new(AtomicUsize::new(0)));
    router.page_size(4);
    for i in 0..40 {
        router.tool(tool(&format!("t{i}")), target_text).expect("a tool");
    }
    let count = asked.clone();
    router.visibility(move |_: &Caller, _: Subject<'_>| count.fetch_add(1, Ordering::Relaxed) % 3 != 1);
    let mut harness = RouterHarness::new(&router);
    let (mut seen, mut params) = (Vec::new(), json!({}));
    loop {
        let answer = harness.ask(&router, "tools/list", params);
        let page = names(&answer, "tools");
        seen.extend(page.clone());
        let Some(cursor) = answer["result"]["nextCursor"].as_str() else { break };
        assert_eq!(page.len(), 4, "a page with a cursor is full");
        params = json!({"cursor": cursor});
    }
    let numbers: Vec<u32> = seen.iter().filter_map(|name| name.strip_prefix('t')?.parse().ok()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]) && numbers.len() > 20, "{numbers:?}");
}
