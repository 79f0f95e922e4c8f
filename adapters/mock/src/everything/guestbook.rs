//! A guest book: a tool that asks for a name, and a resource that it changes.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use std::sync::Mutex;

use mcp_proto::model::{ElicitOutcome, Resource, ToolAnnotations};
use mcp_proto::router::schema::{NoArguments, schemars};
use mcp_proto::{Change, RpcError};
use mcp_runtime::server::Cx;
use mcp_runtime::server::router::RegisterFunctions;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::TourStep;
use mcp_std::sync::lock;

const PAGE: &str = "guestbook://page";
/// Maximum number of names on the page.
const MAX_NAMES: usize = 20;

/// The form that the tool sends.
#[derive(Deserialize, JsonSchema)]
struct GuestForm {
    /// Your name
    #[schemars(length(min = 1, max = 40))]
    name: String,
}

/// Registers the tool and the resource; `broken` is the step of the tour to perform wrongly.
pub(super) fn register(router: &mut impl RegisterFunctions, broken: Option<TourStep>) {
    let names = Arc::new(Mutex::new(VecDeque::<String>::new()));
    let written = Arc::clone(&names);
    let sign = move |cx: &mut Cx<'_>, _: NoArguments| {
        if broken == Some(TourStep::Ask) {
            return Ok("Hello!".to_owned());
        }
        let ElicitOutcome::Accepted(GuestForm { name }) =
            cx.elicit_as::<GuestForm>("guest", "Who are you?")?
        else {
            return Ok("Never mind.".to_owned());
        };
        let greeting = format!("Hello, {name}!");
        let mut names = lock(&written);
        if names.len() >= MAX_NAMES {
            names.pop_front();
        }
        names.push_back(name);
        drop(names);
        if broken != Some(TourStep::Change) {
            cx.publish(&Change::Resource(PAGE.into()));
        }
        Ok::<_, RpcError>(greeting)
    };
    router
        .tool("sign", sign)
        .title("Sign the guest book")
        .description("Asks for a name with a form and writes it to guestbook://page")
        .annotations(
            ToolAnnotations::new().read_only_hint(false).destructive_hint(false).open_world_hint(false),
        );
    let resource =
        Resource::new(PAGE, "guest book").description("Names of the guests").mime_type("text/plain");
    router.resource(resource, move |_, _| {
        lock(&names).iter().map(|name| format!("{name}\n")).collect::<String>()
    });
}
