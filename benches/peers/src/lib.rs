//! Echo on the official Rust SDK, in two ways: as its README shows, and as well as it allows.

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{ServerHandler, tool, tool_handler, tool_router};

/// Arguments of `echo`
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Words {
    text: String,
}

impl Words {
    /// What they say
    #[must_use]
    pub fn text(self) -> String {
        self.text
    }
}

/// As the README shows: this macro builds the router anew for every request
#[derive(Clone)]
pub struct Readme;

#[tool_router(server_handler)]
impl Readme {
    #[tool(description = "Says it again")]
    fn echo(&self, Parameters(Words { text }): Parameters<Words>) -> String {
        text
    }
}

/// With the router kept
#[derive(Clone)]
pub struct Best {
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl Best {
    #[tool(description = "Says it again")]
    fn echo(&self, Parameters(Words { text }): Parameters<Words>) -> String {
        text
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Best {}

impl Default for Best {
    fn default() -> Self {
        Self { tool_router: Self::tool_router() }
    }
}

/// Serves over HTTP as well as it goes: answers in one piece, on sockets that do not wait for more
#[cfg(feature = "http")]
pub async fn serve_http<S: ServerHandler + Send + 'static>(
    port: &str,
    make: impl Fn() -> S + Send + Sync + 'static,
) -> Result<(), Box<dyn std::error::Error>> {
    use axum::serve::ListenerExt as _;
    use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
    use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

    let config = StreamableHttpServerConfig::default().with_json_response(true);
    let service = StreamableHttpService::new(move || Ok(make()), LocalSessionManager::default().into(), config);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
