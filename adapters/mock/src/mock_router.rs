//! The router of a mocked server, for the adapter that includes this file.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use serde_json::{Value, json};

use super::Router;
use crate::Definition;

/// Answers a request after its delay.
macro_rules! reply {
    ($cx:ident, $answers:ident, $request:expr) => {{
        let reply = $answers.choose(&$request);
        wait!($cx.sleep(reply.after))?;
        reply.outcome
    }};
}

/// Creates the router of a definition.
pub(super) fn build(definition: &Definition) -> Router {
    let mut router = Router::new(definition.info.name.clone(), definition.info.version.clone());
    // What is answered is said by the definition alone.
    router.clear_validator();
    router.core().info(definition.info.clone());
    if let Some(instructions) = &definition.instructions {
        router.core().instructions(instructions.clone());
    }
    for (tool, answers) in &definition.tools {
        let answers = Arc::clone(answers);
        router.tool_with(tool.clone(), handler!(|cx, arguments: Value| reply!(cx, answers, arguments)));
    }
    for (resource, answers) in &definition.resources {
        let answers = Arc::clone(answers);
        router
            .resource(resource.clone(), handler!(|cx, read| reply!(cx, answers, json!({ "uri": read.uri }))));
    }
    for (template, answers) in &definition.templates {
        let answers = Arc::clone(answers);
        router.resource_template(
            template.clone(),
            handler!(|cx, read| reply!(cx, answers, json!({ "uri": read.uri }))),
        );
    }
    for (prompt, answers) in &definition.prompts {
        let answers = Arc::clone(answers);
        let handler =
            handler!(|cx, arguments: BTreeMap<String, String>| reply!(cx, answers, json!(arguments)));
        router.prompt(prompt.clone(), handler);
    }
    router
}
