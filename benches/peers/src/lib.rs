//! Servers on the official Rust SDK in two forms: as in its README, and as fast as it allows.

pub mod harbour;

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{ServerHandler, tool, tool_handler, tool_router};

/// Arguments of `echo`.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct EchoArguments {
    text: String,
}

impl EchoArguments {
    /// Returns the text.
    #[must_use]
    pub fn text(self) -> String {
        self.text
    }
}

/// Server of the README: this macro builds the router for every request.
#[derive(Clone)]
pub struct ReadmeServer;

#[tool_router(server_handler)]
impl ReadmeServer {
    #[tool(description = "Says it again")]
    fn echo(&self, Parameters(EchoArguments { text }): Parameters<EchoArguments>) -> String {
        text
    }
}

/// Server with a cached router.
#[derive(Clone)]
pub struct CachedRouterServer {
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl CachedRouterServer {
    #[tool(description = "Says it again")]
    fn echo(&self, Parameters(EchoArguments { text }): Parameters<EchoArguments>) -> String {
        text
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for CachedRouterServer {}

impl Default for CachedRouterServer {
    fn default() -> Self {
        Self { tool_router: Self::tool_router() }
    }
}

/// Serves HTTP as fast as rmcp allows: each response in one piece, sockets with `TCP_NODELAY`.
#[cfg(feature = "http")]
pub async fn serve_http<S: ServerHandler + Send + 'static>(
    port: &str,
    make: impl Fn() -> S + Send + Sync + 'static,
) -> Result<(), Box<dyn std::error::Error>> {
    use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
    use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

    let config = StreamableHttpServerConfig::default().with_json_response(true);
    let service =
        StreamableHttpService::new(move || Ok(make()), LocalSessionManager::default().into(), config);
    serve_axum(port, axum::Router::new().nest_service("/mcp", service)).await
}

/// Serves an application on sockets with `TCP_NODELAY`.
#[cfg(any(feature = "http", feature = "axum"))]
pub async fn serve_axum(port: &str, app: axum::Router) -> Result<(), Box<dyn std::error::Error>> {
    use axum::serve::ListenerExt as _;

    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
    axum::serve(listener, app).await?;
    Ok(())
}
