//! The `check` command: every rule is violated once and found; correct servers have no findings.

use alloc::collections::BTreeSet;
use core::time::Duration;
use std::sync::Mutex;
use std::thread;

use mcp_proto::model::UI_MIME_TYPE;
use serde_json::{Value, json};

use crate::check_protection::RULES;
use crate::shell_server::{
    ShellServer, capabilities, complete, discovered, error_action, error_code_action, method_pattern,
    print_action, result_action, welcome,
};
use crate::support::{PROBE, ProbeOutput, REVISIONS, probe, probe_own_server};

/// Returns the names of the checks with findings, without the note on `logging`, which all fixtures declare, and that on the tool of
/// the own server that has limits.
pub(crate) fn found_rules(done: &ProbeOutput) -> BTreeSet<String> {
    let findings = done.json();
    let findings = findings.as_array().into_iter().flatten();
    let others = findings.filter(|finding| finding["what"] != "1 tool with limits of arguments: `count`");
    let names = others.map(|finding| finding["check"].as_str());
    names.map(|name| name.expect("a name").to_owned()).filter(|name| name != DEPRECATED).collect()
}

/// The check whose findings are notes on deprecated features.
const DEPRECATED: &str = "deprecated-feature";

/// Returns the deprecated features that are noted, in order.
pub(crate) fn noted_features(done: &ProbeOutput) -> Vec<String> {
    let findings = done.json();
    let notes = findings.as_array().into_iter().flatten().filter(|finding| finding["check"] == DEPRECATED);
    let mut names: Vec<_> = notes
        .map(|note| {
            assert_eq!((&note["severity"], &note["where"]), (&json!("note"), &json!("the server")), "{done}");
            note["what"].as_str().and_then(|text| text.split(" (").next()).expect("a name").to_owned()
        })
        .collect();
    names.sort();
    names
}

/// Returns faulty servers, each with its exact findings.
fn cases() -> Vec<(Vec<&'static str>, ShellServer)> {
    let mut cases = wire();
    cases.extend(introductions());
    cases.extend(modern());
    cases.extend(answers());
    cases.extend(lists());
    cases.extend(entries());
    cases.extend(schemas());
    cases.extend(events());
    cases
}

/// Returns servers with one event type.
fn events() -> Vec<(Vec<&'static str>, ShellServer)> {
    const EXTENSION: &str = "io.modelcontextprotocol/events";
    let any = json!({"type": "object"});
    let described =
        json!({"name": "tide.changed", "delivery": ["poll"], "inputSchema": any, "payloadSchema": any});
    let listed = json!({"events": [described]});
    let polled = json!({"events": [], "cursor": "c", "nextPollMs": 1000});
    let server = |declared: &Value, list: &Value, poll: &Value, code: i64| {
        let mut found = discovered();
        for (name, settings) in declared.as_object().expect("an object") {
            found["capabilities"][name] = settings.clone();
        }
        ShellServer::modern()
            .on_line("*'\"name\":\"mcp-probe/unknown\"'*", &error_code_action(code))
            .replace_method("server/discover", &result_action(&found))
            .replace_method("events/list", &result_action(&complete(list.clone())))
            .replace_method("events/poll", &result_action(&complete(poll.clone())))
    };
    let declared = json!({"extensions": {EXTENSION: {}}, "events": {}});
    let with_type = |member: &str, value: Value| {
        let mut described = described.clone();
        described[member] = value;
        server(&declared, &json!({"events": [described]}), &polled, -32023)
    };
    let with_poll = |member: &str, value: Value| {
        let mut polled = polled.clone();
        polled[member] = value;
        server(&declared, &listed, &polled, -32023)
    };
    let with_refusal = |code: i64| {
        let one = "*'\"name\":\"tide.changed\"'*";
        server(&declared, &listed, &polled, -32023).on_line(one, &error_code_action(code))
    };
    let both = json!({"events": [described, described]});
    vec![
        (vec![], server(&declared, &listed, &polled, -32023)),
        (vec![], server(&declared, &listed, &polled, -32011)),
        (vec![], with_poll("cursor", Value::Null)),
        (vec!["events-declared"], server(&json!({"events": {}}), &listed, &polled, -32023)),
        (vec!["event-list"], server(&declared, &json!({"events": {}}), &polled, -32023)),
        (vec!["event-list"], server(&declared, &json!({"events": [], "nextCursor": ""}), &polled, -32023)),
        (vec!["event-type"], server(&declared, &both, &polled, -32023)),
        (vec!["event-type"], with_type("name", json!(""))),
        (vec!["event-type"], with_type("delivery", json!(["poll", "pull"]))),
        (vec!["event-type"], with_type("payloadSchema", json!(true))),
        (vec!["event-poll"], with_poll("events", Value::Null)),
        (vec!["event-poll"], with_poll("events", json!([{"eventId": "e"}]))),
        (vec!["event-poll"], with_poll("cursor", json!(7))),
        (vec!["event-poll"], with_poll("truncated", json!("no"))),
        (vec!["event-type"], with_type("delivery", json!(["poll", "push", "poll"]))),
        (vec!["event-refused"], with_refusal(-32024)),
        (vec!["event-refused"], with_refusal(-32025)),
        (vec!["event-refused"], with_refusal(-32012)),
        (vec!["event-refused"], with_refusal(-32013)),
        (vec!["event-poll"], with_refusal(-32603)),
        (vec!["event-poll-time"], with_poll("nextPollMs", json!(-1))),
        (vec!["event-poll-time"], with_poll("nextPollMs", Value::Null)),
        (vec!["event-unknown"], server(&declared, &listed, &polled, -32602)),
    ]
}

