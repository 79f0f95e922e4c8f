//! A server of the tasks extension (2026-07-28), for our client: the tools of `../node/tasks-server.mjs`.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use rmcp::transport::io::stdio;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::{Value, json};

use crate::PeerArgs;

#[derive(Clone, Default)]
struct TaskServer {
    tasks: TaskManager,
}

pub(crate) async fn serve(given: PeerArgs) {
    let server = TaskServer::default();
    let Some(port) = given.option("--http") else {
        let served = server.serve(stdio()).await.expect("a client");
        served.waiting().await.expect("no panic");
        return;
    };
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("a port");
    eprintln!("listening on http://{}/mcp", listener.local_addr().expect("an address"));
    axum::serve(listener, router).await.expect("to serve");
}

/// Asks for a basin and dredges it.
async fn dredge(cx: TaskContext, depth: u64) -> Result<CallToolResult, TaskExit> {
    cx.set_status_message("sounding");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let form = json!({"type": "object", "properties": {"basin": {"type": "string"}}, "required": ["basin"]});
    let params = json!({"mode": "form", "message": "Which basin?", "requestedSchema": form});
    let request = json!({"method": "elicitation/create", "params": params});
    let request = serde_json::from_value(request).expect("an input request");
    let answer = cx.request_input("basin", request).await?;
    let basin = answer["content"]["basin"].as_str().unwrap_or("none").to_owned();
    Ok(CallToolResult::success(vec![ContentBlock::text(format!("dredged {basin} to {depth} m"))]))
}

impl ServerHandler for TaskServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object", "properties": {"depth": {"type": "integer"}}});
        let tools = ["dredge", "endless"].map(|name| json!({"name": name, "inputSchema": schema}));
        let list: Value =
            json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"});
        Ok(serde_json::from_value(list).expect("a list"))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let depth = arguments["depth"].as_u64().unwrap_or_default();
        let is_endless = request.name == "endless";
        let options = TaskOptions::new().with_poll_interval_ms(50);
        let task = self.tasks.spawn(options, move |cx| {
            Box::pin(async move {
                if is_endless {
                    cx.cancelled().await;
                    return Err(TaskExit::Cancelled);
                }
                dredge(cx, depth).await
            })
        });
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}
