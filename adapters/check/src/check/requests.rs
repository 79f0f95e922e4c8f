//! Checks with valid and invalid requests.

use mcp_proto::router::template::{Template, VariablePolicy};
use mcp_proto::{EntryKind, RawJson, Version};
use serde_json::{Value, json};

use super::conversation::{CheckAnswer, CheckConversation, ErrorAnswer, ProvokedAnswers};
use super::lists::{DECLARED_NOT_SERVED, SERVED_NOT_DECLARED, ServerLists, UNDECLARED_CODE};
use super::messages::NOTIFICATION_ANSWERED;
use super::method_location;
use super::modern::REMOVED_METHOD;
use super::rules::{Rule, rules_of};

rules_of! {
    RULES
    PING "ping" Error [Spec Hosted] ["PING-002"]
        "`ping` is answered with an empty result"
        "answer with `{}`"
    PARALLEL "parallel" Error [Spec Hosted] ["STDIO-010"]
        "several requests may be in flight"
        "read the next request while others are running, or answer them in turn"
    UNKNOWN_METHOD "unknown-method" Error [Spec Hosted] ["ERR-002"]
        "an unknown method is refused with -32601"
        "refuse it with that code"
    PARSE_ERROR "parse-error" Error [Spec Hosted] ["ERR-023"]
        "invalid JSON gets -32700, if it is answered at all"
        "use that code"
    NULL_ID "null-id" Note [Spec] ["BASE-013"]
        "from 2025-11-25 on, an error about an unreadable message has no `id`"
        "leave `id` out"
    ENVELOPE_ACCEPTED "envelope-accepted" Warning [Spec Hosted] ["BASE-001" "BASE-004" "BASE-007"]
        "requests that violate JSON-RPC are not served"
        "check `jsonrpc`, `id` and `params` before the method"
    ENVELOPE_CODE "envelope-code" Warning [Spec Hosted] ["ERR-001" "BASE-001"]
        "requests that violate JSON-RPC are refused with -32600, invalid params with -32602"
        "use that code"
    ENVELOPE_SILENT "envelope-silent" Note [Spec] ["BASE-001"]
        "requests that violate JSON-RPC are refused rather than ignored"
        "answer with -32600, so that the client need not wait"
    PARAMS_ACCEPTED "params-accepted" Error [Spec Hosted] Mcp05 ["TOOL-021" "RES-005" "PROMPT-004"]
        "requests without required params are refused"
        "check the params first"
    PARAMS_CODE "params-code" Warning [Spec Hosted] ["ERR-001" "ERR-018"]
        "requests without required params are refused with -32602"
        "use that code"
    BATCH_REFUSED "batch-refused" Error [Spec Hosted] ["BATCH-001" "BATCH-007"]
        "batches are supported in 2025-03-26"
        "answer each request of the array"
    BATCH_ACCEPTED "batch-accepted" Warning [Spec Hosted] ["BATCH-004"]
        "batches are refused in revisions without them"
        "refuse arrays with -32600"
    UNKNOWN_TOOL_ACCEPTED "unknown-tool-accepted" Error [Spec Hosted] Mcp05 ["TOOL-021"]
        "a call of an unknown tool fails"
        "refuse it with -32602"
    UNKNOWN_TOOL_RESULT "unknown-tool-result" Warning [Spec Hosted] ["TOOL-024" "ERR-018"]
        "a call of an unknown tool is refused with an error, not with a result with `isError`"
        "refuse it with -32602"
    UNKNOWN_TOOL_CODE "unknown-tool-code" Warning [Spec Hosted] ["ERR-018"]
        "a call of an unknown tool is refused with -32602"
        "use that code"
    UNKNOWN_PROMPT "unknown-prompt" Warning [Spec Hosted] ["PROMPT-010" "ERR-018"]
        "an unknown prompt is refused with -32602"
        "refuse it with that code"
    PROMPT_ARGUMENT "prompt-argument" Warning [Spec Hosted] ["PROMPT-010" "PROMPT-011"]
        "a prompt without an argument that it requires is refused with -32602"
        "check the required arguments first"
    UNKNOWN_RESOURCE "unknown-resource" Warning [Spec Hosted] ["RES-015" "ERR-010"]
        "an unknown resource is refused with -32002 in the legacy era"
        "refuse it with that code, and with the URI in `data.uri`"
    UNKNOWN_RESOURCE_MODERN "unknown-resource-modern" Error [Spec Hosted] ["RES-016" "RES-017"]
        "an unknown resource is refused with -32602 in the modern era"
        "refuse it with that code, and with the URI in `data.uri`"
    RESOURCE_DATA "resource-data" Note [Spec] ["RES-015" "RES-016"]
        "the error about an unknown resource has its URI in `data.uri`"
        "add `data.uri`"
    LOG_LEVEL "log-level" Warning [Spec Hosted] ["LOG-006"]
        "an unknown log level is refused with -32602"
        "refuse it with that code"
    COMPLETION_REF "completion-ref" Warning [Spec Hosted] ["COMP-007"]
        "completions for an unknown prompt are refused with -32602"
        "refuse it with that code"
}

