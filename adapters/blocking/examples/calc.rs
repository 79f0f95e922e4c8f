//! A calculator server on stdin and stdout with one typed tool, in ten lines.

use mcp_blocking::{Router, schemars};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

fn main() -> Result<(), mcp_blocking::Error> {
    let mut router = Router::new("calculator", "1.0.0");
    router.tool("add", |_, Add { a, b }: Add| a + b).description("Adds two numbers");
    router.serve_stdio()
}
