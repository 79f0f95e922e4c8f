//! `crowd-best PORT`: `echo-best-http` with the additional tool `change`, which notifies all clients that the list of
//! tools has changed.

use std::sync::{Arc, Mutex};

use mcp_benches_peers::EchoArguments;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    ServerCapabilities, ServerConfig, ServerNotification, SubscriptionFilter, ToolListChangedNotification,
};
use rmcp::service::{NotificationContext, Peer, SubscriptionContext, SubscriptionSink};
use rmcp::{ErrorData, RoleServer, ServerHandler, tool, tool_handler, tool_router};

/// The clients to notify.
#[derive(Clone, Default)]
struct Subscribers {
    legacy: Arc<Mutex<Vec<Peer<RoleServer>>>>,
    modern: Arc<Mutex<Vec<SubscriptionSink>>>,
}

#[derive(Clone)]
struct FanoutServer {
    tool_router: ToolRouter<Self>,
    subscribers: Subscribers,
}

#[tool_router]
impl FanoutServer {
    #[tool(description = "Says it again")]
    fn echo(&self, Parameters(words): Parameters<EchoArguments>) -> String {
        words.text()
    }

    #[tool(description = "Tells everybody")]
    async fn change(&self) -> String {
        // Concurrently: sequential notifications are much slower.
        let legacy: Vec<_> = self.subscribers.legacy.lock().expect("no panic").clone();
        let modern: Vec<_> = self.subscribers.modern.lock().expect("no panic").clone();
        let mut notifications = tokio::task::JoinSet::new();
        for peer in legacy {
            notifications.spawn(async move { peer.notify_tool_list_changed().await.is_ok() });
        }
        for sink in modern {
            let notification =
                ServerNotification::ToolListChangedNotification(ToolListChangedNotification::default());
            notifications.spawn(async move { sink.send(notification).await.is_ok() });
        }
        notifications.join_all().await.len().to_string()
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for FanoutServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.subscribers.legacy.lock().expect("no panic").push(context.peer);
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.subscribers.modern.lock().expect("no panic").push(context.sink().clone());
        context.cancelled().await;
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).ok_or("usage: crowd-best PORT")?;
    let crowd =
        FanoutServer { tool_router: FanoutServer::tool_router(), subscribers: Subscribers::default() };
    mcp_benches_peers::serve_http(&port, move || crowd.clone()).await
}