/// Runs all checks of this module.
pub(super) fn check_requests(conversation: &mut CheckConversation<'_>, lists: &ServerLists) {
    check_ping(conversation);
    check_ids(conversation);
    check_burst(conversation);
    check_unknown_method(conversation);
    check_missing_params(conversation, lists);
    check_unknown_names(conversation, lists);
    check_prompt_arguments(conversation, lists);
    check_capabilities(conversation);
    check_notification(conversation);
    check_broken_lines(conversation);
    check_envelopes(conversation);
    check_batch(conversation);
}

fn check_ping(conversation: &mut CheckConversation<'_>) {
    let answer = conversation.request("ping", Value::Null);
    let location = "`ping`";
    if conversation.is_modern() {
        if let Some(what) = answer.other_than(-32601) {
            conversation.report.add(REMOVED_METHOD, location, what);
        }
        return;
    }
    let what = match answer {
        CheckAnswer::Error(failed) => format!("it got the error {}", failed.summary()),
        CheckAnswer::Result(raw) => {
            let value: Value = raw.parse().unwrap_or_default();
            let more = value.as_object().into_iter().flatten().find(|(name, _)| *name != "_meta");
            let Some((name, _)) = more else { return };
            format!("the result has a member `{name}`")
        }
        CheckAnswer::None => return,
    };
    conversation.report.add(PING, location, what);
}

/// Sends ids that a server may confuse with others.
fn check_ids(conversation: &mut CheckConversation<'_>) {
    for id in [json!("007"), json!(0), json!("mcp-probe \u{e9}\"\\/")] {
        let method = conversation.safe_method();
        conversation.request_with_id(&id, method);
    }
}

fn check_burst(conversation: &mut CheckConversation<'_>) {
    let method = conversation.safe_method();
    if let Some(answered) = conversation.burst(method, BURST_SIZE).filter(|answered| *answered < BURST_SIZE) {
        let what = format!("of {BURST_SIZE} requests sent at once, {answered} were answered");
        conversation.report.add(PARALLEL, &method_location(method), what);
    }
}

fn check_unknown_method(conversation: &mut CheckConversation<'_>) {
    if let Some(what) = conversation.request("mcp-probe/unknown", Value::Null).other_than(-32601) {
        conversation.report.add(UNKNOWN_METHOD, "an unknown method", what);
    }
}

fn check_missing_params(conversation: &mut CheckConversation<'_>, lists: &ServerLists) {
    let rows = [
        (EntryKind::Tool, "tools/call"),
        (EntryKind::Resource, "resources/read"),
        (EntryKind::Prompt, "prompts/get"),
    ];
    for (kind, method) in rows {
        if !lists.has(kind) {
            continue;
        }
        let location = format!("`{method}` without params");
        let answer = conversation.request(method, Value::Null);
        let is_right = |failed: &ErrorAnswer| conversation.is_refused_with(failed, -32602);
        let rules = [PARAMS_CODE, PARAMS_CODE, PARAMS_ACCEPTED];
        expect_refusal(conversation, &answer, is_right, rules, &location);
    }
}

