//! `harbour-ours PORT`: the harbour server on `mcp-tower`, in axum.

use std::time::Duration;

use mcp_benches_peers::harbour::{self, CountArguments, HARBOURS, TideArguments, TripArguments};
use mcp_tower::mcp_proto::model::{Prompt, PromptArgument, PromptReference, Resource, ResourceTemplate};
use mcp_tower::mcp_proto::router::suggest;
use mcp_tower::{Cx, Json, McpService, Progress, Router, RpcError};

fn names() -> impl Iterator<Item = &'static str> {
    HARBOURS.into_iter().map(|(name, _)| name)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).ok_or("usage: harbour-ours PORT")?;
    let mut router = Router::new("harbour", "1.0.0");
    router
        .tool("tide", async |_: &mut Cx, TideArguments { harbour }| harbour::tide(&harbour).map(Json))
        .description("Returns the state of the tide");
    router
        .tool("count", async |cx: &mut Cx, CountArguments { ships }| {
            for ship in 1..=ships {
                cx.sleep(Duration::from_millis(10)).await?;
                cx.progress(Progress::new(ship.into()).with_total(ships.into()))?;
            }
            Ok::<_, RpcError>(format!("{ships} ships"))
        })
        .description("Counts ships as they come in");
    let list = Resource::new("harbour://list", "harbours").mime_type("text/plain");
    router.resource(list, async |_: &mut Cx, _| names().collect::<Vec<_>>().join("\n"));
    let berths = ResourceTemplate::new("harbour://berths/{name}", "berths");
    router.resource_template(berths, async |_: &mut Cx, read| {
        harbour::berths(read.variables.get("name")?).map(|berths| berths.to_string())
    });
    let trip = Prompt::new("trip")
        .description("Plans a trip")
        .arguments([PromptArgument::new("to").description("Name of the harbour.").required(true)]);
    router.prompt(trip, async |_: &mut Cx, TripArguments { to }| format!("Plan a trip to {to}."));
    router.completion(PromptReference::new("trip"), "to", async |_: &mut Cx, typed| {
        suggest(names(), typed.value())
    });

    let app = axum::Router::new().route_service("/mcp", McpService::new(router)?);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    axum::serve(listener, app).await.map_err(Into::into)
}