fn wire() -> Vec<(Vec<&'static str>, ShellServer)> {
    let good = ShellServer::legacy;
    let unknown = method_pattern("mcp-probe/unknown");
    let id_7 = json!({"jsonrpc": "2.0", "id": 7, "result": {}}).to_string();
    let listing = ["tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping"];
    let listing: Vec<_> = listing.iter().map(|name| method_pattern(name)).collect();
    let error = |id: &str, code: i64| {
        print_action(&format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":{code},"message":"no"}}}}"#))
    };
    vec![
        (vec!["no-answer"], good().on_line(&unknown, ":")),
        (vec!["died"], good().on_line(&unknown, "exit 3")),
        (vec!["stuck-by-line"], good().on_line("*'is no JSON'*", "exit 3")),
        (vec!["died", "gave-up"], good().on_line(&listing.join("|"), "exit 3")),
        (vec!["stdout-noise"], good().with_prelude("echo Welcome; echo '[1,2'; echo '{\"level\":\"info\"}'")),
        (vec!["not-utf8"], good().with_prelude("printf '\\377\\n'")),
        (
            vec!["malformed-message"],
            good().on_line(&unknown, "printf '{\"jsonrpc\":\"2.0\",\"id\":%s}\\n' \"$id\""),
        ),
        (
            vec!["sent-batch"],
            good().on_line(
                &unknown,
                &error_code_action(-32601).replace("printf '{", "printf '[{").replace("}\\n", "}]\\n"),
            ),
        ),
        (
            vec!["stray-answer"],
            good().on_line(&unknown, &[error_code_action(-32601), error_code_action(-32601)].join("; ")),
        ),
        (vec!["id-changed"], good().on_line("*'\"id\":\"007\"'*", &print_action(&id_7))),
        (vec!["notification-answered"], good().on_line("*notifications/mcp-probe/*", &error("", -32601))),
        (
            vec!["server-request"],
            good().on_line(
                &method_pattern("notifications/initialized"),
                &print_action(r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#),
            ),
        ),
        (
            vec!["unasked-notification"],
            good().on_line(
                &method_pattern("notifications/initialized"),
                &print_action(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#),
            ),
        ),
        (vec!["stays"], good().with_epilogue("exec sleep 50")),
        (vec!["leftovers"], good().with_prelude("sleep 50 </dev/null >/dev/null 2>&1 &")),
        (vec!["parse-error"], good().on_line("*'is no JSON'*", &error("", -32000))),
        (vec!["null-id"], good().on_line("*'is no JSON'*", &error("\"id\":null,", -32700))),
        (
            vec!["parallel"],
            good()
                .on_line("*'\"id\":\"mcp-probe '*", &("burst=1; ".to_owned() + &result_action(&json!({}))))
                .replace_method(
                    "ping",
                    &format!("if [ \"$burst\" ]; then burst=; else {}; fi", result_action(&json!({}))),
                ),
        ),
    ]
}

fn introductions() -> Vec<(Vec<&'static str>, ShellServer)> {
    let good = ShellServer::legacy;
    let answer = |result: &Value| good().on_line(&method_pattern("initialize"), &result_action(result));
    let unknown = "*1999-12-31*";
    let all = capabilities();
    let without = |name: &str| {
        let mut some = capabilities();
        some.as_object_mut().expect("an object").remove(name);
        answer(&welcome("2025-11-25", &some))
    };
    let mut nameless = welcome("2025-11-25", &all);
    nameless["serverInfo"] = json!({"name": "fixture"});
    let mut odd = all.clone();
    odd["logging"] = json!(true);
    odd["tools"] = json!({"listChanged": "yes"});
    let welcome = |version| result_action(&welcome(version, &all));
    vec![
        (vec!["initialize-result"], answer(&nameless)),
        (vec!["capabilities"], answer(&crate::shell_server::welcome("2025-11-25", &odd))),
        (vec!["version-unknown"], good().on_line(unknown, &welcome("1999-12-31"))),
        (
            vec!["not-a-server", "version-unknown"],
            good().on_line(
                &method_pattern("initialize"),
                &result_action(&crate::shell_server::welcome("1.0", &all)),
            ),
        ),
        (vec!["version-refused"], good().on_line(unknown, &error_code_action(-32603))),
        (vec!["version-unstable"], good().on_line(unknown, &welcome("2025-06-18"))),
        (vec!["version-modern"], good().on_line(unknown, &welcome("2026-07-28"))),
        (vec!["served-not-declared"], without("logging")),
        (vec!["undeclared-code"], without("completions")),
        (vec!["served-not-declared"], without("tools")),
        (vec!["declared-not-served"], good().with_error("prompts/list", -32601)),
        (vec!["templates-not-served"], good().with_error("resources/templates/list", -32601)),
    ]
}

fn modern() -> Vec<(Vec<&'static str>, ShellServer)> {
    let good = ShellServer::modern;
    let without = |member: &str| {
        let mut result = complete(json!({"prompts": []}));
        result.as_object_mut().expect("an object").remove(member);
        good().with_result("prompts/list", &result)
    };
    let discover = |result: Value| good().replace_method("server/discover", &result_action(&result));
    let mut texts = discovered();
    texts["instructions"] = json!(5);
    let mut versions = discovered();
    versions["supportedVersions"] = json!(["2026-07-28", "2025-11-25"]);
    let mut extensions = discovered();
    extensions["capabilities"]["extensions"] = json!({"mine": {}});
    let mut public = complete(json!({"tools": []}));
    public["cacheScope"] = json!("public");
    let mut first = complete(json!({"tools": []}));
    first["nextCursor"] = json!("two");
    let tool = |name: &str| json!({"name": name, "title": "T", "description": "D", "inputSchema": {"type": "object", "additionalProperties": false}});
    let order = |a: &str, b: &str| result_action(&complete(json!({"tools": [tool(a), tool(b)]})));
    let alternating = format!(
        "n=$((1 - ${{n:-0}})); if [ $n = 1 ]; then {}; else {}; fi",
        order("a", "b"),
        order("b", "a")
    );
    let made_up = "*'\"cursor\":\"mcp-probe'*";
    vec![
        (vec!["discover-result"], discover(texts)),
        (vec!["discover-versions"], discover(versions)),
        (vec!["extension-id"], discover(extensions)),
        (vec!["unsupported-version"], good().on_line("*1999-12-31*", &result_action(&discovered()))),
        (vec!["missing-meta"], good().on_line("*'\"method\":\"server/discover\"}'", &result_action(&discovered()))),
        (vec!["result-type"], without("resultType")),
        (vec!["cache-hints"], without("ttlMs")),
        (vec!["server-info"], without("_meta")),
        (
            vec!["cache-scope"],
            good().on_line("*'\"cursor\":\"two\"'*", &result_action(&public)).with_result("tools/list", &first),
        ),
        (vec!["removed-method"], good().on_line(&method_pattern("ping"), &result_action(&complete(json!({}))))),
        (
            vec!["reserved-code", "unknown-resource-modern"],
            good().on_line(
                "*'mcp-probe-unknown://'*",
                &error_action(&json!({"code": -32002, "message": "no", "data": {"uri": "mcp-probe-unknown://unknown/unknown"}})),
            ),
        ),
        (vec!["order"], good().on_line(made_up, &error_code_action(-32602)).on_line(&method_pattern("tools/list"), &alternating)),
        (vec!["declared-not-served"], listening(&error_code_action(-32601))),
        (vec!["declared-not-served"], listening(&acknowledge("{}", "$id"))),
        (vec!["subscription"], listening(&error_code_action(-32603))),
        (vec!["subscription"], listening(":")),
        (vec!["subscription"], listening(&result_action(&complete(json!({}))))),
        (vec!["subscription"], listening(&acknowledge("[]", "$id"))),
        (vec!["subscription-id"], listening(&acknowledge(TOOLS, "999"))),
        (
            vec!["subscription-filter"],
            listening(&acknowledge(r#"{"toolsListChanged":true,"promptsListChanged":true}"#, "$id")),
        ),
        (
            vec!["version-modern"],
            good()
                .on_line(&method_pattern("initialize"), &result_action(&welcome("2026-07-28", &capabilities())))
                .with_args(&["--era", "auto"]),
        ),
        (
            vec!["initialize-unnamed"],
            good().on_line(&method_pattern("initialize"), &error_code_action(-32601)).with_args(&["--era", "auto"]),
        ),
    ]
}

/// A correct server that declares changes of its tools and answers a listen request with `action`.
fn listening(action: &str) -> ShellServer {
    let mut result = discovered();
    result["capabilities"]["tools"] = json!({"listChanged": true});
    ShellServer::modern()
        .replace_method("server/discover", &result_action(&result))
        .replace_method("subscriptions/listen", action)
}

/// Returns the action that acknowledges a subscription.
fn acknowledge(honoured: &str, id: &str) -> String {
    let line = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":%s,"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}"#;
    format!("printf '{line}\\n' '{honoured}' \"{id}\"")
}

const TOOLS: &str = r#"{"toolsListChanged":true}"#;

fn answers() -> Vec<(Vec<&'static str>, ShellServer)> {
    let good = ShellServer::legacy;
    let unknown_tool =
        "*'\"name\":\"mcp-probe-unknown\"'*'tools/call'*|*'tools/call'*'\"name\":\"mcp-probe-unknown\"'*";
    let unknown_prompt = "*'prompts/get'*mcp-probe-unknown*";
    let no_params = "*'\"method\":\"tools/call\"}'";
    let failed = json!({"content": [], "isError": true});
    let batch = "'['*";
    let in_batch = "id=${id%%\\}*}; ";
    vec![
        (vec!["ping"], good().replace_method("ping", &result_action(&json!({"time": 1})))),
        (vec!["unknown-method"], good().with_error("mcp-probe/unknown", -32600)),
        (vec!["envelope-accepted"], good().on_line("*'\"jsonrpc\":\"1.0\"'*", &result_action(&json!({})))),
        (vec!["envelope-code"], good().on_line("*'\"jsonrpc\":\"1.0\"'*", &error_code_action(-32000))),
        (vec!["envelope-silent"], good().on_line("*'\"jsonrpc\":\"1.0\"'*", ":")),
        (vec!["params-accepted"], good().on_line(no_params, &result_action(&json!({"content": []})))),
        (vec!["params-code"], good().on_line(no_params, &error_code_action(-32603))),
        (
            vec!["batch-refused"],
            good()
                .on_line(
                    &method_pattern("initialize"),
                    &result_action(&welcome("2025-03-26", &capabilities())),
                )
                .with_args(&["--protocol-version", "2025-03-26"]),
        ),
        (vec!["batch-accepted"], good().on_line(batch, &format!("{in_batch}{}", result_action(&json!({}))))),
        (
            vec!["unknown-tool-accepted"],
            good().on_line(unknown_tool, &result_action(&json!({"content": []}))),
        ),
        (vec!["unknown-tool-result"], good().on_line(unknown_tool, &result_action(&failed))),
        (vec!["unknown-tool-code"], good().on_line(unknown_tool, &error_code_action(-32000))),
        (vec!["unknown-prompt"], good().on_line(unknown_prompt, &result_action(&json!({"messages": []})))),
        (
            vec!["prompt-argument"],
            good().on_line("*'prompts/get'*'\"name\":\"ask\"'*", &result_action(&json!({"messages": []}))),
        ),
        (
            vec!["unknown-resource"],
            good().on_line("*'mcp-probe-unknown://'*", &result_action(&json!({"contents": []}))),
        ),
        (vec!["resource-data"], good().on_line("*'mcp-probe-unknown://'*", &error_code_action(-32002))),
        (vec!["log-level"], good().on_line("*'\"level\":\"mcp-probe\"'*", &result_action(&json!({})))),
        (
            vec!["completion-ref"],
            good().on_line(
                &method_pattern("completion/complete"),
                &result_action(&json!({"completion": {"values": []}})),
            ),
        ),
    ]
}

fn lists() -> Vec<(Vec<&'static str>, ShellServer)> {
    let good = ShellServer::legacy;
    let resource = |name: &str| json!({"name": name, "title": "T", "description": "D", "uri": format!("demo:{name}"), "mimeType": "text/plain"});
    let page = |names: &[&str], next: Option<&str>| {
        let entries: Vec<_> = names.iter().map(|name| resource(name)).collect();
        let mut page = json!({"resources": entries});
        if let Some(next) = next {
            page["nextCursor"] = json!(next);
        }
        page
    };
    let paged = |first: Value, second: Value| {
        good()
            .on_line("*'\"cursor\":\"two\"'*", &result_action(&second))
            .with_result("resources/list", &first)
    };
    let mut null = page(&["a"], None);
    null["nextCursor"] = Value::Null;
    let endless = "n=$((${n:-0} + 1)); printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"resources\":[],\"nextCursor\":\"%s\"}}\\n' \"$id\" $n";
    let order = |a: &str, b: &str| result_action(&page(&[a, b], None));
    let alternating = format!(
        "n=$((1 - ${{n:-0}})); if [ $n = 1 ]; then {}; else {}; fi",
        order("a", "b"),
        order("b", "a")
    );
    let made_up = "*'\"cursor\":\"mcp-probe'*";
    let listing = method_pattern("resources/list");
    vec![
        (vec!["list-shape"], good().with_result("resources/list", &null)),
        (vec!["list-shape"], good().with_result("resources/list", &json!({"resources": {}}))),
        (vec!["cursor-loop"], paged(page(&["a"], Some("two")), page(&["b"], Some("two")))),
        (
            vec!["list-endless"],
            good().on_line(made_up, &error_code_action(-32602)).on_line(&listing, endless),
        ),
        (vec!["duplicate"], good().with_result("resources/list", &page(&["a", "a"], None))),
        (vec!["duplicate-pages"], paged(page(&["a", "b"], Some("two")), page(&["b", "c"], None))),
        (
            vec!["order-other"],
            good().on_line(made_up, &error_code_action(-32602)).on_line(&listing, &alternating),
        ),
        (vec!["invalid-cursor"], good().on_line(&listing, &result_action(&page(&["a"], None)))),
        // Two correct pages.
        (vec![], paged(page(&["a"], Some("two")), page(&["b"], None))),
    ]
}

fn entries() -> Vec<(Vec<&'static str>, ShellServer)> {
    let with =
        |list: &str, member: &str, value: Value| ShellServer::legacy().with_member(list, member, &value);
    let icon = |src: &str| json!([{"src": src, "sizes": ["48x48", "any"], "theme": "dark"}]);
    let argument = |name: &str| json!({"name": name, "description": "D"});
    let page = "*'\"method\":\"resources/read\"'*ui://a*|*ui://a*'\"method\":\"resources/read\"'*";
    let html = |kind: &str| {
        result_action(&json!({"contents": [{"uri": "ui://a", "mimeType": kind, "text": "<p>"}]}))
    };
    vec![
        (vec!["entry"], with("resources", "size", json!(-1))),
        (vec!["entry"], with("resources", "name", Value::Null)),
        (vec!["entry"], with("prompts", "arguments", json!([{"description": "D"}]))),
        (vec!["entry", "no-description"], with("tools", "description", json!(["D"]))),
        (vec!["tool-name"], with("tools", "name", json!("say it"))),
        (vec!["plain-name"], with("prompts", "name", json!("a\u{7}b"))),
        (vec!["no-description"], with("tools", "description", Value::Null)),
        (vec!["no-title"], with("prompts", "title", Value::Null)),
        (vec!["no-argument-description"], with("prompts", "arguments", json!([{"name": "x"}]))),
        (vec!["no-mime-type"], with("resources", "mimeType", Value::Null)),
        (
            vec!["annotations-contradict"],
            with("tools", "annotations", json!({"readOnlyHint": true, "destructiveHint": true})),
        ),
        (vec!["annotation-value"], with("resources", "annotations", json!({"priority": 7}))),
        (vec!["annotation-value"], with("tools", "annotations", json!({"readOnlyHint": "yes"}))),
        (vec!["duplicate-argument"], with("prompts", "arguments", json!([argument("a"), argument("a")]))),
        (vec!["resource-uri"], with("resources", "uri", json!("a b"))),
        (vec!["uri-template"], with("resources/templates", "uriTemplate", json!("demo:///{a"))),
        (vec!["template-plain"], with("resources/templates", "uriTemplate", json!("demo:///a"))),
        (vec!["mime-type"], with("resources", "mimeType", json!("text"))),
        (vec!["app-tool"], with("tools", "_meta", json!({"ui": {"resourceUri": "https://a"}}))),
        (vec!["app-tool"], with("tools", "_meta", json!({"ui": {"visibility": "app"}}))),
        (vec!["app-page"], with("tools", "_meta", json!({"ui": {"resourceUri": "ui://a"}}))),
        (
            vec!["app-page"],
            with("tools", "_meta", json!({"ui/resourceUri": "ui://a"})).on_line(page, &html("text/html")),
        ),
        (
            vec![],
            with("tools", "_meta", json!({"ui": {"resourceUri": "ui://a"}}))
                .on_line(page, &html(UI_MIME_TYPE)),
        ),
        (vec!["icon"], with("tools", "icons", icon("file:///etc/passwd"))),
        (vec!["icon"], with("tools", "icons", json!([{"src": "https://a/b.png", "sizes": ["big"]}]))),
        (vec!["icon-http"], with("tools", "icons", icon("http://example.com/a.png"))),
        (vec!["meta-key"], with("tools", "_meta", json!({"a b": 1, "com.example/fine": 2}))),
        (vec![], with("tools", "icons", icon("data:image/png;base64,AA=="))),
    ]
}

fn schemas() -> Vec<(Vec<&'static str>, ShellServer)> {
    let with = |schema: Value| ShellServer::legacy().with_tool_schema(&schema);
    let text = json!({"type": "string", "description": "D"});
    let object = |more: Value| {
        let mut schema = json!({"type": "object", "properties": {"a": text}});
        schema.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
        schema
    };
    let tuple = json!({"type": "array", "description": "D", "items": [{"type": "string"}]});
    let many = vec![json!({}); 5_000];
    vec![
        (vec!["input-schema"], with(Value::Null)),
        (vec!["input-schema"], with(json!({"properties": {"a": text}}))),
        (
            vec!["output-schema"],
            ShellServer::legacy().with_member("tools", "outputSchema", &json!({"type": "string"})),
        ),
        (vec!["schema-invalid"], with(object(json!({"required": "a"})))),
        (vec!["schema-dialect"], with(object(json!({"$schema": "http://json-schema.org/draft-04/schema#"})))),
        (vec![], with(object(json!({"$schema": "http://json-schema.org/draft-07/schema#"})))),
        (vec!["schema-draft-07"], with(object(json!({"properties": {"a": tuple}})))),
        (
            vec!["schema-reference"],
            with(object(json!({"properties": {"a": {"$ref": "https://example.com/a.json"}}}))),
        ),
        (vec!["schema-limit"], with(object(json!({"anyOf": many})))),
        (
            vec!["constraints-unseen", "schema-unchecked"],
            with(object(
                json!({"properties": {"a": {"type": "string", "description": "D", "pattern": "(?=a)b"}}}),
            )),
        ),
        (vec!["schema-required"], with(object(json!({"required": ["a", "b"]})))),
        (vec!["schema-impossible"], with(object(json!({"required": ["b"], "additionalProperties": false})))),
        (
            vec!["constraints-unseen"],
            with(object(json!({"properties": {"minimum": {"description": "D", "items": {"maximum": 5}}}}))),
        ),
        (
            vec!["constraints-unseen"],
            with(object(json!({"properties": {"enum": {"description": "D", "maxLength": 5}}}))),
        ),
        (vec!["no-parameters"], with(json!({"type": "object"}))),
        (
            vec!["no-argument-description"],
            with(json!({"type": "object", "properties": {"a": {"type": "string"}}})),
        ),
    ]
}

/// Rules about programs that are not servers; another test covers them.
const NOT_SERVER_RULES: [&str; 3] = ["not-a-server", "echoes", "flood"];

#[test]
fn check_finds_exactly_each_violated_rule() {
    let cases = cases();
    let provoked = cases.iter().flat_map(|(names, _)| names).chain(&NOT_SERVER_RULES).chain(&RULES).copied();
    let provoked: BTreeSet<_> = provoked.chain([DEPRECATED]).collect();
    let rules = probe(&["check", "--rules", "--json"]).assert_ok().json();
    let rules = rules.as_array().into_iter().flatten().map(|rule| rule["check"].as_str().expect("a name"));
    // The rules about HTTP have servers of their own.
    let rules: BTreeSet<_> = rules.filter(|rule| !rule.starts_with("http-")).collect();
    assert_eq!(provoked, rules, "each rule has a server that breaks it");

    // The runs wait most of the time, so many of them run at once.
    let left = Mutex::new(cases.iter());
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let Some((wanted, server)) = left.lock().expect("no panic").next() else { return };
                    let done = server.check(&["--json"]);
                    let found = found_rules(&done);
                    if found != wanted.iter().map(|name| (*name).to_owned()).collect() {
                        failures.lock().expect("no panic").push(format!("wanted {wanted:?}: {done}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n\n"));
}

#[test]
fn check_of_correct_servers_has_no_findings() {
    for good in [ShellServer::legacy(), ShellServer::modern(), listening(&acknowledge(TOOLS, "$id"))] {
        assert_eq!(found_rules(&good.check(&["--json", "--strict"]).assert_ok()), BTreeSet::new());
    }
}

// covers: LOG-015, ROOT-013, SAMP-010, SAMP-026
#[test]
fn check_notes_each_deprecated_feature_once() {
    let done = ShellServer::legacy().check(&["--json", "--strict"]).assert_ok();
    assert_eq!(noted_features(&done), ["logging"]);
    let requests = [
        r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#,
        r#"{"jsonrpc":"2.0","id":"s","method":"roots/list"}"#,
        r#"{"jsonrpc":"2.0","id":"t","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"includeContext":"none"}}"#,
    ];
    let context = requests[2].replace("none", "allServers");
    let sent: Vec<_> = requests.iter().map(|request| print_action(request)).collect();
    let asking = |actions: String| {
        ShellServer::legacy().on_line(&method_pattern("notifications/initialized"), &actions)
    };
    let done = asking(sent.join("; ")).check(&["--json"]);
    assert_eq!(noted_features(&done), ["logging", "roots", "sampling"]);
    let done = asking(print_action(&context)).check(&["--json"]);
    assert_eq!(noted_features(&done), ["`includeContext`", "logging", "sampling"]);
    // In the modern era the requests come in results.
    let inputs = json!({"dirs": {"method": "roots/list"}});
    let input = json!({"resultType": "input_required", "inputRequests": inputs});
    let done = ShellServer::modern().replace_method("prompts/get", &result_action(&input)).check(&["--json"]);
    assert!(noted_features(&done).contains(&"roots".to_owned()), "{done}");
}

// covers: PAGE-011, ERR-002, ERR-018, ERR-023, BASE-016, VER-003, VER-004, VER-009, META-014, PING-006, STDIO-021
#[test]
fn check_of_own_server_has_no_errors_or_warnings() {
    for (revision, _) in REVISIONS {
        let done = probe_own_server(&["check", "--strict", "--protocol-version", revision], &[]).assert_ok();
        done.assert_stdout(&["0 errors, 0 warnings", revision]);
    }
    let done = probe_own_server(&["check", "--strict"], &[]).assert_ok();
    done.assert_stdout(&["0 errors, 0 warnings", "2025-11-25 and 2026-07-28"]);
    for era in ["legacy", "modern"] {
        probe_own_server(&["check", "--strict"], &["--era", era])
            .assert_ok()
            .assert_stdout(&["0 errors, 0 warnings"]);
        let everything = ["--everything", "--era", era];
        probe_own_server(&["check", "--strict"], &everything)
            .assert_ok()
            .assert_stdout(&["0 errors, 0 warnings"]);
    }
}

#[test]
fn check_reports_programs_that_are_not_servers() {
    let waits = ["check", "--json", "--timeout", "500ms", "--connect-timeout", "2s"];
    let against = |script: &str| probe(&[&waits[..], &["--", "sh", "-c", script, PROBE]].concat());
    let valid = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    let cases: [(&str, &[&str]); 8] = [
        ("exec sleep 100", &["not-a-server"]),
        ("exec cat", &["not-a-server", "echoes"]),
        ("exec yes", &["not-a-server", "stdout-noise", "flood"]),
        (&format!("exec yes '{valid}'"), &["not-a-server", "flood"]),
        ("exec tr '\\0' x </dev/zero", &["not-a-server", "flood"]),
        ("exit 3", &["not-a-server"]),
        ("exec true", &["not-a-server"]),
        ("echo 'Usage: tool FILE'; exec sleep 100", &["not-a-server", "stdout-noise"]),
    ];
    for (script, wanted) in cases {
        let done = against(script).assert_code(1);
        assert!(done.elapsed < Duration::from_secs(30), "{done}");
        assert_eq!(
            found_rules(&done),
            wanted.iter().map(|name| (*name).to_owned()).collect(),
            "{script}: {done}"
        );
    }
    let done = against("echo 'no \u{1b}file' >&2; exit 3");
    assert!(
        done.stdout.contains("it ended (exit status: 3; stderr: ") && done.stdout.contains("file"),
        "{done}"
    );
    assert!(done.stdout.contains("), and no answer came") && !done.stdout.contains(",,"), "{done}");
    assert!(!done.stdout.contains('\u{1b}'), "{done}");
    // A program that starts like a server.
    let flood = format!(
        "read -r l; printf '%s\\n' '{}'; exec yes '{valid}'",
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}"#
    );
    let waits = ["check", "--json", "--timeout", "1s", "--era", "legacy"];
    let done = probe(&[&waits[..], &["--", "sh", "-c", &flood]].concat()).assert_code(1);
    assert!(found_rules(&done).contains("flood"), "{done}");
    assert!(done.elapsed < Duration::from_secs(50), "{done}");
    let done = probe(&["check", "--", "no-such-program-anywhere"]).assert_code(3);
    done.assert_stderr(&["cannot start \"no-such-program-anywhere\""]);
}

#[test]
fn check_exit_code_follows_from_findings() {
    let warned = ShellServer::legacy().with_member("tools", "name", &json!("say it"));
    let done = warned.check(&[]).assert_ok();
    let done = done.assert_stdout(&[
        "warning tool-name [TOOL-028]: tool names have 1 to 128 characters",
        "  fix: rename it",
        "  tool `say it`: a name may contain only letters, digits, `_`, `-` and `.`",
        "0 errors, 1 warning, 1 note (checked in 2025-11-25; tools were not called)",
    ]);
    assert_eq!(done.stderr, "");
    warned.check(&["--strict"]).assert_code(1);
    let wrong = ShellServer::legacy().with_member("resources", "uri", &json!("a b"));
    let done = wrong.check(&["--json"]).assert_code(1);
    let finding = json!({
        "severity": "error",
        "check": "resource-uri",
        "rules": ["RES-026", "RES-008"],
        "revisions": ["2025-11-25"],
        "where": "resource `a b`",
        "what": "it does not begin with a scheme",
        "fix": "start it with a scheme, and write invalid characters as %XX",
    });
    // The other one is a note.
    assert_eq!((done.json()[0].clone(), found_rules(&done).len()), (finding, 1));
    probe(&["check"]).assert_code(2).assert_stderr(&["CMD"]);
    probe(&["check", "--timeout", "0", "--", "true"]).assert_code(2);
}

#[test]
fn findings_are_reported_to_code_scanning() {
    let wrong = ShellServer::legacy().with_member("resources", "uri", &json!("a b"));
    let report = wrong.check(&["--sarif"]).assert_code(1).json();
    let (version, run) = (&report["version"], &report["runs"][0]);
    assert_eq!((version, &run["tool"]["driver"]["name"]), (&json!("2.1.0"), &json!("mcp-probe")));
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let rule = rules.iter().find(|rule| rule["id"] == "resource-uri").expect("the rule");
    assert_eq!(rule["defaultConfiguration"]["level"], "error");
    assert_eq!(rule["properties"]["tags"], json!(["RES-026", "RES-008"]));
    let result = json!({
        "ruleId": "resource-uri",
        "level": "error",
        "message": { "text": "resource `a b`: it does not begin with a scheme" },
        "locations": [{
            // The name of the program, whose command has no file of the current directory.
            "physicalLocation": { "artifactLocation": { "uri": "sh" } },
            "logicalLocations": [{ "name": "resource `a b`" }],
        }],
        "properties": {
            "revisions": ["2025-11-25"],
            "fix": "start it with a scheme, and write invalid characters as %XX",
        },
    });
    assert_eq!(run["results"][0], result);
    assert_eq!(run["invocations"], json!([{ "executionSuccessful": true }]));
    // The first word of a command that is a file is where they are shown.
    let done = probe(&["check", "--sarif", "--timeout", "500ms", "--", "cat", "Cargo.toml"]).assert_code(1);
    let run = &done.json()["runs"][0];
    let location = &run["results"][0]["locations"][0];
    assert_eq!(location["physicalLocation"]["artifactLocation"]["uri"], "Cargo.toml");
    assert_eq!(run["invocations"], json!([{ "executionSuccessful": false }]));
    // Arguments may have secrets, and reports are kept.
    let secret = ["--", "cat", "--token", "sk-live-1"];
    let done = probe(&[&["check", "--junit", "--timeout", "500ms"], &secret[..]].concat()).assert_code(1);
    assert!(done.stdout.contains("<testsuite name=\"cat\"") && !done.stdout.contains("sk-live"), "{done}");
    for args in [["--sarif", "--json"], ["--sarif", "--junit"], ["--junit", "--json"], ["--rules", "--junit"]]
    {
        probe(&[&["check"], &args[..], &["--", "true"]].concat()).assert_code(2);
    }
}

#[test]
fn findings_are_reported_as_test_cases() {
    let warned =
        ShellServer::legacy().with_member("tools", "name", &json!("say <it> & \"more\"\u{ffff}\u{1}"));
    let (lenient, strict) =
        (warned.check(&["--junit"]).assert_ok(), warned.check(&["--junit", "--strict"]).assert_code(1));
    for (done, counts, begin, end) in [
        (
            lenient,
            "tests=\"3\" failures=\"0\" errors=\"0\"",
            "<system-out>warning: tool names have 1 to 128 characters: letters, digits, `_`, `-` and `.` [TOOL-028]\n",
            "</system-out>",
        ),
        (
            strict,
            "tests=\"3\" failures=\"1\" errors=\"0\"",
            "<failure type=\"warning\" message=\"tool names have 1 to 128 characters: letters, digits, `_`, `-` and `.` [TOOL-028]\">",
            "</failure>",
        ),
    ] {
        let name = "tool `say &lt;it&gt; &amp; &quot;more&quot;\u{fffd}\\u0001`: a name may contain only letters, digits, `_`, `-` and `.`\n";
        let case = format!(
            "    <testcase classname=\"mcp-probe.check\" name=\"tool-name\">{begin}{name}fix: rename it{end}</testcase>\n"
        );
        assert!(done.stdout.contains(&case), "{done}");
        done.assert_stdout(&[
            &format!("<testsuites name=\"mcp-probe check\" {counts}>"),
            "    <testcase classname=\"mcp-probe.check\" name=\"checked in 2025-11-25\"/>\n",
            "name=\"deprecated-feature\"><system-out>note: ",
        ]);
    }
}

#[test]
fn repeated_findings_of_a_rule_are_capped() {
    let entry = |n: usize| json!({"name": format!("tool {n}"), "title": "T", "description": "D"});
    let tools: Vec<_> = (0..60).map(entry).collect();
    let done = ShellServer::legacy()
        .with_result("tools/list", &json!({"tools": tools}))
        .check(&["--json"])
        .assert_code(1);
    let findings = done.json();
    let of = |check: &str| -> Vec<&str> {
        let findings = findings.as_array().into_iter().flatten().filter(|finding| finding["check"] == check);
        findings.map(|finding| finding["what"].as_str().expect("a text")).collect()
    };
    for check in ["tool-name", "input-schema"] {
        assert_eq!(
            (of(check).len(), of(check).last()),
            (51, Some(&"10 more of this kind")),
            "{check}: {done}"
        );
    }
}

/// Findings in both eras are merged; findings in one era name its revision.
#[test]
fn check_covers_both_eras_and_merges_findings() {
    let done = probe_own_server(&["check", "--json"], &[]).assert_ok();
    assert_eq!(found_rules(&done), BTreeSet::new());
    let done = ShellServer::modern()
        .on_line(&method_pattern("initialize"), &result_action(&welcome("2025-11-25", &json!({}))))
        .with_args(&["--era", "auto"])
        .check(&[]);
    done.assert_code(1).assert_stdout(&["(2025-11-25 only)", "2025-11-25 and 2026-07-28"]);
}

// covers: LIFE-016
#[test]
fn control_characters_of_server_are_escaped() {
    let evil = "\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\u{7}\r\nerror: x";
    let server = ShellServer::legacy()
        .with_member("tools", "name", &json!(evil))
        .with_prelude("printf '\\033[2Jx\\n'");
    for args in [&[][..], &["--json"]] {
        let done = server.check(&[args, &["--trace"]].concat()).assert_code(1);
        let done = done.assert_stdout(&["\\u202e", "\\u200b", "\\u001b"]);
        for text in [&done.stdout, &done.stderr] {
            assert_eq!(
                text.chars().find(|c| evil.contains(*c) && !c.is_ascii_graphic() && !matches!(c, '\n' | ' ')),
                None
            );
            assert!(!text.lines().any(|line| line.starts_with("error: x")), "{done}");
        }
    }
}

/// Rules refer to requirements that exist.
#[test]
fn check_rules_refer_to_existing_requirements() {
    let map = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/spec-map.tsv");
    let map = std::fs::read_to_string(map).expect("the map of requirements lies in the project");
    let ids: BTreeSet<_> = map.lines().filter_map(|line| line.split('\t').next()).collect();
    let rules = probe(&["check", "--rules", "--json"]).assert_ok().json();
    for rule in rules.as_array().expect("an array") {
        for id in rule["rules"].as_array().expect("an array") {
            assert!(ids.contains(id.as_str().expect("a string")), "{rule}");
        }
    }
    probe(&["check", "--rules"]).assert_ok().assert_stdout(&["warning  tool-name", "[TOOL-028]"]);
}
