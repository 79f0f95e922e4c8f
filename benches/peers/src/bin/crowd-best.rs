//! `crowd-best PORT`: as `echo-best-http`, with the tool `change`, which tells everybody that the list of tools has changed

use std::sync::{Arc, Mutex};

use mcp_benches_peers::Words;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{ServerCapabilities, ServerConfig, ServerNotification, SubscriptionFilter, ToolListChangedNotification};
use rmcp::service::{NotificationContext, Peer, SubscriptionContext, SubscriptionSink};
use rmcp::{ErrorData, RoleServer, ServerHandler, tool, tool_handler, tool_router};

/// Who is told
#[derive(Clone, Default)]
struct Everybody {
    legacy: Arc<Mutex<Vec<Peer<RoleServer>>>>,
    modern: Arc<Mutex<Vec<SubscriptionSink>>>,
}

#[derive(Clone)]
struct Crowd {
    tool_router: ToolRouter<Self>,
    everybody: Everybody,
}

#[tool_router]
impl Crowd {
    #[tool(description = "Says it again")]
    fn echo(&self, Parameters(words): Parameters<Words>) -> String {
        words.text()
    }

    #[tool(description = "Tells everybody")]
    async fn change(&self) -> String {
        // At the same time: one after the other would be slower by far.
        let legacy: Vec<_> = self.everybody.legacy.lock().expect("no panic").clone();
        let modern: Vec<_> = self.everybody.modern.lock().expect("no panic").clone();
        let mut told = tokio::task::JoinSet::new();
        for peer in legacy {
            told.spawn(async move { peer.notify_tool_list_changed().await.is_ok() });
        }
        for sink in modern {
            let news = ServerNotification::ToolListChangedNotification(ToolListChangedNotification::default());
            told.spawn(async move { sink.send(news).await.is_ok() });
        }
        told.join_all().await.len().to_string()
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Crowd {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.everybody.legacy.lock().expect("no panic").push(context.peer);
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.everybody.modern.lock().expect("no panic").push(context.sink().clone());
        context.cancelled().await;
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).ok_or("usage: crowd-best PORT")?;
    let crowd = Crowd { tool_router: Crowd::tool_router(), everybody: Everybody::default() };
    mcp_benches_peers::serve_http(&port, move || crowd.clone()).await
}
