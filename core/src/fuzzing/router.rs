//! A router behind a server, asked for anything.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::dice::Dice;
use super::wire;
use crate::model::{
    Prompt, PromptArgument, PromptReference, Resource, ResourceTemplate, ResourceTemplateReference, Tool,
};
use crate::pipe::{Pipe, Server};
use crate::raw::RawJson;
use crate::router::{IntoToolResult, Outcome, Route, Router, Target};
use crate::server::Event;
use crate::{Instant, RpcError};

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

/// Members of parameters that a text can be given as
const PLACES: [&str; 6] = ["/cursor", "/name", "/uri", "/arguments/from", "/ref/uri", "/argument/name"];

/// Each request is answered once, never with an internal error, and never with much more than it said; only cursors that
/// were given out are taken, and only for their list
pub fn router(data: &[u8]) {
    let mut dice = Dice::new(data);
    let router = sample(1 + dice.below(4));
    let mut server = Server::new(Arc::new(router.config()), NOW);
    let cursors: Vec<BTreeSet<String>> = METHODS.map(|method| given_out(&mut server, method)).into();
    for id in 0..8 {
        if dice.is_empty() {
            break;
        }
        let which = dice.below(METHODS.len());
        let (method, place) = (METHODS[which], dice.below(PLACES.len() + 1));
        let length = usize::from(dice.byte());
        let text = String::from_utf8_lossy(dice.take(length)).into_owned();
        let params = match PLACES.get(place) {
            Some(place) => placed(place, &text),
            // Whatever the text is as JSON.
            None => serde_json::from_str(&text).unwrap_or(Value::Null),
        };
        let Value::Object(_) = params else { continue };
        let cursor = params.get("cursor").and_then(Value::as_str).map(String::from);
        let answer = ask(&router, &mut server, id, method, params);
        if method.ends_with("list") && answer.get("result").is_some() {
            assert!(cursor.as_ref().is_none_or(|c| cursors[which].contains(c)), "{method} takes {cursor:?}");
        }
        let said = answer.to_string();
        assert!(said.len() < 4_096 + 6 * text.len(), "{} bytes for {}", said.len(), text.len());
        assert_ne!(answer["error"]["code"], -32603, "{answer}");
    }
}

/// Parameters that are right but for a text in this place
fn placed(place: &str, text: &str) -> Value {
    let mut params = json!({
        "name": "t1", "uri": "note://1/data", "arguments": {"from": "x"},
        "ref": {"type": "ref/resource", "uri": "note://{id}/data"}, "argument": {"name": "id", "value": ""},
    });
    match params.pointer_mut(place) {
        Some(at) => *at = text.into(),
        None => params["cursor"] = text.into(),
    }
    params
}

type Sample = Router<()>;

fn sample(page_size: usize) -> Sample {
    let mut router = Sample::new("fuzz", "1");
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

/// The cursors of a list, whatever the size of its pages
fn given_out(server: &mut Server, method: &str) -> BTreeSet<String> {
    let router = sample(1);
    let mut cursors = BTreeSet::new();
    let mut params = json!({});
    while method.ends_with("list") {
        let answer = ask(&router, server, 1_000 + cursors.len(), method, params);
        let Some(cursor) = answer["result"]["nextCursor"].as_str() else { break };
        params = json!({"cursor": cursor});
        assert!(cursors.insert(cursor.into()), "a page comes twice");
    }
    cursors
}

fn ask(router: &Sample, server: &mut Server, id: usize, method: &str, mut params: Value) -> Value {
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
            Route::Handle(work) => {
                let told = match &work.target {
                    Target::Tool(tool) => tool.tool.name.clone(),
                    Target::Resource(resource) => resource.variables.len().to_string(),
                    Target::Prompt(prompt) => prompt.arguments.get("from").cloned().unwrap_or_default(),
                    Target::Completion(completion) => completion.argument().into(),
                };
                router.done(work.asked(), Outcome::Completed);
                engine.complete(NOW, call.id(), &told.into_tool_result().expect("text"))
            }
            Route::Refuse(error) => engine.fail(NOW, call.id(), &error),
            Route::Other => engine.fail(NOW, call.id(), &RpcError::method_not_found(method)),
        }
        .expect("open");
    }
    let sent = server.transmit().to_vec();
    server.consume(sent.len());
    let messages = wire::messages(&sent);
    // A list is not declared where nothing is registered; everything here is.
    let [answer] = &*messages else { panic!("one answer to {line}, not {messages:?}") };
    answer.clone()
}
