//! Who asks, and for what: a tool that knows its client, a hook that counts calls

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use std::sync::Mutex;

use mcp_proto::RawJson;
use mcp_proto::model::{Annotations, Resource, Role};
use mcp_proto::router::schema::{self, NoArguments, Typed, schemars};
use mcp_proto::router::{Asked, Hook, Outcome, Subject};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Router, lock};
use crate::serve::harmless;

/// What is known of a client, who says it of itself
#[derive(Serialize, JsonSchema)]
struct Who {
    revision: String,
    client: Value,
    capabilities: Value,
}

/// How often each thing that is registered was asked for
#[derive(Clone, Default)]
struct Visits(Arc<Mutex<BTreeMap<String, u32>>>);

impl Hook for Visits {
    fn after(&self, asked: &Asked<'_>, _: Outcome<'_>) {
        // Names that are registered, so clients cannot make this grow.
        if let Subject::Tool(name) | Subject::Resource(name) | Subject::Prompt(name) = asked.subject() {
            *lock(&self.0).entry(name.to_owned()).or_default() += 1;
        }
    }
}

pub(super) fn register(router: &mut Router) {
    let tool = harmless(schema::tool::<NoArguments>("whoami")).title("Who am I");
    router.tool_with(
        tool.description("What the server knows of its client"),
        handler!(|cx, _: NoArguments| {
            let peer = cx.peer();
            let value = |raw: &RawJson| raw.parse().unwrap_or_default();
            Typed(Who {
                revision: peer.version.to_string(),
                client: peer.info.as_ref().map(value).unwrap_or_default(),
                capabilities: value(&peer.capabilities),
            })
        }),
    );

    let visits = Visits::default();
    router.hook(visits.clone());
    let resource = Resource::new("visits://calls", "calls")
        .title("Calls so far")
        .description("What was called how often")
        .mime_type("application/json")
        .annotations(Annotations::new().audience([Role::User, Role::Assistant]).priority(0.2));
    router.resource(resource, handler!(|_, _| serde_json::to_string(&*lock(&visits.0))));
}
