//! Rules for principals and scopes of a token: skills, and reports of deprecated features.

use mcp_extensions::skills::{Skill, SkillResource, SkillResources};
use mcp_proto::http::server::Config;
use mcp_proto::model::{Resource, ResourceTemplate};
use mcp_proto::router::{Route, Router};
use mcp_proto::server::{Caller, Identity};
use mcp_proto::{DeprecatedFeature, EntryKind, RawJson};
use mcp_tests::harness::HttpServerHarness;
use serde_json::{Value, json};

use super::scopes::send;
use super::tokens::protected;
use super::{CALL_FIELDS, ECHO_PARAMS, answer_call, harness, modern_request};

const FOLDER: &str = "skill://Harbour/tides";

fn resource(router: &mut Router<()>, uri: &str) {
    router.resource(Resource::new(uri, uri), ()).expect("valid");
}

fn skill(root: &str, resources: impl Into<SkillResources>) -> Skill {
    let name = root.rsplit('/').next().expect("a name");
    let front_matter = format!(r#"{{"name":"{name}","description":"d"}}"#);
    Skill::new(format!("{root}/SKILL.md"), RawJson::new(front_matter).expect("JSON"), resources)
}

/// Returns a router with a skill with two files and a template, and with another skill.
fn harbour() -> Router<()> {
    let mut router = Router::<()>::new("x", "1");
    let file = |path: &str| {
        SkillResource::new(format!("{FOLDER}/{path}"), format!("sha256:{}", "ab".repeat(32)), 1u64)
    };
    for path in ["SKILL.md", "ports.md"] {
        resource(&mut router, &format!("{FOLDER}/{path}"));
    }
    resource(&mut router, "skill://open/SKILL.md");
    let template = ResourceTemplate::new("skill://{+path}", "any");
    router.resource_template(template, ()).expect("valid");
    router.skill(&skill(FOLDER, vec![file("SKILL.md"), file("ports.md")])).expect("valid");
    router.skill(&skill("skill://open", SkillResources::Dynamic)).expect("valid");
    router
}

/// Asks a router over HTTP with a token with these scopes; handlers answer `{}`.
fn ask(
    router: &Router<()>,
    web: &mut HttpServerHarness,
    scopes: &str,
    method: &str,
    uri: &str,
) -> (u16, Value) {
    let params = if uri.is_empty() { String::new() } else { format!("\"uri\":\"{uri}\"") };
    let name = if method == "resources/read" { uri } else { "" };
    let fields = [CALL_FIELDS[0], ("Mcp-Method", method), ("Mcp-Name", name)];
    let body = modern_request(1, method, &params);
    let x = send(web, ("POST", "/mcp"), &fields, &body, Identity::new("alice").scopes(scopes));
    if let Some(event) = web.poll_event() {
        let mcp_proto::server::Event::Call(call) = event else { panic!("{event:?}") };
        let (now, engine) = (web.now, web.server.engine());
        match router.route(&call) {
            Route::Answer(answer) => engine.complete(now, call.id(), &answer),
            Route::Handle(_) => engine.complete(now, call.id(), &json!({"contents": []})),
            Route::Refuse(error) => engine.fail(now, call.id(), &error),
            route => panic!("{route:?}"),
        }
        .expect("open");
        web.transmit_all();
    }
    let reply = web.response(x);
    (reply.status, reply.messages().pop().unwrap_or_default())
}

fn uris(answer: &Value, member: &str) -> Vec<String> {
    let entries = answer["result"][member].as_array().unwrap_or_else(|| panic!("{answer}"));
    entries.iter().map(|entry| entry["uri"].as_str().expect("a URI").into()).collect()
}

// covers: AUTH-054, SKILL-020, SKILL-042
#[test]
fn scope_of_skill_guards_all_that_is_served_in_its_folder() {
    let mut router = harbour();
    assert!(!router.require_scope(EntryKind::Skill, "skill://Harbour/none/SKILL.md", "files"));
    assert!(router.require_scope(EntryKind::Skill, "SKILL://harbour/tides/SKILL.md", "files"));
    // Registered after the scope was.
    resource(&mut router, &format!("{FOLDER}/later/new.md"));
    resource(&mut router, "skill://Harbour/tides2");
    let mut outer = Router::<()>::new("x", "1");
    outer.nest("a", router).expect("valid");
    let router = outer;

    let mut web = HttpServerHarness::new(router.config(), Config::new().protected(protected()));
    let mut ask = |scopes: &str, method: &str, uri: &str| ask(&router, &mut web, scopes, method, uri);
    for (uri, is_guarded) in [
        (&*format!("{FOLDER}/SKILL.md"), true),
        ("SKILL://harbour/tid%65s/ports.md", true),
        ("skill://Harbour/tides/later/new.md", true),
        ("skill://Harbour/tides/by/template.md", true),
        ("skill://Harbour/tides2", false),
        ("skill://Harbour/other/x.md", false),
        ("skill://open/SKILL.md", false),
    ] {
        let expected = if is_guarded { 403 } else { 200 };
        assert_eq!(ask("", "resources/read", uri).0, expected, "{uri}");
        assert_eq!(ask("files", "resources/read", uri).0, 200, "{uri}");
        let needed = router.access_rules().required_for(&Caller::default(), uri);
        assert_eq!(needed.iter().any(|scope| &**scope == "files"), is_guarded, "a subscription to {uri}");
    }
    assert_eq!(uris(&ask("", "skills/list", "").1, "skills"), ["skill://open/SKILL.md"]);
    assert_eq!(uris(&ask("files", "skills/list", "").1, "skills").len(), 2);
    let entry = format!("{FOLDER}/SKILL.md");
    assert_eq!(ask("", "skills/get", &entry).0, 403);
    assert_eq!(ask("files", "skills/get", &entry).0, 200);
    let directory = "resources/directory/read";
    assert_eq!(uris(&ask("", directory, "skill://Harbour").1, "resources"), ["skill://Harbour/tides2"]);
    for folder in [FOLDER, "skill://Harbour/tides/later"] {
        assert_eq!(ask("", directory, folder).1["error"]["code"], -32602, "{folder}");
        assert_eq!(ask("files", directory, folder).0, 200, "{folder}");
    }
}

// covers: AUTH-054
#[test]
fn scope_of_skill_outlasts_the_skill_and_counts_as_a_change() {
    let mut router = harbour();
    let uri = format!("{FOLDER}/SKILL.md");
    let _ = router.take_changes().count();
    assert!(router.require_scope(EntryKind::Skill, &uri, "files"));
    assert!(router.take_changes().any(|change| change == mcp_proto::Change::Resources));
    assert!(!router.remove(EntryKind::Skill, &uri).is_empty());
    assert_eq!(
        router.access_rules().required_for(&Caller::default(), &uri).join(" "),
        "files",
        "its files are still there"
    );
}

// covers: LOG-015
#[test]
fn deprecated_feature_is_reported_once_per_principal() {
    let mut web = harness(Config::new().protected(protected()));
    let level = "\"io.modelcontextprotocol/logLevel\":\"error\",\"io.modelcontextprotocol/protocolVersion\"";
    let body = modern_request(1, "tools/call", ECHO_PARAMS);
    let body = body.replace("\"io.modelcontextprotocol/protocolVersion\"", level);
    for (principal, expected) in [("alice", 1), ("bob", 2), ("alice", 2), ("bob", 2), ("carol", 3)] {
        send(&mut web, ("POST", "/mcp"), &CALL_FIELDS, &body, Identity::new(principal));
        let call = web.expect_call();
        answer_call(&mut web, &call);
        assert_eq!(web.deprecated_features, vec![DeprecatedFeature::Logging; expected], "{principal}");
    }
}
