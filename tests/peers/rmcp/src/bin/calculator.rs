//! A server on stdin and stdout. The guide (`adapters/tokio/src/guide/from_rmcp.md`) shows it beside ours, from the first
//! blank line on; a test of `mcp-system-tests` compares both.

use std::time::Duration;

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::model::*;
use rmcp::service::RequestContext;
use rmcp::transport::stdio;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt, tool, tool_handler, tool_router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Sum {
    sum: f64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Count {
    to: u32,
}

#[derive(Clone)]
struct Calculator {
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl Calculator {
    #[tool(description = "Adds two numbers")]
    fn add(&self, Parameters(Add { a, b }): Parameters<Add>) -> Json<Sum> {
        Json(Sum { sum: a + b })
    }

    #[tool(description = "Counts, slowly")]
    async fn count(
        &self,
        Parameters(Count { to }): Parameters<Count>,
        cx: RequestContext<RoleServer>,
    ) -> Result<String, ErrorData> {
        for n in 1..=to {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
                () = cx.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
            }
            if let Some(token) = cx.meta.get_progress_token() {
                let progress = ProgressNotificationParam::new(token, n.into()).with_total(to.into());
                let sent = cx.peer.notify_progress(progress).await;
                sent.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            }
        }
        Ok(format!("{to} counted"))
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Calculator {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_resources().build())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new("calc://pi", "pi")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match &*request.uri {
            "calc://pi" => {
                Ok(ReadResourceResult::new(vec![ResourceContents::text("3.14159", request.uri)]).into())
            }
            _ => Err(ErrorData::resource_not_found("resource not found", None)),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let calculator = Calculator { tool_router: Calculator::tool_router() };
    calculator.serve(stdio()).await?.waiting().await?;
    Ok(())
}
