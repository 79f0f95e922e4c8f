//! The router of a mocked server, for the adapter that includes this file.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use serde_json::{Value, json};

use super::Router;
use crate::serve::mock::Definition;

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
        let handler = handler!(|cx, arguments: Value| {
            let reply = answers.choose(&arguments);
            wait!(cx.sleep(reply.after))?;
            reply.outcome
        });
        router.tool_with(tool.clone(), handler);
    }
    for (resource, answers) in &definition.resources {
        let answers = Arc::clone(answers);
        router.resource(
            resource.clone(),
            handler!(|cx, read| {
                let reply = answers.choose(&json!({ "uri": read.uri }));
                wait!(cx.sleep(reply.after))?;
                reply.outcome
            }),
        );
    }
    for (template, answers) in &definition.templates {
        let answers = Arc::clone(answers);
        router.resource_template(
            template.clone(),
            handler!(|cx, read| {
                let reply = answers.choose(&json!({ "uri": read.uri }));
                wait!(cx.sleep(reply.after))?;
                reply.outcome
            }),
        );
    }
    for (prompt, answers) in &definition.prompts {
        let answers = Arc::clone(answers);
        let handler = handler!(|cx, arguments: BTreeMap<String, String>| {
            let reply = answers.choose(&json!(arguments));
            wait!(cx.sleep(reply.after))?;
            reply.outcome
        });
        router.prompt(prompt.clone(), handler);
    }
    router
}