/// Expects an error. The rules are those of another error, of a tool result with `isError` and of another result.
fn expect_refusal(
    conversation: &CheckConversation<'_>,
    answer: &CheckAnswer,
    is_right: impl Fn(&ErrorAnswer) -> bool,
    [code, tool_error, accepted]: [&'static Rule; 3],
    location: &str,
) {
    let is_tool_error = answer.result().is_some_and(|result| result["isError"] == true);
    let (rule, result) = match answer {
        CheckAnswer::Error(_) => (code, ""),
        _ if is_tool_error => (tool_error, "it got a result with `isError`"),
        _ => (accepted, "it was answered with a result"),
    };
    if let Some(what) = answer.complaint(is_right, ["it got", result]) {
        conversation.report.add(rule, location, what);
    }
}

fn check_unknown_names(conversation: &mut CheckConversation<'_>, lists: &ServerLists) {
    if lists.has(EntryKind::Tool) {
        // The tool does not exist, so nothing is called.
        let answer = conversation.request("tools/call", json!({"name": UNKNOWN_NAME, "arguments": {}}));
        let rules = [UNKNOWN_TOOL_CODE, UNKNOWN_TOOL_RESULT, UNKNOWN_TOOL_ACCEPTED];
        let location = "`tools/call` with an unknown tool";
        expect_refusal(conversation, &answer, |failed| failed.code == -32602, rules, location);
    }
    if lists.has(EntryKind::Prompt) {
        let answer = conversation.request("prompts/get", json!({"name": UNKNOWN_NAME}));
        expect_error(conversation, &answer, (UNKNOWN_PROMPT, -32602), "`prompts/get` with an unknown prompt");
    }
    if lists.has(EntryKind::Resource) {
        check_unknown_resource(conversation, lists);
    }
}

/// Expects an error with the code that a rule demands.
fn expect_error(
    conversation: &CheckConversation<'_>,
    answer: &CheckAnswer,
    (rule, code): (&'static Rule, i64),
    location: &str,
) {
    if let Some(what) = answer.other_than(code) {
        conversation.report.add(rule, location, what);
    }
}

fn check_unknown_resource(conversation: &mut CheckConversation<'_>, lists: &ServerLists) {
    // A template that matches any URI leaves no unknown resource.
    let taken = |template: &RawJson| {
        let template = template.member("uriTemplate").and_then(|text| Template::new(&text.string()?).ok());
        template.is_some_and(|template| {
            template.match_uri(UNKNOWN_URI, VariablePolicy::dangerously_off()).is_ok()
        })
    };
    if lists.entries(EntryKind::ResourceTemplate).iter().any(taken) {
        return;
    }
    let location = "`resources/read` with an unknown resource";
    let rule =
        if conversation.is_modern() { (UNKNOWN_RESOURCE_MODERN, -32602) } else { (UNKNOWN_RESOURCE, -32002) };
    let answer = conversation.request("resources/read", json!({"uri": UNKNOWN_URI}));
    if let CheckAnswer::Error(failed) = &answer {
        if failed.data["uri"] != UNKNOWN_URI {
            let what = format!("`data.uri` is {}", failed.data["uri"]);
            conversation.report.add(RESOURCE_DATA, location, what);
        }
    }
    expect_error(conversation, &answer, rule, location);
}

/// Requests prompts without their required arguments.
fn check_prompt_arguments(conversation: &mut CheckConversation<'_>, lists: &ServerLists) {
    let requires = |prompt: &Value| {
        let arguments = prompt["arguments"].as_array();
        arguments.is_some_and(|arguments| arguments.iter().any(|argument| argument["required"] == true))
    };
    let prompts = lists.entries(EntryKind::Prompt).iter().filter_map(|prompt| prompt.parse::<Value>().ok());
    for prompt in prompts.filter(requires).take(MAX_PROMPTS) {
        let Some(name) = prompt["name"].as_str() else { continue };
        let answer = conversation.request("prompts/get", json!({"name": name}));
        expect_error(
            conversation,
            &answer,
            (PROMPT_ARGUMENT, -32602),
            &format!("prompt `{name}` without arguments"),
        );
    }
}

/// Checks that capabilities without a list are served exactly when they are declared.
fn check_capabilities(conversation: &mut CheckConversation<'_>) {
    if conversation.version() >= Version::V2025_03_26 {
        let reference = json!({"type": "ref/prompt", "name": UNKNOWN_NAME});
        let params = json!({"ref": reference, "argument": {"name": "x", "value": ""}});
        if let Some(answer) =
            request_with_capability(conversation, "completions", "completion/complete", params)
        {
            expect_error(
                conversation,
                &answer,
                (COMPLETION_REF, -32602),
                "`completion/complete` with an unknown prompt",
            );
        }
    }
    if conversation.is_modern() {
        return;
    }
    // The level is valid because some servers check params first, and the least verbose one.
    if request_with_capability(conversation, "logging", "logging/setLevel", json!({"level": "emergency"}))
        .is_some()
    {
        let answer = conversation.request("logging/setLevel", json!({"level": "mcp-probe"}));
        expect_error(conversation, &answer, (LOG_LEVEL, -32602), "`logging/setLevel` with an unknown level");
    }
    if conversation.capabilities["resources"]["subscribe"] == true {
        if let CheckAnswer::Error(failed) =
            conversation.request("resources/subscribe", json!({"uri": UNKNOWN_URI}))
        {
            if failed.code == -32601 {
                let what = "`resources.subscribe` is declared, and it is refused with -32601";
                conversation.report.add(DECLARED_NOT_SERVED, "`resources/subscribe`", what);
            }
        } else {
            conversation.request("resources/unsubscribe", json!({"uri": UNKNOWN_URI}));
        }
    }
}

/// Sends a request that needs a capability. Returns the answer if the capability is declared and served.
fn request_with_capability(
    conversation: &mut CheckConversation<'_>,
    capability: &str,
    method: &str,
    params: Value,
) -> Option<CheckAnswer> {
    let declared = !conversation.capabilities[capability].is_null();
    let answer = conversation.request(method, params);
    let missing = matches!(&answer, CheckAnswer::Error(failed) if failed.code == -32601);
    let (rule, what) = match (declared, &answer) {
        (_, CheckAnswer::None) => return None,
        (true, _) if missing => {
            (DECLARED_NOT_SERVED, format!("`{capability}` is declared, and it is refused with -32601"))
        }
        (true, _) => return Some(answer),
        (false, _) if missing => return None,
        (false, CheckAnswer::Error(failed)) => (
            UNDECLARED_CODE,
            format!("`{capability}` is not declared, and it gets the error {}", failed.summary()),
        ),
        (false, _) => {
            (SERVED_NOT_DECLARED, format!("there is an answer, and `{capability}` is not declared"))
        }
    };
    conversation.report.add(rule, &method_location(method), what);
    None
}

fn check_notification(conversation: &mut CheckConversation<'_>) {
    let params = conversation.with_meta(json!({}));
    let line = json!({"jsonrpc": "2.0", "method": "notifications/mcp-probe/unknown", "params": params});
    let location = "an unknown notification";
    let provoked = conversation.provoke(line.to_string().as_bytes(), None, location);
    if let Some(failed) = provoked.errors_without_id.first() {
        let what = format!("it got the error {}", failed.summary());
        conversation.report.add(NOTIFICATION_ANSWERED, location, what);
    } else if provoked.has_result_without_id {
        conversation.report.add(NOTIFICATION_ANSWERED, location, "it was answered with a result");
    }
}

/// Sends lines that are not messages.
fn check_broken_lines(conversation: &mut CheckConversation<'_>) {
    let half = conversation.allocate_id();
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{half},\"method\":");
    let location = "a line with half a message";
    let provoked = conversation.provoke(line.as_bytes(), Some(half), location);
    check_parse_error(conversation, &provoked, location);
    let cases: [(&[u8], &str); 3] = [
        (b"mcp-probe: this is no JSON", "a line that is not JSON"),
        (b"", "an empty line"),
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/\xff\"}", "a line that is not UTF-8"),
    ];
    for (line, location) in cases {
        let provoked = conversation.provoke(line, None, location);
        check_parse_error(conversation, &provoked, location);
    }
}

