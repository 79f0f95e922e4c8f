//! Echo on the official Rust SDK, in two ways: as its README shows, and as well as it allows.

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{ServerHandler, tool, tool_handler, tool_router};

/// Arguments of `echo`
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Words {
    text: String,
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
