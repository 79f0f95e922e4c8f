//! Fuzz target for a router behind a server, with arbitrary requests.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use mcp_proto::model::{
    Prompt, PromptArgument, PromptReference, Resource, ResourceTemplate, ResourceTemplateReference, Tool,
};
use mcp_proto::pipe::{Pipe, Server};
use mcp_proto::router::{CallTarget, HookOutcome, IntoToolResult, Route, Router};
use mcp_proto::server::Event;
use mcp_proto::{Instant, RawJson, RpcError};
use serde_json::{Value, json};

use super::input::FuzzInput;
use super::wire;

const NOW: Instant = Instant::ZERO;

const METHODS: [&str; 8] = [
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
];

/// Parameters that can be replaced by a text.
const PARAM_MEMBERS: [&str; 6] =
    ["/cursor", "/name", "/uri", "/arguments/from", "/ref/uri", "/argument/name"];

/// Sends arbitrary requests to a router and checks its invariants.
///
/// - Each request gets one answer, which is never an internal error.
/// - The size of an answer is bounded by the size of its request.
/// - Only cursors that the router issued for the same list are accepted.
pub fn router(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let router = sample(1 + choices.below(4));
    let mut server = Server::new(Arc::new(router.config()), NOW);
    let cursors: Vec<BTreeSet<String>> = METHODS.map(|method| collect_cursors(&mut server, method)).into();
    for id in 0..8 {
        if choices.is_empty() {
            break;
        }
        let which = choices.below(METHODS.len());
        let (method, pointer) = (METHODS[which], choices.below(PARAM_MEMBERS.len() + 1));
        let length = usize::from(choices.byte());
        let text = String::from_utf8_lossy(choices.take(length)).into_owned();
        let params = match PARAM_MEMBERS.get(pointer) {
            Some(pointer) => params_with(pointer, &text),
            // The parameters are the text itself, as JSON.
            None => serde_json::from_str(&text).unwrap_or(Value::Null),
        };
        let Value::Object(_) = params else { continue };
        let cursor = params.get("cursor").and_then(Value::as_str).map(String::from);
        let answer = ask(&router, &mut server, id, method, params);
        if method.ends_with("list") && answer.get("result").is_some() {
            assert!(cursor.as_ref().is_none_or(|c| cursors[which].contains(c)), "{method} takes {cursor:?}");
        }
        let answer_text = answer.to_string();
        assert!(answer_text.len() < 4_096 + 6 * text.len(), "{} bytes for {}", answer_text.len(), text.len());
        assert_ne!(answer["error"]["code"], -32603, "{answer}");
    }
}

/// Returns valid parameters with a text at this position.
fn params_with(pointer: &str, text: &str) -> Value {
    let mut params = json!({
        "name": "t1", "uri": "note://1/data", "arguments": {"from": "x"},
        "ref": {"type": "ref/resource", "uri": "note://{id}/data"}, "argument": {"name": "id", "value": ""},
    });
    match params.pointer_mut(pointer) {
        Some(at) => *at = text.into(),
        None => params["cursor"] = text.into(),
    }
    params
}

type SampleRouter = Router<()>;

fn sample(page_size: usize) -> SampleRouter {
    let mut router = SampleRouter::new("fuzz", "1");
    router.page_size(page_size);
    for i in 0..6 {
        let schema = RawJson::new(r#"{"type":"object"}"#).expect("JSON");
        router.tool(Tool::new(format!("t{i}"), schema), ()).expect("a tool");
        router.resource(Resource::new(format!("file:///{i}"), "n"), ()).expect("a resource");
        let from = PromptArgument::new("from").required(true);
        router.prompt(Prompt::new(format!("t{i}")).arguments([from]), ()).expect("a prompt");
    }
    for template in
        ["note://{id}/data", "note://{a}{b:3}.{c}", "x:{/list*}{?q,r*}", "{+any}#{#rest}", "file:///{+path}"]
    {
        router.resource_template(ResourceTemplate::new(template, "n"), ()).expect("a template");
    }
    router.completion(PromptReference::new("t1"), "from", ()).expect("a prompt");
    let notes = ResourceTemplateReference::new("note://{id}/data");
    router.completion(notes, "id", ()).expect("a template");
    router
}

/// Returns all cursors of a list, for every page size.
fn collect_cursors(server: &mut Server, method: &str) -> BTreeSet<String> {
    let router = sample(1);
    let mut cursors = BTreeSet::new();
    let mut params = json!({});
    while method.ends_with("list") {
        let answer = ask(&router, server, 1_000 + cursors.len(), method, params);
        let Some(cursor) = answer["result"]["nextCursor"].as_str() else { break };
        params = json!({"cursor": cursor});
        assert!(cursors.insert(cursor.into()), "page repeated");
    }
    cursors
}

fn ask(router: &SampleRouter, server: &mut Server, id: usize, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    server.handle_input(NOW, format!("{line}\n").as_bytes());
    while let Some(event) = server.poll_event(NOW) {
        let Event::Call(call) = event else { continue };
        let engine = server.engine();
        match router.route(&call) {
            Route::Answer(answer) => engine.complete(NOW, call.id(), &answer),
            Route::Handle(routed) => {
                let target_text = match &routed.target {
                    CallTarget::Tool(tool) => tool.tool.name.clone(),
                    CallTarget::Resource(resource) => resource.variables.len().to_string(),
                    CallTarget::Prompt(prompt) => prompt.arguments.get("from").cloned().unwrap_or_default(),
                    CallTarget::Completion(completion) => completion.argument().into(),
                    other => panic!("unknown target: {other:?}"),
                };
                router.finish(routed.context(), HookOutcome::Completed);
                engine.complete(NOW, call.id(), &target_text.into_tool_result().expect("text"))
            }
            Route::BeginTask => panic!("the server has no tasks"),
            Route::Refuse(error) => engine.fail(NOW, call.id(), &error),
            Route::Fallback => engine.fail(NOW, call.id(), &RpcError::method_not_found(method)),
            other => panic!("unknown route: {other:?}"),
        }
        .expect("open");
    }
    let sent = server.transmit().to_vec();
    server.consume(sent.len());
    let messages = wire::messages(&sent);
    // Every list has entries here, so every method is declared and answered.
    let [answer] = &*messages else { panic!("one answer to {line}, not {messages:?}") };
    answer.clone()
}