/// Checks reactions to invalid JSON. The line may be ignored, and a readable id may be repeated.
fn check_parse_error(conversation: &CheckConversation<'_>, provoked: &ProvokedAnswers, location: &str) {
    check_null_ids(conversation, provoked, location);
    let answer = match &provoked.answer {
        Some(CheckAnswer::Error(failed)) => Some(failed),
        Some(CheckAnswer::Result(_)) => {
            return conversation.report.add(PARSE_ERROR, location, "it was answered with a result");
        }
        _ => None,
    };
    let odd = provoked
        .errors_without_id
        .iter()
        .chain(answer)
        .find(|failed| !conversation.is_refused_with(failed, -32700) && failed.code != -32600);
    if let Some(failed) = odd {
        conversation.report.add(PARSE_ERROR, location, format!("it got the error {}", failed.summary()));
    }
}

fn check_null_ids(conversation: &CheckConversation<'_>, provoked: &ProvokedAnswers, location: &str) {
    if conversation.version() >= Version::V2025_11_25
        && provoked.errors_without_id.iter().any(|failed| failed.has_id)
    {
        conversation.report.add(NULL_ID, location, "the error has a null `id`");
    }
}

/// Sends requests that violate JSON-RPC.
fn check_envelopes(conversation: &mut CheckConversation<'_>) {
    let request = conversation.safe_request();
    let with = |member: &str, value: Option<Value>| {
        let mut request = request.clone();
        if let Some(members) = request.as_object_mut() {
            members.remove(member);
            members.extend(value.map(|value| (member.to_owned(), value)));
        }
        request
    };
    let cases = [
        ("a request with `\"jsonrpc\":\"1.0\"`", with("jsonrpc", Some(json!("1.0"))), -32600),
        ("a request without `jsonrpc`", with("jsonrpc", None), -32600),
        ("a request with a number as method", with("method", Some(json!(7))), -32600),
        ("a request with a null id", with("id", Some(Value::Null)), -32600),
        ("a request with an array as params", with("params", Some(json!([1]))), -32602),
    ];
    for (location, mut line, code) in cases {
        let null = line["id"].is_null();
        let id = (!null).then(|| conversation.allocate_id());
        if let Some(id) = &id {
            line["id"] = id.clone();
        }
        let provoked = conversation.provoke(line.to_string().as_bytes(), id, location);
        check_null_ids(conversation, &provoked, location);
        let failed = match &provoked.answer {
            Some(CheckAnswer::Error(failed)) => Some(failed),
            _ => provoked.errors_without_id.first(),
        };
        if matches!(&provoked.answer, Some(CheckAnswer::Result(_))) || provoked.has_result_without_id {
            conversation.report.add(ENVELOPE_ACCEPTED, location, "it was answered with a result");
        } else if let Some(failed) = failed {
            if !conversation.is_refused_with(failed, code) && failed.code != -32600 {
                conversation.report.add(
                    ENVELOPE_CODE,
                    location,
                    format!("it got the error {}", failed.summary()),
                );
            }
        } else if !null && provoked.answer.is_none() && conversation.is_running() {
            conversation.report.add(ENVELOPE_SILENT, location, "it was not answered");
        }
    }
}

fn check_batch(conversation: &mut CheckConversation<'_>) {
    let version = conversation.version();
    // That revision does not mention batches.
    if version == Version::V2024_11_05 {
        return;
    }
    let request = conversation.safe_request();
    let id = request["id"].clone();
    let provoked = conversation.provoke(json!([request]).to_string().as_bytes(), Some(id), "a batch");
    let answered = matches!(&provoked.answer, Some(CheckAnswer::Result(_)));
    if version == Version::V2025_03_26 {
        if !answered && conversation.is_running() {
            conversation.report.add(BATCH_REFUSED, "a batch", "the request in it got no result");
        }
    } else if answered {
        conversation.report.add(BATCH_ACCEPTED, "a batch", "the request in it was answered");
    }
}

/// A name that no entry has.
const UNKNOWN_NAME: &str = "mcp-probe-unknown";
const UNKNOWN_URI: &str = "mcp-probe-unknown://unknown/unknown";
/// Number of requests that are sent at the same time.
const BURST_SIZE: usize = 10;
/// Maximum number of prompts that are requested without arguments.
const MAX_PROMPTS: usize = 3;
