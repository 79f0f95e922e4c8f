//! A guest book: one tool that asks for a name, and a resource that changes by it

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use std::sync::Mutex;

use mcp_proto::model::{Elicited, Resource, ToolAnnotations};
use mcp_proto::router::schema::{self, NoArguments, schemars};
use mcp_proto::{Change, RpcError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Router, lock};
use crate::demo::Step;

const PAGE: &str = "guestbook://page";
/// Names that fit on it
const ROOM: usize = 20;

/// What the form asks for
#[derive(Deserialize, JsonSchema)]
struct Guest {
    /// Your name
    #[schemars(length(min = 1, max = 40))]
    name: String,
}

/// Registers both; `broken` is what the tour wants to be done wrong
pub(super) fn register(router: &mut Router, broken: Option<Step>) {
    let names = Arc::new(Mutex::new(VecDeque::<String>::new()));
    let written = Arc::clone(&names);
    let tool = schema::tool::<NoArguments>("sign").title("Sign the guest book").annotations(
        ToolAnnotations::new().read_only_hint(false).destructive_hint(false).open_world_hint(false),
    );
    let tool = tool.description("Asks for a name by a form, and writes it into guestbook://page");
    router.tool_with(
        tool,
        handler!(|cx, _: NoArguments| {
            if broken == Some(Step::Ask) {
                return Ok("Hello!".to_owned());
            }
            let Elicited::Accepted(Guest { name }) = cx.elicit_as::<Guest>("guest", "Who are you?")? else {
                return Ok("Never mind.".to_owned());
            };
            let greeting = format!("Hello, {name}!");
            let mut names = lock(&written);
            if names.len() >= ROOM {
                names.pop_front();
            }
            names.push_back(name);
            drop(names);
            if broken != Some(Step::Change) {
                cx.publish(&Change::Resource(PAGE.into()));
            }
            Ok::<_, RpcError>(greeting)
        }),
    );
    let resource = Resource::new(PAGE, "guest book").description("Who has signed").mime_type("text/plain");
    router.resource(
        resource,
        handler!(|_, _| { lock(&names).iter().map(|name| format!("{name}\n")).collect::<String>() }),
    );
}
