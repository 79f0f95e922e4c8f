//! A tool that describes its client, and a hook that counts calls.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use std::sync::Mutex;

use mcp_proto::RawJson;
use mcp_proto::model::{Annotations, Resource, Role};
use mcp_proto::router::schema::{NoArguments, Typed, schemars};
use mcp_proto::router::{Hook, HookContext, HookOutcome, Subject};
use mcp_runtime::server::Cx;
use mcp_runtime::server::router::RegisterFunctions;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::demonstration::read_only;
use mcp_std::sync::lock;

/// Identity of the client, as it declares itself.
#[derive(Serialize, JsonSchema)]
struct CallerIdentity {
    revision: String,
    client: Value,
    capabilities: Value,
}

/// Number of calls for each registered tool, resource and prompt.
#[derive(Clone, Default)]
struct VisitCounts(Arc<Mutex<BTreeMap<String, u32>>>);

impl Hook for VisitCounts {
    fn after_call(&self, asked: &HookContext<'_>, _: HookOutcome<'_>) {
        // Only registered names are counted, so clients cannot make the map grow without bound.
        if let Subject::Tool(name) | Subject::Resource(name) | Subject::Prompt(name) = asked.subject() {
            *lock(&self.0).entry(name.to_owned()).or_default() += 1;
        }
    }
}

pub(super) fn register(router: &mut impl RegisterFunctions) {
    let whoami = |cx: &mut Cx<'_>, _: NoArguments| {
        let peer = cx.peer();
        let value = |raw: &RawJson| raw.parse().unwrap_or_default();
        Typed(CallerIdentity {
            revision: peer.version.to_string(),
            client: peer.info.as_ref().map(value).unwrap_or_default(),
            capabilities: value(&peer.capabilities),
        })
    };
    router
        .tool("whoami", whoami)
        .title("Who am I")
        .description("Returns what the server knows about its client")
        .annotations(read_only());

    let visits = VisitCounts::default();
    router.hook(visits.clone());
    let resource = Resource::new("visits://calls", "calls")
        .title("Calls so far")
        .description("Number of calls of each entry")
        .mime_type("application/json")
        .annotations(Annotations::new().audience([Role::User, Role::Assistant]).priority(0.2));
    router.resource(resource, move |_, _| serde_json::to_string(&*lock(&visits.0)));
}
