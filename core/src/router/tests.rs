//! Harness for routers behind a server, from the line of a request to the line of its answer.

pub(super) use alloc::format;
pub(super) use alloc::string::{String, ToString};
pub(super) use alloc::sync::Arc;
pub(super) use alloc::vec::Vec;

pub(super) use serde_json::{Value, json};

use super::*;
pub(super) use crate::model::{
    Prompt, PromptArgument, PromptReference, Resource, ResourceTemplate, ResourceTemplateReference, Tool,
};
pub(super) use crate::pipe::{Pipe, Server};
pub(super) use crate::server::{Call, Event};
pub(super) use crate::time::Instant;
pub(super) use crate::version::Version;
pub(super) use crate::{RawJson, RpcError};

/// Handlers of these tests: they return their target as text.
pub(super) type TextHandler = fn(&CallTarget<'_>) -> String;
pub(super) type TestRouter = Router<TextHandler>;

pub(super) const NOW: Instant = Instant::ZERO;

pub(super) fn raw(value: &Value) -> RawJson {
    RawJson::new(value.to_string()).expect("JSON")
}

/// A skill as an extension describes it, with the URIs of its files.
#[derive(serde::Serialize)]
pub(super) struct TestSkill {
    uri: String,
    pub(super) frontmatter: Value,
    resources: Value,
}

impl TestSkill {
    /// Creates the skill of a folder with these files; `None` for content that is not listed.
    pub(super) fn new(root: &str, paths: Option<&[&str]>) -> Self {
        let name = root.rsplit('/').next().expect("a name");
        let digest = format!("sha256:{}", "ab".repeat(32));
        let file = |path: &&str| json!({"uri": format!("{root}/{path}"), "digest": digest, "size": 7});
        Self {
            uri: format!("{root}/SKILL.md"),
            frontmatter: json!({"name": name, "description": "d", "license": "MIT"}),
            resources: paths.map_or_else(|| json!("dynamic"), |paths| paths.iter().map(file).collect()),
        }
    }
}

impl FolderEntry for TestSkill {
    fn check_entry(&self) -> Result<(), String> {
        let name = self.frontmatter["name"].as_str().expect("a name");
        if self.uri.ends_with(&format!("/{name}/SKILL.md")) {
            Ok(())
        } else {
            Err(format!("the name `{name}`"))
        }
    }

    fn uri(&self) -> &str {
        &self.uri
    }

    fn file_uris(&self) -> impl Iterator<Item = &str> {
        self.resources.as_array().into_iter().flatten().map(|file| file["uri"].as_str().expect("a URI"))
    }
}

pub(super) fn tool(name: &str) -> Tool {
    Tool::new(name, raw(&json!({"type": "object"}))).description("d")
}

pub(super) fn target_text(target: &CallTarget<'_>) -> String {
    match target {
        CallTarget::Tool(t) => {
            format!("{}({})", t.tool.name, core::str::from_utf8(t.arguments).expect("UTF-8"))
        }
        CallTarget::Resource(r) => {
            let names = r
                .variables
                .iter()
                .map(|(name, _)| format!("{name}={}", r.variables.get(name).unwrap_or("?")));
            format!("{} [{}]", r.uri, names.collect::<Vec<_>>().join(","))
        }
        CallTarget::Prompt(p) => format!("{}: {:?}", p.prompt.name, p.arguments.iter().collect::<Vec<_>>()),
        CallTarget::Completion(c) => {
            format!("{}~{} with {:?}", c.argument(), c.value(), c.other_argument("other"))
        }
    }
}

/// A server on one byte stream whose calls are routed.
pub(super) struct RouterHarness {
    pub(super) server: Server,
    pub(super) cache: PageCache,
    id: u32,
}

impl RouterHarness {
    pub(super) fn new(router: &TestRouter) -> Self {
        Self { server: Server::new(Arc::new(router.config()), NOW), cache: PageCache::new(), id: 0 }
    }

    pub(super) fn ask(&mut self, router: &TestRouter, method: &str, params: Value) -> Value {
        let (answer, _) = self.ask_in(router, Version::V2026_07_28, method, params);
        answer
    }

    /// Sends a request; returns the answer, and how the call was routed.
    pub(super) fn ask_in(
        &mut self,
        router: &TestRouter,
        version: Version,
        method: &str,
        mut params: Value,
    ) -> (Value, String) {
        self.id += 1;
        if version == Version::V2026_07_28 {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let line = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        self.server.handle_input(NOW, format!("{line}\n").as_bytes());
        let mut done = String::new();
        while let Some(event) = self.server.poll_event(NOW) {
            if let Event::Call(call) = event {
                done = self.answer(router, &call);
            }
        }
        let text = String::from_utf8(self.server.transmit().to_vec()).expect("UTF-8");
        self.server.consume(text.len());
        (serde_json::from_str(&text).unwrap_or(Value::Null), done)
    }

    pub(super) fn answer(&mut self, router: &TestRouter, call: &Call) -> String {
        let route = router.route(call);
        let (engine, id) = (self.server.engine(), call.id());
        match route {
            Route::Answer(answer) => {
                match self.cache.page(call.version(), &answer) {
                    Some(page) => engine.complete_prepared(NOW, id, page),
                    None => engine.complete(NOW, id, &answer),
                }
                .expect("an open call");
                "answered".into()
            }
            Route::Handle(routed) => {
                let result = (routed.handler)(&routed.target).into_tool_result().expect("text");
                engine.complete(NOW, id, &result).expect("an open call");
                router.finish(routed.context(), HookOutcome::Completed);
                "handled".into()
            }
            Route::BeginTask => {
                engine.tasks(NOW).begin(call, crate::server::TaskOptions::new()).expect("an open call");
                "begun".into()
            }
            Route::Refuse(error) => {
                engine.fail(NOW, id, &error).expect("an open call");
                "refused".into()
            }
            Route::Fallback => {
                engine.fail(NOW, id, &RpcError::method_not_found(call.method())).expect("an open call");
                "other".into()
            }
        }
    }
}

/// Returns the text of a tool result: the target of the handler.
pub(super) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

pub(super) fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_default()
}

pub(super) fn sample() -> TestRouter {
    let mut router = TestRouter::new("sample", "1");
    for name in ["zeta", "alpha", "mid"] {
        router.tool(tool(name), target_text).expect("a tool");
    }
    router
        .resource(Resource::new("test://static", "static").mime_type("text/plain"), target_text)
        .expect("a resource");
    for template in ["test://template/{id}/data", "test://{+rest}", "file:///{+path}"] {
        router.resource_template(ResourceTemplate::new(template, "t"), target_text).expect("a template");
    }
    let arguments = [PromptArgument::new("arg1").required(true), PromptArgument::new("arg2")];
    router.prompt(Prompt::new("greet").arguments(arguments), target_text).expect("a prompt");
    router.completion(PromptReference::new("greet"), "arg1", target_text).expect("a completion");
    let family = ResourceTemplateReference::new("test://template/{id}/data");
    router.completion(family, "id", target_text).expect("a completion");
    router
}

pub(super) fn names(answer: &Value, list: &str) -> Vec<String> {
    let entries = answer["result"][list].as_array().expect("a list");
    let name = |e: &Value| {
        ["uriTemplate", "uri", "name"].iter().find_map(|member| e[*member].as_str()).map(ToString::to_string)
    };
    entries.iter().map(|e| name(e).expect("a name")).collect()
}
