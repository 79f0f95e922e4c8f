//! `harbour-rmcp PORT`: the harbour server on rmcp 3.11.0, in axum.

use std::time::Duration;

use mcp_benches_peers::harbour::{self, CountArguments, HARBOURS, Tide, TideArguments, TripArguments};
use rmcp::handler::server::router::{prompt::PromptRouter, tool::ToolRouter};
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, ListResourceTemplatesResult, ListResourcesResult,
    PaginatedRequestParams, ProgressNotificationParam, PromptMessage, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Reference, Resource, ResourceContents, ResourceTemplate, Role,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, prompt, prompt_handler, prompt_router, tool, tool_handler,
    tool_router,
};

#[derive(Clone)]
struct Harbour {
    tool_router: ToolRouter<Self>,
    prompt_router: PromptRouter<Self>,
}

#[tool_router]
impl Harbour {
    #[tool(description = "Returns the state of the tide")]
    fn tide(
        &self,
        Parameters(TideArguments { harbour }): Parameters<TideArguments>,
    ) -> Result<Json<Tide>, String> {
        harbour::tide(&harbour).map(Json)
    }

    #[tool(description = "Counts ships as they come in")]
    async fn count(
        &self,
        Parameters(CountArguments { ships }): Parameters<CountArguments>,
        cx: RequestContext<RoleServer>,
    ) -> Result<String, ErrorData> {
        for ship in 1..=ships {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(10)) => {}
                () = cx.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
            }
            if let Some(token) = cx.meta.get_progress_token() {
                let progress = ProgressNotificationParam::new(token, ship.into()).with_total(ships.into());
                let sent = cx.peer.notify_progress(progress).await;
                sent.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            }
        }
        Ok(format!("{ships} ships"))
    }
}

#[prompt_router]
impl Harbour {
    #[prompt(description = "Plans a trip")]
    fn trip(&self, Parameters(TripArguments { to }): Parameters<TripArguments>) -> Vec<PromptMessage> {
        vec![PromptMessage::new_text(Role::User, format!("Plan a trip to {to}."))]
    }
}

#[tool_handler(router = self.tool_router)]
#[prompt_handler(router = self.prompt_router)]
impl ServerHandler for Harbour {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .enable_completions()
            .build();
        ServerConfig::new(capabilities)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let list = Resource::new("harbour://list", "harbours").with_mime_type("text/plain");
        Ok(ListResourcesResult::with_all_items(vec![list]))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let berths = ResourceTemplate::new("harbour://berths/{name}", "berths");
        Ok(ListResourceTemplatesResult::with_all_items(vec![berths]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let contents = if uri == "harbour://list" {
            let names: Vec<_> = HARBOURS.into_iter().map(|(name, _)| name).collect();
            ResourceContents::text(names.join("\n"), uri).with_mime_type("text/plain")
        } else if let Some(berths) = uri.strip_prefix("harbour://berths/").and_then(harbour::berths) {
            ResourceContents::text(berths.to_string(), uri)
        } else {
            return Err(ErrorData::resource_not_found("resource not found", None));
        };
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let is_known = match &request.r#ref {
            Reference::Prompt(prompt) => prompt.name == "trip" && request.argument.name == "to",
            Reference::Resource(template) => {
                template.uri == "harbour://berths/{name}" && request.argument.name == "name"
            }
            _ => false,
        };
        if !is_known {
            return Err(ErrorData::invalid_params("unknown argument", None));
        }
        let names = HARBOURS.into_iter().map(|(name, _)| name);
        let typed = &request.argument.value;
        let values = names.filter(|name| name.starts_with(typed)).map(String::from).collect();
        let completion =
            CompletionInfo::new(values).map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).ok_or("usage: harbour-rmcp PORT")?;
    let harbour = Harbour { tool_router: Harbour::tool_router(), prompt_router: Harbour::prompt_router() };
    let service = StreamableHttpService::new(
        move || Ok(harbour.clone()),
        LocalSessionManager::default().into(),
        StreamableHttpServerConfig::default(),
    );
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
